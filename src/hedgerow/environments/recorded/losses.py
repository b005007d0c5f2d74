"""Recorded losses: an array, or a CSV or Parquet file.

A file has a column of rounds (dates, or whole numbers 0, 1, 2, ...), one of clients (whole numbers
or names) and one for each expert, named after the expert. Each pair of a round and a client has
exactly one row, in any order. Losses lie in [0, 1]. `examples/recorded_losses.csv` is
a small file of this form.

Where `missing="absent"` is declared, a client without a row, or with an empty one, is absent in
that round, and an expert without a loss sleeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike, fspath
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, Feature, Traits, fingerprint_of
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, Units, check_unit_range, round_to_lattice, to_units
from hedgerow.core.setting import Setting
from hedgerow.core.validate import masked, unmasked
from hedgerow.environments.recorded.table import (
    ALL,
    NO_GAPS,
    Frame,
    Gaps,
    Grid,
    Missing,
    Source,
    dates_in,
    filled_in,
    is_frame,
    line,
    no_round,
    number_column,
    read_table,
    refuse_gap,
    require_columns,
    source_of,
    split,
)

SCALE = (
    "Divide all losses by a public bound. For forecasts, use hr.Forecasts or hr.forecast_losses."
)
GAPS_IN_ARRAYS = 'For gaps, use hr.RecordedArray(losses, missing="absent").'


class Recording(Environment):
    """Replays consecutive rounds of an array, as views; zeros where something is missing."""

    losses: Array
    gaps: Gaps = NO_GAPS

    @property
    def setting(self) -> Setting:
        rounds, clients, experts = self.losses.shape
        return Setting(clients, experts, rounds)

    @property
    def traits(self) -> Traits:
        """Losses are fixed in advance; where experts sleep, reports depend on the plays."""
        gaps = self.gaps
        if gaps is NO_GAPS:
            return Traits()
        asleep = gaps.awake is not None
        origins = self._origins(gaps)
        return Traits(
            adversary="adaptive" if asleep else "oblivious",
            features=frozenset(feature for feature, _ in origins),
            why_no_sums="experts without a loss sleep, and sums do not show it" if asleep else None,
            origins=origins,
        )

    def _origins(self, gaps: Gaps) -> tuple[tuple[Feature, str], ...]:
        found = []
        if gaps.present is not None:
            missed = f"{int((~gaps.present).sum())} of {gaps.present.size}"
            found.append(
                (Feature.ABSENT_CLIENTS, f"{missed} pairs of round and client are missing")
            )
        if gaps.awake is not None:
            asleep = np.asarray(~gaps.awake.all(axis=(0, 1)))
            first = self.expert_names[int(asleep.argmax())]
            more = f" and {int(asleep.sum()) - 1} more" if asleep.sum() > 1 else ""
            named = first if first.startswith("expert ") else f"expert {first!r}"
            found.append((Feature.SLEEPING_EXPERTS, f"{named}{more} has gaps"))
        return tuple(found)

    def notes(self) -> tuple[str, ...]:
        """Say if losses look as if they were filled in."""
        if not filled_in(self.losses):
            return ()
        return (
            "all losses but one of each round and client are the same number: if they were filled "
            f"in, the results mean nothing. {ALL}",
        )

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        part, gaps = slice(state, state + rounds), self.gaps
        if gaps is NO_GAPS:
            return Block.of(self.losses[part]), part.stop
        losses = self.losses[part]
        awake, present = (None if m is None else m[part] for m in (gaps.awake, gaps.present))
        return Block(losses, losses, awake, present), part.stop

    def fingerprint(self) -> str:
        masks = (self.gaps.present, self.gaps.awake) if self.gaps is not NO_GAPS else ()
        return fingerprint_of(self.losses, *masks)

    def sums(self, state: int, rounds: int) -> tuple[Units, int]:
        """Add up the recorded losses; nothing is drawn."""
        return to_units(self.losses[state : state + rounds].sum(axis=(0, 1))), state + rounds


@dataclass(frozen=True, eq=False)
class RecordedArray(Recording):
    """Losses from an array, rounded to the lattice once.

    Parameters
    ----------
    losses
        Numbers in [0, 1] of shape (rounds, clients, experts).
    missing
        "absent": NaN and masked values are gaps. A client without any loss in a round is absent,
        and an expert without a loss sleeps. Where the gaps are is public: it is not protected.
        None (default): gaps are refused.
    experts, clients
        The names of experts and clients, in order. Default: numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> hr.RecordedArray(np.zeros((4, 2, 3))).setting
    Setting(clients=2, experts=3, horizon=4, deciders=None)
    >>> losses = np.zeros((4, 2, 3))
    >>> losses[0, 1] = np.nan  # the second client misses the first round
    >>> [feature.value for feature in hr.RecordedArray(losses, missing="absent").traits.features]
    ['absent clients']
    """

    losses: Array = field(repr=False)
    missing: Missing = None
    experts: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_missing(self.missing)
        given = unmasked(self.losses)
        if self.missing is None and masked(self.losses):
            raise InvalidValue(f"Expected losses with none masked. {GAPS_IN_ARRAYS}")
        if given.ndim != 3 or given.dtype.kind not in "biuf":
            single = " For one client, give losses[:, None, :]." if given.ndim == 2 else ""
            raise InvalidValue(
                f"Expected losses as numbers of shape (rounds, clients, experts), "
                f"got {given.dtype} of shape {given.shape}.{single}"
            )
        if 0 in given.shape:
            raise InvalidValue(
                f"Expected at least one round, client and expert, got shape {given.shape}."
            )
        values = np.ascontiguousarray(given, np.float64)
        if self.missing is not None:
            values, gaps = split(
                values,
                f"All losses in the array of shape {values.shape} are NaN or masked. "
                "Give at least one loss.",
            )
            object.__setattr__(self, "gaps", gaps)
        try:
            check_unit_range("loss", values)
        except InvalidValue as error:
            advice = GAPS_IN_ARRAYS if np.isnan(values).any() else SCALE
            raise InvalidValue(f"{error} {advice}") from None
        object.__setattr__(self, "losses", round_to_lattice(values))
        for name, size in (("experts", values.shape[2]), ("clients", values.shape[1])):
            given = tuple(map(str, getattr(self, name)))
            object.__setattr__(self, name, given)
            if given and (len(given) != size or len(set(given)) != size):
                raise InvalidValue(
                    f"Expected {size} different names of {name}, got {len(given)}: one for each "
                    f"of the {size} {name} of the array."
                )

    @property
    def expert_names(self) -> tuple[str, ...]:
        return self.experts or super().expert_names

    @property
    def client_names(self) -> tuple[str, ...]:
        return self.clients or super().client_names


@dataclass(frozen=True)
class Recorded(Recording):
    """Losses from a CSV or Parquet file.

    The file has a column of rounds (dates, or whole numbers 0, 1, 2, ...), one of clients (names or
    numbers) and one for each expert. Each round and client has one row, in any order of rows.

    Parameters
    ----------
    path
        The file, relative to the folder of `--data`, the current folder or a data folder; or
        absolute. In a study file it is relative to that file. Or a DataFrame (pandas, polars, ...).
    missing
        "absent": gaps are allowed. A client without a row in a round, or with an empty one, is
        absent in it, and an expert without a loss sleeps. Where the gaps are is public: it is not
        protected. None (default): gaps are refused.
    round, client
        The names of the columns with rounds and clients.

    Examples
    --------
    >>> from importlib.resources import files
    >>> import hedgerow as hr
    >>> environment = hr.Recorded(str(files("hedgerow") / "examples" / "recorded_losses.csv"))
    >>> environment.setting
    Setting(clients=3, experts=4, horizon=120, deciders=None)
    """

    path: str
    missing: Missing = None
    round: str = "round"
    client: str = "client"

    def __post_init__(self) -> None:
        check_missing(self.missing)
        given: object = self.path
        if is_frame(given):
            object.__setattr__(self, "path", Frame(given))
            return
        if not isinstance(given, str | PathLike | Frame):
            shape = f" of shape {np.shape(given)}" if isinstance(given, np.ndarray) else ""
            raise InvalidValue(
                f"Expected path to name a file, got {type(given).__name__}{shape}. "
                "For losses in an array use hr.RecordedArray(losses)."
            )
        if not isinstance(given, Frame):
            object.__setattr__(self, "path", fspath(given))

    @cached_property
    def _read(self) -> tuple[Array, Gaps, tuple[str, ...], tuple[str, ...]]:
        values, names, clients = read_losses(
            source_of(self.path), self.missing, self.round, self.client
        )
        empty = (
            f"No row of {self.path} has a loss in the columns of the experts, {_listed(names)}. "
            "Check that this is the right file, and that losses are not in another column."
        )
        given = (values, NO_GAPS) if self.missing is None else split(values, empty)
        return *given, tuple(names), clients

    @property
    def losses(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The losses that were read, of shape (rounds, clients, experts)."""
        return self._read[0]

    @property
    def gaps(self) -> Gaps:  # pyright: ignore[reportIncompatibleVariableOverride]
        return NO_GAPS if self.missing is None else self._read[1]

    @property
    def expert_names(self) -> tuple[str, ...]:
        return self._read[2]

    @property
    def client_names(self) -> tuple[str, ...]:
        return self._read[3]

    def __getstate__(self) -> dict[str, Any]:
        """Keep only the choices: worker processes read the file themselves."""
        return {name: value for name, value in self.__dict__.items() if name != "_read"}


