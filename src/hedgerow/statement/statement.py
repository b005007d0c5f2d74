"""A privacy statement: the record of one algorithm in one run, what people added, and what an audit showed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.checks import expect, nearest
from hedgerow.core.errors import InvalidValue
from hedgerow.experiments.privacy_record import AlgorithmRecord, CurveRecord, GuaranteeRecord, RunRecord, Total
from hedgerow.experiments.study import STAMP
from hedgerow.privacy.curves import ApproximateDP, PureDP, trade_off
from hedgerow.privacy.groups import group
from hedgerow.statement.audit import Audit
from hedgerow.statement.details import Details

SHOWN_ALARMS = (0.01, 0.05, 0.1)
SHOWN_ROUNDS = (1, 2, 5, 10)  # where nobody says how often one person may appear


@dataclass(frozen=True)
class Statement:
    """Everything that is said; how it is said is the renderers' matter. `audit` is None where nothing was audited."""

    run: RunRecord
    algorithm: AlgorithmRecord
    details: Details
    audit: Audit | None
    written: date

    def __post_init__(self) -> None:
        sites, clients = self.details.sites_per_person, self.algorithm.setting["clients"]
        expect(sites is None or sites <= clients, "sites_per_person", sites, f"<= the {clients} clients of the run")

    @property
    def stamp(self) -> str | None:
        """Whatever did not draw secure noise is a simulation, even where nobody stamped it."""
        return None if self.run.noise.secure and self.run.stamp is None else STAMP

    @property
    def title(self) -> str:
        return self.run.title if not self.details.name else self.details.name

    @property
    def protecting(self) -> list[tuple[CurveRecord, list[GuaranteeRecord]]]:
        """Every different curve with the guarantees that rest on it."""
        groups: list[tuple[CurveRecord, list[GuaranteeRecord]]] = []
        for guarantee in self.algorithm.guarantees:
            if guarantee.curve is None:
                continue
            same = next((members for curve, members in groups if curve == guarantee.curve), None)
            if same is None:
                groups.append((guarantee.curve, [guarantee]))
            else:
                same.append(guarantee)
        return groups

    @property
    def unguarded(self) -> list[GuaranteeRecord]:
        """Observers to whom nothing is guaranteed."""
        return [guarantee for guarantee in self.algorithm.guarantees if guarantee.curve is None]

    @property
    def units(self) -> list[GuaranteeRecord]:
        """One guarantee for every different unit and adjacency; those that protect come first."""
        found: list[GuaranteeRecord] = []
        for guarantee in sorted(self.algorithm.guarantees, key=lambda g: g.curve is None):
            if all((g.unit, g.adjacency) != (guarantee.unit, guarantee.adjacency) for g in found):
                found.append(guarantee)
        return found

    @property
    def claimed(self) -> CurveRecord | None:
        """What a paper claims of these constants."""
        return next((g.claimed for g in self.algorithm.guarantees if g.claimed is not None), None)

    @property
    def weakest(self) -> CurveRecord | None:
        """The largest stated epsilon among those who get a guarantee."""
        return max((curve for curve, _ in self.protecting), key=lambda curve: (curve.epsilon, curve.delta), default=None)

    @property
    def total(self) -> Total | None:
        """What all runs on the same data guarantee together, against whom least is guaranteed."""
        totals = [guarantee.total for guarantee in self.algorithm.guarantees if guarantee.total is not None]
        return max(totals, key=lambda total: (total.epsilon, total.delta), default=None)

    @property
    def also(self) -> list[AlgorithmRecord]:
        """The other algorithms that were run on the same data."""
        mine = self.algorithm
        others = [a for a in self.run.algorithms if a is not mine and a.data == "recorded"]
        return [a for a in others if (a.data, a.environment) == (mine.data, mine.environment)]

    @property
    def counts(self) -> tuple[int, ...]:
        """For how many records of one person the attacks are tabulated."""
        if any(guarantee.unit.kind != "Event" for guarantee in self.units[:1]):
            return (1,)
        records, sites = self.details.records_per_site, self.details.sites_per_person
        return SHOWN_ROUNDS if records is None else tuple(sorted({1, records, records * (sites or 1)}))

    @property
    def assumptions(self) -> dict[str, str]:
        return {name: meaning for guarantee in self.algorithm.guarantees for name, meaning in sorted(guarantee.assumes.items())}


class Point(Protocol):
    """What a curve, or the total of several runs, is quoted by."""

    @property
    def epsilon(self) -> float: ...

    @property
    def delta(self) -> float: ...


def _grouped(point: Point, records: int) -> PrivacyCurve:
    return group(PureDP(point.epsilon) if point.delta == 0 else ApproximateDP(point.epsilon, point.delta), records)


def of_records(point: Point, records: int) -> tuple[float, float]:
    """The (epsilon, delta) of somebody with so many records, from the quoted point of the curve alone."""
    return _grouped(point, records).stated()


@dataclass(frozen=True)
class Exposure:
    """How well the best attack on somebody with so many records does: an even bet, and truths found at each rate of false alarms."""

    records: int
    epsilon: float
    delta: float
    even_guess: float
    found: tuple[float, ...]


def exposure(curve: CurveRecord, total: Total | None, records: int) -> Exposure:
    """Of one record in one run from the whole curve, of more from the quoted point."""
    if records == 1 and total is None:
        return Exposure(1, curve.epsilon, curve.delta, curve.even_guess, tuple(map(curve.detections, SHOWN_ALARMS)))
    grown = _grouped(curve if total is None else total, records)
    found = tuple(min(1.0, max(alarms, 1 - float(trade_off(grown, alarms)))) for alarms in SHOWN_ALARMS)
    return Exposure(records, *grown.stated(), (1 + grown.delta(0.0)) / 2, found)


def chosen(run: RunRecord, label: str | None) -> list[AlgorithmRecord]:
    """All algorithms of a run, or the one with this label."""
    if label is None:
        return run.algorithms
    found = [algorithm for algorithm in run.algorithms if algorithm.label == label]
    if not found:
        raise InvalidValue(f"Unknown algorithm {label!r} in {run.run}; {nearest(label, [a.label for a in run.algorithms])}")
    return found


def folder_names(run: RunRecord) -> dict[str, str]:
    """A folder name for every label: lower case, without odd characters, each used once."""
    names: dict[str, str] = {}
    for algorithm in run.algorithms:
        base = re.sub(r"[^\w]+", "-", algorithm.label.lower()).strip("-_") or "algorithm"
        number, name = 1, base
        while name in names.values():
            number, name = number + 1, f"{base}-{number + 1}"
        names[algorithm.label] = name
    return names
