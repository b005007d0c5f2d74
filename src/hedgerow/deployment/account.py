"""The account of a data set: the budget of all studies together, and what they have spent.

The account outlives every study. Joining a study charges the whole certificate of the study at
once, before anything is computed. A study that does not fit is refused. So is one that protects
less than the unit of the account, with what it would cost in that unit; `convert` charges that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgerow.core.certificate import (
    PUBLIC_PRESENCE,
    PUBLIC_REPORTERS,
    PUBLIC_SLEEP,
    Guarantee,
)
from hedgerow.core.errors import InvalidValue
from hedgerow.core.people import Who, identified
from hedgerow.core.protocol import Algorithm
from hedgerow.core.rounding import round_down, round_up
from hedgerow.core.unit_order import steps
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import ANY_RECORD, Event, Part, Person, Unit
from hedgerow.deployment import chain as chains
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.database import Database, open_database, write_durably
from hedgerow.deployment.keys import load_or_make, public_hex
from hedgerow.deployment.manifest import Manifest, canonical, decimal_of
from hedgerow.privacy.budget import Budget, Currency, amount
from hedgerow.privacy.odometer import BudgetSpent, Filter

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FILE, KEY, STUDIES = "data.db", "key.pem", "studies"
CHARGED = "charged"
"""In the folder of a study that was charged: the digest, so that an old account is noticed."""
EVENT = "event"
"""The unit of accounts of version 0.3.0, which had none: one record of one client in one round."""
SCHEMA = (
    chains.SCHEMA
    + """
