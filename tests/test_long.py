"""Long statistical runs, for `make test-full`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.algorithms.sparse_vector.tuning import choose
from hedgerow.benchmarks.simulation import memory_rows
from hedgerow.contracts import guarantees
from hedgerow.contracts.neighbours import SEEDED
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Digest
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.realizable import Halving, Realizable
from hedgerow.experiments.gao2024_figure2 import EXPERIMENT
from hedgerow.experiments.reproduce import reproduce
from support.played import run_one

pytestmark = pytest.mark.long


def test_figure_2_reproduces(tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENT, quick=False, out=tmp_path / "figure2", workers=2)
    assert outcome.verdict is not None
    assert outcome.verdict.reproduces
    assert [check.name for check in outcome.verdict.checks if not check.passed] == []


@pytest.mark.parametrize(
    ("clients", "experts", "horizon", "every", "epsilon"),
    [
        (1, 100, 512, 1, 10.0),
        (10, 100, 512, 1, 10.0),
        (10, 100, 512, 30, 10.0),
        (10, 30, 4096, 4, 1.0),
        (3, 500, 2000, 1, 5.0),
    ],
)
def test_the_surrogate_tells_the_regret(
    clients: int, experts: int, horizon: int, every: int, epsilon: float
) -> None:
    """On every stream of the robust choice the simulated regret is what the choice was made by,
    within 15 % and the noise.
    """
    chosen = choose(
        clients=clients,
        experts=experts,
        horizon=horizon,
        every=every,
        best_loss=0.0,
        epsilon=epsilon,
    )
    frame: dict[str, Any] = {"clients": clients, "experts": experts, "horizon": horizon}
    for name, expected in chosen.expected:
        environment = (
            Halving(**frame)
            if name == "halving"
            else Realizable(**frame, law="bernoulli", mean=float(name.split()[1]))
        )
        algorithm = SparseVector(epsilon=epsilon, every=every).build(environment.setting)
        regrets = np.array(
            [run_one(algorithm, environment, "", seed)[0].final_regret for seed in range(200)]
        )
        noise = 4 * regrets.std(ddof=1) / np.sqrt(len(regrets))
        assert abs(regrets.mean() - expected) <= 0.15 * expected + noise, name


def test_a_long_run_is_the_same_on_both_engines() -> None:
    environment = Realizable(clients=3, experts=10, horizon=20_000)
    algorithm = SparseVector(epsilon=0.5, every=3).build(environment.setting)
    found = set()
    for engine in ("vectorised", "in_process"):
        digest = Digest()
        simulate(algorithm, environment, 0, sinks=[digest], engine=engine)
        found.add(digest.hex)
    assert len(found) == 1


def test_a_million_rounds_with_a_thousand_experts_stay_under_a_gibibyte() -> None:
    assert all(row.passed for row in memory_rows())


@pytest.mark.parametrize("calibration", ["certified", "published"])
def test_transcripts_follow_the_likelihood(calibration: Any) -> None:
    """Ten times the runs of the contract, on the tiny game whose transcripts are all enumerated."""
    algorithm = SparseVector(epsilon=6.0, calibration=calibration, switches=2, threshold=1.0).build(
        Setting(1, 2, 3)
    )
    losses = np.array([[[0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0]]])
    transcripts = guarantees.all_paths(2, lambda noise: broadcasts_of(algorithm, losses, noise))
    assert algorithm.log_likelihood is not None
    expected = np.exp([algorithm.log_likelihood(t, losses) for t in transcripts])
    guarantees._frequencies_match(algorithm, transcripts, expected, losses, SEEDED, runs=40_000)
