"""What others would have paid on the same losses, found while a run streams by: the best expert, the best expert of every client,
the mean of all experts, the best sequence of experts with few changes, and for squared errors the best point.

Every figure is cumulative over the run and the mean over clients, as the loss of an algorithm is. For linear losses no mixture
is better than the best expert, so there is no line of its own for it.

Where experts sleep, one that sleeps pays what the client pays, as in `regret`: then comparators depend on the algorithm, and the
loss of an algorithm minus that of the best expert is its regret. The mean is always that of the experts who are awake.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.core.block import CACHE_ELEMENTS, Block
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units, to_units
from hedgerow.core.losses import Family, Linear, Quadratic
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Sink

BEST_EXPERT = "best expert"
OWN_BEST = "best expert of each client"
MEAN_EXPERT = "mean of all experts"
BEST_POINT = "best point"


def with_switches(count: int) -> str:
    """
    >>> with_switches(1), with_switches(4)
    ('best with 1 switch', 'best with 4 switches')
    """
    return f"best with {count} switch{'' if count == 1 else 'es'}"


class BestSequence:
    """The least total loss of a sequence of experts with at most s changes, for every s up to `most`: exact, in one pass.

    With V_t(s, x) the least loss of the rounds up to t when x is followed last, C_t(x) the loss of x alone and M_t(s) the
    least V_t(s, .), the programme V_t(s, x) = l_t(x) + min(V_(t-1)(s, x), M_(t-1)(s-1)) unrolls into
    V_t(s, x) - C_t(x) = min over r < t of (M_r(s-1) - C_r(x)): a running minimum, level by level. The state is V alone.
    """

    def __init__(self, experts: int, most: int) -> None:
        self.least = np.zeros((most + 1, experts), np.int64)

    def add(self, losses: Units) -> None:
        """Further rounds (rounds, experts), in lattice units."""
        alone = np.cumsum(losses, axis=0)
        before = alone - losses
        lowest: Units | None = None  # the least of one level less, before each of the rounds
        for level in self.least:
            gained = level if lowest is None else np.minimum(np.minimum.accumulate(lowest[:, None] - before, axis=0), level)
            reached = gained + alone
            lowest = np.append(level.min(), reached[:-1].min(axis=1))
            level[:] = reached[-1]

    def total(self, switches: int) -> int:
        """The least total with at most so many changes."""
        return int(self.least[min(switches, len(self.least) - 1)].min())


def _mean_of_awake(losses: Array, awake: np.ndarray) -> float:
    """In lattice units: in every round the mean over the experts awake, summed; nothing where there is none."""
    count = awake.sum(axis=-1)
    return float((np.where(awake, losses, 0.0).sum(axis=-1) / np.maximum(count, 1)).sum()) * UNITS_PER_LOSS


class ComparatorRecorder(Sink):
    """A sink that finds all comparators; those with changes of expert only for the numbers in `switches`, for they cost a pass."""

    def __init__(self, setting: Setting, family: Family, switches: Sequence[int] = ()) -> None:
        self.family = family
        self.players, self.experts = setting.players, setting.experts
        self.switches = tuple(switches)
        self._own: Units | None = None
        self._totals = np.zeros(self.experts, np.int64)
        self._sequence = BestSequence(self.experts, min(max(self.switches), setting.horizon - 1)) if self.switches else None
        self._plain_losses, self._mean_awake = 0, 0.0
        self._moments: np.ndarray | float = 0.0

    def rounds(self, first_round: int, block: Block, plays: np.ndarray) -> None:
        del first_round
        if isinstance(self.family, Linear):
            own = block.own_totals if block.awake is None else block.sums(plays).sum(axis=0)
            self._own = own if self._own is None else self._own + own
            self._totals += own.sum(axis=0)
            if block.awake is None:
                self._plain_losses += int(own.sum())
            else:
                self._mean_awake += _mean_of_awake(block.losses, block.awake)
            if self._sequence is not None:
                step = max(1, CACHE_ELEMENTS // self.experts)
                losses = block.answered(plays)
                for start in range(0, block.rounds, step):
                    self._sequence.add(to_units(losses[start : start + step].sum(axis=1)))
        elif isinstance(self.family, Quadratic):
            self._moments = self._moments + self.family.moments(block.losses)

    def span(self, first_round: int, rounds: int, play: int, totals: Units) -> None:
        del first_round, rounds, play
        if self._sequence is not None:
            raise Unsupported("Comparators that change their expert need every loss, and here only sums are drawn.")
        self._totals += totals
        self._plain_losses += int(totals.sum())

    def result(self) -> dict[str, float]:
        """The loss of every comparator, mean over clients; none for a family that is neither linear nor quadratic."""
        if isinstance(self.family, Quadratic):
            return {BEST_POINT: self.family.least(np.asarray(self._moments)) / self.players}
        if not isinstance(self.family, Linear):
            return {}
        units: dict[str, float] = {BEST_EXPERT: int(self._totals.min())}
        if self._own is not None:
            units[OWN_BEST] = int(self._own.min(axis=1).sum())
        units[MEAN_EXPERT] = self._plain_losses / self.experts + self._mean_awake
        if self._sequence is not None:
            units |= {with_switches(count): self._sequence.total(count) for count in self.switches}
        return {name: value / UNITS_PER_LOSS / self.players for name, value in units.items()}
