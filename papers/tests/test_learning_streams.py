"""Examples for online learning: their laws, splits, files and errors; measures on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

import hedgerow as hr
from hedgerow.core.block import Block
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.transcript import Plays
from hedgerow.environments.drawn.examples import CHUNK
from hedgerow.environments.measures import Accuracy, TestAccuracy, TestLoss
from hedgerow.evaluation.best_point import best_point
from hedgerow_papers.zhang2024.round_regret import RoundRegret, round_optima
from hedgerow_papers.zhang2024.streams import DriftingExamples, FederatedSynthetic

SMALL: dict[str, Any] = {"clients": 2, "features": 3, "examples": 2, "horizon": CHUNK + 9}
GAMES: tuple[Any, ...] = (
    FederatedSynthetic(**SMALL),
    FederatedSynthetic(**SMALL, scaling="fixed", scale=4.0),
    DriftingExamples(**SMALL),
    DriftingExamples(**SMALL, drift="labels"),
)


def records(game: Any, seed: int = 0, block: int = 10**6) -> np.ndarray:
    state, pieces, rounds = game.start(seed), [], game.setting.rounds
    for first in range(0, rounds, block):
        made, state = game.block(state, min(block, rounds - first), None)
        pieces.append(made.losses)
    return np.concatenate(pieces)


def examples(game: Any, seed: int = 0) -> np.ndarray:
    return game.family.examples(records(game, seed))


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_streams_do_not_depend_on_the_blocks_and_lie_in_range(game: Any) -> None:
    whole = records(game)
    assert whole.shape == (CHUNK + 9, 2, 8)
    for block in (1, 100, CHUNK):
        assert np.array_equal(records(game, block=block), whole)
    assert not np.array_equal(records(game, 1), whole)
    game.family.check("record", whole)


def test_synthetic_clients_have_their_own_law() -> None:
    game = FederatedSynthetic(
        clients=3, features=2, examples=8, horizon=CHUNK, scaling="fixed", scale=1e3
    )
    means, weights, offsets = game.plan(np.random.default_rng(5))
    drawn, labels = game.draw(np.random.default_rng(6), (means, weights, offsets), np.zeros(500), 8)
    features = 1e3 * drawn
    for client in range(3):
        for j in (0, 1):
            scores = (features[:, client, :, j].ravel() - means[client, j]) / (j + 1) ** -0.6
            assert kstest(scores, "norm").pvalue > 0.01
            assert kstest(scores * 1.2, "norm").pvalue < 0.01  # another variance
        sides = features[:, client] @ weights[client] + offsets[client] > 0
        assert np.array_equal(sides, labels[:, client] > 0)


def test_alpha_and_beta_are_standard_deviations() -> None:
    game = FederatedSynthetic(clients=2000, features=4, alpha=3.0, beta=2.0)
    means, _, _ = game.plan(np.random.default_rng(0))
    assert means.mean(axis=1).std() == pytest.approx((2.0**2 + 1 / 4) ** 0.5, rel=0.05)


def test_unit_features_and_the_test_data() -> None:
    game = GAMES[0]
    found = examples(game)
    assert np.linalg.norm(found[..., :-1], axis=-1) == pytest.approx(1.0)
    test = game.test(3)
    assert test.shape == (5000, 4)
    assert np.array_equal(test, game.test(3))
    assert not np.array_equal(test, game.test(4))
    for share in ((test[:, -1] > 0).mean(), (examples(game, 3)[..., -1] > 0).mean()):
        assert 0 <= share <= 1


def test_a_printed_round_can_be_separated() -> None:
    """100 examples in 100 dimensions: the dynamic comparator of the paper's setting is 0."""
    game: Any = FederatedSynthetic()
    plan = game.plan(np.random.default_rng(1))
    features, labels = game.draw(np.random.default_rng(2), plan, np.zeros(1), 5)
    rows = np.concatenate([features, labels[..., None]], axis=-1).reshape(100, 101)
    assert np.linalg.matrix_rank(rows[:, :-1]) == 100
    weights = np.linalg.solve(rows[:, :-1], rows[:, -1])
    assert game.family.of.value(rows, 1e3 * weights).max() < 1e-6


