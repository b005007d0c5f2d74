"""The audits of phased selection: those of all choices from blocks (`blocks_audit`), and what is seen from outside.

Audits see the leader of noisy sums, never the sums; blocks that overlap are then for the contracts, which look at what clients release.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.experts.audit_parts import peer_curve
from hedgerow.algorithms.experts.blocks_audit import exact_cases, half_noise, less_noise, overlapping, parts_of
from hedgerow.core.audit_case import WHOLE, AuditCase, Verdict, changes
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.experts.phased_selection import PhasedSelection

OUTSIDE = 4.0  # epsilon of the games that are seen from outside: frequencies tell little about a small one
REPORTED = 2.0  # the same where clients add the noise
READ_AT = 0.05  # the delta at which Gaussian guarantees are compared with frequencies


def cases(spec: PhasedSelection) -> tuple[AuditCase, ...]:
    """The null first, then the worst stream, then what must be caught."""
    if spec.trust == "central":
        return *exact_cases(spec), *_from_outside(spec)
    return tuple(case for law in spec.laws() for case in _noisy_reports(spec, law))


def _two_experts(gap: float, rounds: int) -> tuple[Array, Array]:
    """Two clients, two experts: the second client finds expert 1 worse by `gap` in every round, the first one has the datum."""
    first = np.zeros((rounds, 2, 2))
    first[:, 1, 1] = float(round_to_lattice(gap))
    second = first.copy()
    first[0, 0], second[0, 0] = (1.0, 0.0), (0.0, 1.0)
    return first, second


def _silent(clients: int) -> tuple[Array, Array]:
    """Two experts, nobody loses anything but for a datum in the last round of the second block."""
    first = np.zeros((4, clients, 2))
    second = first.copy()
    first[2, 0], second[2, 0] = (1.0, 0.0), (0.0, 1.0)
    return first, second


def _from_outside(spec: PhasedSelection) -> tuple[AuditCase, ...]:
    """The real code, and how often each choice was made."""
    loud = replace(spec, epsilon=OUTSIDE)
    algorithm = loud.build(Setting(2, 2, 4))
    gap = min(1.0, 0.5 * parts_of(algorithm)[1].selection.scale)
    case = _BlackBox(algorithm, changes(spec, loud))
    return (
        case("null, from outside", algorithm, _two_experts(gap, 2)[:1] * 2, "holds"),
        case("one choice, from outside", algorithm, _two_experts(gap, 2), "holds"),
        case("half the noise, from outside", half_noise(algorithm), _two_experts(gap, 2), "violated"),
        case("a datum in two blocks, from outside", overlapping(algorithm), _two_experts(gap, 4), "violated"),
    )


def _noisy_reports(spec: PhasedSelection, law: PhasedSelection) -> tuple[AuditCase, ...]:
    """The leader is enough to find noise that is cut in half, or for Laplace to a quarter."""
    loud = replace(law, epsilon=REPORTED, honest=None)
    clients = 10 if spec.trust == "distributed" else 1  # so that shares are added up
    algorithm, streams = loud.build(Setting(clients, 2, 8)), _silent(clients)
    cut, factor = ("a quarter of", 0.25) if law.report == "laplace" else ("half", 0.5)
    case = _BlackBox(algorithm, changes(spec, loud), 0.0 if law.delta == 0 else READ_AT)
    of = "" if law is spec else f", {law.report} reports"
    return (
        case(f"null, from outside{of}", algorithm, streams[:1] * 2, "holds"),
        case(f"one choice, from outside{of}", algorithm, streams, "holds"),
        case(f"{cut} the noise, from outside{of}", less_noise(algorithm, factor), streams, "violated"),
    )


@dataclass(frozen=True, eq=False)
class _BlackBox:
    """Cases about one algorithm that are judged by frequencies."""

    algorithm: Algorithm
    parameters: dict[str, Any]
    delta: float = 0.0

    def __call__(self, name: str, audited: Algorithm, streams: tuple[Array, ...], expected: Verdict) -> AuditCase:
        return AuditCase(
            name,
            WHOLE,
            audited,
            peer_curve(self.algorithm),
            streams[0],
            streams[1],
            method="black box",
            runs=10_000,
            delta=self.delta,
            expected=expected,
            parameters=self.parameters,
        )
