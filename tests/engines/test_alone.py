"""Every client by itself: the same games as one client has, averaged; in studies and pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.transcript import Everything
from hedgerow.engines.alone import own_seed
from hedgerow.studies.config import study_from_table, study_table
from hedgerow.studies.run import run_study

RNG = np.random.default_rng(3)
LOSSES = RNG.random((60, 3, 4)) * [0.4, 1.0, 0.9, 1.0]
GAPS = np.where(RNG.random((60, 3, 1)) < 0.2, np.nan, LOSSES)
SLEEPY = np.where(RNG.random(LOSSES.shape) < 0.1, np.nan, GAPS)
GAMES = {
    "plain": hr.RecordedArray(LOSSES),
    "absent": hr.RecordedArray(GAPS, missing="absent"),
    "sleeping": hr.RecordedArray(SLEEPY, missing="absent"),
}
SPECS: dict[str, Any] = {
    "phased": hr.PhasedSelection(),
    "local": hr.PhasedSelection(trust="local"),
    "sparse": hr.SparseVector(epsilon=4.0),
    "open": hr.FollowTheLeader(),
}


def _plays(spec: Any, game: Any, seed: int, **options: Any) -> np.ndarray:
    kept = Everything(wants_messages=False)
    clients = 1 if options.get("alone") else game.setting.clients
    hr.simulate(
        spec.build(replace(game.setting, clients=clients)), game, seed, sinks=[kept], **options
    )
    return kept.all_plays()


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("name", GAMES)
def test_a_client_alone_plays_the_game_of_one_client(name: str, spec: Any) -> None:
    game = GAMES[name]
    values = {"plain": LOSSES, "absent": GAPS, "sleeping": SLEEPY}[name]
    plays = _plays(spec, game, 5, alone=True)
    for client in range(3):
        one = hr.RecordedArray(values[:, client : client + 1], missing="absent")
        assert np.array_equal(plays[:, client : client + 1], _plays(spec, one, own_seed(5, client)))
    for options in ({"block_rounds": 7}, {"fused": False}, {"engine": "in_process"}):
        assert np.array_equal(_plays(spec, game, 5, alone=True, **options), plays)


def test_regret_alone_is_against_the_best_common_expert() -> None:
    study = hr.run(GAMES["plain"], {"a": hr.PhasedSelection()}, seeds=2, alone=True)
    plays = _plays(hr.PhasedSelection(), GAMES["plain"], 1, alone=True)
    losses = GAMES["plain"].losses
    paid = np.take_along_axis(losses, plays[..., None], axis=-1).sum() / 3
    result = study.of("a, alone")[1]
    assert result.loss[-1] == pytest.approx(paid)
    assert result.final_regret == pytest.approx(paid - losses.sum(axis=(0, 1)).min() / 3)
    own = losses.sum(axis=0).min(axis=1).sum() / 3
    assert result.own_best_regret == pytest.approx(paid - own)
    assert (result.exchanges, result.uploaded_bytes, result.broadcast_bytes) == (0, 0, 0)
    assert study["a, alone"].algorithm.setting.clients == 1
    assert study["a"].algorithm.setting.clients == 3


def test_together_is_better_where_the_best_expert_is_common() -> None:
    """The comparison could come out the other way: here every client has another best expert."""
    game = hr.Realizable(clients=12, experts=20, horizon=128)
    study = hr.run(game, {"a": hr.PhasedSelection()}, seeds=5, alone=True)
    change = study.together()["a"]
    assert change.high < -5
    assert f"\na: together instead of alone changes the regret by {change.words()}" in str(study)
    own = np.ones((128, 4, 4))
    own[:, range(4), range(4)] = 0.0  # each client has its own best expert
    apart = hr.run(own, {"a": hr.PhasedSelection(epsilon=50.0)}, seeds=3, alone=True)
    assert apart.together()["a"].low > 5
    assert hr.run(own, {"a": hr.Hedge()}, seeds=1).together() == {}


def test_an_environment_that_sees_plays_sees_those_of_all_clients() -> None:
    game = hr.PlayChasing(clients=2, experts=3, horizon=20)
    study = hr.run(game, {"a": hr.Uniform()}, seeds=1, alone=True)
    assert len(study.of("a, alone")) == 1


class OneDecider(hr.Realizable):
    """A game in which one decider plays for all clients."""

    @property
    def setting(self) -> hr.Setting:
        return replace(super().setting, deciders=1)


def test_a_study_file_asks_for_it_in_one_line(tmp_path: Path) -> None:
    table: dict[str, Any] = {
        "seeds": 2,
        "alone": True,
        "environment": {"name": "realizable", "clients": 3, "experts": 4, "horizon": 20},
        "algorithms": [{"name": "phased_selection"}, {"label": "open", "name": "hedge"}],
    }
    config = study_from_table(table)
    labels = ["phased_selection", "phased_selection, alone", "open", "open, alone"]
    assert [entry.label for entry in config.algorithms] == labels
    assert study_from_table(study_table(config)) == config
    study = run_study(config, workers=1)
    again = run_study(config, workers=2)
    for label in labels:
        assert np.array_equal(study.regrets(label), again.regrets(label))
    study.plot(tmp_path / "regret.png")
    assert (tmp_path / "regret.png").stat().st_size > 10_000
    with pytest.raises(hr.InvalidValue, match="Expected alone=1 to be true or false"):
        study_from_table({**table, "alone": 1})
    with pytest.raises(hr.Unsupported, match="phased_selection, alone: single clients are needed"):
        run_study(replace(config, engine="summed"))
    with pytest.raises(hr.Unsupported, match="only where the clients play"):
        hr.run(
            OneDecider(clients=3, experts=3, horizon=20),
            {"a": hr.WalkLeader(reports="silo")},
            seeds=1,
            alone=True,
        )


def test_dashed_lines_are_those_of_clients_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from hedgerow.evaluation.plots import over_time

    drawn: dict[str, bool] = {}
    draw = over_time._draw

    def watched(axes: Any, lines: Any, colours: Any) -> None:
        drawn.update({name: line.dashed for name, line in lines.items()})
        draw(axes, lines, colours)
        shown = {line.get_label(): line.get_linestyle() for line in axes.lines}
        assert {name: shown[name] == "--" for name in lines} == drawn

    monkeypatch.setattr(over_time, "_draw", watched)
    study = hr.run(GAMES["plain"], {"a": hr.Uniform()}, seeds=1, alone=True)
    study.plot(tmp_path / "regret.png")
    assert drawn == {"a": False, "a, alone": True}
