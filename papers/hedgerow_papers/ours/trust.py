"""What does it cost not to trust the server?

The same epsilon is spent with a trusted server (central), with secure sums in which a fifth of the
clients may work with the server (distributed), and with noise at every client (local). With the
same algorithm the noise of a sum over m clients has deviation s with central trust, s sqrt(m/h)
with h honest clients, and s sqrt(m) with local trust. So distributed trust should cost about a
tenth more noise for every m, and local trust more and more as m grows. Regret has other parts than
noise, so it is measured: for one choice (`phased_selection`), running sums (`running_leader`),
walks (`walk_leader`; with a trusted server `running_leader`), and a model (`noisy_ftrl` on logistic
regression). The first pays no delta with a trusted server; all others 1e-6.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.gradient.noisy_ftrl import NoisyFTRL
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.core.environment import Environment
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.environments.drawn.examples import Classification
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    TextTable,
    Verdict,
    spent,
)
from hedgerow_papers.experiments.pictures import footer, is_quick

EPSILON, DELTA, EXPERTS, HORIZON = 1.0, 1e-6, 8, 512
CLIENTS = (5, 10, 20, 40, 80)
TRUSTS = ("central", "distributed", "local")
CHOICE, SUMS, WALKS, MODEL = "choice", "running sums", "walks", "model"
SAME = (SUMS, MODEL)  # the same algorithm under every trust
AGAIN = 1.35  # at most this factor of regret, where the algorithm is the same
MORE = 1.25  # with most clients local trust costs at least this factor more


def honest(clients: int) -> int:
    """All but a fifth of the clients; at least one may work with the server.

    >>> [honest(m) for m in CLIENTS]
    [4, 8, 16, 32, 64]
    """
    return clients - max(1, clients // 5)


def spec(task: str, trust: Any, clients: int) -> AlgorithmSpec:
    """The algorithm of a task."""
    h = honest(clients) if trust == "distributed" else None
    if task == CHOICE:
        delta = DELTA if trust == "distributed" else 0.0
        return PhasedSelection(EPSILON, delta, trust=trust, honest=h)
    if task == SUMS or (task == WALKS and trust == "central"):
        return RunningLeader(EPSILON, DELTA, trust=trust, honest=h)
    if task == WALKS:
        return WalkLeader(epsilon=EPSILON, delta=DELTA, trust=trust, honest=h)
    return NoisyFTRL(EPSILON, DELTA, trust=trust, honest=h)


def stream(task: str, clients: int) -> Environment:
    """The game of a task."""
    if task == MODEL:
        return Classification(clients=clients, features=EXPERTS, horizon=HORIZON)
    return Bernoulli(clients=clients, experts=EXPERTS, horizon=HORIZON, mean=0.5, gap=0.2)


def label(trust: str, clients: int) -> str:
    return f"{trust}/m={clients}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    clients = CLIENTS[1:4:2] if quick else CLIENTS
    return {
        task: StudyConfig(
            f"Trust, {task}, epsilon = {EPSILON:g}, d = {EXPERTS}, T = {HORIZON}",
            stream(task, clients[0]),
            tuple(
                Entry(label(trust, m), spec(task, trust, m), stream(task, m))
                for trust in TRUSTS
                for m in clients
            ),
            seeds=2 if quick else 20,
        )
        for task in ((SUMS,) if quick else (CHOICE, SUMS, WALKS, MODEL))
    }


def deviation(task: str, trust: str, clients: int) -> float:
    """The deviation of the noise in a sum over all clients, from what was certified."""
    built = spec(task, trust, clients).build(stream(task, clients).setting)
    scale = built.certificate.mechanisms[0].noise_scale()
    assert scale is not None
    return scale * (1.0 if trust == "central" else sqrt(clients))


def _clients(done: Studies, task: str) -> list[int]:
    named = [entry.label for entry in done[task].config.algorithms]
    return sorted({int(name.split("=")[1]) for name in named})


def _cost(done: Studies, task: str, trust: str, clients: int) -> Estimate:
    return done[task].regret(label(trust, clients))


def judge(done: Studies) -> Verdict:
    checks, rows = [], []
    for task in done:
        sizes = _clients(done, task)
        costs = [spent(done[task].algorithms[label(t, m)]) for t in TRUSTS for m in sizes]
        checks.append(Check(f"{task}/largest certified epsilon", max(costs), "<=", EPSILON))
        for m in sizes:
            central, shared, local = (_cost(done, task, trust, m).mean for trust in TRUSTS)
            rows.append((task, str(m), f"{central:.1f}", f"{shared:.1f}", f"{local:.1f}"))
            if task in SAME:
                more = [deviation(task, t, m) / deviation(task, "central", m) for t in TRUSTS[1:]]
                off = max(
                    abs(more[0] / sqrt(m / honest(m)) - 1),
                    abs(more[1] / sqrt(m) - 1),
                )
                checks.append(Check(f"{task}/m={m}/noise other than predicted", off, "<=", 0.02))
                name = f"{task}/m={m}/regret, distributed over central"
                checks.append(Check(name, shared / central, "<=", AGAIN))
        most = sizes[-1]
        gain = _cost(done, task, "local", most).mean / _cost(done, task, "distributed", most).mean
        checks.append(Check(f"{task}/m={most}/regret, local over distributed", gain, ">=", MORE))
    columns = ("task", "clients", *TRUSTS)
    table = TextTable("regret of each client", columns, tuple(rows))
    worst = {
        task: max(
            _cost(done, task, TRUSTS[1], m).mean / _cost(done, task, TRUSTS[0], m).mean
            for m in _clients(done, task)
        )
        for task in done
    }
    factors = ", ".join(f"{factor:.2f} ({task})" for task, factor in worst.items())
    quick = " (quick)" if is_quick(done, studies) else ""
    note = f"largest regret with distributed trust over that with central: {factors}{quick}"
    return Verdict(None, tuple(checks), note, (table,))


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    task = SUMS
    points = {
        trust: {float(m): _cost(done, task, trust, m) for m in _clients(done, task)}
        for trust in TRUSTS
    }
    title = f"Running sums under three trust models (epsilon = {EPSILON:g}, T = {HORIZON})"
    plot_regret_against(points, path, title, "clients", note=footer(done, studies))


EXPERIMENT = Experiment(
    id="trust",
    title="What it costs not to trust the server",
    claim=(
        "none published; secure sums, with a fifth of the clients working with the server, have a"
        " tenth more noise than a trusted server; local trust has sqrt(m) times as much"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)
