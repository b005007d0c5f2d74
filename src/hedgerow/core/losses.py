"""Loss families: public rules that turn a record and a play into a charge. The records are secret.

`Linear` is prediction from experts: the record is the loss vector. `Gains` is the same game with
the sign turned. Families for points with a curved charge are in `core/convex.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from hedgerow.core.domain import Domain, Simplex
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, check_unit_range, round_to_lattice
from hedgerow.core.record import LOSS_VECTOR, Record, gain_vector

Norm = Literal["l1", "l2", "linf"]
Move = Literal["l1", "l2"]
MOST_GAIN = 2.0**10  # a float64 adds 2^23 such gains exactly: more than a block holds
EPS = 2.0**-52  # twice the largest relative error of one rounding, so second orders are covered
FEW = 8  # roundings of elementary functions and products


def common_plays(plays: np.ndarray) -> np.ndarray | None:
    """Return the plays (rounds,) that all deciders share, or None if they may differ.

    An algorithm signals shared plays by returning one column for all deciders as a broadcast view.

    >>> common_plays(np.broadcast_to(np.array([3, 4])[:, None], (2, 5)))
    array([3, 4])
    """
    return plays[:, 0] if plays.ndim == 2 and plays.strides[1] == 0 and plays.shape[1] > 0 else None


@dataclass(frozen=True)
class Clipped:
    """Records that lie in the range of their family, and how many of them had to be moved."""

    records: Array
    moved: int


class Rounding(NamedTuple):
    """Bounds on the rounding errors of one computed charge and of one gradient (Euclidean norm).

    They come on top of a few roundings (`FEW`, relative) of the computed numbers themselves.
    """

    value: float
    gradient: float


def refuse(bad: np.ndarray, first_round: int, text: str) -> None:
    """Raise if a record is bad; `bad` has the axes (rounds, clients), or any others.

    The first bad record is named. `text` is the message, with `{place}` where the place belongs.
    """
    if not bad.any():
        return
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    place = (
        f"round {where[0] + first_round}, client {where[1]}"
        if len(where) == 2
        else f"record {', '.join(map(str, where))}"
    )
    raise InvalidValue(text.format(place=place))


class Family(ABC):
    """The interface of a loss family.

    Records and points have leading axes, such as (rounds, deciders), which broadcast. A record has
    `record_width(width)` numbers and a point `width` numbers. Constants are those of all records
    that `check` accepts and all points of the domain, up to a relative 1e-12 for rounding.
    """

    gains: ClassVar[bool] = False
    """Whether a record holds gains, so that the charge is minus the gain."""
    linear: ClassVar[bool] = False
    """Whether charges are linear, so that a play may be the number of an expert.

    Records then lie on the lattice, have one number for each expert, and their sums are exact.
    """

    @property
    def word(self) -> str:
        """What errors call a record of this family, or one of its numbers."""
        return self.record.charge if self.linear else "record"

    @property
    def trained(self) -> bool:
        """Whether points are weights of a trained model, whose least charge nobody can certify.

        Regret is then not measured.
        """
        return False

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Where points live."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest charge."""

    @property
    def record(self) -> Record:
        """What a record is called in certificates and statements, and where it lies."""
        return Record("record", "z", "", "what a client holds about one round", "loss", self.bounds)

    def record_width(self, width: int) -> int:
        """Return how many numbers a record has if points have `width` coordinates."""
        return width

    def point_width(self, numbers: int) -> int:
        """Return how many coordinates points have if records have this many numbers."""
        return numbers - self.record_width(0)

    @abstractmethod
    def value(self, records: Array, plays: np.ndarray) -> Array:
        """Return the charges."""

    def paid(self, records: Array, points: Array) -> Array:
        """Return what all deciders together pay in each round if they keep to their points."""
        return np.einsum("ri->r", self.value(records, points))

    @abstractmethod
    def gradient(self, records: Array, points: Array) -> Array:
        """Return the gradients of the charges with respect to the points."""

    def curvature(self, records: Array, point: Array) -> Array | None:
        """Return the Hessian (width, width) at one point, summed over records (count, numbers).

        None: the charge has none, or it is zero.
        """
        return None

    @abstractmethod
    def gradient_bound(self, norm: Norm, width: int) -> float:
        """Return the largest norm of a gradient."""

    @abstractmethod
    def smoothness(self, norm: Move, width: int) -> float:
        """Return the largest change of a gradient per distance that the point moves.

        Both are Euclidean for "l2". For "l1" the move is measured in l1 and the change in linf.
        """

    @abstractmethod
    def rounding(self, width: int, reach: float) -> Rounding:
        """Return bounds on the errors of a computed charge and gradient, for certified optima.

        `reach` is the Euclidean norm of the point.
        """

    @abstractmethod
    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        """Refuse records outside the declared range; name the first one and what to do.

        `name` is what a record is called in the message. Records (rounds, clients, numbers) are
        named by round and client; `first_round` is the number of the first one. Where `present`
        (rounds, clients) is False there is no record, and nothing is checked.
        """

    def check_reports(
        self, reports: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        """Refuse reports outside the declared range; by default a report is a record."""
        self.check("report", reports, first_round, present)

    @abstractmethod
    def clip(self, records: Array) -> Clipped:
        """Move records into the declared range, and count those that were outside.

        No other code does this. NaN and infinite numbers are refused, because no record is near.
        """


def require_family(family: object) -> None:
    """Refuse anything that is not a loss family, such as its name or its class."""
    if not isinstance(family, Family):
        named = getattr(family, "__name__", repr(family))
        raise InvalidValue(f"Expected a loss family such as hr.Logistic(), got {named}.")


def finite(records: Array) -> Array:
    """Return the records as floats; refuse NaN and infinite numbers."""
    given = np.asarray(records, float)
    refuse(
        ~np.asarray(np.isfinite(given).all(axis=-1)),
        0,
        "Expected finite numbers in every record ({place}). Remove or repair it.",
    )
    return given


def _linear_value(records: Array, plays: np.ndarray) -> Array:
    if plays.dtype.kind == "i":
        one = common_plays(plays)
        # all deciders follow one expert: take a column instead of gathering
        if one is not None and one.size and (one == one[0]).all():
            return records[..., int(one[0])]
        return np.take_along_axis(records, plays[..., None], axis=-1)[..., 0]
    return np.einsum("...d,...d->...", records, plays)


def _linear_paid(records: Array, points: Array) -> Array:
    """One matrix-vector product, at the speed of reading the records once."""
    return records.reshape(len(records), -1) @ np.ascontiguousarray(points).reshape(-1)


def _vector_norm(norm: Norm, largest: Array) -> float:
    """The norm of the longest vector whose coordinates are at most `largest` in absolute value."""
    if norm == "linf":
        return float(largest.max())
    return float(largest.sum()) if norm == "l1" else float(np.sqrt((largest**2).sum()))


@dataclass(frozen=True)
class Linear(Family):
    """Charge `loss[expert]`, or `<loss, point>` for a point of the simplex; losses lie in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> hr.Linear().value(np.array([[0.25, 1.0]]), np.array([1]))
    array([1.])
    >>> hr.Linear().clip(np.array([[0.5, 1.5], [0.0, 1.0]])).moved
    1
    """

    linear: ClassVar[bool] = True

    @property
    def domain(self) -> Simplex:
        return Simplex()

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0, 1.0)

    @property
    def record(self) -> Record:
        return LOSS_VECTOR

    def value(self, records: Array, plays: np.ndarray) -> Array:
        return _linear_value(records, plays)

    def paid(self, records: Array, points: Array) -> Array:
        return _linear_paid(records, points)

    def gradient(self, records: Array, points: Array) -> Array:
        return records

    def gradient_bound(self, norm: Norm, width: int) -> float:
        return _vector_norm(norm, np.ones(width))  # the gradient is the record: all losses are 1

    def smoothness(self, norm: Move, width: int) -> float:
        return 0.0  # the gradient does not depend on the point

    def rounding(self, width: int, reach: float) -> Rounding:
        return Rounding(width * EPS, 0.0)  # a dot product of losses up to 1 with a mixture

    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        check_unit_range(name, records, first_round)  # an absent client has losses 0, in range

    def clip(self, records: Array) -> Clipped:
        """Clip losses to [0, 1], then round them to the lattice."""
        return _clipped(records, np.zeros(1), np.ones(1))


