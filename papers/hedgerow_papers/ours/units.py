"""Whose secret is it, and what does it cost? Regret by unit, against clients and epsilon.

One expert is better than all others by 0.2. The budget is that of the unit: one record, a person
with 24 or 100 records, seven rounds of a client, or all that a client ever reports. Up to windows
it is phased selection with as much less budget for one record. Whole clients have vote selection;
what the same division of the budget would give them is shown beside it.

On the forecasts of FluSight there is something better than any choice that protects whole clients:
the plain average of the forecasts, which needs no private data. Average first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.algorithms.baselines.ada_hedge import AdaHedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.vote_selection import VoteSelection
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.recorded.flusight import FluSight
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, TextTable, Verdict
from hedgerow_papers.experiments.pictures import footer

EXPERTS, HORIZON, GAP = 20, 4096, 0.2
EPSILONS, CLIENTS = (0.1, 0.3, 1.0, 3.0, 10.0), (3, 10, 30, 100, 300)
MIDDLE = (30, 1.0)
FLU, AVERAGE = "flusight", "plain average"
GUESS, OPEN, DIVIDED = "an expert drawn without data", "not private", "client, divided budget"
DIVIDING = {
    "record": "event",
    "person with 24": "person:24",
    "person with 100": "person:100",
    "window of 7 rounds": "window:7",
}
CLIENT = "client"


def entries(epsilon: float, rounds: int) -> tuple[Entry, ...]:
    """Every unit that a game of this length can hold, beside no privacy and no data."""
    held = {
        name: unit
        for name, unit in DIVIDING.items()
        if not unit.startswith("person") or int(unit.partition(":")[2]) <= rounds
    }
    specs: dict[str, Any] = {
        OPEN: AdaHedge(),
        **{name: PhasedSelection(epsilon=epsilon, unit=unit) for name, unit in held.items()},
        CLIENT: VoteSelection(epsilon=epsilon),
        DIVIDED: PhasedSelection(epsilon=epsilon, unit="client"),
        GUESS: Uniform(),
    }
    return tuple(Entry(name, spec) for name, spec in specs.items())


def name_of(clients: int, epsilon: float) -> str:
    return f"m={clients}-epsilon={epsilon:g}"


def points(quick: bool) -> dict[str, list[tuple[float, tuple[int, float]]]]:
    """The games of each panel: a number on its axis, clients and epsilon."""
    clients, epsilon = MIDDLE
    many = CLIENTS[1:4] if quick else CLIENTS
    budgets = EPSILONS[1:4] if quick else EPSILONS
    return {
        "clients": [(m, (m, epsilon)) for m in many],
        "epsilon": [(each, (clients, each)) for each in budgets],
    }


def studies(quick: bool) -> dict[str, StudyConfig]:
    made = {}
    for panel in points(quick).values():
        for _, (clients, epsilon) in panel:
            game = Bernoulli(clients=clients, experts=EXPERTS, horizon=HORIZON, gap=GAP)
            title = (
                f"Whose secret? m = {clients}, d = {EXPERTS}, T = {HORIZON}, epsilon = {epsilon:g}"
            )
            chosen = entries(epsilon, HORIZON)
            made[name_of(clients, epsilon)] = StudyConfig(
                title, game, chosen, seeds=2 if quick else 24
            )
    flu = FluSight()
    for epsilon in (1.0,) if quick else (1.0, 3.0):
        title = f"Whose secret? FluSight, epsilon = {epsilon:g}"
        chosen = entries(epsilon, flu.setting.rounds)
        made[f"{FLU}-epsilon={epsilon:g}"] = StudyConfig(
            title, flu, chosen, seeds=2 if quick else 24
        )
    return made


def regret(done: Studies, game: tuple[int, float], name: str) -> Estimate:
    return done[name_of(*game)].regret(name)


def _labels(done: Studies, study: str) -> list[str]:
    return [entry.label for entry in done[study].config.algorithms]


def flu_losses(done: Studies, study: str) -> dict[str, float]:
    """The mean loss in percent of every unit, and of the average of all forecasts."""
    setting = FluSight().setting
    found = {
        name: 100 * float(np.mean([r.loss[-1] for r in done[study].of(name)])) / setting.rounds
        for name in _labels(done, study)
    }
    return {**found, AVERAGE: 100 * float(FluSight().rivals()[AVERAGE].mean())}


def judge(done: Studies) -> Verdict:
    shown = dict.fromkeys(game for panel in _panels(done).values() for _, game in panel)
    rows = [
        (str(m), f"{epsilon:g}", name, f"{found.mean:.4g}", f"{found.half_width:.2g}")
        for m, epsilon in shown
        for name in _labels(done, name_of(m, epsilon))
        for found in (regret(done, (m, epsilon), name),)
    ]
    flu = {name: flu_losses(done, name) for name in done if name.startswith(FLU)}
    first = flu[f"{FLU}-epsilon=1"]
    guess, client, divided = (regret(done, MIDDLE, n).mean for n in (GUESS, CLIENT, DIVIDED))
    order = [regret(done, MIDDLE, name).mean for name in DIVIDING]
    checks = (
        Check("client/over an expert drawn without data", client / guess, "<=", 0.25),
        Check("client/over the divided budget", client / divided, "<=", 0.5),
        Check("person with 100/over one record", order[2] / max(order[0], 1.0), ">=", 2.0),
        Check("FluSight/plain average over client", first[AVERAGE] / first[CLIENT], "<=", 1.0),
    )
    clients, epsilon = MIDDLE
    clients, epsilon = MIDDLE
    message = (
        f"at m = {clients} and epsilon = {epsilon:g} a client loses {order[0]:.3g} more than the"
        f" best expert if one record is secret, {order[1]:.3g} and {order[2]:.3g} if a person with"
        f" 24 and with 100 is, {order[3]:.3g} for a week, {client:.3g} for a whole client, and"
        f" {guess:.3g} with an expert drawn without data; on FluSight at epsilon = 1 a choice for"
        f" whole clients has {first[CLIENT]:.2f} %, the plain average {first[AVERAGE]:.2f} %"
    )
    tables = (
        TextTable("regret", ("m", "epsilon", "unit", "regret of a client", "±"), tuple(rows)),
        TextTable(
            "mean loss on FluSight in %",
            ("unit", *flu),
            tuple((n, *(f"{f[n]:.2f}" for f in flu.values())) for n in first),
        ),
    )
    return Verdict(None, checks, message, tables)


def _panels(done: Studies) -> dict[str, list[tuple[float, tuple[int, float]]]]:
    return points(not all(name in done for name in studies(False)))


def draw(done: Studies, path: Path) -> None:
    """Draw regret by unit: against the number of clients, and against epsilon."""
    from hedgerow_papers.panels import plot_sweeps

    def curves(games: list[tuple[float, tuple[int, float]]]) -> dict[str, dict[float, Estimate]]:
        return {
            name: {x: regret(done, game, name) for x, game in games}
            for name in _labels(done, name_of(*games[0][1]))
        }

    clients, epsilon = MIDDLE
    panels = _panels(done)
    plot_sweeps(
        {
            f"epsilon = {epsilon:g}": ("number of clients", curves(panels["clients"])),
            f"{clients} clients": ("epsilon", curves(panels["epsilon"])),
        },
        path,
        f"Whose secret is it? Regret by unit, {EXPERTS} experts, {HORIZON:,} rounds",
        "regret of a client (log scale)",
        footer(done, studies),
    )


EXPERIMENT = Experiment(
    id="units",
    title="Whose secret is it, and what does it cost?",
    claim=(
        "none published; whole clients can be protected where many agree, by votes and not by a"
        " divided budget; forecasts should be averaged first"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)
