"""Audit cases for the tree-perturbed leader, from outside: peers see the leaders only.

One leader of two experts is the sign of one noisy difference. On the pair of streams below it shows
as much as the certificate allows at epsilon near 0, so half of the noise is caught.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.parts import peer_curve
from hedgerow.audits.cases.releases import less_noise
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.core.validate import expect

if TYPE_CHECKING:
    from hedgerow.algorithms.correlated.tree_leader import TreeLeader

SHORT, LONG, RUNS = 2, 5, 4000
CHOICES = {"every": 1, "reports": "each", "sensitivity": None, "aim": "min_noise"}
OUTSIDE = {"epsilon": 4.0, "delta": 1e-6, "mu": None, "calibration": "certified"}


def cases(spec: TreeLeader) -> tuple[AuditCase, ...]:
    """The null case, one leader, the leaders of a longer game, and half the noise, to be caught."""
    require_noise(spec.mu)
    played = replace(spec, **CHOICES, **OUTSIDE)

    def case(name: str, rounds: int, noise: float, same: bool, expected: Verdict) -> AuditCase:
        algorithm = played.build(Setting(1, 2, rounds))
        first, second = _streams(rounds)
        curve = peer_curve(algorithm)
        audited: Algorithm = algorithm if noise == 1 else less_noise(algorithm, noise)
        return AuditCase(
            name,
            WHOLE,
            audited,
            curve,
            first,
            first if same else second,
            method="black box",
            runs=RUNS,
            delta=float(f"{curve.delta(0.0) / 2:.2g}"),
            expected=expected,
            parameters=changes(spec, played),
        )

    return (
        case("null, from outside", SHORT, 1.0, True, "holds"),
        case("one leader, from outside", SHORT, 1.0, False, "holds"),
        case("four leaders, from outside", LONG, 1.0, False, "holds"),
        case("one leader, half the noise", SHORT, 0.5, False, "violated"),
    )


def require_noise(mu: float | None) -> None:
    """Refuse a spec without noise."""
    rule = "finite: without noise nothing is protected, and there is nothing to audit"
    expect(mu != inf, "mu", mu, rule)


def _streams(rounds: int) -> tuple[Array, Array]:
    """The first loss vector favours one expert or the other; it is in the most nodes."""
    first, second = np.zeros((rounds, 1, 2)), np.zeros((rounds, 1, 2))
    first[0, 0, 0] = second[0, 0, 1] = 1.0
    return first, second
