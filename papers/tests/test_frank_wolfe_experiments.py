"""Frank-Wolfe on trees: the verdicts of its experiments on made-up results, and quick runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hedgerow.core.registry import EXPERIMENTS
from hedgerow.core.setting import Setting
from hedgerow_papers.experiments.experiment import Verdict
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.gao2024 import figure1 as figure
from hedgerow_papers.gao2024 import frank_wolfe_speedup as speedup
from hedgerow_papers.gao2024.class_forecasts import ClassForecasts
from hedgerow_papers.ours import frank_wolfe_trust as trust
from support.made_up import made_up


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def test_figure_1_is_judged_by_ten_clients_against_one() -> None:
    configs = figure.studies(quick=True)

    def judged(gain: float, certified: float = 0.9) -> Verdict:
        def law(label: str, setting: Setting) -> float:
            times = certified if figure.CERTIFIED in label else gain
            return 30.0 / (times if setting.clients > 1 else 1)

        return figure.judge({name: made_up(config, law) for name, config in configs.items()})

    # With the linear reading the printed noise costs far more than claimed.
    assert judged(5.0).holds == "with other constants"
    assert judged(0.9).holds == "no"
    assert failed(judged(5.0)) == []
    assert failed(judged(2.0)) == ["linear/printed noise/m=1-over-m=10"]
    assert [name for name in failed(judged(0.9)) if "lower end" in name] == [
        f"{reading}/{noise}/m=1-above-m=10/lower end"
        for reading in (figure.LINEAR, figure.CURVED)
        for noise in (figure.PRINTED, figure.SMALL)
    ]
    better = judged(5.0, certified=5.0)
    assert better.holds == "with other constants"
    assert failed(better) == ["linear/certified noise/m=1-above-m=10/lower end"]


def test_the_best_vertex_is_that_of_a_search() -> None:
    game = ClassForecasts(clients=2, classes=4, horizon=300)
    records = game.block(game.start(3), 300, None)[0].losses
    points = np.broadcast_to(np.eye(4)[:, None, None], (4, 300, 2, 4))
    totals = game.family.value(np.broadcast_to(records, points.shape), points).sum(axis=(1, 2))
    assert figure.best_vertex(game, 3) == pytest.approx(totals.min() / 2, rel=1e-9)


def test_trust_is_judged_by_where_noise_is_and_by_phased_selection() -> None:
    configs = trust.studies(quick=True)

    def judged(vertex: float, tree: float) -> Verdict:
        def law(label: str, setting: Setting) -> float:
            factors = {trust.ONE_TREE: tree} | {f"{name}/vertex": vertex for name in trust.TRUST}
            return 10.0 * factors.get(label, 1.0)

        return trust.judge({name: made_up(config, law) for name, config in configs.items()})

    assert failed(judged(0.8, 3.0)) == []
    assert failed(judged(0.8, 1.5)) == ["linear/one-tree-over-phased-selection"]
    assert failed(judged(1.2, 3.0)) == [
        f"{name}/T_1={trees}/vertex-over-leaf" for name in trust.TRUST for trees in trust.TREES
    ]


def test_the_speed_up_is_judged_by_slopes_orders_and_counts() -> None:
    configs = speedup.studies(quick=True)

    def judged(power: float, size: float) -> Verdict:
        return speedup.judge(
            {
                name: made_up(config, lambda _, setting: size * setting.clients**power)
                for name, config in configs.items()
            }
        )

    counted = [name for name in failed(judged(-0.6, 10.0)) if "numbers sent" not in name]
    assert counted == []  # made-up runs send nothing, so every count is off
    assert judged(-0.6, 10.0).holds == "with other constants"
    assert judged(-0.1, 10.0).holds == "no"
    assert judged(-0.6, 1e6).holds == "no"


@pytest.mark.long
@pytest.mark.parametrize("name", ["gao2024-figure1", "frank-wolfe-trust", "frank-wolfe-speedup"])
def test_quick_reproductions_run(name: str, tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENTS[name], quick=True, out=tmp_path / "out", workers=1)
    assert outcome.status == "quick"
    assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000