CREATE TABLE IF NOT EXISTS account(
    id INTEGER PRIMARY KEY CHECK(id = 0), name TEXT NOT NULL, budget TEXT NOT NULL,
    filter BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS person(
    who BLOB NOT NULL, round BLOB NOT NULL, study BLOB NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY(who, round, study));
CREATE TABLE IF NOT EXISTS charge(
    study BLOB PRIMARY KEY, ledger BLOB NOT NULL, title TEXT NOT NULL, words TEXT NOT NULL,
    time TEXT NOT NULL);
"""
)


@dataclass(frozen=True)
class Charge:
    """What one study has cost: its digest, title, the guarantee in words, and when it was joined.

    The time is for readers; nothing depends on it.
    """

    study: bytes
    title: str
    words: str
    time: str


class Account:
    """The budget of one data set, in its own folder together with the client's key.

    The ledger of a study stays open while a process plays the study. The account is opened only for
    a moment, so several studies can use one data set.

    Parameters
    ----------
    folder
        The folder that `Account.make` has made.

    Examples
    --------
    >>> import tempfile
    >>> place = tempfile.mkdtemp() + "/ward-3"
    >>> account = Account.make(place, name="Ward 3", unit="person:24", epsilon="2.0")
    >>> account.name, account.budget, account.spent_words()
    ('Ward 3', {'epsilon': '2.0'}, 'epsilon = 0 of 2')
    >>> account.unit.words()
    'one person with at most 24 records at one client'
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / FILE).is_file():
            raise InvalidValue(
                f"{self.folder} holds no account of a data set. "
                "Make one with `hedgerow client init`."
            )
        with self._open() as (ledger, name, budget, _):
            self.name, self.budget = name, budget
            self.unit = parse_unit(_settings(ledger)["unit"], ANY_RECORD)

    @classmethod
    def make(
        cls,
        folder: str | Path,
        *,
        name: str,
        unit: str,
        epsilon: str | float | None = None,
        delta: str | float | None = None,
        mu: str | float | None = None,
        rho: str | float | None = None,
        currency: Currency | None = None,
    ) -> Account:
        """Make the account of a data set, and a key if the folder has none; it must be new.

        Budgets are decimals, such as "0.1", and are kept exactly. By default a budget of epsilon
        is counted in the pure currency, which is best for a few studies; `currency` chooses
        another one, in advance.

        `unit` is whose secret the budget is for, such as "event", "person:24", "window:7" or
        "client" (`hedgerow.core.unit_text`). A record is all that a client reports in one round,
        whatever a study calls it; "event:8" is one of 8 such. With "event,public=forecasts" only
        the rest of a record is secret. It is fixed for ever.
        """
        out = Path(folder)
        if (out / FILE).exists():
            raise InvalidValue(f"{out} already holds an account. A budget is set once.")
        if not name.strip() or not name.isprintable():
            raise InvalidValue(f"Expected name={name!r} to say what the data are, in one line.")
        given = {"epsilon": epsilon, "delta": delta, "mu": mu, "rho": rho}
        budget = {key: str(value) for key, value in given.items() if value is not None}
        start = _filter(budget, currency)
        parse_unit(unit, ANY_RECORD)
        key = public_hex(load_or_make(out / KEY))
        ledger = open_database(out / FILE, SCHEMA, wait_s=10.0)
        try:
            with ledger.transaction("account made"):
                kept = {**budget, "currency": start.currency, "unit": unit}
                text = canonical(kept).decode()
                ledger.execute(
                    "INSERT INTO account VALUES(0, ?, ?, ?)", (name, text, start.to_bytes())
                )
                Chain(ledger).add("account", canonical({"name": name, "key": key, **kept}))
        finally:
            ledger.close()
        return cls(out)

    @classmethod
    def around(cls, study: str | Path) -> Account:
        """The account in whose folder the folder of a study is."""
        place = Path(study).absolute()
        data = place.parent.parent
        if place.parent.name != STUDIES or not (data / FILE).is_file():
            raise InvalidValue(
                f"{place} is not inside the folder of its data set: {data} holds no account "
                f"({FILE}). If the account was lost, put it back from a backup. If the study was "
                f"moved, move it back into the folder {STUDIES} of the account that was charged."
            )
        return cls(data)

    def study(self, digest: bytes) -> Path:
        """The folder of the ledger of a study, which is always inside that of its account."""
        return study_folder(self.folder, digest)

    @contextmanager
    def _open(self) -> Iterator[tuple[Database, str, dict[str, str], Filter]]:
        """The ledger, the name, the budget, and the filter as it stands."""
        ledger = open_database(self.folder / FILE, SCHEMA, wait_s=10.0)
        try:
            row = ledger.one("SELECT name, budget, filter FROM account")
            if row is None:
                raise InvalidValue(
                    f"Making the account in {self.folder} was interrupted. Delete {FILE} there, "
                    "then run `hedgerow client init` again."
                )
            other = ("currency", "unit")
            budget = {k: v for k, v in json.loads(row[1]).items() if k not in other}
            yield ledger, row[0], budget, Filter.from_bytes(bytes(row[2]))
        finally:
            ledger.close()

    @cached_property
    def key(self) -> Ed25519PrivateKey:
        """The private key with which this client signs."""
        return self._read_key()

    def _read_key(self) -> Ed25519PrivateKey:
        """The key in the file, which must be that with which the account was made."""
        file = self.folder / KEY
        if not file.is_file():
            raise InvalidValue(f"The key {file} is missing. Put it back from a backup.")
        key = load_or_make(file)
        with self._open() as (ledger, _, _, _):
            first = next(Chain(ledger).entries(), None)
        try:
            known = None if first is None else json.loads(first.body)["key"]
        except (ValueError, TypeError, KeyError):
            known = None
        if known != public_hex(key):
            raise InvalidValue(
                f"The key {file} is not the one with which the account was made. Put that one back."
            )
        return key

    @property
    def public_key(self) -> str:
        """The public key, for the study file of a server."""
        return public_hex(self.key)

    def check_complete(self) -> None:
        """Raise `InvalidValue` if a study that was charged here is missing from the account."""
        marks = self.folder.glob(f"{STUDIES}/*/{CHARGED}")
        joined = {mark.read_text(encoding="utf-8").strip() for mark in marks}
        missing = sorted(joined - {charge.study.hex() for charge in self.charges()})
        if missing:
            raise InvalidValue(
                f"The account in {self.folder} lacks the charge of the study {missing[0][:16]}, "
                f"which was joined here: it is an old copy. Put the latest {FILE} back. If it is "
                "lost, make another account, with the budget that is left."
            )

    def costs(self, algorithm: Algorithm, convert: bool = False) -> list[tuple[Guarantee, int]]:
        """What a study costs in the unit of this account, and how many of its units that takes.

        Raises `InvalidValue` if its unit does not cover that of the account and `convert` is False,
        or if no number of its units does.
        """
        found: list[tuple[Guarantee, int]] = []
        for guarantee in algorithm.certificate.guarantees:
            if not guarantee.protects:
                continue
            own, unit = self.unit, shown_unit(guarantee)
            if isinstance(own, Event):  # a record does not say whether there is one
                own = replace(own, record=own.record.showing([ABSENCES]))
            times = steps(unit, own, algorithm.setting.horizon or inf)
            if times == 1:
                found.append((guarantee, 1))
                continue
            if times is None:
                raise InvalidValue(self._refusal(guarantee))
            one = isinstance(guarantee.unit, Event) and algorithm.certificate.grown == 1
            whole = replace(
                guarantee,
                unit=self.unit,
                adjacency=self.unit.adjacency(),
                curve=guarantee.curve.of_records(times, one and algorithm.certificate.separate),
                claimed=None,
            )
            if not convert:
                raise InvalidValue(self._refusal(guarantee, whole))
            found.append((whole, times))
        return found

    def _refusal(self, guarantee: Guarantee, whole: Guarantee | None = None) -> str:
        """Why a study that protects less is refused, and what it costs in the account's unit."""
        unit = shown_unit(guarantee)
        text = (
            f"This study protects {unit.words()}. The account {self.name!r} counts in "
            f"another unit: {self.unit.words()}. "
        )
        ask = f"Ask the operator of the server for unit = {self.unit.text()!r}, or join with "
        if whole is not None:
            return (
                f"{text}For that unit the study costs {whole.curve.words()}. Nothing was charged. "
                f"{ask}--convert, which charges this."
            )
        own = f"part:{unit.least}" if isinstance(unit, Part) and unit.least else unit.text()
        return (
            f"{text}What the study costs in it is not known. Nothing was charged. {ask}an account "
            "for the unit of the study, which has its own budget: "
            f"`hedgerow client init --data NAME --budget EPSILON --unit '{own}'`."
        )

    def quote(self, algorithm: Algorithm, *, convert: bool = False) -> Guarantee:
        """Return the guarantee that joining would charge.

        Raises `BudgetSpent` if it is too much, and `InvalidValue` if its unit is too small.
        `convert` charges a study of a smaller unit for as many as the account's unit may have.
        """
        self.check_complete()
        costs = self.costs(algorithm, convert)
        with self._open() as (_, _, budget, spent):
            return _worst(spent, [g for g, _ in costs], algorithm.name, budget)[0]

    def charge(
        self, manifest: Manifest, algorithm: Algorithm, ledger: bytes, *, convert: bool = False
    ) -> str:
        """Charge a study, once, and return what it costs in words.

        Parameters
        ----------
        manifest, algorithm
            The study, and the algorithm that `rebuild` returned for it.
        ledger
            The identity of the study's ledger at this client. A study has one ledger: with a second
            one everything would be released twice, so it is refused. The same ledger again, as
            after a crash, costs nothing.
        convert
            Whether to join a study of a smaller unit, for what it costs in the account's.
        """
        if not manifest.private:
            return "nothing is charged: " + manifest.words()[-1]
        self.check_complete()
        with self._open() as (database, _, budget, spent):
            known = database.one(
                "SELECT ledger, words FROM charge WHERE study = ?", (manifest.digest,)
            )
            if known is not None:
                if bytes(known[0]) != ledger:
                    raise InvalidValue(
                        f"The study {manifest.title!r} was joined before with another ledger. A "
                        "second ledger would release everything twice. Use the first one, or join "
                        "a new study."
                    )
                return known[1]
            costs = self.costs(algorithm, convert)
            guarantee, after = _worst(spent, [g for g, _ in costs], algorithm.name, budget)
            times = max(count for _, count in costs)
            converted = {"converted": times} if times > 1 else {}
            words = guarantee.words()
            if converted:
                words += f"; converted: {times} times what the study protects"
            now = datetime.now(UTC).isoformat(timespec="seconds")
            with database.transaction("account charge"):
                database.execute("UPDATE account SET filter = ?", (after.to_bytes(),))
                row = (manifest.digest, ledger, manifest.title, words, now)
                database.execute("INSERT INTO charge VALUES(?, ?, ?, ?, ?)", row)
                body = {
                    "study": manifest.digest.hex(),
                    "title": manifest.title,
                    "words": words,
                    "time": now,
                    "spent": str(after.odometer.units),
                    **converted,
                }
                Chain(database).add("charge", canonical(body))
            return words

    def count(
        self, people: Iterable[Who], name: str, number: int, study: bytes, units: Iterable[Unit]
    ) -> None:
        """Count that these people were in a round, or raise `InvalidValue` and count nobody.

        The same `name` of a round in two studies is one record of a person. `units` are those that
        the study protects; with the unit of the account they say how many records one person may
        have, and how far apart. Ids are kept as hashes with the key of this account.
        """
        limits = [unit for unit in (self.unit, *units) if isinstance(unit, Person)]
        texts = dict.fromkeys(unit.text() for unit in limits)
        most = min((unit.records for unit in limits if unit.records is not None), default=inf)
        apart = max((unit.apart for unit in limits), default=1)
        secret = self.key.private_bytes_raw()

        def hidden(text: str) -> bytes:
            return blake2b(b"person\n" + text.encode(), key=secret, digest_size=16).digest()

        found = sorted({hidden(identified(who)) for who in people})
        with self._open() as (ledger, _, _, _), ledger.transaction("people counted"):
            for who in found:
                rows = ledger.execute(
                    "SELECT round, study, number FROM person WHERE who = ?", (who,)
                )
                seen = [(bytes(a), bytes(b), at) for a, b, at in rows]
                near = (at for _, own, at in seen if own == study and at != number)
                if len({hidden(name), *(a for a, _, _ in seen)}) > most:
                    raise InvalidValue(
                        f"A person is in more than {most:.0f} rounds, the most that is declared "
                        f"({', '.join(texts)}). Nothing was sent. Leave out rows of such people "
                        "(`hedgerow people` counts them)."
                    )
                if any(abs(at - number) < apart for at in near):
                    raise InvalidValue(
                        f"A person is in two rounds less than {apart} apart, the least that is "
                        "declared. Nothing was sent. Leave out one of the rows."
                    )
                ledger.execute(
                    "INSERT OR IGNORE INTO person VALUES(?, ?, ?, ?)",
                    (who, hidden(name), study, number),
                )

    def mark(self, manifest: Manifest) -> None:
        """Note in the folder of a study that it was charged; on disk before it is joined."""
        file = self.study(manifest.digest) / CHARGED
        write_durably(file, f"{manifest.digest.hex()}\n".encode())

    def knows(self, manifest: Manifest) -> bool:
        """Whether the study was charged before."""
        return any(charge.study == manifest.digest for charge in self.charges())

    def paid(self, manifest: Manifest, ledger: bytes) -> bool:
        """Whether the study was charged for this ledger; a study that is not private is free."""
        if not manifest.private:
            return True
        with self._open() as (database, _, _, _):
            row = database.one("SELECT ledger FROM charge WHERE study = ?", (manifest.digest,))
            return row is not None and bytes(row[0]) == ledger

    def charges(self) -> list[Charge]:
        """What was charged, in order."""
        with self._open() as (ledger, _, _, _):
            rows = ledger.execute("SELECT study, title, words, time FROM charge ORDER BY rowid")
            return [Charge(bytes(study), *rest) for study, *rest in rows]

    @property
    def filter(self) -> Filter:
        """The budget and what is spent of it."""
        with self._open() as (_, _, _, spent):
            return spent

    def spent_words(self) -> str:
        """How much of the budget is spent, in words."""
        return _words(self.filter)

    def check(self) -> bytes:
        """Check the log, the sum of all charges and the key; return the head of the log."""
        with self._open() as (ledger, name, _, spent):
            chain = Chain(ledger)
            head, found, charged = chain.check(), "0", []
            for entry in chain.entries():
                if entry.kind == "charge":
                    body = json.loads(entry.body)
                    found = body["spent"]
                    charged.append(bytes.fromhex(body["study"]))
            listed = [bytes(s) for (s,) in ledger.execute("SELECT study FROM charge")]
            first = next(chain.entries(), None)
            made = {} if first is None else json.loads(first.body)
            kept = {"unit": EVENT, "name": name, "key": made.get("key"), **_settings(ledger)}
            if (
                found != str(spent.odometer.units)
                or sorted(charged) != sorted(listed)
                or kept != {"unit": EVENT, **made}
            ):
                raise InvalidValue(f"The account in {self.folder} does not agree with its log.")
        self.check_complete()
        self._read_key()
        return head

    def export(self) -> list[str]:
        """The log as lines of JSON."""
        with self._open() as (ledger, _, _, _):
            return list(Chain(ledger).export())


