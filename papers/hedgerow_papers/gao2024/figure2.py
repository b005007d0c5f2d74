"""Gao, Huang, Yang 2024, Figures 2 and 5: Fed-SVT against single-player Sparse-Vector, epsilon 10.

The streams are realizable: "random losses, one expert always has zero loss", which we read as
uniform on [0, 1]. The heights of the figure are not in the text, so no number is "published". The
claim is that federation is significantly better than one player for N = 1, 30, 50. We also report
the streams with which the certified constants were found.

The single player has two printed numbers of draws: that of Gao et al. for one client, and that of
the single-player paper (Asi et al. 2023). Both play. The curves over rounds are means of all seeds
(Figure 2) and single seeds (Figure 5).
"""

from __future__ import annotations

from pathlib import Path

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.environments.drawn.realizable import Halving, Realizable
from hedgerow.evaluation.recorder import RunResult
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.asi2023.sparse_vector import AsiSparseVector
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    Verdict,
    judged,
    lower_end_of_difference,
    spent,
)
from hedgerow_papers.experiments.pictures import footer, sibling
from hedgerow_papers.gao2024.fed_svt import FedSVT

EPSILON, EXPERTS, HORIZON = 10.0, 100, 512
SETTINGS = ((1, 1), (10, 1), (10, 30), (10, 50))
ROBUST = ((1, 1), (10, 1))
SPECS: dict[str, type[FedSVT | SparseVector]] = {"published": FedSVT, "certified": SparseVector}
ASI = "published, Asi et al./m=1/N=1"
SEEDS_SHOWN = 3
RATES = (0.02, 0.1, 0.5, 1.0)
FIGURE = "figure"


def label(calibration: str, clients: int, every: int) -> str:
    return f"{calibration}/m={clients}/N={every}"


def _stream(name: str, clients: int) -> Realizable | Halving:
    if name == FIGURE:
        return Realizable(
            clients=clients, experts=EXPERTS, horizon=HORIZON, mean=0.5, law="uniform"
        )
    if name == "halving":
        return Halving(clients=clients, experts=EXPERTS, horizon=HORIZON)
    rate = float(name.removeprefix("bernoulli="))
    return Realizable(clients=clients, experts=EXPERTS, horizon=HORIZON, mean=rate, law="bernoulli")


STREAMS = (FIGURE, "halving", *(f"bernoulli={rate:g}" for rate in RATES))


def studies(quick: bool) -> dict[str, StudyConfig]:
    made = {}
    for stream in STREAMS:
        entries = tuple(
            Entry(
                label(calibration, m, n),
                spec(epsilon=EPSILON, every=n),
                _stream(stream, m),
            )
            for calibration, spec in SPECS.items()
            for m, n in (SETTINGS if stream == FIGURE else ROBUST)
        )
        if stream == FIGURE:
            single = AsiSparseVector(epsilon=EPSILON)
            entries = (*entries, Entry(ASI, single, _stream(stream, 1)))
        shown = "uniform" if stream == FIGURE else stream
        title = f"Fed-SVT, epsilon = {EPSILON:g}, d = {EXPERTS}, T = {HORIZON}: {shown} stream"
        made[stream] = StudyConfig(title, _stream(stream, 10), entries, seeds=4 if quick else 100)
    return made


