"""What an environment hands out for some rounds, and the one pass that validates and sums it while it is in cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, Units, to_units
from hedgerow.core.losses import Family, Linear
from hedgerow.core.setting import Setting

ABSENT = -1  # the play of a client that does not take part
ONE = np.float64(1.0).view(np.uint64)
CACHE_ELEMENTS = 2**16


@dataclass(frozen=True)
class Block:
    """Records for consecutive rounds.

    `losses` (rounds, deciders, width) is what deciders are charged by; `reports` (rounds, clients, width) is what clients
    see, usually the same array. Two masks are known before playing, and `None` means all: `awake` (rounds, deciders, experts)
    says which experts may be chosen, `present` (rounds, deciders) who takes part. Who does not has zero losses and reports.

    When a block is checked it is also summed, once for everybody who needs sums: `segments` (pieces, deciders, experts), in
    lattice units, holds the losses of the rounds up to each of the `cuts` (which end with the last round).
    """

    losses: Array
    reports: Array
    awake: np.ndarray | None = None
    present: np.ndarray | None = None
    segments: Units | None = None
    cuts: tuple[int, ...] = ()

    @classmethod
    def of(cls, losses: Array) -> Block:
        """The usual block: every client decides and reports for itself."""
        return cls(losses, losses)

    @property
    def rounds(self) -> int:
        return len(self.losses)

    @cached_property
    def own_totals(self) -> Units:
        """Losses of every expert at every decider, summed over the block's rounds, in lattice units."""
        assert self.segments is not None, "only a checked block of linear losses has sums"
        return self.segments[0] if len(self.segments) == 1 else self.segments.sum(axis=0)

    def answered(self, plays: np.ndarray) -> Array:
        """Losses in which an expert that sleeps is charged what its client pays (`proofs/masks.md#sleeping-experts`)."""
        if self.awake is None:
            return self.losses
        return np.where(
            self.awake, self.losses, np.take_along_axis(self.losses, plays[..., None], axis=-1)
        )

    def sums(self, plays: np.ndarray) -> Units:
        """`segments`, of the losses as they are answered where experts sleep."""
        assert self.segments is not None, "only a checked block of linear losses has sums"
        if self.awake is None:
            return self.segments
        return to_units(np.add.reduceat(self.answered(plays), (0, *self.cuts[:-1]), axis=0))

    def totals_before(self, last: int) -> Units:
        """Losses of every expert in the rounds before `last`, summed over all deciders, in lattice units."""
        return to_units(self.losses[:last].sum(axis=(0, 1)))


def _check_shape(name: str, records: Array, rounds: int, rows: int, width: int | None) -> None:
    if not isinstance(records, np.ndarray) or records.dtype != np.float64 or records.ndim != 3:
        kind = (
            f"{records.dtype} of shape {records.shape}"
            if isinstance(records, np.ndarray)
            else type(records).__name__
        )
        raise InvalidValue(
            f"Expected {name} to be float64 of shape (rounds, sites, width), got {kind}."
        )
    expected = (rounds, rows, records.shape[2] if width is None else width)
    if records.shape != expected:
        raise InvalidValue(f"Expected {name} of shape {expected}, got {records.shape}.")


def _check_mask(name: str, mask: np.ndarray, shape: tuple[int, ...]) -> None:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != shape:
        kind = (
            f"{mask.dtype} of shape {mask.shape}"
            if isinstance(mask, np.ndarray)
            else type(mask).__name__
        )
        raise InvalidValue(f"Expected {name} to be boolean of shape {shape}, got {kind}.")


def _check_masks(block: Block, first_round: int) -> None:
    """Nobody who takes part may find all experts asleep; who does not take part neither pays nor reports."""
    awake, present, losses = block.awake, block.present, block.losses
    if awake is None and present is None:
        return
    if block.reports is not losses and awake is not None:
        raise InvalidValue(
            "Expected clients to see their own losses at once where experts sleep, this environment reports others."
        )
    if present is not None:
        _check_mask("present", present, losses.shape[:2])
        paying = np.argwhere(~present & losses.any(axis=-1))
        if len(paying):
            raise InvalidValue(
                f"Expected zero losses of who is absent (round {paying[0][0] + first_round}, site {paying[0][1]})."
            )
    if awake is not None:
        _check_mask("awake", awake, losses.shape)
        nobody = ~awake.any(axis=-1)
        asleep = np.argwhere(nobody if present is None else nobody & present)
        if len(asleep):
            raise InvalidValue(
                f"Expected an expert to be awake (round {asleep[0][0] + first_round}, site {asleep[0][1]}), all sleep."
            )


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
        place = (
            f"round {where[0] + first_round}, site {where[1]}, expert {where[2]}"
            if len(where) == 3
            else f"{where}"
        )
        raise InvalidValue(f"Expected {name}={float(values[where])!r} in [0, 1] ({place}).")


def check(
    block: Block,
    family: Family,
    setting: Setting,
    first_round: int,
    rounds: int,
    marks: Sequence[int] = (),
) -> Block:
    """Validate a block and fill in its sums; linear losses must be finite and in [0, 1].

    Rounding them to the lattice is the environment's duty. It is checked for every loss of the block's first piece and, for
    the rest, on the sums: whoever forgets to round is found out, single losses that cancel in a sum are not.

    `marks` are the numbers of finished rounds, counted from the start of the game, at which somebody wants sums.
    """
    clients, deciders, width = setting.clients, setting.players, setting.experts
    linear, own_reports = isinstance(family, Linear), block.reports is not block.losses
    _check_shape("losses", block.losses, rounds, deciders, width if linear else None)
    if own_reports:
        _check_shape("reports", block.reports, rounds, clients, None)
    _check_masks(block, first_round)
    if not linear:
        if not (np.isfinite(block.losses).all() and np.isfinite(block.reports).all()):
            raise InvalidValue(
                f"Expected finite records, found NaN or infinity in rounds {first_round}..{first_round + rounds - 1}."
            )
        return block
    if own_reports:
        check_unit_range("report", block.reports, first_round)
    cuts = (
        *(mark - first_round for mark in marks if first_round < mark < first_round + rounds),
        rounds,
    )
    step = max(1, CACHE_ELEMENTS // (deciders * width))
    sums = np.zeros((len(cuts), deciders, width))
    start = 0
    for piece, cut in enumerate(cuts):
        while (
            start < cut
        ):  # checked and summed in one go, while the losses are in the innermost cache
            stop = min(start + step, cut)
            part = block.losses[start:stop]
            check_unit_range("loss", part, first_round + start)
            if start == 0:
                to_units(
                    part
                )  # every loss of the first piece; of the others the sums tell whether they were rounded
            sums[piece] += part.sum(axis=0)
            start = stop
    return replace(block, segments=to_units(sums), cuts=cuts)
