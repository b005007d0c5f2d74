"""A privacy statement: the record of one algorithm in one run, what people added, and what an audit showed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from hedgerow.core.checks import expect, nearest
from hedgerow.core.errors import InvalidValue
from hedgerow.experiments.privacy_record import AlgorithmRecord, CurveRecord, GuaranteeRecord, RunRecord
from hedgerow.experiments.study import STAMP
from hedgerow.privacy.curves import ApproximateDP, PureDP
from hedgerow.privacy.groups import group
from hedgerow.statement.audit import Audit
from hedgerow.statement.details import Details


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
    def assumptions(self) -> dict[str, str]:
        return {name: meaning for guarantee in self.algorithm.guarantees for name, meaning in sorted(guarantee.assumes.items())}


def of_records(curve: CurveRecord, records: int) -> tuple[float, float]:
    """The (epsilon, delta) of somebody with so many records, from the quoted point of the curve alone."""
    quoted = PureDP(curve.epsilon) if curve.delta == 0 else ApproximateDP(curve.epsilon, curve.delta)
    return group(quoted, records).stated()


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
