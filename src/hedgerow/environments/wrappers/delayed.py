"""Losses that clients see only some rounds after they were charged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Feature
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, expect
from hedgerow.environments.wrappers.masks import Around, Position


@dataclass(frozen=True)
class Waiting:
    """State: the other environment's, and its last reports, as many rounds as the longest delay (None: none yet)."""

    inner: Any
    reports: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Delayed(Around):
    """Any environment whose reports arrive `rounds` rounds late: one number for all clients, or one for each.

    Clients are charged at once, and regret is by what they are charged. Until the first report arrives they see zeros; what
    would arrive after the last round never does. Every loss vector is still reported at most once, so the protected unit and
    its cost are those of the plain game (`proofs/masks.md#late-reports`).
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
        horizon, clients = self.setting.horizon, self.setting.clients
        expect(
            max(self._each) < horizon,
            "rounds",
            self.rounds,
            f"< horizon={horizon}: a later report would never arrive",
        )
        expect(
            not isinstance(self.rounds, tuple) or len(self.rounds) == clients,
            "rounds",
            self.rounds,
            f"for each of {clients} clients",
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
