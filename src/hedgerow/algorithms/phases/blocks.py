"""Clients and servers that choose one expert for each block of 1, 2, 4, 8, ... rounds.

The server announces a block, the expert to follow in it, and how many of its first rounds count. At
the end of the block the clients send the sums of their losses in these rounds. The next expert is
chosen from these sums only, so every loss vector enters at most one choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np

from hedgerow.algorithms.shared.following import first_awake
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.block import Block
from hedgerow.core.certificate import Channel
from hedgerow.core.lattice import Array, from_units, to_units
from hedgerow.core.layout import UnitVector, Vector, Whole
from hedgerow.core.limits import Allowed, Between, Planned
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Context, RunState, Trace

ANNOUNCED = {
    "NextBlock.rounds": Channel.TIMING,
    "NextBlock.expert": Channel.BROADCASTS,
    "NextBlock.counted": Channel.BROADCASTS,
}


@dataclass(frozen=True)
class NextBlock(Broadcast):
    """The expert to follow in the next block, and how many of its first rounds count."""

    expert: int
    counted: int


@dataclass(frozen=True)
class Blocks:
    """The public plan: 1, 2, 4, 8, ... rounds."""

    def wait(self, exchange: int) -> int:
        """The rounds of the block that an exchange announces."""
        return 2**exchange


@dataclass(frozen=True)
class NoisySums(Upload):
    """The losses of every expert at one client in the counted rounds of a block, with noise."""

    losses: Vector


@dataclass(frozen=True)
class BlockClientState:
    """The expert to follow, the number of rounds still to count, and the losses counted so far."""

    expert: Whole
    left: Whole
    losses: UnitVector


@dataclass(frozen=True)
class BlockClient:
    """Plays the announced expert and adds up the losses of the counted rounds.

    If that expert sleeps, the next one that is awake is played. If there is a mechanism
    `reporting`, it adds noise to the sums before they leave the client.
    """

    state: ClassVar[type[Any]] = BlockClientState

    experts: int
    reporting: Any = None

    def start(self, noise: Noise) -> BlockClientState:
        zeros = np.zeros(noise.batch, np.int64)
        return BlockClientState(zeros, zeros, np.zeros((*noise.batch, self.experts), np.int64))

    def receive(self, state: BlockClientState, broadcast: NextBlock) -> BlockClientState:
        left = np.full_like(state.left, broadcast.counted)
        return BlockClientState(
            np.full_like(state.expert, broadcast.expert), left, np.zeros_like(state.losses)
        )

    def play(
        self, state: BlockClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, BlockClientState]:
        return first_awake(state.expert, context.awake), state

    def observe(self, state: BlockClientState, reports: Array, noise: Noise) -> BlockClientState:
        counts = np.asarray(state.left > 0, np.int64)
        return replace(
            state,
            left=np.asarray(state.left - counts),
            losses=state.losses + to_units(reports) * counts[..., None],
        )

    def observe_span(
        self, state: BlockClientState, block: Block, first: int, rounds: int
    ) -> BlockClientState:
        """All clients observe `rounds` rounds of a checked block at once, starting at `first`."""
        counted = min(int(state.left[0]), rounds)
        if counted == 0:
            return state
        sums = (
            block.own_totals
            if counted == block.rounds
            else to_units(block.losses[first : first + counted].sum(axis=0))
        )
        return replace(state, left=state.left - counted, losses=state.losses + sums)

    def upload(
        self, state: BlockClientState, noise: Noise
    ) -> tuple[LossSums | NoisySums, BlockClientState]:
        if self.reporting is None:
            return LossSums(state.losses), state
        return NoisySums(noise.release(self.reporting, from_units(state.losses))), state


@dataclass(frozen=True)
class BlockServerState:
    """The number of the current block, from 0; block k has 2^k rounds."""

    block: int


class Counting(Protocol):
    """Draws how many rounds of a block count, without looking at any data."""

    @property
    def allowed(self) -> Allowed: ...

    def draw(self, rounds: int, noise: Noise) -> int: ...

    def log_probability(self, rounds: int, counted: int) -> float: ...


@dataclass(frozen=True)
class WholeBlock:
    """Every round counts."""

    @property
    def allowed(self) -> Allowed:
        return Planned(Blocks())

    def draw(self, rounds: int, noise: Noise) -> int:
        return rounds

    def log_probability(self, rounds: int, counted: int) -> float:
        return 0.0 if counted == rounds else -np.inf


@dataclass(frozen=True)
class BlockServer:
    """Chooses the expert of the next block from the sums of the last block.

    With a mechanism `selection` the choice is private. Without one the sums already have noise, and
    the expert with the smallest sum is chosen.
    """

    state: ClassVar[type[Any]] = BlockServerState

    experts: int
    selection: Any
    counting: Counting

    @property
    def broadcasts(self) -> dict[str, Allowed]:
        """What the server may send."""
        return {
            "rounds": Planned(Blocks()),
            "expert": Between(0, self.experts - 1),
            "counted": self.counting.allowed,
        }

    def open(self, noise: Noise) -> tuple[NextBlock, BlockServerState]:
        return self._announce(0, noise.index(self.experts, "first expert"), noise)

    def aggregate(
        self, state: BlockServerState, uploads: LossSums | NoisySums, noise: Noise
    ) -> tuple[NextBlock, BlockServerState]:
        if self.selection is None:
            expert = int(np.argmin(uploads.losses))
        else:
            expert = noise.release(self.selection, from_units(np.asarray(uploads.losses, np.int64)))
        return self._announce(state.block + 1, expert, noise)

    def _announce(
        self, block: int, expert: int, noise: Noise
    ) -> tuple[NextBlock, BlockServerState]:
        rounds = 2**block
        return NextBlock(rounds, expert, self.counting.draw(rounds, noise)), BlockServerState(block)

    def scores(self, block: int, counted: int, reports: Array) -> Array:
        """The input of a choice: the losses in the counted rounds of a block, over all clients."""
        first = 2**block - 1
        return reports[first : first + counted].sum(axis=(0, 1))

    def log_likelihood(self, broadcasts: list[NextBlock], reports: Array) -> float:
        """Exact log-probability of the broadcasts of a server that chooses privately."""
        result = -np.log(self.experts) + self.counting.log_probability(1, broadcasts[0].counted)
        for block, (sent, then) in enumerate(pairwise(broadcasts)):
            result += self.selection.log_probability(
                self.scores(block, sent.counted, reports), then.expert
            )
            result += self.counting.log_probability(then.rounds or 0, then.counted)
        return float(result)


@dataclass(frozen=True)
class Spans:
    """The fast path: plays all rounds between two exchanges at once.

    It reuses the sums computed when the block was checked.
    """

    client: BlockClient
    server: BlockServer

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        rounds, clients = block.losses.shape[:2]
        plays, at, exchanges = np.empty(rounds, np.int64), 0, 0
        while at < rounds:
            while run.remaining == 0:
                run, exchanges = self._exchange(run, source), exchanges + 1
            assert run.remaining is not None
            length = min(run.remaining, rounds - at)
            plays[at : at + length] = run.clients.expert[0]
            observed = self.client.observe_span(run.clients, block, at, length)
            run = replace(
                run, round=run.round + length, clients=observed, remaining=run.remaining - length
            )
            at += length
        return run, Trace(np.broadcast_to(plays[:, None], (rounds, clients)), exchanges)

    def _exchange(self, run: RunState, source: NoiseSource) -> RunState:
        everyone = source.everyone("client", len(run.clients.expert))
        uploads, clients = self.client.upload(run.clients, everyone)
        broadcast, server = self.server.aggregate(
            run.server, type(uploads)(uploads.losses.sum(axis=0)), source.server()
        )
        return replace(
            run,
            clients=self.client.receive(clients, broadcast),
            server=server,
            remaining=broadcast.rounds,
        )


def exchanges_in(horizon: int) -> int:
    """The number of exchanges: one after each block that ends before the horizon.

    >>> [exchanges_in(horizon) for horizon in (1, 2, 3, 4, 7, 8, 2**14)]
    [0, 1, 1, 2, 2, 3, 14]
    """
    return horizon.bit_length() - 1


def later_blocks(horizon: int) -> list[tuple[int, int]]:
    """For every block but the first: the length of the block before, and the rounds played in it.

    >>> later_blocks(10)
    [(1, 2), (2, 4), (4, 3)]
    """
    return [
        (2**k, min(2 ** (k + 1), horizon - 2 ** (k + 1) + 1)) for k in range(exchanges_in(horizon))
    ]
