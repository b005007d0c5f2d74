"""Regret bounds of online federated learning as numbers: every term, with its constant.

The bounds of Zhang, Zhu, Fay and Johansson (2024) with explicit constants, what their orders say,
and a static bound for convex losses that needs neither strong convexity nor bounded gradients.
Regret is per example: the mean, over rounds, of the loss of the released model above the
comparator. Proofs, and what does not hold as printed: `proofs/online_sgd_regret.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from math import inf, log, sqrt
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, positive
from hedgerow.running_sums.factorisation import Factorisation


@dataclass(frozen=True)
class LossFacts:
    """What is true of the losses; the letters are those of the paper.

    Parameters
    ----------
    smoothness
        L: no gradient of one example changes by more than L times the distance.
    gradient_bound
        B_g: the longest gradient of one example. Only drift (local steps) depends on it.
    mu, alpha
        The constants of Assumption IV.4: alpha (f - f*) + (mu / 2) distance^2 is at most the
        product of the gradient and the way from the nearest optimum. Convex: alpha = 1, mu = 0.
    sigma
        Assumption IV.3: projections onto the set of best models stretch squared distances by at
        most sigma. 0 if there is one best model, at most 1 if the set is convex.

    Examples
    --------
    >>> LossFacts(smoothness=0.25, gradient_bound=1.0).step_limit
    0.5
    """

    smoothness: float
    gradient_bound: float = inf
    mu: float = 0.0
    alpha: float = 1.0
    sigma: float = 0.0

    def __post_init__(self) -> None:
        positive("smoothness", self.smoothness)
        positive("alpha", self.alpha)
        if not self.mu >= 0:
            raise InvalidValue(f"Expected mu={self.mu!r} >= 0.")
        if not self.sigma >= 0:
            raise InvalidValue(f"Expected sigma={self.sigma!r} >= 0.")

    @property
    def step_limit(self) -> float:
        """The largest step of Lemma IV.9: alpha / (8 L)."""
        return self.alpha / (8 * self.smoothness)


@dataclass(frozen=True)
class LearningRun:
    """The public numbers of a run, and two distances that only the data know.

    Parameters
    ----------
    rounds
        R, the number of rounds.
    step
        The step of a round, eta eta_g tau: how far the model moves for one unit of mean gradient.
    deviation
        The Euclidean size sqrt(d) V of the noise of one release, in the mean over clients.
    distance
        From the first model to the best one.
    change
        C_R: the squared distances from the best model to that of every round, added up.
    moved
        eta tau: how far local steps go for one unit of gradient. 0: all gradients are taken at the
        start of the round.

    Examples
    --------
    >>> LearningRun(rounds=1000, step=0.1, deviation=0.5, distance=2.0).moved
    0.0
    """

    rounds: int
    step: float
    deviation: float
    distance: float
    change: float = 0.0
    moved: float = 0.0

    def __post_init__(self) -> None:
        at_least("rounds", self.rounds, 1)
        positive("step", self.step)
        for name in ("deviation", "distance", "change", "moved"):
            if not getattr(self, name) >= 0:
                raise InvalidValue(f"Expected {name}={getattr(self, name)!r} >= 0.")


@dataclass(frozen=True)
class RegretTerms:
    """The parts of a regret bound: the start, drift of local steps, noise, and change of the data.

    Examples
    --------
    >>> RegretTerms(start=0.25, drift=0.0, noise=0.5, change=0.0).total
    0.75
    """

    start: float
    drift: float
    noise: float
    change: float

    @property
    def total(self) -> float:
        """The bound."""
        return float(sum(astuple(self)))


def _require_step(name: str, run: LearningRun, limit: float) -> None:
    if not run.step <= limit:
        raise InvalidValue(f"Expected step={run.step!r} <= {limit:g}, the limit of {name}.")


def _drift(facts: LossFacts, run: LearningRun, room: float, share: float = 1.0) -> float:
    """What local steps add: they take gradients elsewhere than where the model is judged."""
    if run.moved == 0:
        return 0.0
    if facts.mu == 0 or facts.gradient_bound == inf:
        raise InvalidValue(
            "The drift of local steps is bounded only with mu > 0 and a gradient_bound. "
            "Declare both, or take all gradients at the start of the round (moved=0)."
        )
    reach = run.moved * facts.gradient_bound
    return (room + share / facts.mu) * 2 * facts.smoothness**2 * reach**2


def dynamic_bound(facts: LossFacts, run: LearningRun, factors: Factorisation) -> RegretTerms:
    """Lemma IV.9: regret against the best model of every round, with correlated noise.

    The norm of the decoder B is computed, not bounded by a formula.

    Parameters
    ----------
    facts
        What is true of the losses.
    run
        The numbers of the run; its step is at most alpha / (8 L).
    factors
        The factorisation of the noise.

    Examples
    --------
    >>> from hedgerow.running_sums import ToeplitzRoot
    >>> facts = LossFacts(smoothness=1.0, mu=0.5)
    >>> run = LearningRun(rounds=1000, step=0.05, deviation=0.5, distance=2.0)
    >>> terms = dynamic_bound(facts, run, ToeplitzRoot(1000))
    >>> round(terms.start, 3), terms.drift, round(terms.noise, 3)
    (0.08, 0.0, 0.044)
    """
    _require_step("Lemma IV.9, alpha / (8 L)", run, facts.step_limit)
    smooth, alpha = facts.smoothness, facts.alpha
    moved = run.step * run.deviation * factors.errors(run.rounds).rms
    return RegretTerms(
        start=run.distance**2 / (alpha * run.rounds * run.step),
        drift=_drift(facts, run, run.step + alpha / (12 * smooth)) / alpha,
        noise=24 * smooth * (1 + facts.sigma) / alpha**2 * moved**2,
        change=_change(facts, run),
    )


def _change(facts: LossFacts, run: LearningRun) -> float:
    return (
        (12 * facts.smoothness + facts.alpha * facts.mu) * run.change / facts.alpha**2 / run.rounds
    )


def independent_bound(facts: LossFacts, run: LearningRun) -> RegretTerms:
    """Corollary IV.11, in the form (39): regret with fresh noise in every round.

    Parameters
    ----------
    facts
        What is true of the losses.
    run
        The numbers of the run; its step is at most alpha / (8 L).

    Examples
    --------
    >>> run = LearningRun(rounds=1000, step=0.05, deviation=0.5, distance=2.0)
    >>> round(independent_bound(LossFacts(smoothness=1.0), run).noise, 4)
    0.0125
    """
    _require_step("Corollary IV.11, alpha / (8 L)", run, facts.step_limit)
    return RegretTerms(
        start=run.distance**2 / (facts.alpha * run.rounds * run.step),
        drift=_drift(facts, run, run.step) / facts.alpha,
        noise=run.step * run.deviation**2 / facts.alpha,
        change=_change(facts, run),
    )


def static_bound(
    facts: LossFacts,
    run: LearningRun,
    factors: Factorisation,
    *,
    gap: float = 0.0,
    theta: float | None = None,
) -> RegretTerms:
    """Regret against one model, for convex losses; Corollary IV.12 with its constants.

    With gradients at the start of the round it needs neither strong convexity nor bounded
    gradients, and holds for every comparator. With local steps it needs mu > 0.

    Parameters
    ----------
    facts
        What is true of the losses, with alpha = 1.
    run
        The numbers of the run; `distance` is that to the comparator, `change` is not used.
    factors
        The factorisation of the noise.
    gap
        The mean, over rounds, of the comparator's loss above the least loss of the round. At most
        the comparator's mean loss, if losses are not negative.
    theta
        The free number of the proof, > 0. None: the best one. The paper takes step times ln R.

    Examples
    --------
    >>> from hedgerow.running_sums import ToeplitzRoot
    >>> facts = LossFacts(smoothness=0.25)
    >>> run = LearningRun(rounds=1000, step=0.5, deviation=0.2, distance=4.0)
    >>> round(static_bound(facts, run, ToeplitzRoot(1000), gap=0.1).total, 3)
    0.094
    """
    if facts.alpha != 1.0:
        raise InvalidValue(f"Expected alpha={facts.alpha!r} = 1: this bound is for convex losses.")
    local = 2.0 if run.moved else 1.0  # a gradient taken elsewhere is split into two parts
    limit = 1 / (local * facts.smoothness)
    if not run.step < limit:
        raise InvalidValue(
            f"Expected step={run.step!r} < {limit:g}, the limit of the static bound."
        )
    noise = (run.step * run.deviation * factors.errors(run.rounds).rms) ** 2

    def at(theta: float) -> RegretTerms:
        share = local * facts.smoothness * (run.step + theta)
        factor = 1 / (2 * (1 - share))
        return RegretTerms(
            start=factor * run.distance**2 / (run.rounds * run.step),
            drift=factor * _drift(facts, run, run.step + theta, share=0.5),
            noise=factor * noise / theta,
            change=factor * 2 * share * gap,
        )

    if theta is not None:
        if not 0 < theta < limit - run.step:
            raise InvalidValue(f"Expected theta={theta!r} in (0, {limit - run.step:g}).")
        return at(theta)
    room = limit - run.step
    found = minimize_scalar(lambda x: at(room * x).total, bounds=(1e-9, 1 - 1e-9), method="bounded")
    return at(room * float(found.x))


def best_step(bound: Callable[[float], float], limit: float) -> float:
    """Return the step below `limit` at which a bound is least.

    Parameters
    ----------
    bound
        The bound as a function of the step, with one minimum.
    limit
        The largest step that the bound allows.

    Examples
    --------
    >>> round(best_step(lambda step: 1 / step + step, limit=10.0), 3)
    1.0
    >>> best_step(lambda step: 1 / step, limit=10.0)
    10.0
    """
    positive("limit", limit)
    found: Any = minimize_scalar(
        lambda x: bound(limit * 2.0**x),
        bounds=(-60.0, 0.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    step = limit * 2.0 ** float(found.x)
    return limit if bound(limit) <= bound(step) else step


def correlated_wins_below(facts: LossFacts, factors: Factorisation, rounds: int) -> float:
    """Return the step below which Lemma IV.9 has less noise than Corollary IV.11.

    The same budget is used for both. The paper says 1 / (ln R)^2, without constants. This compares
    two bounds: measured regret is less with correlated noise at larger steps, too.

    Parameters
    ----------
    facts
        What is true of the losses.
    factors
        The factorisation of the correlated noise.
    rounds
        The number of rounds.

    Examples
    --------
    >>> from hedgerow.running_sums import ToeplitzRoot
    >>> round(correlated_wins_below(LossFacts(smoothness=0.25), ToeplitzRoot(1000), 1000), 4)
    0.0173
    """
    error = factors.errors(rounds).rms * factors.sensitivity()
    return facts.alpha / (24 * facts.smoothness * (1 + facts.sigma) * error**2)


def printed_order(
    name: str,
    *,
    rounds: int,
    width: int,
    clients: int,
    examples: int,
    epsilon: float,
    delta: float,
    gradient_bound: float = 1.0,
    server_step: float = 1.0,
    change: float = 0.0,
) -> RegretTerms:
    """The orders of Theorem IV.10, Corollary IV.11 or IV.12, every constant replaced by 1.

    Only their growth means anything. `dynamic_bound` and the others have the constants.

    Parameters
    ----------
    name
        "IV.10" (dynamic, correlated), "IV.11" (dynamic, independent noise) or "IV.12" (static).
    rounds, width, clients, examples
        R, d, n and tau.
    epsilon, delta
        The budget.
    gradient_bound
        B_g.
    server_step
        eta_g.
    change
        C_R.

    Examples
    --------
    >>> sizes = dict(rounds=1000, width=100, clients=20, examples=5, epsilon=2.0, delta=1e-3)
    >>> [round(printed_order(name, **sizes).noise, 3) for name in ("IV.10", "IV.11", "IV.12")]
    [0.013, 0.011, 0.029]
    """
    at_least("rounds", rounds, 3)
    private = width * gradient_bound**2 * log(1 / delta) / (clients * (examples * epsilon) ** 2)
    grows, fresh, weight = log(rounds), 1.0, 1.0
    if name == "IV.10":
        step = rounds ** (-1 / 3) * grows ** (-2 / 3)
        fresh = step * grows**2
    elif name == "IV.11":
        step = rounds**-0.5
    elif name == "IV.12":
        step, fresh = (rounds * grows) ** -0.5, grows
        weight = step * grows
    else:
        raise InvalidValue(f"Expected name={name!r} to be IV.10, IV.11 or IV.12.")
    return RegretTerms(
        start=1 / (rounds * step),
        drift=(step * gradient_bound / server_step) ** 2,
        noise=step * fresh * private,
        change=weight * change / rounds,
    )


def change_of_optima(optima: Array, best: Array) -> float:
    """Return C_R: the squared distances from the best model to that of every round, added up.

    Parameters
    ----------
    optima
        The best model of each round, of shape (rounds, coordinates).
    best
        The best model of all rounds together.

    Examples
    --------
    >>> import numpy as np
    >>> change_of_optima(np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros(2))
    5.0
    """
    return float(np.square(np.asarray(optima, float) - np.asarray(best, float)).sum())


def largest_growth(alpha: float, gaps: Array, slopes: Array, distances: Array) -> float:
    """Return the largest mu with which Assumption IV.4 holds at some points, for this alpha.

    A negative result means that it does not hold with any mu >= 0.

    Parameters
    ----------
    alpha
        The constant alpha, > 0.
    gaps
        f(x) - f* at every point x.
    slopes
        The product of the gradient at x and the way from the nearest optimum to x.
    distances
        The distances to the nearest optimum; points at distance 0 say nothing.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-9, 9, 100)  # half the square: alpha = 1 leaves mu = 1
    >>> round(largest_growth(1.0, x**2 / 2, x * x, abs(x)), 6)
    1.0
    """
    positive("alpha", alpha)
    away = np.asarray(distances, float) > 0
    left = np.asarray(slopes, float)[away] - alpha * np.asarray(gaps, float)[away]
    return float((2 * left / np.asarray(distances, float)[away] ** 2).min())


def noise_deviation(scale: float, width: int, clients: int) -> float:
    """Return sqrt(d) V: the Euclidean size of one release's noise, in the mean over clients.

    Parameters
    ----------
    scale
        The standard deviation of the noise in one coordinate of one upload, in units of a mean
        gradient of one client.
    width
        The number of coordinates.
    clients
        The number of clients.

    Examples
    --------
    >>> noise_deviation(2.0, width=100, clients=4)
    10.0
    """
    return scale * sqrt(width) / sqrt(clients)