def _listed(names: list[str]) -> str:
    """Names in quotes, at most five of them."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(map(repr, names[:5]))}{more}"


def check_missing(missing: Missing) -> None:
    """Refuse an unknown way to treat gaps."""
    if missing not in (None, "absent"):
        raise InvalidValue(f"Expected missing={missing!r} to be 'absent' or None.")


def read_losses(
    path: Source, missing: Missing = None, when: str = "round", who: str = "client"
) -> tuple[Array, list[str], tuple[str, ...]]:
    """Return the losses (rounds, clients, experts), NaN where declared, and the names of experts
    and clients.
    """
    table = read_table(path)
    require_columns(table, {"round": when, "client": who}, path)
    experts = [name for name in table if name not in (when, who)]
    if not experts:
        raise InvalidValue(
            f"Expected at least one expert column besides {when} and {who} in {path}."
        )
    rounds, which = _rounds(table[when], when, path)
    grid = Grid.of(rounds, which, table[who], path, missing)
    wide = np.empty((len(which), len(experts)))
    for i, name in enumerate(experts):
        column = number_column(table, name, path, f"All columns but {when} and {who} are experts.")
        good = (column >= 0) & (column <= 1)
        bad = np.flatnonzero(~good if missing is None else ~(good | np.isnan(column)))
        if len(bad):
            row = int(bad[0])
            if np.isnan(column[row]):
                refuse_gap(row, name, path)
            place = f"{line(row, path)}, column {name!r} of {path}"
            raise InvalidValue(f"Expected every loss in [0, 1] ({place}). {SCALE}")
        wide[:, i] = column
    return round_to_lattice(grid.spread(wide)), experts, grid.client_names


def _rounds(column: np.ndarray, name: str, path: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return the rounds in order, and the round of each row: dates, or 0, 1, 2, ..."""
    if not len(column):
        raise InvalidValue(f"Expected at least one row in {path}.")
    dates = dates_in(column, name, path)
    if dates is not None:
        return np.unique(dates, return_inverse=True)
    if column.dtype.kind not in "iu":
        raise InvalidValue(
            f"Expected dates such as 2026-01-31, or whole round numbers 0, 1, 2, ... in {path}, "
            f"got {no_round(column, path)}."
        )
    if column.min() != 0:
        raise InvalidValue(
            f"Expected rounds numbered from 0 in column {name!r} of {path}. "
            "Renumber them, or give dates."
        )
    return np.arange(int(column.max()) + 1), column.astype(np.int64)
