"""Audit cases for Frank-Wolfe on trees: what is released at leaves or vertices.

Losses of experts come closest to the certificate, at a root.
"""

from __future__ import annotations

from dataclasses import fields, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, changes
from hedgerow.audits.cases.releases import (
    expert_pairs,
    mechanisms_of,
    release_cases,
    worst_pair,
)
from hedgerow.core.certificate import Observer
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow_papers.gao2024.tree_roles import FrankWolfeClient, VertexClientState

if TYPE_CHECKING:
    from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe
    from hedgerow_papers.gao2024.trees import Step

FIRST, ROUNDS = 3, 8  # the first round of the phase of 4 rounds, which has one tree
NEAR = 2.0  # how far behind the worse expert is, in units of noise
Cases = tuple[AuditCase, ...]


def cases(spec: FrankWolfe) -> Cases:
    """The null case, the worst stream, too little noise, and a bug: a record in two batches."""
    played = replace(spec, trees=1, honest=None)
    clients = {"central": 2, "distributed": 5, "local": 1}[spec.trust]
    algorithm, gap = played.build(Setting(clients, 2, ROUNDS)), 0.0
    if _chooses(spec):
        algorithm, gap = behind(played, NEAR)
    whole = worst_stream(spec, algorithm, gap, parameters=changes(spec, played))
    first, second = two_experts(algorithm.setting.clients, gap)
    again = replace(
        whole[1],
        name="all releases, a record in two batches",
        first=whole[1].first if _chooses(spec) else first,
        second=whole[1].second if _chooses(spec) else second,
        algorithm=_reusing(algorithm),
        expected="violated",
    )
    return *whole, again


def two_experts(clients: int, gap: float, experts: int = 2) -> tuple[Array, Array]:
    """Losses of a game with one tree in its last phase; the datum is in the batch of the root.

    At all other clients expert 0 loses `gap` in every round, so choosing it reveals much.
    """
    first = np.zeros((ROUNDS, clients, experts))
    first[:, 1:, 0] = gap
    second = first.copy()
    first[FIRST, 0], second[FIRST, 0] = 0.0, 1.0
    return first, second


def behind(spec: FrankWolfe, lead: float) -> tuple[Algorithm, float]:
    """A game of choices, and the loss by which other clients put expert 0 `lead` noises behind.

    It adds up over the two rounds of a batch.
    """
    ((_, _, choice),) = mechanisms_of(spec.build(Setting(2, 2, ROUNDS)))
    needed = lead * (choice.noise_scale() or 0.0) / 2
    others = min(2000, ceil(needed))
    gap = float(round_to_lattice(min(1.0, needed / others)))
    return spec.build(Setting(1 + others, 2, ROUNDS)), gap


def worst_stream(spec: FrankWolfe, algorithm: Algorithm, gap: float = 0.0, **names: Any) -> Cases:
    """Everything that is released about a record: where the server chooses, one of a root.

    A trusted server that adds noise to vertices shows none of them. The certificate promises as
    much to a peer that sees them, and this is attacked.
    """
    central, chooses = spec.trust == "central", _chooses(spec)
    observer = Observer.PEER if central else Observer.SERVER
    if chooses:
        first, second = two_experts(algorithm.setting.clients, gap)
        first[FIRST, 0], second[FIRST, 0] = (0.0, 1.0), (1.0, 0.0)  # opposite moves
    else:
        first, second = worst_pair(algorithm, expert_pairs(algorithm.setting), observer)
    claim = RELEASES if central and not chooses else WHOLE
    return release_cases(algorithm, first, second, observer=observer, claim=claim, **names)


def _chooses(spec: FrankWolfe) -> bool:
    """Whether a trusted server chooses vertices privately."""
    return spec.trust == "central" and spec.placement == "leaf"


class Reusing(FrankWolfeClient):
    """The bug: right children take the records of the root again."""

    def _increment(self, state: VertexClientState, step: Step) -> Array:
        return super()._increment(state, replace(step, level=0))


def _reusing(algorithm: Algorithm) -> Algorithm:
    parts = {part.name: getattr(algorithm.client, part.name) for part in fields(FrankWolfeClient)}
    return replace(algorithm, client=Reusing(**parts))
