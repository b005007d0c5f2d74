"""The adversary of Theorem 9 of Asi et al. 2023: a hidden matrix with a fingerprinting code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least
from hedgerow.environments.hard.columns import Columns


@dataclass(frozen=True, kw_only=True)
class SignEstimation(Columns):
    """Two experts for each column guess its sign: expert 2j guesses -1, expert 2j + 1 guesses +1.

    Rows are used in turn.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds. `experts` must be even.
        In each round every client may use up a column, so the horizon is limited.
    rows
        The number of rows of the hidden matrix, at least 1.
    coded
        The number of columns of a Tardos fingerprinting code, which make it costly to betray a
        row, at least 1. The others have the same sign in all rows. Enough of them must be left at
        the end for an expert that is never wrong.
    active
        The number of rounds after which all losses are 0 (T0 in the proof of Theorem 9). None
        (default): never.

    Examples
    --------
    >>> environment = SignEstimation(experts=8, horizon=2, coded=1)
    >>> block, _ = environment.block(environment.start(0), 1, None)
    >>> block.losses[0, 0]  # one guess of each pair is right
    array([0., 1., 1., 0., 0., 1., 0., 1.])

    References
    ----------
    Asi et al. 2023, Theorem 9.
    """

    rows: int = 8  # pyright: ignore[reportIncompatibleVariableOverride]
    coded: int = 5

    def __post_init__(self) -> None:
        at_least("rows", self.rows, 1)
        super().__post_init__()

    def _check_code(self, most: int) -> None:
        """Refuse a code without columns, or one that may leave no right expert."""
        if not 1 <= self.coded <= most:
            raise InvalidValue(
                f"Expected coded={self.coded!r} in [1, {most}]: without a code there is no lower "
                "bound, and with more every expert may be wrong in some round."
            )

    def hidden(self, rng: Any) -> np.ndarray:
        signs = np.repeat(super().hidden(rng), self.rows, axis=0)
        least = np.arcsin(np.sqrt(1 / (300 * self.rows)))
        bias = np.sin(rng.uniform(least, np.pi / 2 - least, self.coded)) ** 2
        signs[:, : self.coded] = np.where(rng.random((self.rows, self.coded)) < bias, 1, -1)
        return signs
