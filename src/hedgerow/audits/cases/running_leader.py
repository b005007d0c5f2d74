"""Audit cases for the running leader.

Where clients add the noise, the server is attacked by replaying all releases of a short game. A
trusted server shows peers the leaders only, so they are attacked from outside, by frequencies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.parts import peer_curve
from hedgerow.audits.cases.releases import less_noise, release_cases
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.correlated.running_leader import RunningLeader

ROUNDS = 8
OUTSIDE, READ_AT = 4.0, 0.05  # epsilon and delta of the game from outside


def cases(spec: RunningLeader) -> tuple[AuditCase, ...]:
    """The null case, the datum that enters most releases, and too little noise, to be caught."""
    return _from_outside(spec) if spec.trust == "central" else _replayed(spec)


def _replayed(spec: RunningLeader) -> tuple[AuditCase, ...]:
    """The datum is in the first round, so it enters every release."""
    played, clients = replace(spec, every=1), 4 if spec.trust == "distributed" else 1
    first = np.zeros((ROUNDS, clients, 2))
    second = first.copy()
    second[0, 0] = 1.0
    algorithm = played.build(Setting(clients, 2, ROUNDS))
    return release_cases(algorithm, first, second, parameters=changes(spec, played))


def _from_outside(spec: RunningLeader) -> tuple[AuditCase, ...]:
    """One leader, chosen from one loss vector; it shows a quarter of the noise."""
    played = replace(spec, every=1, epsilon=OUTSIDE)
    algorithm = played.build(Setting(1, 2, 2))
    first, second = np.zeros((2, 1, 2)), np.zeros((2, 1, 2))
    first[0, 0, 0] = second[0, 0, 1] = 1.0

    def case(name: str, audited: Algorithm, other: Array, expected: Verdict) -> AuditCase:
        return AuditCase(
            name,
            WHOLE,
            audited,
            peer_curve(algorithm),
            first,
            other,
            method="black box",
            runs=10_000,
            delta=READ_AT,
            expected=expected,
            parameters=changes(spec, played),
        )

    quarter = less_noise(algorithm, 0.25)
    return (
        case("null, from outside", algorithm, first, "holds"),
        case("one leader, from outside", algorithm, second, "holds"),
        case("a quarter of the noise, from outside", quarter, second, "violated"),
    )
