"""What lazy servers share (shrinking dartboard, lazy experts): a coin at every exchange says whether the expert stays.

If it does not, an expert is drawn with weights exp(-rate * total loss). A companion, where there is one, is drawn anew now and
then, by coins that see no data. `advance` plays many exchanges at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.dartboard.cost import cost_of
from hedgerow.algorithms.shared.following import ClientState
from hedgerow.core.block import CACHE_ELEMENTS, Block
from hedgerow.core.lattice import Array, Units, from_units, to_units
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import RunState, Trace
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.mechanisms import Coin, ExponentialMechanism

SURE = 1 - 1e-12  # more than the errors of an exponential


@dataclass(frozen=True)
class ServerState:
    """Total losses of all clients, the current expert, how often it was drawn."""

    totals: Units
    expert: int
    switches: int


@dataclass(frozen=True)
class LazyServer:
    """One coin at every exchange, one draw whenever it does not show "stay"; at most `draws` of them, if there is a cap."""

    OPENING_DRAWS: ClassVar[int] = 1

    experts: int
    every: int
    draws: int | None
    coin: Coin
    selection: ExponentialMechanism

    def cost(self, setting: Setting) -> CoinThenDraws:
        """What this server costs, from the mechanisms it plays."""
        return cost_of(setting, self.every, self.draws, self.coin, self.selection)

    def over(self, draws: int) -> bool:
        return self.draws is not None and draws >= self.draws

    def used(self, now: Any) -> int:
        """The draws that a state, or a broadcast, counts."""
        return now.switches

    def seen(self, now: Any, lost: Callable[[int], Any]) -> Any:
        """What the coin sees, from each expert's losses in a group."""
        return lost(now.expert)

    def switched(self, state: Any, scores: Array, noise: Noise) -> Any:
        return replace(state, expert=noise.release(self.selection, scores), switches=state.switches + 1)

    def stays(self, state: ServerState, lost: Units, noise: Noise) -> bool:
        return noise.release(self.coin, float(from_units(int(self.seen(state, lost.__getitem__)))))

    def renewals(self, exchanges: int, noise: Noise) -> list[int]:
        """At which of the next exchanges the companion is to be drawn anew."""
        del exchanges, noise
        return []

    def renewed(self, state: Any, scores: Array, noise: Noise) -> Any:
        raise NotImplementedError

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """Many exchanges at once: only coins that could show "leave" look at losses, and every loss is added once for the draws.

        `due` are the rounds of the block before which there is an exchange; `scores` are the total losses in the rounds before
        `summed`.
        """
        noise, losses = source.server(), block.losses
        rounds, state = len(losses), run.server
        due = np.arange(0) if run.remaining is None else np.arange(run.remaining, rounds, self.every)
        if len(due) == 0:
            left = None if run.remaining is None else run.remaining - rounds
            return _after(run, state, run.clients.losses + block.own_totals, left, np.full(rounds, state.expert), 0)
        head = run.clients.losses.sum(axis=0) + block.totals_before(int(due[0]))
        anchors, scores = _Anchors.of(block, state.totals + run.clients.losses.sum(axis=0)), from_units(state.totals + head)
        coins, renewals = _Coins.of(self, losses, due, head, noise), [*self.renewals(len(due), noise), len(due)]
        summed, done, changed, followed = int(due[0]), 0, [0], [state.expert]
        while done < len(due) and not self.over(self.used(state)):
            renewal = renewals[bisect_left(renewals, done)]
            found = coins.first_leaving(state, done, renewal + 1)
            turn = renewal if found is None else found
            done = min(turn + 1, len(due))
            if turn == len(due):
                break
            at = int(due[turn])
            summed, scores = at, anchors.totals(losses, at, summed, scores)
            if found is not None:
                state = self.switched(state, scores, noise)
                changed.append(at)
                followed.append(state.expert)
            if turn == renewal and not self.over(self.used(state)):
                state = self.renewed(state, scores, noise)
        last = int(due[done - 1])
        state = replace(state, totals=to_units(anchors.totals(losses, last, summed, scores)))
        left = None if self.over(self.used(state)) else self.every - (rounds - last)
        plays = np.repeat(followed, np.diff([*changed, rounds]))
        return _after(run, state, to_units(losses[last:].sum(axis=0)), left, plays, done)

    def log_likelihood(self, broadcasts: list[Any], reports: Array) -> float:
        """Exact log-probability of the broadcasts: a coin for each exchange, a draw where the number of draws went up."""
        now, result = broadcasts[0], -self.OPENING_DRAWS * log(self.experts)
        for sent, (lost, chances) in zip(broadcasts[1:], steps(self, reports.shape, reports.tobytes()), strict=False):
            if self.over(self.used(now)):
                return -np.inf
            result += self.coin.log_probability(self.seen(now, lost.__getitem__), sent.switches == now.switches)
            result += log_drawn(chances, now.expert, sent.expert, sent.switches - now.switches)
            result += self.log_renewal(now, sent, chances)
            now = sent
        return float(result)

    def log_renewal(self, now: Any, sent: Any, chances: list[float]) -> float:
        """The companion's part of one exchange."""
        del now, sent, chances
        return 0.0

    def grouped(self, lost: Array) -> Array:
        """Losses (rounds, experts) by group."""
        return np.stack([lost[first : first + self.every].sum(axis=0) for first in range(0, len(lost), self.every)])


