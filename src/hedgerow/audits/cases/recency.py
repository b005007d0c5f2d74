"""Worst transcripts of servers with weights by recency, and the bugs that they must show.

The datum lies in one run. That run and all later ones of the epoch end at once and draw expert 0,
which only one world favours. So the test of the run, the selection at its end and the later
selections are all near their worst ratio: together the run's column.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.sparse_vector.columns import Column
from hedgerow.algorithms.sparse_vector.recency import RecencySelector, RecencyState
from hedgerow.algorithms.sparse_vector.regret_test import RegretSelector
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.audits.cases.parts import BELOWS, Streams, many_belows, with_bug
from hedgerow.core.setting import Setting
from hedgerow.privacy.mechanisms import AboveThreshold

LEAD = 20  # other clients, at which expert 0 loses in the datum's round: a bad choice
MORE = 3  # draws after the epoch, where nothing may show


def dearest(server: RecencySelector, *, tested: bool = False) -> int:
    """A run of the first epoch with the largest pure cost, one with a test if there is a choice.

    `tested`: only among the runs with a test.
    """
    runs = [server.weights.of(run) for run in range(server.switches)]
    rate = server.selection.rate
    among = [run for run in range(len(runs)) if server.tested(run) or not tested]
    return max(among, key=lambda run: (runs[run].pure(rate), runs[run].test))


def worst_streams(server: RecencySelector, run: int) -> Streams:
    """One datum in a run; every exchange up to `MORE` draws after its epoch ends a run."""
    draws = run + server.weights.of(run).after + 1 + MORE
    first = np.zeros((draws + 1, LEAD + 1, server.experts))
    first[run, 1:, 0] = 1.0
    first[run + 1 :, :, 0] = 1.0
    second = first.copy()
    first[run, 0], second[run, 0] = 1.0, 0.0
    first[run, 0, 0], second[run, 0, 0] = 0.0, 1.0
    drawn = [1] * (run + 1) + [0] * (draws - run)
    return first, second, (tuple(CurrentExpert(1, drawn[k], k) for k in range(draws + 1)),)


def first_by_regret(server: RegretSelector) -> int:
    """The first run that is tested by its regret."""
    return next(used for used in count() if server.by_regret(used))


def regret_streams(server: RegretSelector) -> Streams:
    """One datum in the first run that is tested by its regret, and all that it costs.

    The run has expert 0. While it lasts, the datum moves its regret by 2: others lose least. It
    ends when expert 2 has lost least, and then the datum does not move its regret. Every later
    exchange ends a run and draws expert 0, which only one world favours.
    """
    run = first_by_regret(server)
    draws = run + server.weights.of(run).after + 1 + MORE
    hidden, level = int(server.least(run)) + 1, int(server.limit(run))
    end = run + BELOWS
    first = np.zeros((end + draws - run + 1, 1 + hidden + level, server.experts))
    first[run, 1 : 1 + hidden] = 1.0  # what a guess hides
    first[run, 1 + hidden :, 0] = 1.0
    first[run, -1, 2] = 1.0
    first[end, 1:3] = 1.0
    first[end, 1:3, [0, 2]] = 0.0
    first[end + 1 :, :, 0] = 1.0
    second = first.copy()
    first[run, 0], second[run, 0] = 1.0, 0.0
    first[run, 0, [0, 2]], second[run, 0, [0, 2]] = 0.0, 1.0
    used = [*range(run), *[run] * (end - run + 1), *range(run + 1, draws + 1)]
    return first, second, (tuple(CurrentExpert(1, 0, switches) for switches in used),)


def many_belows_of(server: Selector, setting: Setting) -> Streams:
    """Many answers "below" in a run with a test, all of them changed by one datum."""
    first, second, (sent,) = many_belows(setting, server.threshold)
    if server.tested(0):
        return first, second, (sent,)
    # the first run has no test: one empty round, and expert 0 is drawn
    empty = np.zeros_like(first[:1])
    later = tuple(replace(message, switches=1) for message in sent)
    return np.concatenate([empty, first]), np.concatenate([empty, second]), ((sent[0], *later),)


class _EndlessRun:
    """The bug: a run's window reaches back to the run before, so a datum counts in two runs."""

    def next_run(self, state: RecencyState, expert: int, noisy_threshold: float) -> RecencyState:
        after = super().next_run(state, expert, noisy_threshold)  # pyright: ignore[reportAttributeAccessIssue]
        return replace(after, begun=state.begun)


class _LongEpoch:
    """The bug: an epoch forgets one draw too late."""

    def next_run(self, state: RecencyState, expert: int, noisy_threshold: float) -> RecencyState:
        after = super().next_run(state, expert, noisy_threshold)  # pyright: ignore[reportAttributeAccessIssue]
        own: Any = self
        if own.weights.place(after.switches)[1]:
            return after
        lost = own.weights.of(state.switches).own * own.counted(state)
        return replace(after, remembered=state.remembered + lost)


class _TestsTheFirstRun:
    """The bug: the first run has a test although its selections may use the whole budget."""

    def tested(self, switches: int) -> bool:
        return True


class _QuietRegret:
    """The bug: a test of the regret has the noise of a test of the loss."""

    def test(self, switches: int) -> AboveThreshold:
        own: Any = self
        return own.sparse


def by_rows(server: RecencySelector) -> RecencySelector:
    """The bug: the weights of a draw add up to the budget, not those of a run."""
    units = server.weights.columns[-1].units
    each = units // server.switches
    columns = tuple(
        Column(units - run * each, each if column.after else 0, column.after, column.test)
        for run, column in enumerate(server.weights.columns)
    )
    return replace(server, weights=replace(server.weights, columns=columns))


def bugs(server: RecencySelector) -> dict[str, tuple[RecencySelector, Streams, Column]]:
    """Servers with a bug, each with the streams that show it and the column of the datum's run."""
    tested, last = 0 if server.tested(0) else 1, server.switches - 1
    planted: list[tuple[str, RecencySelector, int]] = [
        ("a run counted in two windows", with_bug(server, _EndlessRun), tested),
        ("an epoch that ends one draw late", with_bug(server, _LongEpoch), last),
    ]
    if server.switches > 2:
        planted.append(("rows within the budget, not columns", by_rows(server), tested))
    if not server.tested(0):
        name = "a test in the first run, beside the whole budget"
        planted.append((name, with_bug(server, _TestsTheFirstRun), 0))
    found = {
        name: (bug, worst_streams(server, run), server.weights.of(run))
        for name, bug, run in planted
    }
    if isinstance(server, RegretSelector):
        found["the noise of a loss in a test of the regret"] = (
            with_bug(server, _QuietRegret),
            regret_streams(server),
            server.weights.of(first_by_regret(server)),
        )
    return found
