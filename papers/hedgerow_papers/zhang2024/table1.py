"""Table I of Zhang et al. (2024): every bound on the regret, with its constants, as a number.

The paper puts the bounds in orders. Here each is computed at its best step, per round and without
change of the data (C_R = 0), for the logistic regression of `zhang2024-figure3` with 10 features:
L = 1/4, B_g = 1, 20 clients, 5 examples each, (2, 1e-3), a best model at distance 4, certified
noise, gradients at the start of the round. The rows are

* this paper: Lemma IV.9 (correlated) and Corollary IV.11 (independent), `theory`;
* [1] and [3]: online gradient descent with fresh noise xi of size V. As |x' - x*|^2 =
  |x - x*|^2 - 2 step <g + xi, x - x*> + step^2 |g + xi|^2, and xi has mean 0 and is independent
  of g, the regret is at most D^2 / (2 R step) + step (B_g^2 + V^2) / 2;
* [8]: the same for the models without noise, from which the released ones are step |noise sum|
  away; this adds step B_g V times the mean error of the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import largest_mu
from hedgerow.running_sums.kinds import factorise
from hedgerow_papers.experiments.experiment import TextTable
from hedgerow_papers.zhang2024.theory import (
    LearningRun,
    LossFacts,
    RegretTerms,
    best_step,
    dynamic_bound,
    independent_bound,
    noise_deviation,
)

FEATURES, CLIENTS, EXAMPLES, DISTANCE = 10, 20, 5, 4.0
BUDGET = Budget(2.0, 1e-3)
FACTS = LossFacts(smoothness=0.25, gradient_bound=1.0)
WIDEST = 100.0  # steps of convex losses without smoothness have no limit
OURS, OURS_FRESH = "this paper, correlated", "this paper, independent"
ROWS = {  # the work: its noise, regret and losses, and the order of its bound in R at its best step
    OURS: ("square root", "dynamic", "nonconvex", -2 / 3),
    OURS_FRESH: ("independent", "dynamic", "nonconvex", -1 / 2),
    "[3]": ("independent", "static", "convex", -1 / 2),
    "[8]": ("square root", "static", "convex", -1 / 2),
    "[1]": ("none", "static", "convex", -1 / 2),
}


def terms(work: str, rounds: int, step: float) -> RegretTerms:
    """The bound of a row at a step.

    >>> terms("[1]", rounds=100, step=0.4).total
    0.4
    """
    fresh, size, error = _noise(rounds)
    if work == OURS:
        return dynamic_bound(
            FACTS, LearningRun(rounds, step, size, DISTANCE), factorise("root", rounds)
        )
    if work == OURS_FRESH:
        return independent_bound(FACTS, LearningRun(rounds, step, fresh, DISTANCE))
    added = {"[3]": step * fresh**2 / 2, "[8]": step * size * error, "[1]": 0.0}[work]
    return RegretTerms(DISTANCE**2 / (2 * rounds * step), step / 2, added, 0.0)


@cache
def _noise(rounds: int) -> tuple[float, float, float]:
    """The noise of a release, independent and correlated, and the mean error of its sums."""
    factors = factorise("root", rounds)
    scale = 2 / EXAMPLES / largest_mu(BUDGET)
    sizes = (noise_deviation(scale * s, FEATURES, CLIENTS) for s in (1.0, factors.sensitivity()))
    return *sizes, factors.errors(rounds).rms  # pyright: ignore[reportReturnType]


@cache
def bound(work: str, rounds: int) -> RegretTerms:
    """The bound of a row at its best step."""
    limit = FACTS.step_limit if work in (OURS, OURS_FRESH) else WIDEST
    total: Callable[[float], float] = lambda step: terms(work, rounds, step).total  # noqa: E731
    return terms(work, rounds, best_step(total, limit))


def table_1(rounds: tuple[int, ...]) -> TextTable:
    """Table I with numbers."""
    columns = ("work", "noise", "regret", "losses", *(f"bound, R = {r:,}" for r in rounds))
    found = ((work, [bound(work, r) for r in rounds]) for work in ROWS)
    return TextTable(
        "Table I: bound on the regret per round at its best step (of which noise)",
        columns,
        tuple(
            (work, *ROWS[work][:3], *(f"{b.total:.4f} ({b.noise:.4f})" for b in bounds))
            for work, bounds in found
        ),
    )
