"""How far is every algorithm from the lower bound, on the worst stream of a family?

The family has seven streams with a perfect expert: Bernoulli losses of four rates, halving, halving
at random times, and groups that lose in turn. For each number of clients m, epsilon and number of
experts d an algorithm is judged by its worst stream. Two numbers say what cannot be beaten:

* No epsilon-DP algorithm regrets less than about ln(d)/(m epsilon) on every stream
  (`hidden_expert_regret`, with constants).
* On halving no algorithm at all, private or not, does better than the floor: half of the remaining
  experts fall at once, and nobody knows which.

The distance is the regret on the worst stream divided by the larger of the two. Where it is near 1
nothing is left to gain. Algorithms that trust no server are judged by the same bound, although
without trust more regret cannot be avoided.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.dartboard.private_hedge import PrivateHedge
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.core.setting import Setting
from hedgerow.environments.drawn.generated import Generated
from hedgerow.environments.drawn.realizable import Halving, Realizable, Rotating
from hedgerow.environments.hard.lower_bounds import hidden_expert_regret
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.agarwal2017.tree_hedge import TreeHedge
from hedgerow_papers.agarwal2017.tree_leader import TreeLeader
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.experiments.experiment import Check, Experiment, Studies, Verdict, judged
from hedgerow_papers.experiments.pictures import footer
from hedgerow_papers.jacobsen2025.certified_meta import WalkMeta
from hedgerow_papers.jacobsen2025.walk_batches import WalkBatches

HORIZON, DELTA = 512, 1e-6
NOW, OPEN = "sparse_vector", "the leader (not private)"
Size = tuple[int, float, int]
SIZES: tuple[Size, ...] = tuple(product((1, 10), (0.1, 1.0, 10.0), (10, 100)))
QUICK: tuple[Size, ...] = ((10, 1.0, 100), (10, 10.0, 100))
# The largest regret on the worst stream that we expect of `sparse_vector`.
PROMISED = {(10, 1.0, 100): 7.5, (1, 1.0, 100): 82.0, (10, 10.0, 100): 3.5}


def family(clients: int, experts: int, horizon: int = HORIZON) -> dict[str, Generated]:
    """The streams by name."""
    game: dict[str, Any] = {"clients": clients, "experts": experts, "horizon": horizon}
    drawn = {
        f"bernoulli={rate:g}": Realizable(**game, mean=rate, law="bernoulli")
        for rate in (0.02, 0.1, 0.5, 1.0)
    }
    return {
        **drawn,
        "halving": Halving(**game),
        "jittered": Halving(**game, jitter=True),
        "rotating": Rotating(**game),
    }


def algorithms(epsilon: float) -> dict[str, Any]:
    """Every algorithm for experts with a budget, by label; delta only where it is needed."""
    both: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    return {
        NOW: SparseVector(epsilon=epsilon),
        "doubling": Doubling(epsilon=epsilon),
        "potential": Potential(epsilon=epsilon),
        "phased_selection": PhasedSelection(epsilon=epsilon),
        "phased_selection, local": PhasedSelection(epsilon=epsilon, trust="local"),
        "random_prefix": RandomPrefix(epsilon=epsilon),
        "shrinking_dartboard": ShrinkingDartboard(**both),
        "private_hedge": PrivateHedge(**both),
        "running_leader": RunningLeader(**both),
        "tree_leader": TreeLeader(**both),
        "tree_hedge": TreeHedge(**both),
        "walk_leader": WalkLeader(**both),
        "walk_meta": WalkMeta(**both),
        "walk_batches": WalkBatches(**both),
        OPEN: FollowTheLeader(),
    }


def size_name(size: Size) -> str:
    clients, epsilon, experts = size
    return f"m={clients}/epsilon={epsilon:g}/d={experts}"


def study_name(size: Size, stream: str) -> str:
    """The name of a study, and of its folder."""
    return f"{size_name(size)}/{stream}".replace("/", "-")


def studies(quick: bool) -> dict[str, StudyConfig]:
    made = {}
    for size in QUICK if quick else SIZES:
        clients, epsilon, experts = size
        entries = tuple(Entry(label, spec) for label, spec in algorithms(epsilon).items())
        for stream, environment in family(clients, experts).items():
            name = study_name(size, stream)
            title = f"Distance to the lower bound, {name}, T = {HORIZON}"
            made[name] = StudyConfig(title, environment, entries, seeds=2 if quick else 50)
    return made


def floor(experts: int) -> float:
    """What every algorithm, private or not, loses per client on halving: the shares that fall.

    Before a fall all remaining experts look alike. So the expert that is played falls with this
    chance, and loses a round. An expert that fell before loses this round, too.

    >>> round(floor(100), 2)
    3.37
    """
    total, alive = 0.0, experts
    for _ in range(7):
        fallen = alive // 2
        total, alive = total + fallen / alive, alive - fallen
    return total


def least(size: Size) -> float:
    """What no private algorithm can stay below on the whole family and the hidden expert."""
    clients, epsilon, experts = size
    private = hidden_expert_regret(Setting(clients, experts, HORIZON), epsilon)
    return max(private, floor(experts))


def sizes(done: Studies) -> list[Size]:
    return [size for size in SIZES if study_name(size, "halving") in done]


def worst(done: Studies, size: Size, label: str) -> tuple[str, Estimate]:
    """The stream with the largest mean regret, and that regret."""
    found = {
        stream: done[study_name(size, stream)].regret(label) for stream in family(size[0], size[2])
    }
    stream = max(found, key=lambda name: found[name].mean)
    return stream, found[stream]


def judge(done: Studies) -> Verdict:
    checks, notes, below = [], [], []
    for size in sizes(done):
        name, bound = size_name(size), least(size)
        stream, now = worst(done, size, NOW)
        on_halving = done[study_name(size, "halving")]
        for label in algorithms(size[1]):
            found = on_halving.regret(label)
            surely = found.mean + 2 * found.half_width  # two intervals: there are many of them
            below += [f"{label} at {name}"] if surely < floor(size[2]) else []
        if size in PROMISED:
            checks.append(
                Check(f"{name}/{NOW}/worst regret, lower end", now.low, "<=", PROMISED[size])
            )
        best = min(
            (label for label in algorithms(size[1]) if label != OPEN),
            key=lambda label: worst(done, size, label)[1].mean,
        )
        notes.append(
            f"{name.replace('/', ', ')}: sparse_vector {now.mean:.3g} on {stream},"
            f" {now.mean / bound:.2g} times the bound {bound:.3g}; best of all: {best}"
        )
    checks.append(Check("algorithms below the floor of halving", float(len(below)), "<=", 0.0))
    return Verdict(judged(not below), tuple(checks), "; ".join(notes))


def draw(done: Studies, path: Path) -> None:
    """Draw a table: the regret on the worst stream in units of the bound, and the bounds."""
    from hedgerow_papers.ours.grid import plot_grid

    found = {size_name(size).replace("/", "\n"): size for size in sizes(done)}
    cells = {
        label: {
            column: worst(done, size, label)[1].mean / least(size) for column, size in found.items()
        }
        for label in algorithms(1.0)
    }
    cells["lower bound (regret per client)"] = {
        column: least(size) for column, size in found.items()
    }
    cells["of it, the floor without privacy"] = {
        column: floor(size[2]) for column, size in found.items()
    }
    title = f"Regret on the worst of seven streams, in units of the lower bound (T = {HORIZON})"
    note = (
        "bound: the larger of the private one and the floor without privacy; its rows are regrets;"
        f" {footer(done, studies, '95 % intervals are in the pictures of the studies')}"
    )
    plot_grid(cells, path, title, note)


EXPERIMENT = Experiment(
    id="distance-to-lower-bound",
    title="Regret on the worst stream of a family, over the lower bound",
    claim="on halving no algorithm, private or not, is below the floor",
    studies=studies,
    judge=judge,
    draw=draw,
)