@lru_cache(maxsize=4)
def steps(server: LazyServer, shape: tuple[int, ...], reports: bytes) -> list[tuple[list[float], list[float]]]:
    """For the exchange after each group: the losses of every expert in it, and ln of the chance that it is drawn."""
    lost = from_units(to_units(np.frombuffer(reports).reshape(shape).sum(axis=1)))
    groups = server.grouped(lost)
    chances = np.log(server.selection.probabilities(np.cumsum(groups, axis=0)))
    return list(zip(groups.tolist(), chances.tolist(), strict=True))


def log_drawn(chances: list[float], before: int, after: int, draws: int) -> float:
    """ln of the chance that one expert follows another by no draw or by one; no exchange makes more."""
    if draws == 0:
        return 0.0 if before == after else -np.inf
    return chances[after] if draws == 1 else -np.inf


def _after(run: RunState, state: ServerState, losses: Units, left: int | None, plays: np.ndarray, done: int) -> tuple[RunState, Trace]:
    clients = len(losses)
    kept = ClientState(np.full(clients, state.expert), losses)
    after = RunState(run.round + len(plays), kept, None, state, left)
    return after, Trace(np.broadcast_to(plays[:, None], (len(plays), clients)), done)


@dataclass(frozen=True)
class _Coins:
    """Those coins of a block's exchanges that some losses would turn to "leave": their exchanges, their uniform numbers, and the
    losses (coin, expert) of the groups before them.
    """

    server: LazyServer
    exchanges: list[int]
    uniform: Array
    lost: Array

    @classmethod
    def of(cls, server: LazyServer, losses: Array, due: np.ndarray, head: Units, noise: Noise) -> _Coins:
        """`head` is what was lost before the first exchange since the last one."""
        _, clients, experts = losses.shape
        uniform = server.coin.draw_uniform(len(due), noise)
        surely = server.coin.probability(clients * server.every) * SURE  # all losses are 1
        exchanges = np.flatnonzero(uniform >= surely)
        groups = losses[due[0] : due[-1]].reshape(-1, server.every * clients, experts)
        first = int(len(exchanges) > 0 and exchanges[0] == 0)
        lost = np.concatenate([from_units(head)[None][:first], _sums(groups, exchanges[first:] - 1)])
        return cls(server, exchanges.tolist(), uniform[exchanges], lost)

    def first_leaving(self, state: ServerState, start: int, stop: int) -> int | None:
        """The first exchange from `start` on, before `stop`, whose coin does not show "stay"."""
        for i in range(bisect_left(self.exchanges, start), bisect_left(self.exchanges, stop)):
            if self.server.coin.hidden(self.server.seen(state, self.lost[i].item), self.uniform[i]):
                return self.exchanges[i]
        return None


def _sums(groups: Array, chosen: np.ndarray) -> Array:
    """The sums over the middle axis of some groups, a few of them at a time, always in the same place in the cache."""
    found, step = np.empty((len(chosen), groups.shape[2])), max(1, CACHE_ELEMENTS // max(1, groups[:1].size))
    some = np.empty((min(step, len(chosen)), *groups.shape[1:]))
    for at in range(0, len(chosen), step):
        part = some[: len(chosen) - at]
        np.take(groups, chosen[at : at + step], axis=0, out=part, mode="clip")  # any mode but this one copies once more
        np.add.reduce(part, axis=1, out=found[at : at + step])
    return found


@dataclass(frozen=True)
class _Anchors:
    """Rounds of a block before which the total losses are known: `scores[i]` before round `at[i]`."""

    at: tuple[int, ...]
    scores: Array

    @classmethod
    def of(cls, block: Block, before: Units) -> _Anchors:
        """From the sums that were made when the block was checked, on top of what was lost before it."""
        assert block.segments is not None
        pieces = np.cumsum(block.segments.sum(axis=1), axis=0)
        return cls((0, *map(int, block.cuts)), from_units(before + np.vstack([np.zeros_like(before), pieces])))

    def totals(self, losses: Array, at: int, summed: int, scores: Array) -> Array:
        """The total losses before round `at`, from the nearest round for which they are known; for `summed` they are `scores`."""
        right = bisect_left(self.at, at)
        for known in (right - 1, right):
            if known >= 0 and abs(at - self.at[known]) < abs(at - summed):
                summed, scores = self.at[known], self.scores[known]
        between = np.add.reduce(losses[min(at, summed) : max(at, summed)].reshape(-1, losses.shape[-1]))
        return scores + between if at > summed else scores - between