def judge(done: Studies) -> Verdict:
    figure, checks = done[FIGURE], []
    separated = []
    players = {"single-player": label("published", 1, 1), "single-player-of-Asi-et-al": ASI}
    for _, n in SETTINGS[1:]:
        together = label("published", 10, n)
        for words, single in players.items():
            low = lower_end_of_difference(figure.regret(single), figure.regret(together))
            separated.append(low > 0)
            checks.append(Check(f"{together}/below-{words}", low, ">=", 0.0))
    for m, about, most, halving in ((1, 190.0, 12.0, 10.0), (10, 20.0, 1.5, 4.0)):
        printed = figure.regret(label("published", m, 1)).mean
        checks.append(Check(f"{label('published', m, 1)}/regret", printed, "<=", about * 1.25))
        checks.append(
            Check(f"{label('published', m, 1)}/regret/at-least", printed, ">=", about * 0.75)
        )
        ours = label("certified", m, 1)
        checks.append(Check(f"{ours}/regret", figure.regret(ours).mean, "<=", most))
        checks.append(
            Check(f"{ours}/halving/regret", done["halving"].regret(ours).mean, "<=", halving)
        )
        for stream in STREAMS[2:]:
            checks.append(
                Check(f"{ours}/{stream}/regret", done[stream].regret(ours).mean, "<=", most)
            )
        checks.append(Check(f"{ours}/epsilon", spent(figure.algorithms[ours]), "<=", EPSILON))
    for n in (30, 50):
        together = figure.regret(label("certified", 10, n)).mean
        checks.append(Check(f"{label('certified', 10, n)}/regret", together, "<=", 1.5))
        low = lower_end_of_difference(
            figure.regret(label("certified", 1, 1)), figure.regret(label("certified", 10, n))
        )
        checks.append(Check(f"{label('certified', 10, n)}/below-single-player", low, ">=", 0.0))
    draws = [figure.algorithms[single].parameters["switches"] for single in players.values()]
    losses = [figure.regret(single).mean for single in players.values()]
    return Verdict(
        judged(all(separated)),
        tuple(checks),
        "the heights of the printed figure are not in the paper's text; one player with the"
        f" {draws[0]} draws of Gao et al. {losses[0]:.0f}, with the {draws[1]} of Asi et al."
        f" {losses[1]:.0f}",
    )


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.panels import plot_bars

    groups = {
        f"m={m}, N={n}" + ("" if stream == FIGURE else f", {stream}"): {
            calibration: done[stream].regret(label(calibration, m, n)) for calibration in SPECS
        }
        for stream in STREAMS
        for m, n in (SETTINGS if stream == FIGURE else ROBUST)
    }
    title = (
        f"Fed-SVT at epsilon = {EPSILON:g}: printed and certified (T = {HORIZON}, d = {EXPERTS})"
    )
    plot_bars(groups, path, title, "regret per client (log scale)", footer(done, studies))
    _draw_curves(done, sibling(path, "curves"))
    _draw_seeds(done, sibling(path, "seeds"))


def _lines(done: Studies, calibration: str) -> dict[str, list[RunResult]]:
    """The lines of Figure 2: one player, and ten clients for every N."""
    figure = done[FIGURE]
    found = {"one player": figure.of(label(calibration, 1, 1))}
    together = {f"together, N = {n}": label(calibration, m, n) for m, n in SETTINGS[1:]}
    found |= {name: figure.of(one) for name, one in together.items()}
    # the last, so that a line has the same colour in all panels
    asi = {"one player, draws of Asi et al.": figure.of(ASI)}
    return found | asi if calibration == "published" else found


def _draw_curves(done: Studies, path: Path) -> None:
    from hedgerow_papers.panels import plot_panels

    panels = {}
    for calibration in ("certified", "published"):
        really = spent(done[FIGURE].algorithms[label(calibration, 10, 1)])
        panels[f"{calibration} constants\n(epsilon = {really:g})"] = _lines(done, calibration)
    title = f"Figure 2 over rounds (requested epsilon = {EPSILON:g}, d = {EXPERTS}, T = {HORIZON})"
    note = footer(done, studies, "bands: 95 % confidence of the mean")
    plot_panels(panels, path, title, "regret per client (log scale)", note)


def _draw_seeds(done: Studies, path: Path) -> None:
    from hedgerow_papers.panels import plot_panels

    panels = {
        f"seed {seed}": {
            name: [run for run in runs if run.seed == seed]
            for name, runs in _lines(done, "published").items()
        }
        for seed in range(SEEDS_SHOWN)
    }
    title = f"Figure 5: single seeds, printed constants (epsilon = {EPSILON:g}, T = {HORIZON})"
    single = "each line is one run, without a 95 % band"
    note = footer(done, studies, single, shown=f"the first {SEEDS_SHOWN} of")
    plot_panels(panels, path, title, "regret per client (log scale)", note)


EXPERIMENT = Experiment(
    id="gao2024-figure2",
    title="Fed-SVT against single-player Sparse-Vector (Gao et al. 2024, Figures 2 and 5)",
    claim=printed_claim("gao2024", "figure2"),
    studies=studies,
    judge=judge,
    draw=draw,
)