ABSENCES = "absences"
SHOWN = {
    PUBLIC_PRESENCE: ABSENCES,
    PUBLIC_REPORTERS: ABSENCES,
    PUBLIC_SLEEP: "sleeping experts",
}
"""What a game shows of what clients hold, by the assumption that it is public."""


def shown_unit(guarantee: Guarantee) -> Unit:
    """What a guarantee protects, without what its game shows of a client."""
    if isinstance(guarantee.unit, Part):  # the declared change alone
        return guarantee.unit
    shown = [name for assumed, name in SHOWN.items() if assumed in guarantee.assumes]
    return replace(guarantee.unit, record=guarantee.unit.record.showing(shown))


def study_folder(account: Path, digest: bytes) -> Path:
    """The folder of a study inside the folder of its account."""
    return account / STUDIES / digest.hex()[:16]


def _settings(ledger: Database) -> dict[str, str]:
    """The budget, its currency and its unit, as they were set when the account was made."""
    row = ledger.one("SELECT budget FROM account")
    return {"unit": EVENT, **({} if row is None else json.loads(row[0]))}


def _filter(budget: dict[str, str], currency: Currency | None) -> Filter:
    """A filter whose capacity is at least the decimal budget; `_within` keeps to the decimals."""
    numbers = {key: decimal_of(value) for key, value in budget.items()}
    kind = next((key for key in ("epsilon", "mu", "rho") if key in numbers), None)
    natural = {"epsilon": "pure", "mu": "gaussian", "rho": "concentrated", None: None}[kind]
    chosen = natural if currency is None else currency
    near = round_up if chosen == natural else round_down
    floats: dict[str, Any] = {key: near(value) for key, value in numbers.items()}
    whole = Budget(**floats)
    mixed = chosen != "pure" and whole.failure > 0
    return Filter(whole, chosen, reserve=whole.failure / 2 if mixed else None)


