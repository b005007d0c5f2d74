"""The server of this family: it follows one expert in each run, and may watch the run by a test.

A *run* is the time in which one expert is followed. The next one is chosen from losses of the run
that ends: by the test, which asks about one other expert after the other, or as planned from all
losses of the run. So every loss vector enters the test of one run, and at most one choice. A `Plan`
says how long runs are and which of them are tested; it knows nothing but what was broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from math import log, pi
from typing import Any, ClassVar, Protocol

import numpy as np

from hedgerow.algorithms.shared.following import FollowerState
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.algorithms.sparse_vector.regret_test import RegretTest
from hedgerow.core.block import Block
from hedgerow.core.certificate import Channel
from hedgerow.core.lattice import Array, Units, from_units, sum_rows, to_units
from hedgerow.core.layout import Extended, UnitRows
from hedgerow.core.limits import LONGEST_BATCH, Allowed, Between
from hedgerow.core.measure import Measure
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import RunState, Trace
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Plays
from hedgerow.privacy.mechanisms import NoisyMax

CHANNELS = {
    "LossSums.losses": Channel.UPLOADS,
    "Watched.rounds": Channel.TIMING,
    "Watched.expert": Channel.BROADCASTS,
    "Watched.alarms": Channel.BROADCASTS,
    "Watched.window": Channel.BROADCASTS,
}
AHEAD = 256  # exchanges at once


@dataclass(frozen=True)
class Watched(Broadcast):
    """The expert to follow, the alarms so far, and the rounds in the window of the last alarm."""

    expert: int
    alarms: int
    window: int


@dataclass(frozen=True)
class Run:
    """What is public about the current run; `round` is that of the last exchange.

    Parameters
    ----------
    expert
        The expert that is followed.
    round
        The number of rounds before the last exchange.
    begun, length
        The rounds before the run, and how long it may become.
    step
        The rounds between two exchanges.
    tested
        Whether the run is watched by a test.
    doublings
        How often the threshold of the test is doubled; -1: it is halved.
    alarms, alarmed, window, left
        The alarms so far; the rounds before the last one, those in its window, and the expert that
        it left (-1: none, or it was chosen again).
    runs
        The number of runs so far, this one among them.
    """

    expert: int
    round: int
    begun: int
    length: int
    step: int
    tested: bool
    doublings: int
    alarms: int
    alarmed: int
    window: int
    left: int
    runs: int

    @property
    def wait(self) -> int:
        """The rounds until the next exchange."""
        return min(self.step, self.begun + self.length - self.round)


@dataclass(frozen=True)
class ServerState(Run):
    """The run, its noisy threshold, and its losses over all clients.

    The first row of `losses` holds those of the whole run. Row h + 1 holds those of the last
    finished part of 2^h steps. `proven` bounds the regret in the runs before, over all clients
    (`proofs/watched_selection.md#regret`).
    """

    noisy_threshold: Extended
    losses: UnitRows
    proven: float


class Plan(Protocol):
    """How long runs are, and how they are tested: functions of what is public.

    The first run has `opening` rounds and no test.
    """

    @property
    def opening(self) -> int: ...

    def following(self, run: Run, expert: int, window: int) -> Run:
        """The run after one that ends now, with this expert.

        `window` has the rounds of the alarm, 0 without one.
        """
        ...

    def threshold(self, run: Run) -> float:
        """The threshold of a tested run."""
        ...

    def allowance(self, now: int, rounds: int, doublings: int) -> float:
        """How much a window of the last rounds before round `now` may lose beyond the threshold."""
        ...


@dataclass(frozen=True)
class RunServer:
    """Chooses an expert at the end of every run.

    A run ends by an alarm, which names the expert and the window in which it was better, or as
    planned. Then `selection` chooses from all its losses, or `after_test` if it was tested.
    """

    state: ClassVar[type[Any]] = ServerState

    setting: Setting
    plan: Plan
    selection: NoisyMax
    test: RegretTest | None = None
    after_test: NoisyMax | None = None

    @property
    def broadcasts(self) -> dict[str, Allowed]:
        """What the server may send."""
        longest = self.setting.horizon or 2**62
        return {
            "rounds": Between(1, max(longest, LONGEST_BATCH)),
            "expert": Between(0, self.setting.experts - 1),
            "alarms": Between(0, longest, opening=0),
            "window": Between(0, longest, opening=0),
        }

    def first(self, expert: int) -> Run:
        """The first run."""
        length = self.plan.opening
        return Run(expert, 0, 0, length, min(length, LONGEST_BATCH), False, 0, 0, 0, 0, -1, 1)

    def open(self, noise: Noise) -> tuple[Watched, ServerState]:
        first = self.first(noise.index(self.setting.experts, "first expert"))
        zero = np.zeros((1, self.setting.experts), np.int64)
        return self._begun(first, self.kept(zero), 0.0, noise)

    def kept(self, losses: Units) -> Units:
        """What a run begins with, given the losses of the run before: nothing of them."""
        return np.zeros_like(losses[:1])

    def _begun(
        self, run: Run, losses: Units, proven: float, noise: Noise
    ) -> tuple[Watched, ServerState]:
        """The message and the state in which a run begins."""
        threshold = np.inf
        if run.tested:
            assert self.test is not None
            threshold = self.test.begin(self.plan.threshold(run), noise)
        state = ServerState(**vars(run), noisy_threshold=threshold, losses=losses, proven=proven)
        return message(state), state

    def aggregate(
        self, state: ServerState, uploads: LossSums, noise: Noise
    ) -> tuple[Watched, ServerState]:
        now = replace(state, round=state.round + state.wait)
        steps = -(-(now.round - now.begun) // now.step)
        losses, windows = watched(state.losses, uploads.losses, steps)
        now = replace(now, losses=losses)
        if now.tested:
            assert self.test is not None
            for rounds, expert, margin in self._questions(now, windows):
                if self.test.above(margin, now.noisy_threshold, noise):
                    return self._end(now, expert, rounds, noise)
        if now.round == now.begun + now.length:
            expert = noise.release(self.choice(now), from_units(losses[0]))
            return self._end(now, expert, 0, noise)
        return message(now), now

    def _questions(
        self, run: Run, windows: Iterable[tuple[int, Units]]
    ) -> Iterator[tuple[int, int, float]]:
        """All questions at an exchange: rounds, the other expert, and its lead less the allowance.

        They begin with the expert after the one that is followed, so that none is always first.
        """
        others = in_turn(np.arange(self.setting.experts), run.expert)
        for steps, lost in windows:
            rounds = steps * run.step
            margins = from_units(lost[run.expert] - lost[others])
            margins = margins - self.plan.allowance(run.round, rounds, run.doublings)
            for expert, margin in zip(others.tolist(), margins.tolist(), strict=True):
                yield rounds, expert, margin

    def _end(
        self, state: ServerState, expert: int, window: int, noise: Noise
    ) -> tuple[Watched, ServerState]:
        """End the run, by an alarm if there is a window, and begin the next one."""
        ended = Run(**{each.name: getattr(state, each.name) for each in fields(Run)})
        proven = state.proven + self.regret_of(state)
        return self._begun(
            self.after(ended, expert, window), self.kept(state.losses), proven, noise
        )

    def choice(self, run: Run) -> NoisyMax:
        """The mechanism that chooses at the end of this run."""
        return self.after_test if run.tested and self.after_test is not None else self.selection

    def after(self, run: Run, expert: int, window: int) -> Run:
        """The run that begins with this expert; `window` is 0 without an alarm."""
        if window:
            run = replace(run, alarms=run.alarms + 1, window=window)
        return replace(self.plan.following(run, expert, window), expert=expert)

    def regret_of(self, run: Run) -> float:
        """What is proven of the regret in the rounds of a run so far, over all clients.

        It holds in all runs together with probability 1 - 1 / 20.
        """
        rounds = run.round - run.begun
        most = float(self.setting.clients * rounds)
        if not run.tested or self.test is None:
            return most
        noise = self.test.threshold_scale * log(20 * pi**2 * run.runs**2 / 6)
        allowed = self.plan.allowance(run.round, max(rounds, run.step), run.doublings)
        found = self.plan.threshold(run) + noise + allowed
        return min(most, found + self.setting.clients * run.step)

    def log_likelihood(self, broadcasts: list[Watched], reports: Array) -> float:
        """Exact log-probability of a sequence of broadcasts on given losses."""
        run, result = self.first(broadcasts[0].expert), -log(self.setting.experts)
        lost = np.zeros((1, self.setting.experts), np.int64)
        queries: list[float] = []
        if message(run) != broadcasts[0]:
            return -np.inf
        for before, sent in pairwise(broadcasts):
            start, run = run.round, replace(run, round=run.round + (before.rounds or 0))
            new = to_units(reports[start : run.round].sum(axis=(0, 1)))
            lost, windows = watched(lost, new, -(-(run.round - run.begun) // run.step))
            alarm, named = sent.alarms > run.alarms, False
            for window, expert, margin in self._questions(run, windows) if run.tested else ():
                queries.append(margin)
                named = alarm and (window, expert) == (sent.window, sent.expert)
                if named:
                    break
            if alarm and not named:
                return -np.inf
            if alarm or run.round == run.begun + run.length:
                result += self._answers(run, queries, alarm)
                if not alarm:
                    scores = from_units(lost[0])
                    result += self.choice(run).log_probability(scores, sent.expert)
                run, queries = self.after(run, sent.expert, sent.window * alarm), []
                lost = self.kept(lost)
            if message(run) != sent:
                return -np.inf
        return float(result + self._answers(run, queries, False))

    def _answers(self, run: Run, queries: list[float], alarm: bool) -> float:
        if not run.tested or self.test is None:
            return 0.0
        return self.test.log_probability(queries, self.plan.threshold(run), alarm)

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """The fast path: the answers of many exchanges at once, as long as none is an alarm.

        `held` are the losses since the last exchange. Where there is an alarm, the next `slow`
        exchanges are made one by one.
        """
        noise, state = source.server(), run.server
        rounds, clients, experts = block.losses.shape
        at, exchanges, left, slow = 0, 0, run.remaining or 0, 0
        held = run.clients.losses.sum(axis=0)
        plays = np.empty(rounds, np.int64)
        while at < rounds:
            if left == 0 and slow == 0 and state.tested:
                step = state.step
                to_end = (state.begun + state.length - state.round) // step - 1
                count = min(AHEAD, (rounds - 1 - at) // step + 1, to_end)
                if count > 1:
                    losses = np.empty((count, experts))
                    losses[0] = from_units(held)
                    starts = clients * (at + step * np.arange(count - 1, dtype=np.int64))
                    rows = block.losses.reshape(-1, experts)
                    sum_rows(rows, starts, starts + clients * step, losses[1:])
                    slow, after = self._quiet(state, losses, noise)
                    if slow == 0:
                        plays[at : at + (count - 1) * step] = state.expert
                        at, exchanges = at + (count - 1) * step, exchanges + count
                        state, left, held = after, after.wait, 0 * held
            if left == 0:
                sent, state = self.aggregate(state, LossSums(held), noise)
                left, held = sent.rounds or 0, 0 * held
                exchanges, slow = exchanges + 1, max(0, slow - 1)
            length = min(left, rounds - at)
            plays[at : at + length] = state.expert
            held = held + to_units(block.losses[at : at + length].sum(axis=(0, 1)))
            at, left = at + length, left - length
        if exchanges == 0:
            own = run.clients.losses + block.own_totals
        else:
            own = to_units(block.losses[rounds - state.wait + left :].sum(axis=0))
        clients_then = FollowerState(np.full(clients, state.expert), own)
        played = np.broadcast_to(plays[:, None], (rounds, clients))
        return RunState(run.round + rounds, clients_then, None, state, left), Trace(
            played, exchanges
        )

    def _quiet(self, state: ServerState, losses: Array, noise: Noise) -> tuple[int, ServerState]:
        """Make many exchanges of a tested run if no answer is "above".

        `losses` are those of consecutive steps. Returns 0 and the state after them, or the number
        of the exchange with an alarm; then nothing has been done, and no noise is used up.
        """
        assert self.test is not None
        done = (state.round - state.begun) // state.step
        after, at, lengths, lost = many_watched(state.losses, losses, done)
        step, experts = state.step, losses.shape[1]
        allowed = [
            self.plan.allowance(state.begun + now * step, length * step, state.doublings)
            for now, length in zip(at.tolist(), lengths.tolist(), strict=True)
        ]
        least = lost[:, state.expert] - allowed
        margins = (least[:, None] - in_turn(lost, state.expert)).ravel()
        law, purpose = self.test.law, self.test.comparison.purpose
        drawn = noise.ahead(law, purpose, len(margins), self.test.query_scale)
        first = self.test.first_above(margins, state.noisy_threshold, drawn)
        if first is not None:
            return int(at[first // (experts - 1)]) - done, state
        self.test.draw_queries(len(margins), noise)
        return 0, replace(state, round=state.round + len(losses) * step, losses=after)


def in_turn(values: np.ndarray, expert: int) -> np.ndarray:
    """The values of the other experts, from the next one on.

    >>> in_turn(np.arange(5), 2)
    array([3, 4, 0, 1])
    """
    return np.concatenate([values[..., expert + 1 :], values[..., :expert]], axis=-1)


def message(run: Run) -> Watched:
    """What is broadcast at the last exchange of a run."""
    return Watched(run.wait, run.expert, run.alarms, run.window)


def watched(losses: Units, new: Units, steps: int) -> tuple[Units, Iterator[tuple[int, Units]]]:
    """Add the losses of a step, the last of `steps`, and return all windows that end now.

    A window has 1, 2, 4, ... steps or is the whole run. One of 2^k steps is looked at twice in each
    of its lengths. Windows are given as (steps, losses), the shortest first.

    >>> rows = np.zeros((1, 1), int)
    >>> for step in range(1, 8):
    ...     rows, windows = watched(rows, np.array([2**step]), step)
    >>> [(length, int(lost[0])) for length, lost in windows]
    [(1, 128), (2, 192), (7, 254)]
    """
    rows, windows, part, level = [losses[0] + new, *losses[1:]], list[tuple[int, Units]](), new, 0
    if steps > 1:
        windows.append((1, new))
    while steps % 2**level == 0 and len(rows) > level + 1:
        earlier, rows[level + 1] = rows[level + 1], part
        part, level = part + earlier, level + 1
        if 2**level < steps:
            windows.append((2**level, part))
    if steps == 2**level:
        rows.append(part)
    windows.append((steps, rows[0]))
    return np.array(rows), iter(windows)


def many_watched(
    rows: Units, losses: Array, done: int
) -> tuple[Units, np.ndarray, np.ndarray, Array]:
    """Do the same for many steps of a run after `done` steps.

    It returns the rows after them, and for every window in the order of the questions the step at
    whose end it is looked at, its length and its losses.
    """
    whole = from_units(rows[0]) + np.cumsum(losses, axis=0)
    kept, found = [whole[-1]], list[tuple[np.ndarray, int, Array]]()
    at, part, level = done + 1 + np.arange(len(losses)), losses, 0
    found.append((at, 1, part))
    while len(part):
        if level + 1 < len(rows):
            earlier = np.concatenate([from_units(rows[level + 1 : level + 2]), part[:-1]])
            window = part + earlier
        else:
            window, at = part[1:] + part[:-1], at[1:]
        kept.append(part[-1])
        level += 1
        found.append((at, 2**level, window))
        aligned = at % 2**level == 0
        part, at = window[aligned], at[aligned]
    kept += list(from_units(rows[len(kept) :]))
    steps = done + 1 + np.arange(len(losses))
    ends = [each[each > length] for each, length, _ in found]
    lost = [part[each > length] for each, length, part in found]
    lengths = [np.full(len(each), length) for each, (_, length, _) in zip(ends, found, strict=True)]
    all_at = np.concatenate([*ends, steps])
    order = np.argsort(all_at, kind="stable")  # the shortest windows first, the whole run last
    return (
        to_units(np.array(kept)),
        all_at[order],
        np.concatenate([*lengths, steps])[order],
        np.concatenate([*lost, whole])[order],
    )


class ProvenRegret(Measure):
    """What is proven of the regret per client once the losses are known.

    With probability 0.95 no sequence of experts that changes only between runs is better by more
    (`proofs/watched_selection.md#regret`).
    """

    name: ClassVar[str] = "proven for this run"
    meaning: ClassVar[str] = (
        "what the regret is at most, with probability 0.95 and for any losses without delays"
    )

    def __init__(self, server: RunServer) -> None:
        super().__init__()
        self.server, self.before, self.played = server, 0.0, 0
        self.now: Sequence[ServerState] = ()

    def servers(self, servers: Sequence[ServerState]) -> None:
        self.now = servers

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        self.played += block.rounds
        found, proven = np.zeros(block.rounds), 0.0
        for state in self.now:
            run = replace(state, round=self.played)
            proven += (state.proven + self.server.regret_of(run)) / self.server.setting.clients
        proven /= len(self.now)
        found[-1], self.before = proven - self.before, proven
        return found
