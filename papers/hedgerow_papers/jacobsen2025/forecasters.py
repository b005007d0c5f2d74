"""Forecasters: they predict the next gains from noisy gains, and `WalkMeta` chooses among them.

A forecaster gets a `Past`, which holds noisy gains and nothing else, so whatever it computes is
post-processing. Most forecasters weight the last rounds; these are all computed in one matrix
product. To add one, subclass `Weighted` or `Forecaster` and give it a name in `FORECASTERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.registry import Registry
from hedgerow.core.validate import at_least

WINDOWS = (8, 16, 32, 64)
STRENGTHS = {"weak": 0.9, "medium": 0.5, "strong": 0.1}


@dataclass(frozen=True, eq=False)
class Past:
    """What a forecaster may use: noisy gains of earlier rounds.

    Parameters
    ----------
    recent
        The noisy gains of the last rounds, oldest first, of shape (rounds, experts). There are as
        many rounds as the longest window of all forecasters, or fewer at the beginning.
    total
        The sum of all noisy gains so far and of the noise with which the walk starts, one number
        for each expert.
    rounds
        How many rounds are over, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow_papers.jacobsen2025.forecasters import Past
    >>> Past(np.zeros((2, 3)), np.zeros(3), rounds=2).rounds
    2
    """

    recent: Array
    total: Array
    rounds: int


class Forecaster(ABC):
    """Predicts the gains of the next round; a frozen dataclass of public parameters.

    `window` is the number of past rounds that it needs.
    """

    window: int = 1

    @abstractmethod
    def forecast(self, past: Past) -> Array:
        """Return one number for each expert; the largest is followed."""


class Weighted(Forecaster):
    """A forecaster that is a weighted sum of the last rounds."""

    @abstractmethod
    def weights(self, rounds: int) -> Array:
        """Return the weights of the last rounds, oldest first; `rounds` is at most `window`."""

    def forecast(self, past: Past) -> Array:
        rounds = min(self.window, len(past.recent))
        return self.weights(rounds) @ past.recent[len(past.recent) - rounds :]


@dataclass(frozen=True)
class Trend(Weighted):
    """Rolling Gaussian (ridge) regression on time: the mean of a window plus a shrunk slope.

    Parameters
    ----------
    window
        How many rounds are fitted, at least 1. Default 8.
    slope
        The share of the fitted slope that is kept, in [0, 1]. Less is more regularisation. Default
        0.5. The slope counts from the third round on.

    Examples
    --------
    >>> from hedgerow_papers.jacobsen2025.forecasters import Trend
    >>> Trend(window=4, slope=1.0).weights(4).round(2).tolist()
    [-0.5, 0.0, 0.5, 1.0]
    """

    window: int = 8
    slope: float = 0.5

    def __post_init__(self) -> None:
        at_least("window", self.window, 1)
        if not 0 <= self.slope <= 1:
            raise InvalidValue(f"Expected slope={self.slope!r} in [0, 1].")

    def weights(self, rounds: int) -> Array:
        even = np.full(rounds, 1 / rounds)
        if rounds < 3:
            return even
        time = np.arange(rounds) - (rounds - 1) / 2
        return even + self.slope * (rounds + 1) / 2 * time / np.square(time).sum()


@dataclass(frozen=True)
class Smoothing(Weighted):
    """Exponential smoothing over a window: every round weighs a little less than the next one.

    Parameters
    ----------
    rate
        The weight of the last round relative to all, in (0, 1]. At 1 only the last round counts.
        Default 0.3.
    window
        How many rounds are used, at least 1. Default 64.

    Examples
    --------
    >>> from hedgerow_papers.jacobsen2025.forecasters import Smoothing
    >>> Smoothing(rate=0.5).weights(2).round(3).tolist()
    [0.333, 0.667]
    """

    rate: float = 0.3
    window: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise InvalidValue(f"Expected rate={self.rate!r} in (0, 1].")
        at_least("window", self.window, 1)

    def weights(self, rounds: int) -> Array:
        faded = (1 - self.rate) ** np.arange(rounds - 1, -1, -1.0)
        return faded / faded.sum()


@dataclass(frozen=True)
class Leader(Forecaster):
    """The mean of all noisy gains: follow the leader of the random walk (RW-FTPL).

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow_papers.jacobsen2025.forecasters import Leader, Past
    >>> Leader().forecast(Past(np.zeros((1, 2)), np.array([1.0, 3.0]), rounds=2)).tolist()
    [0.5, 1.5]
    """

    def forecast(self, past: Past) -> Array:
        return past.total / past.rounds


LAST = Smoothing(rate=1.0, window=1)
LEADER = Leader()


@dataclass(frozen=True)
class Panel:
    """Several forecasters, computed together.

    Parameters
    ----------
    members
        The forecasters, at least one.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow_papers.jacobsen2025.forecasters import LAST, LEADER, Panel, Past
    >>> past = Past(np.array([[0.0, 1.0], [0.5, 0.0]]), np.array([0.5, 1.0]), rounds=2)
    >>> Panel((LAST, LEADER)).forecasts(past).tolist()
    [[0.5, 0.0], [0.25, 0.5]]
    """

    members: tuple[Forecaster, ...]

    @cached_property
    def window(self) -> int:
        """How many past rounds the forecasters need."""
        return max(member.window for member in self.members)

    @cached_property
    def _known(self) -> dict[int, Array]:
        """Weights that were computed before, by the number of rounds."""
        return {}

    def weights(self, rounds: int) -> Array:
        """Return the weights of the last rounds, one row for each member; 0 if it has none."""
        if rounds not in self._known:
            rows = np.zeros((len(self.members), rounds))
            for row, member in zip(rows, self.members, strict=True):
                if isinstance(member, Weighted):
                    used = min(member.window, rounds)
                    row[rounds - used :] = member.weights(used)
            self._known[rounds] = rows
        return self._known[rounds]

    @cached_property
    def _others(self) -> tuple[tuple[int, Forecaster], ...]:
        """The members that are not weighted sums, with their positions."""
        found = enumerate(self.members)
        return tuple((i, member) for i, member in found if not isinstance(member, Weighted))

    def forecasts(self, past: Past, out: Array | None = None) -> Array:
        """Return all forecasts, of shape (forecasters, experts), in one matrix product.

        They are written to `out` if it is given.
        """
        found = np.matmul(self.weights(len(past.recent)), past.recent, out=out)
        for i, member in self._others:
            found[i] = member.forecast(past)
        return found


class _Named(Registry[Forecaster]):
    """Forecasters by name; `add` takes a new one."""

    def panel(self, names: Sequence[str]) -> Panel:
        """Return the forecasters of these names."""
        return Panel(tuple(self[name] for name in names))


FORECASTERS = _Named("forecaster", {})
for _window in WINDOWS:
    for _name, _slope in STRENGTHS.items():
        FORECASTERS.add(f"trend-{_window}-{_name}", Trend(_window, _slope))
for _rate in (0.1, 0.3, 0.6):
    FORECASTERS.add(f"smoothing-{_rate:g}", Smoothing(_rate))
FORECASTERS.add("last", LAST)
FORECASTERS.add("leader", LEADER)

PUBLISHED = (*(f"trend-{w}-{name}" for w in WINDOWS for name in STRENGTHS), "leader")
"""The 13 learners of the published experiment."""
