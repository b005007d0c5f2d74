"""A privacy statement: the record of one algorithm in one run, what people added, and what an audit showed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import expect, nearest
from hedgerow.records.schema import STAMP, AlgorithmRecord, CurveRecord, GuaranteeRecord, RunRecord
from hedgerow.statement.audit import Audit
from hedgerow.statement.details import Details
from hedgerow.statement.exposure import Point, Quote, of_records

SHOWN_ROUNDS = (1, 2, 5, 10)  # where nobody says how often one person may appear


def largest(points: Iterable[Point]) -> Quote | None:
    """The largest epsilon with the largest delta: all of the points hold with them, whichever observer they belong to."""
    found = list(points)
    return Quote(max(p.epsilon for p in found), max(p.delta for p in found)) if found else None


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
        expect(
            sites is None or sites <= clients,
            "sites_per_person",
            sites,
            f"<= the {clients} clients of the run",
        )
        records, rounds = self.details.records_per_site, self.algorithm.setting["horizon"]
        expect(
            records is None or records <= rounds,
            "records_per_site",
            records,
            f"<= the {rounds} rounds of the run",
        )

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
    def one_run(self) -> Quote | None:
        """What one run guarantees against everybody who gets any guarantee."""
        return largest(curve for curve, _ in self.protecting)

    @property
    def all_runs(self) -> Quote | None:
        """What all runs on the same data guarantee together."""
        return largest(g.total or g.curve for g in self.algorithm.guarantees if g.curve is not None)

    def of_records(self, records: int) -> Quote | None:
        """The same for somebody with so many records."""
        return largest(
            of_records(g.curve, g.total, records)
            for g in self.algorithm.guarantees
            if g.curve is not None
        )

    @property
    def repeats(self) -> bool:
        """Whether several runs had the same data."""
        return self.algorithm.runs > 1

    @property
    def also(self) -> list[AlgorithmRecord]:
        """The other algorithms that were run on the same data; data of which no fingerprint is known count as the same."""
        mine = self.algorithm
        if mine.data != "recorded":
            return []
        others = [a for a in self.run.algorithms if a is not mine and a.data == "recorded"]
        return [
            a for a in others if a.losses is None or mine.losses is None or a.losses == mine.losses
        ]

    @property
    def by_person(self) -> bool:
        """Whether the unit is a record, of which one person may have several."""
        return self.units[0].unit.kind == "Event"

    @property
    def most(self) -> int | None:
        """In how many rounds one person may be, at all sites together; None where that is open."""
        records, sites = self.details.records_per_site, self.details.sites_per_person
        if self.algorithm.setting["clients"] == 1:
            sites = 1
        return None if records is None or sites is None else records * sites

    @property
    def lead(self) -> int:
        """The number of records that is spoken of first: the most that is allowed, as far as that is known."""
        return (self.most or self.details.records_per_site or 1) if self.by_person else 1

    @property
    def counts(self) -> tuple[int, ...]:
        """For how many records of one person the attacks are tabulated."""
        if not self.by_person:
            return (1,)
        records = self.details.records_per_site
        if records is None:
            reports = self.algorithm.setting["clients"] * self.algorithm.setting["horizon"]
            return tuple(count for count in SHOWN_ROUNDS if count <= reports)
        return tuple(sorted({1, records, self.lead}))

    @property
    def assumptions(self) -> dict[str, str]:
        return {
            name: meaning
            for guarantee in self.algorithm.guarantees
            for name, meaning in sorted(guarantee.assumes.items())
        }


def chosen(run: RunRecord, label: str | None) -> list[AlgorithmRecord]:
    """All algorithms of a run, or the one with this label."""
    if label is None:
        return run.algorithms
    found = [algorithm for algorithm in run.algorithms if algorithm.label == label]
    if not found:
        raise InvalidValue(
            f"Unknown algorithm {label!r} in {run.run}; {nearest(label, [a.label for a in run.algorithms])}"
        )
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
