"""Private online convex optimisation in a ball: regret against T, epsilon and the dimension d.

Section 5 of Asi, Feldman, Koren and Talwar (2023) claims two gains over DP-FTRL (Kairouz et al.
2021), whose regret is of order d^(1/4) sqrt(T / epsilon). For stochastic losses Limited Updates
have sqrt(T) + sqrt(d) ln(T) / epsilon (Corollary 13). For losses fixed in advance, covers with the
dartboard have sqrt(T d ln T) + T^(1/3) d ln(T) / epsilon (Theorem 12), which is less where d = 1
and epsilon = T^(-1/4): T^(7/12) against T^(5/8).

All play `HiddenDirection`: linear losses with slope at most 1 in the unit ball, in which the best
point is near the rim. Logarithmic axes show slopes. We expect that regret grows as the published
rate or the proven bound does: no slope is more than 0.1 above both; and in epsilon and d, which the
noise must follow, none is more than 0.1 below both. Slopes in T are those between the two longest
games: in short ones all algorithms are still near the centre, which regrets 0.3 per round. A bound
is compared with a regret only where it is below that of the centre, and in the longest games the
regret must be at most half of that of the centre. On a line the losses have slope 1, and the centre
regrets 1 per round.

Whether the claimed gains are there at these sizes is measured against DP-FTRL with the tree, as it
was published. The paper claims them "in certain regimes": one horizon is enough. `warm` starts each
run at the last point; only for the cold start is the proven bound as good as that of Corollary 13.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log, sqrt
from pathlib import Path

from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates, RunPlan
from hedgerow.algorithms.gradient.noisy_ftrl import NoisyFTRL
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.asi2023.cover_dartboard import CoverDartboard
from hedgerow_papers.asi2023.hidden_direction import HiddenDirection
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    Verdict,
    judged,
    lower_end_of_difference,
)
from hedgerow_papers.experiments.pictures import footer, is_quick
from hedgerow_papers.statistics import exponent

CLIENTS, HORIZON, WIDTH, EPSILON = 2, 2**11, 8, 1.0
HORIZONS = (2**7, 2**9, 2**11, 2**13)
QUICK = (2**6, 2**8)
EPSILONS = (0.25, 1.0, 4.0, 16.0)
WIDTHS = (1, 4, 16, 64)
LINES = (2**8, 2**10, 2**12)  # horizons of the games on a line, with epsilon = T^(-1/4)
TILT, STEEP = 0.3, 1.0  # regret of the centre per round; on a line
UPDATES, WARM, TREE, COVER = "Limited Updates", "Limited Updates, warm", "DP-FTRL", "cover"
SLACK = 0.1  # of slopes
LEARNT = 0.5  # of the regret of the centre


def label(name: str, at: float) -> str:
    return f"{name}/{at:g}"


def specs(epsilon: float) -> dict[str, AlgorithmSpec]:
    return {
        UPDATES: LimitedUpdates(epsilon=epsilon),
        WARM: LimitedUpdates(epsilon=epsilon, plan=RunPlan(warm=True)),
        TREE: NoisyFTRL(epsilon=epsilon),
    }


def game(horizon: int = HORIZON, width: int = WIDTH, tilt: float = TILT) -> HiddenDirection:
    return HiddenDirection(clients=CLIENTS, features=width, horizon=horizon, tilt=tilt)


def published(name: str, horizon: float, epsilon: float, width: float) -> float:
    """The published rate, with constant 1: it shows how regret should grow."""
    if name == TREE:
        return width**0.25 * sqrt(horizon / epsilon)
    if name == COVER:
        private = horizon ** (1 / 3) * width * log(horizon) / epsilon
        return sqrt(horizon * width * log(horizon)) + private
    return sqrt(horizon) + sqrt(width) * log(horizon) / epsilon


def studies(quick: bool) -> dict[str, StudyConfig]:
    seeds, tail = 2 if quick else 20, f"m = {CLIENTS}, delta = 1e-6"
    horizons, lines = (QUICK, QUICK) if quick else (HORIZONS, LINES)
    rounds = [
        Entry(label(name, horizon), spec, game(horizon))
        for horizon in horizons
        for name, spec in specs(EPSILON).items()
    ]
    short = game(QUICK[0] if quick else HORIZON)
    budgets = [
        Entry(label(name, epsilon), spec, short)
        for epsilon in (EPSILONS[1:3] if quick else EPSILONS)
        for name, spec in specs(epsilon).items()
    ]
    widths = [
        Entry(label(name, width), spec, game(short.horizon, width))
        for width in WIDTHS[: 2 if quick else None]
        for name, spec in specs(EPSILON).items()
    ]
    line = [
        Entry(label(name, horizon), spec, game(horizon, 1, STEEP))
        for horizon in lines
        for name, spec in {
            COVER: CoverDartboard(epsilon=horizon**-0.25),
            TREE: NoisyFTRL(epsilon=horizon**-0.25),
        }.items()
    ]
    parts = {
        "rounds": (f"d = {WIDTH}, epsilon = {EPSILON:g}", rounds),
        "epsilon": (f"d = {WIDTH}, T = {short.horizon}", budgets),
        "dimension": (f"epsilon = {EPSILON:g}, T = {short.horizon}", widths),
        "line": ("d = 1, epsilon = T^(-1/4)", line),
    }
    return {
        name: StudyConfig(f"Points in a ball, {text}, {tail}", game(), tuple(entries), seeds=seeds)
        for name, (text, entries) in parts.items()
    }


def curve(done: Studies, study: str, name: str) -> dict[float, Estimate]:
    """The regret of an algorithm against the parameter of a study."""
    found = dict[float, Estimate]()
    for entry in done[study].config.algorithms:
        of, at = entry.label.rsplit("/", 1)
        if of == name:
            found[float(at)] = done[study].regret(entry.label)
    return found


def names(study: str) -> tuple[str, ...]:
    return (COVER, TREE) if study == "line" else (UPDATES, WARM, TREE)


def fitted(done: Studies, study: str, name: str) -> list[float]:
    """The parameters on which slopes are fitted; for rounds, those of the two longest games."""
    points = sorted(curve(done, study, name))
    return points[-2:] if study == "rounds" else points


def slope(done: Studies, study: str, name: str) -> Estimate:
    points = fitted(done, study, name)
    return exponent({at: done[study].regrets(label(name, at)) for at in points})


def bound_of(algorithm: Algorithm) -> float:
    """The proven bound; that of Limited Updates holds here, as all clients follow one law."""
    return algorithm.parameters.get("regret_if_alike") or algorithm.regret_at_most


def bound_slope(done: Studies, study: str, name: str) -> float:
    """The slope of the proven bound at the same settings."""
    bounds = {
        at: [bound_of(done[study].algorithms[label(name, at)])] for at in fitted(done, study, name)
    }
    return exponent(bounds).mean


def published_slope(done: Studies, study: str, name: str) -> float:
    """The slope of the published rate at the same settings."""
    rates = dict[float, list[float]]()
    for at in fitted(done, study, name):
        spec, game = entry_of(done, study, label(name, at))
        assert isinstance(spec, LimitedUpdates | NoisyFTRL | CoverDartboard)
        rates[at] = [published(name, game.horizon, spec.epsilon, game.features)]
    return exponent(rates).mean


def entry_of(done: Studies, study: str, label: str) -> tuple[AlgorithmSpec, HiddenDirection]:
    config = done[study].config
    entry = next(entry for entry in config.algorithms if entry.label == label)
    environment = config.environment_of(entry)
    assert isinstance(environment, HiddenDirection)
    return entry.algorithm, environment


def gain(done: Studies, study: str, name: str, at: float) -> float:
    """Lower end of what DP-FTRL regrets more than another algorithm."""
    return lower_end_of_difference(
        done[study].regret(label(TREE, at)), done[study].regret(label(name, at))
    )


def judge(done: Studies) -> Verdict:
    checks = [*bounds(done)]
    if is_quick(done, studies):
        return Verdict(None, tuple(checks), "the quick form has too few seeds to judge the growth")
    for study in done:
        for name in names(study):
            if name != WARM:  # nothing is published about it
                checks += growth(done, study, name)
    checks += [*learnt(done, "rounds"), *learnt(done, "line"), *gains(done)]
    stochastic = {at: gain(done, "rounds", UPDATES, at) for at in curve(done, "rounds", UPDATES)}
    line = {at: gain(done, "line", COVER, at) for at in curve(done, "line", COVER)}
    won, last = [at for at, more in stochastic.items() if more > 0], max(line)

    def slopes(study: str, name: str) -> str:
        rate = published_slope(done, study, name)
        return f"{slope(done, study, name).mean:.2f}, published {rate:.2f}"

    message = (
        f"Limited Updates regret less than DP-FTRL at {len(won)} of {len(stochastic)} horizons"
        f" (slope in T {slopes('rounds', UPDATES)}, of DP-FTRL {slopes('rounds', TREE)}; in epsilon"
        f" {slopes('epsilon', UPDATES)}, of DP-FTRL {slopes('epsilon', TREE)}; in d"
        f" {slopes('dimension', UPDATES)}, of DP-FTRL {slopes('dimension', TREE)}); on a line at"
        f" epsilon = T^(-1/4) the cover regrets {_ratio(done, 'line', COVER, last):.2f} times what"
        f" DP-FTRL does at T = {last:g} (slope in T {slopes('line', COVER)}, of DP-FTRL"
        f" {slopes('line', TREE)})"
    )
    better = bool(won) or max(line.values()) > 0
    return Verdict(judged(better), tuple(checks), message)


def growth(done: Studies, study: str, name: str) -> Iterator[Check]:
    """Regret grows as the published rate or the proven bound does; in T it may grow more slowly."""
    found, rate = slope(done, study, name), published_slope(done, study, name)
    expected = (rate, bound_slope(done, study, name))
    of = f"{study}/{name}/slope of regret"
    most, least = max(expected) + SLACK, min(expected) - SLACK
    yield Check(f"{of}, upper end; limit: rate or bound", found.high, "<=", most, rate)
    if study in ("epsilon", "dimension"):
        yield Check(f"{of}, lower end; limit: rate or bound", found.low, ">=", least, rate)


def still(done: Studies, study: str, at: str) -> float:
    """The expected regret of the centre."""
    game = entry_of(done, study, at)[1]
    return game.tilt * game.horizon


def bounds(done: Studies) -> Iterator[Check]:
    """Every proven bound that a player at the centre would break covers what is measured."""
    for study, finished in done.items():
        for entry in finished.config.algorithms:
            bound = bound_of(finished.algorithms[entry.label])
            if bound < still(done, study, entry.label):
                text = f"{study}/{entry.label}/lower end of mean regret, limit the proven bound"
                yield Check(text, finished.regret(entry.label).low, "<=", bound)


def learnt(done: Studies, study: str) -> Iterator[Check]:
    """In the longest games all are far from the centre."""
    for name in names(study):
        longest = label(name, max(curve(done, study, name)))
        share = done[study].regret(longest).high / still(done, study, longest)
        yield Check(f"{study}/{longest}/share of the centre's regret", share, "<=", LEARNT)


def gains(done: Studies) -> Iterator[Check]:
    """What we expect: the claimed gain for stochastic losses, at the longest game."""
    longest = max(curve(done, "rounds", TREE))
    for name in (UPDATES, WARM):
        text = f"rounds/T={longest:g}/regret of DP-FTRL minus {name}, lower end"
        yield Check(text, gain(done, "rounds", name, longest), ">=", 0.0)


def _ratio(done: Studies, study: str, name: str, at: float) -> float:
    one, other = (done[study].regret(label(who, at)) for who in (name, TREE))
    return one.mean / other.mean


AXES = {"rounds": "rounds T", "epsilon": "epsilon", "dimension": "dimension d", "line": "rounds T"}


def draw(done: Studies, path: Path) -> None:
    """Draw regret against T, epsilon and d, with the proven bounds as dotted lines."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    from hedgerow.evaluation.plots.canvas import COLOURS, footnote, head, tidy

    figure = Figure(figsize=(13.0, 9.0), layout="constrained")
    head(figure, "Private online convex optimisation in the unit ball: regret")
    colours: dict[str, str] = dict(zip((UPDATES, WARM, TREE, COVER), COLOURS, strict=False))
    for axes, study in zip(figure.subplots(2, 2).flat, AXES, strict=True):
        tidy(axes)
        axes.set_xscale("log")
        axes.set_yscale("log")
        ticks: list[float] = []
        for name in names(study):
            points = curve(done, study, name)
            ticks = list(points)
            means = [estimate.mean for estimate in points.values()]
            halves = [estimate.half_width for estimate in points.values()]
            axes.errorbar(ticks, means, halves, color=colours[name], marker="o", ms=4, label=name)
            bounds = [bound_of(done[study].algorithms[label(name, at)]) for at in points]
            axes.plot(ticks, bounds, ":", color=colours[name], label=f"proven bound, {name}")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(AXES[study])
        axes.set_ylabel("regret per client")
        axes.set_title(done[study].config.title.removeprefix("Points in a ball, "), fontsize=10)
        axes.legend(frameon=False, fontsize=8)
    footnote(figure, footer(done, studies))
    figure.savefig(path, dpi=150)


EXPERIMENT = Experiment(
    id="oco-ball",
    title="Private online convex optimisation in a ball (Asi et al. 2023, section 5)",
    claim=printed_claim("asi2023", "convex"),
    studies=studies,
    judge=judge,
    draw=draw,
)
