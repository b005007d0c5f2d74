"""Frank-Wolfe on trees: regret and communication against the number of clients m.

Theorem 2.2 of Gao, Huang and Yang 2024 bounds regret per client with local noise by a statistical
term that falls like m^(-1/2) and a privacy term that falls like m^(-1/4). The corollary of the
later version, for losses that are hardly curved and T_1 = 1, has m^(-1/2) in both. We fit slopes on
log axes, on curved losses with the trees that the budget suggests, and on linear losses with one
tree. Slopes of regret need not be those of bounds far above it.

Communication is counted in numbers and compared with the exact formula of the proof, and with the
printed orders of growth.
"""

from __future__ import annotations

from pathlib import Path

from hedgerow.algorithms.gradient.frank_wolfe import FrankWolfe
from hedgerow.algorithms.gradient.tree_bounds import (
    corollary_communication,
    corollary_regret,
    scalars,
    theorem_communication,
    theorem_regret,
)
from hedgerow.core.environment import Environment
from hedgerow.environments.drawn.examples import ClassForecasts
from hedgerow.environments.drawn.stochastic import GaussianSoftmax
from hedgerow.evaluation.statistics import Estimate, exponent
from hedgerow.experiments.experiment import Check, Experiment, Studies, Verdict
from hedgerow.experiments.pictures import footer
from hedgerow.studies.config import Entry, StudyConfig

CLIENTS = (1, 4, 16, 64)
CURVED, LINEAR = "curved, local", "linear, local, T_1=1"
CENTRAL = "linear, central, T_1=1"
SPECS = {
    CURVED: FrankWolfe(epsilon=1.0, trust="local"),
    LINEAR: FrankWolfe(epsilon=10.0, trust="local", trees=1, calibration="published"),
    CENTRAL: FrankWolfe(epsilon=0.1, trees=1),
}
THEOREM, COROLLARY = -0.25, -0.5  # the slopes of the printed privacy terms


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def _stream(name: str, clients: int, quick: bool) -> Environment:
    horizon = 2**9 if quick else 2**12
    if name == CURVED:
        return ClassForecasts(clients=clients, classes=20, horizon=horizon, floor=0.5)
    return GaussianSoftmax(clients=clients, experts=50, horizon=horizon)


def studies(quick: bool) -> dict[str, StudyConfig]:
    return {
        name: StudyConfig(
            f"Frank-Wolfe on trees, {name}",
            _stream(name, CLIENTS[0], quick),
            tuple(Entry(label(name, m), spec, _stream(name, m, quick)) for m in CLIENTS),
            seeds=3 if quick else 20,
        )
        for name, spec in SPECS.items()
    }


def slope(done: Studies, name: str) -> Estimate:
    return exponent({float(m): done[name].regrets(label(name, m)) for m in CLIENTS})


def judge(done: Studies) -> Verdict:
    checks, notes = [], []
    limits = {CURVED: THEOREM, LINEAR: COROLLARY, CENTRAL: COROLLARY}
    slopes = {name: slope(done, name) for name in SPECS}
    for name, found in slopes.items():
        study, spec = done[name], SPECS[name]
        limit = limits[name]
        checks.append(Check(f"{name}/slope/upper end", found.high, "<=", limit, limit))
        for m in CLIENTS:
            setting = study.config.environment_of(study.config.algorithms[CLIENTS.index(m)]).setting
            run, built = study.of(label(name, m))[0], study.algorithms[label(name, m)]
            sent, formula = run.uploaded_scalars + run.broadcast_scalars, scalars_of(built)
            for op in ("<=", ">="):
                checks.append(Check(f"{name}/m={m}/numbers sent {op}", sent, op, formula))
            if m == CLIENTS[-1]:
                printed = (
                    theorem_communication(setting, spec.epsilon)
                    if name == CURVED
                    else corollary_communication(setting)
                )
                bound = sum(
                    theorem_regret(setting, spec.epsilon)
                    if name == CURVED
                    else corollary_regret(setting, spec.epsilon)
                )
                notes.append(
                    f"{name} {found}, at m={m} {sent:,} numbers (printed order {printed:,.0f}),"
                    f" regret {study.regret(label(name, m))} (printed order {bound:,.0f})"
                )
    reproduces = slopes[CURVED].high <= THEOREM and slopes[LINEAR].high <= COROLLARY
    return Verdict(reproduces, tuple(checks), f"slopes with 95 % intervals: {'; '.join(notes)}")


def scalars_of(built: object) -> float:
    """The numbers that the exact formula gives for a built algorithm."""
    server = getattr(built, "server")
    return float(scalars(getattr(built, "setting"), server.walk.plans))


def draw(done: Studies, path: Path) -> None:
    from hedgerow.evaluation.plots.lines import plot_regret_against

    points = {
        f"{name} (slope {slope(done, name).mean:.2f})": {
            float(m): done[name].regret(label(name, m)) for m in CLIENTS
        }
        for name in SPECS
    }
    rounds = done[CURVED].config.environment.setting.rounds
    plot_regret_against(
        points,
        path,
        f"Regret falls with the number of clients (T = {rounds:,})",
        "clients",
        slope=THEOREM,
        slope_name="slope -1/4",
        note=footer(done, studies),
    )


EXPERIMENT = Experiment(
    id="frank-wolfe-speedup",
    title="Frank-Wolfe on trees against the number of clients (Gao et al. 2024, Theorem 2.2)",
    claim=(
        "with local noise, regret per client falls at least like m^(-1/4) on curved losses and like"
        " m^(-1/2) on linear ones"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)
