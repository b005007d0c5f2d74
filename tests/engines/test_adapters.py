"""Adapters: the estimator and the stream play what a learner plays, and fit where users are."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.errors import InvalidValue
from hedgerow.records.schema import read_record

RNG = np.random.default_rng(0)
FEATURES = RNG.random((120, 2))
TARGET = 2 * FEATURES[:, 0] + 0.01 * RNG.normal(size=120)
SPEC = hr.PhasedSelection(epsilon=6.0)


class Times:
    """A fitted model, as scikit-learn and river would have it."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def predict(self, features: Any) -> np.ndarray:
        return self.factor * np.asarray(features)[:, 0]

    def predict_one(self, x: dict[str, float]) -> float:
        return self.factor * x["a"]


FACTORS = (1.0, 2.0, 3.0)
PAIRS = [(str(factor), Times(factor)) for factor in FACTORS]


def _losses(target: np.ndarray) -> np.ndarray:
    said = np.stack([factor * FEATURES[:, 0] for factor in FACTORS], axis=-1)
    return hr.forecast_losses(said, target, largest_error=2.0)[0]


def _played(losses: np.ndarray, clients: int, seed: int = 4) -> np.ndarray:
    """The plays of a learner, and after them those of the next round."""
    learner = hr.Learner(SPEC, clients=clients, experts=3, horizon=130, absent=True, seed=seed)
    plays = [learner.predict()]
    for row in losses.reshape(-1, clients, 3):
        here = ~np.isnan(row).any(axis=-1)
        learner.observe(row, here)
        plays.append(learner.predict())
    return np.array(plays)


@pytest.mark.parametrize("clients", [1, 3])
def test_the_estimator_plays_what_a_learner_plays(clients: int) -> None:
    target = TARGET.copy()
    target[7] = np.nan
    model = hr.ExpertEstimator(
        PAIRS, SPEC, horizon=130, clients=clients, largest_error=2.0, absent=True, seed=4
    )
    half = 60
    model.partial_fit(FEATURES[:half], target[:half]).partial_fit(FEATURES[half:], target[half:])
    expected = _played(_losses(target), clients)[-1]
    factors = np.array(FACTORS)[expected[np.arange(6) % clients]]
    assert model.predict(FEATURES[:6]) == pytest.approx(factors * FEATURES[:6, 0])
    again = model.__sklearn_clone__().fit(FEATURES, target)  # what clone does
    assert np.array_equal(again.predict(FEATURES[:6]), model.predict(FEATURES[:6]))
    assert model.certificate.public.curve.stated() == (6.0, 0.0)


def test_a_masked_target_is_that_of_an_absent_client(monkeypatch: pytest.MonkeyPatch) -> None:
    model = hr.ExpertEstimator(PAIRS, SPEC, horizon=130, clients=2, largest_error=2.0, absent=True)
    hidden = np.arange(120) % 7 == 3
    wrong = np.where(hidden, 100.0, TARGET)  # under the mask
    seen: list[Any] = []
    monkeypatch.setattr(hr.Learner, "observe", lambda _, *given: seen.append(given))
    model.fit(FEATURES, np.ma.masked_array(wrong, mask=hidden))
    model.fit(FEATURES, np.where(hidden, np.nan, TARGET))
    for (losses, here), (expected, present) in zip(seen[:60], seen[60:], strict=True):
        assert np.array_equal(losses, expected)
        assert np.array_equal(np.asarray(here), np.asarray(present))
    model.absent = False
    with pytest.raises(InvalidValue, match="A target is missing"):
        model.fit(FEATURES, np.ma.masked_array(wrong, mask=hidden))


def test_a_masked_prediction_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def masked(self: Times, features: Any) -> Any:
        return np.ma.masked_array(np.asarray(features)[:, 0], mask=[True] + [False] * 119)

    monkeypatch.setattr(Times, "predict", masked)
    model = hr.ExpertEstimator(PAIRS, SPEC, horizon=130, clients=2, largest_error=2.0)
    with pytest.raises(InvalidValue, match="Expected every expert to predict in every row"):
        model.fit(FEATURES, TARGET)


@pytest.mark.parametrize("source", [None, hr.SecureNoise()])
def test_rows_are_not_counted_again_after_an_interrupt(
    source: hr.SecureNoise | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = hr.ExpertEstimator(
        PAIRS, SPEC, horizon=60, clients=2, largest_error=2.0, source=source
    ).partial_fit(FEATURES[:4], TARGET[:4])
    observe = hr.Learner.observe

    def stopped(self: hr.Learner, *given: Any) -> None:
        observe(self, *given)
        if self.round == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hr.Learner, "observe", stopped)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(FEATURES[4:20], TARGET[4:20])
    with pytest.raises(InvalidValue, match="interrupted after 3 of 8 rounds"):
        model.partial_fit(FEATURES[4:20], TARGET[4:20])
    model.partial_fit(FEATURES[10:20], TARGET[10:20])  # the others
    assert model.learner.round == 10


def test_the_estimator_says_what_is_wrong() -> None:
    model = hr.ExpertEstimator(PAIRS, SPEC, horizon=9, clients=2, largest_error=2.0)
    with pytest.raises(hr.InvalidValue, match="has not learned yet"):
        model.predict(FEATURES)
    with pytest.raises(hr.InvalidValue, match="whole rounds of 2 clients, got 3 rows and 3"):
        model.fit(FEATURES[:3], TARGET[:3])
    with pytest.raises(hr.InvalidValue, match="Unknown parameter 'rate'; valid: estimators, "):
        model.set_params(rate=1.0)
    assert model.set_params(clients=1).clients == 1
    with pytest.raises(hr.InvalidValue, match="absent=True"):
        model.fit(FEATURES[:1], [np.nan])


