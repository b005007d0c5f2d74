"""Asi, Feldman, Koren, Talwar 2023, section 4: losses that react to the plays are far worse for private algorithms.

The dartboard at epsilon = 1 on a stream fixed in advance and against an adversary that charges what was just played: lazy by
design, it stays where it is and pays. Hedge, not private and drawing afresh in every round, has no such weakness, which is the
paper's point: without privacy the two kinds of adversary are equally hard. Theorem 10 has an adversary of its own
(fingerprinting, d >= 2T, epsilon <= 1/10) that beats every private algorithm; it is one more line of ADVERSARIES.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, nan
from pathlib import Path

from hedgerow.algorithms.experts.hedge import Hedge
from hedgerow.algorithms.experts.shrinking_dartboard import ShrinkingDartboard
from hedgerow.core.protocol import AlgorithmSpec, Environment
from hedgerow.environments.adaptive import PlayChasing
from hedgerow.environments.stochastic import Bernoulli
from hedgerow.evaluation.summary import Estimate
from hedgerow.experiments.config import Entry, StudyConfig
from hedgerow.experiments.experiment import Check, Experiment, Studies, Verdict

EPSILON, DELTA, EXPERTS = 1.0, 1e-6, 100
HORIZONS = (500, 2000, 8000)
ALGORITHMS: dict[str, AlgorithmSpec] = {
    "approximate": ShrinkingDartboard(epsilon=EPSILON, delta=DELTA, every=1),
    "pure": ShrinkingDartboard(epsilon=EPSILON, every=1),
    "not private": Hedge(),
}
FIXED, CHASING = "fixed in advance", "chasing the plays"
ADVERSARIES: dict[str, Callable[[int], Environment]] = {
    FIXED: lambda horizon: Bernoulli(clients=1, experts=EXPERTS, horizon=horizon, mean=0.5, gap=0.3),
    CHASING: lambda horizon: PlayChasing(clients=1, experts=EXPERTS, horizon=horizon),
}


def label(algorithm: str, horizon: int) -> str:
    return f"{algorithm}/T={horizon}"


def studies(quick: bool) -> dict[str, StudyConfig]:
    return {
        adversary: StudyConfig(
            f"Shrinking dartboard at epsilon = {EPSILON:g}, d = {EXPERTS}: losses {adversary}",
            make(HORIZONS[0]),
            tuple(Entry(label(name, horizon), spec, make(horizon)) for name, spec in ALGORITHMS.items() for horizon in HORIZONS),
            seeds=3 if quick else 10,
        )
        for adversary, make in ADVERSARIES.items()
    }


def _series(done: Studies, adversary: str, algorithm: str) -> dict[float, Estimate]:
    return {float(horizon): done[adversary].regret(label(algorithm, horizon)) for horizon in HORIZONS}


def growth(series: dict[float, Estimate]) -> float:
    """The exponent of the horizon between its last two values."""
    *_, before, last = sorted(series)
    return log(series[last].mean / series[before].mean) / log(last / before)


def judge(done: Studies) -> Verdict:
    checks, seen, last = [], [], float(HORIZONS[-1])
    for name in ("approximate", "pure"):
        fixed, chasing = (_series(done, adversary, name) for adversary in (FIXED, CHASING))
        bound = done[FIXED].algorithms[label(name, HORIZONS[-1])].regret_bound or nan
        least = fixed[last].mean - fixed[last].half_width
        seen += [growth(fixed) < 0.9, growth(chasing) > 0.95]
        checks += [
            Check(f"{name}/{CHASING}/exponent", growth(chasing), ">=", 0.95),
            Check(f"{name}/{CHASING}/regret-per-round", chasing[last].mean / last, ">=", 0.8),
            Check(f"{name}/{FIXED}/exponent", growth(fixed), "<=", 0.9),
            Check(f"{name}/{FIXED}/lower end of mean regret, limit the proven bound", least, "<=", bound),
        ]
    for adversary in (FIXED, CHASING):
        obtained = _series(done, adversary, "not private")[last].mean
        checks.append(Check(f"not private/{adversary}/regret-per-round", obtained / last, "<=", 0.05))
    return Verdict(all(seen), tuple(checks), "the fingerprinting adversary of Theorem 10 is not among these")


def draw(done: Studies, path: Path) -> None:
    """One picture for each kind of privacy, with short names: a wide legend would hide the lines."""
    from hedgerow.evaluation.plots import plot_regret_against

    for private in ("approximate", "pure"):
        points = {
            f"{short}, {kind}": _series(done, adversary, name)
            for short, name in (("dartboard", private), ("Hedge", "not private"))
            for kind, adversary in (("chasing", CHASING), ("fixed", FIXED))
        }
        title = f"Losses that chase the plays, and fixed ones ({private}, epsilon = {EPSILON:g}, d = {EXPERTS})"
        target = path if private == "approximate" else path.with_name(f"{path.stem}-{private}.png")
        plot_regret_against(points, target, title, "rounds")


EXPERIMENT = Experiment(
    id="asi2023-separation",
    title="Fixed losses against losses that chase the plays (Asi et al. 2023, section 4)",
    claim="private regret is sub-linear for losses fixed in advance and linear for losses that react",
    studies=studies,
    judge=judge,
    draw=draw,
)
