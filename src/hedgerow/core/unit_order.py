"""Which unit covers which, and how many changes of one make a change of another."""

from __future__ import annotations

from math import inf, isfinite

from hedgerow.core.units import BY_SIZE, Client, Event, Example, Part, Person, Unit, Window


def covers(unit: Unit, other: Unit, horizon: float = inf) -> bool:
    """Whether every change that `other` allows is one that `unit` allows.

    If it does, a guarantee for `unit` holds for `other` too. The answer is True only where this is
    known: a declared part covers no whole, a record that is one of several covers no whole, and
    where something of a record is public, only the rest of it is covered.

    >>> covers(Person(3, 3), Event()), covers(Event(), Client()), covers(Client(), Person(9))
    (True, False, True)
    >>> covers(Part(Person(1), 1e-6), Event())
    False
    >>> covers(Example(3, 7), Example(2, 8)), covers(Person(3), Example(3))
    (True, True)
    >>> covers(Example(3), Event()), covers(Example(3), Person(3)), steps(Event(), Example(3))
    (True, False, 3)
    """
    if isinstance(unit, Part) and isinstance(other, Part):
        scale = unit.record.bounds == other.record.bounds  # of losses or of gains
        larger = unit.moves == BY_SIZE == other.moves or (scale and unit.least >= other.most)
        return larger and covers(unit.of, other.of, horizon)
    if isinstance(unit, Example) and isinstance(other, Example):
        used = unit.passes >= other.passes and unit.apart <= other.apart
        return used and covers(_as_event(unit), _as_event(other), horizon)
    unit, other = _as_event(unit), _as_person(other)
    own, theirs = _known(unit), _known(other)
    alike = unit.record.each in (1, other.record.each) and unit.record.shown <= other.record.shown
    if own is None or theirs is None or not alike:
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


def steps(unit: Unit, other: Unit, horizon: float = inf) -> int | None:
    """How many changes that `unit` allows make any one that `other` allows; None: not known.

    An account in `other` pays for that many records or persons of a study, at most.

    >>> steps(Event(), Person(24)), steps(Window(7), Window(15)), steps(Person(8), Person(24, 2))
    (24, 3, 24)
    >>> steps(Event(), Client(), horizon=56), steps(Part(Person(1), 0.5), Event())
    (56, None)
    """
    if covers(unit, other, horizon):
        return 1
    unit, other = _as_event(unit), _as_person(other)
    own, theirs = _known(unit), _known(other)
    if own is None or theirs is None or not unit.record.shown <= other.record.shown:
        return None
    if other.record.each not in (1, unit.record.each):
        return None
    each = unit.record.each if other.record.each == 1 else 1  # records of the study in one of ours
    rounds = horizon if isinstance(other, Client) else getattr(other, "rounds", inf)
    rounds = min(rounds, horizon)  # a study has no more
    most = min(theirs[0], theirs[1] * rounds * other.record.each) * each
    match unit:
        case Client():
            found = theirs[1]
        case Window() if isinstance(other, Client | Window):
            found = -(-rounds // unit.rounds)
        case Window():
            found = most
        case _ if own[1] >= theirs[1] and own[2] <= theirs[2]:
            found = -(-most // own[0])
        case _:
            found = most
    return int(found) if isfinite(found) else None


def _as_event(unit: Unit) -> Unit:
    """What an example that is used again protects besides: a record that is used once."""
    return Event(record=unit.record) if isinstance(unit, Example) else unit


def _as_person(unit: Unit) -> Unit:
    """A person whose records may be those of an example that is used again."""
    if isinstance(unit, Example):
        return Person(unit.passes, apart=unit.apart, record=unit.record)
    return unit


def _known(unit: Unit) -> tuple[float, float, float] | None:
    """The shape of a unit of this file: a subclass may be about less."""
    return unit.shape if type(unit) in (Event, Person, Window, Client) else None
