"""The sparse-vector server: keep an expert until a noisy test finds its loss too high.

At every exchange the server tests q + noise > L + noise, where q is the total loss of the current
expert since it was drawn and L is the threshold. If the test is positive, it draws a new expert. A
*run* is the time between two draws. The other servers of this family build on this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.shared.following import CurrentExpert, FollowerState
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.block import Block
from hedgerow.core.lattice import Array, Units, from_units, to_units
from hedgerow.core.layout import Extended, UnitVector
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import RunState, Trace
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism, NoisyMax

SHORT_RUN = 256  # exchanges


@dataclass(frozen=True)
class SelectorState:
    """What the server remembers between exchanges.

    `totals` are the losses of all clients so far, `expert` is the expert of the current run, `base`
    is its total loss when the run began, `switches` counts the draws so far and `exchanges` the
    exchanges.
    """

    totals: UnitVector
    expert: int
    base: int
    noisy_threshold: Extended
    switches: int
    exchanges: int


@dataclass(frozen=True)
class Selector:
    """The server: one sparse-vector query per exchange, one selection after each "above".

    It is the server of the printed algorithm: all losses since the start count alike in every
    selection, and it stops after the last draw. Other servers of the family replace `test`,
    `limit`, `spent`, `scores` and `next_run`.
    """

    state: ClassVar[type[Any]] = SelectorState

    experts: int
    schedule: Schedule
    switches: int
    threshold: float
    floor: float
    sparse: AboveThreshold
    selection: ExponentialMechanism | NoisyMax

    def open(self, noise: Noise) -> tuple[CurrentExpert, Any]:
        state = self.beginning(noise.index(self.experts, "first expert"))
        state = replace(state, noisy_threshold=self.begin(0, noise))
        return self.message(state), state

    def beginning(self, expert: int) -> SelectorState:
        """The state before the first round, without a threshold."""
        return SelectorState(np.zeros(self.experts, np.int64), expert, 0, np.inf, 0, 0)

    def spent(self, state: SelectorState) -> bool:
        """Whether no further expert may be drawn."""
        return state.switches >= self.switches

    def switches_left(self, state: SelectorState) -> int | None:
        """The draws that are still allowed."""
        return self.switches - state.switches

    def tested(self, switches: int) -> bool:
        """Whether the run that begins after `switches` draws ends by a test.

        A run without one ends at its first exchange.
        """
        return True

    def test(self, switches: int) -> AboveThreshold:
        """The noise of the test of the run that begins after `switches` draws.

        A server never returns to an earlier test.
        """
        return self.sparse

    def limit(self, switches: int) -> float:
        """The threshold of the run that begins after `switches` draws."""
        return self.threshold

    def begin(self, switches: int, noise: Noise) -> float:
        """The noisy threshold of the run that begins after `switches` draws."""
        if not self.tested(switches):
            return np.inf
        return self.test(switches).begin(self.limit(switches), noise)

    def shown(self) -> dict[str, float | str]:
        """The parameters that a built algorithm reports."""
        return {
            "switches": self.switches,
            "selection_epsilon": self.selection.epsilon,
            "threshold": self.threshold,
            "threshold_scale": self.sparse.threshold_scale,
            "query_scale": self.sparse.query_scale,
            "noise_law": self.sparse.law,
        }

    def message(self, state: SelectorState) -> CurrentExpert:
        wait = None if self.spent(state) else self.schedule.wait(state.exchanges)
        return CurrentExpert(wait, state.expert, state.switches)

    def query(self, state: SelectorState) -> float:
        """The loss of the current expert in this run, over all clients."""
        return float(from_units(int(state.totals[state.expert]) - state.base))

    def queries(
        self, state: SelectorState, losses: Array, earlier: Units, due: npt.NDArray[np.int64]
    ) -> Array:
        """`query` before each round in `due`, as long as the run lasts.

        `losses` are those of the rounds 0, 1, ... to which `due` refers, and `earlier` the totals
        before them.
        """
        column = np.zeros(int(due[-1]) + 1)
        np.cumsum(np.einsum("ri->r", losses[: due[-1], :, state.expert]), out=column[1:])
        return from_units(to_units(column[due]) + (int(earlier[state.expert]) - state.base))

    def scores(self, state: SelectorState) -> Array:
        """Scores for the selection, small ones are good: total losses, but at least m L*."""
        return np.maximum(from_units(state.totals), self.floor)

    def next_run(self, state: SelectorState, expert: int, noisy_threshold: float) -> SelectorState:
        """The state in which the run of the next expert begins."""
        return replace(
            state,
            expert=expert,
            base=int(state.totals[expert]),
            noisy_threshold=noisy_threshold,
            switches=state.switches + 1,
        )

    def switch(self, state: SelectorState, noise: Noise) -> SelectorState:
        """Draws the next expert and begins its run."""
        expert = noise.release(self.selection, self.scores(state))
        after = self.next_run(state, expert, np.inf)
        if self.spent(after):
            return after
        return replace(after, noisy_threshold=self.begin(after.switches, noise))

    def aggregate(
        self, state: Any, uploads: LossSums, noise: Noise
    ) -> tuple[CurrentExpert, SelectorState]:
        state = replace(state, totals=state.totals + uploads.losses, exchanges=state.exchanges + 1)
        if not self.tested(state.switches) or self.test(state.switches).above(
            self.query(state), state.noisy_threshold, noise
        ):
            state = self.switch(state, noise)
        return self.message(state), state

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """Plays many exchanges at once: between two draws only the current expert's column matters.

        `boundaries` are the rounds of the block before which an exchange is due; `done` counts
        those that are over. `totals` are the losses up to round `since` of the block, in which the
        current run began (0: in an earlier block). `drawn` is the noise of `test` from exchange
        `start` on.
        """
        noise = source.server()
        rounds, clients = block.losses.shape[:2]
        state: SelectorState = run.server
        before = state.totals + run.clients.losses.sum(axis=0)
        totals, since, earlier = before, 0, state.exchanges
        plays = np.full(rounds, state.expert, np.int64)
        boundaries = self.schedule.due(run.round, run.remaining, rounds)
        done, start, drawn, test = 0, 0, np.empty(0), None
        while done < len(boundaries) and not self.spent(state):
            if self.tested(state.switches):
                if test != self.test(state.switches):
                    test, start = self.test(state.switches), done
                    drawn = test.draw_queries(len(boundaries) - done, noise)
                ends = self._end(
                    state,
                    block.losses[since:],
                    totals,
                    boundaries[done:] - since,
                    drawn[done - start :],
                )
                if ends is None:
                    done = len(boundaries)
                    break
                done += ends + 1
            else:
                done += 1
            at = int(boundaries[done - 1])
            totals = totals + to_units(block.losses[since:at].sum(axis=(0, 1)))
            since = at
            state = self.switch(replace(state, totals=totals, exchanges=earlier + done), noise)
            plays[at:] = state.expert
        if done:
            last = int(boundaries[done - 1])
            sums = to_units(block.losses[last:].sum(axis=0))
            totals = before + block.own_totals.sum(axis=0) - sums.sum(axis=0)
            state = replace(state, totals=totals, exchanges=earlier + done)
            remaining = None
            if not self.spent(state):
                remaining = self.schedule.wait(state.exchanges) - (rounds - last)
        else:
            sums = run.clients.losses + block.own_totals
            remaining = None if run.remaining is None else run.remaining - rounds
        after = RunState(
            run.round + rounds,
            FollowerState(np.full(clients, state.expert), sums),
            None,
            state,
            remaining,
        )
        return after, Trace(np.broadcast_to(plays[:, None], (rounds, clients)), done)

    def _end(
        self,
        state: SelectorState,
        losses: Array,
        earlier: Units,
        due: npt.NDArray[np.int64],
        drawn: Array,
    ) -> int | None:
        """Which of the exchanges `due` ends the run, if any; short runs look at few losses."""
        most, seen = SHORT_RUN, 0
        while seen < len(due):
            queries = self.queries(state, losses, earlier, due[:most])
            first = self.test(state.switches).first_above(
                queries[seen:], state.noisy_threshold, drawn[seen : len(queries)]
            )
            if first is not None:
                return seen + first
            most, seen = 16 * most, len(queries)
        return None

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        """Exact log-probability of the broadcasts; the threshold noise is integrated out."""
        totals = np.cumsum(to_units(reports.sum(axis=1)), axis=0)
        state = self.beginning(broadcasts[0].expert)
        result, queries = -log(self.experts), list[float]()
        for number, sent in enumerate(broadcasts[1:], start=1):
            state = replace(state, totals=totals[self.schedule.time(number) - 1], exchanges=number)
            queries.append(self.query(state))
            tested = self.tested(state.switches)
            if sent.switches == state.switches:
                if sent.expert != state.expert or not tested:
                    return -np.inf
                continue
            if sent.switches != state.switches + 1:
                return -np.inf
            if tested:
                result += self.test(state.switches).log_probability(
                    queries, self.limit(state.switches), ended=True
                )
            result += self.selection.log_probability(self.scores(state), sent.expert)
            state, queries = self.next_run(state, sent.expert, np.inf), []
        last, limit = self.test(state.switches), self.limit(state.switches)
        return float(result + last.log_probability(queries, limit, ended=False))
