"""Silos in a deployment: every client reports about itself, and plays for the one decider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.walks.games import SILOS
from hedgerow.core.block import Side
from hedgerow.core.environment import Feature
from hedgerow.core.errors import HedgerowError
from support.simulated import QUIET, Faults, SimulatedStudy, small_study

ROUGH = Faults(lose=0.1, repeat=0.1, crash=0.04)
PUBLIC = tuple(sorted(one.value for one in (Feature.SOME_REPORT, Feature.SIDE_INFORMATION)))
ROUNDS = 24


def study(
    place: Path,
    name: str = "walk_leader",
    faults: Faults = QUIET,
    features: tuple[str, ...] = PUBLIC,
    sized: bool = True,
    seed: int | None = 5,
) -> SimulatedStudy:
    choices: dict[str, Any] = {"mu": "1", "reports": "silo", "sized": sized}
    return small_study(
        place,
        unit="part:1/size",
        clients=SILOS.clients,
        experts=SILOS.experts,
        horizon=ROUNDS,
        deciders=1,
        family=repr(SILOS.family),
        algorithm=name,
        choices=choices,
        features=features,
        budget="1000",
        chance=np.random.default_rng(3),
        faults=faults,
        seed=seed,
    )


def game() -> tuple[np.ndarray, Side]:
    """Reports (rounds, clients, 1), in some rounds of some clients, and the public sizes."""
    rng = np.random.default_rng(1)
    reporting = rng.random((ROUNDS, SILOS.clients)) < 0.8
    records = rng.random(reporting.shape) * [1.0, 0.25, 2.0, 0.5] * reporting
    sizes = np.where(reporting, rng.integers(1, 2000, reporting.shape), 0.0)
    return np.round(records * 2**20)[..., None] / 2**20, Side(sizes[..., None], reporting)


@pytest.mark.parametrize("name", ["walk_leader", "walk_meta"])
@pytest.mark.parametrize("faults", [QUIET, ROUGH], ids=["quiet", "rough"])
def test_silos_play_what_the_decider_of_a_simulation_plays(
    tmp_path: Path, name: str, faults: Faults
) -> None:
    """Every client plays the decider's choice, bit for bit, whatever dies when."""
    records, side = game()
    whole = study(tmp_path, name, faults)
    whole.play(records, side=side)
    assert whole.violations(records, side=side) == []
    plays = whole.plays()
    assert (plays == plays[:, :1]).all()
    assert side.reporting is not None
    reported = np.take_along_axis(side.reporting, plays[:, :1], axis=1)[:, 0]
    assert (reported | ~side.reporting.any(axis=1)).all()  # a silent hospital is not named
    assert len(set(plays[:, 0].tolist())) > 1
    assert bool(whole.watch.deaths) == (faults is ROUGH)
    whole.close()


def test_a_silo_is_charged_and_its_public_facts_are_in_the_certificate(tmp_path: Path) -> None:
    records, side = game()
    whole = study(tmp_path, seed=None)
    whole.play(records, side=side)
    assert whole.violations(records, side=side) == []
    named = {one.name for one in whole.learner(0).certificate.server.assumes}
    assert {"PUBLIC_REPORTERS", "PUBLIC_SIDE", "PUBLIC_SIZES", "LEDGERS"} <= named
    whole.close()


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no size": ({}, {"losses": [0.5]}, "Give what is public about this client"),
    "size of 0": ({}, {"losses": [0.5], "side": [0.0]}, "public size=0.0"),
    "out of range": ({}, {"losses": [1.5], "side": [8.0]}, "outside the range"),
    "all experts": ({}, {"losses": [0.5] * 4, "side": [8.0]}, "Expected 1 numbers"),
    "text": ({}, {"losses": [0.5], "side": [float("nan")]}, "finite"),
    "three clients": ({"reporting": [True] * 3}, {}, "reporting to be 4 times"),
    "asleep": ({"awake": [True] * 4}, {}, "no sleeping experts"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_public_facts_are_refused_by_name(tmp_path: Path, case: str) -> None:
    first, second, words = REFUSED[case]
    whole = study(tmp_path)
    for client in range(1, 4):
        whole.learner(client).client.advance()
    learner = whole.learner(0)

    def work() -> None:
        learner.predict(**first, tries=20)
        learner.observe(0, second["losses"], side=second.get("side"))

    with pytest.raises(HedgerowError, match=words) as refusal:
        work()
    assert "1.5" not in str(refusal.value)
    assert learner.round == 0
    whole.close()


def test_a_study_file_must_name_what_the_algorithm_needs(tmp_path: Path) -> None:
    with pytest.raises(HedgerowError, match=r"needs features = \['public side information'\]"):
        study(tmp_path, features=())
    learner = study(tmp_path / "plain", features=(), sized=False).learner(0)
    with pytest.raises(HedgerowError, match="no public side information"):
        learner.observe(0, [0.5], side=[8.0], tries=5)
