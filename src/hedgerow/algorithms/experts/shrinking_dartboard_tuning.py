"""The free parameters of the shrinking dartboard from public values: what they cost, what regret they bound, which are best.

With m clients, groups of B rounds and G = ceil(T / B) of them, the current expert x survives a group in which it lost L(x), summed
over clients, with probability exp(-rate * (L(x) + base)). Otherwise an expert is drawn with weights exp(-rate * total loss). `base` is
what makes it leave without a reason: p = 1 - exp(-rate * base).

A cap on the draws belongs to the pure version; with delta > 0 the number of draws is left to chance. The search runs on a grid, for
delta > 0 with a normal approximation; what it finds is then made to fit by the certified curve, so that only the quality of
the choice rests on the approximation. Nothing here reads data.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, expm1, inf, log, log1p, sqrt
from pathlib import Path

import numpy as np
from scipy.special import bdtrc, log_ndtr, ndtr

from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.setting import Setting
from hedgerow.privacy import random_draws
from hedgerow.privacy.bisection import closest
from hedgerow.privacy.random_draws import CoinThenDraws
from hedgerow.privacy.table_cache import load, store

CLOSE = 0.97  # of delta: near enough to stop the search
ROUNDS_OF_CORRECTION = 4
CHANCES, CAPS, ZOOMS = 49, 49, 3
LARGEST_CHANCE = 0.5
SPREAD = ((-sqrt(3), 1 / 6), (0.0, 2 / 3), (sqrt(3), 1 / 6))  # three points that stand for a normal law


@dataclass(frozen=True)
class Choice:
    """`draws` is the cap on draws after the first expert; None: as many as there are exchanges."""

    rate: float
    base: float
    every: int
    draws: int | None

    @property
    def leave(self) -> float:
        """p, the chance to leave an expert without a reason."""
        return -expm1(-self.rate * self.base)

    def groups(self, setting: Setting) -> int:
        return ceil(setting.horizon / self.every)

    def cost(self, setting: Setting) -> CoinThenDraws:
        """Of one loss vector, to whoever sees all broadcasts: `proofs/dartboard.md#approximate-dp`, its pure bound `#pure-dp`."""
        later = max(0, self.groups(setting) - 2)
        occasions = ((later, self.largest_chance(setting)),)
        return CoinThenDraws(self.rate * self.base * (1 - 2.0**-52), self.rate, 2 * self.rate, occasions, self.draws)

    def largest_chance(self, setting: Setting) -> float:
        """q, the largest chance of a draw at one exchange, rounded up."""
        return min(1.0, -expm1(-self.rate * (self.base + setting.clients * self.every)) * (1 + 1e-14))

    def regret_bound(self, setting: Setting) -> float:
        """On the expected regret per client against losses fixed in advance: `proofs/dartboard.md#regret`."""
        exchanges, rate = self.groups(setting) - 1, self.rate * setting.clients
        bound = _entropy(setting) / rate + rate * self.every**2 * (exchanges + 1) / 8
        if self.draws is None or self.draws >= exchanges:
            return bound
        return bound + setting.horizon * float(bdtrc(self.draws, exchanges, self.largest_chance(setting)))


def _entropy(setting: Setting) -> float:
    return log(max(2, setting.experts))


def fastest(setting: Setting, every: int) -> float:
    """The rate that is best without privacy: no calibration needs a larger one."""
    return sqrt(8 * _entropy(setting) / ceil(setting.horizon / every)) / (setting.clients * every)


def with_chance(rate: float, chance: float, every: int, draws: int | None) -> Choice:
    """The choice whose p is the nearest that the lattice allows, and not 0."""
    units = max(1, round(-log1p(-chance) / rate * UNITS_PER_LOSS))
    return Choice(rate, units / UNITS_PER_LOSS, every, draws)


def candidates(setting: Setting, every: int | None) -> list[int]:
    """Sizes of groups: the one that was asked for, or powers of two."""
    if every is not None:
        return [every]
    return [2**k for k in range(max(1, setting.horizon.bit_length() - 1))]


def best_of(setting: Setting, found: list[Choice]) -> Choice:
    return min(found, key=lambda choice: choice.regret_bound(setting))


@lru_cache(maxsize=256)
def choose(setting: Setting, epsilon: float, delta: float, every: int | None) -> Choice:
    """The smallest regret bound that the search finds within the budget; kept on disk with delta > 0, where it takes time."""
    if delta == 0:
        return choose_pure(setting, epsilon, every)
    key = f"dartboard {setting} epsilon={epsilon.hex()} delta={delta.hex()} every={every} code={_code()}"
    kept = load(key)
    if kept is not None and len(kept) == 4:
        return Choice(float(kept[0]), float(kept[1]), int(kept[2]), None if kept[3] < 0 else int(kept[3]))
    found = best_of(setting, [choose_approximate(setting, epsilon, delta, every), choose_pure(setting, epsilon, every)])
    store(key, np.array([found.rate, found.base, found.every, -1 if found.draws is None else found.draws], float))
    return found


def _code() -> str:
    files = (Path(__file__), Path(random_draws.__file__))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _fitting(setting: Setting, choice: Choice, epsilon: float) -> Choice:
    """A little less of the rate, where a rounding has made the pure cost too large."""
    while choice.cost(setting).pure > epsilon:
        choice = with_chance(choice.rate * (1 - 1e-9), choice.leave, choice.every, choice.draws)
    return choice


def choose_pure(setting: Setting, epsilon: float, every: int | None) -> Choice:
    return best_of(setting, [_pure(setting, epsilon, size) for size in candidates(setting, every)])


def _pure(setting: Setting, epsilon: float, every: int) -> Choice:
    """A grid over p and the cap on draws, refined around its best point; the rate is the largest that epsilon allows."""
    exchanges = max(1, ceil(setting.horizon / every) - 1)
    chances, caps = np.geomspace(0.01 / exchanges, LARGEST_CHANCE, CHANCES), np.geomspace(1, exchanges, CAPS)
    best = (inf, 0.0, 0.0, 1)
    for _ in range(ZOOMS):
        draws = np.unique(np.rint(caps))
        p, most = np.meshgrid(np.minimum(chances, LARGEST_CHANCE), draws, indexing="ij")
        rate = np.minimum(_largest_pure_rate(p, most, epsilon), fastest(setting, every))
        bound = _bounds(setting, every, rate, p, most, exchanges)
        at = np.unravel_index(int(np.argmin(bound)), bound.shape)
        best = min(best, (float(bound[at]), float(rate[at]), float(p[at]), int(most[at])))
        ratio_p, ratio_k = (chances[1] / chances[0]) ** 1.5, (caps[1] / caps[0]) ** 1.5 if exchanges > 1 else 1.0
        chances = np.geomspace(best[2] / ratio_p, best[2] * ratio_p, CHANCES)
        caps = np.clip(np.geomspace(best[3] / ratio_k, best[3] * ratio_k, CAPS), 1, exchanges)
    return _fitting(setting, with_chance(best[1], best[2], every, best[3]), epsilon)


def _largest_pure_rate(p: Array, draws: Array, epsilon: float) -> Array:
    low, high = np.zeros_like(p), epsilon / (2 * draws)
    for _ in range(60):
        middle = (low + high) / 2
        coin = np.maximum(np.log1p((1 - p) / p * -np.expm1(-middle)), middle)
        fits = coin + 2 * middle * draws <= epsilon
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low


def _bounds(setting: Setting, every: int, rate: Array, p: Array, draws: Array, exchanges: int) -> Array:
    """`Choice.regret_bound` on a grid."""
    together = rate * setting.clients
    chance = 1 - (1 - p) * np.exp(-together * every)
    with np.errstate(divide="ignore"):
        learning = _entropy(setting) / together + together * every**2 * (exchanges + 1) / 8
    tail = np.where(draws < exchanges, bdtrc(np.minimum(draws, exchanges - 1), exchanges, chance), 0.0)
    return learning + setting.horizon * tail


def choose_approximate(setting: Setting, epsilon: float, delta: float, every: int | None) -> Choice:
    """The best group size and p by approximation, then the largest rate that is certified there."""
    best = (inf, 0.0, 0.0, 1)
    for size in candidates(setting, every):
        exchanges, p = max(1, ceil(setting.horizon / size) - 1), np.geomspace(1e-4, LARGEST_CHANCE, 2 * CHANCES)
        rate = _largest_rate(setting, size, p, epsilon, delta)
        bound = _bounds(setting, size, rate, p, np.full_like(p, exchanges), exchanges)
        at = int(np.argmin(bound))
        best = min(best, (float(bound[at]), float(rate[at]), float(p[at]), size))
    return _certified(setting, epsilon, delta, best[1], best[2], best[3])


def _gaussian(epsilon: Array, mu: Array) -> Array:
    return np.maximum(0.0, ndtr(mu / 2 - epsilon / mu) - np.exp(np.minimum(700.0, epsilon + log_ndtr(-mu / 2 - epsilon / mu))))


def approximate_delta(setting: Setting, every: int, rate: Array, p: Array, epsilon: float) -> Array:
    """The certified curve with a normal law in place of the composition, and three points in place of the binomial law."""
    later = max(0, ceil(setting.horizon / every) - 2)
    q = 1 - (1 - p) * np.exp(-rate * setting.clients * every)
    s = 1 - (1 - p) * np.exp(-rate)
    up, told, hidden = np.log(s / p), np.zeros_like(p), np.zeros_like(p)
    for deviations, weight in SPREAD:
        mu = rate * np.sqrt(1 + np.maximum(0.0, later * q + deviations * np.sqrt(later * q * (1 - q))))
        told += weight * (s * _gaussian(epsilon - up, mu) + (1 - s) * _gaussian(epsilon + rate, mu))
        hidden += weight * (p * _gaussian(epsilon + up, mu) + (1 - p) * _gaussian(epsilon - rate, mu))
    return np.maximum(told, hidden)


def _largest_rate(setting: Setting, every: int, p: Array, epsilon: float, delta: float) -> Array:
    """By bisection, up to what is best without privacy."""
    low, high = np.zeros_like(p), np.full_like(p, fastest(setting, every))
    fits = approximate_delta(setting, every, high, p, epsilon) <= delta
    low = np.where(fits, high, low)
    for _ in range(45):
        middle = (low + high) / 2
        fits = approximate_delta(setting, every, middle, p, epsilon) <= delta
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.maximum(low, 1e-12 * high)


def _certified(setting: Setting, epsilon: float, delta: float, rate: float, p: float, every: int) -> Choice:
    """The largest rate at this p whose certified curve fits: the approximation is corrected by what it got wrong the last time."""
    best, aim, chance = None, delta, np.array([p])
    for _ in range(ROUNDS_OF_CORRECTION):
        tried = with_chance(rate, p, every, None)
        spent = tried.cost(setting).delta(epsilon)
        if spent <= delta and (best is None or rate > best.rate):
            best = tried
            if spent >= CLOSE * delta or rate >= fastest(setting, every) * (1 - 1e-12):
                return best
        believed = float(approximate_delta(setting, every, np.array([rate]), chance, epsilon)[0])
        if not (spent > 0 and believed > 0):
            break
        aim = (1 + CLOSE) / 2 * delta * believed / spent
        rate = float(_largest_rate(setting, every, chance, epsilon, aim)[0])
    if best is not None:
        return best
    draws = np.array([max(1.0, ceil(setting.horizon / every) - 1)])
    pure = float(_largest_pure_rate(chance, draws, epsilon)[0]) * (1 - 1e-9)

    def fits(at: float) -> bool:
        return with_chance(at, p, every, None).cost(setting).delta(epsilon) <= delta

    return with_chance(closest(fits, min(pure, rate), rate, 2e-3), p, every, None)
