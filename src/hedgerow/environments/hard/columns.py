"""Adversaries that make an algorithm guess the signs of the columns of a hidden matrix (Asi et al. 2023, Theorems 9, 10 and 11).

Every expert stands for a guess. In each round one row of the matrix says which guesses are right. Whoever is played has given away its
guess, and all experts for the same columns lose 1 from then on: each round needs a new guess. An expert that was never played and is
right in all rows loses nothing, so regret is the number of wrong or repeated guesses. Guessing many signs right from few rows is
what privacy forbids. All clients have the same losses; with several clients a column is gone once anybody has played it. The theorems
are about games in which everybody plays in every round: who is absent uses up nothing and guesses less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, comb

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Traits
from hedgerow.core.validate import at_least, between, expect
from hedgerow.environments.drawn.generated import Frame, generator
from hedgerow.environments.hard.adaptive import last_played
from hedgerow.environments.hard.lower_bounds import LARGEST_SUBSET

_MATRIX = 4
MOST_USED = 0.9  # of the columns, so that good ones are left


@dataclass(frozen=True)
class ColumnState:
    """The hidden matrix of signs (rows, columns), the order in which its rows are used, the columns that are gone, and the round."""

    signs: np.ndarray
    order: np.ndarray
    gone: np.ndarray
    round: int


@dataclass(frozen=True, kw_only=True)
class SignEstimation(Frame):
    """Two experts for each column, one for each sign: expert 2j says -1, expert 2j + 1 says +1 (Theorem 9).

    A share `padding` of the columns has the same sign in all `rows`; the others are those of a Tardos fingerprinting code, which make
    it costly to betray a row. Rows are used in turn. `lower_bounds.sign_estimation_regret` is the printed bound.
    """

    clients: int = 1
    experts: int = 200
    horizon: int = 90
    rows: int = 8
    padding: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_experts()
        at_least("rows", self.rows, 1)
        between("padding", self.padding, 0.0, 1.0)
        most = self._most_rounds(self.columns)
        game = f"so many rounds, in each of which every client may use up another, leave enough of the {self.columns} columns"
        needed = f"{self.horizon} rounds with {self.clients} client{'s' if self.clients > 1 else ''} need experts >= {self._enough()}"
        expect(self.horizon <= most, "horizon", self.horizon, f"<= {most}: {game}; {needed}")

    def _check_experts(self) -> None:
        expect(self.experts % 2 == 0, "experts", self.experts, "to be even: two for each column")

    def _most_rounds(self, columns: int) -> int:
        return int(MOST_USED * columns / (self.at_once * self.clients))

    def _enough(self) -> int:
        """The least number of experts for so many rounds and clients."""
        columns = ceil(self.horizon * self.at_once * self.clients / MOST_USED)
        while self._most_rounds(columns) < self.horizon:
            columns += 1
        return self._count(columns)

    def _count(self, columns: int) -> int:
        return 2 * columns

    @property
    def traits(self) -> Traits:
        return Traits(sees_plays=True, fresh=True)  # every seed draws columns of its own

    @property
    def columns(self) -> int:
        return self.experts // 2

    @property
    def at_once(self) -> int:
        """How many columns one expert speaks of."""
        return 1

    def start(self, seed: int) -> ColumnState:
        rng = generator(seed, _MATRIX)
        signs = np.repeat(rng.choice((-1, 1), (1, self.columns)), self.rows, axis=0)
        coded = int((1 - self.padding) * self.columns)
        least = np.arcsin(np.sqrt(1 / (300 * self.rows)))
        bias = np.sin(rng.uniform(least, np.pi / 2 - least, coded)) ** 2
        signs[:, :coded] = np.where(rng.random((self.rows, coded)) < bias, 1, -1)
        signs = signs[:, rng.permutation(self.columns)]
        return ColumnState(signs, rng.permutation(self.rows), np.zeros(self.columns, bool), 0)

    def block(
        self, state: ColumnState, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, ColumnState]:
        gone = state.gone.copy()
        gone[self.columns_of(last_played(past_plays)[1])] = True
        row = state.signs[state.order[state.round % self.rows]]
        losses = np.broadcast_to(
            self.losses(row, gone), (rounds, self.clients, self.experts)
        ).copy()
        return Block.of(losses), replace(state, gone=gone, round=state.round + rounds)

    def columns_of(self, plays: np.ndarray) -> np.ndarray:
        """The columns that these experts speak of."""
        return plays // 2

    def losses(self, row: np.ndarray, gone: np.ndarray) -> np.ndarray:
        """The loss of every expert when this row judges."""
        wrong = np.stack([row > 0, row < 0], axis=-1) | gone[:, None]
        return wrong.reshape(-1).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class ConsensusColumns(SignEstimation):
    """All rows agree, so that only pure privacy stands in the way (Theorem 10): `lower_bounds.consensus_regret`, with constants."""

    rows: int = 1
    padding: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(
            self.padding == 1.0,
            "padding",
            self.padding,
            "= 1: all columns agree (sign_estimation has others)",
        )


@dataclass(frozen=True, kw_only=True)
class ColumnSubsets(SignEstimation):
    """An expert for every choice of `subset` columns and every way to sign them: 2^k binomial(p, k) experts (Theorem 11).

    It loses unless all its signs are right in this round's row and none of its columns is gone. (The paper prints the sign of the sum
    of all rows; a loss that is one person's must be that of one row.)
    """

    experts: int = 3120
    horizon: int = 18
    subset: int = 2

    def __post_init__(self) -> None:
        at_least("subset", self.subset, 1)
        between("subset", self.subset, 1, LARGEST_SUBSET)
        super().__post_init__()

    def _check_experts(self) -> None:
        below, above = (self._count(self.columns + step) for step in (0, 1))
        formula = f"2^{self.subset} binomial(p, {self.subset})"
        expect(
            self.experts == below,
            "experts",
            self.experts,
            f"to be {formula} for some p, as {below} or {above}",
        )

    def _count(self, columns: int) -> int:
        return 2**self.subset * comb(columns, self.subset)

    @property
    def columns(self) -> int:
        """The largest p with no more experts than there are."""
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
