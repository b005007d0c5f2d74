"""Audit cases for Frank-Wolfe on trees: what is released at leaves or vertices.

Losses of experts come closest to the certificate, at a root. The printed noise has its own streams:
ten experts where clients add it, and two Huber losses where the server chooses.
"""

from __future__ import annotations

from dataclasses import fields, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.gradient.tree_roles import ClientState, FrankWolfeClient
from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, changes
from hedgerow.audits.cases.parts import peer_curve, with_curve
from hedgerow.audits.cases.releases import (
    expert_pairs,
    mechanisms_of,
    release_cases,
    worst_pair,
)
from hedgerow.core.certificate import Observer
from hedgerow.core.convex import Huber, OnSimplex
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.protocol import Algorithm
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import PureDP

if TYPE_CHECKING:
    from hedgerow.algorithms.gradient.frank_wolfe import FrankWolfe
    from hedgerow.algorithms.gradient.trees import Step

FIRST, ROUNDS = 3, 8  # the first round of the phase of 4 rounds, which has one tree
SHARP, CROWD = OnSimplex(Huber(threshold=0.02)), 5
FAR, NEAR = 25.0, 2.0  # how far behind the worse expert is, in units of noise
Cases = tuple[AuditCase, ...]


def cases(spec: FrankWolfe) -> Cases:
    """The null case, then the worst stream, then the bugs that must be caught."""
    if spec.calibration == "published":
        return _published_choice(spec) if spec.trust == "central" else _published_local(spec)
    return _released(spec)


def _two_experts(clients: int, gap: float, experts: int = 2) -> tuple[Array, Array]:
    """Losses of a game with one tree in its last phase; the datum is in the batch of the root.

    At all other clients expert 0 loses `gap` in every round, so choosing it reveals much.
    """
    first = np.zeros((ROUNDS, clients, experts))
    first[:, 1:, 0] = gap
    second = first.copy()
    first[FIRST, 0], second[FIRST, 0] = 0.0, 1.0
    return first, second


def _behind(spec: FrankWolfe, lead: float) -> tuple[Algorithm, float]:
    """A game of choices, and the loss by which other clients put expert 0 `lead` noises behind.

    It adds up over the two rounds of a batch.
    """
    ((_, _, choice),) = mechanisms_of(spec.build(Setting(2, 2, ROUNDS)))
    needed = lead * (choice.noise_scale() or 0.0) / 2
    others = min(2000, ceil(needed))
    gap = float(round_to_lattice(min(1.0, needed / others)))
    return spec.build(Setting(1 + others, 2, ROUNDS)), gap


def _worst(spec: FrankWolfe, algorithm: Algorithm, gap: float = 0.0, **names: Any) -> Cases:
    """Everything that is released about a record: where the server chooses, one of a root.

    A trusted server that adds noise to vertices shows none of them. The certificate promises as
    much to a peer that sees them, and this is attacked.
    """
    central, chooses = spec.trust == "central", _chooses(spec)
    observer = Observer.PEER if central else Observer.SERVER
    if chooses:
        first, second = _two_experts(algorithm.setting.clients, gap)
        first[FIRST, 0], second[FIRST, 0] = (0.0, 1.0), (1.0, 0.0)  # opposite moves
    else:
        first, second = worst_pair(algorithm, expert_pairs(algorithm.setting), observer)
    claim = RELEASES if central and not chooses else WHOLE
    return release_cases(algorithm, first, second, observer=observer, claim=claim, **names)


def _chooses(spec: FrankWolfe) -> bool:
    """Whether a trusted server chooses vertices privately."""
    return spec.trust == "central" and spec.placement == "leaf"


def _released(spec: FrankWolfe) -> Cases:
    """The worst stream, and a bug: a record in two batches."""
    played = replace(spec, trees=1, honest=None)
    clients = {"central": 2, "distributed": 5, "local": 1}[spec.trust]
    algorithm, gap = played.build(Setting(clients, 2, ROUNDS)), 0.0
    if _chooses(spec):
        algorithm, gap = _behind(played, NEAR)
    whole = _worst(spec, algorithm, gap, parameters=changes(spec, played))
    first, second = _two_experts(algorithm.setting.clients, gap)
    again = replace(
        whole[1],
        name="all releases, a record in two batches",
        first=whole[1].first if _chooses(spec) else first,
        second=whole[1].second if _chooses(spec) else second,
        algorithm=_reusing(algorithm),
        expected="violated",
    )
    return *whole, again


class Reusing(FrankWolfeClient):
    """The bug: right children take the records of the root again."""

    def _increment(self, state: ClientState, step: Step) -> Array:
        return super()._increment(state, replace(step, level=0))


def _reusing(algorithm: Algorithm) -> Algorithm:
    parts = {part.name: getattr(algorithm.client, part.name) for part in fields(FrankWolfeClient)}
    return replace(algorithm, client=Reusing(**parts))


def _claimed(case: AuditCase, spec: FrankWolfe) -> AuditCase:
    """The printed noise against what the paper claims."""
    claim = PureDP(spec.epsilon)
    return replace(
        case,
        name=f"{case.name}, as claimed",
        algorithm=with_curve(case.algorithm, claim),
        certified=claim,
        expected="violated",
    )


def _published_local(spec: FrankWolfe) -> Cases:
    """Ten experts, so that the coordinates of one vector add up to more than is claimed."""
    played = replace(spec, trees=1)
    algorithm = played.build(Setting(1, 10, ROUNDS))
    streams = _two_experts(1, 0.0, experts=10)
    whole = release_cases(algorithm, *streams, parameters=changes(spec, played))
    return *whole, _claimed(whole[1], spec)


def _published_choice(spec: FrankWolfe) -> Cases:
    """Losses of experts, then two Huber losses that show more than is claimed.

    They belong to a right child and move the leader and another expert apart. All clients together
    make expert 1 the point of the phase, and expert 0 the choice at the first leaf.
    """
    linear = replace(spec, trees=1)
    far, near = (
        _worst(spec, *_behind(linear, lead), of=of, parameters=changes(spec, linear))
        for lead, of in ((FAR, ""), (NEAR, ", a likelier choice"))
    )
    null, worst, less, _ = far
    played = replace(spec, epsilon=4.0, trees=1)
    algorithm = played.build(Setting(CROWD, 3, 8, family=SHARP))
    first = np.zeros((8, CROWD, 4))
    first[:3, :, 1], first[3:5, :, 0] = 1.0, 1.0
    first[:5, :, -1] = 1.0  # far targets: the gradient points away from the feature
    second = first.copy()
    # slopes change from one end to the other between the points (0, 1, 0) and (1, 0, 0)
    first[5, 0], second[5, 0] = (0.7, 0.0, -0.7, 0.35), (-0.4, -0.45, 0.79, -0.425)
    huber = replace(
        worst,
        name="two Huber losses",
        algorithm=algorithm,
        certified=peer_curve(algorithm),
        first=Replay(first, SHARP),
        second=Replay(second, SHARP),
        parameters=changes(spec, played),
    )
    return null, worst, less, near[1], near[3], huber, _claimed(huber, played)
