"""Base of environments whose losses are drawn: reproducible from a seed, the same whatever the block size, streaming.

Losses are drawn in fixed chunks, each from its own generator keyed by (seed, chunk number), so any block can be made from
scratch and nothing depends on what was asked for before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units, round_to_lattice
from hedgerow.core.losses import Family, Linear
from hedgerow.core.setting import Setting

CHUNK_ELEMENTS = 2**17
_PLAN, _CHUNK, _SUMS = 1, 2, 3


def generator(seed: int, *key: int) -> np.random.Generator:
    """The generator of one part of an environment; independent of every noise stream."""
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0x656E76, *key)))
    )


@dataclass(frozen=True)
class Stream:
    """State of a drawn environment: where it is, what was fixed at the start, and the chunk at hand."""

    seed: int
    round: int
    plan: Any
    chunk: int = -1
    losses: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Frame(Environment):
    """What every environment with linear losses of its own making has: how many clients, experts and rounds."""

    clients: int = 10
    experts: int = 100
    horizon: int = 512

    def __post_init__(self) -> None:
        _ = self.setting

    @property
    def setting(self) -> Setting:
        return Setting(self.clients, self.experts, self.horizon)

    @property
    def family(self) -> Family:
        return Linear()


class _Stated(property):
    """The traits that a class states. The claim to be stochastic is about how this class draws, and not about a subclass that draws in
    another way, also where the subclass asks for `super().traits`.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        found = super().__get__(instance, owner)
        if instance is None or found.adversary != "stochastic":
            return found
        for kind in type(instance).__mro__:
            if vars(kind).get("traits") is self:
                break
            if {"draw", "block"} & vars(kind).keys():
                return replace(found, adversary="oblivious")
        return found


@dataclass(frozen=True, kw_only=True)
class Generated(Frame):
    """Subclasses say what is fixed at the start (`plan`) and draw losses for consecutive rounds (`draw`).

    Where, given the plan, losses are drawn anew in every round from one law, independently at every client (their laws may differ), the
    class that draws them says so in its traits, as the adversary "stochastic". A class that draws in another way does not inherit that.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        stated = vars(cls).get("traits")
        if type(stated) is property:
            cls.traits = _Stated(stated.fget, doc=stated.__doc__)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def traits(self) -> Traits:
        return Traits(fresh=True)

    def plan(self, rng: np.random.Generator) -> Any:
        """What the whole stream shares, drawn once."""
        return None

    def draw(self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int) -> Array:
        """Losses in [0, 1] of shape (rounds, clients, experts)."""
        raise NotImplementedError

    @property
    def chunk_rounds(self) -> int:
        """How many rounds `draw` is asked for at a time: chunk k begins with round k * chunk_rounds, the last may be shorter."""
        return max(1, CHUNK_ELEMENTS // (self.clients * self.experts))

    def start(self, seed: int) -> Stream:
        return Stream(seed, 0, self.plan(generator(seed, _PLAN)))

    def block(
        self, state: Stream, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Stream]:
        del past_plays
        size = self.chunk_rounds
        chunk, losses = state.chunk, state.losses
        pieces = []
        at, stop = state.round, state.round + rounds
        while at < stop:
            wanted = at // size
            if wanted != chunk or losses is None:
                first = wanted * size
                count = min(size, self.horizon - first)
                drawn = np.asarray(
                    self.draw(generator(state.seed, _CHUNK, wanted), state.plan, first, count)
                )
                expected = (count, self.clients, self.experts)
                if drawn.shape != expected:
                    raise InvalidValue(
                        f"Expected {type(self).__name__}.draw to return shape {expected}, got {drawn.shape}."
                    )
                chunk, losses = wanted, round_to_lattice(drawn)
            piece = losses[at - wanted * size : stop - wanted * size]
            pieces.append(piece)
            at += len(piece)
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return Block.of(joined), Stream(state.seed, stop, state.plan, chunk, losses)


@dataclass(frozen=True, kw_only=True)
class Counted(Generated):
    """Losses are 0 or 1, so that the sums of many rounds can be drawn directly (`counts`), without drawing a single loss."""

    def counts(
        self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int
    ) -> np.ndarray:
        """How often each expert loses in these rounds, at all clients together: the law of the sum of what `draw` gives."""
        raise NotImplementedError

    def sums(self, state: Stream, rounds: int) -> tuple[Units, Stream]:
        """Other spans of rounds give other sums, of the same law."""
        counted = self.counts(
            generator(state.seed, _SUMS, state.round), state.plan, state.round, rounds
        )
        return UNITS_PER_LOSS * counted.astype(np.int64), replace(state, round=state.round + rounds)
