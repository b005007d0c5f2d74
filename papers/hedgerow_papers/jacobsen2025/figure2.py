"""Jacobsen and Fawaz 2025, Figure 2: cumulative gain on hospital reports, by state and budget.

Each panel shows RW-Meta, RW-FTPL, the tree-perturbed leader, the band between the worst and the
best of the 12 linear forecasters that RW-Meta chooses among, and the best single hospital in
hindsight. The data and the choices are those of `jacobsen2025-table1`. The heights of the printed
figure are not in the text; its claim is that RW-Meta has negative static regret at low and moderate
privacy levels: it gains more than the best hospital.
"""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np

from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import StudyConfig
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, judged
from hedgerow_papers.experiments.pictures import footer
from hedgerow_papers.jacobsen2025.hospitals import Hospitals
from hedgerow_papers.jacobsen2025.table1 import (
    LEADER,
    LEAST_NOISE,
    LINEAR,
    META,
    MUS,
    STATES,
    entries,
    gains,
    game,
    label,
    trees,
    whole,
)

MODERATE, EXPECTED = 0.5, 1.0  # negative regret is claimed down to this mu; expected in 72 weeks


def studies(quick: bool) -> dict[str, StudyConfig]:
    made = {}
    for state, name in STATES.items():
        rows = tuple(e for mu in MUS for e in (*entries(state, mu), trees(state, mu)[0]))
        made[state] = StudyConfig(name, game(state, "fewest"), rows, seeds=3 if quick else 100)
    return made


def best_hospital(done: Studies, state: str) -> np.ndarray:
    """The cumulative gain of the best single hospital in hindsight."""
    played = done[state].config.environment
    assert isinstance(played, Hospitals)
    everyone = played.weeks.gains
    return np.cumsum(everyone[:, everyone.sum(axis=0).argmax()])


def judge(done: Studies) -> Verdict:
    checks, ends, claimed = [], [], []
    for state, study in done.items():
        best = float(best_hospital(done, state)[-1])
        for mu in MUS:
            more = Estimate.of(gains(study, META, mu) - best)
            ends.append(f"{state} mu={mu:g} {more.words(sign=True)}")
            if mu >= MODERATE:
                claimed.append(more.low > 0)
            if mu >= EXPECTED:
                name = f"{state}/mu={mu:g}/gain above the best hospital, lower end"
                checks.append(Check(name, more.low, ">=", 0.0))
        above = gains(study, META, inf) - gains(study, LEADER, inf)
        name = f"{state}/mu=inf/gain above RW-FTPL, lower end"
        checks.append(Check(name, Estimate.of(above).low, ">=", 0.0))
    holds = judged(all(claimed)) if whole(done) else None
    return Verdict(holds, tuple(checks), f"gain above the best hospital: {', '.join(ends)}")


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.jacobsen2025.gains import GainPanel, plot_gains

    rows = [
        [
            GainPanel(
                f"{study.config.title}, mu = {mu:g}",
                {name: study.of(label(name, mu)) for name in (META, LEADER, LEAST_NOISE)},
                [study.of(label(name, mu)) for name in LINEAR],
                {"best hospital in hindsight": best_hospital(done, state)},
            )
            for mu in MUS
        ]
        for state, study in done.items()
    ]
    plot_gains(
        rows,
        path,
        "Following hospitals through the pandemic: gain from noisy weekly reports",
        "12 linear forecasters, worst to best",
        "cumulative gain",
        footer(done, studies),
    )


EXPERIMENT = Experiment(
    id="jacobsen2025-figure2",
    title="Cumulative gain on hospital reports (Jacobsen and Fawaz 2025, Figure 2)",
    claim=printed_claim("jacobsen2025", "figure2"),
    studies=studies,
    judge=judge,
    draw=draw,
)
