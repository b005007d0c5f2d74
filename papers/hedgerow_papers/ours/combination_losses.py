"""One private bit for other losses: absolute and pinball, squared, and the weighted interval score.

For absolute and pinball losses the slope has two values, so one bit says it. A squared error has a
slope in between (cut off, as Huber), which is first rounded to a sign by chance. For the weighted
interval score (WIS) forecasts of several quantiles are combined with the same weights, and in every
round each client draws one level and answers about it.

Targets and forecasts are drawn (`DrawnQuantiles`); models differ in bias, error and spread. The
figure is the loss as a share of that of equal weights, which need no answers. Every seed draws
other models, so intervals are over games and noise together.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from hedgerow.algorithms.mixture.private_mixture import Mixture, PrivateMixture
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, TextTable, Verdict
from hedgerow_papers.experiments.pictures import BARS, footer
from hedgerow_papers.ours.drawn_quantiles import DrawnQuantiles, Loss, PlainLoss

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
OPEN = "not private"
MOST_HARM = 1.015  # of the loss of equal weights below epsilon = 1: 0.23 of 15.7 points, as on flu
WORDS: dict[str, str] = {
    "absolute": "absolute error",
    "pinball": "pinball loss, quantile 0.9",
    "squared": "squared error, cut off",
    "wis": "WIS, seven quantiles",
}


def label(epsilon: float) -> str:
    return f"epsilon={epsilon:g}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    private = tuple(Entry(label(e), PrivateMixture(e)) for e in EPSILONS)
    entries = (*private, Entry(OPEN, Mixture()))
    return {
        loss: StudyConfig(
            f"Combined forecasts, {words}",
            DrawnQuantiles(loss=cast(Loss, loss)),
            entries,
            2 if quick else 40,
        )
        for loss, words in WORDS.items()
    }


def shares(study: Study, text: str) -> np.ndarray:
    """The loss of every seed, as a share of that of equal weights."""
    runs = study.of(text)
    return np.array([run.loss[-1] / run.figures[PlainLoss.name][-1] for run in runs])


def share(study: Study, text: str) -> Estimate:
    return Estimate.of(shares(study, text))


def kept(study: Study, epsilon: float) -> float:
    """The share of what is gained without privacy that is gained with it."""
    return (1 - share(study, label(epsilon)).mean) / (1 - share(study, OPEN).mean)


def judge(done: Studies) -> Verdict:
    checks = []
    for loss, study in done.items():
        for e in EPSILONS:
            found = share(study, label(e))
            if e < 1:
                checks.append(Check(f"{loss}/{label(e)}/over-plain", found.mean, "<=", MOST_HARM))
                continue
            checks.append(Check(f"{loss}/{label(e)}/over-plain, upper end", found.high, "<=", 1.0))
        if loss != "squared":  # a rounded slope costs more than privacy does
            checks.append(Check(f"{loss}/epsilon=10/gain-kept", kept(study, 10.0), ">=", 0.95))
    text = ", ".join(f"{100 * kept(study, 1.0):.0f} % for {loss}" for loss, study in done.items())
    rounded = 100 * kept(done["squared"], 10.0)
    message = (
        f"of what is gained over equal weights without privacy, epsilon = 1 keeps {text}; a squared"
        f" error keeps {rounded:.0f} % even at epsilon = 10, because its slope is rounded to a sign"
    )
    return Verdict(None, tuple(checks), message, (_table(done),))


def _table(done: Studies) -> TextTable:
    texts = (*(label(e) for e in EPSILONS), OPEN)
    rows = tuple(
        (WORDS[loss], *(share(study, text).words(digits=3) for text in texts))
        for loss, study in done.items()
    )
    columns = ("loss", *(f"epsilon = {e:g}" for e in EPSILONS), OPEN)
    return TextTable("Loss as a share of that of equal weights", columns, rows)


def draw(done: Studies, path: Path) -> None:
    """Draw the share of the loss of equal weights against epsilon, a line for each loss."""
    from matplotlib.ticker import NullLocator, PercentFormatter

    from hedgerow.evaluation.plots.canvas import COLOURS, GREY, canvas, footnote

    title = "Combining drawn forecasts with one private bit for each target"
    figure, axes = canvas(title, width=9.0)
    for colour, (loss, study) in zip(COLOURS, done.items(), strict=False):
        found = [share(study, label(e)) for e in EPSILONS]
        means, halves = [v.mean for v in found], [np.nan_to_num(v.half_width) for v in found]
        axes.errorbar(EPSILONS, means, halves, color=colour, marker="o", ms=4, label=WORDS[loss])
        axes.axhline(share(study, OPEN).mean, color=colour, linewidth=0.8, linestyle="--")
    axes.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":", label="equal weights")
    axes.plot([], [], color=GREY, linewidth=0.8, linestyle="--", label="not private")
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("epsilon")
    axes.set_ylabel("loss, in % of that of equal weights")
    axes.legend(frameon=False, fontsize=9)
    footnote(figure, "50 clients, 10 models, 100 rounds; " + footer(done, studies, BARS))
    figure.savefig(path, dpi=150)


EXPERIMENT = Experiment(
    id="combination-losses",
    title="One private bit for pinball, squared and interval losses",
    claim=(
        "none published; from epsilon = 1 on the private combination is better than equal weights"
        " for every loss, and below it is never worse by more than 1.5 %"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)
