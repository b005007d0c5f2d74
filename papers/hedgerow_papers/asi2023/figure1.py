"""Asi, Feldman, Koren, Talwar 2023, Figure 1: regret T^beta against epsilon = T^-alpha, d >= T.

The figure ignores logarithms and constants. Prior work has beta = 1/2 + alpha, the dartboard
max(1/2, 1/3 + alpha), and with groups of rounds (Corollary 6, alpha >= 1/3) 2/5 + 4 alpha / 5.

The text has the bounds with constants. So the exponents can be checked: we take the printed bounds
for d = T at two large T, where constants cancel and logarithms nearly so. Private Hedge, which
draws in every round, represents prior work; its bound is proven here. And we can ask from which T
on the printed bounds say anything at all: a bound above T says nothing. At T = 10^4 all of them are
above T, and the gain of groups cannot be seen. The printed constants also play, for T = d = 4096.
"""

from __future__ import annotations

from functools import cache
from math import log
from pathlib import Path

from hedgerow.algorithms.dartboard.private_hedge import PrivateHedge
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.asi2023.dartboard import AsiDartboard, printed
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    TextTable,
    Verdict,
    judged,
)
from hedgerow_papers.experiments.pictures import footer, sibling

DELTA, GAP = 1e-6, 0.3
ALPHAS = (0.0, 1 / 6, 1 / 3, 1 / 2, 2 / 3)
PRIOR, SINGLE, GROUPS = "prior work", "dartboard", "dartboard, groups"
LARGE = (10**9, 10**12)  # horizons between which exponents are computed
SMALL = 10**4
LOGARITHMS = 0.06  # what logarithms may add to an exponent between the large horizons
PLAYED, ROUNDS, QUICK = (0.0, 1 / 3, 1 / 2), 4096, 512
FORMS: dict[str, str] = {
    "printed": SINGLE,
    "printed, groups": GROUPS,
    "certified": SINGLE,
    "private Hedge": PRIOR,
}


def exponent(series: str, alpha: float) -> float:
    """The printed beta, at most 1: no regret is larger than T.

    >>> [round(exponent(series, 0.5), 3) for series in (PRIOR, SINGLE, GROUPS)]
    [1.0, 0.833, 0.8]
    """
    if series == PRIOR:
        return min(1.0, 1 / 2 + alpha)
    grouped = series == GROUPS and alpha > 1 / 3  # where the corollary holds
    return min(1.0, 2 / 5 + 4 * alpha / 5 if grouped else max(1 / 2, 1 / 3 + alpha))


@cache
def bound(series: str, horizon: int, alpha: float) -> float:
    """The bound with constants for d = T and epsilon = T^-alpha."""
    setting, epsilon = Setting(1, horizon, horizon), horizon**-alpha
    if series == PRIOR:
        return PrivateHedge(epsilon=epsilon, delta=DELTA).build(setting).regret_at_most
    every = 1 if series == SINGLE or alpha < 1 / 3 else None  # Corollary 6 is for small epsilon
    return printed(setting, epsilon, DELTA, every)[1]


def says_something(series: str, alpha: float) -> bool:
    """Whether the exponent is below 1."""
    return exponent(series, alpha) < 1


def local(series: str, alpha: float) -> float:
    """The exponent of the bound between the two large horizons."""
    low, high = (bound(series, horizon, alpha) for horizon in LARGE)
    return log(high / low) / log(LARGE[1] / LARGE[0])


def first_horizon(series: str, alpha: float) -> int | None:
    """The first power of 10 at which the bound is below T; None: not up to 10^12."""
    powers = (10**k for k in range(3, 13))
    return next((t for t in powers if bound(series, t, alpha) < t), None)


def spec(form: str, alpha: float, horizon: int) -> AlgorithmSpec:
    epsilon = horizon**-alpha
    if form == "private Hedge":
        return PrivateHedge(epsilon=epsilon, delta=DELTA)
    if form == "certified":
        return ShrinkingDartboard(epsilon=epsilon, delta=DELTA)
    every = 1 if form == "printed" else None
    return AsiDartboard(epsilon=epsilon, delta=DELTA, every=every)


def label(form: str, alpha: float) -> str:
    return f"{form}/alpha={alpha:.2f}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    horizon = QUICK if quick else ROUNDS
    entries = tuple(
        Entry(label(form, alpha), spec(form, alpha, horizon)) for form in FORMS for alpha in PLAYED
    )
    stream = Bernoulli(clients=1, experts=horizon, horizon=horizon, mean=0.5, gap=GAP)
    title = f"epsilon = T^-alpha, T = d = {horizon}"
    return {"played": StudyConfig(title, stream, entries, seeds=3 if quick else 5)}


