"""Flu forecasts combined with one private bit for each target: when is it worth it?

Every week 53 US states and territories use a weighted average of public flu forecasts, and answer
one randomised bit about what came true (`private_mixture`). Games differ in the models (12 that are
complete in hindsight; 20 by the first four weeks, a choice that was possible in advance; all 42,
with gaps) and in how many weeks ahead forecasts are. Forecasts for 3 and 4 weeks need the raw data;
without them these games are left out, and the verdict says so. There, a target is known 2 or 3
weeks later.

An error is cut off at 100 % of the highest consensus forecast so far, and averaged over states and
weeks. There are two intervals: of the mean over the noise (seeds), and over blocks of weeks and the
noise, for what one run on other weeks of the same kind could show. The plain average uses no
secret, so it is what a combination has to beat. The check "below-plain" is about these weeks: the
first interval has to lie below the plain average. The second is shown and not judged. The median
and the best model in hindsight are shown beside it. The constants of the algorithm were chosen on
sixteen games, these among them, and that the median fills gaps was chosen after a look at these
data.

Two further games have 12 models and epsilon = 1. In one, only some of the states answer, and all
are judged. In the other, some states lie about their targets to push the worst model, and the
others are judged. Such answers are still turned by chance; a client that also changes the program
can avoid that, and then weighs about twice as much. Both games draw the states for each seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.algorithms.mixture.private_mixture import Mixture, PrivateMixture
from hedgerow.core.environment import Environment
from hedgerow.core.errors import MissingData
from hedgerow.core.lattice import Array
from hedgerow.environments.recorded.data import find
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.combine import block_interval
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    TextTable,
    Verdict,
    lower_end_of_difference,
)
from hedgerow_papers.experiments.pictures import footer, is_quick
from hedgerow_papers.ours.flu_combination import FILES, Error, FluCombination, percent

EPSILONS = (0.1, 0.3, 0.5, 1.0, 3.0, 10.0)
EPSILON = 1.0
ANSWERING, LIARS = (5, 10, 20, 35, 53), (0, 1, 3, 5, 10)
QUICK = {"answering": (5, 53), "liars": (3, 10)}
SEEDS, QUICK_SEEDS = 200, 2
TOGETHER, ALONE = "together, not private", "alone, not private"
MOST_HARM, WEAK_HARM = 0.05, 0.25  # points above the plain average, at epsilon >= 0.5 and below


@dataclass(frozen=True)
class Game:
    """A choice of forecasts, and the largest error that we expect at epsilon = 1."""

    words: str
    environment: FluCombination
    limit: float

    @property
    def played(self) -> Environment:
        late = self.environment.ahead - 1
        return Delayed(of=self.environment, rounds=late) if late else self.environment

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.words.replace(" ", "-")


MAIN = Game("12 models", FluCombination(), 15.42)
GAMES = (
    MAIN,
    Game("20 models", FluCombination(models="first weeks"), 15.56),
    Game("42 models", FluCombination(models="all"), 15.65),
    Game("3 weeks ahead", FluCombination(ahead=3), 23.8),
    Game("4 weeks ahead", FluCombination(ahead=4), 26.5),
)


def _there(game: Game) -> bool:
    """Whether the data of a game are there; those for one week ahead are in the package."""
    try:
        return game.environment.ahead == 1 or all(map(find, FILES))
    except MissingData:
        return False


def label(epsilon: float) -> str:
    return f"epsilon={epsilon:g}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    made = {}
    for game in GAMES[:1] if quick else filter(_there, GAMES):
        private = tuple(Entry(label(e), PrivateMixture(e)) for e in EPSILONS)
        exact = (Entry(TOGETHER, Mixture()), Entry(ALONE, Mixture(), alone=True))
        title, seeds = f"Flu forecasts, {game.words}", QUICK_SEEDS if quick else SEEDS
        made[game.name] = StudyConfig(title, game.played, private, seeds)
        made[f"{game.name}-exact"] = StudyConfig(f"{title}, not private", game.played, exact, 1)
    counts = QUICK if quick else {"answering": ANSWERING, "liars": LIARS}
    sizes = {f"answering={n}": FluCombination(answering=n) for n in counts["answering"]}
    liars = {f"liars={n}": FluCombination(liars=n) for n in counts["liars"]}
    spec = PrivateMixture(EPSILON)
    for name, games in (("answering", sizes), ("liars", liars)):
        entries = tuple(Entry(text, spec, game) for text, game in games.items())
        title = f"Flu forecasts, 12 models, epsilon = {EPSILON:g}, {name}"
        seeds = QUICK_SEEDS if quick else SEEDS
        made[name] = StudyConfig(title, MAIN.environment, entries, seeds)
    return made


def by_week(study: Study, text: str) -> Array:
    """The mean error of every week (seeds, weeks), in percent."""
    totals = np.array([run.figures[Error.name] for run in study.of(text)])
    return np.diff(totals, axis=1, prepend=0.0)


def error(study: Study, text: str) -> Estimate:
    """The mean error over states and weeks, with the interval of the noise."""
    return Estimate.of(by_week(study, text).mean(axis=1))


@cache
def references(game: Game) -> dict[str, Array]:
    """The error of every week (weeks,) of what needs no answers, or hindsight."""
    table = game.environment.table
    targets, scale, filled = table.targets, np.asarray(table.scale), table.filled

    def weekly(forecasts: Array) -> Array:
        return percent((forecasts - targets) / scale).mean(axis=1)

    models = [weekly(filled[..., k]) for k in range(len(table.models))]
    return {
        "plain average": weekly(table.average),
        "median": weekly(table.median),
        "best model, in hindsight": min(models, key=lambda errors: float(errors.mean())),
    }


def plain(game: Game) -> float:
    return float(references(game)["plain average"].mean())


def saved(done: Studies, game: Game, epsilon: float, than: str) -> tuple[float, float]:
    """The 95 % interval of what one run on other such weeks saves compared with another way."""
    less = references(game)[than] - by_week(done[game.name], label(epsilon))
    return block_interval(less, np.ones(less.shape[1]))


def _played(done: Studies) -> Iterable[Game]:
    return (game for game in GAMES if game.name in done)


def judge(done: Studies) -> Verdict:
    checks: list[Check] = []
    for game in _played(done):
        found = {e: error(done[game.name], label(e)) for e in EPSILONS}
        name, free = game.words, plain(game)
        checks.append(Check(f"{name}/epsilon=1/error", found[EPSILON].mean, "<=", game.limit))
        for e, value in found.items():
            limit = MOST_HARM if e >= 0.5 else WEAK_HARM
            checks.append(Check(f"{name}/{label(e)}/above-plain", value.mean - free, "<=", limit))
        under = free - found[EPSILON].high
        checks.append(Check(f"{name}/epsilon=1/below-plain", under, ">=", 0.0))
        price = found[EPSILON].low - error(done[f"{game.name}-exact"], TOGETHER).mean
        checks.append(Check(f"{name}/not-private/below-private", price, ">=", 0.0))
    low, high = saved(done, MAIN, EPSILON, "plain average")
    alone = error(done[f"{MAIN.name}-exact"], ALONE).mean
    own = alone - error(done[MAIN.name], label(EPSILON)).high
    few, all_answer = (
        error(done["answering"], f"answering={n}") for n in (ANSWERING[0], ANSWERING[-1])
    )
    three, ten = (error(done["liars"], f"liars={n}") for n in (3, 10))
    checks += [
        Check("12 models/below-alone-not-private", own, ">=", 0.0),
        Check(
            "answering/5-above-53/lower-end", lower_end_of_difference(few, all_answer), ">=", 0.0
        ),
        Check("answering/5/above-plain", few.mean - plain(MAIN), "<=", WEAK_HARM),
        Check("liars/3/above-plain", three.high - plain(MAIN), "<=", 0.0),
        Check("liars/10-above-3/lower-end", lower_end_of_difference(ten, three), ">=", 0.0),
    ]
    return Verdict(None, tuple(checks), _message(done, low, high), (_table(done),))


def _message(done: Studies, low: float, high: float) -> str:
    private, best = error(done[MAIN.name], label(EPSILON)), "best model, in hindsight"
    over = saved(done, MAIN, EPSILON, best)
    beats = "" if over[0] > 0 else "not significantly "
    text = (
        f"12 models, epsilon = 1: error {private.words()} %, {plain(MAIN) - private.mean:.2f} less"
        f" than the plain average (one run on other such weeks: {low:.2f} to {high:.2f}), and"
        f" {beats}less than the best model in hindsight ({over[0]:.2f} to {over[1]:.2f})"
    )
    left = [game.words for game in GAMES if game.name not in done and not is_quick(done, studies)]
    if left:
        text += f"; {' and '.join(left)} left out, because no data folder has {' and '.join(FILES)}"
    return text


def _table(done: Studies) -> TextTable:
    """A row for each game: what needs no answers, what is not private, and every epsilon."""
    rows = []
    for game in _played(done):
        exact, free = done[f"{game.name}-exact"], references(game)
        low, high = saved(done, game, EPSILON, "plain average")
        rows.append(
            (
                game.words,
                *(f"{errors.mean():.2f}" for errors in free.values()),
                *(f"{error(exact, text).mean:.2f}" for text in (ALONE, TOGETHER)),
                *(error(done[game.name], label(e)).words() for e in EPSILONS),
                f"{low:.2f} to {high:.2f}",
            )
        )
    columns = (
        "game",
        *references(MAIN),
        ALONE,
        TOGETHER,
        *(f"epsilon = {e:g}" for e in EPSILONS),
        "saved over plain at epsilon = 1, one run on other such weeks",
    )
    title = (
        "Errors in percent; ±: 95 % of the mean over the noise; constants were chosen on these data"
    )
    return TextTable(f"{title}, too", columns, tuple(rows))


def draw(done: Studies, path: Path) -> None:
    """Draw errors against epsilon for every game, and against answers and liars."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    from hedgerow.evaluation.plots.canvas import COLOURS, GREY, footnote, head, tidy

    games = list(_played(done))
    lines = -(-(len(games) + 3) // 4)  # two panels for answers and liars, one for the legend
    figure = Figure(figsize=(12.5, 0.8 + 3.6 * lines), layout="constrained")
    head(figure, "Combining flu forecasts: error in % with one private bit for each target")
    axes = figure.subplots(lines, 4, squeeze=False).ravel()
    colours = dict(zip((*references(MAIN), ALONE, TOGETHER), COLOURS[1:], strict=False))
    for panel, game in zip(axes, games, strict=False):
        for name, errors in references(game).items():
            panel.axhline(errors.mean(), color=colours[name], linewidth=1.2, label=name)
        for name in (ALONE, TOGETHER):
            value = error(done[f"{game.name}-exact"], name).mean
            panel.axhline(value, color=colours[name], linewidth=1.2, linestyle="--", label=name)
        found = [error(done[game.name], label(e)) for e in EPSILONS]
        _bars(panel, EPSILONS, found, COLOURS[0], "private (bars: 95 % of the noise)")
        panel.set_xscale("log")
        panel.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS], fontsize=8)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_title(game.words, fontsize=10)
        panel.set_xlabel("epsilon")
    free = plain(MAIN)
    words = {"answering": "states that answer, of 53", "liars": "states that lie, of 53"}
    for panel, name in zip(axes[len(games) :], words, strict=False):
        counts = [int(entry.label.partition("=")[2]) for entry in done[name].config.algorithms]
        found = [error(done[name], f"{name}={count}") for count in counts]
        panel.axhline(free, color=colours["plain average"], linewidth=1.2)
        _bars(panel, counts, found, COLOURS[0], None)
        panel.set_xticks(counts, [str(count) for count in counts], fontsize=8)
        panel.set_title(f"12 models, epsilon = {EPSILON:g}", fontsize=10)
        panel.set_xlabel(words[name])
    for panel in axes[: len(games) + 2]:
        tidy(panel)
    for panel in axes[len(games) + 2 :]:
        panel.axis("off")
    handles, names = axes[0].get_legend_handles_labels()
    axes[-1].legend(handles, names, loc="center", frameon=False, fontsize=9, labelcolor=GREY)
    footnote(figure, footer(done, studies, "data: CDC FluSight, CC BY 4.0 (some MIT)"))
    figure.savefig(path, dpi=150)


def _bars(
    panel: Any, at: Sequence[float], found: Sequence[Estimate], colour: str, name: str | None
) -> None:
    panel.errorbar(
        at,
        [value.mean for value in found],
        [np.nan_to_num(value.half_width) for value in found],
        color=colour,
        marker="o",
        ms=4,
        label=name,
    )


EXPERIMENT = Experiment(
    id="combination",
    title="Flu forecasts combined with one private bit for each target",
    claim=(
        "none published; at epsilon = 1 the mean error of the private combination over the noise is"
        " below that of the plain average on the weeks of every game, which says little about other"
        " weeks; for epsilon >= 0.5 it is never above it by more than 0.05 points"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)
