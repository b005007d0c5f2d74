"""Convex loss families for points: squared, absolute and pinball error, Huber, logistic, ...

All but cross-entropy charge a function of one number, the score <features, point>. They share
everything but this function and its derivatives.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf, log, log1p, sqrt
from typing import ClassVar

import numpy as np

from hedgerow.core.domain import Ball, Simplex, length
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import (
    EPS,
    FEW,
    Clipped,
    Family,
    Gains,
    Linear,
    Move,
    Norm,
    Rounding,
    finite,
    refuse,
)
from hedgerow.core.record import Record, distribution, example
from hedgerow.core.validate import positive

LEAST_FLOOR = 1e-4  # smaller floors make charges so steep that no optimum can be certified
SLACK = 1e-12  # relative: what rounding may add to a norm or a sum that is just allowed


@dataclass(frozen=True)
class Scored(Family):
    """A charge phi(score, target) of the score <features, point>; records `(features..., target)`.

    Features and points have Euclidean norm at most `feature_norm` (F) and `radius` (R), so scores
    lie in [-F R, F R].
    """

    feature_norm: float = 1.0
    radius: float = 1.0

    def __post_init__(self) -> None:
        positive("feature_norm", self.feature_norm)
        positive("radius", self.radius)

    @abstractmethod
    def charge(self, score: Array, target: Array) -> Array:
        """Return phi."""

    @abstractmethod
    def slope(self, score: Array, target: Array) -> Array:
        """Return the derivative of phi with respect to the score."""

    @abstractmethod
    def bend(self, score: Array, target: Array) -> Array:
        """Return the second derivative of phi with respect to the score."""

    @abstractmethod
    def steepest(self, score: float) -> float:
        """Return the largest absolute slope where scores are at most `score` in absolute value."""

    @property
    def slopes(self) -> tuple[float, float]:
        """The least and the largest slope."""
        most = self.steepest(self.largest_score)
        return -most, most

    @property
    def most_bent(self) -> float:
        """The largest second derivative; infinite where the slope jumps."""
        return 1.0

    @property
    def largest_score(self) -> float:
        return self.feature_norm * self.radius  # Cauchy-Schwarz

    @property
    @abstractmethod
    def largest_target(self) -> float:
        """The largest absolute target."""

    @property
    def record(self) -> Record:
        features, most = f"features of norm at most {self.feature_norm:g}", self.largest_target
        return example(self.bounds, f"({features}, target in [{-most:g},{most:g}])")

    @property
    def domain(self) -> Ball:
        return Ball(self.radius)

    def record_width(self, width: int) -> int:
        return width + 1

    def _score(self, records: Array, points: Array) -> Array:
        if points.shape[-1] + 1 != records.shape[-1]:
            raise InvalidValue(
                f"Expected points of width {records.shape[-1] - 1}, got width {points.shape[-1]}."
            )
        return np.einsum("...d,...d->...", records[..., :-1], points)

    def value(self, records: Array, plays: Array) -> Array:
        return self.charge(self._score(records, plays), records[..., -1])

    def gradient(self, records: Array, points: Array) -> Array:
        slope = self.slope(self._score(records, points), records[..., -1])
        return slope[..., None] * records[..., :-1]

    def curvature(self, records: Array, point: Array) -> Array:
        rows = records.reshape(-1, records.shape[-1])
        features, weights = rows[:, :-1], self.bend(self._score(rows, point), rows[:, -1])
        return features.T @ (weights[:, None] * features)

    def gradient_bound(self, norm: Norm, width: int) -> float:
        # slope times features: the steepest charge with the longest features. Their l1 norm is
        # sqrt(width) times F if all are equal, their largest coordinate is F if only one is not 0.
        longest = self.feature_norm * (sqrt(width) if norm == "l1" else 1.0)
        return self.steepest(self.largest_score) * longest

    def smoothness(self, norm: Move, width: int) -> float:
        # the Hessian is phi'' times features features'; its norm is that of the features, squared,
        # from l2 to l2, and the largest feature, squared, from l1 to linf
        return self.most_bent * self.feature_norm**2

    def rounding(self, width: int, reach: float) -> Rounding:
        score = self.feature_norm * reach
        # a dot product and a difference of numbers up to the largest score and target
        off = (width + 2) * EPS * (score + self.largest_target)
        # a wrong score changes the charge by the slope, and the slope by the bend. Where the slope
        # jumps, what is computed is a subgradient at a score nearby, which costs the charge twice.
        if self.most_bent == inf:
            return Rounding(2 * self.steepest(score) * off, 0.0)
        return Rounding(self.steepest(score) * off, self.feature_norm * self.most_bent * off)

    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        counted = np.ones(records.shape[:-1], bool) if present is None else present
        features, targets = records[..., :-1], records[..., -1]
        with np.errstate(all="ignore"):
            squares = np.einsum("...d,...d->...", features, features)
        short = (squares <= self.feature_norm**2 * (1 + SLACK)).all()
        if short and np.isfinite(targets).all():  # the usual case, in one pass
            self._check_targets(name, targets, first_round, counted)
            return
        sizes = length(np.where(np.isfinite(records), records, 0.0)[..., :-1])
        refuse(
            counted & ~np.isfinite(records).all(axis=-1),
            first_round,
            f"Expected finite numbers in every {name} ({{place}}). Remove or repair it.",
        )
        refuse(
            counted & (sizes > self.feature_norm * (1 + SLACK)),
            first_round,
            f"Expected the features of every {name} to have a norm of at most "
            f"feature_norm={self.feature_norm!r} ({{place}}). "
            "Declare a larger feature_norm, or use family.clip(records).records.",
        )
        self._check_targets(name, targets, first_round, counted)

    def _check_targets(
        self, name: str, targets: Array, first_round: int, counted: np.ndarray
    ) -> None:
        refuse(
            counted & (np.abs(targets) > self.largest_target),
            first_round,
            f"Expected the target of every {name} in "
            f"[{-self.largest_target!r}, {self.largest_target!r}] ({{place}}). "
            "Declare a larger target, or use family.clip(records).records.",
        )

    def clip(self, records: Array) -> Clipped:
        """Shorten long features to `feature_norm`, and move targets to the nearest allowed one."""
        given = finite(records)
        long = length(given[..., :-1]) > self.feature_norm * (1 + SLACK)
        far = np.abs(given[..., -1]) > self.largest_target
        moved = given.copy()
        moved[long, :-1] = Ball(self.feature_norm).project(given[long, :-1])
        moved[..., -1] = np.clip(given[..., -1], -self.largest_target, self.largest_target)
        return Clipped(moved, int(np.sum(long | far)))


@dataclass(frozen=True)
class OfResidual(Scored):
    """A charge of the residual, score - target; `target` is the largest absolute target."""

    target: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("target", self.target)

    @property
    def largest_target(self) -> float:
        return self.target


@dataclass(frozen=True)
class SquaredError(OfResidual):
    """Charge `(<features, point> - target)^2 / 2`, with records `(features..., target)`.

    Parameters
    ----------
    feature_norm
        The largest Euclidean norm of features.
    radius
        The largest Euclidean norm of points.
    target
        The largest absolute target.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.SquaredError(feature_norm=2.0)
    >>> record, point = np.array([2.0, 0.0, 1.0]), np.array([0.25, 0.5])
    >>> float(family.value(record, point)), family.gradient(record, point).tolist()
    (0.125, [-1.0, -0.0])
    >>> family.gradient_bound("l2", width=2)
    6.0
    """

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, (self.feature_norm * self.radius + self.target) ** 2 / 2)

    def steepest(self, score: float) -> float:
        return score + self.target  # the largest residual

    def charge(self, score: Array, target: Array) -> Array:
        return (score - target) ** 2 / 2

    def slope(self, score: Array, target: Array) -> Array:
        return score - target

    def bend(self, score: Array, target: Array) -> Array:
        return np.ones(np.broadcast_shapes(score.shape, target.shape))


@dataclass(frozen=True)
class Huber(OfResidual):
    """Charge the Huber loss of the residual `<features, point> - target`.

    Up to `threshold` it is half the square; beyond it grows linearly, so an outlier counts less.
    Records are `(features..., target)`.

    Parameters
    ----------
    feature_norm
        The largest Euclidean norm of features.
    radius
        The largest Euclidean norm of points.
    target
        The largest absolute target.
    threshold
        The absolute residual from which on the charge is linear.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.Huber(target=4.0, threshold=0.5)
    >>> records = np.array([[1.0, 0.25], [1.0, 4.0]])
    >>> family.value(records, np.zeros((2, 1))).tolist()
    [0.03125, 1.875]
    """

    threshold: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("threshold", self.threshold)

    @property
    def bounds(self) -> tuple[float, float]:
        largest = np.array(self.largest_score + self.target)
        return (0.0, float(self.charge(largest, np.zeros(()))))

    def steepest(self, score: float) -> float:
        return min(self.threshold, score + self.target)  # the residual, but cut off

    def charge(self, score: Array, target: Array) -> Array:
        size = np.abs(score - target)
        square = np.minimum(size, self.threshold)
        return square * (size - square / 2)

    def slope(self, score: Array, target: Array) -> Array:
        return np.clip(score - target, -self.threshold, self.threshold)

    def bend(self, score: Array, target: Array) -> Array:
        return (np.abs(score - target) <= self.threshold).astype(float)


@dataclass(frozen=True)
class Kinked(OfResidual):
    """A charge with two slopes: one below a residual of 0, and one above."""

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, max(map(abs, self.slopes)) * (self.largest_score + self.target))

    def steepest(self, score: float) -> float:
        return max(map(abs, self.slopes))

    @property
    def most_bent(self) -> float:
        return inf

    def charge(self, score: Array, target: Array) -> Array:
        residual, (low, high) = score - target, self.slopes
        return np.maximum(low * residual, high * residual)

    def slope(self, score: Array, target: Array) -> Array:
        low, high = self.slopes
        return np.where(score > target, high, low)

    def bend(self, score: Array, target: Array) -> Array:
        return np.zeros(np.broadcast_shapes(score.shape, target.shape))


@dataclass(frozen=True)
class Pinball(Kinked):
    """Charge the quantile loss of the residual, `(1 - q) r` if r = score - target > 0, else `-q r`.

    It is least, on average, at the q-quantile of the target. Records are `(features..., target)`.

    Parameters
    ----------
    feature_norm
        The largest Euclidean norm of features.
    radius
        The largest Euclidean norm of points.
    target
        The largest absolute target.
    quantile
        The level q, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.Pinball(target=4.0, quantile=0.75)
    >>> family.value(np.array([[1.0, 2.0], [1.0, 0.0]]), np.ones((2, 1))).tolist()
    [0.75, 0.25]
    """

    quantile: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.quantile < 1:
            raise InvalidValue(f"Expected quantile={self.quantile!r} in (0, 1).")

    @property
    def slopes(self) -> tuple[float, float]:
        return -self.quantile, 1 - self.quantile


@dataclass(frozen=True)
class AbsoluteError(Kinked):
    """Charge `|<features, point> - target|`, with records `(features..., target)`.

    Parameters
    ----------
    feature_norm
        The largest Euclidean norm of features.
    radius
        The largest Euclidean norm of points.
    target
        The largest absolute target.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.AbsoluteError(feature_norm=2.0)
    >>> float(family.value(np.array([2.0, 0.0, 1.0]), np.array([0.25, 0.5])))
    0.5
    """

    @property
    def slopes(self) -> tuple[float, float]:
        return -1.0, 1.0


@dataclass(frozen=True)
class Logistic(Scored):
    """Charge `log(1 + exp(-label <features, point>))`, with records `(features..., label)`.

    Labels are -1 and +1.

    Parameters
    ----------
    feature_norm
        The largest Euclidean norm of features.
    radius
        The largest Euclidean norm of points.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.Logistic(radius=5.0)
    >>> family.value(np.array([[1.0, -1.0]]), np.array([[5.0]])).round(4).tolist()
    [5.0067]
    >>> family.check("record", np.array([[1.0, 0.0]]))
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected the label of every record to be -1 or 1 (record 0).
    Write the two classes as -1 and 1.
    """

    @property
    def largest_target(self) -> float:
        return 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        largest = self.largest_score
        return (float(np.logaddexp(0.0, -largest)), float(np.logaddexp(0.0, largest)))

    def steepest(self, score: float) -> float:
        return float(np.exp(-np.logaddexp(0.0, -score)))  # the score of the wrong label

    @property
    def most_bent(self) -> float:
        return 0.25  # at the score 0

    @property
    def record(self) -> Record:
        features = f"features of norm at most {self.feature_norm:g}"
        return example(self.bounds, f"({features}, label -1 or 1)", "label")

    def charge(self, score: Array, target: Array) -> Array:
        return np.logaddexp(0.0, -target * score)

    def slope(self, score: Array, target: Array) -> Array:
        return -target * np.exp(-np.logaddexp(0.0, target * score))

    def bend(self, score: Array, target: Array) -> Array:
        margin = target * score
        return np.exp(-np.logaddexp(0.0, margin) - np.logaddexp(0.0, -margin))

    def _check_targets(
        self, name: str, targets: Array, first_round: int, counted: np.ndarray
    ) -> None:
        refuse(
            counted & (np.abs(targets) != 1.0),
            first_round,
            f"Expected the label of every {name} to be -1 or 1 ({{place}}). "
            "Write the two classes as -1 and 1.",
        )

    def clip(self, records: Array) -> Clipped:
        """Shorten long features to `feature_norm`; no label is near a wrong one, so refuse it."""
        given = finite(records)
        self._check_targets("record", given[..., -1], 0, np.ones(given.shape[:-1], bool))
        return super().clip(given)


@dataclass(frozen=True)
class CrossEntropy(Family):
    """Charge `-sum_k record_k log(point_k + floor)`; records and points lie on the simplex.

    The record is a distribution, such as one observed category, and the point forecasts it.

    Parameters
    ----------
    floor
        A number, at least 1e-4, that keeps charges and gradients bounded.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.CrossEntropy(floor=0.25)
    >>> float(family.value(np.array([0.0, 1.0]), np.array([0.5, 0.5])).round(4))
    0.2877
    >>> family.gradient_bound("linf", width=2), family.smoothness("l1", width=2)
    (4.0, 8.0)
    """

    floor: float = 0.05

    def __post_init__(self) -> None:
        positive("floor", self.floor)
        if not self.floor >= LEAST_FLOOR:
            raise InvalidValue(f"Expected floor={self.floor!r} >= {LEAST_FLOOR:g}.")

    @property
    def domain(self) -> Simplex:
        return Simplex()

    @property
    def bounds(self) -> tuple[float, float]:
        return (-log1p(self.floor), -log(self.floor))  # forecast with certainty: right or wrong

    @property
    def record(self) -> Record:
        return distribution(self.bounds)

    def value(self, records: Array, plays: Array) -> Array:
        return 0.0 - np.einsum("...d,...d->...", records, np.log(plays + self.floor))

    def gradient(self, records: Array, points: Array) -> Array:
        return 0.0 - records / (points + self.floor)

    def curvature(self, records: Array, point: Array) -> Array:
        total = records.reshape(-1, records.shape[-1]).sum(axis=0)
        return np.diag(total / (point + self.floor) ** 2)

    def gradient_bound(self, norm: Norm, width: int) -> float:
        # a convex function of the record, so largest at a vertex: one coordinate 1 / (x_k + floor)
        return 1.0 / (self.floor if width > 1 else 1.0 + self.floor)

    def smoothness(self, norm: Move, width: int) -> float:
        # at a vertex one coordinate changes, by at most |move_k| / floor^2. The coordinates of a
        # move add up to 0, so |move_k| is at most half its l1 norm and sqrt(1 - 1 / width) times
        # its l2 norm.
        if width == 1:
            return 0.0
        return (0.5 if norm == "l1" else sqrt(1 - 1 / width)) / self.floor**2

    def rounding(self, width: int, reach: float) -> Rounding:
        # the log of a sum that is off by one rounding, then a dot product with a distribution
        return Rounding((width + FEW) * EPS * (1 + max(map(abs, self.bounds))), 0.0)

    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        off = ~Simplex().contains(records, SLACK)
        refuse(
            off if present is None else off & present,
            first_round,
            f"Expected the numbers of every {name} to be >= 0 and to add up to 1 ({{place}}). "
            "Divide them by their sum, or use family.clip(records).records.",
        )

    def clip(self, records: Array) -> Clipped:
        """Project records onto the simplex."""
        given = finite(records)
        off = ~Simplex().contains(given, SLACK)
        moved = given.copy()
        moved[off] = Simplex().project(given[off])
        return Clipped(moved, int(np.sum(off)))


@dataclass(frozen=True)
class Weighted(Family):
    """The charge of another family, for points of the simplex: the weights of experts."""

    kinds: ClassVar[tuple[type[Scored], ...]] = ()

    of: Scored

    def __post_init__(self) -> None:
        if not isinstance(self.of, self.kinds):
            *able, last = (kind.__name__ for kind in self.kinds)
            raise InvalidValue(f"Expected {', '.join(able)} or {last}, got {self.of!r}.")
        if not self.of.radius >= 1:
            raise InvalidValue(
                f"Expected radius={self.of.radius!r} >= 1 with points of the simplex."
            )

    @property
    def domain(self) -> Simplex:
        return Simplex()

    @property
    def bounds(self) -> tuple[float, float]:
        return self.of.bounds

    @property
    def record(self) -> Record:
        return self.of.record

    def record_width(self, width: int) -> int:
        return self.of.record_width(width)

    def value(self, records: Array, plays: Array) -> Array:
        return self.of.value(records, plays)

    def gradient(self, records: Array, points: Array) -> Array:
        return self.of.gradient(records, points)

    def curvature(self, records: Array, point: Array) -> Array:
        return self.of.curvature(records, point)

    def gradient_bound(self, norm: Norm, width: int) -> float:
        return self.of.gradient_bound(norm, width)

    def smoothness(self, norm: Move, width: int) -> float:
        return self.of.smoothness(norm, width)

    def rounding(self, width: int, reach: float) -> Rounding:
        return self.of.rounding(width, reach)

    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        self.of.check(name, records, first_round, present)

    def clip(self, records: Array) -> Clipped:
        return self.of.clip(records)


@dataclass(frozen=True)
class OnSimplex(Weighted):
    """The charge of another family, for points of the simplex instead of a ball.

    The features are then forecasts of experts, and the point is the weight of each expert.

    Parameters
    ----------
    of
        `SquaredError`, `Huber` or `Logistic`, with a radius of at least 1: no point of the simplex
        is longer.

    Examples
    --------
    >>> import hedgerow as hr
    >>> family = hr.OnSimplex(hr.Huber())
    >>> family.domain, family.gradient_bound("linf", width=3)
    (Simplex(), 0.5)
    """

    kinds: ClassVar[tuple[type[Scored], ...]] = (SquaredError, Huber, Logistic)


FAMILIES: dict[str, type[Family]] = {
    "linear": Linear,
    "gains": Gains,
    "squared_error": SquaredError,
    "huber": Huber,
    "logistic": Logistic,
    "cross_entropy": CrossEntropy,
}
