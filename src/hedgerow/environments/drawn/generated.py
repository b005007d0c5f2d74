"""Base classes of environments with drawn losses: reproducible from a seed, for any block size.

Losses are drawn in fixed chunks. Each chunk has its own generator, keyed by (seed, chunk number),
so any block can be made from scratch and does not depend on earlier requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, Once, Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units, round_into
from hedgerow.core.setting import Setting

CHUNK_ELEMENTS = 2**17
_PLAN, _CHUNK, _SUMS = 1, 2, 3


def generator(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of one part of an environment; it is independent of all noise."""
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0x656E76, *key)))
    )


@dataclass(frozen=True)
class Stream:
    """The state of a drawn environment: position, plan, and the current chunk."""

    seed: int
    round: int
    plan: Any
    chunk: int = -1
    losses: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Frame(Environment):
    """Base class of environments with linear losses: the number of clients, experts and rounds."""

    clients: int = 10
    experts: int = 100
    horizon: int = 512

    def __post_init__(self) -> None:
        _ = self.setting

    @property
    def setting(self) -> Setting:
        return Setting(self.clients, self.experts, self.horizon)


class _Stated(Once):
    """The traits that a class states.

    The claims "stochastic" and `best_loss` are about how this class draws. A subclass that draws
    differently does not inherit them, even if the subclass uses `super().traits`.
    """

    def make(self, instance: Any) -> Any:
        found = super().make(instance)
        for kind in type(instance).__mro__:
            if vars(kind).get("traits") is self:
                break
            if {"plan", "draw", "block"} & vars(kind).keys():
                found = replace(found, best_loss=None)
            if {"draw", "block"} & vars(kind).keys() and found.adversary == "stochastic":
                found = replace(found, adversary="oblivious")
        return found


@dataclass(frozen=True, kw_only=True)
class Generated(Frame):
    """Base class of environments with drawn losses.

    Subclasses fix a `plan` at the start and `draw` losses for consecutive rounds. The adversary is
    "stochastic" if, given the plan, losses are drawn in every round from one law, independently of
    other rounds and clients (the laws of clients may differ). The class that draws them states this
    in its traits. A subclass that draws differently does not inherit it.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        stated = vars(cls).get("traits")
        if isinstance(stated, Once) and stated.fget is not None:
            cls.traits = _Stated(stated.fget, cls)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def traits(self) -> Traits:
        return Traits(fresh=True)

    def plan(self, rng: np.random.Generator) -> Any:
        """Draw what the whole stream shares, once."""
        return None

    def draw(self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int) -> Array:
        """Return losses in [0, 1] of shape (rounds, clients, experts)."""
        raise NotImplementedError

    @property
    def chunk_rounds(self) -> int:
        """The number of rounds in one call of `draw`.

        Chunk k begins with round k * chunk_rounds; the last chunk may be shorter.
        """
        return max(1, CHUNK_ELEMENTS // (self.clients * self.experts))

    def start(self, seed: int) -> Stream:
        return Stream(seed, 0, self.plan(generator(seed, _PLAN)))

    def block(
        self, state: Stream, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Stream]:
        size = self.chunk_rounds
        at, stop = state.round, state.round + rounds
        chunk, losses = state.chunk, state.losses
        if losses is not None and at // size == (stop - 1) // size == chunk:
            part = losses[at - chunk * size : stop - chunk * size]
            return Block.of(part), Stream(state.seed, stop, state.plan, chunk, losses)
        joined = np.empty((rounds, self.clients, self.experts))
        while at < stop:
            wanted = at // size
            first = wanted * size
            count = min(size, self.horizon - first)
            end = min(first + count, stop)
            target = joined[at - state.round : end - state.round]
            if wanted != chunk or losses is None:
                drawn = self._drawn(state, wanted, first, count)
                whole = len(target) == count
                chunk, losses = wanted, target if whole else np.empty(drawn.shape)
                round_into(drawn, losses)
            if target is not losses:
                target[...] = losses[at - first : end - first]
            at = end
        if stop % size == 0:
            chunk, losses = -1, None  # the chunk is used up
        return Block.of(joined), Stream(state.seed, stop, state.plan, chunk, losses)

    def _drawn(self, state: Stream, chunk: int, first: int, count: int) -> np.ndarray:
        drawn = np.asarray(
            self.draw(generator(state.seed, _CHUNK, chunk), state.plan, first, count)
        )
        expected = (count, self.clients, self.experts)
        if drawn.shape != expected:
            raise InvalidValue(
                f"Expected {type(self).__name__}.draw to return shape {expected}, "
                f"got {drawn.shape}."
            )
        return drawn


@dataclass(frozen=True, kw_only=True)
class Counted(Generated):
    """Base class of environments with losses 0 or 1.

    The sums of many rounds can be drawn directly (`counts`), without drawing a single loss.
    """

    def counts(
        self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int
    ) -> np.ndarray:
        """Return how often each expert loses in these rounds, at all clients together.

        The law must be that of the sum of the losses from `draw`.
        """
        raise NotImplementedError

    def sums(self, state: Stream, rounds: int) -> tuple[Units, Stream]:
        """Draw sums of losses; a different split into spans gives other sums of the same law."""
        counted = self.counts(
            generator(state.seed, _SUMS, state.round), state.plan, state.round, rounds
        )
        return UNITS_PER_LOSS * counted.astype(np.int64), replace(state, round=state.round + rounds)