def _clipped(records: Array, low: Array, high: Array) -> Clipped:
    given = finite(records)
    outside = ((given < low) | (given > high)).any(axis=-1)
    # nearest lattice points, but inside: a bound need not be on the lattice
    least, most = np.ceil(low * UNITS_PER_LOSS), np.floor(high * UNITS_PER_LOSS)
    near = round_to_lattice(np.clip(given, low, high))
    return Clipped(
        np.clip(near, least / UNITS_PER_LOSS, most / UNITS_PER_LOSS), int(np.sum(outside))
    )


@dataclass(frozen=True)
class Gains(Family):
    """Charge `-gain[expert]`, or `-<gain, point>` for a point of the simplex.

    Everything minimises charges, so a gain is earned and the `loss` of a run is minus its gain. The
    regret is the gain of the best expert minus the gain of the algorithm. Gains are rounded to
    multiples of 2^-20, so sums are exact.

    If each client reports only about its own expert (a silo), client i reports one number, the gain
    of expert i. There are then as many clients as experts. The ranges are still declared once, by
    expert: the report of client i must lie in the range of expert i.

    Parameters
    ----------
    low
        The smallest gain: one number, or a tuple with one number for each expert.
    high
        The largest gain, likewise. Gains are at most 1024 in absolute value.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> family = hr.Gains(low=0.0, high=(1.0, 40.0))
    >>> family.value(np.array([[0.5, 12.0]]), np.array([1])).tolist()
    [-12.0]
    >>> family.clip(np.array([[2.0, 12.0], [1.0, 40.0]]))
    Clipped(records=array([[ 1., 12.],
           [ 1., 40.]]), moved=1)
    >>> family.gradient_bound("linf", width=2)
    40.0
    """

    gains: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    low: float | tuple[float, ...] = 0.0
    high: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        for name in ("low", "high"):  # arrays and lists are welcome; plain floats are kept
            given = getattr(self, name)
            if isinstance(given, np.ndarray | list | tuple):
                plain = (x.item() if isinstance(x, np.generic) else x for x in given)
                object.__setattr__(self, name, tuple(plain))
        for name, given in (("low", self.low), ("high", self.high)):
            numbers = given if isinstance(given, tuple) else (given,)
            for number in numbers:
                real = isinstance(number, int | float) and not isinstance(number, bool)
                if not real or not isfinite(number) or not abs(number) <= MOST_GAIN:
                    raise InvalidValue(
                        f"Expected {name}={number!r} to be a number in [{-MOST_GAIN:g}, "
                        f"{MOST_GAIN:g}]; choose a larger unit."
                    )
            if len(numbers) == 0:
                raise InvalidValue(f"Expected {name}={given!r} to have one number for each expert.")
        if (
            isinstance(self.low, tuple)
            and isinstance(self.high, tuple)
            and len(self.low) != len(self.high)
        ):
            raise InvalidValue(
                f"Expected high={self.high!r} to have as many numbers as low={self.low!r}."
            )
        low, high = np.broadcast_arrays(np.atleast_1d(self.low), np.atleast_1d(self.high))
        empty = np.ceil(low * UNITS_PER_LOSS) > np.floor(high * UNITS_PER_LOSS)
        if empty.any():
            at = int(empty.argmax())
            raise InvalidValue(
                f"Expected low={float(low[at])!r} <= high={float(high[at])!r}, with a multiple of "
                "2^-20 between."
            )

    @property
    def experts(self) -> int | None:
        """The number of experts, if the ranges say it."""
        sizes = [len(given) for given in (self.low, self.high) if isinstance(given, tuple)]
        return sizes[0] if sizes else None

    def ranges(self, width: int) -> tuple[Array, Array]:
        """Return the smallest and the largest gain of each expert."""
        if self.experts not in (None, width):
            raise InvalidValue(
                f"These gains have ranges for {self.experts} experts, but there are {width}. "
                "Declare one range for each expert."
            )
        return (
            np.array(np.broadcast_to(np.asarray(self.low, float), width)),
            np.array(np.broadcast_to(np.asarray(self.high, float), width)),
        )

    @property
    def largest(self) -> float:
        """The largest absolute gain."""
        return float(max(np.abs(self.low).max(), np.abs(self.high).max()))

    @property
    def domain(self) -> Simplex:
        return Simplex()

    @property
    def bounds(self) -> tuple[float, float]:
        return (0.0 - float(np.max(self.high)), 0.0 - float(np.min(self.low)))

    @property
    def record(self) -> Record:
        least, most = self.bounds
        space = None if self.experts is None else "with every gain in its declared range"
        return gain_vector((0.0 - most, 0.0 - least), space)

    def value(self, records: Array, plays: np.ndarray) -> Array:
        return 0.0 - _linear_value(records, plays)

    def paid(self, records: Array, points: Array) -> Array:
        return 0.0 - _linear_paid(records, points)

    def gradient(self, records: Array, points: Array) -> Array:
        return 0.0 - records

    def gradient_bound(self, norm: Norm, width: int) -> float:
        low, high = self.ranges(width)
        # the gradient is minus the record: every gain is at the end that is farther from 0
        return _vector_norm(norm, np.maximum(np.abs(low), np.abs(high)))

    def smoothness(self, norm: Move, width: int) -> float:
        return 0.0  # the gradient does not depend on the point

    def rounding(self, width: int, reach: float) -> Rounding:
        return Rounding(width * EPS * self.largest, 0.0)  # a dot product of gains with a mixture

    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        low, high = self.ranges(records.shape[-1])
        self._check(name, records, low, high, first_round, present)

    def check_reports(
        self, reports: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        """Refuse reports outside the ranges.

        Reports of one number are those of silos where the ranges say that there are several
        experts: client i reports the gain of expert i.
        """
        numbers = reports.shape[-1]
        if numbers != 1 or self.experts in (None, 1):
            self.check("report", reports, first_round, present)
            return
        low, high = self.ranges(reports.shape[-2])
        self._check("report", reports, low[:, None], high[:, None], first_round, present)

    @staticmethod
    def _check(
        name: str,
        records: Array,
        low: Array,
        high: Array,
        first_round: int,
        present: np.ndarray | None,
    ) -> None:
        wrong = ~((records >= low) & (records <= high))  # NaN is neither
        if present is not None:
            wrong &= present[..., None]
        if not wrong.any():
            return
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        lowest, highest = (float(np.broadcast_to(x, records.shape)[where]) for x in (low, high))
        place = (
            f"round {where[0] + first_round}, client {where[1]}, number {where[2]}"
            if len(where) == 3
            else f"{where}"
        )
        raise InvalidValue(
            f"Expected every {name} in [{lowest!r}, {highest!r}] ({place}). "
            "Declare wider ranges, or use family.clip(records).records."
        )

    def clip(self, records: Array) -> Clipped:
        """Clip gains to their ranges, then round them to the lattice."""
        return _clipped(records, *self.ranges(np.shape(records)[-1]))


def ranges(family: Family, experts: int) -> tuple[Array, Array]:
    """The smallest and the largest loss, or gain, of each expert in one round."""
    if isinstance(family, Gains):
        return family.ranges(experts)
    return np.zeros(experts), np.ones(experts)
