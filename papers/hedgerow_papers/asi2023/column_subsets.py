"""Theorems 9 and 11 of Asi et al. 2023: the printed lower bounds, and the adversary of the second.

The bounds repeat the constants of printed proofs, which hold only for "sufficiently large" games.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, log, sqrt

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least, between, positive
from hedgerow_papers.asi2023.sign_estimation import SignEstimation

# of the columns in Theorem 11: games that are large enough for a larger subset cannot be played
LARGEST_SUBSET = 4


@dataclass(frozen=True, kw_only=True)
class ColumnSubsets(SignEstimation):
    """An expert for every choice of `subset` columns and every way to sign them.

    There are 2^k binomial(p, k) experts, for k = `subset` and p columns. An expert loses unless all
    its signs are right in the row of this round and none of its columns is gone.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds. `experts` must be 2^k
        binomial(p, k) for some p.
    rows
        The number of rows of the hidden matrix, at least 1.
    coded
        The number of columns of a Tardos fingerprinting code, at least 1; the others have the same
        sign in all rows.
    active
        The number of rounds after which all losses are 0. None (default): never.
    subset
        The number k of columns that one expert guesses, in [1, 4].

    Examples
    --------
    >>> environment = ColumnSubsets(experts=112, horizon=2, subset=2, coded=2)
    >>> environment.columns
    8

    References
    ----------
    Asi et al. 2023, Theorem 11. The paper prints the sign of the sum of all rows; here it is the
    sign in one row, because the loss of one person must depend on one row.
    """

    experts: int = 3120
    horizon: int = 18
    coded: int = 2
    subset: int = 2

    def __post_init__(self) -> None:
        at_least("subset", self.subset, 1)
        between("subset", self.subset, 1, LARGEST_SUBSET)
        super().__post_init__()

    def _check_experts(self) -> None:
        below, above = (self._count(self.columns + step) for step in (0, 1))
        formula = f"2^{self.subset} binomial(p, {self.subset})"
        if self.experts != below:
            raise InvalidValue(
                f"Expected experts={self.experts!r} to be {formula} for some p, as {below} or "
                f"{above}."
            )

    def _count(self, columns: int) -> int:
        return 2**self.subset * comb(columns, self.subset)

    @property
    def columns(self) -> int:
        """The largest p for which there are enough experts."""
        columns = self.subset
        while self._count(columns + 1) <= self.experts:
            columns += 1
        return columns

    @property
    def at_once(self) -> int:
        return self.subset

    def _subsets(self) -> np.ndarray:
        return np.array(list(combinations(range(self.columns), self.subset)))

    def columns_of(self, plays: np.ndarray) -> np.ndarray:
        return self._subsets()[plays // 2**self.subset]

    def losses(self, row: np.ndarray, gone: np.ndarray) -> np.ndarray:
        subsets = self._subsets()
        right = (row[subsets] > 0) @ (1 << np.arange(self.subset))
        losses = np.ones((len(subsets), 2**self.subset))
        losses[np.arange(len(subsets)), right] = gone[subsets].any(axis=1)
        return losses.reshape(-1)


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