def test_the_concept_rotates() -> None:
    game = DriftingExamples(clients=5, features=2, examples=20, horizon=CHUNK, turns=1.0)
    plan = np.eye(2)
    directions = game.direction(plan, np.array([0.0, 0.25, 0.5]))
    assert directions == pytest.approx(np.array([[1, 0], [0, 1], [-1, 0]]), abs=1e-12)
    features, labels = game.draw(np.random.default_rng(0), plan, np.full(100, 0.25), 20)
    chance = 1 / (1 + np.exp(-game.strength * features[..., 1]))
    expected = round(float(chance[chance > 0.5].sum()))
    hits = int((labels[chance > 0.5] > 0).sum())
    count = int((chance > 0.5).sum())
    assert binomtest(hits, count, expected / count).pvalue > 0.01
    assert binomtest(hits, count, 0.5).pvalue < 1e-6
    assert replace(game, turns=0.0).direction(plan, np.array([0.3])).tolist() == [[1.0, 0.0]]


def test_the_share_of_labels_shifts() -> None:
    game = DriftingExamples(
        clients=10, features=3, examples=10, horizon=CHUNK, drift="labels", turns=1.0
    )
    found = examples(game)
    high, low = found[: CHUNK // 2, ..., -1] > 0, found[CHUNK // 2 :, ..., -1] > 0
    assert high.mean() == pytest.approx(0.5 + 0.8 / np.pi, abs=0.02)
    assert low.mean() == pytest.approx(0.5 - 0.8 / np.pi, abs=0.02)
    assert (found[..., -2] > 0).all()  # the constant feature


@pytest.mark.parametrize(
    ("kind", "choices", "text"),
    [
        (FederatedSynthetic, {"examples": 0}, "examples=0"),
        (FederatedSynthetic, {"scaling": "none"}, "scaling='none'"),
        (FederatedSynthetic, {"alpha": -1.0}, "alpha=-1.0"),
        (DriftingExamples, {"features": 1}, "features=1"),
        (DriftingExamples, {"drift": "jump"}, "drift='jump'"),
        (DriftingExamples, {"turns": -1.0}, "turns=-1.0"),
    ],
)
def test_bad_choices_are_refused(kind: Any, choices: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidValue, match=text):
        kind(**choices)


def test_round_optima_are_those_of_single_rounds() -> None:
    game = DriftingExamples(clients=4, features=2, examples=10, horizon=6)
    found, drawn = round_optima(game, 1), records(game, 1)
    for r in (0, 5):
        alone = best_point(game.family, 2, lambda r=r: [drawn[r]], 1e-9)
        assert found.totals[r] == pytest.approx(alone.total, abs=4e-4)
    measure = RoundRegret(game)
    measure.marks = (2, 6)
    measure.begin(1)
    point = np.array([1.0, -0.5])
    plays = Plays.of(np.broadcast_to(point, (6, 4, 2)))
    measure.rounds(0, Block.of(drawn[:2]), Plays.of(np.broadcast_to(point, (2, 4, 2))))
    measure.rounds(2, Block.of(drawn[2:]), Plays.of(np.broadcast_to(point, (4, 4, 2))))
    each = (game.family.value(drawn, plays.dense()).sum(axis=1) - found.totals) / 4
    assert measure.curve() == pytest.approx([each[:2].sum(), each.sum()])
    assert (each > -4e-4).all()


def test_accuracy_of_batches_and_on_test_data() -> None:
    drawn = np.array([[[1.0, 1.0, -1.0, 1.0]], [[1.0, -1.0, -1.0, -1.0]]])  # two examples each
    online = Accuracy(2)
    online.marks = (1, 2)
    online.rounds(0, Block.of(drawn), Plays.of(np.full((2, 1, 1), 0.5)))
    assert online.curve().tolist() == [0.5, 0.5]
    test = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [0.5, 1.0]])
    family = hr.Logistic(radius=9.0)
    right, loss = (
        TestAccuracy(family, lambda seed: test),
        TestLoss(family, lambda seed: test[seed:]),
    )
    points = np.array([[[1.0]], [[1.0]], [[-2.0]]])
    for measure in (right, loss):
        measure.marks = (1, 3)
        measure.begin(2)
        measure.rounds(0, Block.of(np.zeros((3, 1, 2))), Plays.of(points))
    assert right.curve().tolist() == [0.75, 0.25]
    expected = [family.value(test[2:], np.array([[x]])).mean() for x in (1.0, -2.0)]
    assert loss.curve() == pytest.approx(expected)


