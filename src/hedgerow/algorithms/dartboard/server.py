"""The server of the shrinking dartboard: at every exchange a coin decides if the expert stays.

If it does not stay, a new expert is drawn with weights exp(-rate * total loss). `advance` plays
many exchanges at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.dartboard.cost import cost_of
from hedgerow.algorithms.shared.following import CurrentExpert, FollowerState
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.block import CACHE_ELEMENTS, Block
from hedgerow.core.lattice import Array, Units, from_units, sum_rows, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import RunState, Trace
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.mechanisms import Coin, ExponentialMechanism

SURE = 1 - 1e-12  # leaves room for the rounding error of an exponential


@dataclass(frozen=True)
class DartboardState:
    """Total losses of all clients, the current expert, and the draws and exchanges so far."""

    totals: UnitVector
    expert: int
    switches: int
    exchanges: int


@dataclass(frozen=True)
class DartboardServer:
    """One coin per exchange, and one draw whenever the coin does not show "stay".

    There are at most `draws` draws. None: no limit.
    """

    state: ClassVar[type[Any]] = DartboardState

    experts: int
    schedule: Schedule
    draws: int | None
    coin: Coin
    selection: ExponentialMechanism

    def cost(self, setting: Setting) -> CoinThenDraws:
        """The privacy cost of this server, from the mechanisms it uses."""
        return cost_of(setting, self.schedule, self.draws, self.coin, self.selection)

    def over(self, draws: int) -> bool:
        """Whether the limit on draws is reached."""
        return self.draws is not None and draws >= self.draws

    def switches_left(self, state: DartboardState) -> int | None:
        """The draws that are still allowed; None: no limit."""
        return None if self.draws is None else self.draws - state.switches

    def open(self, noise: Noise) -> tuple[CurrentExpert, DartboardState]:
        first = noise.index(self.experts, "first expert")
        state = DartboardState(np.zeros(self.experts, np.int64), first, 0, 0)
        return self.message(state), state

    def message(self, state: DartboardState) -> CurrentExpert:
        wait = None if self.over(state.switches) else self.schedule.wait(state.exchanges)
        return CurrentExpert(wait, state.expert, state.switches)

    def aggregate(
        self, state: DartboardState, uploads: LossSums, noise: Noise
    ) -> tuple[CurrentExpert, DartboardState]:
        state = replace(state, totals=state.totals + uploads.losses, exchanges=state.exchanges + 1)
        if not noise.release(self.coin, float(from_units(int(uploads.losses[state.expert])))):
            state = self.switched(state, from_units(state.totals), noise)
        return self.message(state), state

    def switched(self, state: DartboardState, scores: Array, noise: Noise) -> DartboardState:
        """The state after a draw from these scores."""
        return replace(
            state, expert=noise.release(self.selection, scores), switches=state.switches + 1
        )

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """Plays many exchanges at once.

        Only the coins that could show "leave" look at losses. `due` are the rounds of the block
        before which there is an exchange.
        """
        noise, losses = source.server(), block.losses
        rounds, state = len(losses), run.server
        due = self.schedule.due(run.round, run.remaining, rounds)
        if len(due) == 0:
            left = None if run.remaining is None else run.remaining - rounds
            return after_rounds(
                run,
                state,
                run.clients.losses + block.own_totals,
                left,
                np.full(rounds, state.expert),
                0,
            )
        head = run.clients.losses.sum(axis=0) + block.totals_before(int(due[0]))
        anchors = _Anchors.of(block, state.totals + run.clients.losses.sum(axis=0))
        coins = _Coins.of(self, losses, due, head, noise)
        times = due[coins.exchanges]
        draws = _Draws(self, coins, anchors, times, noise)
        expert, switches = state.expert, state.switches
        done, left_at, followed = len(due), [], [expert]
        for coin, exchange in enumerate(coins.exchanges.tolist()):
            if coins.stays(coin, expert):
                continue
            expert = draws.next(coin, switches)
            switches += 1
            left_at.append(coin)
            followed.append(expert)
            if switches == self.draws:
                done = exchange + 1
                break
        last, exchanges = int(due[done - 1]), state.exchanges + done
        totals = to_units(anchors.totals(due[done - 1 : done])[0])
        state = DartboardState(totals, expert, switches, exchanges)
        left = None if self.over(switches) else self.schedule.wait(exchanges) - (rounds - last)
        lengths = np.diff(times[left_at], prepend=0, append=rounds)
        plays = np.repeat(followed, lengths)
        return after_rounds(run, state, to_units(losses[last:].sum(axis=0)), left, plays, done)

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        """Exact log-probability of the broadcasts.

        It has one coin per exchange, and one draw where the number of draws went up.
        """
        now, result = broadcasts[0], -log(self.experts)
        for sent, (lost, chances) in zip(
            broadcasts[1:], _steps(self, reports.shape, reports.tobytes()), strict=False
        ):
            draws = sent.switches - now.switches
            if (
                self.over(now.switches)
                or draws not in (0, 1)
                or (draws == 0 and sent.expert != now.expert)
            ):
                return -np.inf
            result += self.coin.log_probability(lost[now.expert], draws == 0)
            result += chances[sent.expert] if draws else 0.0
            now = sent
        return float(result)

    def grouped(self, lost: Array) -> Array:
        """Sums the losses (rounds, experts) over the rounds of each group."""
        starts = [0, *self.schedule.between(1, len(lost))]
        return np.add.reduceat(lost, starts, axis=0)


@lru_cache(maxsize=4)
def _steps(
    server: DartboardServer, shape: tuple[int, ...], reports: bytes
) -> list[tuple[list[float], list[float]]]:
    """For each group: the losses of every expert, and the log-probability that it is drawn next."""
    lost = from_units(to_units(np.frombuffer(reports).reshape(shape).sum(axis=1)))
    groups = server.grouped(lost)
    chances = np.log(server.selection.probabilities(np.cumsum(groups, axis=0)))
    return list(zip(groups.tolist(), chances.tolist(), strict=True))


def after_rounds(
    run: RunState,
    state: DartboardState,
    losses: Units,
    left: int | None,
    plays: np.ndarray,
    done: int,
) -> tuple[RunState, Trace]:
    clients = len(losses)
    kept = FollowerState(np.full(clients, state.expert), losses)
    after = RunState(run.round + len(plays), kept, None, state, left)
    return after, Trace(np.broadcast_to(plays[:, None], (len(plays), clients)), done)


@dataclass(frozen=True)
class _Coins:
    """The coins of a block that show "leave" for some losses: the exchange of each of them.

    `sure[i]` are the coins from i on that show "leave" whatever the losses are. `rows[i]` is -1 for
    such a coin, else its row in `leaves` (coin, expert), which says for which experts it does.
    """

    exchanges: np.ndarray
    sure: list[int]
    rows: list[int]
    leaves: np.ndarray

    @classmethod
    def of(
        cls, server: DartboardServer, losses: Array, due: np.ndarray, head: Units, noise: Noise
    ) -> _Coins:
        """`head` are the losses since the last exchange before the block, up to the first in it."""
        clients, coin = losses.shape[1], server.coin
        uniform = coin.draw_uniform(len(due), noise)
        at_all_ones, at_zero = (
            coin.probability(loss) for loss in (clients * server.schedule.every, 0.0)
        )
        exchanges = np.flatnonzero(uniform >= at_all_ones * SURE)
        sure = uniform[exchanges] * SURE >= at_zero
        unsure = exchanges[~sure]
        early, equal = server.schedule.split(losses, due)
        first = int(len(unsure) > 0 and unsure[0] == 0)
        later = unsure[first:] - 1  # the batch before the exchange
        short = later[later < len(early)]
        lost = np.concatenate(
            [
                from_units(head)[None][:first],
                *(early[batch].sum(axis=0, keepdims=True) for batch in short),
                _sums(equal, later[len(short) :] - len(early)),
            ]
        )
        return cls(
            exchanges,
            [*np.cumsum(sure[::-1])[::-1].tolist(), 0],
            np.where(sure, -1, np.cumsum(~sure) - 1).tolist(),
            coin.hidden(lost, uniform[unsure][:, None]),
        )

    def stays(self, coin: int, expert: int) -> bool:
        """Whether the coin shows "stay" for this expert."""
        row = self.rows[coin]
        return row >= 0 and not self.leaves.item(row, expert)


class _Draws:
    """The draws of a block. Noise, never too much, and penalties are prepared in large pieces.

    `times` are the rounds of the coins.
    """

    def __init__(
        self,
        server: DartboardServer,
        coins: _Coins,
        anchors: _Anchors,
        times: np.ndarray,
        noise: Noise,
    ) -> None:
        self.server, self.coins, self.anchors = server, coins, anchors
        self.times, self.noise = times, noise
        self.noisy = np.empty(server.experts)
        self.rows, self.used = np.empty((0, server.experts)), 0
        self.penalties, self.first = np.empty((0, server.experts)), 0

    def next(self, coin: int, switches: int) -> int:
        """Return the expert that is drawn after a coin, after `switches` draws."""
        if self.used == len(self.rows):
            self.rows, self.used = self._noise(coin, switches), 0
        if coin - self.first >= len(self.penalties):
            self.penalties, self.first = self._penalties(coin, switches), coin
        drawn, penalties = self.rows[self.used], self.penalties[coin - self.first]
        self.used += 1
        return int(np.subtract(drawn, penalties, out=self.noisy).argmax())

    def _noise(self, coin: int, switches: int) -> Array:
        """The coins that are sure to show "leave" need theirs too, up to the limit on draws."""
        server = self.server
        count = min(1 + self.coins.sure[coin + 1], max(1, 4 * CACHE_ELEMENTS // server.experts))
        count = count if server.draws is None else min(count, server.draws - switches)
        return server.selection.draw_noise(count, server.experts, self.noise)

    def _penalties(self, coin: int, switches: int) -> Array:
        """The penalties at this coin and at later ones, whatever they show; not too many."""
        server = self.server
        count = max(1, CACHE_ELEMENTS // server.experts)
        count = count if server.draws is None else min(count, server.draws - switches)
        return server.selection.penalties(self.anchors.totals(self.times[coin : coin + count]))


def _sums(groups: Array, chosen: np.ndarray) -> Array:
    """Sums the chosen groups over the middle axis, a few at a time, in one small buffer.

    The buffer stays in the processor's cache.
    """
    found, step = (
        np.empty((len(chosen), groups.shape[2])),
        max(1, CACHE_ELEMENTS // max(1, groups[:1].size)),
    )
    some = np.empty((min(step, len(chosen)), *groups.shape[1:]))
    for at in range(0, len(chosen), step):
        part = some[: len(chosen) - at]
        # Every mode except "clip" makes one more copy.
        np.take(groups, chosen[at : at + step], axis=0, out=part, mode="clip")
        np.add.reduce(part, axis=1, out=found[at : at + step])
    return found


@dataclass(frozen=True)
class _Anchors:
    """Rounds of a block for which the total losses are known: `scores[i]` before round `at[i]`.

    `rows` are all loss vectors, one after the other.
    """

    at: np.ndarray
    scores: Array
    rows: Array
    clients: int

    @classmethod
    def of(cls, block: Block, before: Units) -> _Anchors:
        """Uses the sums computed when the block was checked, plus the losses before the block."""
        assert block.grains is not None
        assert block.grain_ends is not None
        _, clients, experts = block.losses.shape
        scores, ends = np.empty((len(block.grains) + 1, experts)), np.arange(len(block.grains) + 1)
        scores[0], ends = from_units(before), ends * clients
        grains = block.grains.reshape(-1, experts)
        sum_rows(grains, ends[:-1], ends[1:], scores[1:], first=scores[0])
        at, rows = np.append(0, block.grain_ends), block.losses.reshape(-1, experts)
        return cls(at, scores, rows, clients)

    def totals(self, times: np.ndarray) -> Array:
        """The total losses before each of these rounds, from the nearest anchors."""
        anchors = np.searchsorted((self.at[1:] + self.at[:-1]) / 2, times)
        known, found = self.at[anchors], np.empty((len(times), self.scores.shape[1]))
        starts, stops = np.minimum(known, times), np.maximum(known, times)
        sum_rows(self.rows, starts * self.clients, stops * self.clients, found)
        found *= np.where(known < times, 1.0, -1.0)[:, None]
        found += self.scores[anchors]
        return found
