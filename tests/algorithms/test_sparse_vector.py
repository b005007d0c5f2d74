"""Fed-SVT itself: what it releases and when, the printed constants, and its worst transcripts."""

from __future__ import annotations

from math import ceil, log

import numpy as np
import pytest

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.sparse_vector.sparse_vector import Selector, SparseVector
from hedgerow.algorithms.sparse_vector.tuning import choose
from hedgerow.contracts.recording import RecordingNoise
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.engines.simulate import simulate
from hedgerow.environments.recorded.losses import RecordedArray


def certified(algorithm: Algorithm) -> float:
    return algorithm.certificate.guarantee(Observer.PEER).curve.stated()[0]


def releases(
    algorithm: Algorithm, losses: np.ndarray, seed: int
) -> list[tuple[str, object, object]]:
    noise = RecordingNoise(SeededNoise(seed))
    simulate(algorithm, RecordedArray(losses), 0, noise=noise, fused=False)
    return [(r.mechanism.purpose, r.value, r.output) for r in noise.ledger.releases]


@pytest.mark.parametrize("every", [1, 3])
def test_every_run_has_its_own_threshold_and_window(every: int) -> None:
    """One threshold for each run, at most `switches` selections, and queries that start from
    nothing after each of them.
    """
    losses = np.random.default_rng(1).random((60, 2, 4))
    algorithm = SparseVector(epsilon=8.0, every=every, switches=5, threshold=3.0).build(
        Setting(2, 4, 60)
    )
    for seed in range(20):
        seen = releases(algorithm, losses, seed)
        purposes = [purpose for purpose, _, _ in seen]
        selections = purposes.count("selection")
        assert 1 <= selections <= 5
        assert purposes.count("threshold") == min(5, selections + 1)
        totals, expert, start, noisy, exchange = losses.sum(axis=1), None, 0, None, 0
        for purpose, value, output in seen:
            if purpose == "threshold":
                assert value == 3.0
                noisy = output
            elif purpose == "query":
                exchange += 1
                assert noisy is not None
                query = float(value) + float(noisy)  # pyright: ignore[reportArgumentType]
                if expert is not None:
                    assert query == pytest.approx(
                        totals[start : exchange * every, expert].sum(), abs=1e-4
                    )
            else:
                assert np.allclose(value, totals[: exchange * every].sum(axis=0), atol=1e-4)  # pyright: ignore[reportArgumentType]
                expert, start = int(output), exchange * every  # pyright: ignore[reportArgumentType]


def test_printed_constants() -> None:
    setting = Setting(10, 100, 512)
    algorithm = SparseVector(epsilon=2.0, every=4, best_loss=1.5, calibration="published").build(
        setting
    )
    kappa = ceil(3 * 7 + 24 * log(20))
    assert algorithm.parameters["switches"] == kappa == 93
    assert algorithm.parameters["selection_epsilon"] == pytest.approx(2.0 / (2 * kappa))
    assert algorithm.parameters["threshold_scale"] == 2.0
    assert algorithm.parameters["query_scale"] == 4.0
    assert algorithm.parameters["noise_law"] == "laplace"
    printed = 10 * 1.5 + 8 * log(2 * 128**2 / 0.05) / 2.0 + 4 * 2 * kappa / 2.0
    assert algorithm.parameters["threshold"] == pytest.approx(printed)
    assert certified(algorithm) == pytest.approx(1.5)
    assert algorithm.certificate.guarantee(Observer.PEER).claimed is not None


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize(
    ("clients", "experts", "horizon", "every"),
    [(1, 1, 1, 1), (1, 2, 10, 10), (10, 100, 512, 1), (1000, 5000, 10**7, 100)],
)
def test_certified_choice_spends_the_budget_and_no_more(
    epsilon: float, clients: int, experts: int, horizon: int, every: int
) -> None:
    algorithm = SparseVector(epsilon=epsilon, every=every).build(Setting(clients, experts, horizon))
    assert epsilon * (1 - 1e-9) <= certified(algorithm) <= epsilon
    assert algorithm.parameters["switches"] >= max(1, ceil(np.log2(experts)))
    again = choose(
        clients=clients,
        experts=experts,
        horizon=horizon,
        every=every,
        best_loss=0.0,
        epsilon=epsilon,
    )
    assert algorithm.parameters["threshold"] == round_to_lattice(again.threshold)


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_worst_transcripts_approach_the_certificate_and_never_pass_it(
    clients: int, epsilon: float
) -> None:
    """Every exchange is a switch to an expert that only one world favours: each step is near its
    own worst ratio.
    """
    setting = Setting(clients, 100, 200)
    algorithm = SparseVector(epsilon=epsilon).build(setting)
    server = algorithm.server
    assert isinstance(server, Selector)
    assert algorithm.log_likelihood is not None
    rounds = server.switches + 1
    first = np.zeros((rounds, clients, 100))
    first[1:, :, 0] = 1.0
    second = first.copy()
    first[0, 0], second[0, 0] = 1.0, 0.0
    first[0, 0, 0], second[0, 0, 0] = 0.0, 1.0
    sent = [
        CurrentExpert(1, 1, 0),
        *(CurrentExpert(None if k == server.switches else 1, 0, k) for k in range(1, rounds)),
    ]
    ratio = algorithm.log_likelihood(sent, first) - algorithm.log_likelihood(sent, second)
    assert 0.95 * certified(algorithm) <= ratio <= certified(algorithm)
    halved = SparseVector(
        epsilon=2 * epsilon, switches=server.switches, threshold=server.threshold
    ).build(setting)
    assert halved.log_likelihood is not None
    assert halved.log_likelihood(sent, first) - halved.log_likelihood(sent, second) > certified(
        algorithm
    )


def test_nothing_is_sent_after_the_last_switch() -> None:
    losses = np.ones((100, 2, 3))
    algorithm = SparseVector(epsilon=50.0, switches=2, threshold=1.0).build(Setting(2, 3, 100))
    counters = simulate(algorithm, RecordedArray(losses), 0)
    assert counters.exchanged < 10


def test_a_game_with_separate_deciders_is_refused() -> None:
    with pytest.raises(Unsupported, match="sparse_vector lets the clients play"):
        SparseVector().build(Setting(2, 3, 10, deciders=1))
