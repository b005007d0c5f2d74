"""Drawn examples: reproducible, in range, of the right law, with their measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

import hedgerow as hr
from hedgerow.core.block import Block
from hedgerow.core.errors import InvalidValue
from hedgerow.core.transcript import Plays
from hedgerow.environments.drawn.examples import CHUNK
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.measures import Accuracy, Gain, measures_of
from hedgerow_papers.asi2023.hidden_direction import HiddenDirection
from hedgerow_papers.gao2024.class_forecasts import PLAN, ClassForecasts

GAMES: tuple[Any, ...] = (
    hr.Classification(clients=2, features=3, horizon=2 * CHUNK + 9),
    hr.Regression(clients=2, features=3, horizon=2 * CHUNK + 9),
    hr.Regression(clients=2, features=3, horizon=2 * CHUNK + 9, loss="huber"),
    HiddenDirection(clients=2, features=3, horizon=2 * CHUNK + 9),
    ClassForecasts(clients=2, classes=3, horizon=2 * CHUNK + 9),
)


def _records(game: Any, seed: int = 0, block: int = 10**6) -> np.ndarray:
    state, pieces = game.start(seed), []
    for first in range(0, game.horizon, block):
        made, state = game.block(state, min(block, game.horizon - first), None)
        pieces.append(made.losses)
    return np.concatenate(pieces)


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_records_do_not_depend_on_the_blocks_and_lie_in_range(game: Any) -> None:
    whole = _records(game)
    for block in (1, 100, CHUNK):
        assert np.array_equal(_records(game, block=block), whole)
    assert not np.array_equal(_records(game, 1), whole)
    game.family.check("record", whole)
    _, state = game.block(game.start(0), 10, None)
    once, twice = (game.block(state, 20, None)[0].losses for _ in range(2))
    assert np.array_equal(once, twice)


@pytest.mark.parametrize("key", ["clients", "features", "horizon"])
@pytest.mark.parametrize("kind", [hr.Classification, hr.Regression, HiddenDirection])
def test_an_empty_game_is_refused(kind: Any, key: str) -> None:
    with pytest.raises(InvalidValue, match=f"{key}=0"):
        kind(**{key: 0})


def test_features_lean_to_a_hidden_direction() -> None:
    game = HiddenDirection(clients=4, features=3, horizon=1000, tilt=0.4)
    records = _records(game).reshape(-1, 4)
    assert np.linalg.norm(records[:, :3], axis=1) == pytest.approx(1.0)
    mean = records[:, :3].mean(axis=0)
    assert np.linalg.norm(mean) == pytest.approx(0.4, abs=0.04)
    scores = records[:, :3] @ mean / np.linalg.norm(mean)
    assert scores == pytest.approx(0.4, abs=0.1)
    points = np.random.default_rng(0).normal(size=(5, 3)) / 3
    charges = game.family.value(records[:5], points)  # linear: minus the score, plus a constant
    assert charges == pytest.approx(1.5 - (records[:5, :3] * points).sum(axis=1))


@pytest.mark.parametrize("key", ["clients", "classes", "horizon", "floor"])
def test_an_empty_game_of_forecasts_is_refused(key: str) -> None:
    choices: dict[str, Any] = {key: 0}
    with pytest.raises(InvalidValue, match=rf"({key}|experts)=0"):
        ClassForecasts(**choices)


def test_log_odds_of_classes_are_normal() -> None:
    """Their means and variances are differences and sums of those of the scores."""
    game = ClassForecasts(clients=1, classes=3, horizon=4000)
    plan = generator(0, PLAN)
    means, variances = plan.random(3), plan.random(3)
    odds = np.log(_records(game)[:, 0, 0] / _records(game)[:, 0, 1])
    unit = (odds - means[0] + means[1]) / np.sqrt(variances[0] + variances[1])
    assert kstest(unit, "norm").pvalue > 1e-3
    assert kstest(1.2 * unit, "norm").pvalue < 1e-3


def test_wrong_choices_are_refused() -> None:
    with pytest.raises(InvalidValue, match="tilt"):
        HiddenDirection(tilt=1.5)
    with pytest.raises(InvalidValue, match="noise"):
        hr.Regression(noise=0.0)
    with pytest.raises(InvalidValue, match="loss"):
        hr.Regression(loss="absolute")  # pyright: ignore[reportArgumentType]


def _hidden(game: Any) -> np.ndarray:
    """The best point of many examples, which is near the hidden one."""
    from hedgerow.evaluation.best_point import best_point

    return best_point(game.family, game.features, lambda: [_records(game)]).point


def test_labels_follow_the_odds_of_the_hidden_point() -> None:
    game = hr.Classification(clients=20, features=2, horizon=2000, radius=3.0)
    records, hidden = _records(game), _hidden(game)
    assert np.linalg.norm(hidden) == pytest.approx(3.0, abs=0.15)
    scores, labels = records[..., :-1] @ hidden, records[..., -1]
    for low, high in ((-3.0, -2.0), (-0.5, 0.5), (2.0, 3.0)):
        here = (scores > low) & (scores < high)
        odds = 1 / (1 + np.exp(-scores[here]))
        count, total = int((labels[here] > 0).sum()), int(here.sum())
        assert binomtest(count, total, odds.mean()).pvalue > 1e-4
        assert binomtest(count, total, 1 - odds.mean() if low != -0.5 else 0.6).pvalue < 1e-4


def test_targets_are_scores_with_normal_noise() -> None:
    game = hr.Regression(clients=10, features=2, horizon=1000, noise=0.5, target=9.0)
    records = _records(game)
    residuals = (records[..., -1] - records[..., :-1] @ _hidden(game)).ravel()
    assert kstest(residuals / 0.5, "norm").pvalue > 1e-3
    assert kstest(residuals / 0.6, "norm").pvalue < 1e-6


def test_accuracy_counts_labels_that_were_predicted() -> None:
    records = np.array([[[1.0, 0.0, 1.0]], [[1.0, 0.0, -1.0]], [[0.0, 1.0, -1.0]]])
    measure = Accuracy()
    measure.marks = (1, 3)
    points = Plays(np.array([[[1.0, -1.0]]]), np.array([3]))
    measure.rounds(0, Block.of(records[:2]), Plays(points.values, np.array([2])))
    measure.rounds(2, Block.of(records[2:]), Plays(points.values, np.array([1])))
    assert measure.curve().tolist() == [1.0, 2 / 3]


def test_an_absent_client_predicts_nothing() -> None:
    records = np.array([[[1.0, 1.0], [0.0, 0.0]], [[1.0, -1.0], [0.0, 0.0]]])
    present = np.array([[True, False], [True, False]])
    measure = Accuracy()
    measure.marks = (2,)
    points = Plays(np.array([[[1.0], [0.0]]]), np.array([2]))
    measure.rounds(0, Block(records, records, present=present), points)
    assert measure.curve().tolist() == [0.5]
    wrapped = hr.Absent(of=hr.Classification(horizon=9))
    assert [m.name for m in wrapped.measures()] == ["accuracy"]


def test_gain() -> None:
    measure = Gain(hr.Gains(high=4.0))
    measure.marks = (1, 2)
    gains = np.array([[[1.0, 3.0], [2.0, 0.0]], [[4.0, 0.0], [0.0, 1.0]]])
    measure.rounds(0, Block.of(gains), np.array([[0, 0], [1, 1]]))
    assert measure.curve() == pytest.approx([1.5, 2.0])


def test_measures_come_from_environment_algorithm_and_family() -> None:
    built = hr.GradientDescent().build(GAMES[0].setting)
    assert [m.name for m in measures_of(built, GAMES[0])] == ["accuracy"]
    from dataclasses import replace

    own = replace(
        built,
        claims=replace(built.claims, measures=lambda: (Accuracy(), Gain(hr.Gains()))),
    )
    assert [m.name for m in measures_of(own, GAMES[0])] == ["accuracy", "gain"]


def test_a_study_stores_and_prints_its_figures(tmp_path: Any) -> None:
    from hedgerow.studies.config import Entry, StudyConfig
    from hedgerow.studies.run import run_study
    from hedgerow.studies.storage.unfinished import ResultStore

    game = hr.Classification(clients=2, features=3, horizon=60)
    config = StudyConfig("examples", game, (Entry("open", hr.GradientDescent()),), seeds=2)
    store = ResultStore(tmp_path)
    first = run_study(config, store=store)
    again = run_study(config, store=store)  # read back
    for a, b in zip(first.results, again.results, strict=True):
        assert np.array_equal(a.figures["accuracy"], b.figures["accuracy"])
        assert a.regret_error == b.regret_error > 0
    assert "accuracy" in str(first)
    assert "switches" not in str(first)
    assert first.to_frame(curves=True)["accuracy"][59] == first.results[0].figures["accuracy"][-1]
    assert "coordinates" in repr(first)


def test_gradient_descent_keeps_its_bound() -> None:
    for game in GAMES:
        study = hr.run(
            game, {"open": hr.GradientDescent(), "rare": hr.GradientDescent(every=40)}, seeds=3
        )
        for label in ("open", "rare"):
            bound = study[label].regret_bound
            assert bound is not None
            assert study[label].regret.high <= bound
        assert study["open"].regret.mean > 0
