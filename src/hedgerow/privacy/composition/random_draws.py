"""The curve of one coin followed by a random number of draws: the shrinking dartboard.

The coin shows "stay" with probability exp(-gap) in one world and exp(-gap - moved) in the other.
Whatever it shows, one draw of bounded range `range` follows. Then, at each of some occasions, one
more draw happens with at most a given chance. Let C = sum over n of w(n) G_(n+1), with w the
binomial law of later draws and G_k the recursion of `bounded_range`. Then delta(epsilon) is at most
the larger of

    s C(epsilon - up) + (1 - s) C(epsilon + moved)  and
    p C(epsilon + up) + (1 - p) C(epsilon - moved).

Here p and s are the chances of "no stay" in the two worlds and up = ln(s / p). All roundings are
outward. The proof is `proofs/dartboard.md#approximate-dp`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from math import ceil, exp, expm1, isfinite, log, sqrt
from pathlib import Path

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.rounding import round_up, rounded_up
from hedgerow.core.validate import at_least, between
from hedgerow.privacy.composition import recursion
from hedgerow.privacy.composition.bounded_range import WIDEST
from hedgerow.privacy.composition.recursion import Grid, Step, Values, grid_for
from hedgerow.privacy.composition.table_cache import load, store
from hedgerow.privacy.curves import BoundedRange, PureDP
from hedgerow.privacy.curves.base import Composed, Symmetric
from hedgerow.privacy.search import closest

_OUTWARD = 1e-13  # more than the errors of a few sums, products and exponentials
_WEIGHTS_OUTWARD = 1e-9  # more than those of a million products in a row
# beyond this many standard deviations (and 40 draws) the rest of a binomial law counts as delta = 1
_DEVIATIONS = 12.0


@dataclass(frozen=True)
class Mixture:
    """Upper bounds on the chances of exactly n draws, n = 0, 1, ..., and of more draws."""

    weights: Values
    rest: float


def binomial(count: int, chance: float) -> Mixture:
    """Bound the binomial law.

    Weights are computed from the mode outward by exact ratios of neighbours. The rest is below a
    geometric series.
    """
    if count == 0 or not 0 < chance < 1:
        return Mixture(np.append(np.zeros(count if chance >= 1 else 0), 1 + _WEIGHTS_OUTWARD), 0.0)
    last = min(count, ceil(count * chance + _DEVIATIONS * sqrt(count * chance * (1 - chance))) + 40)
    mode = min(last, int((count + 1) * chance))
    n = np.arange(last)
    ratios = (count - n) / (n + 1.0) * (chance / (1 - chance))  # w(n + 1) / w(n)
    above = np.cumprod(ratios[mode:])
    below = np.cumprod(1 / ratios[:mode][::-1])[::-1]
    relative = np.concatenate([below, [1.0], above])
    weights = relative / relative.sum() * (1 + _WEIGHTS_OUTWARD)
    next_ratio = (count - last) / (last + 1.0) * (chance / (1 - chance))
    rest = (
        0.0
        if last == count
        else float(weights[-1]) * next_ratio / (1 - next_ratio) * (1 + _WEIGHTS_OUTWARD)
    )
    # raised once more, for the sums in `capped` and `thinned`
    return Mixture(weights * (1 + _WEIGHTS_OUTWARD), rest)


def capped(law: Mixture, most: int | None) -> Mixture:
    """The law of min(n, most)."""
    if most is None or most >= len(law.weights) - 1 + (law.rest > 0):
        return law
    return Mixture(np.append(law.weights[:most], law.weights[most:].sum() + law.rest), 0.0)


def thinned(law: Mixture) -> tuple[Mixture, int]:
    """Drop the negligible first entries, and return how many were dropped.

    Their chance goes to the next entry.
    """
    first = int(np.searchsorted(np.cumsum(law.weights), 1e-30))
    if first == 0:
        return law, 0
    kept = law.weights[first:].copy()
    kept[0] += law.weights[:first].sum()
    return Mixture(kept, law.rest), first


def compute(grid: Grid, weights: Values, first: int) -> Values:
    """The mixture of the tables after first + 1, first + 2, ... steps.

    The loop is that of `recursion.compute`; the table after every step is added.
    """
    (cells, steps), size = grid.runs[0], grid.reach + 1
    beyond = np.arange(1, cells + 1) * grid.width
    certain, weight = -np.expm1(-beyond), np.exp(-beyond)
    padded, scratch, total = np.zeros(size + 2 * cells), np.empty((5, size)), np.zeros(size)
    step = Step(grid.width, cells)
    for done in range(steps):
        padded[cells + size :] = certain + weight * padded[cells + size - 2 : size - 2 : -1]
        padded[:cells] = padded[cells]
        step.apply(padded, cells, max(0, size - 1 - cells * (done + 1)), scratch)
        if done >= first:
            total += weights[done - first] * padded[cells : cells + size]
    return (total * (1 + _WEIGHTS_OUTWARD))[::-1].copy()


@cache
def digest() -> str:
    """A hash of the code that computes the tables of this file."""
    return recursion.digest() + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


@lru_cache(maxsize=32)
def _table(
    width: float, occasions: int, chance: float, cap: int | None
) -> tuple[Grid, Values, float, float]:
    """The grid, the mixture on it, the sum of its weights, and the chance counted as delta = 1."""
    law, first = thinned(capped(binomial(occasions, chance), None if cap is None else cap - 1))
    grid = grid_for(((width, first + len(law.weights)),))
    key = f"{grid.key()} occasions={occasions} chance={chance.hex()} cap={cap} mixed={digest()}"
    values = load(key)
    if (
        values is None
        or len(values) != grid.reach + 1
        or not np.all(values[1:] <= values[:-1] * (1 + 1e-12))
    ):
        values = compute(grid, law.weights, first)
        store(key, values)
    values.setflags(write=False)
    return grid, values, float(law.weights.sum()) * (1 + _OUTWARD), law.rest


@dataclass(frozen=True)
class CoinThenDraws(Symmetric, Composed):
    """The curve of one coin and then a random number of draws of bounded range.

    `gap` and `moved` are the parameters of the coin, `range` that of a draw. At each of `occasions`
    later exchanges a draw happens with probability at most `chance`. There are at most `cap` draws
    in all.

    >>> curve = CoinThenDraws(gap=0.25, moved=0.0625, range=0.125, occasions=8, chance=0.25)
    >>> round(curve.pure, 4), round(curve.epsilon(1e-6), 4)
    (1.3184, 0.6569)
    """

    gap: float
    moved: float
    range: float
    occasions: int
    chance: float
    cap: int | None = None

    def __post_init__(self) -> None:
        if not isfinite(self.gap) or not self.gap > 0:
            raise InvalidValue(f"Expected gap={self.gap!r} > 0 and finite.")
        if not isfinite(self.moved) or not self.moved > 0:
            raise InvalidValue(f"Expected moved={self.moved!r} > 0 and finite.")
        if not isfinite(self.range) or not self.range > 0:
            raise InvalidValue(f"Expected range={self.range!r} > 0 and finite.")
        at_least("occasions", self.occasions, 0)
        between("chance", self.chance, 0.0, 1.0)
        if self.cap is not None:
            at_least("cap", self.cap, 1)

    @property
    def draws(self) -> int:
        """The most draws after the coin."""
        return 1 + self.occasions if self.cap is None else min(self.cap, 1 + self.occasions)

    @property
    def _leave(self) -> tuple[float, float]:
        """p and s: the chances of "no stay" in the two worlds."""
        return -expm1(-self.gap), -expm1(-self.gap - self.moved)

    @property
    def _up(self) -> float:
        p, _ = self._leave
        return log((p + exp(-self.gap) * -expm1(-self.moved)) / p)

    @property
    def _coin(self) -> float:
        """The larger log-ratio of the coin."""
        return max(self._up * (1 + _OUTWARD) + _OUTWARD, self.moved)

    @property
    def pure(self) -> float:
        """The larger log-ratio of the coin, and `range` for every draw."""
        return round_up(Fraction(self._coin) + self.draws * Fraction(self.range))

    def composed_of(self) -> tuple[tuple[PureDP | BoundedRange, int], ...]:
        """The coin and the most draws that can follow, as adaptive steps."""
        return (PureDP(self._coin), 1), (BoundedRange(self.range), self.draws)

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.pure:
            return 0.0
        if self.range > WIDEST:
            return 1.0
        p, s = self._leave
        up, down = self._up, self.moved
        slack = _OUTWARD * (1 + up + down + epsilon)
        p, s = p * (1 - _OUTWARD), min(1.0, s * (1 + _OUTWARD))
        forward = s * self._mixed(epsilon - up - slack) + (1 - s) * self._mixed(
            epsilon + down - slack
        )
        backward = p * self._mixed(epsilon + up - slack) + (1 - p) * self._mixed(
            epsilon - down - slack
        )
        return min(1.0, max(forward, backward) * (1 + _OUTWARD))

    def _mixed(self, epsilon: float) -> float:
        """C: chords in exp(epsilon) between grid points; negative epsilon exchanges the worlds."""
        grid, values, mass, rest = _table(self.range, self.occasions, self.chance, self.cap)
        if epsilon < 0:
            exchanged = -expm1(epsilon) * mass + exp(epsilon) * _between(grid, values, -epsilon)
            return min(1.0, exchanged * (1 + 2 * _OUTWARD) + rest)
        return min(1.0, _between(grid, values, epsilon) + rest)

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        pure = self.pure
        if delta == 0.0 or self.delta(pure * (1 - 1e-12)) > delta:
            return pure
        return (
            0.0
            if self.delta(0.0) <= delta
            else closest(lambda at: self.delta(at) <= delta, pure, 0.0, 0.0)
        )

    def words(self) -> str:
        coin = rounded_up(max(self._up, self.moved))
        draws = f"draws of range {rounded_up(self.range)}"
        return f"{self._quote()} (a coin of epsilon = {coin}, then {draws})"


def _between(grid: Grid, values: Values, epsilon: float) -> float:
    """Look up a value as `bounded_range` does: never below the chord."""
    lowered = epsilon * (1 - _OUTWARD)
    cell = int(lowered / grid.width)
    if cell >= grid.reach:
        return float(values[-1])
    part = max(
        0.0, min(1.0, expm1(lowered - cell * grid.width) / expm1(grid.width) * (1 - _OUTWARD))
    )
    return float((1 - part) * values[cell] + part * values[cell + 1]) * (1 + _OUTWARD)
