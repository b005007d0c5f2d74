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

from hedgerow.algorithms.correlated.decoding import DecodingState
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.block import Block
from hedgerow.core.lattice import (
    Array,
    Units,
    exact_scales,
    from_units,
    round_to_lattice,
    sum_rows,
    to_units,
)
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import RunState
from hedgerow.privacy.mechanisms import AdditiveNoise, GaussianNoise
from hedgerow.running_sums.filters import FilterState
from hedgerow.running_sums.lattice import LatticeEncoder

PADDING = "padding"

NodeNoise = GaussianNoise | AdditiveNoise


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
    server: DecodingState
    remaining: int

    def spans(self, rounds: int) -> Units:
        """For each round of the block, how many exchanges of the block were before it."""
        lengths = np.diff(self.due, prepend=0, append=rounds)
        return np.repeat(np.arange(len(self.due) + 1), lengths)

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

    state: ClassVar[type[Any]] = DecodingState

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

    def open(self, noise: Noise) -> tuple[Any, DecodingState]:
        shape = (self.experts,)
        state = DecodingState(0, self.encoder.start(shape).memory, self.decoder.start(shape).memory)
        return self.say(self._padded(np.zeros(shape), 0, noise), self.schedule.wait(0)), state

    def aggregate(
        self, state: DecodingState, uploads: LossSums, noise: Noise
    ) -> tuple[Any, DecodingState]:
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
        return broadcast, DecodingState(count + 1, after.memory, decoded.memory)

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
        if self._padded_at_once(self.releasing):
            return sums + noise.draw(
                "gaussian", PADDING, (self.experts,), scale=sqrt(missing) * scale
            )
        drawn = noise.draw(self.releasing.drawn, PADDING, (missing, self.experts), scale=scale)
        return sums + drawn.sum(axis=0)

    def _padded_at_once(self, releasing: NodeNoise) -> bool:
        """Whether one draw has the law of several, and is not too wide for secure noise."""
        widest = exact_scales("gaussian", self.experts)[1]
        return isinstance(releasing, GaussianNoise) and sqrt(self.draws) * releasing.scale <= widest

    def ahead(self, run: RunState, block: Block, source: NoiseSource) -> Ahead:
        """Make all exchanges of a block; the clients play, and their states hold their losses."""
        assert run.remaining is not None
        due = self.schedule.due(run.round, run.remaining, block.rounds)
        own = run.clients.losses
        if not len(due):
            left = run.remaining - block.rounds
            return Ahead(due, np.zeros((0, self.experts)), own + block.own_totals, run.server, left)
        rounds, clients = block.losses.shape[:2]
        running, starts = np.empty((rounds + 1, self.experts)), np.arange(rounds) * clients
        running[0] = from_units(own.sum(axis=0))
        rows = block.losses.reshape(-1, self.experts)
        sum_rows(rows, starts, starts + clients, running[1:], running[0])
        sums, server = self.many(run.server, running[due], source.server())
        last = int(due[-1])
        losses = to_units(block.losses[last:].sum(axis=0))
        left = self.schedule.wait(server.exchanges) - (block.rounds - last)
        return Ahead(due, sums, losses, server, left)

    def many(
        self, state: DecodingState, uploaded: Array, noise: Noise
    ) -> tuple[Array, DecodingState]:
        """Return the noisy running sums of several exchanges, bit for bit those of `aggregate`.

        `uploaded` are the exact sums of what these exchanges upload, up to each of them. The sum of
        a node is a difference of two of them. A noisy sum is put together level by level.
        """
        count, levels = state.exchanges, range(len(state.filtered))
        end = count + len(uploaded)
        known = 0.0 - uploaded if self.gains else uploaded
        # a node that began earlier holds the last sums of these levels and of all below
        held = np.cumsum(np.vstack([np.zeros(self.experts), state.filtered]), axis=0)
        nodes = known.copy()
        for at, older in enumerate(held):
            first, step = _own_nodes(count, at)
            before = first - step // 2  # the last exchange that is not in the node
            if before < -1:
                nodes[first : first + 1] += older
            start = first if before >= 0 else first + step
            nodes[start::step] -= known[start - step // 2 : -1 : step][: len(nodes[start::step])]
        noisy = self._all_released(nodes, count, noise)
        totals = noisy.copy()
        decoded, filtered = np.zeros_like(state.decoded), np.zeros_like(state.filtered)
        for at in levels:
            self._add_level(totals, noisy, state, at)
            last = end >> at << at
            if end >> at & 1:
                kept = last <= count
                decoded[at] = state.decoded[at] if kept else noisy[last - count - 1]
                filtered[at] = state.filtered[at] if kept else nodes[last - count - 1]
        padded = self._all_padded(totals, np.arange(count + 1, end + 1), noise)
        return padded, DecodingState(end, filtered, decoded)

    def _add_level(self, totals: Array, noisy: Array, state: DecodingState, at: int) -> None:
        """Add the nodes of one level to the running sums that they are part of.

        A node of length n is part of the n - 1 sums after it, and every second one is used. So
        there are few nodes, or few sums for each: the loop is over what is fewer.
        """
        count, length = state.exchanges, 1 << at
        if count >> at & 1:
            totals[: length - 1 - count % length] += state.decoded[at]
        first, step = _own_nodes(count, at)
        own = noisy[first::step]
        if len(own) < length:
            for start in range(first, len(noisy), step):
                totals[start + 1 : start + length] += noisy[start]
        else:
            for later in range(1, length):
                sums = totals[first + later :: step]
                sums += own[: len(sums)]

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
        missing = self.draws - np.bitwise_count(after).astype(np.int64)
        scale, width = self.releasing.scale, self.experts
        if self._padded_at_once(self.releasing):
            full = np.flatnonzero(missing == 0)  # at most one: of all ones in binary
            drawn = noise.draw("gaussian", PADDING, (width,), rounds=len(sums) - len(full))
            factors = (np.sqrt(missing) * scale)[:, None]
            at = int(full[0]) if len(full) else len(sums)
            sums[:at] += factors[:at] * drawn[:at]
            sums[at + 1 :] += factors[at + 1 :] * drawn[at:]
            return sums
        law = self.releasing.drawn
        for size in range(1, self.draws + 1):
            short = missing == size
            many = int(short.sum())
            drawn = noise.draw(law, PADDING, (size, width), rounds=many, scale=scale)
            sums[short] += drawn.sum(axis=1)
        return sums


def _own_nodes(count: int, at: int) -> tuple[int, int]:
    """Which exchanges after `count` make a node of 2^at batches: the first one, and the step.

    Exchange count + 1 is 0.

    >>> _own_nodes(0, 0), _own_nodes(5, 1)  # exchanges 1, 3, 5, ... and 6, 10, 14, ...
    ((0, 2), (0, 4))
    """
    odd = (count // 2**at + 1) | 1
    return odd * 2**at - count - 1, 2 * 2**at
