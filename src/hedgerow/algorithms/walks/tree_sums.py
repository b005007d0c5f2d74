"""Running sums that a trusted server keeps in a binary tree: what tree leader and tree hedge share.

At exchange k one node is released: the sum of the last 2^t batches, where 2^t is the largest power
of two that divides k. Each running sum is put together from at most h nodes, and a batch is in at
most h of them. Padding brings every running sum to h draws of noise. The proofs are in
`proofs/tree_leader.md`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, sqrt
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.correlated.decoding import ServerState
from hedgerow.algorithms.correlated.factorisation import UNIT
from hedgerow.algorithms.correlated.filters import FilterState
from hedgerow.algorithms.correlated.lattice import LatticeEncoder
from hedgerow.algorithms.correlated.tree import Tree
from hedgerow.algorithms.shared.totals import LossSums, check_interval
from hedgerow.core.block import Block, Side
from hedgerow.core.certificate import (
    OTHER_CLIENTS,
    Assumption,
    Certificate,
    Channel,
    Composition,
    Event,
    Person,
    PrivacyCurve,
    Proof,
    Unit,
    not_private,
    trusted_server,
)
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import Array, Units, from_units, round_to_lattice, to_units
from hedgerow.core.losses import Gains
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Context, RunState
from hedgerow.core.record import Record, of_own_expert
from hedgerow.core.rounding import root_up, round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import expect, positive
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.mechanisms import AdditiveNoise, GaussianNoise

PROOF = "tree_leader.md"
PADDING = "padding"
STEP = 2.0**-20

Reports = Literal["each", "silo"]
Sensitivity = float | tuple[float, ...]
NodeNoise = GaussianNoise | AdditiveNoise


@dataclass(frozen=True)
class ReporterState:
    """The charges since the last upload, in lattice units."""

    losses: Units


@dataclass(frozen=True)
class Reporter:
    """A client that reports while deciders play; public side information is not used."""

    state: ClassVar[type[Any]] = ReporterState

    numbers: int

    def start(self, noise: Noise) -> ReporterState:
        return ReporterState(np.zeros((*noise.batch, self.numbers), np.int64))

    def receive(self, state: ReporterState, broadcast: Any) -> ReporterState:
        del broadcast
        return ReporterState(np.zeros_like(state.losses))

    def play(self, state: ReporterState, context: Context, noise: Noise) -> Any:
        del state, context, noise
        raise Unsupported("This client reports and does not play: deciders do.")

    def observe(
        self, state: ReporterState, reports: Array, noise: Noise, side: Side | None = None
    ) -> ReporterState:
        del noise, side
        return ReporterState(state.losses + to_units(reports))

    def upload(self, state: ReporterState, noise: Noise) -> tuple[LossSums, ReporterState]:
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
    every: int
    encoder: LatticeEncoder
    releasing: NodeNoise | None
    draws: int
    padding: bool = True
    gains: bool = False
    scales: tuple[float, ...] = ()

    @abstractmethod
    def say(self, sums: Array) -> Any:
        """Return the broadcast that follows from noisy running sums."""

    @cached_property
    def decoder(self) -> Any:
        """The stream from noisy nodes to running sums."""
        return self.encoder.factorisation.decoder

    def open(self, noise: Noise) -> tuple[Any, ServerState]:
        shape = (self.experts,)
        state = ServerState(0, self.encoder.start(shape).memory, self.decoder.start(shape).memory)
        return self.say(self._padded(np.zeros(shape), 0, noise)), state

    def aggregate(
        self, state: ServerState, uploads: LossSums, noise: Noise
    ) -> tuple[Any, ServerState]:
        count = state.exchanges
        # one vector of all experts, or one number from each silo
        sums, most = from_units(np.reshape(uploads.losses, self.experts)), self.encoder.largest
        # honest sums are in range; others must not end the game: that would show a sum
        charges = np.clip(0.0 - sums if self.gains else sums, -most, most)
        node, after = self.encoder.step(FilterState(count, state.filtered), charges)
        totals, decoded = self.decoder.step(
            FilterState(count, state.decoded), self._released(node, count, noise)
        )
        broadcast = self.say(self._padded(totals, count + 1, noise))
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
        due = np.arange(run.remaining, block.rounds, self.every)
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
        return Ahead(due, sums, losses, server, self.every - (block.rounds - last))

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


@dataclass(frozen=True)
class Game:
    """What the tree needs to know about a game: sizes, ranges, and how far one unit moves it."""

    setting: Setting
    every: int
    reports: Reports
    sensitivity: Sensitivity | None = None

    def __post_init__(self) -> None:
        setting = self.setting
        check_interval(self.every, setting)
        if self.silo and (setting.deciders is None or setting.clients != setting.experts):
            raise Unsupported(
                "reports='silo' needs separate deciders and one client for each expert, got "
                f"{setting}."
            )
        if isinstance(self.sensitivity, tuple):
            rule = f"to have one number for each of {setting.rounds} rounds"
            length = len(self.sensitivity)
            expect(length == setting.rounds, "the length of sensitivity", length, rule)

    @property
    def silo(self) -> bool:
        """Whether each client reports its own expert only."""
        return self.reports == "silo"

    @property
    def clients(self) -> int:
        """How many vectors a round adds up: that of every client, or one from all silos."""
        return 1 if self.silo else self.setting.clients

    @property
    def batches(self) -> int:
        return -(-self.setting.rounds // self.every)

    @cached_property
    def tree(self) -> Tree:
        """The tree of all exchanges: one before each batch but the first."""
        return Tree(max(1, self.batches - 1), "naive")

    @property
    def draws(self) -> int:
        """The most nodes that a batch is in, and the draws of noise in a padded sum."""
        return self.tree.rounds.bit_length()

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """The smallest and the largest charge of each expert in one round."""
        width, family = self.setting.experts, self.setting.family
        if not isinstance(family, Gains):
            return np.zeros(width), np.ones(width)
        low, high = family.ranges(width)
        return 0.0 - high, 0.0 - low

    @property
    def span(self) -> float:
        """The largest minus the smallest charge of a round; above 0 also for constant gains."""
        return max(STEP, float(self.ranges[1].max() - self.ranges[0].min()))

    @property
    def encoder(self) -> LatticeEncoder:
        largest = max(1, ceil(float(np.abs(self.ranges).max()) / STEP)) * STEP  # on the lattice
        return LatticeEncoder(self.tree, self.setting.experts, largest * self.clients * self.every)

    def change(self, norm: Literal["l1", "l2"]) -> float:
        """How far one record moves the vector of a round, rounded upward."""
        lengths = [
            max(Fraction(STEP), Fraction(high) - Fraction(low))
            for low, high in zip(*(side.tolist() for side in self.ranges), strict=True)
        ]
        if self.silo:
            return round_up(max(lengths))
        if norm == "l1":
            return round_up(sum(lengths, Fraction(0)))
        return root_up(sum((length**2 for length in lengths), Fraction(0)))

    @property
    def diameter(self) -> float:
        """The largest distance of two sums of a batch."""
        low, high = self.ranges
        return self.clients * self.every * float(np.sqrt(np.square(high - low).sum()))

    def own_scales(self) -> tuple[float, ...]:
        """The largest move in each node, where it differs by round; otherwise nothing."""
        if not isinstance(self.sensitivity, tuple):
            return ()
        by_batch = self._by_batch()
        ends = range(1, self.tree.rounds + 1)
        return tuple(float(by_batch[end - (end & -end) : end].max()) for end in ends)

    def _by_batch(self) -> Array:
        """The largest declared move of a round in each batch, after records were rounded."""
        starts = np.arange(0, self.setting.rounds, self.every)
        declared = np.broadcast_to(np.asarray(self.sensitivity, float), self.setting.rounds)
        rounding = STEP * self.clients * root_up(Fraction(self.setting.experts))
        return np.nextafter(np.maximum.reduceat(declared, starts) + rounding, inf)

    def moved(self) -> float:
        """The l2 distance that one unit moves all releases of the game, rounded upward."""
        scales = self.own_scales()
        if not scales:
            whole = self.sensitivity is None
            change = self.change("l2") if whole else float(self._by_batch().max())
            return self.encoder.sensitivity(change)
        by_batch, shares = self._by_batch(), np.zeros(self.batches)
        for end, scale in enumerate(scales, 1):
            first = end - (end & -end)
            shares[first:end] += (by_batch[first:end] / scale) ** 2
        plain = sqrt(float(shares.max())) * (1 + (8 * self.tree.rounds + 64) * UNIT)  # upward
        rounding = STEP * root_up(Fraction(self.setting.experts * self.draws))
        return round_up(Fraction(plain) + Fraction(rounding))

    def certificate(
        self,
        curve: PrivacyCurve,
        noise: NodeNoise | None,
        announced: Mapping[str, Channel],
        composition: Composition,
        **labels: Any,
    ) -> Certificate:
        """The certificate of a trusted server; without noise nothing is protected."""
        channels = {"LossSums.losses": Channel.UPLOADS, **announced}
        if noise is None:
            return not_private("no noise is added", channels, self.setting.family.record)
        found = trusted_server(
            setting=self.setting,
            curve=curve,
            proof=Proof(PROOF, "own-scales" if self.own_scales() else "privacy"),
            channels=channels,
            mechanisms=(noise,),
            composition=composition,
            entered=self.draws,
            **labels,
        )
        unit, adjacency, assumed = self._unit()
        guarantees = tuple(
            replace(
                g,
                unit=unit,
                adjacency=adjacency,
                assumes=g.assumes | assumed if g.protects else g.assumes,
            )
            for g in found.guarantees
        )
        return replace(found, guarantees=guarantees)

    def _unit(self) -> tuple[Unit, str, frozenset[Assumption]]:
        """What is protected: a record, or the part of one person in one round."""
        record, given = self.setting.family.record, self.sensitivity
        if given is None:
            unit = Event(record=of_own_expert(record) if self.silo else record)
            return unit, unit.adjacency(), frozenset()
        most = f"{float(np.max(given)):.6g}"
        if isinstance(given, tuple):
            most = f"a declared number for each round ({most} at most)"
        part = Record(
            f"{record.charge} change",
            "c",
            "",
            f"how one person changes the {record.charges} of all experts in one round",
            record.charge,
            record.bounds,
        )
        person = Person(1, may_span_clients=True, record=part)
        moves = f"moves the {record.charges} of all experts in one round by at most {most}"
        text = f"one person {moves} in the l2 norm; this is not checked"
        return (
            person,
            f"{person.adjacency()}; it {moves} in the l2 norm",
            frozenset({Assumption("DECLARED_SENSITIVITY", text), OTHER_CLIENTS}),
        )


def check_choices(reports: str, sensitivity: Sensitivity | None) -> None:
    """Refuse choices that no game has."""
    expect(reports in get_args(Reports), "reports", reports, f"in {get_args(Reports)}")
    for number in sensitivity if isinstance(sensitivity, tuple) else (sensitivity,):
        if number is not None:
            positive("sensitivity", number)


def budget_of(
    epsilon: float | None, delta: float | None, mu: float | None
) -> tuple[Budget | None, float | None]:
    """The budget and the delta at which to quote it; without a budget (mu = inf) None.

    >>> budget_of(None, None, 0.5)
    (Budget(epsilon=None, delta=None, mu=0.5, rho=None), None)
    """
    if mu == inf and epsilon is None and delta is None:
        return None, None
    return Budget(epsilon=epsilon, delta=delta, mu=mu), delta
