"""Hedge (exponential weights): experts with smaller losses are played more often. Not private."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import (
    Adder,
    AdderState,
    LossSums,
    ManySums,
    Summing,
    Totals,
    check_interval,
    raw_certificate,
    totals_of_losses,
)
from hedgerow.core.certificate import Proof
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import Array, from_units, sum_rows
from hedgerow.core.limits import Broadcasts, Uploads
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Context, Shortcuts, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, positive

ZERO = 746  # exp(-746) and less are exactly 0 in floats


@dataclass(frozen=True)
class Weighing(Adder):
    """A client that draws its own expert by inversion, with one uniform number per round.

    Weights fall exponentially with the losses.
    """

    @abstractmethod
    def pace(self, state: Any) -> Any:
        """The rate for losses summed over all clients, one number or one row for each client."""

    def play(
        self, state: AdderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        coins = noise.draw("uniform", "play")
        return self.choose(state, coins) if context.awake is None else self._choose_awake(
            state, coins, context.awake
        ), state

    def play_many(
        self, state: AdderState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        return self.choose(state, noise.draw("uniform", "play", rounds=rounds)), state

    def choose(self, state: AdderState, coins: Array) -> np.ndarray:
        """Return one expert for each coin."""
        above = from_units(state.totals - state.totals.min(axis=-1, keepdims=True))
        mass = np.cumsum(np.exp(-self.pace(state) * above), axis=-1)
        return (mass <= coins[..., None] * mass[..., -1:]).sum(axis=-1).clip(max=self.experts - 1)

    def weighed(
        self, totals: Array, spans: np.ndarray, noise: Noise, rates: float | Array
    ) -> np.ndarray:
        """The plays of `follow`, with a rate for all rows of totals or for each."""
        rows = np.repeat(np.arange(len(spans)), spans)
        coins = noise.draw("uniform", "play", rounds=len(rows))
        totals -= totals.min(axis=-1, keepdims=True)
        weighty = totals.min(axis=0) * np.min(rates) < ZERO  # the others add exactly 0
        experts = np.append(np.flatnonzero(weighty), self.experts - 1)
        mass = _mass(totals if weighty.all() else totals[:, weighty], rates)
        return experts[count_at_most(mass, rows, coins * mass[-1][rows, None])]

    def _choose_awake(self, state: AdderState, coins: Array, awake: np.ndarray) -> np.ndarray:
        """The same weights, restricted to the awake experts."""
        totals = np.where(awake, state.totals, np.iinfo(np.int64).max)
        losses = from_units(totals - totals.min(axis=-1, keepdims=True))
        mass = np.cumsum(np.where(awake, np.exp(-self.pace(state) * losses), 0.0), axis=-1)
        last = self.experts - 1 - np.argmax(awake[..., ::-1], axis=-1)
        return np.minimum((mass <= coins[..., None] * mass[..., -1:]).sum(axis=-1), last)


@dataclass(frozen=True)
class Sampler(Weighing):
    """A client whose rate is fixed."""

    rate: float

    def pace(self, state: Any) -> float:
        return self.rate

    def follow(self, totals: Array, spans: np.ndarray, noise: Noise) -> np.ndarray:
        return self.weighed(totals, spans, noise, self.rate)


def _mass(above: Array, rates: float | Array) -> Array:
    """The weights (experts, rows) of rows of totals, added up from the first expert on."""
    weights = np.multiply(above.T, -rates, order="C")
    np.exp(weights, out=weights)
    mass, each = np.empty(weights.shape), np.arange(len(weights))
    sum_rows(weights, each, each + 1, mass, first=np.zeros(len(above)))
    return mass


def count_at_most(rising: Array, columns: np.ndarray, limits: Array) -> np.ndarray:
    """Count, for every limit (i, j), the entries of column `columns[i]` that are at most the limit.

    Columns never fall, so halving finds all counts together.

    >>> rising = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])
    >>> count_at_most(rising, np.array([0, 1]), np.full((2, 1), 2.0))
    array([[2],
           [3]])
    """
    left, width = rising.shape
    found = np.repeat(columns[:, None], limits.shape[1], axis=1)  # the place of the next entry
    at, entry, small = np.empty_like(found), np.empty(limits.shape), np.empty(limits.shape, bool)
    while left > 0:
        half = (left + 1) // 2
        np.add(found, (half - 1) * width, out=at)
        rising.take(at, out=entry, mode="clip")  # every other mode makes a copy
        np.less_equal(entry, limits, out=small)
        np.multiply(small, half * width, out=at)
        found += at
        left -= half
    return np.floor_divide(found, width, out=found)


@dataclass(frozen=True)
class Hedge(AlgorithmSpec):
    r"""Play experts at random with exponential weights. Not private.

    $p_t(x) \propto \exp(-\eta S_t(x) / m)$, where $S_t(x)$ is the loss of expert $x$, summed over
    all $m$ clients up to the last exchange. Nothing is protected: clients and server exchange exact
    losses.

    With the default rate the expected regret over T rounds is at most sqrt(N T ln(d) / 2) where N
    divides T, and less with early exchanges, even if losses react to the plays
    (`proofs/hedge.md#regret`). With sleeping experts the bound holds against each expert over the
    rounds in which it is awake (`proofs/masks.md#sleeping-experts`). It does not cover delayed
    reports.

    Parameters
    ----------
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon.
    rate
        The learning rate eta, > 0. None (default): the rate with the smallest regret bound.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. Default:
        True; without them nothing is known in the first `every` rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> algorithm = hr.Hedge().build(hr.Setting(clients=10, experts=100, horizon=512))
    >>> round(algorithm.regret_at_most, 1), algorithm.claims.regret_bound.covers
    (34.3, 'adaptive')
    """

    traits: ClassVar[SpecTraits] = SpecTraits(meanings={"rate": "learning rate", **MEANINGS})

    every: int = 1
    rate: float | None = None
    early: bool = True

    def __post_init__(self) -> None:
        at_least("every", self.every, 1)
        if self.rate is not None:
            positive("rate", self.rate)

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        schedule = Schedule.of(self.every, self.early)
        squares = schedule.squares(setting.rounds)
        entropy = log(max(setting.experts, 2))
        rate = sqrt(8 * entropy / squares) if self.rate is None else self.rate
        client = Sampler(setting.experts, rate / setting.clients)
        server = Summing(setting.experts, schedule)
        return Algorithm(
            name="hedge",
            setting=setting,
            client=client,
            server=server,
            certificate=raw_certificate(),
            uploads=Uploads(LossSums),
            broadcasts=Broadcasts(Totals, totals_of_losses(schedule, setting.experts)),
            supports=MASKS_AND_DELAYS,
            shortcuts=Shortcuts(ManySums(client, server, client.follow).advance),
            claims=Claims(
                regret_bound=RegretBound(
                    entropy / rate + rate * squares / 8,
                    "adaptive",
                    Proof("hedge.md", "regret"),
                )
            ),
            parameters={"rate": rate, **schedule.shown(setting)},
        )
