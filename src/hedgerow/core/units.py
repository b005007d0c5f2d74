"""Units: what a guarantee protects. `unit_text` reads them, `unit_order` compares them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

import numpy as np

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.record import LOSS_VECTOR, Record
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, positive


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

    def pattern(self, setting: Setting, every: int = 1) -> tuple[int, int, int]:
        """How the records of one unit enter a running sum that adds a batch of `every` rounds.

        Returns how many they are, the most of them in one batch, and the least distance between two
        batches that have some (`proofs/correlated_noise.md#records`).
        """
        records, (_, clients, apart) = self.size(setting), self.shape or (1, 1, 1)
        rounds = -(-every // int(apart))  # of one client in one batch
        together = min(records, rounds * int(clients) * setting.family.record.each)
        return records, together, max(1, int(apart) // every) if clients == 1 else 1


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
        each, name = self.record.each, self.record.name
        one = f"one of the {each} {self.record.plural}" if each > 1 else f"one {name}"
        return f"replace {one} {self.record.placed} of one client in one round{_stays(self.record)}"

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
        each = f":{self.record.each}" if self.record.each > 1 else ""
        return f"event{each}{_public(self.record)}"

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
        The most records of one person, at all clients together. None: any number, which only
        `VoteSelection` protects.
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
    records: int | None
    clients: int = 1
    apart: int = 1

    def __post_init__(self) -> None:
        at_least("clients", self.clients, 1)
        at_least("apart", self.apart, 1)
        if self.records is None:
            if self.apart != 1:
                raise InvalidValue("Expected apart=1 where the records of a person have no limit.")
            return
        at_least("records", self.records, 1)
        if not self.clients <= self.records:
            raise InvalidValue(
                f"Expected clients={self.clients!r} <= the {self.records} records of one person."
            )

    def words(self) -> str:
        if self.records == 1:
            return f"one person with one record{_aside(self.record)}"
        if self.records is None:
            at = "one client" if self.clients == 1 else f"no more than {self.clients} clients"
            return f"one person with any number of records at {at}{_aside(self.record)}"
        where = f"at no more than {self.clients} clients"
        if self.clients in (1, self.records):
            where = "at one client" if self.clients == 1 else "across clients"
        apart = f", {self.apart} or more rounds apart" if self.apart > 1 else ""
        return f"one person with at most {self.records} records {where}{apart}{_aside(self.record)}"

    def adjacency(self) -> str:
        where = f"of at most {self.clients} clients"
        if self.clients in (1, self.records):
            where = "of one client" if self.clients == 1 != self.records else "of any clients"
        what = f"{self._most} {self.record.placed}"
        most = "" if self.records is None else "at most "
        apart = f", at one client {self.apart} or more rounds apart" if self.apart > 1 else ""
        return f"replace {most}{what}, all of one person, {where}{apart}{_stays(self.record)}"

    def formula(self) -> str:
        where = "" if self.clients == self.records else f" and at {self.clients} clients"
        where = " and at one client" if self.clients == 1 != self.records else where
        apart = f", {self.apart} rounds apart" if self.apart > 1 else ""
        most = "" if self.records is None else "at most "
        return f"D ~ D' if they differ in {most}{self._most}, all of one person{where}{apart}"

    @property
    def _most(self) -> str:
        name = self.record.name if self.records == 1 else self.record.plural
        return f"{'any number of' if self.records is None else self.records} {name}"

    def text(self) -> str:
        clients = f"@{self.clients}" if self.clients > 1 else ""
        apart = f"/{self.apart}" if self.apart > 1 else ""
        records = "" if self.records is None else f":{self.records}"
        return f"person{records}{clients}{apart}{_public(self.record)}"

    @property
    def shape(self) -> tuple[float, float, float]:
        if self.records is None:
            return inf, self.clients, 1
        return self.records, self.clients, self.apart if self.records > 1 else 1

    def size(self, setting: Setting) -> int:
        if self.records is None:
            raise Unsupported(
                "A person with any number of records needs an algorithm that counts people, not "
                "records: hr.VoteSelection. Or declare the most records of one person, as in "
                "unit=hr.Person(records=24)."
            )
        if not self.clients <= setting.clients:
            raise InvalidValue(
                f"Expected clients of one person={self.clients!r} <= the {setting.clients} clients "
                "of the game."
            )
        if setting.horizon is not None:
            times = -(-setting.horizon // self.apart) * self.clients
            most = times * setting.family.record.each
            if not self.records <= most:
                raise InvalidValue(
                    f"Expected records of one person={self.records!r} <= {most}, as many as one "
                    "person can have in this game."
                )
        return self.records


@dataclass(frozen=True)
class Example(Unit):
    """The unit is one record of one client that is used again: in several passes over the data.

    Parameters
    ----------
    passes
        The most rounds in which it is used, once in each.
    apart
        The least number of rounds between two of them. Default: 1, any.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Example(passes=3, apart=100).words()
    'one loss vector of one client, used in at most 3 rounds, 100 or more rounds apart'
    >>> family = hr.Batch(hr.Logistic(radius=10.0), size=5)
    >>> setting = hr.Setting(clients=20, experts=100, horizon=900, family=family)
    >>> for unit in (hr.Event(), hr.Example(passes=3, apart=300), hr.Person(3)):
    ...     built = hr.OnlineSGD(2.0, delta=1e-3, unit=unit).build(setting)
    ...     print(unit.text(), round(built.parameters["deviation"], 1))
    event 41.8
    example:3/300 82.6
    person:3 125.3
    """

    noun: ClassVar[str] = "example"
    passes: int
    apart: int = 1

    def __post_init__(self) -> None:
        at_least("passes", self.passes, 1)
        at_least("apart", self.apart, 1)

    def words(self) -> str:
        return f"one {self.record.name} of one client, {self._used}{_aside(self.record)}"

    def adjacency(self) -> str:
        what = f"one {self.record.name} {self.record.placed}"
        return f"replace {what} of one client, {self._used}{_stays(self.record)}"

    def formula(self) -> str:
        return f"D ~ D' if they differ in one {self.record.name} of one client, {self._used}"

    @property
    def _used(self) -> str:
        apart = f", {self.apart} or more rounds apart" if self.apart > 1 else ""
        return f"used in at most {self.passes} round{'s' if self.passes > 1 else ''}{apart}"

    def text(self) -> str:
        apart = f"/{self.apart}" if self.apart > 1 else ""
        return f"example:{self.passes}{apart}{_public(self.record)}"

    @property
    def shape(self) -> tuple[float, float, float]:
        return self.passes, 1, self.apart if self.passes > 1 else 1

    def size(self, setting: Setting) -> int:
        most = inf if setting.horizon is None else -(-setting.horizon // self.apart)
        if not self.passes <= most:
            raise InvalidValue(
                f"Expected passes={self.passes!r} <= {most}, as many as {setting.horizon} rounds "
                f"have that are apart={self.apart!r}."
            )
        return self.passes

    def pattern(self, setting: Setting, every: int = 1) -> tuple[int, int, int]:
        together = min(self.passes, -(-every // self.apart))
        return self.size(setting), together, max(1, self.apart // every)


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
        return f"window:{self.rounds}{_public(self.record)}"

    @property
    def shape(self) -> tuple[float, float, float]:
        return self.rounds * self.record.each, 1, 1

    def size(self, setting: Setting) -> int:
        most = inf if setting.horizon is None else setting.horizon
        if not self.rounds <= most:
            raise InvalidValue(
                f"Expected rounds of a window={self.rounds!r} <= the {setting.horizon} rounds of "
                "the game."
            )
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
        return f"client{_public(self.record)}"

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
    """The unit is a declared part of `of`: a change that is no larger than declared.

    Nobody checks what is declared, so it is part of the unit and of its words, and such a unit
    never covers one of whole records.

    Parameters
    ----------
    of
        The unit that the change belongs to.
    moves
        How far it moves what all experts cost or earn in one round at all clients, in the l2 norm:
        a number, or one for each round. "1/size": by at most 1 / size of its client, for each
        expert.

    Examples
    --------
    >>> import hedgerow as hr
    >>> print(hr.Part(hr.Person(1), 0.001).words()[:79])
    one person with one record that moves the losses of all experts in one round by
    """

    noun: ClassVar[str] = "person"
    of: Unit
    moves: float | tuple[float, ...] | str

    def __post_init__(self) -> None:
        if isinstance(self.moves, str):
            if self.moves != BY_SIZE:
                raise InvalidValue(f"Expected moves={self.moves!r} to be > 0, or {BY_SIZE!r}.")
            return
        if isinstance(self.moves, list | np.ndarray):
            object.__setattr__(self, "moves", tuple(np.asarray(self.moves, float).tolist()))
        for number in self.moves if isinstance(self.moves, tuple) else (self.moves,):
            positive("moves", number)

    @property
    def least(self) -> float:
        """The smallest declared number; 0 if sizes decide."""
        return 0.0 if isinstance(self.moves, str) else float(np.min(self.moves))

    @property
    def most(self) -> float:
        """The largest declared number; infinite if sizes decide."""
        return inf if isinstance(self.moves, str) else float(np.max(self.moves))

    @property
    def rule(self) -> str:
        """What is declared, in words."""
        if isinstance(self.moves, str):
            return f"moves each {self.record.charge} of a client by at most {self.moves}"
        most = f"at most {self.most:.6g}"
        if self.least != self.most:
            most = f"a declared number for each round, from {self.least:.6g} to {self.most:.6g},"
        what = f"the {self.record.charges} of all experts in one round"
        return f"moves {what} by {most} in the l2 norm"

    def words(self) -> str:
        return f"{self.of.words()} that {self.rule} (declared, not checked)"

    def adjacency(self) -> str:
        return f"{self.of.adjacency()}; it {self.rule}"

    def formula(self) -> str:
        return f"{self.of.formula()}, which {self.rule}"

    def text(self) -> str:
        numbers = self.moves if isinstance(self.moves, tuple) else (self.moves,)
        return f"part:{';'.join(map(str, numbers))}"

    @property
    def assumption(self) -> str:
        """What nobody checks, as a sentence."""
        return f"one person {self.rule}; this is not checked"

    def size(self, setting: Setting) -> int:
        return self.of.size(setting)


BY_SIZE = "1/size"
ANY_RECORD = Record("record", "r", "", "what one client reports about one round")
"""The record of an account: all that a client reports in one round, whatever a study calls it."""


def _aside(record: Record) -> str:
    """Say what is not protected."""
    return f" ({record.public} are public)" if record.public else ""


def _stays(record: Record) -> str:
    return f"; {record.public} are public and stay the same" if record.public else ""


def _public(record: Record) -> str:
    return f",public={record.public}" if record.public else ""


def _unchanged(record: Record) -> str:
    place, prime = "j,s", "'"
    return f"{record.at(place)} = {record.at(place, prime)}"
