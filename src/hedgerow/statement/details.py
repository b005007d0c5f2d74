"""What the software cannot know about a deployment, from a TOML file.

A detail that is missing is open: the statement prints "to be filled in".
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least
from hedgerow.studies.typed import typed

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
