"""Zhang, Zhu, Fay, Johansson 2024, Figure 3: logistic regression, correlated or independent noise.

20 clients with 5 examples in each of 1000 rounds, 100 features, synthetic(0.1, 0.1) of FedProx with
two classes, (0.5, 1e-3) and (2, 1e-3), local trust. Features have norm 1, so gradients have norm at
most B_g = 1 without clipping, L = 1/4, and local steps of at most 2 / L keep the printed
sensitivity (`proofs/online_sgd.md`). In the paper all curves share one step, but for independent
noise, which has a smaller one; the numbers are not printed. `step_search` finds them on other data,
with one grid: the step with the least mean loss of MF (i), (ii), (iii), and the best one of
independent noise. The claim is judged at these: a curve follows that without noise if it is nearer
to it than to that of independent noise. A shared step favours closeness: it holds back the run
without noise, which could take a far larger one. So every method is also played at its own best
step.

What is compared is the excess: the loss on test data, as a mean over the last 8 % of the rounds,
minus that of the tuned run without noise that takes its gradients in the same way, on the same
seed. Ratios are ratios of mean excesses over the same seeds.

Printed noise (zero-concentrated DP) and certified noise (the exact Gaussian curve) have the same
guarantee here; the printed noise really costs less than epsilon.

In the printed setting a round has 100 examples in 100 dimensions. They can be separated, so the
best loss of a round is 0, is not attained, and the dynamic regret is the loss itself; C_R and
Assumption IV.4 have no meaning. So we add a stream with 10 features whose concept rotates. There
the best model of a round has a loss, and the bound of Lemma IV.9 is a number beside the measured
regret.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf, isinf, log
from pathlib import Path

import numpy as np

from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.algorithms.learning.plan import Plan
from hedgerow.core.lattice import Array
from hedgerow.evaluation.best_point import best_point
from hedgerow.evaluation.statistics import Estimate
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import largest_mu
from hedgerow.running_sums.kinds import Kind, factorise
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    TextTable,
    Verdict,
    judged,
    spent,
)
from hedgerow_papers.experiments.pictures import footer, sibling
from hedgerow_papers.statistics import Ratio
from hedgerow_papers.zhang2024.online_sgd import ZhangSGD, published_scale
from hedgerow_papers.zhang2024.round_regret import round_optima
from hedgerow_papers.zhang2024.step_search import Trial
from hedgerow_papers.zhang2024.streams import DriftingExamples, FederatedSynthetic
from hedgerow_papers.zhang2024.theory import (
    LearningRun,
    LossFacts,
    best_step,
    change_of_optima,
    correlated_wins_below,
    dynamic_bound,
    noise_deviation,
    static_bound,
)

DELTA, EXAMPLES, CLIENTS = 1e-3, 5, 20
BUDGETS = (0.5, 2.0)
END = 0.92  # where the end of the game begins
KINDS: dict[str, Kind] = {
    "independent": "independent",
    "tree": "naive_tree",
    "tree, least squares": "tree",
    "optimal": "dense",
    "square root": "root",
    "BLT": "blt",
}
PRINTED, CERTIFIED, SHARED = "printed noise", "certified noise", "shared step"
MF = ("tree", "optimal", "square root")  # MF (i), (ii), (iii)
SHARED_STEPS = {0.5: 0.283, 2.0: 0.8}  # from the same search: the least mean loss of these three
NEAR = 0.5  # of the way to independent noise
# Found by `best_steps(game(), methods(epsilon))`, on the data seeds 1000 and 1001, two noise draws
# each. A long test searches again: three steps at epsilon = 0.5 are neighbours of the best one on
# the grid, with at most 1.03 times its excess; all others are the best.
STEPS = {
    (0.5, PRINTED): (0.071, 0.2, 0.283, 0.566, 0.4, 0.4),
    (0.5, CERTIFIED): (0.141, 0.283, 0.4, 0.8, 0.566, 0.566),
    (2.0, PRINTED): (0.4, 0.566, 0.8, 1.6, 1.131, 1.131),
    (2.0, CERTIFIED): (0.566, 0.8, 1.131, 1.6, 1.6, 1.6),
}
AVERAGE = 0.99
START_STEPS = {0.5: (0.141, 0.566, 1.6, 1.6), 2.0: (0.566, 1.6, 3.2, 4.525)}
STARTED = ("independent", "BLT", "BLT, averaged", "optimal, averaged")
NOISELESS, NOISELESS_START = "no noise", "no noise, gradients at the start"
NOISELESS_STEPS = (12.8, 36.204)
MOVING, MOVING_EPSILON = "moving", 2.0
# The steps with the least loss on the data seeds 1000 and 1001, of powers of 2 times 0.1.
MOVING_STEPS = {"no noise": 3.2, "independent": 0.4, "BLT": 0.8, "BLT, averaged": 1.6}
MOVING_AVERAGE = 0.95
PROVEN = "BLT, step of the lemma"


def label(method: str, how: str) -> str:
    return f"{method}/{how}"


def game(horizon: int = 1000) -> FederatedSynthetic:
    return FederatedSynthetic(clients=CLIENTS, examples=EXAMPLES, horizon=horizon)


def moving_game(horizon: int = 1000) -> DriftingExamples:
    return DriftingExamples(clients=CLIENTS, examples=EXAMPLES, horizon=horizon)


def specs(epsilon: float) -> dict[str, OnlineSGD]:
    """All methods of one budget by label."""
    local = OnlineSGD(epsilon=epsilon, delta=DELTA, plan=Plan("convex"))
    start = replace(local, plan=Plan())
    found = {
        NOISELESS: replace(local, epsilon=inf, step=NOISELESS_STEPS[0]),
        NOISELESS_START: replace(start, epsilon=inf, step=NOISELESS_STEPS[1]),
    }
    printed = ZhangSGD(epsilon=epsilon, delta=DELTA, plan=Plan("convex"))
    for how, spec in ((PRINTED, printed), (CERTIFIED, local)):
        for (method, kind), step in zip(KINDS.items(), STEPS[epsilon, how], strict=True):
            found[label(method, how)] = replace(spec, plan=Plan("convex", kind), step=step)
    shared = SHARED_STEPS[epsilon]
    found[label(NOISELESS, SHARED)] = replace(found[NOISELESS], step=shared)
    for method in MF:
        found[label(method, SHARED)] = replace(found[label(method, PRINTED)], step=shared)
    for method, step in zip(STARTED, START_STEPS[epsilon], strict=True):
        name, _, averaged = method.partition(", ")
        found[label(method, "start")] = replace(
            start, plan=Plan("start", KINDS[name]), step=step, average=AVERAGE if averaged else None
        )
    return found


def methods(epsilon: float) -> dict[str, Trial]:
    """All methods of one budget as trials of `step_search`, by label."""
    scales = {
        ZhangSGD: published_scale(epsilon, DELTA, 1.0),
        OnlineSGD: 1 / largest_mu(Budget(epsilon, DELTA)),
    }
    return {
        name: Trial(
            step=spec.step or 0.0,
            kind="independent" if isinf(spec.epsilon) else spec.chosen.factorisation,  # pyright: ignore
            multiplier=0.0 if isinf(spec.epsilon) else scales[type(spec)],
            average=spec.average or 0.0,
            local=spec.chosen.steps == "convex",
        )
        for name, spec in specs(epsilon).items()
    }


def proven_step(horizon: int) -> float:
    """The step at which Lemma IV.9 is least without change: it depends on public numbers only."""
    facts, factors = LossFacts(smoothness=0.25), factorise("blt", horizon)
    deviation = _deviation(moving_game(horizon), factorise("blt", horizon).sensitivity())

    def at(step: float) -> float:
        run = LearningRun(horizon, step, deviation, distance=4.0)
        return dynamic_bound(facts, run, factors).total

    return best_step(at, facts.step_limit)


def _deviation(environment: DriftingExamples, sensitivity: float) -> float:
    """The noise of one release in the mean over clients: certified, local trust."""
    scale = 2 / environment.examples * sensitivity / largest_mu(Budget(MOVING_EPSILON, DELTA))
    return noise_deviation(scale, environment.features, environment.clients)


def moving_specs(horizon: int) -> dict[str, OnlineSGD]:
    base = OnlineSGD(epsilon=MOVING_EPSILON, delta=DELTA)
    kinds: dict[str, Kind] = {"independent": "independent"}
    found = {
        name: replace(
            base,
            epsilon=inf if name == "no noise" else MOVING_EPSILON,
            plan=Plan("start", kinds.get(name, "blt")),
            average=MOVING_AVERAGE if name.endswith("averaged") else None,
            step=step,
        )
        for name, step in MOVING_STEPS.items()
    }
    return {**found, PROVEN: replace(base, step=proven_step(horizon))}


def studies(quick: bool) -> dict[str, StudyConfig]:
    horizon, seeds = (100, 2) if quick else (1000, 10)
    found = {
        f"epsilon={epsilon:g}": StudyConfig(
            f"Logistic regression, ({epsilon:g}, {DELTA:g}), R = {horizon}",
            game(horizon),
            tuple(Entry(name, spec) for name, spec in specs(epsilon).items()),
            seeds=seeds,
        )
        for epsilon in (BUDGETS[:1] if quick else BUDGETS)
    }
    entries = tuple(Entry(name, spec) for name, spec in moving_specs(horizon).items())
    title = f"A rotating concept, ({MOVING_EPSILON:g}, {DELTA:g}), R = {horizon}"
    return {**found, MOVING: StudyConfig(title, moving_game(horizon), entries, seeds=seeds)}


def final(study: Study, name: str) -> Array:
    """The test loss at the end of the game, by seed."""
    found = []
    for run in study.of(name):
        late = run.rounds >= END * run.rounds[-1]
        found.append(run.figures["test loss"][late].mean())
    return np.array(found)


def excess(study: Study, name: str) -> Array:
    """The final loss above that of the run without noise, by seed."""
    base = NOISELESS_START if name.endswith("start") else NOISELESS
    return final(study, name) - final(study, base)


def behind(study: Study, name: str) -> Array:
    """The final loss above that of the run without noise at the shared step, by seed."""
    return final(study, name) - final(study, label(NOISELESS, SHARED))


@lru_cache(maxsize=64)
def moving_facts(environment: DriftingExamples, seed: int) -> tuple[float, float, float]:
    """The distance to the best model, C_R, and the mean least loss of a round."""
    setting, state = environment.setting, environment.start(seed)
    block, _ = environment.block(state, setting.rounds, None)
    best = best_point(setting.family, setting.experts, lambda: [block.losses])
    optima = round_optima(environment, seed)
    least = float(optima.totals.mean()) / setting.players
    change = change_of_optima(optima.points, best.point)
    return float(np.linalg.norm(best.point)), change, least


def lemma(environment: DriftingExamples, seed: int, step: float) -> float:
    """Lemma IV.9 for a stream, with gradients at the start of the round and BLT noise."""
    distance, change, _ = moving_facts(environment, seed)
    factors = factorise("blt", environment.horizon)
    deviation = _deviation(environment, factors.sensitivity())
    run = LearningRun(environment.horizon, step, deviation, distance, change)
    return dynamic_bound(LossFacts(smoothness=0.25), run, factors).total


def static(environment: DriftingExamples, seed: int, step: float) -> float:
    """The bound on static regret: as `lemma`, against the best model of the whole game.

    That model loses at most as much as the model 0, which loses ln 2.
    """
    distance, _, least = moving_facts(environment, seed)
    factors = factorise("blt", environment.horizon)
    deviation = _deviation(environment, factors.sensitivity())
    run = LearningRun(environment.horizon, step, deviation, distance)
    return static_bound(LossFacts(smoothness=0.25), run, factors, gap=log(2) - least).total


def separable(environment: FederatedSynthetic) -> bool:
    """Whether the first round of seed 0 can be separated: a solution of all its equations does."""
    block, _ = environment.block(environment.start(0), 1, None)
    rows = environment.family.examples(block.losses).reshape(-1, environment.features + 1)  # pyright: ignore
    weights = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0]
    return bool((rows[:, :-1] @ weights * rows[:, -1] > 0).all())


def judge(done: Studies) -> Verdict:
    checks, notes, near, follows = [], [], [], []
    for name, study in done.items():
        if name == MOVING:
            continue
        alone = behind(study, label("independent", PRINTED))
        for method in MF:
            ratio = Ratio.of(behind(study, label(method, SHARED)), alone)
            text = f"{name}/{SHARED}/{method}/behind no noise, over independent, upper end"
            checks.append(Check(text, ratio.high, "<=", NEAR))
            near.append(ratio.high < NEAR)
        for how in (PRINTED, CERTIFIED):
            alone = excess(study, label("independent", how))
            for method, limit in (("optimal", 0.30), ("square root", 0.33), ("BLT", 0.33)):
                ratio = Ratio.of(excess(study, label(method, how)), alone)
                checks.append(
                    Check(f"{name}/{how}/{method}/over independent", ratio.value, "<=", limit)
                )
                follows.append(ratio.high < 1)
        averaged = excess(study, label("BLT, averaged", "start"))
        alone, plain = (excess(study, label(m, "start")) for m in ("independent", "BLT"))
        for against, under, limit in (("independent", alone, 0.15), ("BLT", plain, 0.5)):
            ratio = Ratio.of(averaged, under)
            checks.append(Check(f"{name}/BLT, averaged/over {against}", ratio.value, "<=", limit))
        for method in KINDS:
            gain = Ratio.of(
                excess(study, label(method, CERTIFIED)), excess(study, label(method, PRINTED))
            )
            checks.append(Check(f"{name}/{method}/certified over printed", gain.value, "<=", 1.0))
        quiet = [final(study, n).mean() for n in (label(NOISELESS, SHARED), NOISELESS)]
        notes.append(
            f"{name}: the run without noise ends at {quiet[0]:.3f} with the shared step and at"
            f" {quiet[1]:.3f} with its own"
        )
        cost = spent(study.algorithms[label("BLT", PRINTED)])
        own = spent(study.algorithms[label("BLT", CERTIFIED)])
        notes.append(f"{name}: the printed noise costs {cost:.3f}, the certified noise {own:.3f}")
    setting = done[f"epsilon={BUDGETS[0]:g}"].config.environment
    assert isinstance(setting, FederatedSynthetic)
    if separable(setting):
        notes.append("a printed round can be separated: the dynamic comparator is 0")
    checks += _moving_checks(done[MOVING], notes)
    tables = tuple(excess_table(study, name) for name, study in done.items() if name != MOVING)
    return Verdict(judged(all(near), all(follows)), tuple(checks), "; ".join(notes), tables)


def excess_table(study: Study, name: str) -> TextTable:
    """The mean excess of every method, and its ratio to that of independent noise."""
    ways = {
        PRINTED: PRINTED,
        f"{PRINTED}, {SHARED}": SHARED,
        CERTIFIED: CERTIFIED,
        "certified, gradients at the start": "start",
    }

    def cell(method: str, how: str) -> str:
        if label(method, how) not in study.algorithms:
            return ""
        above, other = (behind, PRINTED) if how == SHARED else (excess, how)
        found, alone = above(study, label(method, how)), above(study, label("independent", other))
        return f"{found.mean():.3f} ({Ratio.of(found, alone).value:.2f})"

    rows = (
        (m, *(cell(m, how) for how in ways.values())) for m in dict.fromkeys((*KINDS, *STARTED))
    )
    title = f"excess of the final loss at {name} (ratio to independent noise)"
    return TextTable(title, ("noise", *ways), tuple(rows))


def _moving_checks(study: Study, notes: list[str]) -> list[Check]:
    environment = study.config.environment
    assert isinstance(environment, DriftingExamples)
    rounds, step = environment.horizon, proven_step(environment.horizon)
    regret = {
        name: np.array([run.figures["dynamic regret"][-1] / rounds for run in study.of(name)])
        for name in (*MOVING_STEPS, PROVEN)
    }
    seeds = [run.seed for run in study.of(PROVEN)]
    bounds = np.array([lemma(environment, seed, step) for seed in seeds])
    fixed = np.array([run.final_regret / rounds for run in study.of(PROVEN)])
    fixed_bounds = np.array([static(environment, seed, step) for seed in seeds])
    least = np.mean([moving_facts(environment, seed)[2] for seed in seeds])
    factors = factorise("blt", rounds)
    wins = correlated_wins_below(LossFacts(0.25), factors, rounds)
    notes.append(
        f"rotating concept: least loss of a round {least:.3f}; dynamic regret per round "
        + ", ".join(f"{name} {Estimate.of(found).mean:.3f}" for name, found in regret.items())
        + f"; Lemma IV.9 at its own step {step:.3f}: {bounds.mean():.2f}"
        + f"; static regret there {fixed.mean():.3f}, bound {fixed_bounds.mean():.3f}"
        + f"; its noise is less than that of Corollary IV.11 below a step of {wins:.3f} "
        + f"(printed: 1 / (ln R)^2 = {1 / log(rounds) ** 2:.3f})"
    )
    worst = float((regret[PROVEN] / bounds).max())
    ratio = Ratio.of(regret["BLT"], regret["independent"]).value
    averaged = Ratio.of(regret["BLT, averaged"], regret["BLT"]).value
    return [
        Check(f"{MOVING}/least loss of a round", float(least), ">=", 0.1),
        Check(f"{MOVING}/dynamic regret over Lemma IV.9", worst, "<=", 1.0),
        Check(
            f"{MOVING}/static regret over its bound", float((fixed / fixed_bounds).max()), "<=", 1.0
        ),
        Check(f"{MOVING}/BLT over independent", ratio, "<=", 1.0),
        Check(f"{MOVING}/BLT, averaged over BLT", averaged, "<=", 1.0),
    ]


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.zhang2024.measured import plot_measure

    note = footer(done, studies, "bands: one standard deviation")
    shared = {m: label(m, SHARED) for m in (NOISELESS, *MF)}
    shared["independent"] = label("independent", PRINTED)
    for how, file in (
        (SHARED, path),
        (PRINTED, sibling(path, "own-steps")),
        (CERTIFIED, sibling(path, "certified")),
    ):
        names = {NOISELESS: NOISELESS} | {
            method: label(method, how) for method in KINDS if method != "tree, least squares"
        }
        names = shared if how == SHARED else names
        if how == CERTIFIED:
            names["BLT, averaged"] = label("BLT, averaged", "start")
        panels = {
            name.replace("=", " = "): {shown: study.of(own) for shown, own in names.items()}
            for name, study in done.items()
            if name != MOVING
        }
        plot_measure(panels, "test loss", file, f"Logistic regression, {how}", note)
    study = done[MOVING]
    runs = {entry.label: study.of(entry.label) for entry in study.config.algorithms}
    plot_measure(
        {study.config.title: runs},
        "dynamic regret",
        sibling(path, "moving"),
        "Loss above that of the best model of each round",
        note,
        "dynamic regret (sum over rounds)",
    )


EXPERIMENT = Experiment(
    id="zhang2024-figure3",
    title="Logistic regression with correlated noise (Zhang et al. 2024, Figure 3)",
    claim=printed_claim("zhang2024", "figure3"),
    studies=studies,
    judge=judge,
    draw=draw,
)
