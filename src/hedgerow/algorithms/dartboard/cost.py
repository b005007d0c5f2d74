"""What given parameters of the shrinking dartboard cost, and the regret they bound: both proven (`proofs/dartboard.md`).

With m clients, groups of B rounds and G = ceil(T / B) of them, the current expert x survives a group with probability
exp(-rate * (v + base)), where v <= c = m * B is what x lost in the group, summed over clients. Otherwise an expert is drawn with
weights exp(-rate * total loss). `base` makes x leave without a reason, with probability p = 1 - exp(-rate * base).

The cost is computed from the coin and the selection that a server plays. Nothing here reads data or searches (`tuning` does).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log, log1p

import numpy as np
from scipy.special import bdtrc

from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.mechanisms import Coin, ExponentialMechanism


def cost_of(
    setting: Setting, every: int, draws: int | None, coin: Coin, selection: ExponentialMechanism
) -> CoinThenDraws:
    """The privacy cost of one loss vector against an observer of all broadcasts: `proofs/dartboard.md#approximate-dp`, `#pure-dp`."""
    later = max(0, ceil(setting.horizon / every) - 2)
    likeliest = min(
        1.0, -expm1(-coin.rate * (coin.base + setting.clients * every)) * (1 + 1e-14)
    )  # to leave, rounded up
    gap = coin.rate * coin.base * (1 - 2.0**-51)
    return CoinThenDraws(
        gap, coin.rate * coin.sensitivity, selection.epsilon, later, likeliest, draws
    )


@dataclass(frozen=True)
class Choice:
    """The parameters that are played. `draws` caps the draws after the opening; None: one may follow every exchange."""

    rate: float
    base: float
    every: int
    draws: int | None

    @property
    def leave(self) -> float:
        """p, the chance to leave an expert without a reason."""
        return -expm1(-self.rate * self.base)

    @property
    def coin(self) -> Coin:
        """Decides whether the current expert stays."""
        return Coin("stay", self.rate, self.base)

    @property
    def selection(self) -> ExponentialMechanism:
        return ExponentialMechanism("selection", 2 * self.rate)

    def groups(self, setting: Setting) -> int:
        return ceil(setting.horizon / self.every)

    def cost(self, setting: Setting) -> CoinThenDraws:
        return cost_of(setting, self.every, self.draws, self.coin, self.selection)

    def regret_bound(self, setting: Setting) -> float:
        """On the expected regret per client against losses fixed in advance: `proofs/dartboard.md#regret`; at most the horizon."""
        return 0.0 if setting.experts == 1 else min(float(setting.horizon), self.formula(setting))

    def formula(self, setting: Setting) -> float:
        """The proven bound as it is written, which may exceed the horizon."""
        most = self.groups(setting) - 1 if self.draws is None else self.draws
        return float(
            regret_bounds(
                setting, self.every, np.array(self.rate), np.array(self.leave), np.array(most)
            )
        )


def with_chance(rate: float, chance: float, every: int, draws: int | None) -> Choice:
    """The choice whose p is the nearest to `chance` that the lattice allows, and not 0."""
    units = max(1, round(-log1p(-chance) / rate * UNITS_PER_LOSS))
    return Choice(rate, units / UNITS_PER_LOSS, every, draws)


def regret_bounds(setting: Setting, every: int, rate: Array, p: Array, draws: Array) -> Array:
    """For many parameters at once. A cap below the mean number of draws counts as reached: it is never worth choosing."""
    groups, together = ceil(setting.horizon / every), rate * setting.clients
    exchanges = groups - 1
    with np.errstate(divide="ignore"):
        learning = entropy(setting) / together + together * every**2 * groups / 8
    chance = 1 - (1 - p) * np.exp(-together * every)
    tail = bdtrc(
        np.minimum(draws, max(0, exchanges - 1)),
        max(1, exchanges),
        np.minimum(1.0, chance * (1 + 1e-13)),
    )
    tail = np.where(draws >= exchanges * chance, tail, 1.0)
    return learning + setting.horizon * np.where(draws < exchanges, tail, 0.0)


def entropy(setting: Setting) -> float:
    return log(max(2, setting.experts))
