"""Audit cases for combination in vector mode: one target, far below or far above all forecasts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.algorithms.mixture.games import FAMILY
from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, changes
from hedgerow.audits.cases.releases import release_cases, worst_pair
from hedgerow.core.certificate import Observer
from hedgerow.core.replay import Replay

if TYPE_CHECKING:
    from hedgerow_papers.ours.vector_mixture import VectorMixture

ROUNDS = 17
TWICE = (0, 2)


def cases(spec: VectorMixture) -> tuple[AuditCase, ...]:
    """The null case, the target that moves most releases, too little noise, a target used twice.

    A trusted server shows peers weights only. The certificate promises as much to a peer that sees
    the releases, and this is attacked.
    """
    central, clients = spec.trust == "central", 4 if spec.trust == "distributed" else 1
    played = replace(spec, honest=None)
    observer = Observer.PEER if central else Observer.SERVER
    algorithm = played.build(_game(clients, (), 0.0).setting)
    pairs = (
        (_game(clients, (when,), -15.0), _game(clients, (when,), 15.0)) for when in range(ROUNDS)
    )
    whole = release_cases(
        algorithm,
        *worst_pair(algorithm, pairs, observer),
        observer=observer,
        claim=RELEASES if central else WHOLE,
        parameters=changes(spec, played),
    )
    again = replace(
        whole[1],
        name="all releases, a target that is used in two rounds",
        first=_game(clients, TWICE, -15.0),
        second=_game(clients, TWICE, 15.0),
        expected="violated",
    )
    return *whole, again


def _game(clients: int, when: tuple[int, ...], target: float) -> Replay:
    """Two forecasts at each client, and the target of the first one in some rounds; else 0."""
    records = np.zeros((ROUNDS, clients, 3))
    records[..., :2] = (-1.0, 1.0)
    records[list(when), 0, -1] = target
    return Replay(records, FAMILY)
