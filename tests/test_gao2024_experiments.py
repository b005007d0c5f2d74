"""The speed-up and the lower bounds: verdicts on made-up results, and both experiments in their quick form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hedgerow.environments.lower_bounds import coin_regret
from hedgerow.evaluation.summary import Estimate
from hedgerow.experiments import gao2024_lowerbounds as lower
from hedgerow.experiments import gao2024_speedup as speedup
from hedgerow.experiments.registry import EXPERIMENTS
from hedgerow.experiments.reproduce import reproduce


@dataclass(frozen=True)
class MadeUp:
    """A study whose regret is a function of the label."""

    law: Any

    def regret(self, label: str) -> Estimate:
        name, _, clients = label.partition("/m=")
        return Estimate(self.law(name, int(clients)), 0.5, 20)


def test_the_speedup_verdict_follows_the_slope() -> None:
    def made(power: float) -> Any:
        return dict.fromkeys(("stochastic", "realizable", "figure"), MadeUp(lambda _, m: 100 * m**power))

    assert speedup.slope(made(-0.8), speedup.PHASED) == pytest.approx(-0.8)
    steep, shallow, flat = (speedup.judge(made(power)) for power in (-1.0, -0.6, 0.0))
    assert steep.reproduces
    assert all(check.passed for check in steep.checks)
    assert shallow.reproduces
    assert [check.name for check in shallow.checks if not check.passed] == ["Fed-SVT/slope", "phased selection/T=16384/m=1-over-m=10"]
    assert not flat.reproduces


def test_the_lower_bound_verdict_can_come_out_the_other_way() -> None:
    exact = coin_regret(lower.EXPERTS, lower.HORIZON)

    def judged(coins: Any, hidden: Any) -> bool | None:
        return lower.judge({lower.COINS: MadeUp(coins), lower.HIDDEN: MadeUp(hidden)}).reproduces  # pyright: ignore[reportArgumentType]

    assert judged(lambda _, m: exact, lambda _, m: 2 * lower.floor(m))
    assert not judged(lambda _, m: exact / m, lambda _, m: 2 * lower.floor(m))
    assert not judged(lambda _, m: exact, lambda _, m: 0.3 * lower.floor(m))


@pytest.mark.long
@pytest.mark.parametrize("name", ["gao2024-speedup", "gao2024-lowerbounds"])
def test_quick_reproductions_run(name: str, tmp_path: Path) -> None:
    outcome = reproduce(EXPERIMENTS[name], quick=True, out=tmp_path / "out", workers=1)
    assert outcome.status == "quick"
    assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000
