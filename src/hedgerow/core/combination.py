"""Families for combinations of public forecasts of secret targets.

A point has the weight of each expert. The derivative of a charge with respect to the weights is a
secret slope times public forecasts (`proofs/private_mixture.md`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

import numpy as np

from hedgerow.core.convex import (
    SLACK,
    AbsoluteError,
    Huber,
    Pinball,
    Scored,
    SquaredError,
    Weighted,
)
from hedgerow.core.domain import Simplex
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import EPS, Clipped, Family, Move, Norm, Rounding, finite, refuse
from hedgerow.core.record import Record, secret_target
from hedgerow.core.validate import positive

ABSOLUTE = AbsoluteError()


class PublicForecasts(Family):
    """Base class: the numbers of a record but the last are public forecasts, the last is secret.

    Forecasts are given at one or several levels, such as quantiles: first those of all experts at
    the first level, then at the second, and so on. The charge is the mean over the levels.
    """

    @property
    @abstractmethod
    def largest_target(self) -> float:
        """The largest absolute target."""

    @property
    @abstractmethod
    def longest(self) -> float:
        """The largest Euclidean norm of the forecasts of all experts at one level."""

    @property
    @abstractmethod
    def slopes(self) -> tuple[tuple[float, float], ...]:
        """The least and the largest slope at each level."""

    @property
    @abstractmethod
    def jumps(self) -> bool:
        """Whether a slope is always the least or the largest, so that one bit says it."""

    @abstractmethod
    def slope(self, scores: Array, targets: Array, level: np.ndarray) -> Array:
        """Return the derivatives of charges at a level with respect to the combined forecast."""

    @property
    def record(self) -> Record:
        return secret_target(self.bounds, self.largest_target)

    def at_level(self, records: Array, level: np.ndarray) -> Array:
        """Return the forecasts (..., experts) at a level, one level for each record."""
        levels = len(self.slopes)
        if levels == 1:
            return records[..., :-1]
        split = records[..., :-1].reshape(*records.shape[:-1], levels, -1)
        return np.take_along_axis(split, np.asarray(level)[..., None, None], axis=-2)[..., 0, :]


@dataclass(frozen=True)
class Combination(Weighted, PublicForecasts):
    """The charge of a combination of public forecasts; only what came true is secret.

    The features of a record are the forecasts of all experts, the point has the weight of each,
    and the score is their combination. Everybody may know the forecasts. A certificate protects the
    target alone.

    Parameters
    ----------
    of
        `AbsoluteError`, `Pinball`, `SquaredError` or `Huber`, with a radius of at least 1: no point
        of the simplex is longer.

    Examples
    --------
    >>> import hedgerow as hr
    >>> family = hr.Combination(hr.AbsoluteError(feature_norm=8.0, target=16.0))
    >>> family.record.placed, family.record.public
    ('y_(i,t) in [-16,16]', 'forecasts')
    """

    kinds: ClassVar[tuple[type[Scored], ...]] = (AbsoluteError, Pinball, SquaredError, Huber)

    of: Scored = ABSOLUTE

    @property
    def largest_target(self) -> float:
        return self.of.largest_target

    @property
    def longest(self) -> float:
        return self.of.feature_norm

    @property
    def slopes(self) -> tuple[tuple[float, float], ...]:
        return (self.of.slopes,)

    @property
    def jumps(self) -> bool:
        return isinstance(self.of, AbsoluteError | Pinball)

    def slope(self, scores: Array, targets: Array, level: np.ndarray) -> Array:
        return self.of.slope(scores, targets)

    @property
    def record(self) -> Record:
        return secret_target(self.bounds, self.largest_target)


@dataclass(frozen=True)
class QuantileCombination(PublicForecasts):
    """The mean pinball loss, times 2, of combined quantile forecasts; only the target is secret.

    Experts forecast several quantiles, which are combined with the same weights. The charge is that
    of the weighted interval score (WIS) if the levels are those of its intervals. A record has the
    forecasts of all experts at the first level, then at the second, and so on, and the target.

    Parameters
    ----------
    levels
        The quantile levels, in (0, 1) and rising.
    feature_norm
        The largest Euclidean norm of the forecasts of all experts at one level.
    target
        The largest absolute target.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.QuantileCombination(levels=(0.1, 0.9), feature_norm=4.0, target=4.0)
    >>> record = np.array([0.0, 1.0, 2.0, 3.0, 2.0])  # two experts at 0.1, then at 0.9
    >>> float(family.value(record, np.array([0.5, 0.5])).round(4))
    0.2
    """

    levels: tuple[float, ...] = (0.1, 0.5, 0.9)
    feature_norm: float = 1.0
    target: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(float(level) for level in self.levels))
        if len(self.levels) == 0:
            raise InvalidValue(f"Expected levels={self.levels!r} to have at least one number.")
        for level in self.levels:
            if not 0 < level < 1:
                raise InvalidValue(f"Expected level={level!r} in (0, 1).")
        rising = all(a < b for a, b in zip(self.levels, self.levels[1:], strict=False))
        if not rising:
            raise InvalidValue(f"Expected levels={self.levels!r} to rise.")
        positive("feature_norm", self.feature_norm)
        positive("target", self.target)

    @property
    def domain(self) -> Simplex:
        return Simplex()

    @property
    def largest_target(self) -> float:
        return self.target

    @property
    def longest(self) -> float:
        return self.feature_norm

    @property
    def slopes(self) -> tuple[tuple[float, float], ...]:
        return tuple((-2 * level, 2 - 2 * level) for level in self.levels)

    @property
    def jumps(self) -> bool:
        return True

    @property
    def steepest(self) -> float:
        """The largest absolute slope."""
        return max(max(map(abs, pair)) for pair in self.slopes)

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, self.steepest * (self.feature_norm + self.target))

    def record_width(self, width: int) -> int:
        return width * len(self.levels) + 1

    def point_width(self, numbers: int) -> int:
        if (numbers - 1) % len(self.levels):
            raise InvalidValue(
                f"Expected records of {len(self.levels)} forecasts of each expert and a target, "
                f"got {numbers} numbers."
            )
        return (numbers - 1) // len(self.levels)

    def slope(self, scores: Array, targets: Array, level: np.ndarray) -> Array:
        return np.where(scores > targets, 2.0, 0.0) - 2 * np.asarray(self.levels)[level]

    def _residuals(self, records: Array, plays: Array) -> tuple[Array, Array]:
        """What the combined forecasts are above the target (..., levels), and the forecasts."""
        shape = (*records.shape[:-1], len(self.levels), -1)
        forecasts = records[..., :-1].reshape(shape)
        return np.einsum("...ld,...d->...l", forecasts, plays) - records[..., -1:], forecasts

    def value(self, records: Array, plays: Array) -> Array:
        residuals, _ = self._residuals(records, plays)
        levels = np.asarray(self.levels)
        return 2 * np.maximum(-levels * residuals, (1 - levels) * residuals).mean(axis=-1)

    def gradient(self, records: Array, points: Array) -> Array:
        residuals, forecasts = self._residuals(records, points)
        slopes = np.where(residuals > 0, 2.0, 0.0) - 2 * np.asarray(self.levels)
        return np.einsum("...l,...ld->...d", slopes, forecasts) / len(self.levels)

    def gradient_bound(self, norm: Norm, width: int) -> float:
        return self.steepest * self.feature_norm * (sqrt(width) if norm == "l1" else 1.0)

    def smoothness(self, norm: Move, width: int) -> float:
        return inf  # slopes jump

    def rounding(self, width: int, reach: float) -> Rounding:
        off = (width + len(self.levels) + 2) * EPS * (self.feature_norm * reach + self.target)
        return Rounding(2 * self.steepest * off, 0.0)  # as for `Pinball`

    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        counted = np.ones(records.shape[:-1], bool) if present is None else present
        refuse(
            counted & ~np.isfinite(records).all(axis=-1),
            first_round,
            f"Expected finite numbers in every {name} ({{place}}). Remove or repair it.",
        )
        split = records[..., :-1].reshape(*records.shape[:-1], len(self.levels), -1)
        sizes = np.sqrt(np.einsum("...d,...d->...", split, split)).max(axis=-1)
        refuse(
            counted & (sizes > self.feature_norm * (1 + SLACK)),
            first_round,
            f"Expected the forecasts of a {name} to have norm <= feature_norm="
            f"{self.feature_norm!r} at every level ({{place}}). Declare a larger feature_norm, or "
            "use family.clip(records).records.",
        )
        refuse(
            counted & (np.abs(records[..., -1]) > self.target),
            first_round,
            f"Expected the target of a {name} in [{-self.target!r}, {self.target!r}] ({{place}}). "
            "Declare a larger target, or use family.clip(records).records.",
        )

    def clip(self, records: Array) -> Clipped:
        """Shorten long forecasts to `feature_norm`, and move targets to the nearest allowed one."""
        given = finite(records)
        split = given[..., :-1].reshape(*given.shape[:-1], len(self.levels), -1)
        sizes = np.sqrt(np.einsum("...d,...d->...", split, split))[..., None]
        shorter = split * np.minimum(1.0, self.feature_norm / np.maximum(sizes, self.feature_norm))
        outside = (sizes > self.feature_norm * (1 + SLACK)).any(axis=(-1, -2))
        outside |= np.abs(given[..., -1]) > self.target
        moved = np.concatenate(
            [
                shorter.reshape(*given.shape[:-1], -1),
                np.clip(given[..., -1:], -self.target, self.target),
            ],
            axis=-1,
        )
        return Clipped(moved, int(outside.sum()))
