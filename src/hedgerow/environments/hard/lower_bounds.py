"""Lower bounds on the regret of private algorithms, from Gao et al. 2024 and Asi et al. 2023.

The first three are proven with all constants in `proofs/lower_bounds.md`. The last two repeat the
constants of printed proofs, which hold only for "sufficiently large" games. Each bound has an
environment that shows it.
"""

from __future__ import annotations

from math import ceil, expm1, log, sqrt

import numpy as np
from scipy.special import bdtrc, gammaln

from hedgerow.core.errors import InvalidValue
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, positive

# of the columns in Theorem 11: games that are large enough for a larger subset cannot be played
LARGEST_SUBSET = 4


def coin_regret(experts: int, horizon: int) -> float:
    """Return the expected regret of *every* algorithm, private or not, on `CommonCoins`.

    It holds for any number of clients (Gao et al., Theorem 2.4) and equals T/2 - E[the least of d
    binomial(T, 1/2) numbers], about sqrt(T ln(d) / 2): `proofs/lower_bounds.md#common-coins`.

    >>> round(coin_regret(100, 512), 2), round(coin_regret(2, 1), 2)
    (28.34, 0.25)
    """
    at_least("experts", experts, 1)
    at_least("horizon", horizon, 1)
    at_least_k = bdtrc(np.arange(horizon), horizon, 0.5)  # chances of 1, 2, ... or more
    return float(horizon / 2 - (at_least_k**experts).sum())


def hidden_expert_regret(setting: Setting, epsilon: float, delta: float = 0.0) -> float:
    """Return the least regret per client of any (epsilon, delta)-DP algorithm on `HiddenExpert`.

    Gao et al., Theorem 2.7, with constants: the sum over rounds t of (1 - e^(m t epsilon)/d - delta
    (e^(m t epsilon) - 1)/(e^epsilon - 1))_+, about ln(d)/(m epsilon). Proven in
    `proofs/lower_bounds.md#hidden-expert`.

    >>> [round(hidden_expert_regret(Setting(m, 100, 512), 0.1), 2) for m in (1, 10)]
    [36.64, 4.14]
    """
    positive("epsilon", epsilon)
    if not 0 <= delta < 1:
        raise InvalidValue(f"Expected delta={delta!r} in [0, 1).")
    each = setting.clients * epsilon
    rounds = ceil(min(setting.rounds, log(setting.experts) / each))  # later ones add nothing
    total = 0.0
    for first in range(0, rounds, 2**20):
        exponent = each * np.arange(first, min(first + 2**20, rounds))
        leaked = delta * np.exp(exponent - epsilon) * np.expm1(-exponent) / expm1(-epsilon)
        total += float(np.maximum(0.0, 1 - np.exp(exponent) / setting.experts - leaked).sum())
    return total


def consensus_regret(horizon: int, epsilon: float, clients: int = 1) -> float:
    """Return the least regret per client of any epsilon-DP algorithm on `ConsensusColumns`.

    Asi et al., Theorem 10, with constants. It is linear in the horizon while clients * epsilon < ln
    2: `proofs/lower_bounds.md#consensus-columns`.

    >>> round(consensus_regret(500, 0.1) / 500, 3), consensus_regret(500, 0.7)
    (0.285, 0.0)
    """
    at_least("horizon", horizon, 1)
    at_least("clients", clients, 1)
    positive("epsilon", epsilon)
    return float(
        np.abs(np.expm1(np.minimum(0.0, clients * epsilon * horizon + _log_tails(horizon)))).sum()
    )


def sign_estimation_regret(horizon: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the bound in the printed proof of Asi et al., Theorem 9.

    It is T0/1000 for the largest T0 <= T with epsilon <= 1/(200 sqrt(T0) ln T0), and holds for
    delta <= T^-3 and large T.

    >>> sign_estimation_regret(10**6, 1e-7), sign_estimation_regret(10**6, 1.0)
    (1000.0, 0.0)
    >>> sign_estimation_regret(10**6, 1e-5) > 0
    True
    """
    at_least("horizon", horizon, 1)
    positive("epsilon", epsilon)
    _small_delta("Theorem 9", delta, horizon)
    low, high = 1, horizon + 1
    while high - low > 1:  # the rule gets stricter with T0
        middle = (low + high) // 2
        low, high = (
            (middle, high) if epsilon * 200 * sqrt(middle) * log(middle) <= 1 else (low, middle)
        )
    return low / 1000 if low > 1 else 0.0


def column_subsets_regret(horizon: int, subset: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the bound in the printed proof of Asi et al., Theorem 11.

    It is T/1000 if epsilon <= sqrt(k/T)/(200 ln T), and 0 otherwise. It holds for delta <= T^-3 and
    large T.

    >>> column_subsets_regret(1000, 2, 1e-5), column_subsets_regret(1000, 2, 1.0)
    (1.0, 0.0)
    """
    at_least("horizon", horizon, 2)
    between("subset", subset, 1, LARGEST_SUBSET)
    positive("epsilon", epsilon)
    _small_delta("Theorem 11", delta, horizon)
    return horizon / 1000 if epsilon <= sqrt(subset / horizon) / (200 * log(horizon)) else 0.0


def _small_delta(theorem: str, delta: float, horizon: int) -> None:
    most = float(horizon) ** -3
    if not 0 <= delta <= most:
        raise InvalidValue(
            f"Expected delta={delta!r} in [0, {most:.4g}]: {theorem} of Asi et al. 2023 needs "
            f"delta <= T^-3, T = {horizon}."
        )


def _log_tails(count: int) -> np.ndarray:
    """Return the logarithms of the upper tails of `count` fair coins.

    They are ln of the chances of at least count, count - 1, ..., 1 heads; in logarithms because the
    chances become tiny.
    """
    heads = np.arange(count, 0, -1)
    chances = (
        gammaln(count + 1) - gammaln(heads + 1) - gammaln(count - heads + 1) - count * log(2.0)
    )
    # the added term exceeds any loss by rounding
    return np.logaddexp.accumulate(chances) + 1e-13 * gammaln(count + 1)
