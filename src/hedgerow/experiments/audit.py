"""Run an algorithm's audits: what was certified, what an attacker could be shown to learn, and a verdict.

Every audit begins with a null (the same stream twice must show nothing) and ends with cases that must be caught (noise cut by
half, planted bugs): an audit that cannot fail says nothing when it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from hedgerow.algorithms.audits import AUDITS
from hedgerow.core.audit_case import AuditCase, Verdict
from hedgerow.core.checks import nearest
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.privacy.audit import Finding, largest_ratio


@dataclass(frozen=True)
class AuditRow:
    """One case; `passed` says that the verdict is the one we expect."""

    case: AuditCase
    finding: Finding

    @property
    def certified(self) -> float:
        return self.case.certified.epsilon(self.case.delta)

    @property
    def verdict(self) -> Verdict:
        if self.finding.epsilon is None:
            return "inconclusive"
        return "violated" if self.finding.epsilon > self.certified * (1 + 1e-9) else "holds"

    @property
    def passed(self) -> bool:
        return self.verdict == self.case.expected

    def to_dict(self) -> dict[str, Any]:
        certificate, audited = self.case.algorithm.certificate, self.finding.epsilon
        shown = audited if audited is not None and isfinite(audited) else None
        return {
            "algorithm": self.case.algorithm.name,
            "calibration": certificate.calibration,
            "trust": certificate.trust,
            "case": self.case.name,
            "observer": self.case.observer.value,
            "delta": self.case.delta,
            "certified_epsilon": self.certified,
            "audited_epsilon": shown,
            "confidence": self.finding.confidence,
            "ratio": self.certified / shown if shown else None,
            "verdict": self.verdict,
            "expected": self.case.expected,
            "passed": self.passed,
            **({"reason": "the log-ratio is infinite"} if audited is not None and shown is None else {}),
        }


def examine(case: AuditCase) -> Finding:
    """The largest exact log-ratio over the case's transcripts."""
    likelihood = case.algorithm.log_likelihood
    if likelihood is None or not case.transcripts:
        return Finding(None, case.delta, 0.0, "nothing to look at")
    return largest_ratio([(likelihood(list(sent), case.first), likelihood(list(sent), case.second)) for sent in case.transcripts])


def audit(name: str, spec: AlgorithmSpec) -> Iterator[AuditRow]:
    """All audit cases of an algorithm, the null first."""
    if name not in AUDITS:
        raise InvalidValue(f"Expected an algorithm with audit cases, {name!r} has none; {nearest(name, AUDITS)}")
    for case in AUDITS[name](spec):
        yield AuditRow(case, examine(case))
