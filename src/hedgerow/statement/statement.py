"""A privacy statement: the record of one algorithm in one run, added details, and an audit."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from hedgerow.core.errors import InvalidValue
from hedgerow.core.units import Event, Part, Person
from hedgerow.core.validate import at_least, nearest
from hedgerow.records.plain import typed
from hedgerow.records.schema import (
    STAMP,
    AlgorithmRecord,
    CurveRecord,
    GuaranteeRecord,
    LedgerRecord,
    RunRecord,
    UnitRecord,
)
from hedgerow.statement.audit import Audit
from hedgerow.statement.exposure import Point, Quote, of_records

OPEN = "to be filled in"


class Curator(TypedDict):
    """An organisation that holds the data."""

    name: str
    type: str


class SignOff(TypedDict):
    """A person that signs the statement."""

    role: str
    name: str


@dataclass(frozen=True)
class Details:
    """Details of one deployment; None, an empty text and an empty list mean that one is open.

    `records_per_client` is the most records that one person may have at one client.
    `clients_per_person` is the most clients that one person may be at. `server_trusted_by` names
    who has said that the server is trusted; it is asked for only where it must be.
    """

    name: str | None = None
    data_curators: tuple[Curator, ...] | list[Curator] = ()
    intended_use: str | None = None
    data_product_type: str | None = None
    data_product_region: str | None = None
    data_product_sector: str | None = None
    description: str | None = None
    publication_date: date | None = None
    records_per_client: int | None = None
    clients_per_person: int | None = None
    preprocessing: str | None = None
    security: str | None = None
    contact: str | None = None
    legal_basis: str | None = None
    retention: str | None = None
    server_trusted_by: str | None = None
    justification: str | None = None
    sources: str | None = None
    notes: str | None = None
    registry_authors: tuple[str, ...] | list[str] = ()
    expires: date | None = None
    sign_offs: tuple[SignOff, ...] | list[SignOff] = ()

    def __post_init__(self) -> None:
        for name in ("records_per_client", "clients_per_person"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), 1)
        published = self.publication_date
        if self.expires and published and self.expires <= published:
            raise InvalidValue(
                f"Expected expires={str(self.expires)!r} to lie after publication_date={published}."
            )

    def text(self, name: str) -> str:
        """A value as text, or that it is open."""
        value = getattr(self, name)
        return OPEN if value is None or not str(value).strip() else str(value).strip()

    @property
    def open(self) -> tuple[str, ...]:
        """The names of open details; the name, the notes and the sign-offs may stay empty."""
        given = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("name", "notes", "sign_offs")
        }
        return tuple(name for name, value in given.items() if not value or not str(value).strip())


def read_details(path: Path | None, today: date) -> Details:
    """Read details from a file; without a file all are open.

    A broken file is refused with the key and its line. Details that have expired are refused too.
    """
    if path is None:
        return Details()
    if not path.is_file():
        raise InvalidValue(
            f"--details {path} does not exist. "
            "Give a TOML file such as examples/statement_details.toml."
        )
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"Cannot read {path}: {error}") from error
    for key, value in table.items():
        _checked({key: value}, path, text, key)
    details = _checked(table, path, text, "expires")
    if details.expires is not None and details.expires <= today:
        raise InvalidValue(
            f"{path}, line {_line_of(text, 'expires')}: "
            f"Expected expires={details.expires} to lie after today, {today}."
        )
    return details


def _checked(table: dict[str, Any], path: Path, text: str, key: str) -> Details:
    try:
        return typed(Details, table, "details")
    except InvalidValue as error:
        raise InvalidValue(f"{path}, line {_line_of(text, key)}: {error}") from error


def _line_of(text: str, key: str) -> int:
    pattern = re.compile(rf"^\s*(\[\[?\s*)?[\"']?{re.escape(key)}\b")
    return next(
        (number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1
    )


SHOWN_RECORDS = (1, 2, 5, 10)  # if the number of records of one person is open


def largest_quote(points: Iterable[Point]) -> Quote | None:
    """The largest epsilon with the largest delta; they hold for every observer."""
    found = list(points)
    return Quote(max(p.epsilon for p in found), max(p.delta for p in found)) if found else None


@dataclass(frozen=True)
class Signature:
    """The public key that signed the run, None if nobody did; whether it is the expected one."""

    signer: str | None = None
    checked: bool = False

    @property
    def words(self) -> str:
        """Who signed."""
        if self.signer is None:
            return "not signed: anyone could have written it"
        known = "the expected key" if self.checked else "not compared with a known key"
        return f"signed by {self.signer}, {known}"


@dataclass(frozen=True)
class Statement:
    """Everything a statement says; renderers decide how.

    `audit` is None without an audit, and `ledger` unless it is about the ledger of a deployment.
    """

    run: RunRecord
    algorithm: AlgorithmRecord
    details: Details
    audit: Audit | None
    written: date
    signature: Signature = Signature()
    ledger: LedgerRecord | None = None

    def __post_init__(self) -> None:
        spread, clients = self.details.clients_per_person, self.algorithm.clients
        if spread is not None and not spread <= clients:
            raise InvalidValue(
                f"Expected clients_per_person={spread!r} <= the {clients} clients of the run."
            )
        records, rounds = self.details.records_per_client, self.algorithm.horizon
        if records is not None and rounds is not None and not records <= rounds:
            raise InvalidValue(
                f"Expected records_per_client={records!r} <= the {rounds} rounds of the run."
            )
        for unit in (guarantee.unit for guarantee in self.algorithm.guarantees):
            if unit.kind in (Person.__name__, Part.__name__):
                self._check_person(unit)

    def _check_person(self, unit: UnitRecord) -> None:
        """Refuse details of a person that the unit does not cover."""
        records, spread = self.details.records_per_client or 1, self.details.clients_per_person or 1
        person = unit.parameters.get("of", unit.parameters)
        most, clients = person["records"], person["clients"]
        if not spread <= clients:
            raise InvalidValue(
                f"Expected clients_per_person={spread!r} to be covered: the unit is {unit.words}."
            )
        if not records * spread <= most:
            raise InvalidValue(
                f"Expected records of one person={records * spread!r} to be covered: the unit is "
                f"{unit.words}."
            )

    @property
    def stamp(self) -> str | None:
        """A run without secure noise is a simulation, even if its record has no stamp."""
        return None if self.run.noise.secure and self.run.stamp is None else STAMP

    @property
    def title(self) -> str:
        """The name from the details or, without one, the title of the run."""
        return self.run.title if not self.details.name else self.details.name

    @property
    def protecting(self) -> list[tuple[CurveRecord, list[GuaranteeRecord]]]:
        """Every distinct curve with the guarantees that have it."""
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
        """The observers against whom nothing is guaranteed."""
        return [guarantee for guarantee in self.algorithm.guarantees if guarantee.curve is None]

    @property
    def units(self) -> list[GuaranteeRecord]:
        """One guarantee for every distinct unit and adjacency; those that protect come first."""
        found: list[GuaranteeRecord] = []
        for guarantee in sorted(self.algorithm.guarantees, key=lambda g: g.curve is None):
            if all((g.unit, g.adjacency) != (guarantee.unit, guarantee.adjacency) for g in found):
                found.append(guarantee)
        return found

    @property
    def claimed(self) -> CurveRecord | None:
        """What a paper claims for these constants."""
        return next((g.claimed for g in self.algorithm.guarantees if g.claimed is not None), None)

    @property
    def one_run(self) -> Quote | None:
        """What one run guarantees against every observer with a guarantee."""
        return largest_quote(curve for curve, _ in self.protecting)

    @property
    def all_runs(self) -> Quote | None:
        """What all runs on the same data guarantee together."""
        return largest_quote(
            g.total or g.curve for g in self.algorithm.guarantees if g.curve is not None
        )

    def of_records(self, records: int) -> Quote | None:
        """The same for a person with this many records."""
        return largest_quote(
            of_records(g.curve, g.total, records, self.algorithm.separate)
            for g in self.algorithm.guarantees
            if g.curve is not None
        )

    @property
    def covered(self) -> int | None:
        """The rounds that the stated numbers cover; None: any number."""
        limits = [g.horizon for _, members in self.protecting for g in members if g.horizon]
        rounds = self.algorithm.horizon
        return min(limits, default=None) if rounds is None else rounds

    @property
    def repeats(self) -> bool:
        """Whether several runs had the same data."""
        return self.algorithm.runs > 1

    @property
    def also(self) -> list[AlgorithmRecord]:
        """The other algorithms on the same data; data without a fingerprint count as the same."""
        mine = self.algorithm
        if mine.data != "recorded":
            return []
        others = [a for a in self.run.algorithms if a is not mine and a.data == "recorded"]
        return [
            a for a in others if a.losses is None or mine.losses is None or a.losses == mine.losses
        ]

    @property
    def by_person(self) -> bool:
        """Whether the unit is a record; one person may have several."""
        return self.units[0].unit.kind == Event.__name__

    @property
    def most(self) -> int | None:
        """The most records of one person at all clients together; None if that is open."""
        records, clients = self.details.records_per_client, self.details.clients_per_person
        if self.algorithm.clients == 1:
            clients = 1
        return None if records is None or clients is None else records * clients

    @property
    def lead(self) -> int:
        """The number of records that the text starts with: the most allowed, as far as known."""
        return (self.most or self.details.records_per_client or 1) if self.by_person else 1

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of records of one person in the table of attacks."""
        if not self.by_person:
            return (1,)
        records = self.details.records_per_client
        if records is None:
            reports = self.algorithm.clients * (self.algorithm.horizon or max(SHOWN_RECORDS))
            return tuple(count for count in SHOWN_RECORDS if count <= reports)
        return tuple(sorted({1, records, self.lead}))

    @property
    def trusts_server(self) -> bool:
        """Whether the server sees exact data and is trusted to add the noise."""
        return self.algorithm.trust == "central" and bool(self.protecting)

    @property
    def open(self) -> tuple[str, ...]:
        """The names of open details that matter here."""
        return tuple(
            name for name in self.details.open if name != "server_trusted_by" or self.trusts_server
        )

    @property
    def assumptions(self) -> dict[str, str]:
        """The meaning of every assumption, by name."""
        return {
            name: meaning
            for guarantee in self.algorithm.guarantees
            for name, meaning in sorted(guarantee.assumes.items())
        }


def algorithms_to_state(run: RunRecord, label: str | None) -> list[AlgorithmRecord]:
    """All algorithms of a run, or the one with this label."""
    if label is None:
        return run.algorithms
    found = [algorithm for algorithm in run.algorithms if algorithm.label == label]
    if not found:
        raise InvalidValue(
            f"Unknown algorithm {label!r} in {run.run}; "
            f"{nearest(label, [a.label for a in run.algorithms])}"
        )
    return found


def statement_folder_names(run: RunRecord) -> dict[str, str]:
    """A folder name for every label: lower case, with letters, digits, _ and -, all distinct."""
    names: dict[str, str] = {}
    for algorithm in run.algorithms:
        base = re.sub(r"[^\w]+", "-", algorithm.label.lower()).strip("-_") or "algorithm"
        number, name = 1, base
        while name in names.values():
            number, name = number + 1, f"{base}-{number + 1}"
        names[algorithm.label] = name
    return names
