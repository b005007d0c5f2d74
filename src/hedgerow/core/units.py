"""Units: what a guarantee protects, how they are written, and which covers which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.record import LOSS_VECTOR, Record
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, expect

WRITTEN = "event, person:24, person:24@2 (at 2 clients), window:7, client"


@dataclass(frozen=True)
class Unit(ABC):
    """What a guarantee protects, in words and as a formula; `record` says what a record is."""

    noun: ClassVar[str]
    record: Record = field(default=LOSS_VECTOR, kw_only=True)

    @abstractmethod
    def words(self) -> str:
        """Return the unit in words."""

    @abstractmethod
    def adjacency(self) -> str:
        """Return the change that a guarantee hides, in words."""

    @abstractmethod
    def formula(self) -> str:
        """Return when two streams of records are neighbours, as a formula."""

    @abstractmethod
    def text(self) -> str:
        """Return the unit as `parse_unit` reads it."""

    @property
    def shape(self) -> tuple[float, float, float] | None:
        """The most records, the most clients, and the least distance in rounds at one client.

        None: the unit is only a part of a record.
        """
        return None

    def size(self, setting: Setting) -> int:
        """Return the most records of one unit in a game; refuse a unit that the game cannot hold.

        The record of the setting counts: a client may hold several in one round.
        """
        raise Unsupported(f"{self.words()} has no number of records.")


@dataclass(frozen=True)
class Event(Unit):
    """The unit is one record of one client in one round.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Event().words()
    'one loss vector of one client in one round'
    """

    noun: ClassVar[str] = "record"

    def words(self) -> str:
        several = self.record.each > 1
        name = f"of the {self.record.each} {self.record.plural}" if several else self.record.name
        return f"one {name} of one client in one round{_aside(self.record)}"

    def adjacency(self) -> str:
        what = f"one {self.record.name} {self.record.placed}"
        return f"replace {what} of one client in one round{_stays(self.record)}"

    def formula(self) -> str:
        if self.record.each > 1:  # several records of a client in one round: one of them changes
            place, prime = "j,s,l", "'"
            return (
                "D ~ D' if, for some client i, round t and number k, "
                f"{self.record.at(place)} = {self.record.at(place, prime)} "
                "for all (j,s,l) other than (i,t,k)"
            )
        return (
            "D ~ D' if, for some client i and round t, "
            f"{_unchanged(self.record)} for all (j,s) other than (i,t)"
        )

    def text(self) -> str:
        return "event"

    @property
    def shape(self) -> tuple[float, float, float]:
        return 1, 1, 1

    def size(self, setting: Setting) -> int:
        return 1


@dataclass(frozen=True)
class Person(Unit):
    """The unit is one person: all the records of this person, at one client or at several.

    Parameters
    ----------
    records
        The most records of one person, at all clients together.
    clients
        The most clients at which one person has records. Default: 1.
    apart
        The least number of rounds between two rounds in which a person has records at one client.
        Default: 1, any.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Person(records=24, clients=2, apart=7).words()
    'one person with at most 24 records at no more than 2 clients, 7 or more rounds apart'
    >>> built = hr.RandomPrefix(epsilon=1.0, unit=hr.Person(4)).build(hr.Setting(10, 20, 512))
    >>> built.certificate.public.curve.stated(), built.certificate.public.unit.words()
    ((1.0, 0.0), 'one person with at most 4 records at one client')
    """

    noun: ClassVar[str] = "person"
    records: int
    clients: int = 1
    apart: int = 1

    def __post_init__(self) -> None:
        at_least("records", self.records, 1)
        at_least("clients", self.clients, 1)
        at_least("apart", self.apart, 1)
        rule = f"<= the {self.records} records of one person"
        expect(self.clients <= self.records, "clients", self.clients, rule)

    def words(self) -> str:
        if self.records == 1:
            return f"one person with one record{_aside(self.record)}"
        where = f"at no more than {self.clients} clients"
        if self.clients in (1, self.records):
            where = "at one client" if self.clients == 1 else "across clients"
        apart = f", {self.apart} or more rounds apart" if self.apart > 1 else ""
        return f"one person with at most {self.records} records {where}{apart}{_aside(self.record)}"

    def adjacency(self) -> str:
        where = f"of at most {self.clients} clients"
        if self.clients in (1, self.records):
            where = "of one client" if self.clients == 1 < self.records else "of any clients"
        what = f"{self._most} {self.record.placed}"
        apart = f", at one client {self.apart} or more rounds apart" if self.apart > 1 else ""
        return f"replace at most {what}, all of one person, {where}{apart}{_stays(self.record)}"

    def formula(self) -> str:
        where = "" if self.clients == self.records else f" and at {self.clients} clients"
        where = " and at one client" if self.clients == 1 < self.records else where
        apart = f", {self.apart} rounds apart" if self.apart > 1 else ""
        return f"D ~ D' if they differ in at most {self._most}, all of one person{where}{apart}"

    @property
    def _most(self) -> str:
        name = self.record.name if self.records == 1 else self.record.plural
        return f"{self.records} {name}"

    def text(self) -> str:
        clients = f"@{self.clients}" if self.clients > 1 else ""
        apart = f"/{self.apart}" if self.apart > 1 else ""
        return f"person:{self.records}{clients}{apart}"

    @property
    def shape(self) -> tuple[float, float, float]:
        return self.records, self.clients, self.apart if self.records > 1 else 1

    def size(self, setting: Setting) -> int:
        rule = f"<= the {setting.clients} clients of the game"
        expect(self.clients <= setting.clients, "clients of one person", self.clients, rule)
        if setting.horizon is not None:
            times = -(-setting.horizon // self.apart) * self.clients
            most = times * setting.family.record.each
            rule = f"<= {most}, as many as one person can have in this game"
            expect(self.records <= most, "records of one person", self.records, rule)
        return self.records


@dataclass(frozen=True)
class Window(Unit):
    """The unit is everything of one client in some consecutive rounds.

    Parameters
    ----------
    rounds
        How many rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Window(7).words()
    'everything of one client in 7 consecutive rounds'
    """

    noun: ClassVar[str] = "window"
    rounds: int

    def __post_init__(self) -> None:
        at_least("rounds", self.rounds, 1)

    def words(self) -> str:
        return f"everything of one client in {self._rounds}{_aside(self.record)}"

    def adjacency(self) -> str:
        what = f"{self.record.plural} {self.record.placed}"
        return f"replace all {what} of one client in {self._rounds}{_stays(self.record)}"

    def formula(self) -> str:
        return (
            f"D ~ D' if, for some client i and round t, {_unchanged(self.record)} "
            f"for all (j,s) but client i in rounds t to t + {self.rounds - 1}"
        )

    @property
    def _rounds(self) -> str:
        return "one round" if self.rounds == 1 else f"{self.rounds} consecutive rounds"

    def text(self) -> str:
        return f"window:{self.rounds}"

    @property
    def shape(self) -> tuple[float, float, float]:
        return self.rounds * self.record.each, 1, 1

    def size(self, setting: Setting) -> int:
        most = inf if setting.horizon is None else setting.horizon
        rule = f"<= the {setting.horizon} rounds of the game"
        expect(self.rounds <= most, "rounds of a window", self.rounds, rule)
        return self.rounds * setting.family.record.each


@dataclass(frozen=True)
class Client(Unit):
    """The unit is everything that one client holds, in all rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Client().adjacency()
    'replace all loss vectors l_(i,t) in [0,1]^d of one client'
    """

    noun: ClassVar[str] = "client"

    def words(self) -> str:
        return f"all the data of one client{_aside(self.record)}"

    def adjacency(self) -> str:
        what = f"{self.record.plural} {self.record.placed}"
        return f"replace all {what} of one client{_stays(self.record)}"

    def formula(self) -> str:
        return (
            "D ~ D' if, for some client i, "
            f"{_unchanged(self.record)} for all other clients j and all rounds s"
        )

    def text(self) -> str:
        return "client"

    @property
    def shape(self) -> tuple[float, float, float]:
        return inf, 1, 1

    def size(self, setting: Setting) -> int:
        if setting.horizon is None:
            raise Unsupported(
                "Without a horizon a client has any number of records, which no budget of records "
                "can cover. Give the number of rounds, or choose unit=hr.Window(rounds=...)."
            )
        return setting.horizon * setting.family.record.each


@dataclass(frozen=True)
class Part(Unit):
    """The unit is a declared part of `of`: a change of losses that is no larger than declared.

    Nobody checks the declared numbers, so they are part of the unit and of its words. `least` and
    `most` are the smallest and the largest of them, if each round has its own; they bound the
    change of one round, of all clients and experts, in the l2 norm.
    """

    noun: ClassVar[str] = "person"
    of: Unit
    least: float
    most: float

    @property
    def moves(self) -> str:
        """What is declared, in words."""
        most = f"at most {self.most:.6g}"
        if self.least != self.most:
            most = f"a declared number for each round, from {self.least:.6g} to {self.most:.6g},"
        return f"moves the {self.record.charges} of all experts in one round by {most}"

    def words(self) -> str:
        return f"{self.of.words()} that {self.moves} in the l2 norm (declared, not checked)"

    def adjacency(self) -> str:
        return f"{self.of.adjacency()}; it {self.moves} in the l2 norm"

    def formula(self) -> str:
        return f"{self.of.formula()}, which {self.moves} in the l2 norm"

    def text(self) -> str:
        return f"part:{self.least!r}"


def _aside(record: Record) -> str:
    """Say what is not protected."""
    return f" ({record.public} are public)" if record.public else ""


def _stays(record: Record) -> str:
    return f"; {record.public} are public and stay the same" if record.public else ""


def _unchanged(record: Record) -> str:
    place, prime = "j,s", "'"
    return f"{record.at(place)} = {record.at(place, prime)}"


def parse_unit(written: Any) -> Unit:
    """The unit that is written as text or as a table.

    >>> parse_unit("person:24@2") == parse_unit({"person": 24, "clients": 2}) == Person(24, 2)
    True
    >>> parse_unit("window:7").text(), parse_unit(Person(24, 2, 7).text()) == Person(24, 2, 7)
    ('window:7', True)
    >>> parse_unit("person")
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected unit='person' to be one of event, person:24, ...
    """
    if isinstance(written, Unit):
        return written
    found: Any = None
    if isinstance(written, str):
        kind, _, rest = written.partition(":")
        rest, _, apart = rest.partition("/")
        number, _, clients = rest.partition("@")
        table = {kind: number, "clients": clients, "apart": apart}
        given = {name: int(n) for name, n in table.items() if n.isascii() and n.isdigit()}
        whole = all(n == "" or name in given for name, n in table.items())
        if written in ("event", "client"):
            found = Event() if written == "event" else Client()
        elif whole and given and kind in given:
            return parse_unit(given)
    elif isinstance(written, Mapping):
        if "person" in written and set(written) <= {"person", "clients", "apart"}:
            rest = {name: n for name, n in written.items() if name != "person"}
            found = Person(written["person"], **rest)
        elif set(written) == {"window"}:
            found = Window(written["window"])
    if found is None:
        raise InvalidValue(f"Expected unit={written!r} to be one of {WRITTEN}.")
    return found


def covers(unit: Unit, other: Unit, horizon: float = inf) -> bool:
    """Whether every change that `other` allows is one that `unit` allows.

    If it does, a guarantee for `unit` holds for `other` too. The answer is True only where this is
    known: a declared part covers no whole, and a record that is one of several covers no whole.

    >>> covers(Person(3, 3), Event()), covers(Event(), Client()), covers(Client(), Person(9))
    (True, False, True)
    >>> covers(Part(Person(1), 1e-6, 1e-6), Event())
    False
    """
    if isinstance(unit, Part) or isinstance(other, Part):
        return (
            isinstance(unit, Part)
            and isinstance(other, Part)
            and (unit.record.charge, unit.record.bounds)
            == (other.record.charge, other.record.bounds)
            and unit.least >= other.most
            and covers(unit.of, other.of, horizon)
        )
    own, theirs = _known(unit), _known(other)
    if own is None or theirs is None or unit.record.each not in (1, other.record.each):
        return False
    if theirs[0] == 1:
        return True
    if isinstance(unit, Window) and isinstance(other, Person):
        return other.clients == 1 and unit.rounds >= horizon
    if isinstance(other, Client):
        theirs = (horizon * other.record.each, 1, 1)
    apart = own[2] <= theirs[2]
    whole = isinstance(unit, Client)  # of any size, also without a horizon
    return (whole or own[0] >= theirs[0]) and own[1] >= theirs[1] and apart


def _known(unit: Unit) -> tuple[float, float, float] | None:
    """The shape of a unit of this file: a subclass may be about less."""
    return unit.shape if type(unit) in (Event, Person, Window, Client) else None
