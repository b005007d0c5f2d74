"""Frank-Wolfe on trees: regret and communication against the number of clients m.

Theorem 2.2 of Gao, Huang and Yang 2024 bounds regret per client with local noise by a statistical
term that falls like m^(-1/2) and a privacy term that falls like m^(-1/4). The corollary of the
later version, for losses that are hardly curved and T_1 = 1, has m^(-1/2) in both. We fit slopes on
log axes, on curved losses with the number of trees that is chosen by default, and on linear losses
with one tree, all with certified noise: the printed noise costs d epsilon / 4 on linear losses.
Regret is far below the printed orders, and on curved losses much of it comes from few steps, not
from noise. So there we expect that it falls. On all of them we expect that it stays below the
printed order with every hidden constant 1. One client alone is its own curator: it hides what it
plays, and has no server to hide uploads from.

The claim, m^(1/4), is that of Corollary 2.3, for losses that are hardly curved. It holds with other
constants if regret falls as fast on linear losses and stays below the printed order.

Communication is counted in numbers and compared with the exact formula of the proof, and with the
printed orders of growth.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hedgerow.core.environment import Environment
from hedgerow.core.setting import Setting
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, judged
from hedgerow_papers.experiments.pictures import footer
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe
from hedgerow_papers.gao2024.class_forecasts import ClassForecasts
from hedgerow_papers.gao2024.gaussian_softmax import GaussianSoftmax
from hedgerow_papers.gao2024.tree_bounds import scalars
from hedgerow_papers.printed_bounds import (
    corollary_communication,
    corollary_regret,
    theorem_communication,
    theorem_regret,
)
from hedgerow_papers.statistics import exponent

CLIENTS = (1, 4, 16, 64)
CURVED, LINEAR = "curved, local", "linear, local, T_1=1"
CENTRAL = "linear, central, T_1=1"
SPECS = {
    CURVED: FrankWolfe(epsilon=0.3, trust="local"),
    LINEAR: FrankWolfe(epsilon=10.0, trust="local", trees=1),
    CENTRAL: FrankWolfe(epsilon=0.1, trees=1),
}
THEOREM, COROLLARY = -0.25, -0.5  # the slopes of the printed privacy terms


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def spec(name: str, clients: int) -> FrankWolfe:
    return replace(SPECS[name], trust="central") if clients == 1 else SPECS[name]


def _stream(name: str, clients: int, quick: bool) -> Environment:
    horizon = 2**9 if quick else 2**12
    if name == CURVED:
        return ClassForecasts(clients=clients, classes=20, horizon=horizon, floor=1.0)
    return GaussianSoftmax(clients=clients, experts=50, horizon=horizon)


def studies(quick: bool) -> dict[str, StudyConfig]:
    return {
        name: StudyConfig(
            f"Frank-Wolfe on trees, {name}",
            _stream(name, CLIENTS[0], quick),
            tuple(Entry(label(name, m), spec(name, m), _stream(name, m, quick)) for m in CLIENTS),
            seeds=3 if quick else 20,
        )
        for name in SPECS
    }


def slope(done: Studies, name: str) -> Estimate:
    return exponent({float(m): done[name].regrets(label(name, m)) for m in CLIENTS})


def printed(name: str, setting: Setting) -> tuple[float, float]:
    """The printed orders of regret and of communication, with every hidden constant 1."""
    epsilon = SPECS[name].epsilon
    if name == CURVED:
        return sum(theorem_regret(setting, epsilon)), theorem_communication(setting, epsilon)
    return sum(corollary_regret(setting, epsilon)), corollary_communication(setting)


def judge(done: Studies) -> Verdict:
    checks, notes, kept = [], [], []
    limits = {CURVED: 0.0, LINEAR: THEOREM, CENTRAL: THEOREM}
    for name, limit in limits.items():
        study, found = done[name], slope(done, name)
        term = THEOREM if name == CURVED else COROLLARY
        checks.append(Check(f"{name}/slope/upper end", found.high, "<=", limit, term))
        notes.append(f"{name} {found}")
        for m in CLIENTS:
            built, run = study.algorithms[label(name, m)], study.of(label(name, m))[0]
            regret, (order, numbers) = study.regret(label(name, m)), printed(name, built.setting)
            over = regret.mean / order
            if name == LINEAR:
                kept.append(over <= 1 and found.high <= THEOREM)
            if name != CENTRAL:
                checks.append(Check(f"{name}/m={m}/regret over printed order", over, "<=", 1.0))
            sent = run.uploaded_scalars + run.broadcast_scalars
            off = abs(sent - scalars(built.setting, built.server.schedule.plans))  # pyright: ignore[reportAttributeAccessIssue]
            checks.append(Check(f"{name}/m={m}/numbers sent, off the formula", off, "<=", 0.0))
            if m == CLIENTS[-1]:
                notes.append(
                    f"with {m} clients {regret} (printed order {order:,.0f}), {sent:,} numbers sent"
                    f" (printed order {numbers:,.0f})"
                )
    text = f"slopes with 95 % intervals: {'; '.join(notes)}"
    return Verdict(judged(False, all(kept)), tuple(checks), text)


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

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
    claim=printed_claim("gao2024", "rate"),
    studies=studies,
    judge=judge,
    draw=draw,
)
