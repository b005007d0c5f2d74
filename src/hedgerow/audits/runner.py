"""Run an algorithm's audits: compare the certified epsilon with a lower bound, give a verdict.

Every audit begins with a null case (the same stream twice must show nothing) and ends with cases
that must be caught (half of the noise, planted bugs). An audit that cannot fail would say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from hedgerow.audits.case import AuditCase, Data, Verdict
from hedgerow.audits.methods import Finding, black_box, glass_box, largest_ratio
from hedgerow.audits.registry import AUDITS
from hedgerow.audits.replay import Ratio, log_ratio
from hedgerow.core.certificate import Channel
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.messages import encode
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.environments.recorded.losses import RecordedArray
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
            return "violated" if self.finding.seen else "inconclusive"
        return "holds" if self.finding.most > self.certified else "inconclusive"

    @property
    def passed(self) -> bool:
        return self.verdict == self.case.expected

    def to_dict(self) -> dict[str, Any]:
        certificate, audited = self.case.algorithm.certificate, self.finding.epsilon
        shown = audited if audited is not None and isfinite(audited) else None
        reason = self.reason
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
            "seen": self.finding.seen,
            "confidence": self.finding.confidence,
            "ratio": self.certified / shown if shown else None,
            "verdict": self.verdict,
            "expected": self.case.expected,
            "passed": self.passed,
            **({} if reason is None else {"reason": reason}),
        }

    @property
    def reason(self) -> str | None:
        """Why there is no number, or why a large one proves nothing; None otherwise."""
        epsilon = self.finding.epsilon
        if epsilon is not None and not isfinite(epsilon):
            return "the log-ratio is infinite"
        if epsilon is not None and epsilon > self.certified and not self.finding.seen:
            return f"the {self.case.observer.value} does not see everything that was released"
        return None


def examine(case: AuditCase, seed: int = 0) -> Finding:
    """Apply the method of the case.

    With replayed releases the attacker sees all that is released. With the other methods it sees
    broadcasts and nothing that clients send.
    """
    if case.method == "replayed releases":
        return _replayed(case, seed)
    _sees_broadcasts(case)
    likelihood = case.algorithm.log_likelihood
    if case.method == "black box":
        noted = case.reading or _seen
        first, second = ([noted(one) for one in sent] for sent in _sampled(case, seed))
        return black_box(first, second, case.delta)
    if likelihood is None:
        raise InvalidValue(
            f"The case {case.name!r} needs the likelihood of {case.algorithm.name}, which has none."
            " Give the algorithm a log_likelihood or choose the method 'black box'."
        )
    worlds = tuple(_losses(case, data) for data in (case.first, case.second))
    if case.method == "exact ratio":
        return largest_ratio(
            [
                (likelihood(list(sent), worlds[0]), likelihood(list(sent), worlds[1]))
                for sent in case.transcripts
            ]
        )
    forward, backward = (
        np.array(
            [
                sign * (likelihood(list(one), worlds[0]) - likelihood(list(one), worlds[1]))
                for one in sent
            ]
        )
        for sign, sent in zip((1, -1), _sampled(case, seed), strict=True)
    )
    return glass_box(forward, backward, case.delta)


def _replayed(case: AuditCase, seed: int) -> Finding:
    """Sample the log-ratio of the releases in each world, with independent noise."""
    worlds = _environment(case.first), _environment(case.second)
    samples: list[list[Ratio]] = []
    for world, (played, other) in enumerate((worlds, worlds[::-1])):
        noise = SeededNoise(2 * seed + world)  # each run continues where the last one stopped
        samples.append(
            [
                log_ratio(case.algorithm, case.observer, played, other, noise)
                for _ in range(case.runs)
            ]
        )
    forward, backward = (np.array([ratio.value for ratio in ratios]) for ratios in samples)
    seen = all(ratio.seen for ratios in samples for ratio in ratios)
    return replace(glass_box(forward, backward, case.delta), seen=seen)


def _environment(data: Data) -> Environment:
    return data if isinstance(data, Environment) else RecordedArray(data)


def _losses(case: AuditCase, data: Data) -> Array:
    """The losses of a world as an array, which a likelihood takes."""
    if isinstance(data, RecordedArray):
        return data.losses
    if isinstance(data, Environment):
        raise InvalidValue(
            f"Expected arrays of losses in the case {case.name!r} with the method {case.method!r},"
            f" got {type(data).__name__}. Choose the method 'replayed releases'."
        )
    return data


def _sees_broadcasts(case: AuditCase) -> None:
    view = case.algorithm.certificate.guarantee(case.observer).view
    if Channel.BROADCASTS not in view or view & {Channel.UPLOADS, Channel.SUM}:
        sees = ", ".join(sorted(channel.value for channel in view))
        raise InvalidValue(
            f"Expected observer={case.observer.value!r} of the case {case.name!r} to see broadcasts"
            f" and nothing that clients send; it sees {sees}."
            " Choose the method 'replayed releases'."
        )


def _sampled(case: AuditCase, seed: int) -> Iterator[list[list[Any]]]:
    """The broadcasts of all runs in the first world, then in the second, with independent noise."""
    for world, data in enumerate((case.first, case.second)):
        losses, noise = _losses(case, data), SeededNoise(2 * seed + world)  # runs continue it
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
        bool(cases) and cases[0].expected == "holds" and _same_data(cases[0].first, cases[0].second)
    )
    if not null or all(case.expected != "violated" for case in cases):
        raise InvalidValue(
            f"Expected the audit cases of {name!r} to begin with a null case and to include one"
            " that expects 'violated'."
        )
    return cases


def _same_data(first: Data, second: Data) -> bool:
    if isinstance(first, Environment) or isinstance(second, Environment):
        prints = [_environment(data).fingerprint() for data in (first, second)]
        return first is second or (prints[0] is not None and prints[0] == prints[1])
    return np.array_equal(first, second)


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
