"""Searches the dartboard parameters with the smallest proven regret bound within a budget.

Only the pure version limits the number of draws; with delta > 0 it is left to chance. The search
runs on a grid. With delta > 0 it uses a normal approximation, and the result is then adjusted to
fit the certified curve. So the approximation affects only the quality of the choice, not its
privacy. Nothing here reads data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from hedgerow.algorithms.dartboard import cost
from hedgerow.algorithms.dartboard.cost import Choice, entropy, regret_bounds, with_chance
from hedgerow.algorithms.shared import schedule as exchanges_at
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core import lattice, rounding
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between
from hedgerow.privacy import search
from hedgerow.privacy.composition import bounded_range, random_draws
from hedgerow.privacy.composition.table_cache import load, store
from hedgerow.privacy.curves import base
from hedgerow.privacy.mechanisms import coin, selection
from hedgerow.privacy.search import closest

# The modules, beside this one, that determine a choice: their code is part of the cache key.
RESTS_ON: Any = (
    cost,
    exchanges_at,
    coin,
    selection,
    search,
    base,
    bounded_range,
    lattice,
    rounding,
)
CLOSE = 0.97  # share of delta at which the search stops
ROUNDS_OF_CORRECTION = 4
CHANCES, CAPS, ZOOMS = 49, 49, 3
LARGEST_CHANCE = 0.5
# Three points and weights that replace a normal distribution.
SPREAD = ((-sqrt(3), 1 / 6), (0.0, 2 / 3), (sqrt(3), 1 / 6))


RAREST = 1e-9  # smallest `leave` that is accepted: the lattice of losses has few values below it


@dataclass(frozen=True)
class Plan:
    """What experts may choose themselves. None: chosen for the smallest proven regret bound.

    Parameters
    ----------
    rate
        The learning rate lambda, in [1e-12, 100].
    leave
        The probability p that an expert leaves although it lost nothing, in [1e-9, 1 - 1e-9].
    draws
        The largest number of draws after the first expert (K - 1 in the paper), at least 1. There
        is no limit if `rate`, `leave` and the algorithm's `every` are all given.
    """

    rate: float | None = None
    leave: float | None = None
    draws: int | None = None

    def __post_init__(self) -> None:
        if self.rate is not None:
            between("rate", self.rate, 1e-12, 100.0)
        if self.leave is not None and not RAREST <= self.leave <= 1 - RAREST:
            raise InvalidValue(
                f"Expected leave={self.leave!r} in [{RAREST}, {1 - RAREST}]: at 0 every change "
                "of expert reveals a loss, at 1 no expert ever stays."
            )
        if self.draws is not None:
            at_least("draws", self.draws, 1)


FREE = Plan()


def fastest(setting: Setting, schedule: Schedule) -> float:
    """The best rate without privacy. No calibration needs a larger one."""
    return sqrt(8 * entropy(setting) / schedule.squares(setting.rounds)) / setting.clients


def candidates(setting: Setting, every: int | None, early: bool) -> list[Schedule]:
    """The schedules to try: groups of the given size, or of powers of two."""
    powers = [2**k for k in range(max(1, setting.rounds.bit_length() - 1))]
    return [Schedule.of(size, early) for size in (powers if every is None else [every])]


def best_of(setting: Setting, found: list[Choice]) -> Choice:
    """The choice with the smallest proven bound."""
    return min(found, key=lambda choice: choice.formula(setting))


@lru_cache(maxsize=256)
def choose(
    setting: Setting,
    epsilon: float,
    delta: float,
    every: int | None,
    given: Plan = FREE,
    early: bool = True,
) -> Choice:
    """The choice with the smallest regret bound that the search finds within the budget.

    With delta > 0 the search takes time, so its result is kept on disk. If the given rate is too
    large for the budget, the result is a choice with a low cost that still exceeds the budget.
    """
    if delta == 0:
        return choose_pure(setting, epsilon, every, given, early)
    key = (
        f"choice {setting} epsilon={float(epsilon).hex()} delta={float(delta).hex()} "
        f"every={every} early={early} {given} code={_code()}"
    )
    kept = load(key)
    if kept is not None and len(kept) == 4:
        schedule = Schedule.of(int(kept[2]), early)
        draws = None if kept[3] < 0 else int(kept[3])
        return Choice(float(kept[0]), float(kept[1]), schedule, draws)
    pure, found = (
        choose_pure(setting, epsilon, every, given, early),
        choose_approximate(setting, epsilon, delta, every, given, early),
    )
    fits = found is not None and (given.rate is None or found.cost(setting).delta(epsilon) <= delta)
    found = (
        pure
        if found is None or not fits
        else found
        if pure.cost(setting).pure > epsilon
        else best_of(setting, [found, pure])
    )
    store(
        key,
        np.array(
            [
                found.rate,
                found.base,
                found.schedule.every,
                -1 if found.draws is None else found.draws,
            ],
            float,
        ),
    )
    return found


@cache
def _code() -> str:
    """A digest of all code that determines a choice: other code must not reuse it."""
    files = [__file__, *(part.__file__ for part in RESTS_ON)]
    return (
        random_draws.digest()
        + hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()
    )


def _fitting(
    setting: Setting, epsilon: float, rate: float, chosen: Callable[[float], Choice]
) -> Choice:
    """The choice with this rate, or with a smaller one if rounding made the pure cost too large.

    It is mainly the rounding of p that does so.
    """

    def fits(at: float) -> bool:
        return chosen(at).cost(setting).pure <= epsilon

    good, step = rate, 1e-9
    while not fits(good):
        good, step = good * (1 - step), min(0.5, 2 * step)
    return chosen(closest(fits, good, rate, 1e-9))


def choose_pure(
    setting: Setting, epsilon: float, every: int | None, given: Plan = FREE, early: bool = True
) -> Choice:
    """The best choice for delta = 0, or the cheapest one if none fits the budget."""
    tried = candidates(setting, every, early)
    found = [_pure(setting, epsilon, schedule, given) for schedule in tried]
    fitting = [choice for choice in found if choice.cost(setting).pure <= epsilon]
    return (
        best_of(setting, fitting)
        if fitting
        else min(found, key=lambda choice: choice.cost(setting).pure)
    )


def _pure(setting: Setting, epsilon: float, schedule: Schedule, given: Plan) -> Choice:
    """Searches a grid over p and the limit on draws, and refines it around the best point.

    The rate is the largest that epsilon allows. A given value has one place on the grid. If a given
    rate fits nowhere, the result is the cheapest place.
    """
    exchanges = max(1, schedule.count(setting.rounds))
    chances, caps = (
        np.geomspace(0.01 / exchanges, LARGEST_CHANCE, CHANCES),
        np.geomspace(1, exchanges, CAPS),
    )
    if given.draws is not None:
        caps = np.full(CAPS, float(min(given.draws, exchanges)))
    best = (inf, given.rate or 0.0, LARGEST_CHANCE, 1)
    for _ in range(ZOOMS):
        p, draws = np.meshgrid(_chances(chances, given), np.unique(np.rint(caps)), indexing="ij")
        largest = _largest_pure_rate(p, draws, epsilon * (1 if given.rate is None else 1 - 1e-12))
        rate = (
            np.minimum(largest, fastest(setting, schedule))
            if given.rate is None
            else np.full_like(p, given.rate)
        )
        bound = np.where(rate <= largest, regret_bounds(setting, schedule, rate, p, draws), inf)
        at = np.unravel_index(int(np.argmin(bound)), bound.shape)
        best = min(best, (float(bound[at]), float(rate[at]), float(p[at]), int(draws[at])))
        ratio_p, ratio_k = (
            (chances[1] / chances[0]) ** 1.5,
            (caps[1] / caps[0]) ** 1.5 if exchanges > 1 else 1.0,
        )
        chances = np.geomspace(best[2] / ratio_p, best[2] * ratio_p, CHANCES)
        caps = np.clip(np.geomspace(best[3] / ratio_k, best[3] * ratio_k, CAPS), 1, exchanges)

    def chosen(rate: float) -> Choice:
        return with_chance(rate, given.leave or best[2], schedule, given.draws or best[3])

    return _fitting(setting, epsilon, best[1], chosen) if given.rate is None else chosen(best[1])


def _chances(chances: Array, given: Plan) -> Array:
    return np.minimum(chances, LARGEST_CHANCE) if given.leave is None else np.array([given.leave])


def _coin(rate: Array, p: Array) -> tuple[Array, Array]:
    """The smallest probability to leave at the first coin, and how much one record can raise it.

    The second value is the logarithm of the ratio.
    """
    stay = 1 - p
    return 1 - stay, np.log1p(stay / (1 - stay) * -np.expm1(-rate))


def _largest_pure_rate(p: Array, draws: Array, epsilon: float) -> Array:
    """The largest rate whose pure cost is at most epsilon, by bisection."""
    low, high = np.zeros_like(p), epsilon / (2 * draws)
    for _ in range(60):
        middle = (low + high) / 2
        first = np.maximum(_coin(middle, p)[1], middle)
        fits = first + 2 * middle * draws <= epsilon
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low


def choose_approximate(
    setting: Setting,
    epsilon: float,
    delta: float,
    every: int | None,
    given: Plan = FREE,
    early: bool = True,
) -> Choice | None:
    """The best group size and p by approximation, with the largest certified rate or the given one.

    None if the given rate is too large for every p.
    """
    best = (inf, inf, given.rate or 0.0, LARGEST_CHANCE, 1)
    for schedule in candidates(setting, every, early):
        p = _chances(np.geomspace(1e-6, LARGEST_CHANCE, 2 * CHANCES), given)
        rate = (
            _largest_rate(setting, schedule, p, epsilon, delta)
            if given.rate is None
            else np.full_like(p, given.rate)
        )
        bound = regret_bounds(
            setting, schedule, rate, p, np.full_like(p, inf if given.draws is None else given.draws)
        )
        spent = (
            np.zeros_like(p)
            if given.rate is None
            else approximate_delta(setting, schedule, rate, p, epsilon)
        )
        at = min(range(len(p)), key=lambda i: (spent[i] > delta, bound[i], spent[i]))
        if spent[at] <= delta:
            size = schedule.every
            best = min(
                best, (float(bound[at]), float(spent[at]), float(rate[at]), float(p[at]), size)
            )
    rate, p, size = best[2:]
    schedule = Schedule.of(size, early)
    if best[0] == inf:
        return None
    if given.rate is not None:
        return with_chance(rate, given.leave or p, schedule, given.draws)
    # A limit on draws never raises the cost.
    return replace(_certified(setting, epsilon, delta, rate, p, schedule), draws=given.draws)


def _gaussian(epsilon: Array, mu: Array) -> Array:
    """The delta of a mu-Gaussian mechanism at epsilon."""
    return np.maximum(
        0.0,
        ndtr(mu / 2 - epsilon / mu)
        - np.exp(np.minimum(700.0, epsilon + log_ndtr(-mu / 2 - epsilon / mu))),
    )


def approximate_delta(
    setting: Setting, schedule: Schedule, rate: Array, p: Array, epsilon: float
) -> Array:
    """The certified curve, approximated.

    A normal distribution replaces the composition, and three points replace the binomial
    distribution.
    """
    exchanges = max(1, schedule.count(setting.rounds))
    most = setting.clients * schedule.every
    q = 1 - (1 - p) * np.exp(-rate * most)
    mean, variance = (exchanges - 1) * q, (exchanges - 1) * q * (1 - q)
    leave, up = _coin(rate, p)
    more, shown, hidden = leave * np.exp(up), np.zeros_like(p), np.zeros_like(p)
    for deviations, weight in SPREAD:
        mu = rate * np.sqrt(1 + np.maximum(0.0, mean + deviations * np.sqrt(variance)))
        shown += weight * (
            more * _gaussian(epsilon - up, mu) + (1 - more) * _gaussian(epsilon + rate, mu)
        )
        hidden += weight * (
            leave * _gaussian(epsilon + up, mu) + (1 - leave) * _gaussian(epsilon - rate, mu)
        )
    return np.maximum(shown, hidden)


def _largest_rate(
    setting: Setting, schedule: Schedule, p: Array, epsilon: float, delta: float
) -> Array:
    """The largest rate within the budget, approximately, by bisection; at most `fastest`."""
    low, high = np.zeros_like(p), np.full_like(p, fastest(setting, schedule))
    low = np.where(approximate_delta(setting, schedule, high, p, epsilon) <= delta, high, low)
    for _ in range(45):
        middle = (low + high) / 2
        fits = approximate_delta(setting, schedule, middle, p, epsilon) <= delta
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.maximum(low, 1e-12 * high)


def _certified(
    setting: Setting, epsilon: float, delta: float, rate: float, p: float, schedule: Schedule
) -> Choice:
    """The largest rate at this p whose certified curve fits the budget.

    Each round corrects the approximation by its last error.
    """
    best, chance = None, np.array([p])
    for _ in range(ROUNDS_OF_CORRECTION):
        tried = with_chance(rate, p, schedule, None)
        spent = tried.cost(setting).delta(epsilon)
        if spent <= delta and (best is None or rate > best.rate):
            best = tried
            if spent >= CLOSE * delta or rate >= fastest(setting, schedule) * (1 - 1e-12):
                return best
        believed = float(approximate_delta(setting, schedule, np.array([rate]), chance, epsilon)[0])
        if not (spent > 0 and believed > 0):
            break
        aim = (1 + CLOSE) / 2 * delta * believed / spent
        rate = float(_largest_rate(setting, schedule, chance, epsilon, aim)[0])
    if best is not None:
        return best
    draws = np.array([max(1.0, schedule.count(setting.rounds))])
    pure = float(_largest_pure_rate(chance, draws, epsilon)[0]) * (1 - 1e-9)

    def fits(at: float) -> bool:
        return with_chance(at, p, schedule, None).cost(setting).delta(epsilon) <= delta

    return with_chance(closest(fits, min(pure, rate), rate, 2e-3), p, schedule, None)
