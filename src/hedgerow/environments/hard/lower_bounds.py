"""Lower bounds on the regret of private algorithms, from Gao et al. 2024 and Asi et al. 2023.

They are proven with all constants in `proofs/lower_bounds.md`; an environment shows each of them.
"""

from __future__ import annotations

from math import ceil, expm1, log

import numpy as np
from scipy.special import bdtrc, gammaln

from hedgerow.core.errors import InvalidValue
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, positive


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