def judge(done: Studies) -> Verdict:
    study = done["played"]
    horizon = study.config.environment.setting.rounds
    guessing = horizon * GAP * (1 - 1 / horizon)
    claimed = [
        Check(
            f"{series}/alpha={alpha:.2f}/exponent of the bound, distance from the printed one",
            abs(local(series, alpha) - exponent(series, alpha)),
            "<=",
            LOGARITHMS,
            exponent(series, alpha),
        )
        for series in (PRIOR, SINGLE, GROUPS)
        for alpha in ALPHAS
        if says_something(series, alpha)
    ]
    nothing = min(bound(GROUPS, SMALL, alpha) for alpha in ALPHAS) / SMALL
    expected = [
        Check(f"T=10^4/smallest printed bound over T, with {GROUPS}", nothing, ">=", 1.0),
        *(
            Check(
                f"{label(form, PLAYED[-1])}/upper end, share of the cost of guessing",
                study.regret(label(form, PLAYED[-1])).high / guessing,
                ">=",
                0.9,
            )
            for form in ("printed", "printed, groups")
        ),
        Check(
            f"{label('certified', 0.0)}/upper end over the printed constants",
            study.regret(label("certified", 0.0)).high / study.regret(label("printed", 0.0)).mean,
            "<=",
            1.0,
        ),
    ]
    rows = tuple(
        (
            f"{alpha:.2f}",
            series,
            f"{exponent(series, alpha):.3f}",
            f"{local(series, alpha):.3f}",
            f"{log(bound(series, SMALL, alpha)) / log(SMALL):.3f}",
            _power(first_horizon(series, alpha)),
        )
        for alpha in ALPHAS
        for series in (PRIOR, SINGLE, GROUPS)
        if says_something(series, alpha)
    )
    columns = ("alpha", "algorithm", "printed", "T = 10^9 to 10^12", "ln(bound)/ln(T), T = 10^4")
    table = TextTable("exponents", (*columns, "below T from"), rows)
    tail = ", ".join(f"{form} {study.regret(label(form, PLAYED[-1])).mean:,.0f}" for form in FORMS)
    note = (
        f"the exponents hold up to logarithms; the printed bounds are below T from"
        f" T = {_power(first_horizon(SINGLE, 0.0))} on at epsilon = 1, and with groups from"
        f" T = {_power(first_horizon(GROUPS, 1 / 3))} on at epsilon = T^(-1/3). At T = d ="
        f" {horizon:,} and epsilon = T^(-1/2): {tail}, guessing {guessing:,.0f}"
    )
    return Verdict(judged(all(c.passed for c in claimed)), (*claimed, *expected), note, (table,))


def _power(horizon: int | None) -> str:
    return "more than 10^12" if horizon is None else f"10^{len(str(horizon)) - 1}"


def draw(done: Studies, path: Path) -> None:
    from hedgerow.evaluation.plots.canvas import COLOURS, canvas, footnote
    from hedgerow_papers.lines import plot_regret_against

    fine = [i / 60 for i in range(41)]
    names = (PRIOR, SINGLE, GROUPS)
    lines = {f"{name}, printed": {a: exponent(name, a) for a in fine} for name in names}
    effective = {
        f"{name}, bound at T = 10^{len(str(t)) - 1}": {
            a: log(bound(name, t, a)) / log(t) for a in ALPHAS if says_something(name, a)
        }
        for name in names
        for t in (10**12,)
    }
    figure, axes = canvas(
        "Regret T^beta for epsilon = T^-alpha and d = T, losses fixed in advance", 9.0, 5.2
    )
    for style, width, group in (("-", 2.0, lines), ("--", 1.5, effective)):
        for (name, line), colour in zip(group.items(), COLOURS, strict=False):
            axes.plot(
                list(line),
                list(line.values()),
                color=colour,
                linewidth=width,
                linestyle=style,
                label=name,
            )
    axes.set_xlabel("alpha")
    axes.set_ylabel("beta (above 1 a bound says nothing)")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    note = "lines: without constants and logarithms; dashed: ln(bound) / ln(T) with constants; "
    footnote(figure, note + footer(done, studies, "computed, so there are no 95 % bars"))
    figure.savefig(path, dpi=150)
    study = done["played"]
    horizon = study.config.environment.setting.rounds
    points: dict[str, dict[float, Estimate]] = {
        form: {horizon**-a: study.regret(label(form, a)) for a in PLAYED} for form in FORMS
    }
    random = {"guessing": {horizon**-a: horizon * GAP * (1 - 1 / horizon) for a in PLAYED}}
    title = f"What the constants do at T = d = {horizon:,} (1 client, delta = {DELTA:g})"
    plot_regret_against(
        points,
        sibling(path, "played"),
        title,
        "epsilon",
        bounds=random,
        note=footer(done, studies),
    )


EXPERIMENT = Experiment(
    id="asi2023-figure1",
    title="Exponents of regret in the high-privacy regime (Asi et al. 2023, Figure 1)",
    claim=printed_claim("asi2023", "figure1"),
    studies=studies,
    judge=judge,
    draw=draw,
)
