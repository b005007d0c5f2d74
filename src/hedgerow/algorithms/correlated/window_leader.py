"""The window leader: follow the leader of that window of private running sums which did best.

It is the running leader with another rule for the expert. Decoded sums, whose noise is hardly
larger in long windows than in short ones, give the leader of the last 1, 2, 4, ... batches and of
all. The window whose leaders lost least so far, by the same sums, says whom to follow. All of this
is computed from what the running leader releases, so it costs no privacy
(`proofs/correlated_noise.md#window-leader`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.correlated.decoding import DecodingState
from hedgerow.algorithms.correlated.running_leader import (
    Leader,
    LeadingServer,
    NoisyFiltered,
    RunningLeader,
)
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.layout import Matrix, Vector, WholeVector
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting


@dataclass(frozen=True)
class WindowsState(DecodingState):
    """The decoder, the sums at some earlier exchanges, and how each window has done.

    Row h of `ends` has the sums at the last exchange whose number is a multiple of 2^h, row h of
    `starts` those at the multiple before it. A window reaches back to a row of `starts`. `scores`
    has what the leaders of each window lost so far, by decoded sums, and `picks` these leaders; the
    first of both are those of the whole game.
    """

    starts: Matrix
    ends: Matrix
    scores: Vector
    picks: WholeVector


@dataclass(frozen=True)
class WindowsServer(LeadingServer):
    """Sends the leader of the window whose leaders lost least so far."""

    state: ClassVar[type[Any]] = WindowsState

    def open(self, noise: Noise) -> tuple[Leader, WindowsState]:
        first, decoding = super().open(noise)
        none = np.zeros((0, self.width))
        begun = WindowsState(
            **vars(decoding),
            starts=none,
            ends=none,
            scores=np.zeros(1),
            picks=np.zeros(1, np.int64),
        )
        return first, begun

    def aggregate(
        self, state: WindowsState, uploads: LossSums | NoisyFiltered, noise: Noise
    ) -> tuple[Leader, WindowsState]:
        sums, after = self.decoded(state, uploads, noise)
        lost = -sums if self.gains else sums
        count, starts, ends = after.exchanges, state.starts.copy(), state.ends.copy()
        before = ends[0] if len(ends) else np.zeros(self.width)
        scores = state.scores + (lost - before)[state.picks]
        level = 0
        while count % 2**level == 0:
            if level == len(ends):  # it was the whole game until now
                starts, ends = (
                    np.append(starts, np.zeros((1, self.width)), 0),
                    np.append(ends, lost[None], 0),
                )
                scores = np.append(scores, scores[0])
                break
            starts[level], ends[level] = ends[level], lost
            level += 1
        picks = np.append(lost.argmin(), (lost - starts).argmin(axis=1))
        leader = int(picks[scores.argmin()])
        then = WindowsState(**vars(after), starts=starts, ends=ends, scores=scores, picks=picks)
        return Leader(self.schedule.wait(count), leader), then


@dataclass(frozen=True)
class WindowLeader(RunningLeader):
    """Follow the leader of that window of private running sums which did best so far.

    Use it without a trusted server if you do not know how losses come about, or if the best expert
    may change: it has the releases and the certificate of `RunningLeader`, and follows changes.
    With noise of single clients (`trust="local"`) short windows show little, and `RunningLeader` is
    the better choice. Parameters and guarantee are those of `RunningLeader`. No regret is proven.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Switching(clients=50, experts=5, horizon=400)
    >>> both = {"windows": hr.WindowLeader(), "all": hr.RunningLeader()}
    >>> study = hr.run(game, both, seeds=3)
    >>> study["windows"].regret.mean < study["all"].regret.mean
    True
    """

    def resolve(self, setting: Setting) -> Algorithm:
        built = super().resolve(setting)
        given = {f.name: getattr(built.server, f.name) for f in fields(LeadingServer)}
        return replace(
            built,
            name="window_leader",
            server=WindowsServer(**given),
            claims=replace(built.claims, regret_bound=None),
        )
