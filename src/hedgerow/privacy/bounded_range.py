"""Adaptive composition of bounded-range steps (exponential mechanism, Gumbel noise): a certified recursion.

With G_0(u) = (1 - u)_+ and u = exp(epsilon), the least curve that holds for every adaptive composition of k steps of range r is

    G_k(u) = sup over 0 <= t <= r of q_t G_(k-1)(u e^-t) + (1 - q_t) G_(k-1)(u e^(r-t)),   q_t = (1 - e^(t-r)) / (1 - e^-r).

The table below is never under it (`proofs/bounded_range.md`): values between grid points are replaced by chords, which lie above
a convex function, the supremum over t is taken over all real t, and every rounding is outward.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import groupby
from math import ceil, exp, expm1, fsum, inf, isfinite, isnan, log1p, nextafter, sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hedgerow.core.checks import at_least, between, expect
from hedgerow.privacy.composition import AfterPureStep, round_up
from hedgerow.privacy.curves import BoundedRange, GaussianDP
from hedgerow.privacy.curves.pure import QUOTED_DELTA, rounded_up

Values = npt.NDArray[np.float64]

WIDEST = 50.0
"""A step of a larger range protects nothing anybody would sign, and exp(range) loses accuracy."""
_ROUNDING = 2.0**-53
_SIGMAS = 8.5  # the table reaches to about delta = 1e-17; beyond it only the pure bound is claimed
_TINY = 1e-290  # far above the subnormal numbers, so every rounding error in the table is relative


@dataclass(frozen=True)
class _Grid:
    """Log-ratios i * width for i = 0..reach; `runs` are (cells per range, number of steps), in the order of the steps."""

    width: float
    runs: tuple[tuple[int, int], ...]
    reach: int

    def key(self) -> str:
        return f"bounded_range width={self.width.hex()} runs={self.runs} reach={self.reach} code={_code()}"


def _resolution(steps: int, widest: float) -> int:
    """Cells per range. The excess of epsilon is about 1 / (4 cells^2), so long compositions can afford few cells."""
    cells = next((cells for most, cells in ((3, 128), (12, 64), (60, 32), (300, 16), (2500, 12)) if steps <= most), 8)
    return max(cells, 2 * ceil(4 * widest))


@lru_cache(maxsize=1024)
def _grid(ranges: tuple[tuple[float, int], ...], cells: int | None = None) -> _Grid:
    """The coarsest grid on which rounding every range up to whole cells costs at most 1 % (nothing if all ranges are equal).

    If none up to 256 cells does, the finest of them: still an upper bound, only a looser one.
    """
    steps, widest = sum(count for _, count in ranges), max(each for each, _ in ranges)
    cells = _resolution(steps, widest) if cells is None else cells
    energy = fsum(count * each * each for each, count in ranges)
    finest = max(cells, 256)
    while True:
        width = widest * (1 + 2e-12) / cells
        runs = tuple((ceil(each / width * (1 + 1e-12)), count) for each, count in ranges)
        rounded = fsum(count * (n * width) ** 2 for n, count in runs)
        if rounded <= 1.01**2 * energy or cells == finest:
            break
        cells += 1
    mu = sqrt(rounded) / 2
    window = ceil((_SIGMAS * mu + mu * mu / 2) / width) + max(n for n, _ in runs)
    return _Grid(width, runs, min(window, sum(n * count for n, count in runs)))


class _Step:
    """One application of the supremum, for a range of so many cells; the formulas are those of `bounded_range.md#grid`."""

    def __init__(self, width: float, cells: int) -> None:
        self.cells = cells
        t, span = np.arange(cells + 1) * width, cells * width
        self.up = np.expm1((np.arange(cells + 1) - cells) * width) / expm1(-span)  # q_t
        self.down = np.exp((np.arange(cells + 1) - cells) * width) * np.expm1(-t) / expm1(-span)  # 1 - q_t, without cancellation
        self.fall = self.up[:-1] - self.up[1:]
        self.bend = np.exp((np.arange(cells) - cells) * width) * expm1(width) ** 2 / -expm1(-span)
        self.inflation = 1 + 2e-14 * (1 + span)

    def apply(self, padded: Values, pad: int, low: int, scratch: Values) -> None:
        """Replace the values at grid points `low`.. (counted upwards, epsilon = 0 last) by those after one more step."""
        size = len(padded) - 2 * pad
        count = size - low
        left, right, curvature, gap, best = (row[:count] for row in scratch[:5])

        def shifted(cells: int) -> Values:
            return padded[pad + low + cells : pad + size + cells]

        def node(cells: int, out: Values) -> None:
            np.multiply(shifted(cells), self.up[cells], out=out)
            np.multiply(shifted(cells - self.cells), self.down[cells], out=gap)
            np.add(out, gap, out=out)

        differences = np.diff(padded)
        node(0, left)
        best[:] = left
        for j in range(self.cells):
            node(j + 1, right)
            np.subtract(
                differences[pad + low + j : pad + size + j],
                differences[pad + low + j - self.cells : pad + size + j - self.cells],
                out=curvature,
            )
            np.multiply(curvature, self.fall[j], out=curvature)
            np.subtract(shifted(j + 1), shifted(j - self.cells), out=gap)
            np.multiply(gap, self.bend[j], out=gap)
            np.add(curvature, gap, out=curvature)
            np.maximum(curvature, _TINY, out=curvature)
            # the largest value of (1 - s) left + s right + s (1 - s) curvature is the larger end + (curvature - gap)_+^2 / (4 curvature)
            np.subtract(right, left, out=gap)
            np.abs(gap, out=gap)
            np.subtract(curvature, gap, out=gap)
            np.maximum(gap, 0.0, out=gap)
            np.maximum(left, right, out=left)
            np.maximum(best, left, out=best)
            np.divide(gap, curvature, out=curvature)
            np.multiply(gap, curvature, out=gap)
            np.multiply(gap, 0.25, out=gap)
            np.add(left, gap, out=left)
            np.maximum(best, left, out=best)
            left, right = right, left
        np.multiply(best, self.inflation, out=best)
        np.add(best, _TINY, out=best)
        np.minimum(best, 1.0, out=best)
        np.maximum.accumulate(best, out=padded[pad + low : pad + size])


def _compute(grid: _Grid) -> Values:
    """delta at epsilon = i * width, i = 0..reach: an upper bound, nonincreasing in i."""
    pad, size = max(cells for cells, _ in grid.runs), grid.reach + 1
    beyond = np.arange(1, pad + 1) * grid.width
    certain, weight = -np.expm1(-beyond), np.exp(-beyond)
    padded, scratch = np.zeros(size + 2 * pad), np.empty((5, size))
    support = 0
    for cells, count in reversed(grid.runs):  # the last step is the innermost supremum
        step = _Step(grid.width, cells)
        for _ in range(count):
            # both directions have the same curve, so G(1/u) = 1 - 1/u + G(u)/u gives the values at negative epsilon
            padded[pad + size :] = certain + weight * padded[pad + size - 2 : size - 2 : -1]
            padded[:pad] = padded[pad]
            support += cells
            step.apply(padded, pad, max(0, size - 1 - support), scratch)
    return padded[pad : pad + size][::-1].copy()


@cache
def _code() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


def cache_folder() -> Path:
    """Where tables are kept: `HEDGEROW_CACHE`, otherwise the user's cache folder."""
    chosen = os.environ.get("HEDGEROW_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("hedgerow")


def _cache_file(key: str) -> Path:
    return cache_folder() / f"bounded_range-{hashlib.sha256(key.encode()).hexdigest()[:32]}.table"


def _checksum(key: str, payload: bytes) -> str:
    return hashlib.sha256(key.encode() + b"\n" + payload).hexdigest()


def _load(grid: _Grid) -> Values | None:
    """The stored table, or None if there is none or anything about it is not as it was written."""
    try:
        header, _, payload = _cache_file(grid.key()).read_bytes().partition(b"\n")
        said = json.loads(header)
        if said != {"key": grid.key(), "sha256": _checksum(grid.key(), payload)} or len(payload) != 8 * (grid.reach + 1):
            return None
    except (OSError, ValueError):
        return None
    values = np.frombuffer(payload, dtype="<f8").astype(np.float64)
    sound = bool(np.all((values >= 0) & (values <= 1)) and np.all(values[1:] <= values[:-1]))
    return values if sound else None


def _store(grid: _Grid, values: Values) -> None:
    """Write beside the final name and rename: a reader, or another writer, sees a whole file or none."""
    payload = values.astype("<f8").tobytes()
    header = json.dumps({"key": grid.key(), "sha256": _checksum(grid.key(), payload)}).encode()
    with suppress(OSError):  # a cache that cannot be written costs time, not correctness
        target = _cache_file(grid.key())
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.stem, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(header + b"\n" + payload)
            os.replace(name, target)
        except OSError:
            Path(name).unlink(missing_ok=True)


@lru_cache(maxsize=128)
def _table(grid: _Grid) -> Values:
    values = _load(grid)
    if values is None:
        values = _compute(grid)
        _store(grid, values)
    values.setflags(write=False)
    return values


class _Recursion:
    """Look-ups in a table, rounded outward."""

    def _runs(self) -> tuple[tuple[float, int], ...]:
        """(range, number of consecutive steps) without empty runs."""
        raise NotImplementedError

    def pure(self) -> float:
        """A step of range r is r-DP, so the ranges add up: the smallest float that is not below the sum."""
        return round_up(sum((Fraction(each) * count for each, count in self._runs()), Fraction(0)))

    def delta(self, epsilon: float) -> float:
        expect(not isnan(epsilon), "epsilon", epsilon, "to be a number")
        if epsilon >= self.pure():
            return 0.0
        if epsilon < 0:  # both directions have the same curve
            return min(1.0, (-expm1(epsilon) + exp(epsilon) * self.delta(-epsilon)) * (1 + 64 * _ROUNDING))
        grid = _grid(self._runs())
        values = _table(grid)
        lowered = epsilon * (1 - 8 * _ROUNDING)
        cell = int(lowered / grid.width)
        if cell >= grid.reach:
            return float(values[-1])
        # linear in exp(epsilon): a chord of a convex function
        part = max(0.0, min(1.0, expm1(lowered - cell * grid.width) / expm1(grid.width) * (1 - 64 * _ROUNDING)))
        return min(1.0, float((1 - part) * values[cell] + part * values[cell + 1]) * (1 + 4 * _ROUNDING))

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        pure = self.pure()
        if pure == 0.0 or self.delta(0.0) <= delta:
            return 0.0
        grid = _grid(self._runs())
        values = _table(grid)
        if delta < values[-1]:  # below the reach of the table
            return pure
        cell = int(np.searchsorted(-values, -delta, side="left")) - 1  # values[cell] > delta >= values[cell + 1]
        part = (values[cell] - delta) / (values[cell] - values[cell + 1])
        found, nudge = cell * grid.width + log1p(float(part) * expm1(grid.width)), 4 * _ROUNDING
        while found < pure and self.delta(found) > delta:
            found, nudge = found * (1 + nudge), 2 * nudge
        return min(found, pure)


@dataclass(frozen=True)
class AdaptiveBoundedRange(_Recursion):
    """At most `steps` steps of bounded range `range`, each chosen after seeing the earlier ones; common steps may lie between.

    Holds in both directions and is attained by two-point mechanisms (`proofs/bounded_range.md#recursion`); the table is within
    1 % of it. Computed at the first question, then kept on disk.

    >>> curve = AdaptiveBoundedRange(0.125, 8)
    >>> curve.epsilon(0.0), round(curve.epsilon(1e-6), 3)
    (1.0, 0.707)
    """

    range: float
    steps: int

    def __post_init__(self) -> None:
        _check_range(self.range)
        at_least("steps", self.steps, 0)

    def _runs(self) -> tuple[tuple[float, int], ...]:
        return ((self.range, self.steps),) if self.range > 0 and self.steps > 0 else ()

    def stated(self) -> tuple[float, float]:
        return self.epsilon(QUOTED_DELTA), QUOTED_DELTA

    def words(self) -> str:
        quoted = f"epsilon = {rounded_up(self.epsilon(QUOTED_DELTA))} at delta = {QUOTED_DELTA:g}"
        return f"{quoted} ({self.steps} adaptive steps of range {rounded_up(self.range)})"


@dataclass(frozen=True)
class BoundedRangeSequence(_Recursion):
    """Steps of different ranges in an order fixed in advance; what each step asks may depend on the earlier answers.

    If the order itself is chosen on the way, use the largest range for all steps (`AdaptiveBoundedRange`), or `fixed_plan`.

    >>> BoundedRangeSequence((0.25, 0.5)).epsilon(0.0)
    0.75
    """

    ranges: tuple[float, ...]

    def __post_init__(self) -> None:
        for each in self.ranges:
            _check_range(each)

    def _runs(self) -> tuple[tuple[float, int], ...]:
        return tuple((each, len(list(same))) for each, same in groupby(each for each in self.ranges if each > 0))

    def stated(self) -> tuple[float, float]:
        return self.epsilon(QUOTED_DELTA), QUOTED_DELTA

    def words(self) -> str:
        quoted = f"epsilon = {rounded_up(self.epsilon(QUOTED_DELTA))} at delta = {QUOTED_DELTA:g}"
        return f"{quoted} ({len(self.ranges)} steps of bounded range in a fixed order)"


def _check_range(value: float) -> None:
    expect(isfinite(value) and 0 <= value <= WIDEST, "range", value, f"in [0, {WIDEST}]")


def compose_ranges(parts: Iterable[BoundedRange]) -> AdaptiveBoundedRange | BoundedRangeSequence:
    """The curve of bounded-range steps in a fixed order; equal ranges need no order."""
    ranges = tuple(part.range for part in parts)
    return AdaptiveBoundedRange(ranges[0], len(ranges)) if len(set(ranges)) == 1 else BoundedRangeSequence(ranges)


def surrogate_mu(epsilon: float, delta: float, pure: float = 0.0) -> float:
    """The mu whose Gaussian curve, after one `pure`-DP step, has this delta at this epsilon: for searches, it certifies nothing.

    The normal approximation of so many steps of one range has mu = range sqrt(steps) / 2.
    """
    low, high = 0.0, 1.0
    while AfterPureStep(GaussianDP(high), pure).delta(epsilon) < delta:
        high *= 2
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if AfterPureStep(GaussianDP(middle), pure).delta(epsilon) < delta else (low, middle)
    return high


def largest_range(steps: int, epsilon: float, delta: float, *, pure: float = 0.0, tolerance: float = 0.005) -> float:
    """The largest range, up to `tolerance`, that so many adaptive steps may have for (epsilon, delta); the answer is certified.

    One `pure`-DP step may come first (`AfterPureStep`). The search runs on the surrogate, corrected by the ratio found at the last
    certified point, so the recursion runs two or three times.

    >>> r = largest_range(10, 1.0, 1e-6)
    >>> AdaptiveBoundedRange(r, 10).delta(1.0) <= 1e-6, round(r, 3)
    (True, 0.153)
    """
    at_least("steps", steps, 1)
    expect(isfinite(epsilon) and epsilon >= 0, "epsilon", epsilon, ">= 0 and finite")
    expect(0 <= delta < 1, "delta", delta, "in [0, 1)")
    between("pure", pure, 0.0, epsilon)
    between("tolerance", tolerance, 1e-4, 0.1)
    rest = Fraction(epsilon) - Fraction(pure)
    good = min(WIDEST, float(rest / steps))
    while Fraction(good) * steps > rest:
        good = nextafter(good, 0.0)
    if delta == 0.0:
        return good
    scale = 2 / sqrt(steps)
    aim = scale * surrogate_mu(epsilon, delta, pure)
    bad, guess = inf, min(WIDEST, max(0.975 * aim, good * (1 + tolerance)))
    while good < guess < bad:
        certified = AfterPureStep(AdaptiveBoundedRange(guess, steps), pure).delta(epsilon)
        if certified <= delta:
            good = guess
        else:
            bad = guess
        if good >= min(bad, WIDEST) * (1 - tolerance):
            break
        if certified > 0.0:  # the surrogate is off by about the same factor nearby
            guess *= aim / (scale * surrogate_mu(epsilon, certified, pure)) * (1 - tolerance / 3)
            if good * (1 - tolerance / 3) <= guess <= good * (1 + tolerance / 3):
                break
        guess = min(guess, WIDEST)
        if not good < guess < bad:
            guess = sqrt(max(good, bad / 4) * bad) if bad < inf else min(WIDEST, 1.5 * good)
    return good
