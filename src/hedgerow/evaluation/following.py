"""Who followed what: how often each expert was followed, by whom at the end, and what it cost.

For points, such as the weights of a combination, the mean weights take the place of the shares. A
client that is absent follows nobody in that round. Of models whose features have names the last
weights are recorded, and of other points nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from hedgerow.core.block import ABSENT, Block
from hedgerow.core.combination import Combination
from hedgerow.core.environment import Environment, numbered
from hedgerow.core.lattice import Array, Units, from_units
from hedgerow.core.losses import Family, common_plays
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Plays, Sink

MOST_COUNTS = 2**22  # of players times experts that are counted one by one
MOST_WEIGHTS = 1000  # of a model whose features have names
NUMBERS = ("share", "last", "paid", "cases", "own_loss")
EXPERTS = ("final", "most", "own_best")


def _nobody() -> Array:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Following:
    """Who followed what, in one game.

    Parameters
    ----------
    share, last
        For each expert the share of all plays, and of the players' last plays; or mean weights.
    paid, cases
        What each player paid, and in how many rounds. Empty if only sums over players were drawn.
    final, most
        The expert that each player followed last, and most often; or that with the largest weight.
        -1: never present.
    best
        The best expert in hindsight; -1 if the family has none.
    own_best, own_loss
        The best expert of each player, and what it lost. Empty if only sums are known.
    """

    share: Array
    last: Array
    paid: Array = field(default_factory=_nobody)
    cases: Array = field(default_factory=_nobody)
    final: Array = field(default_factory=_nobody)
    most: Array = field(default_factory=_nobody)
    own_best: Array = field(default_factory=_nobody)
    own_loss: Array = field(default_factory=_nobody)
    best: int = -1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Following) and all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    def __hash__(self) -> int:
        return hash((self.best, self.share.tobytes()))

    @property
    def found(self) -> tuple[float, float]:
        """The share of all plays, and of the last plays, that are the best expert in hindsight."""
        return float(self.share[self.best]), float(self.last[self.best])


def shares(family: Family) -> bool:
    """Whether plays are experts, or weights of experts."""
    return family.linear or isinstance(family, Combination)


def says_something(environment: Environment) -> bool:
    """Whether plays are experts, their weights, or models whose few features have names."""
    experts = environment.setting.experts
    if shares(environment.family) or experts > MOST_WEIGHTS:
        return shares(environment.family)
    return environment.expert_names != numbered("coordinate", experts)


class Watch(Sink):
    """A sink that counts who follows what."""

    def __init__(self, setting: Setting) -> None:
        self.family, self.players, self.experts = setting.family, setting.players, setting.experts
        self._each = self.players * self.experts <= MOST_COUNTS
        self._counts = np.zeros((self.players if self._each else 1, self.experts))
        self._paid, self._cases = np.zeros(self.players), np.zeros(self.players)
        self._final: Array | None = None  # the last expert of each player, or its last weights
        self._common = False

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        here = block.rounds if block.present is None else block.present.sum(axis=0)
        self._cases += here
        if isinstance(plays, Plays):
            self._points(block, plays)
        else:
            self._choices(block, plays)

    def _points(self, block: Block, plays: Plays) -> None:
        if not shares(self.family):
            self._final = np.array(plays.last)
            return
        values = plays.values if self._each else plays.values.mean(axis=1, keepdims=True)
        self._counts += np.einsum("p,pkd->kd", plays.lengths.astype(float), values)
        self._final = np.array(plays.last)
        if self.family.linear:
            for start, stop, point in plays.pieces():
                sign = -1 if self.family.gains else 1
                self._paid += sign * np.einsum("rkd,kd->k", block.losses[start:stop], point)
        else:
            self._paid += np.nan

    def _choices(self, block: Block, plays: np.ndarray) -> None:
        common = common_plays(plays)
        if common is not None and (common == common[0]).all():
            paid = block.losses[:, :, common[0]].sum(axis=0)
        elif common is not None:
            paid = block.losses[np.arange(len(plays)), :, common].sum(axis=0)
        else:
            one = np.maximum(plays, 0)[..., None]
            paid = np.take_along_axis(block.losses, one, axis=2)[..., 0].sum(axis=0)
        self._paid += -paid if self.family.gains else paid
        if common is not None and block.present is None:
            self._counts += np.bincount(common, minlength=self.experts) * (
                1 if self._each else self.players
            )
            self._final = np.array(plays[-1])
            return
        there = plays != ABSENT if block.present is None else block.present & (plays != ABSENT)
        players = np.broadcast_to(np.arange(self.players), plays.shape)
        row = players[there] if self._each else 0
        flat = row * self.experts + plays[there]
        self._counts += np.bincount(flat, minlength=self._counts.size).reshape(self._counts.shape)
        if self._final is None:
            self._final = np.full(self.players, ABSENT)
        at = len(plays) - 1 - there[::-1].argmax(axis=0)
        newest = np.take_along_axis(plays, at[None], axis=0)[0]
        self._final = np.where(there.any(axis=0), newest, self._final)

    def span(self, first_round: int, rounds: int, play: int, totals: Units) -> None:
        self._counts[0, play] += rounds * self.players
        self._final, self._common = np.full(self.players, play), True

    def found(self, best: int, own: Units | None) -> Following | None:
        """What was counted, if anything; `own` are the losses of each expert at each player."""
        if self._final is None:
            return None
        if not shares(self.family):
            weights = self._final.mean(axis=0)
            return Following(weights, weights)
        counts, final = self._counts.sum(axis=0), self._final
        if final.ndim == 2:
            last, chosen = final.mean(axis=0), final.argmax(axis=1)
        else:
            known = final[final != ABSENT]
            last = np.bincount(known, minlength=self.experts) / max(len(known), 1)
            chosen = final
        share = counts / (counts.sum() or 1.0)
        if self._common:
            return Following(share, last, best=best)
        most = np.where(self._cases > 0, self._counts.argmax(axis=1), ABSENT)
        if not self._each:
            most = np.full(self.players, ABSENT)
        alone = () if own is None else (own.argmin(axis=1), from_units(own.min(axis=1)))
        joint = Following(share, last, self._paid, self._cases, chosen, most, *alone)  # pyright: ignore
        return replace(joint, best=best)


def joined(found: Sequence[Following]) -> Following:
    """The mean over seeds; of experts, that of most seeds."""
    many = {name: np.stack([getattr(one, name) for one in found]) for name in (*NUMBERS, *EXPERTS)}
    joint: dict[str, Any] = {name: many[name].mean(axis=0) for name in NUMBERS}
    joint |= {
        name: np.array([usual(column.tolist()) for column in many[name].T.astype(int)])
        for name in EXPERTS
    }
    return replace(Following(**joint), best=usual([one.best for one in found]))


def usual(values: Sequence[int]) -> int:
    """The most frequent value, the first of several.

    >>> usual([3, 1, 1, 3, 2])
    3
    """
    return max(dict.fromkeys(values), key=list(values).count)
