"""Counterexamples to printed claims, small enough to be computed exactly.

Run them with `python -m doctest -v` on this file; each returns the numbers that contradict a claim.
"""

from __future__ import annotations

from math import exp, expm1, log, sqrt

from scipy.special import ndtr


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
