"""What an environment hands out for some rounds, and the one pass that validates and sums it while it is in cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, Units, to_units
from hedgerow.core.losses import Family, Linear

ONE = np.float64(1.0).view(np.uint64)


@dataclass(frozen=True)
class Block:
    """Records for consecutive rounds.

    `losses` (rounds, deciders, width) is what deciders are charged by; `reports` (rounds, clients, width) is what clients
    see, usually the same array. `active` (rounds, clients) says who takes part, `awake` (rounds, deciders, experts) which
    experts may be chosen; both are known before playing, and `None` means everybody. `totals` (rounds, experts) sums the
    losses over the deciders and `own_totals` (deciders, experts) sums them over the rounds; the engine fills both in.
    """

    losses: Array
    reports: Array
    active: np.ndarray | None = None
    awake: np.ndarray | None = None
    totals: Array | None = None
    own_totals: Units | None = None

    @classmethod
    def of(cls, losses: Array) -> Block:
        """The usual block: every client decides and reports for itself."""
        return cls(losses, losses)

    @property
    def rounds(self) -> int:
        return len(self.losses)

    def part(self, first: int, last: int) -> Block:
        """Rounds first..last-1, as views (sums over rounds are dropped)."""
        cut = slice(first, last)
        losses = self.losses[cut]
        return Block(
            losses,
            losses if self.reports is self.losses else self.reports[cut],
            None if self.active is None else self.active[cut],
            None if self.awake is None else self.awake[cut],
            None if self.totals is None else self.totals[cut],
        )


def _check_shape(name: str, records: Array, rounds: int, rows: int, width: int | None) -> None:
    if not isinstance(records, np.ndarray) or records.dtype != np.float64 or records.ndim != 3:
        kind = f"{records.dtype} of shape {records.shape}" if isinstance(records, np.ndarray) else type(records).__name__
        raise InvalidValue(f"Expected {name} to be float64 of shape (rounds, sites, width), got {kind}.")
    expected = (rounds, rows, records.shape[2] if width is None else width)
    if records.shape != expected:
        raise InvalidValue(f"Expected {name} of shape {expected}, got {records.shape}.")


def check_unit_range(name: str, values: Array, first_round: int = 0) -> None:
    """Refuse NaN, infinite values and values outside [0, 1], naming the first one.

    Non-negative floats order as their bit patterns, and negative values and NaN have larger patterns than 1.0: one integer
    maximum is the whole test. Only when it fails is the culprit looked for.
    """
    if not values.size:
        return
    contiguous = values if values.flags.c_contiguous else np.ascontiguousarray(values)
    if contiguous.reshape(-1).view(np.uint64).max() <= ONE:
        return
    bad = np.argwhere(~((values >= 0.0) & (values <= 1.0)))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        place = f"round {where[0] + first_round}, site {where[1]}, expert {where[2]}" if len(where) == 3 else f"{where}"
        raise InvalidValue(f"Expected {name}={float(values[where])!r} in [0, 1] ({place}).")


def check(block: Block, family: Family, rounds: int, clients: int, deciders: int, width: int, first_round: int) -> Block:
    """Validate a block and fill in its sums; linear losses must be finite, in [0, 1] and on the lattice."""
    linear = isinstance(family, Linear)
    _check_shape("losses", block.losses, rounds, deciders, width if linear else None)
    if not linear:
        if not np.isfinite(block.losses).all():
            raise InvalidValue(f"Expected finite records, found NaN or infinity in rounds {first_round}..{first_round + rounds - 1}.")
        return block
    check_unit_range("loss", block.losses, first_round)
    if block.reports is not block.losses:
        _check_shape("reports", block.reports, rounds, clients, None)
        check_unit_range("report", block.reports, first_round)
    totals = block.losses[:, 0] if deciders == 1 else block.losses.sum(axis=1)
    own = np.ones(rounds) @ block.losses.reshape(rounds, deciders * width)
    return replace(block, totals=totals, own_totals=to_units(own).reshape(deciders, width))
