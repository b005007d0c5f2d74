"""Exchanges in the first rounds, for every algorithm with an interval between exchanges: the same
game on every path, as many exchanges as printed, and less regret where nothing else would be known.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.registry import variants
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import simulate
from hedgerow.evaluation.recorder import Recorder
from hedgerow.evaluation.statistics import Estimate
from hedgerow_papers.agarwal2017.tree_leader import TreeLeader
from hedgerow_papers.asi2023.certified_potential import Potential

SETTING = {"clients": 3, "experts": 5, "horizon": 61}


def with_interval() -> dict[str, Any]:
    """The algorithms of the package with rounds between exchanges, in their default form."""
    found: dict[str, Any] = {}
    for name, spec in variants().items():
        ours = type(spec).__module__.startswith("hedgerow.")
        interval = spec.traits.interval in {field.name for field in fields(spec)}
        if ours and "," not in name and interval:
            found[name] = spec
    del found["watched_selection"]  # its first runs are short without being asked
    return found


SPECS = with_interval()


def test_every_algorithm_with_an_interval_can_talk_early() -> None:
    assert len(SPECS) >= 9
    assert [name for name, spec in SPECS.items() if not hasattr(spec, "early")] == []


@pytest.mark.parametrize("name", SPECS)
def test_all_paths_agree_and_exchange_as_often_as_printed(name: str) -> None:
    environment = hr.UniformLosses(**SETTING)
    counts = []
    for early in (True, False):
        built = replace(SPECS[name], every=7, early=early).build(environment.setting)
        kept = Everything()
        simulate(built, environment, 3, sinks=[kept])  # message by message
        found = {(kept.all_plays().tobytes(), len(kept.messages))}
        for block in (None, 5):
            plays = Everything(wants_messages=False)
            ended = simulate(built, environment, 3, sinks=[plays], block_rounds=block)
            found.add((plays.all_plays().tobytes(), ended.exchanged))
        assert len(found) == 1
        printed = built.parameters["exchanges"]
        limited = built.shortcuts.switches_left is not None  # it may end before the last round
        assert len(kept.messages) == printed or (limited and len(kept.messages) < printed)
        counts.append(printed)
    assert counts[0] > counts[1]


def test_a_schedule_adds_up() -> None:
    for every in (1, 2, 3, 7, 16, 30):
        for early in (True, False):
            schedule, horizon = Schedule.of(every, early), 101
            lengths = schedule.lengths(horizon)
            due = schedule.between(1, horizon)
            assert lengths.sum() == horizon
            assert len(due) == schedule.count(horizon) == len(lengths) - 1
            assert [schedule.time(k + 1) for k in range(len(due))] == due.tolist()
            assert lengths.max() <= every
            whole = [*lengths[:-1], schedule.wait(len(due))]
            assert schedule.squares(horizon) == sum(length**2 for length in whole)
            later = schedule.due(9, int(due[due >= 9][0]) - 9, 40)
            assert (later + 9).tolist() == [at for at in due if 9 <= at < 49]
            losses = np.random.default_rng(0).integers(0, 2, (horizon, 2, 3)).astype(float)
            short, equal = schedule.split(losses, due)
            sums = [*(batch.sum(axis=0) for batch in short), *equal.sum(axis=1)]
            right = [losses[a:b].sum(axis=(0, 1)) for a, b in pairwise(due)]
            assert np.array_equal(sums, right)


@cache
def _regret(spec: AlgorithmSpec, clients: int) -> Estimate:
    environment = hr.Realizable(clients=clients, experts=100, horizon=512)
    built, found = spec.build(environment.setting), []
    for seed in range(10):
        recorder = Recorder(environment.setting, points=2)
        ended = simulate(built, environment, seed, sinks=[recorder])
        found.append(recorder.result("", seed, ended).final_regret)
    return Estimate.of(found)


@pytest.mark.parametrize(
    ("spec", "less"),
    [
        (hr.FollowTheLeader(every=50), 20.0),
        (hr.RunningLeader(epsilon=100.0, every=50), 5.0),
        (hr.Hedge(every=50), 1.0),
        (TreeLeader(epsilon=100.0, every=50, padding=False), 5.0),
    ],
    ids=lambda value: getattr(value, "__class__", value).__name__,
)
def test_early_exchanges_help_where_nothing_was_known(spec: Any, less: float) -> None:
    early, late = _regret(spec, 10), _regret(replace(spec, early=False), 10)
    assert early.high + less < late.low


@pytest.mark.parametrize("every", [30, 50])
@pytest.mark.parametrize(
    ("spec", "most"),
    [(hr.SparseVector(10.0), 1.0), (hr.Doubling(10.0), 1.0), (Potential(10.0), 1.0)],
    ids=lambda value: getattr(value, "__class__", value).__name__,
)
def test_ten_clients_that_talk_rarely_lose_less_than_one_alone(
    spec: Any, most: float, every: int
) -> None:
    """Without early exchanges they lose 15 and 25, one client alone more than 7."""
    rare = replace(spec, every=every)
    assert _regret(rare, 10).high <= most
    assert _regret(replace(rare, early=False), 10).low > every * 0.45
    assert _regret(spec, 1).low > 3 * most