def test_test_data_are_used_at_few_marks() -> None:
    seen = []

    class Noting(TestLoss):
        def value(self, point: np.ndarray) -> float:
            seen.append(float(point[0]))
            return float(point[0])

    measure = Noting(hr.Logistic(), lambda seed: np.zeros((0, 2)), points=2)
    measure.marks = tuple(range(1, 8))
    plays = Plays.of(np.arange(7.0).reshape(7, 1, 1))
    measure.rounds(0, Block.of(np.zeros((7, 1, 2))), plays)
    assert measure.curve().tolist() == [0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 6.0]
    assert seen == [0.0, 2.0, 6.0]
    with pytest.raises(Unsupported, match="share"):
        Noting(hr.Logistic(), lambda seed: np.zeros(1))._point(Plays.of(np.eye(2)[None]), 0)


def pair(count: int, label: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    return np.full((count, 2), 0.1), np.full(count, label)


def test_own_arrays_are_played_in_order() -> None:
    features = np.linspace(0, 0.5, 12).reshape(6, 2)
    game = hr.ClientData([(features, np.ones(6)), pair(9)], hr.Logistic(), examples=2)
    assert (game.setting.horizon, game.unused, game.setting.experts) == (3, 3, 2)
    found = examples(game)
    assert np.array_equal(found[:, 0, :, :2].reshape(6, 2), features)


@pytest.mark.parametrize(
    ("data", "choices", "text"),
    [
        ([], {}, "at least one client"),
        ({"a": pair(3), "b": pair(0)}, {}, "'b' has no examples. Leave it out"),
        ({"a": pair(3), "b": pair(1)}, {"examples": 2}, "'b' has 1 examples"),
        ({"a": pair(3)}, {"horizon": 4}, "'a' has 3 examples.* or set horizon=3 or less"),
        ([pair(3), (np.zeros((3, 1)), np.ones(3))], {}, "Client 1 has 1 features"),
        ([(np.zeros((3, 2)), np.ones(2))], {}, r"client 0, got shapes \(3, 2\) and \(2,\)"),
        ([pair(3, 0.0)], {}, "to be -1 or 1"),
        ({"a": (np.ones((3, 2)), np.ones(3))}, {}, "In client 'a'.*record 0.*set clip=True"),
        ([pair(3)], {"test": pair(3, 0.0)}, "In the test data.*to be -1 or 1"),
        ([pair(3)], {"test": (np.zeros((3, 1)), np.ones(3))}, "have 1 features, but the clients"),
        ([pair(3)], {"test": pair(0)}, "test data have no examples"),
        ([(np.full((3, 2), np.nan), np.ones(3))], {}, "finite"),
    ],
)
def test_own_arrays_that_do_not_fit_are_refused(data: Any, choices: Any, text: str) -> None:
    with pytest.raises(InvalidValue, match=text):
        hr.ClientData(data, hr.Logistic(), **choices)


def test_examples_that_a_model_does_not_take_are_refused() -> None:
    model = hr.convolutional((), (), image=(1, 3), classes=2)
    with pytest.raises(InvalidValue, match="have 2 features, but the model takes 3"):
        hr.ClientData([pair(3)], model)


def test_own_arrays_can_be_clipped() -> None:
    game = hr.ClientData([(np.ones((3, 2)), np.ones(3))], hr.Logistic(), clip=True)
    assert game.moved == 3
    assert np.linalg.norm(examples(game)[..., :-1], axis=-1) == pytest.approx(1.0)


ROWS = ["round,client,x,z,target", "0,b,0.1,0.2,1", "1,a,0.3,0.1,-1", "0,a,0.5,0.5,1"]


def test_a_file_of_examples(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("\n".join([*ROWS, "1,b,0.0,0.1,1"]))
    game: Any = hr.RecordedExamples(str(file))
    assert records(game)[:, 0].tolist() == [[0.5, 0.5, 1.0], [0.3, 0.1, -1.0]]  # client a
    assert game.family.size == 1
    squared: Any = hr.RecordedExamples(str(file), loss="squared", radius=2.0)
    assert squared.family.of == hr.SquaredError(radius=2.0)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (ROWS, "The client of line . has 0 examples in round 1"),
        (["client,x,target", "a,1,1"], "column 'round'"),
        (["round,client,x", "0,a,1"], "'target' or 'label'"),
        (["round,client,target", "0,a,1"], "one column of features"),
        (["round,client,x,target", "-1,a,0,1"], "whole round numbers"),
        (["round,client,x,target", "0,a,why,1"], "numbers in column 'x'"),
        (["round,client,x,target", "0,a,3.0,1"], "feature_norm=1.0"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(rows: list[str], text: str, tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("\n".join(rows))
    with pytest.raises(InvalidValue, match=text):
        _ = hr.RecordedExamples(str(file)).setting
