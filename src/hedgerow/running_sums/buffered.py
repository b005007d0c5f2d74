"""A Toeplitz factorisation with a few buffers, as good as the square root (a BLT).

C(z) = prod (1 - zero_i z) / prod (1 - pole_i z) with 1 > pole_1 > zero_1 > pole_2 > ... >= 0. Then
the coefficients of C and of B(z) = 1 / ((1 - z) C(z)) are positive sums of powers, and the
sensitivity and the errors are sums of geometric series: they cost the same for every horizon.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import factorial, fsum, inf, log, sqrt
from typing import Literal

import numpy as np
import scipy  # its parts are imported when they are used: they are large

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow.running_sums.factorisation import Errors
from hedgerow.running_sums.filters import Filter, GeometricFilter, Precision
from hedgerow.running_sums.toeplitz import Toeplitz

Objective = Literal["max", "rms"]
MOST_TIMES = 64  # vectors of one person for which a factorisation is optimised


@dataclass(frozen=True)
class BufferedToeplitz(Toeplitz):
    """A Toeplitz factorisation whose encoder keeps a few vectors, whatever the horizon.

    Parameters
    ----------
    rounds
        The horizon. None: the sensitivity holds for every number of rounds; the error grows slowly
        up to about 1 / gaps[0] rounds, and with the root of the rounds after that.
    gaps
        1 - pole_1 < 1 - zero_1 < 1 - pole_2 < ..., in (0, 1]: two for each buffer.
        `BufferedToeplitz.optimised` finds the best.
    precision
        "float32" halves the memory of the buffers and rounds more. Default: "float64".

    Examples
    --------
    >>> best = BufferedToeplitz.optimised(rounds=1000, buffers=4)
    >>> round(best.scaled_errors().max, 2)
    3.27
    """

    gaps: tuple[float, ...]
    precision: Precision = "float64"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gaps", tuple(map(float, self.gaps)))
        at_least("rounds", 1 if self.rounds is None else self.rounds, 1)
        if self.precision not in ("float64", "float32"):
            raise InvalidValue(f"Expected precision={self.precision!r} to be known.")
        given = self._gaps
        if len(given) == 0 or len(given) % 2 != 0:
            raise InvalidValue(f"Expected gaps={self.gaps!r} to be pairs.")
        inside = bool((given > 0).all() and (given <= 1).all() and (np.diff(given) > 0).all())
        inside = inside and float(self.weights.sum()) <= 1  # so the coefficients never rise
        if not inside:
            raise InvalidValue(
                f"Expected gaps={self.gaps!r} to rise strictly in (0, 1] in {self.precision}."
            )

    @classmethod
    def optimised(
        cls,
        rounds: int,
        buffers: int = 4,
        error: Objective = "max",
        precision: Precision = "float64",
        times: int = 1,
        apart: int = 1,
    ) -> BufferedToeplitz:
        """Return the factorisation with the smallest error times sensitivity that was found.

        The sensitivity is that of one person with `times` vectors, `apart` rounds apart (at most 64
        are counted here). For several vectors fewer buffers may be enough.
        """
        for name, value in {"rounds": rounds, "buffers": buffers, "times": times}.items():
            at_least(name, value, 1)
        at_least("apart", apart, 1)
        if error not in ("max", "rms"):
            raise InvalidValue(f"Expected error={error!r} to be 'max' or 'rms'.")
        times = min(times, MOST_TIMES, -(-rounds // apart))
        if times == 1:
            return cls(rounds, optimal_gaps(rounds, buffers, error), precision)
        for few in range(buffers, 1, -1):  # poles that meet zeros are left out
            try:
                return cls(rounds, optimal_gaps(rounds, few, error, times, apart), precision)
            except InvalidValue:
                continue
        return cls(rounds, optimal_gaps(rounds, 1, error, times, apart), precision)

    @cached_property
    def _gaps(self) -> Array:
        """The gaps of poles and zeros that are rounded to the precision of the buffers."""
        return 1 - (1 - np.array(self.gaps)).astype(self.precision).astype(float)

    @property
    def poles(self) -> Array:
        """The ratios of the powers in C."""
        return 1 - self._gaps[0::2]

    @property
    def weights(self) -> Array:
        """The weights of the powers in C."""
        exact = residues(self._gaps[1::2], self._gaps[0::2])[0]
        return exact.astype(self.precision).astype(float)

    @property
    def encoder(self) -> Filter:
        return GeometricFilter(
            self.rounds,
            tuple(self.poles.tolist()),
            tuple(self.weights.tolist()),
            precision=self.precision,
        )

    @property
    def decoder(self) -> Filter:
        ratios, weights = self._decoding_powers()
        after = tuple((weights * ratios).tolist())
        return GeometricFilter(self.rounds, tuple(ratios.tolist()), after, precision=self.precision)

    def _decoding_powers(self) -> tuple[Array, Array]:
        gaps = np.concatenate([[0.0], self._gaps[1::2]])
        return 1 - gaps, residues(self._gaps[0::2], gaps)[0]

    def roundings(self, rounds: int | None = None) -> int:
        """Two in each round that a vector is kept, then a product and one addition per buffer."""
        return 2 * self.count(rounds) + len(self.gaps) // 2 + 1

    def coefficients(self, rounds: int | None = None) -> Array:
        ages = np.arange(self.count(rounds) - 1)[:, None]
        return np.concatenate([[1.0], self.poles**ages @ self.weights])

    def decoding_coefficients(self, rounds: int | None = None) -> Array:
        ratios, weights = self._decoding_powers()
        return ratios ** np.arange(self.count(rounds))[:, None] @ weights

    def row_sum(self, rounds: int | None = None) -> float:
        length = inf if rounds is None and self.rounds is None else self.count(rounds) - 1
        sums = geometric_sum(np.log1p(-self._gaps[0::2]), length)[0]
        return 1 + float(self.weights @ sums)

    def errors(self, rounds: int | None = None) -> Errors:
        count = self.count(rounds)
        squares = [_decoding_square(self._gaps, count, kind)[0] for kind in ("max", "rms")]
        return Errors(sqrt(squares[0]), sqrt(squares[1]))

    def _shared(self, times: int, apart: int) -> float:
        """Closed form: all vectors of the worst pattern, as early and as close as they can be."""
        length = inf if self.rounds is None else self.rounds
        exact = residues(self._gaps[1::2], self._gaps[0::2])
        return _encoding_square(self._gaps, (self.weights, *exact[1:]), length, times, apart)[0]


def residues(over: Array, under: Array) -> tuple[Array, Array, Array]:
    """Return prod_i (over_i - under_p) / prod_{q != p} (under_q - under_p) and its derivatives.

    The derivatives have one row for each p: by `over`, and by `under`.
    """
    tops = over[None] - under[:, None]
    bottoms = under[None] - under[:, None]
    np.fill_diagonal(bottoms, 1.0)
    value = np.prod(tops, axis=1) / np.prod(bottoms, axis=1)
    by_over = value[:, None] / tops
    by_under = -value[:, None] / bottoms
    own = (value[:, None] / bottoms).sum(axis=1) - value - by_over.sum(axis=1)
    np.fill_diagonal(by_under, own)
    return value, by_over, by_under


def _quadratic(weights: Array, series: tuple[Array, Array]) -> tuple[float, Array, Array]:
    """Return the sum of w_p w_q F(l_p + l_q), and its derivatives by w and by l."""
    values, slopes = series
    return (
        float(weights @ values @ weights),
        2 * values @ weights,
        2 * weights * (slopes @ weights),
    )


def _pairs(gaps: Array) -> Array:
    logs = np.log1p(-gaps)
    return logs[:, None] + logs[None]


def _encoding_square(
    gaps: Array, powers: tuple[Array, Array, Array], length: float, times: int, apart: int
) -> tuple[float, Array]:
    """Return the squared norm of `times` columns of C, added up, and its derivative by all gaps.

    The columns are `apart` rounds apart, from the first on. `powers` are the weights in C and their
    derivatives. Each column is multiplied with itself and with all earlier ones: an earlier one has
    the coefficient w_q exp(lag l_q) where it has w_q.
    """
    weights, by_zeros, by_poles = powers
    logs, pairs = np.log1p(-gaps[0::2]), _pairs(gaps[0::2])
    first, by_first = np.zeros_like(logs), np.zeros_like(logs)  # the entry on the diagonal
    older, by_older = np.ones_like(logs), np.zeros_like(logs)  # below it, with earlier columns
    terms, by_weight, by_log = list[float](), np.zeros_like(logs), np.zeros_like(logs)
    for k in range(times):
        lag = k * apart
        if lag >= length:
            break
        if k:
            power, once = 2 * np.exp(lag * logs), 2 * np.exp((lag - 1) * logs)
            first, by_first = first + once, by_first + (lag - 1) * once
            older, by_older = older + power, by_older + lag * power
        values, slopes = geometric_sum(pairs, length - lag - 1)
        all_of = weights * older
        terms.append(1 + float(weights @ first) + float(weights @ values @ all_of))
        by_weight = by_weight + first + values @ all_of + older * (values @ weights)
        by_log = by_log + weights * (by_first + slopes @ all_of + by_older * (values @ weights))
        by_log = by_log + all_of * (slopes @ weights)
    slope = np.empty_like(gaps)
    slope[0::2] = by_poles.T @ by_weight - by_log / (1 - gaps[0::2])
    slope[1::2] = by_zeros.T @ by_weight
    return fsum(terms), slope


def _decoding_square(gaps: Array, rounds: int, error: str) -> tuple[float, Array]:
    """Return the largest or the mean squared error, and its derivative by all gaps."""
    poles, zeros = gaps[0::2], np.concatenate([[0.0], gaps[1::2]])
    weights, by_poles, by_zeros = residues(poles, zeros)
    series = geometric_sum if error == "max" else ramp_sum
    value, by_weight, by_log = _quadratic(weights, series(_pairs(zeros), rounds))
    slope = np.empty_like(gaps)
    slope[0::2] = by_poles.T @ by_weight
    slope[1::2] = (by_zeros.T @ by_weight - by_log / (1 - zeros))[1:]
    return value, slope


def gaps_from(steps: Array) -> Array:
    """Return rising gaps from free numbers: each exp(step) is the log of a ratio of neighbours."""
    return np.exp(-np.cumsum(np.exp(steps))[::-1])


def objective(
    steps: Array, rounds: int, error: Objective, times: int = 1, apart: int = 1
) -> tuple[float, Array]:
    """Return the log of squared error times squared sensitivity, and its gradient."""
    with np.errstate(all="ignore"):
        gaps = gaps_from(steps)
        powers = residues(gaps[1::2], gaps[0::2])
        squared, by_squared = _encoding_square(gaps, powers, rounds, times, apart)
        errors, by_errors = _decoding_square(gaps, rounds, error)
        value = np.log(squared) + np.log(errors)
        by_log = (by_squared / squared + by_errors / errors) * gaps
        slope = -np.cumsum(by_log)[::-1] * np.exp(steps)
    if not (np.isfinite(value) and np.isfinite(slope).all()):
        return 1e10, np.zeros_like(steps)
    return float(value), slope


@cache
def optimal_gaps(
    rounds: int, buffers: int, error: Objective, times: int = 1, apart: int = 1
) -> tuple[float, ...]:
    """Return the best gaps found by L-BFGS from a few starts, in few digits."""
    best: tuple[float, Array] | None = None
    size, least = 2 * buffers, 1e-16 if times == 1 else 1e-10
    for spread in (0.8, 1.05):
        reach = max(spread * log(max(rounds, 3)), 0.5)
        first = min(0.25, reach / size)
        steps = np.full(size, (reach - first) / max(1, size - 1))
        steps[0] = first
        found = scipy.optimize.minimize(
            objective,
            np.log(steps),
            args=(rounds, error, times, apart),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 400, "maxcor": 2 * size, "ftol": least, "gtol": 1e-8},
        )
        if found.fun < (inf if best is None else best[0]) and found.fun < 1e9:
            gaps = gaps_from(found.x)
            gaps[0] = max(gaps[0], 1e-4 / rounds)  # a pole at 1 would be best for some patterns
            if (np.diff(gaps) > 0).all() and gaps[0] > 0 and gaps[-1] < 1:
                best = (float(found.fun), gaps)
    if best is None:
        raise InvalidValue(
            f"Expected buffers={buffers!r} to be fewer: no good factorisation was found for "
            f"rounds={rounds}."
        )
    return _shortened(best[1])


def _shortened(gaps: Array) -> tuple[float, ...]:
    """Return the gaps with four digits, or with as many as keep them apart.

    Another version of scipy stops elsewhere, but mostly at the same four digits. The error changes
    by less than a part in 100,000.
    """
    for digits in (4, 6, 9, 12):
        short = np.array([float(f"{gap:.{digits - 1}e}") for gap in gaps])
        if (np.diff(short) > 1e-3 * short[:-1]).all() and short[-1] < 1:
            return tuple(short.tolist())
    return tuple(gaps.tolist())


# Where n l is small, closed forms of geometric series lose digits; Taylor series in l are used.
TERMS = 12
NEAR = 0.3  # |n l| below which the series is used; the first term left out is below 1e-15


@cache
def _moments(rounds: int, ramp: bool) -> tuple[float, ...]:
    """Return sum of k^i (times 1 - k / n for the ramp) over k < n, for i up to TERMS + 1."""
    powers = [_power_sum(rounds, i) for i in range(TERMS + 3)]
    if not ramp:
        return tuple(float(powers[i]) for i in range(TERMS + 2))
    return tuple((powers[i] * rounds - powers[i + 1]) / rounds for i in range(TERMS + 2))


@cache
def _power_sum(rounds: int, power: int) -> int:
    """Return 0^i + 1^i + ... + (n - 1)^i as a whole number: n^(i+1) minus lower sums."""
    from math import comb

    lower = sum(comb(power + 1, i) * _power_sum(rounds, i) for i in range(power))
    return (rounds ** (power + 1) - lower) // (power + 1)


def _series(logs: Array, rounds: int, ramp: bool) -> tuple[Array, Array]:
    moments = _moments(rounds, ramp)
    value, slope = np.zeros_like(logs), np.zeros_like(logs)
    power = np.ones_like(logs)
    for i in range(TERMS + 1):
        value += moments[i] / factorial(i) * power
        slope += moments[i + 1] / factorial(i) * power
        power = power * logs
    return value, slope


def geometric_sum(logs: Array, rounds: float) -> tuple[Array, Array]:
    """Return the sum over k < rounds of exp(k l), and its derivative by l.

    >>> value, slope = geometric_sum(np.log([0.5]), 3)
    >>> value.tolist(), slope.round(12).tolist()
    ([1.75], [1.0])
    """
    if rounds == inf:
        one_minus = -np.expm1(logs)
        return 1 / one_minus, (1 - one_minus) / one_minus**2
    near = np.abs(logs) * rounds < NEAR
    far = np.where(near, -1.0, logs)
    one, last = np.expm1(far), np.expm1(rounds * far)
    value = last / one
    slope = (rounds * (last + 1) - value * (one + 1)) / one
    if not near.any():
        return value, slope
    small, small_slope = _series(np.where(near, logs, 0.0), int(rounds), ramp=False)
    return np.where(near, small, value), np.where(near, small_slope, slope)


def ramp_sum(logs: Array, rounds: int) -> tuple[Array, Array]:
    """Return the sum over k < rounds of (1 - k / rounds) exp(k l), and its derivative by l.

    >>> value, slope = ramp_sum(np.log([0.5]), 2)
    >>> value.tolist(), slope.tolist()
    ([1.25], [0.25])
    """
    near = np.abs(logs) * rounds < NEAR
    far = np.where(near, -1.0, logs)
    plain, plain_slope = geometric_sum(far, rounds)
    ratio, one_minus = np.exp(far), -np.expm1(far)
    value = (1 - ratio * plain / rounds) / one_minus
    slope = (ratio * value - ratio * (plain + plain_slope) / rounds) / one_minus
    if not near.any():
        return value, slope
    small, small_slope = _series(np.where(near, logs, 0.0), rounds, ramp=True)
    return np.where(near, small, value), np.where(near, small_slope, slope)