def test_the_stream_plays_what_a_learner_plays() -> None:
    experts = hr.StreamExperts(
        dict(PAIRS), SPEC, horizon=130, clients=3, largest_error=2.0, absent=True, seed=4
    )
    gone = np.arange(120) % 10 == 7  # cases that a client does not have
    plays = _played(_losses(np.where(gone, np.nan, TARGET)), 3)
    for case in range(120):
        t, client = divmod(case, 3)
        x = {"a": float(FEATURES[case, 0])}
        if not gone[case]:
            said = experts.predict_one(x, client=client)
            assert said == pytest.approx(FACTORS[plays[t, client]] * x["a"])
            experts.learn_one(x, float(TARGET[case]), client=client)
        if client == 2 and experts.round == t:
            experts.end_round()
    assert experts.round == 40
    assert experts.predict_one({"a": 1.0}) == FACTORS[plays[40, 0]]
    assert "PUBLIC_PRESENCE" in {a.name for a in experts.certificate.public.assumes}


def test_a_round_ends_when_a_client_comes_again() -> None:
    experts = hr.StreamExperts(
        dict(PAIRS), SPEC, horizon=9, clients=2, largest_error=2.0, absent=True
    )
    for _ in range(3):
        experts.predict_one({"a": 1.0}, client=1)
        experts.learn_one({"a": 1.0}, 2.0, client=1)
    assert experts.round == 2
    experts.predict_one({"a": 1.0}, client=1)
    assert experts.round == 3
    experts.learn_one({"a": 1.0}, None, client=1)  # nothing is known of this case
    assert experts.round == 3


def test_the_stream_says_what_is_wrong() -> None:
    experts = hr.StreamExperts(dict(PAIRS), SPEC, horizon=9, clients=2, largest_error=2.0)
    assert experts.learn_one({"a": 1.0}, 2.0) is None
    with pytest.raises(hr.InvalidValue, match=r"Client 0 has learned .* clients \[1\] have not"):
        experts.learn_one({"a": 1.0}, 2.0)
    with pytest.raises(hr.InvalidValue, match=r"Expected client=2 in 0, \.\.\., 1"):
        experts.predict_one({"a": 1.0}, client=2)
    with pytest.raises(hr.InvalidValue, match="Expected every expert to predict"):
        experts.learn_one({"a": float("nan")}, 2.0, client=1)
    experts.learn_one({"a": 1.0}, 2.0, client=1)
    assert experts.round == 1


def test_private_adapters_have_secure_noise() -> None:
    stream = hr.StreamExperts(
        dict(PAIRS), SPEC, horizon=9, largest_error=2.0, source=hr.SecureNoise()
    )
    model = hr.ExpertEstimator(
        PAIRS, SPEC, horizon=9, largest_error=2.0, source=hr.SecureNoise()
    ).fit(FEATURES[:4], TARGET[:4])
    for made in (stream, model):
        assert "ENTROPY" in {a.name for a in made.certificate.public.assumes}


def test_adapters_write_the_record_of_a_deployment_first(tmp_path: Path) -> None:
    game: dict[str, Any] = {"horizon": 9, "largest_error": 2.0, "source": hr.SecureNoise()}
    stream, model = (
        hr.StreamExperts(dict(PAIRS), SPEC, **game),
        hr.ExpertEstimator(PAIRS, SPEC, **game),
    )
    for name, made in (("stream", stream), ("model", model)):
        folder = hr.record_deployment(made.learner, tmp_path / name, title=name)
        assert read_record(folder).played == 0
    stream.learn_one({"a": 1.0}, 2.0)
    recorded = model.learner
    with pytest.raises(InvalidValue, match="keeps its parameters"):
        model.set_params(horizon=5)
    model.fit(FEATURES[:4], TARGET[:4])
    assert model.learner is recorded
    assert (stream.learner.status().round, recorded.round) == (1, 4)


def _private(**more: Any) -> Any:
    models = {str(factor): Times(factor) for factor in FACTORS}
    game: dict[str, Any] = {"horizon": 20, "clients": 2, "largest_error": 2.0, **more}
    return hr.StreamExperts(models, SPEC, source=hr.SecureNoise(), **game)


def test_private_experts_cannot_be_copied() -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(_private())


def test_rows_of_a_round_that_fails_are_not_counted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experts = _private(absent=True)
    experts.learn_one({"a": 0.5}, 1.0, client=0)

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hr.Learner, "observe", stopped)
        with pytest.raises(KeyboardInterrupt):
            experts.end_round()
    seen: list[Any] = []
    monkeypatch.setattr(hr.Learner, "observe", lambda _, losses, here: seen.append(here))
    experts.end_round()
    assert not seen[0].any()


def test_errors_of_private_experts_show_no_target() -> None:
    with pytest.raises(InvalidValue, match="Expected targets of plain numbers") as error:
        _private().learn_one({"a": 0.5}, "HIV positive")
    assert "HIV" not in str(error.value)


def test_the_estimator_learns_all_rows_or_none() -> None:
    model = hr.ExpertEstimator(
        PAIRS, SPEC, horizon=20, clients=1, largest_error=2.0, source=hr.SecureNoise()
    )
    model.partial_fit(FEATURES[:2], TARGET[:2])
    gap = np.array([1.0, 1.0, np.nan])
    with pytest.raises(InvalidValue, match="Nothing was learned"):
        model.partial_fit(FEATURES[:3], gap)
    assert model.learner_.round == 2
    with pytest.raises(InvalidValue, match="has learned already"):
        model.fit(FEATURES[:2], TARGET[:2])
