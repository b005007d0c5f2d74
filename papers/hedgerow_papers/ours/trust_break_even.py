"""From how many clients on does sharing without a trusted server pay?

A client that learns alone is its own curator: it hides what it plays, and needs little noise. A
client that shares without a trusted server hides a whole vector of d losses, with noise that grows
like d (pure) or like the root of d (Gaussian), and this noise is averaged over m clients. So
sharing pays from some m on, which is the break-even. There are two of them:

* against learning alone under privacy, by phased selection, and
* against learning alone without privacy, by AdaHedge.

`hedgerow choose` computes both from bounds (`proofs/phased_selection.md#break-even`). The first
compares bounds of one theorem and is a forecast. The second compares with what nobody avoids under
the worst law, so it may be late. Where noise is nearly the whole cost both grow like d^2 (pure) and
like d (Gaussian), up to logarithms. The measured break-even is where the curves of regret cross; it
is taken between two neighbouring m on log axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from math import exp, inf, log
from pathlib import Path

from hedgerow.algorithms.baselines.ada_hedge import AdaHedge
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.core.environment import Environment
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.choose.break_even import BreakEven, break_even
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import Study
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    TextTable,
    Verdict,
    spent,
)
from hedgerow_papers.experiments.pictures import footer, is_quick
from hedgerow_papers.statistics import exponent

EPSILON, DELTA, GAP = 0.5, 1e-6, 0.2
WIDTHS, HORIZON = (8, 16, 32), 512
CLIENTS = (1, 4, 16, 64, 256, 1024, 4096)
PRIVATE, OPEN = "alone, private", "alone, not private"
PURE, GAUSSIAN = "together, pure", "together, Gaussian"
ALONE = {PRIVATE: PhasedSelection(EPSILON), OPEN: AdaHedge()}
TOGETHER = {
    PURE: PhasedSelection(EPSILON, trust="local"),
    GAUSSIAN: PhasedSelection(EPSILON, DELTA, trust="local", report="gaussian"),
}
LATE = {PRIVATE: 3.0, OPEN: 1.0}  # how late the measured break-even may be: forecast and proof
LARGE = (64, 128, 256, 512, 1024, 2048)  # numbers of experts where noise is nearly the whole cost


def label(name: str, clients: int) -> str:
    return f"{name}/m={clients}"


def _stream(clients: int, width: int) -> Environment:
    return Bernoulli(clients=clients, experts=width, horizon=HORIZON, mean=0.5, gap=GAP)


def studies(quick: bool) -> dict[str, StudyConfig]:
    clients = CLIENTS[::3] if quick else CLIENTS
    return {
        f"d={width}": StudyConfig(
            f"Sharing without trust, epsilon = {EPSILON:g}, d = {width}, T = {HORIZON}",
            _stream(1, width),
            (
                *(Entry(name, spec) for name, spec in ALONE.items()),
                *(
                    Entry(label(name, m), spec, _stream(m, width))
                    for name, spec in TOGETHER.items()
                    for m in clients
                ),
            ),
            seeds=3 if quick else 40,
        )
        for width in (WIDTHS[:1] if quick else WIDTHS)
    }


@cache
def certified(name: str, width: int) -> BreakEven:
    """What the bounds say.

    >>> certified(PURE, 8)
    BreakEven(private=4, open=906)
    """
    return break_even(width, HORIZON, [TOGETHER[name]])


def least_clients(found: BreakEven, than: str) -> float:
    """One of the two numbers; infinite if there is none."""
    return float((found.private if than == PRIVATE else found.open) or inf)


def crossing(curve: Mapping[int, Estimate], alone: float) -> float:
    """Where a falling curve of regret crosses a level, on log axes; infinite if it does not."""
    places = sorted(curve)
    if curve[places[0]].mean <= alone:
        return float(places[0])
    for low, high in pairwise(places):
        if curve[high].mean <= alone:
            above, below = log(curve[low].mean / alone), log(alone / max(curve[high].mean, 1e-9))
            return exp(log(low) + (log(high) - log(low)) * above / (above + below))
    return float("inf")


def _clients(study: Study) -> list[int]:
    """The numbers of clients that were played together."""
    played = (entry.environment for entry in study.config.algorithms)
    return sorted({one.setting.clients for one in played if one is not None})


def measured(done: Studies, name: str, than: str, width: int) -> float:
    study = done[f"d={width}"]
    curve = {m: study.regret(label(name, m)) for m in _clients(study)}
    return crossing(curve, study.regret(than).mean)


def growth(name: str) -> float:
    """The exponent with which the certified break-even grows in d, where noise is nearly all."""
    points = {float(d): [least_clients(certified(name, d), OPEN)] * 2 for d in LARGE}
    return exponent(points).mean


def judge(done: Studies) -> Verdict:
    widths = [int(name[2:]) for name in done]
    checks, rows = [], []
    for width in widths:
        study = done[f"d={width}"]
        costs = [spent(study.algorithms[label(name, CLIENTS[0])]) for name in TOGETHER]
        checks.append(Check(f"d={width}/largest certified epsilon", max(costs), "<=", EPSILON))
        for than, times in LATE.items():
            for name in TOGETHER:
                seen = measured(done, name, than, width)
                bounds = least_clients(certified(name, width), than)
                text = f"d={width}/{name}, {than}/break-even over that of the bounds"
                checks.append(Check(text, seen / bounds, "<=", times))
                rows.append((str(width), than, name, f"{seen:.3g}", f"{bounds:,.0f}"))
    if not is_quick(done, studies):
        for name, low, high in ((PURE, 1.7, 2.1), (GAUSSIAN, 0.8, 1.1)):
            found = growth(name)
            checks.append(Check(f"{name}/exponent of d", found, ">=", low))
            checks.append(Check(f"{name}/exponent of d, most", found, "<=", high))
    columns = ("experts", "compared with", "sharing", "measured", "from the bounds")
    table = TextTable("clients from which sharing pays", columns, tuple(rows))
    note = "; ".join(f"d = {r[0]}: {r[2]} beats {r[1]} from m = {r[3]} on" for r in rows[-4:])
    return Verdict(None, tuple(checks), note, (table,))


def draw(done: Studies, path: Path) -> None:
    from hedgerow_papers.lines import plot_regret_against

    width = int(list(done)[-1][2:])
    study = done[f"d={width}"]
    clients = _clients(study)
    points = {
        name: {float(m): study.regret(label(name, m)) for m in clients} for name in TOGETHER
    } | {name: {float(m): study.regret(name) for m in clients} for name in ALONE}
    title = f"Sharing without a trusted server (epsilon = {EPSILON:g}, d = {width}, T = {HORIZON})"
    plot_regret_against(points, path, title, "clients", note=footer(done, studies))


EXPERIMENT = Experiment(
    id="trust-break-even",
    title="From how many clients on sharing without a trusted server pays",
    claim=(
        "none published; the number of clients from which sharing beats learning alone grows about"
        " like d^2 with pure reports and about like d with Gaussian ones"
    ),
    studies=studies,
    judge=judge,
    draw=draw,
)
