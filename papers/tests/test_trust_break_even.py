"""From how many clients on sharing without trust pays: where curves cross, and the verdict."""

from __future__ import annotations

import pytest

from hedgerow.core.setting import Setting
from hedgerow.evaluation.statistics import Estimate
from hedgerow_papers.ours import trust_break_even as experiment
from support.made_up import made_up


def test_a_falling_curve_crosses_a_level_between_two_points() -> None:
    curve = {m: Estimate(160.0 / m, 0.0, 2) for m in (1, 4, 16)}
    assert experiment.crossing(curve, 20.0) == pytest.approx(8.0)
    assert experiment.crossing(curve, 200.0) == 1.0
    assert experiment.crossing(curve, 5.0) == float("inf")


@pytest.mark.parametrize(("size", "fails"), [(50.0, False), (1e5, True)])
def test_a_break_even_far_above_the_bound_fails(size: float, fails: bool) -> None:
    def law(label: str, setting: Setting) -> float:
        return size / setting.clients**0.5 if label else 20.0  # learning alone has no slash

    configs = experiment.studies(quick=True)
    verdict = experiment.judge({name: made_up(config, law) for name, config in configs.items()})
    late = [check.name for check in verdict.checks if not check.passed]
    assert bool([name for name in late if "break-even" in name]) is fails
    assert verdict.holds is None


def test_pure_reports_need_more_clients_as_experts_grow() -> None:
    pure, gaussian = (experiment.growth(name) for name in (experiment.PURE, experiment.GAUSSIAN))
    assert pure > 1.7
    assert gaussian < 1.1
