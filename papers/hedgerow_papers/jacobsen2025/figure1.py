"""Jacobsen and Fawaz, figure 1: what batches add to the privacy of a walk, by arrival time.

The setting is that of the paper: mu = 1, 25 experts, sensitivity sqrt(25), tolerance 0.01, 10,000
rounds of zero losses. The size of the batch that holds round t decides how well a record of that
round is protected. We compare three laws of this size: the certified bound
(`proofs/walk_batches.md#size-law`), the bound as printed, and 1,000 simulated runs. Two rules of
the delays are certified and simulated: the published one, and the sharper one that `WalkBatches`
uses by default. The printed bound uses the gap that is needed for a delay of B - 1 where that of B
is needed. All else in it is read in the way that makes it largest.

We expect that the certified bound of each rule is never below its simulated law and that the
printed one is. We also expect that a shuffler does not give the server what the public has, that
batches change almost no play, and that the sharper rule of the delays protects more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.core.noise import SeededNoise
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.evaluation.statistics import Estimate
from hedgerow.privacy.curves import GaussianDP, trade_off
from hedgerow.records.schema import STAMP
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, judged
from hedgerow_papers.experiments.pictures import is_quick
from hedgerow_papers.jacobsen2025.batch_sizes import gap_survival, size_at_most, size_law
from hedgerow_papers.jacobsen2025.delays import Delays, Rule, published
from hedgerow_papers.jacobsen2025.mixture import GaussianMixture
from hedgerow_papers.jacobsen2025.walk_batches import (
    JacobsenWalkBatches,
    WalkBatches,
    batches,
    leads,
    mixture,
)

MU, EXPERTS, TOLERANCE, HORIZON = 1.0, 25, 0.01, 10_000
SCALE = sqrt(EXPERTS) / MU
ARRIVALS = (100, 1000, 10_000)
ONES: dict[int, float] = dict(
    zip(ARRIVALS, (0.81, 0.41, 0.17), strict=True)
)  # batches of one, from earlier runs
SIZES = (1, 2, 5, 10, 20, 50)
RUNS = {True: 100, False: 1000}
SIGMAS = 4.0  # how far a simulated share may be off
MOST = 1.4  # times the simulated delta
SHARPER: Rule = "reflection"
LEADER, BATCHES, SHARP = "walk_leader", "walk_batches, published rule", "walk_batches"
BATCH, SHUFFLED_MU, DRAWS = 100, 2.0, 20_000  # a shuffled batch


def studies(quick: bool) -> dict[str, StudyConfig]:
    stream = Bernoulli(clients=1, experts=EXPERTS, horizon=HORIZON, gap=0.05)
    entries = (
        Entry(LEADER, WalkLeader(mu=MU)),
        Entry(BATCHES, JacobsenWalkBatches(mu=MU, tolerance=TOLERANCE)),
        Entry(SHARP, WalkBatches(mu=MU, tolerance=TOLERANCE)),
    )
    title = f"Walks with and without batches, d = {EXPERTS}, T = {HORIZON}"
    return {"plays": StudyConfig(title, stream, entries, seeds=2 if quick else 50)}


def delays(rule: Rule = "published") -> Delays:
    return Delays(EXPERTS, SCALE, 1.0, TOLERANCE, rule)


@cache
def simulated(quick: bool, rule: Rule = "published") -> dict[int, np.ndarray]:
    """The size of the batch that holds each arrival time, in many runs on zero losses."""
    found: dict[int, list[int]] = {arrival: [] for arrival in ARRIVALS}
    noise = SeededNoise(1).server()
    for _ in range(RUNS[quick]):
        walk = noise.draw("gaussian", "walk", (EXPERTS,), rounds=HORIZON, scale=SCALE).copy()
        walk[0] += noise.draw("gaussian", "start", (EXPERTS,), scale=SCALE)
        _, gaps = leads(np.cumsum(walk, axis=0), gains=False)
        ends = np.array([end for _, end in batches(delays(rule), 0, gaps.tolist())])
        starts = np.concatenate([[-1, 0], ends])  # the first batch is round 1 alone
        for arrival in ARRIVALS:  # batch i holds rounds starts[i] + 2 to starts[i + 1] + 1
            after = int(np.searchsorted(starts, arrival - 1))
            found[arrival].append(int(starts[after] - starts[after - 1]))
    return {arrival: np.array(sizes) for arrival, sizes in found.items()}


def certified_at_most(arrival: int, rule: Rule, size: int) -> float:
    """The certified bound on the probability of a batch of at most this size."""
    return float(size_at_most(delays(rule), arrival, np.array([size]))[0])


def printed_at_most(arrival: int, size: int) -> float:
    """The printed bound on the probability of a batch of at most this size."""
    if size >= arrival:
        return 1.0
    needed = float(delays().gap_needed(arrival, size - 1)) if size > 1 else 0.0
    ahead = np.linspace(0.0, 20.0, 4001)
    gaps = needed + size + SCALE * sqrt(2 * size) * ahead
    above = gap_survival(EXPERTS, gaps / (SCALE * sqrt(arrival - size + 1)))
    return float(1 - above @ -np.diff(published(ahead, EXPERTS), prepend=1.0))


@cache
def printed(arrival: int) -> GaussianMixture:
    """The curve by the printed bound."""
    sizes = [size for size, _ in size_law(delays(), arrival)]
    below = [printed_at_most(arrival, size) for size in sizes[:-1]] + [1.0]
    weights = np.diff(np.maximum.accumulate(below), prepend=0.0) * (1 + 2.0**-40)
    return GaussianMixture.of(
        (MU / sqrt(size), min(1.0, float(w))) for size, w in zip(sizes, weights, strict=True)
    )


def certified(arrival: int, rule: Rule = "published") -> GaussianMixture:
    return mixture(delays(rule), MU, arrival, 0)


def curve_of(sizes: np.ndarray) -> GaussianMixture:
    """The curve of the simulated law."""
    values, counts = np.unique(sizes, return_counts=True)
    return GaussianMixture.of(
        (MU / sqrt(size), count / len(sizes) * (1 + 2.0**-40))
        for size, count in zip(values.tolist(), counts.tolist(), strict=True)
    )


def shuffled_delta(epsilon: float) -> tuple[float, Estimate]:
    """What a shuffled batch shows: by its largest report, exactly, and by all reports, estimated.

    One of `BATCH` reports moves by `SHUFFLED_MU`, in units of noise.
    """
    tau = np.linspace(0.0, 8.0, 801)
    moved = 1 - ndtr(tau) ** (BATCH - 1) * ndtr(tau - SHUFFLED_MU)
    largest = float((moved - exp(epsilon) * (1 - ndtr(tau) ** BATCH)).max())
    reports = SeededNoise(2).server().draw("gaussian", "shuffled", (BATCH,), rounds=DRAWS).copy()
    reports[:, 0] += SHUFFLED_MU
    ratios = np.exp(SHUFFLED_MU * reports - SHUFFLED_MU**2 / 2).mean(axis=1)
    return largest, Estimate.of(np.maximum(1 - exp(epsilon) / ratios, 0.0))


def excess(sizes: np.ndarray, bound: Callable[[int], float]) -> float:
    """By how many standard errors the share of small batches exceeds its bound, at most."""
    found = []
    for size in SIZES:
        most, share = bound(size), float((sizes <= size).mean())
        error = sqrt(max(most * (1 - most), 1 / len(sizes)) / len(sizes))
        found.append((share - most) / error)
    return max(found)


def judge(done: Studies) -> Verdict:
    quick = is_quick(done, studies)
    checks, broken = [], 0
    for arrival, sizes in simulated(quick).items():
        simple = curve_of(sizes).delta(1.0)
        bound, wrong = certified(arrival).delta(1.0), printed(arrival).delta(1.0)
        sharp = certified(arrival, SHARPER).delta(1.0)
        above = excess(sizes, partial(printed_at_most, arrival))
        broken += above > SIGMAS
        far = abs(float((sizes == 1).mean()) - ONES[arrival])
        at = f"t={arrival}/"
        checks += [
            *_covered(arrival, "published", sizes, at),
            *_covered(arrival, SHARPER, simulated(quick, SHARPER)[arrival], f"{at}sharper rule, "),
            Check(f"{at}simulated above printed law, standard errors", above, ">=", SIGMAS),
            Check(f"{at}share of batches of one, distance to {ONES[arrival]}", far, "<=", 0.03),
            Check(f"{at}delta(1), printed over simulated", wrong / simple, "<=", 1.0),
            Check(f"{at}delta(1), sharper rule over published rule", sharp / bound, "<=", 0.95),
        ]
    largest, all_of_it = shuffled_delta(1.0)
    central = GaussianDP(SHUFFLED_MU / sqrt(BATCH)).delta(1.0)
    text = f"shuffled batch of {BATCH}, mu = {SHUFFLED_MU:g}/delta(1)"
    checks += [
        Check(f"{text} of the largest report over that of the sum", largest / central, ">=", 1e5),
        Check(f"{text} of all reports, lower end", all_of_it.low, ">=", 0.02),
    ]
    study = done["plays"]
    missed = 2 * TOLERANCE * sqrt(HORIZON * np.log(EXPERTS))
    for name in (BATCHES, SHARP):
        lost = float(np.abs(study.regrets(name) - study.regrets(LEADER)).mean())
        checks.append(
            Check(f"{name}/mean change of regret against walk_leader", lost, "<=", missed)
        )
    times = {t: GaussianDP(MU).delta(1.0) / certified(t).delta(1.0) for t in ARRIVALS}
    shown = ", ".join(f"{times[t]:.1f} at t = {t}" for t in ARRIVALS)
    message = (
        f"small batches are more frequent than the printed law allows at {broken} of"
        f" {len(ARRIVALS)} arrival times; certified, delta at epsilon 1 falls by factors of"
        f" {shown}; shuffled reports have delta {all_of_it.mean:.2g}, the sum {central:.2g}"
    )
    corrected = all(check.passed for check in checks if "certified law" in check.name)
    return Verdict(judged(broken == 0, corrected), tuple(checks), message)


def _covered(arrival: int, rule: Rule, sizes: np.ndarray, at: str) -> list[Check]:
    """The certified bound of a rule covers what the rule does, and is not far above it."""
    over = excess(sizes, partial(certified_at_most, arrival, rule))
    times = certified(arrival, rule).delta(1.0) / curve_of(sizes).delta(1.0)
    return [
        Check(f"{at}simulated above certified law, standard errors", over, "<=", SIGMAS),
        Check(f"{at}delta(1), certified over simulated", times, ">=", 1.0),
        Check(f"{at}delta(1), certified over simulated, most", times, "<=", MOST),
    ]


def draw(done: Studies, path: Path) -> None:
    """Draw the trade-off functions and the (epsilon, delta) curves of three arrival times."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from hedgerow.evaluation.plots.canvas import COLOURS, footnote, head, tidy

    quick = is_quick(done, studies)
    figure = Figure(figsize=(11.0, 5.6), layout="constrained")
    head(figure, "Privacy of a record by its arrival time: walk batches, mu = 1, 25 experts")
    left, right = figure.subplots(1, 2)
    alarms, epsilons = np.linspace(0.0, 1.0, 101), np.linspace(0.0, 3.0, 61)
    sizes, sharper = simulated(quick), simulated(quick, SHARPER)

    def add(curve: GaussianDP | GaussianMixture, **style: Any) -> None:
        mixed = isinstance(curve, GaussianMixture)
        misses = curve.trade_off(alarms) if mixed else trade_off(curve, alarms)
        left.plot(alarms, misses, **style)
        right.plot(epsilons, [curve.delta(epsilon) for epsilon in epsilons], **style)

    add(GaussianDP(MU), color="#999999")
    for i, arrival in enumerate(ARRIVALS):
        colour = COLOURS[i % len(COLOURS)]
        add(certified(arrival), color=colour)
        add(curve_of(sizes[arrival]), color=colour, linestyle="-.")
        add(printed(arrival), color=colour, linestyle=":")
        add(certified(arrival, SHARPER), color=colour, linewidth=0.7)
        add(curve_of(sharper[arrival]), color=colour, linestyle="-.", linewidth=0.7)
    left.set_xlabel("false alarms")
    left.set_ylabel("misses of the best attack (higher is more private)")
    right.set_xlabel("epsilon")
    right.set_ylabel("delta (lower is more private)")
    right.set_yscale("log")
    for axes in (left, right):
        tidy(axes)
    times = [
        Line2D([], [], color=COLOURS[i % len(COLOURS)], label=f"t = {arrival:,}")
        for i, arrival in enumerate(ARRIVALS)
    ]
    kinds: dict[str, Any] = {
        "certified": "-",
        f"{RUNS[quick]:,} simulations": "-.",
        "as printed": ":",
    }
    lines = [
        Line2D([], [], color="#333333", linestyle=style, label=text)
        for text, style in kinds.items()
    ]
    plain = Line2D([], [], color="#999999", label="one report (all times)")
    left.legend(handles=[plain, *times], frameon=False, fontsize=9)
    right.legend(handles=lines, frameon=False, fontsize=9, loc="lower left")
    note = (
        "data fixed in advance, for the public; the server has mu = 1 at all times; thin: the"
        " sharper rule of the delays"
    )
    footnote(figure, f"{note}; {STAMP}{'; quick form, not judged' if quick else ''}")
    figure.savefig(path, dpi=150)


EXPERIMENT = Experiment(
    id="jacobsen2025-figure1",
    title="Privacy by arrival time (Jacobsen and Fawaz, figure 1)",
    claim=printed_claim("jacobsen2025", "batches"),
    studies=studies,
    judge=judge,
    draw=draw,
)
