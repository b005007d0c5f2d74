"""Counterexamples to printed claims, small enough to be computed exactly.

Each function returns the numbers that contradict a claim, or show how far it reaches. `python -m
hedgerow_papers.counterexamples NAME` prints what a function says and its numbers; without names,
all of them.
"""

from __future__ import annotations

import inspect
import sys
from math import exp, expm1, log, sqrt
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from hedgerow.environments.drawn.generated import generator


def private_hedge_of_many(
    rounds: int = 1000, experts: int = 10**6, epsilon: float = 0.01
) -> tuple[int, float, float]:
    """Clients do help on general oblivious losses (Gao et al. 2024, Theorem 2.4, second part).

    Hedge on the mean loss of m clients, drawn once in each round for all of them, is epsilon-DP for
    m clients that are enough. Returns m, its regret bound, and the order that the theorem claims to
    be unavoidable for every m (`proofs/lower_bounds.md#hidden-expert`).

    >>> m, regret, claimed = private_hedge_of_many()
    >>> m, round(regret), round(claimed)
    (66491, 83, 1000)
    """
    clients = int(sqrt(32 * rounds * log(experts)) / epsilon) + 1
    claimed = min(log(experts) / epsilon, float(rounds))
    return clients, sqrt(rounds * log(experts) / 2), claimed


def line_9(
    distance: float = 40.0, queries: int = 2046, epsilon: float = 1.0
) -> tuple[float, float]:
    """Fed-SVT with line 9 as printed is not private uniformly in the horizon (Gao et al. 2024).

    The sum stays at a distance below the threshold L, without noise on L, in one world, and is
    larger by 1 in the other. Returns the probability that all queries say "below" and the privacy
    loss of this event; the loss grows with the number of queries
    (`proofs/sparse_vector.md#published-constants`).

    >>> chance, loss = line_9()
    >>> f"{chance:.5f} {loss:.3f}"
    '0.00100 0.921'
    >>> line_9(distance=80.0, queries=2046 * 150)[1] > 0.9
    True
    """
    scale = 8 / epsilon
    above = [0.5 * exp(-(distance - moved) / scale) for moved in (0.0, 1.0)]
    chances = [(1 - share) ** queries for share in above]
    return chances[0], log(chances[0] / chances[1])


def shuffled_reports(
    batch: int = 100, mu: float = 2.0, epsilon: float = 1.0, at: float = 3.6
) -> tuple[float, float]:
    """A shuffler does not give the server the guarantee of the sum (Jacobsen and Fawaz 2025).

    Returns a lower bound on the delta of the shuffled reports, from their largest, and the delta of
    the sum (`proofs/walk_batches.md#what-does-not-hold`).

    >>> shuffled, of_the_sum = shuffled_reports()
    >>> f"{shuffled:.3f} {of_the_sum:.1e}"
    '0.027 1.8e-08'
    """
    low, high = ndtr(at) ** batch, ndtr(at) ** (batch - 1) * ndtr(at - mu)
    shift = mu / sqrt(batch)
    of_the_sum = ndtr(-epsilon / shift + shift / 2) - exp(epsilon) * ndtr(
        -epsilon / shift - shift / 2
    )
    return float(1 - high - exp(epsilon) * (1 - low)), float(of_the_sum)


def followed_noise(
    rounds: int = 40_000, eta: float = 2.0, seed: int = 0
) -> tuple[float, float, float]:
    """RW-Meta as printed can regret a fixed share of all rounds (Jacobsen and Fawaz 2025, bound 3).

    Three experts gain 1, 0 and 1/2 in every round. Forecaster 1 names the third. Forecaster 2 names
    the second if its noisy gains are above the first one's, and otherwise the first. It does not
    know the noise with which the scores start. Returns the regret against forecaster 1 in one run,
    the least that is expected, and the printed bound (`proofs/walk_meta.md#counterexample`).

    >>> regret, least, bound = followed_noise()
    >>> regret > least > 6 * bound, round(least), round(bound)
    (True, 5000, 804)
    """
    start = eta * sqrt(2) * float(generator(seed, 1).standard_normal())  # of the difference
    noise = eta * generator(seed, 0).standard_normal((rounds, 3))
    ahead, gained = 0.0, 0.0  # the noisy gains of forecaster 2 above those of forecaster 1
    for first, second, third in noise.tolist():
        names_second = ahead > 0
        gained += 0.5 if ahead + start <= 0 else float(not names_second)
        ahead += second - third - 0.5 if names_second else first - third + 0.5
    bound = (eta + sqrt(2)) * sqrt(2 * rounds * log(2))
    return rounds / 2 - gained, (rounds - 1) / 8, bound


def far_horizon(delta: float = 1e-6) -> float:
    """From which T on covers beat DP-FTRL on a line at epsilon = T^(-1/4) (Asi et al. 2023).

    The printed rates, with logarithms and every hidden constant 1, are sqrt(T ln T) +
    T^(7/12) ln(1/delta)^(1/3) ln T and T^(5/8). Returns log10 of the T at which they are equal: the
    claim is about the limit.

    >>> round(far_horizon())
    61
    """

    def later(at: float) -> float:  # ln of the ratio of the rates, at = ln T
        rates = 0.5 * (at + log(at)), 7 / 12 * at + log(at) + log(log(1 / delta)) / 3
        return float(np.logaddexp(*rates)) - 5 / 8 * at

    found: Any = brentq(later, 50.0, 1000.0)
    return float(found) / log(10)


def short_column(rounds: int = 1000) -> float:
    """The printed column norm of the Toeplitz root is too small (Zhang et al. 2024, equation 8).

    Returns the share of the squared norm that the printed bound lacks.

    >>> [round(short_column(rounds), 3) for rounds in (10, 100, 1000)]
    [0.072, 0.054, 0.042]
    """
    entry, total = 1.0, 0.0
    for k in range(1, rounds + 1):
        total += entry**2
        entry *= 1 - 1 / (2 * k)
    return 1 - (1 + log(4 * rounds / 5) / 3.141592653589793) / total


def reversed_inequality(rate: float = 0.1, loss: float = 0.5) -> float:
    """A step of A.5 is reversed (Asi et al. 2023): 1 - (1 - eta)^x <= eta x on [0, 1].

    Returns how far the left side is above the right one; the theorem survives with -ln(1 - eta).

    >>> reversed_inequality() > 0
    True
    """
    return -expm1(loss * log(1 - rate)) - rate * loss


def main(names: list[str]) -> int:
    here = dict(inspect.getmembers(sys.modules[__name__], inspect.isfunction))
    known = sorted(n for n, of in here.items() if of.__module__ == __name__ and of is not main)
    for name in names or known:
        if name not in known:
            sys.stderr.write(f"Unknown counterexample {name!r}. Known: {', '.join(known)}.\n")
            return 2
        text = inspect.cleandoc(here[name].__doc__ or "").partition(">>>")[0].strip()
        sys.stdout.write(f"{text}\n\n{here[name]()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
