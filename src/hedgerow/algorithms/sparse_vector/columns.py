"""How much the losses of a run count in each selection of an epoch, and what that costs.

A loss vector of run i enters the selection at the end of run i and the later ones of its epoch. It
pays for these and for no others. So each run has its own split of the budget: a *column*. Weights
are whole numbers, so that weighted sums of losses are exact. One unit of weight costs twice the
rate of the selection (`proofs/sparse_vector.md#weights-by-recency`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor, sqrt

from hedgerow.algorithms.sparse_vector.plan import Draw
from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.lattice import MOST_EXACT
from hedgerow.core.rounding import round_down, round_up
from hedgerow.privacy.calibrate import surrogate_mu
from hedgerow.privacy.composition.bounded_range import WIDEST, BoundedRangeSequence
from hedgerow.privacy.composition.steps import AfterPureStep
from hedgerow.privacy.curves import PureDP, Quoted
from hedgerow.privacy.curves.wrapped import LargestOf, SmallestOf
from hedgerow.privacy.mechanisms import ExponentialMechanism, NoisyMax

FINEST = 2**16  # units in a column: finer weights would change nothing
STEP = 0.5  # with delta > 0 only some columns of a later epoch are enlarged, this far apart
TOLERANCE = 2e-3
MOST_FROM_DELTA = 8.0  # delta > 0 enlarges a column by less than this factor


@dataclass(frozen=True)
class Column:
    """The weights of the losses of one run.

    `own` is the weight in the selection that ends the run, `later` that in each of the `after`
    selections which follow in the epoch. `test` is the budget of the run's test; 0: it has none.

    >>> Column(own=7, later=1, after=3, test=0.5).units
    10
    """

    own: int
    later: int
    after: int
    test: float

    @property
    def units(self) -> int:
        return self.own + self.after * self.later

    @property
    def largest(self) -> int:
        return max(self.own, self.later if self.after else 0)

    def pure(self, rate: float) -> Fraction:
        """The exact cost of a loss vector of this run."""
        return Fraction(self.test) + 2 * Fraction(rate) * self.units

    def curve(self, rate: float) -> PrivacyCurve:
        """The curve of the test, then of selections of bounded range in a fixed order.

        Ranges are rounded up, so their sum may exceed the exact pure cost: both bounds hold.
        """
        own, later = (round_up(2 * Fraction(rate) * weight) for weight in (self.own, self.later))
        pure = PureDP(round_up(self.pure(rate)))
        if max(own, later) > WIDEST:  # not in the recursion's tables, and it would gain nothing
            return pure
        draws = BoundedRangeSequence((own, *(later,) * self.after))
        steps = AfterPureStep(draws, self.test)
        rounded = Fraction(self.test) + Fraction(draws.pure)
        return steps if rounded <= Fraction(pure.bound) else SmallestOf((steps, pure))


Columns = tuple[Column, ...]
"""One column for each run of an epoch."""


def finest(losses: int, reserve: float = 1.0) -> int:
    """The units of a column for which all weighted sums of `losses` losses stay exact.

    Weights may be up to `reserve` times as large as a column.

    >>> finest(5120), finest(2**30), finest(2**40)
    (65536, 7, 1)
    """
    return max(1, min(FINEST, floor((MOST_EXACT - 1) / (reserve * max(1, losses)))))


def split(units: int, front: float, after: int, test: float) -> Column:
    """A column of `units`: the share `front` for the own selection, the rest graded.

    Graded means equal weights for the own selection and all `after` later ones. With front = 0
    the weights are equal, so a few units may be left over.

    >>> split(100, 0.7, after=9, test=0.4)
    Column(own=73, later=3, after=9, test=0.4)
    >>> split(100, 0.0, after=8, test=0.4)
    Column(own=11, later=11, after=8, test=0.4)
    """
    later = floor((1 - Fraction(front)) * units / (after + 1))
    own = later if front == 0 else units - after * later
    return Column(own, later if after else 0, after, test)


@dataclass(frozen=True)
class Weights:
    """The columns of all epochs, and `rate`: half of what one unit of weight costs.

    `opening` is the column of the very first run if that run has no test. None: it has one, and its
    column is that of the first run of any epoch. `later` are the columns of further epochs; the
    last of them repeats. Empty: all epochs are alike.
    """

    columns: Columns
    opening: Column | None
    rate: float
    later: tuple[Columns, ...] = ()

    def place(self, used: int) -> tuple[int, int]:
        """The epoch of the run that begins after `used` draws, and which of its runs it is.

        >>> one = Column(1, 1, 0, 0.5)
        >>> weights = Weights((one,) * 2, None, 0.25, later=((one,) * 4,))
        >>> [weights.place(used) for used in (1, 2, 5, 6)]
        [(0, 1), (1, 0), (1, 3), (2, 0)]
        """
        epochs = (self.columns, *self.later)
        for epoch, columns in enumerate(epochs[:-1]):
            if used < len(columns):
                return epoch, used
            used -= len(columns)
        epoch, run = divmod(used, len(epochs[-1]))
        return len(self.later) + epoch, run

    def of(self, used: int) -> Column:
        """The column of the run that begins after `used` draws."""
        if used == 0 and self.opening is not None:
            return self.opening
        epoch, run = self.place(used)
        return (self.columns, *self.later)[min(epoch, len(self.later))][run]

    @property
    def largest(self) -> int:
        """The largest weight: how far one loss vector can move a score."""
        return max(column.largest for column in self._all)

    def selection(self, draw: Draw) -> ExponentialMechanism | NoisyMax:
        """The mechanism that draws an expert from weighted losses, at exactly this rate or less."""
        largest = float(self.largest)
        epsilon = round_down(2 * Fraction(self.rate) * self.largest)
        if draw == "exponential":
            return ExponentialMechanism("selection", epsilon, largest)
        return NoisyMax("selection", "exponential", epsilon, largest)

    @property
    def _all(self) -> Columns:
        opening = () if self.opening is None else (self.opening,)
        return (*opening, *self.columns, *(column for epoch in self.later for column in epoch))

    def cost(self, delta: float) -> PrivacyCurve:
        """The cost of the dearest run, which is that of any number of epochs.

        With delta > 0 every selection must have bounded range: permute-and-flip has not.
        """
        if delta == 0:
            return PureDP(max(round_up(column.pure(self.rate)) for column in self._all))
        # of columns that differ in their length only, the longest costs most
        longest: dict[tuple[int, int, float], Column] = {}
        for column in sorted(self._all, key=lambda column: column.after):
            longest[column.own, column.later, column.test] = column
        curves = dict.fromkeys(column.curve(self.rate) for column in longest.values())
        return Quoted(LargestOf(tuple(curves)), delta)


def weigh(
    *,
    epsilon: float,
    delta: float,
    test: float,
    switches: int,
    front: float,
    untested: bool,
    losses: int,
) -> Weights:
    """Weights that spend the budget in every run.

    With delta = 0 each column adds up to what is left after the test. With delta > 0 it is enlarged
    as far as its own curve allows. `losses` is the largest number of losses in a sum.

    >>> weights = weigh(
    ...     epsilon=1.0, delta=0.0, test=0.5, switches=2, front=0.5, untested=True, losses=100
    ... )
    >>> weights.cost(0.0).bound, weights.opening.units / weights.columns[0].units
    (1.0, 2.0)
    """
    budget = Fraction(epsilon)
    tested = budget - Fraction(test)
    reserve = float(budget / tested) * (1 if delta == 0 else MOST_FROM_DELTA)
    units = finest(losses, reserve)
    rate = round_down(tested / (2 * units))
    columns = [split(units, front, after, test) for after in reversed(range(switches))]
    opening = None
    if untested:
        opening = split(floor(budget / (2 * Fraction(rate))), front, switches - 1, 0.0)
    return Weights(
        tuple(enlarged(column, epsilon, delta, rate, losses) for column in columns),
        None if opening is None else enlarged(opening, epsilon, delta, rate, losses),
        rate,
    )


@lru_cache(maxsize=1024)
def enlarged(column: Column, epsilon: float, delta: float, rate: float, losses: int) -> Column:
    """The column times the largest factor that (epsilon, delta) allows, by its own curve.

    The factor is 1 at least: the column costs at most epsilon with delta = 0. Sums of `losses`
    losses stay exact.
    """
    if delta == 0 or column.after == 0 or 2 * rate * column.largest > WIDEST:
        return column
    most = min(MOST_FROM_DELTA, (MOST_EXACT - 1) / max(1, column.largest * losses))
    if column.largest == 0 or most <= 1:
        return column

    def scaled(factor: float) -> Column:
        own, later = (floor(Fraction(factor) * weight) for weight in (column.own, column.later))
        return Column(own, later, column.after, column.test)

    # many small steps are worth what a Gaussian of their size is: the search starts there, and is
    # corrected by how far the Gaussian was off at the last factor tried
    aim = surrogate(epsilon, delta, column.test)
    size = rate * sqrt(column.own**2 + column.after * column.later**2)
    good, bad, factor = 1.0, most, aim / size
    while bad - good > TOLERANCE * good:
        if not good < factor < bad:
            factor = sqrt(good * bad)
        certified = scaled(factor).curve(rate).delta(epsilon)
        good, bad = (factor, bad) if certified <= delta else (good, factor)
        if certified > 0:
            factor *= aim / surrogate_mu(epsilon, certified, column.test) * (1 - TOLERANCE / 3)
            if certified <= delta and factor <= good * (1 + TOLERANCE):
                break
    return scaled(good)


surrogate = lru_cache(maxsize=1024)(surrogate_mu)
