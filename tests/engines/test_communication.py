"""What `certify` says is sent is what is sent."""

from __future__ import annotations

import pytest

import hedgerow as hr
from hedgerow.algorithms.printed import printed_numbers
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.environment import Environment
from hedgerow.core.errors import HedgerowError
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.communication import Communication, communication
from hedgerow.engines.simulate import simulate
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe
from hedgerow_papers.gao2024.class_forecasts import ClassForecasts
from hedgerow_papers.gao2024.fed_svt import FedSVT
from hedgerow_papers.printed_bounds import fed_svt_regret
from support.command import Command

GAMES: tuple[Environment, ...] = (
    hr.Bernoulli(clients=3, experts=8, horizon=40),
    hr.Regression(clients=3, features=2, horizon=40),
    ClassForecasts(clients=3, classes=4, horizon=40),
)


def games_of(name: str) -> list[tuple[Algorithm, Environment]]:
    found = []
    for game in GAMES:
        try:
            found.append((ALGORITHMS[name]().build(game.setting), game))
        except HedgerowError:
            continue
    return found


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if games_of(name)])
def test_the_count_is_that_of_a_run(name: str) -> None:
    algorithm, game = games_of(name)[0]
    counters = simulate(algorithm, game, 0)
    assert communication(algorithm) == Communication(
        counters.exchanged,
        counters.uploaded_scalars + counters.broadcast_scalars,
        counters.uploaded_bytes + counters.broadcast_bytes,
    )


def test_a_game_that_ends_early_sends_less() -> None:
    game = hr.Realizable(clients=4, experts=5, horizon=300)
    spec = FedSVT(epsilon=50.0, switches=1, threshold=1.0)
    algorithm = spec.build(game.setting)
    counted = communication(algorithm)
    assert counted is not None
    assert simulate(algorithm, game, 0).exchanged < counted.exchanges == 299


def test_long_games_are_counted_by_their_pace_and_say_so() -> None:
    algorithm = hr.Hedge(every=3).build(Setting(2, 4, 1000))
    exact, quick = communication(algorithm), communication(algorithm, most=20)
    assert exact is not None
    assert quick is not None
    assert (exact.counted, quick.counted) == (True, False)
    assert (exact.exchanges, exact.numbers, exact.bytes) == (
        quick.exchanges,
        quick.numbers,
        quick.bytes,
    )
    assert communication(hr.FollowTheLeader().build(Setting(2, 4, None))) is None


def test_the_printed_counts_are_those_of_the_theorems() -> None:
    setting = Setting(10, 100, 512)
    svt = printed_numbers(hr.SparseVector(every=32), setting)
    phases = printed_numbers(hr.PhasedSelection(), setting)
    assert svt is not None
    assert phases is not None
    assert (svt.value, svt.source) == (16_000, "Theorem 2.6")
    assert phases.value == pytest.approx(6238.3, abs=0.1)
    assert printed_numbers(hr.PrivateHedge(), setting) is None
    curved = ClassForecasts(clients=16, classes=10, horizon=1024).setting
    trees = printed_numbers(FrankWolfe(trees=3), curved)
    local = printed_numbers(FrankWolfe(trees=3, trust="local"), curved)
    assert trees is not None
    assert local is not None
    assert (trees.source, local.source) == ("Theorem 7 (NeurIPS)", "Theorem 2.2")
    assert trees.value == pytest.approx(16**0.25 * local.value)
    assert fed_svt_regret(setting, 1.0, 64) > fed_svt_regret(setting, 1.0, 1)


def test_certify_prints_what_is_sent(hedgerow: Command) -> None:
    words = " ".join(hedgerow("certify", "sparse_vector", "--set", "every=64").out.split())
    assert "bytes in 13 exchanges, if it does not end early" in words
    assert "Gao et al. 2024, Theorem 2.6: m d T / N = 8,000 numbers" in words
    found = hedgerow("certify", "uniform", "--set", "horizon=none", "--json").document()
    assert found["communication"] is None
