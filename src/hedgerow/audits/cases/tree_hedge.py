"""Audit cases for tree hedge: two rounds, after which peers see the one node of the tree.

There is no padding in this sum, so its exact density is that of one release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.parts import peer_curve
from hedgerow.audits.cases.releases import less_noise, readable_delta
from hedgerow.audits.cases.tree_leader import require_noise
from hedgerow.core.lattice import Array
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.correlated.tree_hedge import TreeHedge

ROUNDS, RUNS = 2, 1000


@dataclass(frozen=True)
class FirstNode:
    """The log-density of the sums that are broadcast after the first round."""

    noise: Mechanism

    def __call__(self, broadcasts: list[Any], reports: Array) -> float:
        return self.noise.log_density(reports[0].sum(axis=0), broadcasts[1].losses)


def cases(spec: TreeHedge) -> tuple[AuditCase, ...]:
    """The null case, the whole certificate on the farthest pair, and half the noise."""
    require_noise(spec.mu)
    played = replace(spec, every=1, reports="each", rate=None)
    algorithm = played.build(Setting(1, 2, ROUNDS))
    first, second = np.zeros((ROUNDS, 1, 2)), np.zeros((ROUNDS, 1, 2))
    second[0] = 1.0
    curve = peer_curve(algorithm)
    pure = isfinite(curve.epsilon(0.0))

    def case(name: str, audited: Algorithm, other: Array, expected: Verdict) -> AuditCase:
        server: Any = audited.server
        return AuditCase(
            name,
            WHOLE,
            replace(audited, log_likelihood=FirstNode(server.releasing)),
            curve,
            first,
            other,
            method="glass box",
            runs=RUNS,
            delta=0.0 if pure else readable_delta(curve),
            expected=expected,
            parameters=changes(spec, played),
        )

    return (
        case("null: the same node twice", algorithm, first, "holds"),
        case("the only node", algorithm, second, "holds"),
        case("the only node, half the noise", less_noise(algorithm, 0.5), second, "violated"),
    )
