"""Measures of training: how many gradients are shortened, and what contradicts a declared constant.

They look at secret records, as all measures do, and are for simulations.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from hedgerow.algorithms.learning.model import Model
from hedgerow.core.batch import Batch
from hedgerow.core.block import Block
from hedgerow.core.domain import length
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.measure import Measure
from hedgerow.core.plays import Plays

SLACK = 1e-3  # relative: what the rounding errors of gradients may add
EVERY = 8  # rounds from one look at the declared constants to the next


def _single(family: Family, records: Array) -> tuple[Family, Array]:
    """The family of one example, and the examples (rounds, clients, size, numbers)."""
    if isinstance(family, Batch):
        return family.of, family.examples(records)
    return family, records[..., None, :]


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
        family, examples = _single(self.family, block.losses)
        sizes = length(family.gradient(examples, _points(plays)[:, :, None]))
        return (sizes > self.clip).mean(axis=(1, 2))


class AtTimes(Measure):
    """Base class: looks at every few rounds only, because gradients are expensive."""

    every: ClassVar[int] = EVERY

    def __init__(self, family: Family, model: Model) -> None:
        super().__init__()
        self.family, self.model, self.seen = family, model, 0

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        self.seen = first_round
        super().rounds(first_round, block, plays)

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        points, found = _points(plays)[:, 0], np.zeros(block.rounds)
        for at in range(-self.seen % self.every, block.rounds, self.every):
            other = points[at + 1] if at + 1 < block.rounds else points[at - 1]
            _, examples = _single(self.family, block.losses[at])
            rows = examples.reshape(-1, examples.shape[-1])
            found[at] = self.count(rows, points[at], other)
        return found

    def count(self, examples: Array, here: Array, there: Array) -> int:
        """Count what is wrong; `there` is the model of a neighbouring round."""
        raise NotImplementedError


class NotFinite(AtTimes):
    """How many gradients are not finite; they count as zero."""

    name: ClassVar[str] = "not finite"
    meaning: ClassVar[str] = (
        "number of gradients, in every 32nd round, that are not finite and count as zero: take "
        "smaller steps, or check the loss function"
    )
    every: ClassVar[int] = 32

    def count(self, examples: Array, here: Array, there: Array) -> int:
        del there
        return int((~np.isfinite(self.model.gradient(examples, here)).all(axis=-1)).sum())


class Contradicted(AtTimes):
    """How many gradients contradict the constants that a model declares.

    Gradients of the same example at two models that are played one after the other are compared.
    They contradict a declared smoothness L if they differ by more than L times the distance of the
    models, a declared bound if they are longer, and convexity if they fall along the way.
    """

    name: ClassVar[str] = "contradicted"
    meaning: ClassVar[str] = (
        "number of gradients, in every 8th round, that contradict the declared constants of the "
        "model: the certificate is then void"
    )

    def count(self, examples: Array, here: Array, there: Array) -> int:
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
