"""People behind records: how often each was seen, under ids that appear in no message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from unicodedata import normalize

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, to_units

LONGEST_ID = 4096  # bits of a whole number; Python writes longer ones slowly, or not at all
Who = int | str | np.integer[Any]


def identified(who: Who) -> str:
    """The id under which a person is kept.

    It is a text, so 1 and "1" are one person. Nothing else is merged but equal forms of one text
    (Unicode NFC): "01", " 1" and "a" are not "1" and "A".
    """
    if isinstance(who, bool) or not isinstance(who, int | str | np.integer) or who == "":
        raise InvalidValue("Expected the id of a person to be a whole number or a text.")
    if isinstance(who, int) and who.bit_length() > LONGEST_ID:
        raise InvalidValue(
            f"Expected the id of a person to have at most {LONGEST_ID} bits. Give it as text."
        )
    return normalize("NFC", str(who))


@dataclass
class People:
    """How often every person was added, and in which round last. Messages show no ids."""

    most: int
    apart: int
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def check(self, who: Who, now: int) -> str:
        """Return the id under which a person is kept; refuse more than was declared."""
        person = identified(who)
        count, last = self.seen.get(person, (0, -self.apart))
        if count >= self.most:
            raise InvalidValue(
                f"This person was already added {self.most} times, the most that was "
                "declared (unit=). Nothing was published."
            )
        if now - last < self.apart:
            raise InvalidValue(
                f"This person was added less than {self.apart} rounds ago, the least "
                "distance that was declared (unit=). Nothing was published."
            )
        return person

    def add(self, person: str, now: int) -> None:
        """Keep that a person was added."""
        self.seen[person] = (self.seen.get(person, (0, 0))[0] + 1, now)


def with_people(losses: Array, who: np.ndarray) -> Array:
    """Reports about people in a game: the losses, and the number of the person in a last column.

    `who` counts from 0 at each client; -1 is nobody, whose losses are not seen.
    """
    seen = np.where(who[..., None] >= 0, losses, 0.0)
    return np.concatenate([seen, (who[..., None] + 1) / UNITS_PER_LOSS], axis=-1)


def who_came(reports: Array) -> tuple[Array, np.ndarray]:
    """The losses of such reports, and who came; -1: nobody."""
    return reports[..., :-1], to_units(reports[..., -1]) - 1
