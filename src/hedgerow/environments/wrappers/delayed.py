"""A wrapper in which clients see their losses some rounds late."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least
from hedgerow.environments.wrappers.masks import Around, Position


@dataclass(frozen=True)
class Waiting:
    """The state of the wrapped environment, and its last reports.

    There are as many rounds of reports as the longest delay (None: none yet).
    """

    inner: Any
    reports: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Delayed(Around):
    """Any environment whose reports arrive `rounds` rounds late.

    Clients are charged at once, and regret counts what they are charged. Until the first report
    arrives they see zeros. A report that would arrive after the last round never does. Every loss
    vector is still reported at most once, so the protected unit and its cost are those of the plain
    game (`proofs/masks.md#late-reports`).

    Parameters
    ----------
    of
        The environment to wrap; it keeps its losses, clients, experts and rounds.
    rounds
        The delay in rounds, at least 0 and below the horizon: one number for all clients, or a
        tuple with one number for each client.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Delayed(of=hr.HiddenExpert(clients=1, experts=3, horizon=10), rounds=2)
    >>> block, _ = environment.block(environment.start(0), 4, None)
    >>> block.reports[:, 0].sum(axis=1)  # the losses of two experts, two rounds late
    array([0., 0., 2., 2.])
    """

    feature: ClassVar[Feature] = Feature.LATE_REPORTS
    not_around: ClassVar[frozenset[Feature]] = frozenset({Feature.SLEEPING_EXPERTS})

    rounds: int | tuple[int, ...] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for late in self._each:
            at_least("rounds", late, 0)

    @property
    def _each(self) -> tuple[int, ...]:
        return self.rounds if isinstance(self.rounds, tuple) else (self.rounds,)

    def start(self, seed: int) -> Position:
        horizon, clients = self.setting.rounds, self.setting.clients
        if not max(self._each) < horizon:
            raise InvalidValue(
                f"Expected rounds={self.rounds!r} < horizon={horizon}: a later report would never "
                "arrive."
            )
        if isinstance(self.rounds, tuple) and len(self.rounds) != clients:
            raise InvalidValue(
                f"Expected rounds={self.rounds!r} to have one number for each of {clients} clients."
            )
        return Position(seed, 0, Waiting(self.of.start(seed)))

    def block(
        self, state: Position, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Position]:
        made, inner = self.of.block(state.inner.inner, rounds, past_plays)
        late, longest = self._each, max(self._each)
        if longest == 0:
            return made, Position(state.seed, state.round + rounds, Waiting(inner))
        before = (
            np.zeros((longest, *made.reports.shape[1:]))
            if state.inner.reports is None
            else state.inner.reports
        )
        known = np.concatenate([before, made.reports])
        if len(late) == 1:
            reports = known[longest - late[0] : longest - late[0] + rounds]
        else:
            when = np.arange(longest, longest + rounds)[:, None] - np.array(late)
            reports = known[when, np.arange(len(late))]
        waiting = Waiting(inner, known[rounds:].copy())
        return replace(made, reports=reports), Position(state.seed, state.round + rounds, waiting)
