"""Blocks of losses: what an environment returns, and the one pass that checks and sums them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import (
    Array,
    Units,
    few,
    require_lattice,
    round_to_lattice,
    sum_rows,
    sum_unit_rows,
    to_units,
)
from hedgerow.core.losses import Linear
from hedgerow.core.setting import LOSSES, Setting

if TYPE_CHECKING:
    from hedgerow.core.transcript import Plays

ABSENT = -1  # the play of an absent client
CACHE_ELEMENTS = 2**16
CHECKED_AT_ONCE = 2**17  # elements: two passes over them read the memory once
GRAIN = 64  # rounds that are summed together, or more if they have few numbers

FILL_GAPS = (
    "To combine forecasts, fill gaps instead: `hr.Combining` takes the median of the others."
)


@dataclass(frozen=True)
class Side:
    """What is public about clients in one round, kept apart from their secret records.

    `values` (*batch, k) are numbers such as bed counts; `reporting` (*batch) marks the clients that
    report. None: no such numbers; all clients report.
    """

    values: Array | None = None
    reporting: np.ndarray | None = None

    def row(self, client: int) -> Side:
        """Return what is public about one client."""
        return Side(
            None if self.values is None else self.values[client],
            None if self.reporting is None else self.reporting[client],
        )


@dataclass(frozen=True)
class Block:
    """Records for consecutive rounds.

    `losses` (rounds, deciders, width) are the charges of the deciders. `reports` (rounds, clients,
    width) are what the clients see, usually the same array. Two masks are known before a round is
    played; None means all. `awake` (rounds, deciders, experts) marks the experts that may be
    chosen. `present` (rounds, deciders) marks the deciders that take part; the others have zero
    losses and reports.

    Two arrays are public: `side` (rounds, clients, k) is side information about the clients, and
    `reporting` (rounds, clients) marks the clients that report; the others have zero reports.

    `check` also sums the block, once for all users of sums. `segments` (pieces, deciders, experts),
    in lattice units, holds the losses between consecutive `cuts`; the last cut is the last round.
    `grains` are the same between more of them, `grain_ends`, as floats. Records that were `checked`
    before are not checked again if nobody can write to them.
    """

    losses: Array
    reports: Array
    awake: np.ndarray | None = None
    present: np.ndarray | None = None
    side: Array | None = None
    reporting: np.ndarray | None = None
    segments: Units | None = None
    cuts: tuple[int, ...] = ()
    grains: Array | None = None
    grain_ends: np.ndarray | None = None
    checked: bool = False

    @classmethod
    def of(cls, losses: Array) -> Block:
        """Return the usual block: every client decides, and reports its own losses."""
        return cls(losses, losses)

    @property
    def rounds(self) -> int:
        return len(self.losses)

    @property
    def informs(self) -> bool:
        """Whether anything is public about the clients."""
        return self.side is not None or self.reporting is not None

    def side_of(self, at: int) -> Side | None:
        """Return what is public about all clients in a round; None if nothing is."""
        if not self.informs:
            return None
        return Side(
            None if self.side is None else self.side[at],
            None if self.reporting is None else self.reporting[at],
        )

    @cached_property
    def own_totals(self) -> Units:
        """Losses of each expert at each decider, summed over the rounds, in lattice units."""
        assert self.segments is not None, "only a checked block of linear losses has sums"
        return self.segments[0] if len(self.segments) == 1 else self.segments.sum(axis=0)

    @cached_property
    def common_segments(self) -> Units:
        """`segments`, summed over the deciders."""
        assert self.segments is not None, "only a checked block of linear losses has sums"
        return self.segments.sum(axis=1)

    def answered(self, plays: np.ndarray | Plays) -> Array:
        """Return the losses, with a sleeping expert charged what its client pays."""
        if self.awake is None:
            return self.losses
        if not isinstance(plays, np.ndarray):
            raise InvalidValue(
                "Sleeping experts need an algorithm that chooses experts; this one plays points. "
                f"{FILL_GAPS}"
            )
        return charged(self.losses, self.awake, plays)

    def sums(self, plays: np.ndarray | Plays) -> Units:
        """Return `segments`, computed from the answered losses where experts sleep."""
        assert self.segments is not None, "only a checked block of linear losses has sums"
        if self.awake is None:
            return self.segments
        return to_units(np.add.reduceat(self.answered(plays), (0, *self.cuts[:-1]), axis=0))

    def totals_before(self, last: int) -> Units:
        """Sum the losses of each expert before round `last` over all deciders, in lattice units."""
        return to_units(self.losses[:last].sum(axis=(0, 1)))


def frozen(records: Any) -> bool:
    """Whether nobody can write to an array: neither it nor what it is a view of.

    >>> row = np.zeros(3)
    >>> row[:2].setflags(write=False)
    >>> frozen(row[:2])
    False
    """
    while isinstance(records, np.ndarray) and not records.flags.writeable:
        if records.base is None:
            return True
        records = records.base
    return False


def _plain(array: object) -> bool:
    """Whether this is an array without a mask: a check skips what is masked, and a sum does not."""
    return isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)


def _kind(array: Any) -> str:
    plain = _plain(array)
    return f"{array.dtype} of shape {array.shape}" if plain else type(array).__name__


def _check_shape(name: str, records: Array, rounds: int, rows: int, width: int | None) -> None:
    if not _plain(records) or records.dtype != np.float64 or records.ndim != 3:
        raise InvalidValue(
            f"Expected {name} to be float64 of shape (rounds, clients, width), "
            f"got {_kind(records)}."
        )
    expected = (rounds, rows, records.shape[2] if width is None else width)
    if records.shape != expected:
        raise InvalidValue(f"Expected {name} of shape {expected}, got {records.shape}.")


def _check_mask(name: str, mask: np.ndarray, shape: tuple[int, ...]) -> None:
    if not _plain(mask) or mask.dtype != np.bool_ or mask.shape != shape:
        raise InvalidValue(f"Expected {name} to be boolean of shape {shape}, got {_kind(mask)}.")


def _check_masks(block: Block, first_round: int) -> None:
    """Every present client needs an awake expert; an absent client neither pays nor reports."""
    awake, present, losses = block.awake, block.present, block.losses
    if awake is None and present is None:
        return
    if block.reports is not losses and awake is not None:
        raise InvalidValue(
            "This environment delays or changes reports. "
            "Where experts sleep, every client must see its own losses at once."
        )
    if present is not None:
        _check_mask("present", present, losses.shape[:2])
        paying = np.argwhere(~present & losses.any(axis=-1))
        if len(paying):
            raise InvalidValue(
                f"Expected zero losses for an absent client "
                f"(round {paying[0][0] + first_round}, client {paying[0][1]})."
            )
    if awake is not None:
        _check_mask("awake", awake, losses.shape)
        all_asleep = ~awake.any(axis=-1)
        asleep = np.argwhere(all_asleep if present is None else all_asleep & present)
        if len(asleep):
            raise InvalidValue(
                f"All experts sleep (round {asleep[0][0] + first_round}, client {asleep[0][1]}). "
                "Every present client needs an awake expert."
            )


def _check_side(block: Block, first_round: int) -> None:
    """Side information is finite, and a client that does not report has a zero report."""
    rounds, clients = block.reports.shape[:2]
    if block.side is not None:
        _check_shape("side", block.side, rounds, clients, None)
        if not np.isfinite(block.side).all():
            raise InvalidValue(
                f"Expected finite side information, found NaN or infinity in rounds "
                f"{first_round}..{first_round + rounds - 1}."
            )
    if block.reporting is not None:
        _check_mask("reporting", block.reporting, (rounds, clients))
        speaking = np.argwhere(~block.reporting & block.reports.any(axis=-1))
        if len(speaking):
            raise InvalidValue(
                f"Client {speaking[0][1]} does not report in round {speaking[0][0] + first_round}, "
                "but its report is not zero. Set it to 0, or mark the client in `reporting`."
            )


def taken(
    given: Array,
    setting: Setting,
    number: int,
    secret: bool,
    awake: np.ndarray | None = None,
    present: np.ndarray | None = None,
    reporting: np.ndarray | None = None,
) -> Array:
    """Return the records of all clients in round `number` as users give them, ready for clients.

    Linear ones are rounded to the lattice. Rows of absent clients, which are not `present`, become
    zeros (`proofs/masks.md#absent-clients`), and so do sleeping experts, which are not `awake`.
    Records out of range are refused; if they are `secret`, without their values, because error
    messages end up in logs.
    """
    family, here = setting.family, reporting if present is None else present
    if present is not None:
        given = np.where(present[:, None], given, 0.0)
    if awake is not None:
        stuck = ~awake.any(axis=-1) & (True if present is None else present)
        if stuck.any():
            raise InvalidValue(
                f"No expert was awake for client {int(stuck.argmax())} in this round. "
                "Mark it as absent (present), or let an expert be awake."
            )
        given = np.where(awake, given, 0.0)
    if secret and family == LOSSES:
        wrong = np.argwhere(~((given >= 0) & (given <= 1)))
        if len(wrong):
            at = tuple(map(int, wrong[0]))
            raise InvalidValue(f"Expected the loss at {at} (client, expert) to be in [0, 1].")
    records = round_to_lattice(given) if family.linear else given
    if reporting is not None:
        silent = ~reporting & records.any(axis=-1)
        if silent.any():
            raise InvalidValue(
                f"Client {int(silent.argmax())} does not report in this round, but its report is "
                "not zero."
            )
    try:
        if setting.deciders is not None:
            family.check_reports(
                records[None], number, None if reporting is None else reporting[None]
            )
        else:
            family.check(family.word, records[None], number, None if here is None else here[None])
    except InvalidValue as error:
        if not secret:
            raise error
        raise InvalidValue(
            f"A record of round {number} lies outside the range of {family}. "
            "Clip records with family.clip."
        ) from None
    return records


def charged(records: Array, awake: np.ndarray | None, plays: np.ndarray | None) -> Array:
    """The records with every sleeping expert charged what its client pays.

    Proven in `proofs/masks.md#sleeping-experts`.
    """
    if awake is None or plays is None:
        return records
    return np.where(awake, records, np.take_along_axis(records, plays[..., None], axis=-1))


def check(
    block: Block,
    setting: Setting,
    first_round: int,
    rounds: int,
    marks: Sequence[int] = (),
) -> Block:
    """Validate a block and fill in its sums; records must lie in the range of the loss family.

    The environment rounds its losses to the lattice. Here each loss of the block's first piece is
    checked, and for the other pieces only the sums. An environment that does not round is found;
    single losses off the lattice that cancel in a sum are not.

    `marks` are the numbers of finished rounds, counted from the start of the game, at which a sink
    needs sums.
    """
    clients, deciders, family = setting.clients, setting.players, setting.family
    width = family.record_width(setting.experts)
    _check_shape("losses", block.losses, rounds, deciders, width)
    if block.reports is not block.losses:
        _check_shape("reports", block.reports, rounds, clients, None)
    _check_masks(block, first_round)
    if block.informs:
        _check_side(block, first_round)
    if block.reports is not block.losses:
        own = setting.deciders is None  # then `present` is about the clients, too
        reporting = block.present if block.reporting is None and own else block.reporting
        family.check_reports(block.reports, first_round, reporting)
    if not family.linear:
        if not (block.checked and frozen(block.losses)):
            family.check(family.word, block.losses, first_round, block.present)
        return block
    cuts = (
        *(mark - first_round for mark in marks if first_round < mark < first_round + rounds),
        rounds,
    )
    segments, grains, ends = _sums(block, setting, first_round, cuts)
    return replace(block, segments=to_units(segments), cuts=cuts, grains=grains, grain_ends=ends)


def _sums(
    block: Block, setting: Setting, first_round: int, cuts: tuple[int, ...]
) -> tuple[Array, Array, np.ndarray]:
    """Check the range of all losses and sum them, between cuts and in grains, with their ends."""
    losses, family = block.losses, setting.family
    _, *shape = losses.shape
    step = max(GRAIN, few() // (shape[0] * shape[1]))
    parts = [[*range(start + step, stop, step), stop] for start, stop in pairwise((0, *cuts))]
    ends = np.array([end for part in parts for end in part])
    starts, grains = np.append(0, ends[:-1]), np.empty((len(ends), *shape))
    if not (isinstance(family, Linear) and sum_unit_rows(losses, starts, ends, grains)):
        _sum_in_pieces(block, setting, first_round, starts, ends, grains)
    require_lattice(losses[: min(max(1, CACHE_ELEMENTS // losses[0].size), cuts[0])])
    if len(cuts) == len(ends):
        return grains, grains, ends
    segments, last = np.empty((len(cuts), *shape)), np.cumsum([len(part) for part in parts])
    sum_rows(grains, np.append(0, last[:-1]), last, segments)
    return segments, grains, ends


def _sum_in_pieces(
    block: Block,
    setting: Setting,
    first_round: int,
    starts: np.ndarray,
    ends: np.ndarray,
    grains: Array,
) -> None:
    """Check and sum a few rounds at a time, while they are in the cache."""
    losses, family, at = block.losses, setting.family, 0
    while at < len(ends):
        first = starts[at]
        until = first + max(1, CHECKED_AT_ONCE // losses[0].size)
        after = max(at + 1, int(np.searchsorted(ends, until, side="right")))
        here = slice(first, ends[after - 1])
        present = None if block.present is None else block.present[here]
        family.check(family.word, losses[here], first_round + int(first), present)
        sum_rows(losses, starts[at:after], ends[at:after], grains[at:after])
        at = after
