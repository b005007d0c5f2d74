"""Reports that come late: shifted, reported once, zero before; charges and regret at once;
impossible delays refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.certificate import PUBLIC_DELAYS
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.stochastic import UniformLosses
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.environments.wrappers.sleeping import Sleeping
from hedgerow.evaluation.recorder import Recorder
from hedgerow.studies.config import Entry, StudyConfig, study_from_table, study_table
from support.played import plays_of

SMALL = UniformLosses(clients=3, experts=4, horizon=50)
LOSSES = round_to_lattice(np.random.default_rng(3).random((50, 3, 4)))
SPECS = (Hedge(every=2), FollowTheLeader(), SparseVector(epsilon=20.0, every=3), Uniform())


def _blocks(environment: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    horizon, state, made = environment.setting.horizon, environment.start(0), []
    for first in range(0, horizon, size):
        block, state = environment.block(state, min(size, horizon - first), None)
        made.append(block)
    return np.concatenate([block.losses for block in made]), np.concatenate(
        [block.reports for block in made]
    )


def _shifted(losses: np.ndarray, late: tuple[int, ...]) -> np.ndarray:
    reports = np.zeros_like(losses)
    for client, k in enumerate(late):
        reports[k:, client] = losses[: len(losses) - k, client]
    return reports


@pytest.mark.parametrize("late", [1, 7, 49, (0, 3, 11), (5, 5, 5)])
@pytest.mark.parametrize("size", [1, 4, 50])
def test_every_loss_is_reported_once_so_many_rounds_later(late: Any, size: int) -> None:
    losses, reports = _blocks(Delayed(of=RecordedArray(LOSSES), rounds=late), size)
    assert np.array_equal(losses, LOSSES)
    assert np.array_equal(
        reports, _shifted(LOSSES, late if isinstance(late, tuple) else (late,) * 3)
    )


def test_no_delay_is_the_plain_game_and_takes_its_fast_paths() -> None:
    block, _ = Delayed(of=SMALL, rounds=0).block(Delayed(of=SMALL, rounds=0).start(0), 20, None)
    assert block.reports is block.losses


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize("engine", ["vectorised", "in_process"])
def test_plays_are_those_on_the_late_reports_and_regret_is_by_what_is_charged(
    spec: Any, engine: Any
) -> None:
    environment, late = (
        Delayed(of=RecordedArray(LOSSES), rounds=(2, 0, 6)),
        RecordedArray(_shifted(LOSSES, (2, 0, 6))),
    )
    algorithm = spec.build(environment.setting)
    kept, other, recorder = (
        Everything(wants_messages=False),
        Everything(wants_messages=False),
        Recorder(environment.setting),
    )
    counters = simulate(algorithm, environment, 4, sinks=[kept, recorder], engine=engine)
    simulate(algorithm, late, 4, sinks=[other], engine=engine)
    plays = kept.all_plays()
    assert np.array_equal(plays, other.all_plays())
    paid = np.take_along_axis(LOSSES, plays[..., None], axis=-1).sum()
    assert recorder.result("x", 4, counters).final_regret == pytest.approx(
        (paid - LOSSES.sum(axis=(0, 1)).min()) / 3, abs=1e-9
    )


def test_nothing_is_learnt_before_the_first_report() -> None:
    for k in (1, 5, 20):
        kept = Everything(wants_messages=False)
        environment = Delayed(of=RecordedArray(LOSSES), rounds=k)
        simulate(FollowTheLeader().build(environment.setting), environment, 0, sinks=[kept])
        leaders = [LOSSES[:t].sum(axis=(0, 1)).argmin() if t else 0 for t in range(50 - k)]
        assert (kept.all_plays()[: k + 1] == 0).all()
        assert kept.all_plays()[k:, 0].tolist() == leaders


def test_an_adversary_reacts_at_once_and_is_seen_late() -> None:
    environment = Delayed(of=PlayChasing(clients=2, experts=3, horizon=30), rounds=4)
    kept = plays_of(FollowTheLeader(), environment)
    assert (kept[:6] == 0).all()  # the first charge is in round 1 and seen in round 5
    assert (kept[6] == 1).all()


def test_absence_is_reported_late_as_zeros() -> None:
    losses, reports = _blocks(Delayed(of=Absent(of=SMALL, rate=0.4), rounds=3), 7)
    assert not losses.any(axis=-1).all()
    assert np.array_equal(reports[3:], losses[:-3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Delayed(of=SMALL, rounds=-1), "Expected rounds=-1 to be a whole number >= 0"),
        (
            lambda: Delayed(of=SMALL, rounds=(1, -2, 0)),
            "Expected rounds=-2 to be a whole number >= 0",
        ),
        (
            lambda: Delayed(of=SMALL, rounds=50).start(0),
            "Expected rounds=50 < horizon=50: a later report would never arrive",
        ),
        (
            lambda: Delayed(of=SMALL, rounds=(1, 2)).start(0),
            r"Expected rounds=\(1, 2\) to have one number for each of 3 clients",
        ),
        (
            lambda: Delayed(of=Delayed(of=SMALL)),
            "Delayed cannot wrap an environment with late reports",
        ),
        (
            lambda: Delayed(of=Sleeping(of=SMALL)),
            "Delayed cannot wrap an environment with sleeping experts",
        ),
        (
            lambda: Sleeping(of=Delayed(of=SMALL)),
            "Sleeping cannot wrap an environment with late reports",
        ),
        (
            lambda: Absent(of=Delayed(of=SMALL)),
            "Absent cannot wrap an environment with late reports",
        ),
    ],
)
def test_impossible_delays_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        make()


def test_an_algorithm_that_does_not_support_late_reports_refuses_them_by_name() -> None:
    algorithm = replace(Hedge().build(SMALL.setting), supports=frozenset())
    with pytest.raises(Unsupported, match="hedge does not support late reports"):
        simulate(algorithm, Delayed(of=SMALL), 0)


def test_the_certificate_is_that_of_the_plain_game_with_public_delays() -> None:
    entry = Entry("a", SparseVector())
    plain, late = (
        StudyConfig("x", environment, (entry,)).build(entry)
        for environment in (SMALL, Delayed(of=SMALL, rounds=9))
    )
    for before, after in zip(
        plain.certificate.guarantees, late.certificate.guarantees, strict=True
    ):
        assert after == replace(
            before, assumes=before.assumes | ({PUBLIC_DELAYS} if before.protects else set())
        )


def test_delays_in_a_study_file() -> None:
    table = {
        "environment": {
            "name": "delayed",
            "rounds": [0, 2],
            "of": {"name": "bernoulli", "clients": 2},
        },
        "algorithms": [{"name": "hedge"}, {"name": "uniform", "environment": {"rounds": 3}}],
    }
    config = study_from_table(table)
    assert isinstance(config.environment, Delayed)
    assert config.environment.rounds == (0, 2)
    assert config.algorithms[1].environment == replace(config.environment, rounds=3)
    assert study_from_table(study_table(config)) == config
    with pytest.raises(InvalidValue, match=r"Expected environment\.rounds='soon' to fit"):
        study_from_table(
            {
                **table,
                "environment": {"name": "delayed", "rounds": "soon", "of": {"name": "bernoulli"}},
            }
        )
