"""Run an algorithm's audits: compare the certified epsilon with a lower bound, give a verdict.

Every audit begins with a null case (the same stream twice must show nothing) and ends with cases
that must be caught (half of the noise, planted bugs). An audit that cannot fail would say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from hedgerow.audits.case import AuditCase, Verdict
from hedgerow.audits.methods import Finding, black_box, glass_box, largest_ratio
from hedgerow.audits.registry import AUDITS
from hedgerow.core.certificate import Channel
from hedgerow.core.errors import InvalidValue
from hedgerow.core.messages import encode
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.records.build import choices_of
from hedgerow.records.provenance import code


@dataclass(frozen=True)
class AuditRow:
    """One case and its finding; `passed` says whether the verdict is the expected one."""

    case: AuditCase
    finding: Finding

    @property
    def certified(self) -> float:
        return self.case.certified.epsilon(self.case.delta)

    @property
    def verdict(self) -> Verdict:
        if self.finding.epsilon is None:
            return "inconclusive"
        if self.finding.epsilon > self.certified * (1 + 1e-9):
            return "violated"
        return "holds" if self.finding.most > self.certified else "inconclusive"

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
            "claim": self.case.claim,
            "parameters": dict(self.case.parameters),
            "method": self.case.method,
            "runs": self.case.runs,
            "observer": self.case.observer.value,
            "delta": self.case.delta,
            "certified_epsilon": self.certified,
            "audited_epsilon": shown,
            "confidence": self.finding.confidence,
            "ratio": self.certified / shown if shown else None,
            "verdict": self.verdict,
            "expected": self.case.expected,
            "passed": self.passed,
            **(
                {"reason": "the log-ratio is infinite"}
                if audited is not None and shown is None
                else {}
            ),
        }


def examine(case: AuditCase, seed: int = 0) -> Finding:
    """Apply the method of the case; the attacker sees broadcasts and nothing that clients send."""
    _sees_broadcasts(case)
    likelihood = case.algorithm.log_likelihood
    if case.method == "black box":
        first, second = (list(map(_seen, sent)) for sent in _sampled(case, seed))
        return black_box(first, second, case.delta)
    if likelihood is None:
        raise InvalidValue(
            f"The case {case.name!r} needs the likelihood of {case.algorithm.name}, which has none."
            " Give the algorithm a log_likelihood or choose the method 'black box'."
        )
    if case.method == "exact ratio":
        return largest_ratio(
            [
                (likelihood(list(sent), case.first), likelihood(list(sent), case.second))
                for sent in case.transcripts
            ]
        )
    forward, backward = (
        np.array(
            [
                sign * (likelihood(list(one), case.first) - likelihood(list(one), case.second))
                for one in sent
            ]
        )
        for sign, sent in zip((1, -1), _sampled(case, seed), strict=True)
    )
    return glass_box(forward, backward, case.delta)


def _sees_broadcasts(case: AuditCase) -> None:
    view = case.algorithm.certificate.guarantee(case.observer).view
    if Channel.BROADCASTS not in view or view & {Channel.UPLOADS, Channel.SUM}:
        sees = ", ".join(sorted(channel.value for channel in view))
        raise InvalidValue(
            f"Expected observer={case.observer.value!r} of the case {case.name!r} to see broadcasts"
            f" and nothing that clients send, which is all that audits look at; it sees {sees}."
        )


def _sampled(case: AuditCase, seed: int) -> Iterator[list[list[Any]]]:
    """The broadcasts of all runs in the first world, then in the second, with independent noise."""
    for world, losses in enumerate((case.first, case.second)):
        noise = SeededNoise(2 * seed + world)  # each run continues where the last one stopped
        yield [broadcasts_of(case.algorithm, losses, noise) for _ in range(case.runs)]


def _seen(broadcasts: list[Any]) -> tuple[bytes, ...]:
    return tuple(map(encode, broadcasts))


def cases_of(name: str, spec: AlgorithmSpec) -> tuple[AuditCase, ...]:
    """All audit cases of an algorithm: a null case first, and at least one that must be caught."""
    if name not in AUDITS:
        raise InvalidValue(
            f"{name} has no audit cases. Algorithms with audits: {', '.join(AUDITS)}."
        )
    cases = AUDITS[name](spec)
    null = (
        bool(cases)
        and cases[0].expected == "holds"
        and np.array_equal(cases[0].first, cases[0].second)
    )
    if not null or all(case.expected != "violated" for case in cases):
        raise InvalidValue(
            f"Expected the audit cases of {name!r} to begin with a null case and to include one"
            " that expects 'violated'."
        )
    return cases


def audit_rows(name: str, spec: AlgorithmSpec, progress: Callable[[str], None]) -> list[AuditRow]:
    """Examine every case of an algorithm; `progress` receives the name of each case."""
    rows: list[AuditRow] = []
    for case in cases_of(name, spec):
        progress(f"auditing: {case.name} ({case.method})")
        rows.append(AuditRow(case, examine(case)))
    return rows


def audit_document(name: str, spec: AlgorithmSpec, rows: Sequence[AuditRow]) -> dict[str, Any]:
    """The document that `--json` prints: what was audited, by which code, and the results."""
    return {
        "algorithm": name,
        "choices": choices_of(spec),
        "code": code().sha256,
        "rows": [row.to_dict() for row in rows],
    }
