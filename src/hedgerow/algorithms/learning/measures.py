"""Measures of training: how many gradients are shortened, and what contradicts a declared constant.

They look at secret records, as all measures do, and are for simulations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from hedgerow.core.batch import single
from hedgerow.core.block import Block
from hedgerow.core.domain import length
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.measure import Measure
from hedgerow.core.model import Model
from hedgerow.core.transcript import Plays

SLACK = 1e-3  # relative: what the rounding errors of gradients may add
EVERY = 8  # rounds from one look at the declared constants to the next


def _points(plays: np.ndarray | Plays) -> Array:
    if not isinstance(plays, Plays):
        raise Unsupported("Gradients are measured at points, but this algorithm plays experts.")
    return plays.dense() if len(plays.values) != plays.rounds else plays.values


class ShortenedExamples(Measure):
    """How many gradients of single examples at the played points are longer than the clip."""

    name: ClassVar[str] = "clipped"
    meaning: ClassVar[str] = "share of gradients at the played points that are longer than the clip"
    figure: ClassVar[Literal["total", "mean", "last"]] = "mean"

    def __init__(self, family: Family, clip: float) -> None:
        super().__init__()
        self.family, self.clip = family, clip

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        family, size = single(self.family)
        examples = block.losses.reshape(*block.losses.shape[:2], size, -1)
        sizes = length(family.gradient(examples, _points(plays)[:, :, None]))
        return (sizes > self.clip).mean(axis=(1, 2))


class NotFinite(Measure):
    """How many losses or gradients of examples are not finite; such gradients count as zero.

    Clients count them while they train, at the released model.
    """

    name: ClassVar[str] = "not finite"
    meaning: ClassVar[str] = (
        "number of losses or gradients that are not finite; such gradients count as zero"
    )
    counts: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.counted, self.seen = 0, 0

    def states(self, clients: Sequence[Any]) -> None:
        self.seen = sum(int(np.sum(state.odd)) for state in clients)

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        found = np.zeros(block.rounds)
        found[-1], self.counted = self.seen - self.counted, self.seen
        return found

    def note(self, value: float) -> str:
        if not value:
            return ""
        return (
            f"{value:,.0f} losses or gradients are not finite, and such gradients count as zero. "
            "Take smaller steps, or check the loss function"
        )


class Contradicted(Measure):
    """How many gradients contradict the constants that a model declares.

    Gradients of the same example at the released models of two rounds are compared. They contradict
    a declared smoothness L if they differ by more than L times the distance of the models, a
    declared bound if they are longer, and convexity if they fall along the way.

    Parameters
    ----------
    model
        The model with its declared constants.
    average
        The share that the played average keeps; None if released models are played.
    """

    name: ClassVar[str] = "contradicted"
    meaning: ClassVar[str] = (
        "number of gradients, in every 8th round, that contradict the declared constants of the "
        "model: the certificate is then void"
    )
    counts: ClassVar[bool] = True

    def __init__(self, model: Model, average: float | None = None) -> None:
        super().__init__()
        self.model, self.average = model, average
        self.seen, self.last = 0, np.zeros((2, model.weights))  # plays of the last two rounds

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        self.seen = first_round
        super().rounds(first_round, block, plays)

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        points, found = _points(plays)[:, 0], np.zeros(block.rounds)
        for at in range((1 - self.seen) % EVERY, block.rounds, EVERY):
            rows = [points[at - k] if at >= k else self.last[at - k] for k in (2, 1, 0)]
            there, here = self._released(rows, self.seen + at)
            examples = block.losses[at].reshape(-1, self.model.record_width(0))
            found[at] = self.count(examples, here, there)
        self.last = np.concatenate([self.last, points[-2:]])[-2:]
        return found

    def _released(self, plays: Sequence[Array], number: int) -> tuple[Array, Array]:
        """The released models of a round and of the one before it, from the plays of three."""
        if self.average is None:
            return plays[1], plays[2]
        keep = self.average
        sums = [play * (1 - keep ** (number - 1 + k)) for k, play in enumerate(plays)]
        return tuple((new - keep * old) / (1 - keep) for old, new in pairwise(sums))  # pyright: ignore[reportReturnType]

    def count(self, examples: Array, here: Array, there: Array) -> int:
        """Count the contradictions; `there` is the model of a neighbouring round."""
        model, move = self.model, there - here
        first, second = (model.gradient(examples, point) for point in (here, there))
        turn, distance = second - first, float(length(move))
        size = np.maximum(length(first), length(second))
        wrong = np.zeros(len(examples), bool)
        if model.smooth is not None:
            wrong |= length(turn) > model.smooth * distance * (1 + SLACK) + SLACK * 1e-2 * size
        if model.steepest is not None:
            wrong |= size > model.steepest * (1 + SLACK)
        if model.convex:
            wrong |= turn @ move < -SLACK * distance * size
        return int(wrong.sum())

    def note(self, value: float) -> str:
        if not value:
            return ""
        return (
            f"{value:,.0f} gradients contradict the declared constants of the model "
            f"(every {EVERY}th round is checked). The certificate is void; use steps='start'"
        )
