"""Units of accounts: parts, records of several, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.core.record import LOSS_VECTOR, gain_vector
from hedgerow.core.units import Client, Event, Part, Person, Unit
from hedgerow.deployment.units import covers, parse_unit, unit_text

UNITS: list[Unit] = [Event(), Client(), Person(2, 2), Person(6)]


def test_a_part_covers_only_a_smaller_part() -> None:
    person = Person(1)
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
    units = [
        *UNITS[:2],
        Person(2, 2),
        Person(6),
        *parts,
        parse_unit("event:8"),
        parse_unit("event:4"),
    ]
    for one, other in combinations(units, 2):
        assert one.words() != other.words()
