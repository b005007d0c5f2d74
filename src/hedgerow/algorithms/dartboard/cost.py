"""The proven privacy cost and regret bound of given dartboard parameters (`proofs/dartboard.md`).

There are m clients and G groups of at most B rounds. The current expert x stays after a group
with probability exp(-rate * (v + base)), where v <= c = m * B is its loss in the group, summed over
clients. Otherwise an expert is drawn with weights exp(-rate * total loss). Because of `base`, an
expert that lost nothing leaves with probability p = 1 - exp(-rate * base).

The cost is computed from the coin and the selection that the server uses. Nothing here reads data.
The search for good parameters is in `tuning`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log, log1p

import numpy as np
from scipy.special import bdtrc

from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.mechanisms import Coin, ExponentialMechanism


def cost_of(
    setting: Setting,
    schedule: Schedule,
    draws: int | None,
    coin: Coin,
    selection: ExponentialMechanism,
) -> CoinThenDraws:
    """The privacy cost of one loss vector against an observer of all broadcasts.

    Proofs: `proofs/dartboard.md#pure-dp` and `proofs/dartboard.md#approximate-dp`.
    """
    later = max(0, schedule.count(setting.rounds) - 1)
    # The largest probability that the current expert leaves, rounded up.
    most = setting.clients * schedule.every
    likeliest = min(1.0, -expm1(-coin.rate * (coin.base + most)) * (1 + 1e-14))
    gap = coin.rate * coin.base * (1 - 2.0**-51)
    return CoinThenDraws(
        gap, coin.rate * coin.sensitivity, selection.epsilon, later, likeliest, draws
    )


@dataclass(frozen=True)
class Choice:
    """The parameters that are used.

    `draws` is the largest number of draws after the first expert. None: a draw may follow every
    exchange.
    """

    rate: float
    base: float
    schedule: Schedule
    draws: int | None

    @property
    def leave(self) -> float:
        """p, the probability that an expert leaves although it lost nothing."""
        return -expm1(-self.rate * self.base)

    @property
    def coin(self) -> Coin:
        """The coin that decides whether the current expert stays."""
        return Coin("stay", self.rate, self.base)

    @property
    def selection(self) -> ExponentialMechanism:
        """The mechanism that draws a new expert."""
        return ExponentialMechanism("selection", 2 * self.rate)

    def cost(self, setting: Setting) -> CoinThenDraws:
        """The privacy cost of one loss vector."""
        return cost_of(setting, self.schedule, self.draws, self.coin, self.selection)

    def regret_bound(self, setting: Setting) -> float:
        """Bound on the expected regret per client for losses fixed in advance; at most the horizon.

        Proof: `proofs/dartboard.md#regret`.
        """
        return 0.0 if setting.experts == 1 else min(float(setting.rounds), self.formula(setting))

    def formula(self, setting: Setting) -> float:
        """The proven bound before it is capped at the horizon."""
        most = self.schedule.count(setting.rounds) if self.draws is None else self.draws
        return float(
            regret_bounds(
                setting, self.schedule, np.array(self.rate), np.array(self.leave), np.array(most)
            )
        )


def with_chance(rate: float, chance: float, schedule: Schedule, draws: int | None) -> Choice:
    """The choice whose p is closest to `chance` among the positive values on the lattice."""
    units = max(1, round(-log1p(-chance) / rate * UNITS_PER_LOSS))
    return Choice(rate, units / UNITS_PER_LOSS, schedule, draws)


def regret_bounds(
    setting: Setting, schedule: Schedule, rate: Array, p: Array, draws: Array
) -> Array:
    """Regret bounds for many parameters at once.

    A cap below the mean number of draws counts as reached, because it is never worth choosing.
    """
    exchanges, together = schedule.count(setting.rounds), rate * setting.clients
    with np.errstate(divide="ignore"):
        learning = entropy(setting) / together + together * schedule.squares(setting.rounds) / 8
    chance = 1 - (1 - p) * np.exp(-together * schedule.every)
    tail = bdtrc(
        np.minimum(draws, max(0, exchanges - 1)),
        max(1, exchanges),
        np.minimum(1.0, chance * (1 + 1e-13)),
    )
    tail = np.where(draws >= exchanges * chance, tail, 1.0)
    return learning + setting.rounds * np.where(draws < exchanges, tail, 0.0)


def entropy(setting: Setting) -> float:
    """ln d; at least ln 2."""
    return log(max(2, setting.experts))
