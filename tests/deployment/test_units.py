"""Which unit covers which, against a list of all changes in a small game."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pytest

from hedgerow.core.certificate import Event, Part, Person, Site, Unit
from hedgerow.core.errors import InvalidValue
from hedgerow.core.record import LOSS_VECTOR, gain_vector
from hedgerow.deployment.units import covers, parse_unit, unit_text

CELLS = [(client, at) for client in range(2) for at in range(3)]
PERSONS = [Person(k, may_span_clients=spans) for k in (1, 2, 6) for spans in (False, True)]
UNITS: list[Unit] = [Event(), Site(), *PERSONS]


def changes(unit: Unit) -> set[frozenset[tuple[int, int]]]:
    """Every set of records, by client and round, in which neighbours may differ."""
    found = set[frozenset[tuple[int, int]]]()
    for size in range(1, len(CELLS) + 1):
        for cells in combinations(CELLS, size):
            one_client = len({client for client, _ in cells}) == 1
            match unit:
                case Event():
                    fits = size == 1
                case Site():
                    fits = one_client
                case Person():
                    fits = size <= unit.appearances and (unit.may_span_clients or one_client)
                case _:
                    raise AssertionError(unit)
            if fits:
                found.add(frozenset(cells))
    return found


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_covers_against_all_changes(unit: Unit) -> None:
    """It is never said wrongly; the other way round one horizon counts, which a unit has not."""
    for other in UNITS:
        truth = changes(other) <= changes(unit)
        assert truth or not covers(unit, other), other
        whole = isinstance(other, Site) and isinstance(unit, Person)  # true in 3 rounds only
        if truth and not whole:
            assert covers(unit, other), other


def test_a_part_covers_only_a_smaller_part() -> None:
    person = Person(1, may_span_clients=True)
    small, large = Part(person, 1e-6, 1e-6), Part(person, 0.5, 0.5)
    for whole in UNITS:
        assert not covers(small, whole)
        assert not covers(whole, small)
    assert covers(large, small)
    assert not covers(small, large)
    assert not covers(Part(person, 1e-6, 0.5), large)  # in one round it hides less
    assert not covers(replace(large, record=gain_vector((0.0, 9.0))), small)  # another scale


def test_one_of_several_records_is_less_than_what_a_client_reports() -> None:
    four = Event(record=replace(LOSS_VECTOR, each=4))
    assert not covers(four, Event())
    assert covers(four, four)
    assert covers(Event(), four)
    assert not covers(four, Event(record=replace(LOSS_VECTOR, each=8)))


def test_an_unknown_unit_covers_nothing_and_is_not_covered() -> None:
    @dataclass(frozen=True)
    class Half(Event):
        """Half of a record."""

    for other in (*UNITS, Half()):
        assert not covers(Half(), other)
        assert not covers(other, Half())


@pytest.mark.parametrize("text", ["event", "event:8", "part:0.001", "part:1e-06"])
def test_units_of_accounts(text: str) -> None:
    assert unit_text(parse_unit(text)) == text


@pytest.mark.parametrize("text", ["", "Event", "event:1", "event:x", "part:0", "part:nan", "site"])
def test_texts_that_are_no_units(text: str) -> None:
    with pytest.raises(InvalidValue, match="to be event, event:NUMBER or part:NUMBER"):
        parse_unit(text)


def test_words_hold_every_number() -> None:
    """Two units with the same words would be mistaken for each other."""
    parts: list[Any] = [parse_unit(f"part:{moves}") for moves in (1e-6, 0.5)]
    parts.append(Part(parts[0].of, 1e-6, 0.5))
    units = [*UNITS[:2], *PERSONS[2:], *parts, parse_unit("event:8"), parse_unit("event:4")]
    for one, other in combinations(units, 2):
        assert one.words() != other.words()
