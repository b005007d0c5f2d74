"""The roles of tree leader and tree hedge: a server that keeps running sums in a binary tree.

At exchange k one node is released: the sum of the last 2^t batches, where 2^t is the largest power
of two that divides k. Each running sum is put together from at most h nodes, and a batch is in at
most h of them. Padding brings every running sum to h draws of noise. The proofs are in
`proofs/tree_leader.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.correlated.decoding import ServerState
from hedgerow.algorithms.correlated.filters import FilterState
from hedgerow.algorithms.correlated.lattice import LatticeEncoder
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.block import Block, Side
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array, Units, from_units, round_to_lattice, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Context, RunState
from hedgerow.privacy.mechanisms import AdditiveNoise, GaussianNoise

PADDING = "padding"

NodeNoise = GaussianNoise | AdditiveNoise


@dataclass(frozen=True)
class SumReporterState:
    """The charges since the last upload, in lattice units."""

    losses: UnitVector


@dataclass(frozen=True)
class SumReporter:
    """A client that reports while deciders play; public side information is not used."""

    state: ClassVar[type[Any]] = SumReporterState

    numbers: int

    def start(self, noise: Noise) -> SumReporterState:
        return SumReporterState(np.zeros((*noise.batch, self.numbers), np.int64))

    def receive(self, state: SumReporterState, broadcast: Any) -> SumReporterState:
        del broadcast
        return SumReporterState(np.zeros_like(state.losses))

    def play(self, state: SumReporterState, context: Context, noise: Noise) -> Any:
        del state, context, noise
        raise Unsupported("This client reports and does not play: deciders do.")

    def observe(
        self, state: SumReporterState, reports: Array, noise: Noise, side: Side | None = None
    ) -> SumReporterState:
        del noise, side
        return SumReporterState(state.losses + to_units(reports))

    def upload(self, state: SumReporterState, noise: Noise) -> tuple[LossSums, SumReporterState]:
        del noise
        return LossSums(state.losses), state


@dataclass(frozen=True)
class Ahead:
    """What the exchanges of a block lead to.

    `due` are the rounds before which there is an exchange, and `sums` the noisy running sums after
    it. `losses` are those of each client since the last one, and `server` its state; the next
    exchange is after `remaining` rounds.
    """

    due: Units
    sums: Array
    losses: Units
    server: ServerState
    remaining: int

    def spans(self, rounds: int) -> Units:
        """For each round of the block, how many exchanges of the block were before it."""
        return np.repeat(np.arange(len(self.due) + 1), np.diff([0, *self.due, rounds]))

    def after(self, run: RunState, clients: Any, rounds: int) -> RunState:
        """The run after the block."""
        return RunState(run.round + rounds, clients, run.deciders, self.server, self.remaining)


@dataclass(frozen=True)
class TreeServer(ABC):
    """Keeps the tree of noisy sums and says what follows from the newest running sum.

    `releasing` is the noise of a node; None: no noise. With `scales`, the node of each exchange is
    divided by its own scale before noise is added, and multiplied by it afterwards. Gains are
    counted as negative losses.
    """

    state: ClassVar[type[Any]] = ServerState

    experts: int
    schedule: Schedule
    encoder: LatticeEncoder
    releasing: NodeNoise | None
    draws: int
    padding: bool = True
    gains: bool = False
    scales: tuple[float, ...] = ()

    @abstractmethod
    def say(self, sums: Array, wait: int) -> Any:
        """Return the broadcast for these noisy running sums; the next is due after `wait`."""

    @cached_property
    def decoder(self) -> Any:
        """The stream from noisy nodes to running sums."""
        return self.encoder.factorisation.decoder

    def open(self, noise: Noise) -> tuple[Any, ServerState]:
        shape = (self.experts,)
        state = ServerState(0, self.encoder.start(shape).memory, self.decoder.start(shape).memory)
        return self.say(self._padded(np.zeros(shape), 0, noise), self.schedule.wait(0)), state

    def aggregate(
        self, state: ServerState, uploads: LossSums, noise: Noise
    ) -> tuple[Any, ServerState]:
        count = state.exchanges
        # one vector of all experts, or one number from each silo
        sums = from_units(np.reshape(uploads.losses, self.experts))
        charges = 0.0 - sums if self.gains else sums
        node, after = self.encoder.step(FilterState(count, state.filtered), charges)
        totals, decoded = self.decoder.step(
            FilterState(count, state.decoded), self._released(node, count, noise)
        )
        wait = self.schedule.wait(count + 1)
        broadcast = self.say(self._padded(totals, count + 1, noise), wait)
        return broadcast, ServerState(count + 1, after.memory, decoded.memory)

    def _released(self, node: Array, count: int, noise: Noise) -> Array:
        if self.releasing is None:
            return node
        if not self.scales:
            return noise.release(self.releasing, node)
        scale = self.scales[count]
        return scale * noise.release(self.releasing, round_to_lattice(node / scale))

    def _padded(self, sums: Array, count: int, noise: Noise) -> Array:
        """Add draws of noise until there are as many as in every other running sum."""
        missing = self.draws - count.bit_count()
        if self.releasing is None or not self.padding or not missing:
            return sums
        scale = self.releasing.scale
        if isinstance(self.releasing, GaussianNoise):  # one draw has the law of several
            return sums + noise.draw(
                "gaussian", PADDING, (self.experts,), scale=sqrt(missing) * scale
            )
        drawn = noise.draw(self.releasing.law, PADDING, (missing, self.experts), scale=scale)
        return sums + drawn.sum(axis=0)

    def ahead(self, run: RunState, block: Block, source: NoiseSource) -> Ahead:
        """Make all exchanges of a block; the clients play, and their states hold their losses."""
        assert run.remaining is not None
        due = self.schedule.due(run.round, run.remaining, block.rounds)
        own = run.clients.losses
        if not len(due):
            left = run.remaining - block.rounds
            return Ahead(due, np.zeros((0, self.experts)), own + block.own_totals, run.server, left)
        running = np.cumsum(block.losses.sum(axis=1), axis=0)
        before = np.vstack([np.zeros(self.experts), running])[due] + from_units(own.sum(axis=0))
        batches = np.diff(before, axis=0, prepend=np.zeros((1, self.experts)))
        sums, server = self.many(run.server, batches, source.server())
        last = int(due[-1])
        losses = to_units(block.losses[last:].sum(axis=0))
        left = self.schedule.wait(server.exchanges) - (block.rounds - last)
        return Ahead(due, sums, losses, server, left)

    def many(self, state: ServerState, batches: Array, noise: Noise) -> tuple[Array, ServerState]:
        """Return the noisy running sums of several exchanges, bit for bit those of `aggregate`.

        Exact sums are differences of running sums, and a noisy one is put together level by level.
        """
        count, levels = state.exchanges, range(len(state.filtered))
        after = np.arange(count + 1, count + len(batches) + 1)
        end, lowest = int(after[-1]), after & -after
        known = np.cumsum(0.0 - batches if self.gains else batches, axis=0)
        running = np.vstack([np.zeros(self.experts), known])  # without what was before
        # a node that began earlier holds the last sums of these levels and of all below
        held = np.cumsum(np.vstack([np.zeros(self.experts), state.filtered]), axis=0)
        level = np.log2(lowest).astype(np.int64)
        first = after - lowest - count
        nodes = running[1:] - np.where(
            (first < 0)[:, None], 0.0 - held[level], running[np.maximum(first, 0)]
        )
        noisy = self._all_released(nodes, count, noise)
        totals = noisy.copy()
        decoded, filtered = np.zeros_like(state.decoded), np.zeros_like(state.filtered)
        for at in levels:
            begun = after >> at << at
            used = ((after >> at & 1) == 1) & (begun < after)
            old, own = used & (begun <= count), used & (begun > count)
            totals[old] += state.decoded[at]
            totals[own] += noisy[begun[own] - count - 1]
            last = end >> at << at
            if end >> at & 1:
                kept = last <= count
                decoded[at] = state.decoded[at] if kept else noisy[last - count - 1]
                filtered[at] = state.filtered[at] if kept else nodes[last - count - 1]
        return self._all_padded(totals, after, noise), ServerState(end, filtered, decoded)

    def _all_released(self, nodes: Array, count: int, noise: Noise) -> Array:
        if self.releasing is None:
            return nodes
        law = "gaussian" if isinstance(self.releasing, GaussianNoise) else self.releasing.law
        shape, scale = (self.experts,), self.releasing.scale
        drawn = noise.draw(law, self.releasing.purpose, shape, rounds=len(nodes), scale=scale)
        if not self.scales:
            return nodes + drawn
        scales = np.array(self.scales[count : count + len(nodes)])[:, None]
        return scales * (round_to_lattice(nodes / scales) + drawn)

    def _all_padded(self, sums: Array, after: Units, noise: Noise) -> Array:
        if self.releasing is None or not self.padding:
            return sums
        missing = np.array([self.draws - int(count).bit_count() for count in after])
        scale, width = self.releasing.scale, self.experts
        if isinstance(self.releasing, GaussianNoise):
            short = missing > 0
            drawn = noise.draw("gaussian", PADDING, (width,), rounds=int(short.sum()))
            sums[short] += np.array([sqrt(m) * scale for m in missing[short]])[:, None] * drawn
            return sums
        law = self.releasing.law
        for size in range(1, self.draws + 1):
            short = missing == size
            many = int(short.sum())
            drawn = noise.draw(law, PADDING, (size, width), rounds=many, scale=scale)
            sums[short] += drawn.sum(axis=1)
        return sums
