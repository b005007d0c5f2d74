"""Run an algorithm's audits: compare the certified epsilon with a lower bound, give a verdict.

Every audit begins with a null case (the same stream twice must show nothing) and ends with cases
that must be caught (four fifths of the noise, planted bugs). An audit that cannot fail would say
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

import numpy as np

from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, Data, Finding, Verdict, exact_epsilon
from hedgerow.audits.cases.of_units import cases_of_unit
from hedgerow.audits.drawn import ALARM, ENOUGH, FAR, information, what_is_wrong
from hedgerow.audits.registry import AUDITS
from hedgerow.audits.replay import loss_of, loss_of_all
from hedgerow.contracts.guarantees import chance
from hedgerow.contracts.neighbours import record
from hedgerow.core.certificate import Channel
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.messages import encode
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Event, Person
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.records.build import choices_of
from hedgerow.records.provenance import code_provenance

TOLERANCE = 1e-9  # of a verdict, for rounding
REPLAYS = 8  # runs that are replayed, half of them in each direction
MOST = 2500  # runs whose noise is looked at; where more are needed, none are


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
        if self.finding.wrong is not None:
            return "violated"
        if self.finding.epsilon is None:
            return "inconclusive"
        if self.finding.epsilon > self.certified * (1 + TOLERANCE):
            return "violated" if self.claimed_for_all_seen else "inconclusive"
        return "holds"

    @property
    def claimed_for_all_seen(self) -> bool:
        """Whether the claim is about all that was judged, whether the observer sees it or not."""
        return self.finding.seen or self.case.claim == RELEASES

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
            "ratio": self.certified / shown if shown else None,
            "verdict": self.verdict,
            "expected": self.case.expected,
            "passed": self.passed,
            **({} if reason is None else {"reason": reason}),
        }

    @property
    def reason(self) -> str | None:
        """Why a number is missing, proves nothing, or is not all that is wrong; None otherwise."""
        epsilon = self.finding.epsilon
        if self.finding.wrong is not None:
            return self.finding.wrong
        if epsilon is not None and not isfinite(epsilon):
            return "the log-ratio is infinite"
        if epsilon is not None and epsilon > self.certified and not self.claimed_for_all_seen:
            return f"the {self.case.observer.value} does not see everything that was released"
        return None


def attack(case: AuditCase, seed: int = 0, *, drawn: bool = True) -> Finding:
    """Apply the method of the case.

    With exact releases the attacker sees all that is released. With an exact ratio it sees
    broadcasts and nothing that clients send. The seed decides which real runs are looked at, and
    not what is shown. `drawn`: whether what real runs draw is tested against the stated laws.
    """
    if case.method == "exact releases":
        return _released(case, seed, drawn)
    _sees_broadcasts(case)
    likelihood = case.algorithm.claims.log_likelihood
    if likelihood is None:
        raise InvalidValue(
            f"The case {case.name!r} needs the likelihood of {case.algorithm.name}, which has none."
            " Give the algorithm a log_likelihood or choose the method 'exact releases'."
        )
    first, second = (_losses(case, data) for data in (case.first, case.second))
    pairs = [(likelihood(list(t), first), likelihood(list(t), second)) for t in case.transcripts]
    wrong = _unlikely(case, first, seed) if drawn else None
    return Finding(exact_epsilon(pairs, case.delta), case.delta, wrong=wrong)


def _released(case: AuditCase, seed: int, drawn: bool) -> Finding:
    """Replay runs in both directions; if they show no more than promised, look at their noise."""
    worlds = _environment(case.first), _environment(case.second)
    noise = SeededNoise(seed)  # each run continues where the last one stopped
    losses, ledgers = [], []
    for turn in range(REPLAYS):
        played, other = worlds[:: -1 if turn % 2 else 1]
        loss, ledger = loss_of(case.algorithm, case.observer, played, other, noise)
        losses.append(loss.reversed() if turn % 2 else loss)
        ledgers.append(ledger)
    loss = loss_of_all(losses)
    epsilon = loss.epsilon(case.delta)
    most = case.certified.epsilon(case.delta) * (1 + TOLERANCE)
    if not drawn or not 0 < epsilon <= most:  # or the verdict is clear
        return Finding(epsilon, case.delta, loss.seen)
    known = sum(map(information, ledgers))
    while known < ENOUGH and len(ledgers) < MOST * known / ENOUGH:
        ledgers.append(record(case.algorithm, worlds[len(ledgers) % 2], noise))
        known += information(ledgers[-1])
    return Finding(epsilon, case.delta, loss.seen, what_is_wrong(ledgers))


def _unlikely(case: AuditCase, losses: Array, seed: int) -> str | None:
    """Whether the broadcasts of real runs follow the likelihood on which the ratio rests."""
    if not case.runs:
        return None
    likelihood, noise = case.algorithm.claims.log_likelihood, SeededNoise(seed)
    assert likelihood is not None
    listed = {tuple(map(encode, sent)): at for at, sent in enumerate(case.transcripts)}
    counts = np.zeros(len(listed) + 1)  # the last: all that are not listed
    for _ in range(case.runs):
        sent = tuple(map(encode, broadcasts_of(case.algorithm, losses, noise)))
        counts[listed.get(sent, -1)] += 1
    logs = np.array([likelihood(list(sent), losses) for sent in case.transcripts])
    chances = np.exp(logs)
    p = chance(counts, np.append(chances, max(0.0, 1.0 - chances.sum())))
    likely = np.where(chances > 0, logs, 0.0)  # less noise makes likely transcripts likelier
    mean = chances @ likely
    spread = np.sqrt(case.runs * (chances @ np.square(likely - mean)))
    far = abs(counts[:-1] @ (likely - mean)) > FAR * spread + 1e-9 * case.runs  # and rounding
    return "real runs do not follow their likelihood" if p < ALARM or far else None


def _environment(data: Data) -> Environment:
    return data if isinstance(data, Environment) else RecordedArray(data)


def _losses(case: AuditCase, data: Data) -> Array:
    """The losses of a world as an array, which a likelihood takes."""
    if isinstance(data, RecordedArray):
        return data.losses
    if isinstance(data, Environment):
        raise InvalidValue(
            f"Expected arrays of losses in the case {case.name!r} with the method {case.method!r},"
            f" got {type(data).__name__}. Choose the method 'exact releases'."
        )
    return data


def _sees_broadcasts(case: AuditCase) -> None:
    view = case.algorithm.certificate.guarantee(case.observer).view
    if Channel.BROADCASTS not in view or view & {Channel.UPLOADS, Channel.SUM}:
        sees = ", ".join(sorted(channel.value for channel in view))
        raise InvalidValue(
            f"Expected observer={case.observer.value!r} of the case {case.name!r} to see broadcasts"
            f" and nothing that clients send; it sees {sees}."
            " Choose the method 'exact releases'."
        )


def cases_of(name: str, spec: AlgorithmSpec) -> tuple[AuditCase, ...]:
    """All audit cases of an algorithm: a null case first, and at least one that must be caught."""
    if name not in AUDITS:
        raise InvalidValue(
            f"{name} has no audit cases. Algorithms with audits: {', '.join(AUDITS)}."
        )
    unit = Event() if spec.unit is None else parse_unit(spec.unit)
    own = next(each.default for each in fields(spec) if each.name == "unit")
    people = isinstance(unit, Person) and unit.records is None  # only those who vote
    one = type(unit) is Event or unit == own or people
    cases = AUDITS[name](spec) if one else cases_of_unit(spec, unit)
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
        rows.append(AuditRow(case, attack(case)))
    return rows


def tightest(name: str, spec: AlgorithmSpec) -> AuditRow:
    """The case in which most of a whole certificate is shown."""
    rows = [
        AuditRow(case, attack(case, drawn=False))
        for case in cases_of(name, spec)
        if case.expected == "holds" and case.claim in (WHOLE, RELEASES)
    ]
    return max(rows, key=lambda row: (row.finding.epsilon or 0.0) / row.certified)


def audit_document(name: str, spec: AlgorithmSpec, rows: Sequence[AuditRow]) -> dict[str, Any]:
    """The document that `--json` prints: what was audited, by which code, and the results."""
    return {
        "algorithm": name,
        "choices": choices_of(spec),
        "code": code_provenance().sha256,
        "rows": [row.to_dict() for row in rows],
    }
