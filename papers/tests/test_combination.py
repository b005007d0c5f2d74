"""Combined forecasts: figures by hand, verdicts that can fail, missing data, and quick forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.studies.run import run_study
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.ours import combination, combination_losses, personal_play
from hedgerow_papers.ours.drawn_quantiles import LEVELS, DrawnQuantiles
from hedgerow_papers.ours.flu_combination import FluCombination

OFF = 0.02 * np.array([-1.0, 1.0, -1.0, 1.0])  # of four made-up seeds


def _made_up(law: Callable[[str, str], float]) -> Any:
    """Studies of the quick form whose error is `law(study, label)` in every week."""

    def study(name: str, config: Any) -> Any:
        def of(label: str) -> list[Any]:
            curves = [np.cumsum(np.full(56, law(name, label) + off)) for off in OFF]
            return [SimpleNamespace(figures={"error": curve}) for curve in curves]

        return SimpleNamespace(of=of, config=config)

    made = combination.studies(True)
    return {name: study(name, config) for name, config in made.items()}


def _honest(name: str, label: str) -> float:
    few = {"answering=5": 15.7, "liars=3": 15.5, "liars=10": 15.6, combination.ALONE: 15.62}
    weak = {"epsilon=0.1": 15.8, combination.TOGETHER: 15.1}
    return (few | weak).get(label, 15.37)


def _failed(law: Callable[[str, str], float]) -> list[str]:
    checks = combination.judge(_made_up(law)).checks
    return [check.name for check in checks if not check.passed]


def _but(label: str, value: float) -> Callable[[str, str], float]:
    return lambda name, text: value if text == label else _honest(name, text)


def test_the_verdict_follows_the_errors() -> None:
    assert not _failed(_honest)
    wrong = {
        "12 models/epsilon=0.5/above-plain": _but("epsilon=0.5", 15.8),
        "12 models/epsilon=0.1/above-plain": _but("epsilon=0.1", 16.0),
        "12 models/epsilon=1/error": _but("epsilon=1", 15.5),
        "12 models/below-alone-not-private": _but(combination.ALONE, 15.3),
        "answering/5-above-53/lower-end": _but("answering=5", 15.3),
        "liars/3/above-plain": _but("liars=3", 15.8),
        "liars/10-above-3/lower-end": _but("liars=10", 15.4),
    }
    for name, law in wrong.items():
        assert name in _failed(law), name
    assert "12 models/epsilon=1/below-plain" in _failed(lambda *_: 15.9)


def test_errors_are_those_of_a_hand() -> None:
    game = combination.MAIN
    study = run_study(combination.studies(True)["12-models-exact"], workers=1)
    found = combination.error(study, combination.TOGETHER).mean
    table = hr.combine(hr.FluSight().combination, cut_off=1.0, seeds=1)
    assert found == pytest.approx(table["together, not private"].loss.mean)
    alone = combination.error(study, combination.ALONE).mean
    assert alone == pytest.approx(table["alone, not private"].loss.mean)
    assert combination.plain(game) == pytest.approx(table["plain average"].loss.mean)
    median = combination.references(game)["median"].mean()
    assert median == pytest.approx(table["median"].loss.mean)


def test_silent_states_send_nothing_and_liars_push_the_worst_model() -> None:
    silent = FluCombination(answering=5)
    block, _ = silent.block(silent.start(3), 10, None)
    answered = (block.reports != 0).any(axis=(0, 2))
    assert set(np.flatnonzero(answered)) == set(silent.chosen(3)[:5])
    assert (block.losses != 0).any(axis=(0, 2)).all()
    lying = FluCombination(liars=4)
    block, _ = lying.block(lying.start(3), 10, None)
    changed = (block.reports != block.losses).any(axis=2)
    liars = lying.chosen(3)[:4]
    assert set(np.flatnonzero(changed.any(axis=0))) == set(liars)
    pushed = block.reports[:, liars, -1] * block.losses[:, liars, lying.worst]
    assert (pushed >= 0).all()
    assert lying.table.models[lying.worst] == "LosAlamos_NAU-CModel_Flu"


def test_games_without_raw_data_are_left_out_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    names = combination.studies(False)
    assert [name for name in names if "ahead" in name] == []
    assert "42-models" in names
    made = _made_up(_honest)
    assert "left out" not in combination.judge(made).message  # the quick form leaves more out
    monkeypatch.setattr(combination, "is_quick", lambda *_: False)
    assert "left out, because no data folder has" in combination.judge(made).message


def test_drawn_quantiles_are_in_order_and_plain_weights_pay_what_is_measured() -> None:
    game = DrawnQuantiles(loss="wis", clients=3, models=4, horizon=20)
    block, _ = game.block(game.start(1), 20, None)
    split = block.losses[..., :-1].reshape(20, 3, len(LEVELS), 4)
    assert (np.diff(split, axis=2) > 0).all()
    measured = game.measures()[0]
    by_hand = game.family.value(block.losses, np.full(4, 0.25)).mean(axis=1)
    assert measured.amounts(block, np.zeros((20, 3))) == pytest.approx(by_hand)


def _losses(**levels: float) -> list[str]:
    """The checks that fail if the loss is 0.9 of that of equal weights, but for these labels."""

    def of(label: str) -> list[Any]:
        level = levels.get(label.replace("=", "").replace(".", ""), 0.9)
        return [SimpleNamespace(loss=[level + o / 100], figures={"plain": [1.0]}) for o in OFF]

    made = combination_losses.studies(True)
    done: Any = {name: SimpleNamespace(of=of, config=config) for name, config in made.items()}
    return [check.name for check in combination_losses.judge(done).checks if not check.passed]


def test_the_verdict_on_losses_follows_what_is_gained() -> None:
    assert _losses() == _losses(epsilon01=1.01, epsilon1=0.99) == []
    assert len(_losses(epsilon01=1.02)) == len(combination_losses.WORDS)
    assert "wis/epsilon=3/over-plain, upper end" in _losses(epsilon3=1.0)
    kept = _losses(epsilon10=0.92)  # four fifths of the gain
    assert kept == [f"{loss}/epsilon=10/gain-kept" for loss in ("absolute", "pinball", "wis")]


def _personal(home: float, alone: float) -> list[str]:
    """The checks of personal play that fail, with these losses in games of 120 rounds."""
    losses = {personal_play.AT_HOME: home, personal_play.ALONE: alone}

    def of(label: str) -> list[Any]:
        level = losses.get(label, 90.0)
        return [SimpleNamespace(loss=[level + o], figures={"plain": [100.0]}) for o in OFF]

    made = personal_play.studies(True)
    done: Any = {name: SimpleNamespace(of=of, config=config) for name, config in made.items()}
    return [check.name for check in personal_play.judge(done).checks if not check.passed]


def test_the_verdict_on_personal_play_has_two_margins() -> None:
    assert not _personal(80.0, 80.0)
    assert not _personal(81.5, 80.0)  # 1.9 %
    assert all("alone" in name for name in _personal(82.5, 80.0))  # 3.1 %, of 120 rounds
    assert len(_personal(82.5, 80.0)) == len(personal_play.studies(True)) - 1  # one is of 56 rounds
    assert not _personal(11.5, 10.0)  # 15 %, but less than two of 120 rounds
    assert len(_personal(12.0, 10.0)) > 1
    assert all("public" in name for name in _personal(92.5, 95.0))


def test_places_differ_as_they_should() -> None:
    def biases(**choices: Any) -> np.ndarray:
        game = personal_play.DifferentPlaces(**choices)
        rows = game.chunk(0, 0)
        return (rows[..., :-1] - rows[..., -1:])[:100].mean(axis=0)

    assert biases(own=0.0).std(axis=0).max() < 0.2 < biases(own=1.0).std(axis=0).min()
    assert np.abs(biases(own=1.0, lasting=2.0)).mean() < 0.3 * np.abs(biases(own=1.0)).mean()
    rows = personal_play.DifferentPlaces(kind="other models").chunk(1, 0)
    errors = np.abs(rows[..., :-1] - rows[..., -1:]).mean(axis=0)
    assert (np.sort(errors, axis=1)[:, 0] < 0.6 * np.sort(errors, axis=1)[:, 1]).all()
    game = personal_play.DifferentPlaces(kind="waves", lasting=10.0)
    assert np.array_equal(game.chunk(3, 0), game.chunk(3, 0))


@pytest.mark.parametrize("module", [combination, combination_losses, personal_play])
@pytest.mark.long
def test_quick_forms_run(module: Any, tmp_path: Path) -> None:
    outcome = reproduce(module.EXPERIMENT, quick=True, out=tmp_path / "run", workers=1)
    assert outcome.status == "quick", outcome.message
    assert (tmp_path / f"run/{module.EXPERIMENT.id}.png").stat().st_size > 10_000
