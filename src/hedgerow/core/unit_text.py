"""How units are written: one text for TOML, the command line, manifests and accounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from hedgerow.core.errors import InvalidValue
from hedgerow.core.record import LOSS_VECTOR, Record
from hedgerow.core.units import BY_SIZE, Client, Event, Example, Part, Person, Unit, Window

WRITTEN = (
    "event, person:24, person:24@2 (at 2 clients), person:24/7 (7 rounds apart), person (any "
    "number of records), example:3/100 (used in 3 rounds, 100 apart), window:7, client, event:8 (a "
    "round has 8 records), or part:0.001, and after a comma what is public, as in "
    "event,public=forecasts"
)


def parse_unit(written: Any, record: Record = LOSS_VECTOR) -> Unit:
    """The unit that is written as text or as a table.

    >>> parse_unit("person:24@2") == parse_unit({"person": 24, "clients": 2}) == Person(24, 2)
    True
    >>> parse_unit("window:7").text(), parse_unit(Person(24, 2, 7).text()) == Person(24, 2, 7)
    ('window:7', True)
    >>> parse_unit("people")
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected unit='people' to be one of event, person:24, ...
    """
    if isinstance(written, Unit):
        return written
    found: Any = None
    if isinstance(written, str):
        text, stays, public = written.partition(",public=")
        if not stays or public.replace(" ", "").isalnum():
            kind, _, rest = text.partition(":")
            record = replace(record, public=public) if stays else record
            found = _part(rest, record) if kind == "part" else _whole(kind, rest, record)
    elif isinstance(written, Mapping):
        if "person" in written and set(written) <= {"person", "clients", "apart"}:
            rest = {name: n for name, n in written.items() if name != "person"}
            found = Person(written["person"], **rest, record=record)
        elif "example" in written and set(written) <= {"example", "apart"}:
            found = Example(written["example"], written.get("apart", 1), record=record)
        elif set(written) == {"window"}:
            found = Window(written["window"], record=record)
    if found is None:
        raise InvalidValue(f"Expected unit={written!r} to be one of {WRITTEN}.")
    return found


def _whole(kind: str, rest: str, record: Record) -> Unit | None:
    """A unit of whole records, from the parts of its text."""
    rest, _, apart = rest.partition("/")
    number, _, clients = rest.partition("@")
    if kind.startswith("person@"):
        kind, clients = kind.split("@", 1)
    texts = {"records": number, "clients": clients, "apart": apart}
    if not all(n == "" or (n.isascii() and n.isdigit()) for n in texts.values()):
        return None
    given = {name: int(n) for name, n in texts.items() if n}
    found: Unit | None = None
    match kind:
        case "person":
            found = Person(**{"records": None, **given}, record=record)
        case "example" if "clients" not in given and "records" in given:
            found = Example(given["records"], given.get("apart", 1), record=record)
        case "window" if set(given) == {"records"}:
            found = Window(given["records"], record=record)
        case "event" if not given or (set(given) == {"records"} and given["records"] > 1):
            found = Event(record=replace(record, each=given.get("records", 1)))
        case "client" if not given:
            found = Client(record=record)
        case _:
            pass
    return found


def _part(number: str, record: Record) -> Unit | None:
    """A declared part of one person with one record, from the number in its text."""
    try:
        moves = tuple(map(float, number.split(";"))) if number != BY_SIZE else ()
    except ValueError:
        return None
    if not all(isfinite(move) and move > 0 for move in moves):
        return None
    found = moves[0] if len(moves) == 1 else moves or number
    return Part(Person(1, record=record), found)