def _within(after: Filter, budget: dict[str, str]) -> bool:
    """Whether the exact sums are within the decimals; the filter decides in other currencies."""
    numbers = {key: decimal_of(value) for key, value in budget.items()}
    limit = {
        "pure": numbers.get("epsilon"),
        "concentrated": numbers.get("rho"),
        "gaussian": numbers["mu"] ** 2 if "mu" in numbers else None,
    }[after.currency]
    spent = amount(after.odometer.units)
    delta = numbers.get("delta", Fraction(0))
    return (limit is None or spent <= limit) and amount(after.odometer.failure) <= delta


def _words(meter: Filter) -> str:
    """How much of a budget is spent."""
    name = {"pure": "epsilon", "concentrated": "rho", "gaussian": "mu^2"}[meter.currency]
    used, whole = (float(amount(u)) for u in (meter.odometer.units, meter.capacity))
    text = f"{name} = {used:.6g} of {whole:.6g}"
    if meter.reserve > 0:
        text += f", delta = {meter.odometer.delta:.6g} of {meter.reserve:.6g}"
    return text


def _worst(
    spent: Filter, protecting: list[Guarantee], name: str, budget: dict[str, str]
) -> tuple[Guarantee, Filter]:
    """The guarantee that costs most, and the filter after it; raise if one of them does not fit.

    Epsilon and delta may be largest for different observers. Both are charged.
    """
    if not protecting:
        raise InvalidValue(f"{name} protects nobody, so nothing can be charged.")
    try:
        ways = [(g, spent.spend(g.curve)) for g in protecting]
    except BudgetSpent as error:
        costs = " and ".join(dict.fromkeys(g.curve.words() for g in protecting))
        raise BudgetSpent(
            f"Joining costs {costs}, but {_words(spent)} is spent. Nothing was charged. Join a "
            "study that costs less."
        ) from error
    most = max(ways, key=lambda way: (way[1].odometer.units, way[1].odometer.failure))
    if not all(_within(after, budget) for _, after in ways):
        words = ", ".join(f"{key} = {value}" for key, value in budget.items())
        raise BudgetSpent(
            f"The study costs {most[0].curve.words()}. With what is already spent, this exceeds "
            f"the budget of {words} by less than the printed digits show. Give epsilon, delta or "
            "mu in the study file: there they are read as decimals and rounded down."
        )
    failure = max(after.odometer.failure for _, after in ways)
    if failure > most[1].odometer.failure:  # another observer costs less, but more of delta
        both = replace(most[1].odometer, failure=failure)
        return most[0], Filter(spent.budget, odometer=both, reserve=spent.reserve)
    return most
