"""What lazy algorithms (shrinking dartboard, lazy experts) play with given parameters, what it costs, what regret it bounds: proven.

With m clients, groups of B rounds and G = ceil(T / B) of them, the current expert x survives a group with probability
exp(-rate * (v + base + ADDED * c)), c = m * B: v is what x lost in the group, summed over clients, and with two chains less what its
companion y lost. Otherwise an expert is drawn with weights exp(-rate * total loss). `base` is what makes x leave without a reason:
p = 1 - exp(-rate * base); with probability p, by a coin that sees no data, y is drawn anew.

The cost is computed from the coins and the selection that a server plays. Nothing here reads data, or searches (`lazy_tuning`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log, log1p
from typing import ClassVar

import numpy as np
from scipy.special import bdtrc

from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.mechanisms import Coin, ExponentialMechanism


def cost_of(
    setting: Setting, every: int, draws: int | None, stay: Coin, selection: ExponentialMechanism, refresh: Coin | None = None
) -> CoinThenDraws:
    """Of one loss vector, to whoever sees all broadcasts of a server with these mechanisms: `proofs/dartboard.md#approximate-dp`, its
    pure bound `#pure-dp`; with a coin for a companion `proofs/lazy_experts.md#privacy`.
    """
    exchanges, most = ceil(setting.horizon / every) - 1, setting.clients * every
    later = ((max(0, exchanges - 1), largest_chance(stay, most)),)
    second = () if refresh is None else ((exchanges, largest_chance(refresh, 0.0)),)
    gap = stay.rate * (stay.base + stay.least) * (1 - 2.0**-51)
    return CoinThenDraws(gap, stay.rate * stay.sensitivity, selection.epsilon, later + second, draws)


def largest_chance(coin: Coin, largest: float) -> float:
    """The most that a coin is likely to show "leave" when it sees at most `largest`, rounded up."""
    return min(1.0, -expm1(-coin.rate * (coin.base + largest)) * (1 + 1e-14))


@dataclass(frozen=True)
class Choice:
    """The parameters of the dartboard. `draws` is the cap on draws after the opening; None: as many as there are occasions.

    The coin sees v, between `LEAST` times c and c; one datum moves it by at most `MOVES`; `ADDED` times c is added to it. `CHAINS` is
    2 where there is a companion.
    """

    MOVES: ClassVar[int] = 1
    LEAST: ClassVar[int] = 0
    ADDED: ClassVar[int] = 0
    CHAINS: ClassVar[int] = 1

    rate: float
    base: float
    every: int
    draws: int | None

    @classmethod
    def near(cls) -> int:
        """The exponent of the chance to stay is at least rate * base and so often rate * c."""
        return cls.ADDED + cls.LEAST

    @classmethod
    def far(cls) -> int:
        """The exponent of the chance to stay is at most rate * base and so often rate * c."""
        return cls.ADDED + 1

    @property
    def leave(self) -> float:
        """p, the chance to leave an expert without a reason."""
        return -expm1(-self.rate * self.base)

    def coin(self, setting: Setting) -> Coin:
        """Says whether x stays."""
        most = float(setting.clients * self.every)
        return Coin("stay", self.rate, self.base + self.ADDED * most, sensitivity=float(self.MOVES), least=self.LEAST * most)

    @property
    def refresh(self) -> Coin:
        """Says whether the companion stays, where there is one; it is shown nothing but 0."""
        return Coin("refresh", self.rate, self.base)

    @property
    def selection(self) -> ExponentialMechanism:
        return ExponentialMechanism("selection", 2 * self.rate)

    def groups(self, setting: Setting) -> int:
        return ceil(setting.horizon / self.every)

    def cost(self, setting: Setting) -> CoinThenDraws:
        refresh = self.refresh if self.CHAINS == 2 else None
        return cost_of(setting, self.every, self.draws, self.coin(setting), self.selection, refresh)

    def regret_bound(self, setting: Setting) -> float:
        """On the expected regret per client against losses fixed in advance: `proofs/dartboard.md#regret`; at most the horizon."""
        return 0.0 if setting.experts == 1 else min(float(setting.horizon), self.formula(setting))

    def formula(self, setting: Setting) -> float:
        """The proven bound as it is written, which may exceed the horizon."""
        exchanges = self.groups(setting) - 1
        most = self.CHAINS * exchanges if self.draws is None else self.draws
        return float(regret_bounds(type(self), setting, self.every, np.array(self.rate), np.array(self.leave), np.array(most)))


@dataclass(frozen=True)
class TwoChains(Choice):
    """Those of lazy experts: a datum moves L(x) - L(y) by 2, it may be as low as -c, 2c is added to it, and y is drawn as well."""

    MOVES: ClassVar[int] = 2
    LEAST: ClassVar[int] = -1
    ADDED: ClassVar[int] = 2
    CHAINS: ClassVar[int] = 2


def with_chance(rate: float, chance: float, every: int, draws: int | None, kind: type[Choice] = Choice) -> Choice:
    """The choice whose p is the nearest that the lattice allows, and not 0."""
    units = max(1, round(-log1p(-chance) / rate * UNITS_PER_LOSS))
    return kind(rate, units / UNITS_PER_LOSS, every, draws)


def regret_bounds(kind: type[Choice], setting: Setting, every: int, rate: Array, p: Array, draws: Array) -> Array:
    """For many parameters at once. That a sum of unequal coins has thinner tails than equal ones of the same mean is Hoeffding's (1956)."""
    groups, together = ceil(setting.horizon / every), rate * setting.clients
    occasions = kind.CHAINS * (groups - 1)
    with np.errstate(divide="ignore"):
        learning = entropy(setting) / together + together * every**2 * groups / 8
    chance = 1 - (1 - p) * np.exp(-kind.far() * together * every)
    mean = (chance + (kind.CHAINS - 1) * p) / kind.CHAINS
    tail = bdtrc(np.minimum(draws, max(0, occasions - 1)), max(1, occasions), np.minimum(1.0, mean * (1 + 1e-13)))
    tail = np.where(draws >= occasions * mean, tail, 1.0)
    return learning + setting.horizon * np.where(draws < occasions, tail, 0.0)


def entropy(setting: Setting) -> float:
    return log(max(2, setting.experts))
