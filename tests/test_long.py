"""Long statistical runs, for `make test-full`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.sparse_vector.plan import planned
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.contracts import guarantees
from hedgerow.contracts.neighbours import SEEDED
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Digest
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow_benchmarks.simulation import memory_rows
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.gao2024.fed_svt import FedSVT
from hedgerow_papers.gao2024.figure2 import EXPERIMENT

pytestmark = pytest.mark.long


def test_figure_2_reproduces(tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENT, quick=False, out=tmp_path / "figure2", workers=2)
    assert outcome.verdict is not None
    assert outcome.verdict.holds == "as printed"
    assert [check.name for check in outcome.verdict.checks if not check.passed] == []


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


@pytest.mark.parametrize("kind", [SparseVector, FedSVT])
def test_transcripts_follow_the_likelihood(kind: Any) -> None:
    """Ten times the runs of the contract, on the tiny game whose transcripts are all enumerated."""
    algorithm = planned(kind(epsilon=6.0), {"switches": 2, "threshold": 1.0}).build(
        Setting(1, 2, 3)
    )
    losses = np.array([[[0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0]]])
    transcripts = guarantees.all_paths(2, lambda noise: broadcasts_of(algorithm, losses, noise))
    assert algorithm.claims.log_likelihood is not None
    expected = np.exp([algorithm.claims.log_likelihood(t, losses) for t in transcripts])
    guarantees._frequencies_match(algorithm, transcripts, expected, losses, SEEDED, runs=40_000)
