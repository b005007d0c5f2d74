"""The best point is found once for the same records, whatever the seed, and again for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.evaluation import recorder


def _table(shift: float) -> hr.ForecastTable:
    rng = np.random.default_rng(0)
    forecasts = rng.normal(size=(12, 3, 4))
    return hr.ForecastTable(forecasts, forecasts[..., 0] * shift)


def test_seeds_of_a_recorded_game_share_the_best_point(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Any] = []
    found = recorder.best_point

    def counted(*given: Any) -> Any:
        searched.append(given)
        return found(*given)

    monkeypatch.setattr(recorder, "best_point", counted)
    monkeypatch.setattr(recorder, "_found", {})
    games = {shift: hr.Combining(_table(shift)) for shift in (1.0, -1.0)}
    regrets = {}
    for shift, game in games.items():
        study = hr.run(game, {"a": hr.Mixture(), "b": hr.PrivateMixture()}, seeds=3)
        regrets[shift] = study["a"].regret.mean
    assert len(searched) == 2  # one for each game, not one for each seed
    assert regrets[1.0] != regrets[-1.0]
    other = hr.Combining(_table(1.0), loss="pinball", quantile=0.9)
    hr.run(other, {"a": hr.Mixture()}, seeds=1)
    assert len(searched) == 3  # the same records under another loss


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_found", {})
    monkeypatch.setattr(recorder, "FOUND", 2)
    for shift in (1.0, 0.5, 0.25):
        hr.run(hr.Combining(_table(shift)), {"a": hr.Mixture()}, seeds=1)
    assert len(recorder._found) == 1
