"""Adversaries that make an algorithm guess the signs of the columns of a hidden matrix.

They are those of Asi et al. 2023, Theorems 9, 10 and 11; here is that of Theorem 10. Every expert
is a guess. In each round one row of the matrix decides which guesses are right. A guess is used up
once it is played: all experts for the same columns lose 1 from then on, so each round needs a new
guess. An expert that was never played and is right in all rows loses nothing, so regret is the
number of wrong or repeated guesses. Privacy forbids guessing many signs right from few rows.

All clients have the same losses; with several clients a column is gone once any client has played
it. In the theorems every client plays in every round. An absent client uses up no column and makes
fewer guesses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least
from hedgerow.environments.drawn.generated import Frame, generator
from hedgerow.environments.hard.adaptive import last_played

_MATRIX = 4
MOST_USED = 0.9  # share of the columns that may be used up, so that good ones are left


@dataclass(frozen=True)
class ColumnState:
    """The hidden matrix of signs (rows, columns), and the position in the game.

    `order` is the order in which rows are used; `gone` marks the columns that are used up.
    """

    signs: np.ndarray
    order: np.ndarray
    gone: np.ndarray
    round: int


@dataclass(frozen=True, kw_only=True)
class Columns(Frame):
    """Base class: some experts guess the signs of columns; rows are used in turn.

    Its games have `rows` rows, of which `hidden` draws the signs.
    """

    rows: ClassVar[int] = 1

    clients: int = 1
    experts: int = 200
    horizon: int = 90
    active: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_experts()
        if self.active is not None:
            at_least("active", self.active, 1)
            if not self.active <= self.horizon:
                raise InvalidValue(f"Expected active={self.active!r} <= horizon={self.horizon}.")
        most = self._most_rounds(self.columns)
        used = (
            f"in each round every client may use up {self.at_once} of the {self.columns} columns, "
            f"and at most {MOST_USED:.0%} may be used up"
        )
        clients = f"{self.clients} client{'s' if self.clients > 1 else ''}"
        name, played = ("horizon", self.horizon) if self.active is None else ("active", self.active)
        needed = f"{played} rounds with {clients} need experts >= {self._enough(played)}"
        if not played <= most:
            raise InvalidValue(f"Expected {name}={played!r} <= {most}: {used}; {needed}.")
        self._check_code(self.columns - self.at_once * (self.clients * played + 1))

    def _check_code(self, most: int) -> None:
        """Refuse a code of more than `most` columns; by default there is none."""

    def _check_experts(self) -> None:
        if self.experts % 2 != 0:
            raise InvalidValue(
                f"Expected experts={self.experts!r} to be even: two for each column."
            )

    def _most_rounds(self, columns: int) -> int:
        return int(MOST_USED * columns / (self.at_once * self.clients))

    def _enough(self, played: int) -> int:
        """Return the least number of experts for this number of rounds and these clients."""
        columns = ceil(played * self.at_once * self.clients / MOST_USED)
        while self._most_rounds(columns) < played:
            columns += 1
        return self._count(columns)

    def _count(self, columns: int) -> int:
        return 2 * columns

    @property
    def traits(self) -> Traits:
        return Traits(sees_plays=True, fresh=True)  # every seed draws new columns

    @property
    def columns(self) -> int:
        """The number of columns of the hidden matrix."""
        return self.experts // 2

    @property
    def at_once(self) -> int:
        """The number of columns that one expert guesses."""
        return 1

    def hidden(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the signs of all columns in each row, (rows, columns)."""
        return rng.choice((-1, 1), (1, self.columns))

    def start(self, seed: int) -> ColumnState:
        rng = generator(seed, _MATRIX)
        signs = self.hidden(rng)[:, rng.permutation(self.columns)]
        return ColumnState(signs, rng.permutation(self.rows), np.zeros(self.columns, bool), 0)

    def block(
        self, state: ColumnState, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, ColumnState]:
        gone = state.gone.copy()
        gone[self.columns_of(last_played(past_plays)[1])] = True
        row = state.signs[state.order[state.round % self.rows]]
        over = self.active is not None and state.round >= self.active
        each = np.zeros(self.experts) if over else self.losses(row, gone)
        losses = np.broadcast_to(each, (rounds, self.clients, self.experts)).copy()
        return Block.of(losses), replace(state, gone=gone, round=state.round + rounds)

    def columns_of(self, plays: np.ndarray) -> np.ndarray:
        """Return the columns that these experts guess."""
        return plays // 2

    def losses(self, row: np.ndarray, gone: np.ndarray) -> np.ndarray:
        """Return the loss of every expert when this row decides."""
        wrong = np.stack([row > 0, row < 0], axis=-1) | gone[:, None]
        return wrong.reshape(-1).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class ConsensusColumns(Columns):
    """Two experts for each column guess its sign: expert 2j guesses -1, expert 2j + 1 guesses +1.

    All rows agree, so only pure privacy makes guessing hard. `lower_bounds.consensus_regret` is the
    bound, with constants.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds. `experts` must be even.
        In each round every client may use up a column, so the horizon is limited.
    active
        The number of rounds after which all losses are 0. None (default): never.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.ConsensusColumns(experts=8, horizon=3)
    >>> block, _ = environment.block(environment.start(0), 1, None)
    >>> environment.columns, block.losses[0, 0]  # one guess of each pair is right
    (4, array([1., 0., 1., 0., 0., 1., 0., 1.]))

    References
    ----------
    Asi et al. 2023, Theorem 10.
    """
