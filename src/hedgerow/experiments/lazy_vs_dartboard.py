"""Lazy experts (two chains, after L2P) against the shrinking dartboard (one chain): who has the smaller regret, and where?

Both with their certified calibration, at the same budget, and free to choose their groups. First their proven regret bounds on a grid
over T, epsilon, d and delta; then measured regret at a few points, on the same streams: Bernoulli losses with one better expert,
and losses whose means drift. The source of lazy experts has no experiments, and is known to us in part only, so there is no claim
to reproduce: the verdict says who wins where. Where both bounds are the horizon itself they say nothing, and count as equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.algorithms.dartboard.choices import LazyChoices
from hedgerow.algorithms.dartboard.lazy_experts import LazyExperts
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.drifting import Drifting
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.evaluation.statistics import Estimate
from hedgerow.experiments.experiment import Check, Experiment, Studies, Verdict
from hedgerow.experiments.pictures import footer, is_quick
from hedgerow.studies.config import Entry, StudyConfig

EPSILONS, DELTAS = (0.1, 1.0, 10.0), (0.0, 1e-6)
HORIZONS, EXPERTS = (1000, 10_000, 100_000, 1_000_000), (10, 10_000)
QUICK_HORIZONS, QUICK_EXPERTS = (1000,), (10,)
SEEDS, QUICK_SEEDS = 20, 5
PLAYED_EXPERTS = 100
PLAYED = ((10_000, 0.1), (10_000, 1.0), (10_000, 10.0), (100_000, 1.0))  # T, epsilon
QUICK_PLAYED = ((1000, 1.0),)
LAZY, DARTBOARD = "lazy experts", "dartboard"
SPECS: dict[str, type[LazyChoices]] = {LAZY: LazyExperts, DARTBOARD: ShrinkingDartboard}
EVEN = 1e-6  # relative: bounds that are equal but for rounding


class Point(NamedTuple):
    """Of the grid of bounds."""

    horizon: int
    epsilon: float
    experts: int
    delta: float


def grid(quick: bool) -> list[Point]:
    horizons, experts = (QUICK_HORIZONS, QUICK_EXPERTS) if quick else (HORIZONS, EXPERTS)
    return [Point(*values) for values in product(horizons, EPSILONS, experts, DELTAS)]


@cache
def bound(point: Point, name: str) -> float:
    """The smallest regret bound that the calibration finds, groups included; kept, as the verdict and the picture both need it."""
    built = SPECS[name](epsilon=point.epsilon, delta=point.delta).build(Setting(1, point.experts, point.horizon))
    return built.regret_at_most


def bound_ratios(quick: bool) -> dict[Point, float]:
    """Lazy experts over dartboard; above 1 the dartboard wins."""
    return {point: bound(point, LAZY) / bound(point, DARTBOARD) for point in grid(quick)}


def stream(study: str, horizon: int) -> Bernoulli | Drifting:
    if study == "bernoulli":
        return Bernoulli(clients=1, experts=PLAYED_EXPERTS, horizon=horizon, mean=0.5, gap=0.3)
    return Drifting(clients=1, experts=PLAYED_EXPERTS, horizon=horizon, mean=0.5, swing=0.4, cycles=0.5)


def label(name: str, horizon: int, epsilon: float, delta: float) -> str:
    return f"{name}/T={horizon}/epsilon={epsilon:g}/delta={delta:g}"


def played(quick: bool) -> tuple[tuple[int, float], ...]:
    """T and epsilon of the measured points."""
    return QUICK_PLAYED if quick else PLAYED


def studies(quick: bool) -> dict[str, StudyConfig]:
    points, made = played(quick), {}
    for study in ("bernoulli", "drifting"):
        entries = [
            Entry(label(name, horizon, epsilon, delta), spec(epsilon=epsilon, delta=delta), stream(study, horizon))
            for (horizon, epsilon), delta, (name, spec) in product(points, DELTAS, SPECS.items())
        ]
        title = f"Lazy experts against the dartboard, {study} losses, d = {PLAYED_EXPERTS}"
        made[study] = StudyConfig(title, stream(study, points[0][0]), tuple(entries), seeds=QUICK_SEEDS if quick else SEEDS)
    return made


@dataclass(frozen=True)
class Duel:
    """One measured point: the regrets, and lazy experts less dartboard seed by seed, which share their losses."""

    study: str
    horizon: int
    epsilon: float
    delta: float
    regrets: Mapping[str, Estimate]
    difference: Estimate

    @property
    def winner(self) -> str | None:
        """Whoever has less regret, if the 95 % interval of the difference leaves no doubt."""
        return DARTBOARD if self.difference.low > 0 else LAZY if self.difference.high < 0 else None


def duels(done: Studies) -> list[Duel]:
    points, found = played(is_quick(done, studies)), []
    for study, finished in done.items():
        for (horizon, epsilon), delta in product(points, DELTAS):
            regrets = {name: finished.regrets(label(name, horizon, epsilon, delta)) for name in SPECS}
            difference = Estimate.of(regrets[LAZY] - regrets[DARTBOARD])
            estimates = {name: Estimate.of(values) for name, values in regrets.items()}
            found.append(Duel(study, horizon, epsilon, delta, estimates, difference))
    return found


def judge(done: Studies) -> Verdict:
    ratios, measured = bound_ratios(is_quick(done, studies)), duels(done)
    checks = [
        Check(f"delta={delta:g}/least bound of lazy experts over the dartboard's", min(_at(ratios, delta)), ">=", 1 - EVEN)
        for delta in DELTAS
    ]
    for duel in measured:
        where = f"{duel.study}/T={duel.horizon}/epsilon={duel.epsilon:g}/delta={duel.delta:g}"
        checks.append(Check(f"{where}/lazy less dartboard, upper end", duel.difference.high, ">=", 0.0))
        for name, regret in duel.regrets.items():
            entry = label(name, duel.horizon, duel.epsilon, duel.delta)
            proven = done[duel.study].algorithms[entry].regret_at_most
            checks.append(Check(f"{duel.study}/{entry}/lower end of the mean", regret.low, "<=", proven))
    return Verdict(None, tuple(checks), f"{told_bounds(ratios)}. {told_regret(measured)}")


def _at(ratios: Mapping[Point, float], delta: float) -> list[float]:
    return [ratio for point, ratio in ratios.items() if point.delta == delta]


def told_bounds(ratios: Mapping[Point, float]) -> str:
    """Who has the smaller bound, where."""
    lazy = [point for point, ratio in ratios.items() if ratio < 1 - EVEN]
    even = [point for point, ratio in ratios.items() if abs(ratio - 1) <= EVEN]
    better = len(ratios) - len(lazy) - len(even)
    text = f"proven bounds: the dartboard's is smaller at {better} of {len(ratios)} points"
    text += f" (lazy experts' is up to {max(ratios.values()) - 1:.0%} larger)" if better else ""
    if even:
        text += f", equal at {len(even)} (epsilon = {_listed(p.epsilon for p in even)})"
    return f"{text}, lazy experts' is smaller {_where(lazy)}"


def _listed(values: Any) -> str:
    return ", ".join(f"{value:g}" for value in sorted(set(values)))


def _where(points: list[Any]) -> str:
    if not points:
        return "nowhere"
    return "at " + "; ".join(f"T={p.horizon}, epsilon={p.epsilon:g}, delta={p.delta:g}" for p in points)


def told_regret(measured: list[Duel]) -> str:
    """Who has less measured regret, where."""
    won = {name: [duel for duel in measured if duel.winner == name] for name in SPECS}
    open_ones = len(measured) - len(won[LAZY]) - len(won[DARTBOARD])
    text = f"measured regret: the dartboard's is significantly smaller at {len(won[DARTBOARD])} of {len(measured)} points"
    return f"{text}, {open_ones} are undecided, lazy experts' is significantly smaller {_where(won[LAZY])}"


def draw(done: Studies, path: Path) -> None:
    """On the left two panels of bounds, one for each delta; on the right what was measured."""
    from matplotlib.figure import Figure

    from hedgerow.evaluation.plots.canvas import footnote, head

    figure = Figure(figsize=(13.0, 5.0), layout="constrained")
    panels = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
    ratios = bound_ratios(is_quick(done, studies))
    top = max(1.05, max(ratios.values()) * 1.04)
    for axes, delta in zip(panels, DELTAS, strict=False):
        _draw_bounds(axes, {point: ratio for point, ratio in ratios.items() if point.delta == delta})
        axes.set_ylim(min(0.95, *ratios.values()), top)
        axes.set_title(f"proven bounds, delta = {delta:g}", fontsize=10, loc="left")
    panels[0].set_ylabel("lazy experts over dartboard")
    panels[1].legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
    _draw_measured(panels[2], duels(done))
    title = "Lazy experts against the dartboard: above 1 (above 0) the dartboard is better"
    head(figure, title)
    footnote(figure, f"left and middle: computed, not measured; right: {footer(done, studies, 'bars: 95 % confidence, paired by seed')}")
    figure.savefig(path, dpi=150)


def _draw_bounds(axes: Any, ratios: Mapping[Point, float]) -> None:
    from hedgerow.evaluation.plots.canvas import COLOURS, plain, tidy

    tidy(axes)
    axes.axhline(1.0, color="#444444", linewidth=1.0)
    for (epsilon, colour), experts in product(zip(EPSILONS, COLOURS, strict=False), sorted({point.experts for point in ratios})):
        line = {point.horizon: ratio for point, ratio in ratios.items() if (point.epsilon, point.experts) == (epsilon, experts)}
        style = {"color": colour, "linestyle": "-" if experts == EXPERTS[0] else "--", "marker": "o", "markersize": 4}
        axes.plot(list(line), list(line.values()), label=f"epsilon = {epsilon:g}, d = {experts}", **style)
    axes.set_xscale("log")
    axes.set_xticks(sorted({point.horizon for point in ratios}), minor=False)
    axes.xaxis.set_major_formatter(lambda value, _: plain(value))
    axes.minorticks_off()
    axes.set_xlabel("rounds")


def _draw_measured(axes: Any, measured: list[Duel]) -> None:
    """The difference, with its 95 % interval, in parts of the dartboard's mean regret."""
    from hedgerow.evaluation.plots.canvas import COLOURS, tidy

    tidy(axes)
    axes.axhline(0.0, color="#444444", linewidth=1.0)
    places = list(dict.fromkeys((duel.horizon, duel.epsilon) for duel in measured))
    kinds = list(product(dict.fromkeys(duel.study for duel in measured), DELTAS))
    for number, ((study, delta), colour) in enumerate(zip(kinds, COLOURS, strict=False)):
        some = [duel for duel in measured if (duel.study, duel.delta) == (study, delta)]
        x = [places.index((duel.horizon, duel.epsilon)) + 0.14 * (number - (len(kinds) - 1) / 2) for duel in some]
        y = [100 * duel.difference.mean / duel.regrets[DARTBOARD].mean for duel in some]
        half = [100 * duel.difference.half_width / duel.regrets[DARTBOARD].mean for duel in some]
        style = {"color": colour, "marker": "o", "markersize": 4, "linestyle": "none", "capsize": 3}
        axes.errorbar(x, y, yerr=half, label=f"{study}, delta = {delta:g}", **style)
    axes.set_xticks(range(len(places)), [f"T = {horizon:,}\nepsilon = {epsilon:g}" for horizon, epsilon in places], fontsize=8)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_title(f"measured regret, d = {PLAYED_EXPERTS}", fontsize=10, loc="left")
    axes.set_ylabel("lazy experts less dartboard, % of the dartboard's")
    axes.margins(y=0.25)
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)


EXPERIMENT = Experiment(
    id="lazy-vs-dartboard",
    title="Lazy experts with two chains (after L2P) against the batched shrinking dartboard",
    claim="none that can be tested: which of the two has the smaller bound, and the smaller regret, over T, epsilon, d and delta",
    studies=studies,
    judge=judge,
    draw=draw,
)
