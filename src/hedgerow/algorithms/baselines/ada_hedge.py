"""AdaHedge: exponential weights whose rate adapts to the losses. Not private."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.baselines.hedge import Weighing
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import (
    AdderState,
    LossSums,
    ManySums,
    Summing,
    SummingState,
    Totals,
    check_interval,
    raw_certificate,
    totals_of_losses,
)
from hedgerow.core.block import Block
from hedgerow.core.certificate import Channel, Proof
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, from_units
from hedgerow.core.layout import Vector
from hedgerow.core.limits import Broadcasts, Numbers, Uploads
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import (
    Algorithm,
    AlgorithmSpec,
    Claims,
    RunState,
    Shortcuts,
    SpecTraits,
    Trace,
)
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least

SHARPEST = 746.0 * UNITS_PER_LOSS  # the largest rate: an expert one unit behind gets weight 0
MOST_GAP = 2.0**62


@dataclass(frozen=True)
class GapTotals(Totals):
    """The totals, and the mixability gaps of all batches so far, summed: one number."""

    gap: Vector


@dataclass(frozen=True)
class AdaptingState(AdderState):
    """What an adder knows, and the gap of the last broadcast."""

    gap: Vector


@dataclass(frozen=True)
class GapState(SummingState):
    """What a summing server knows, and the sum of all mixability gaps."""

    gap: float


@dataclass(frozen=True)
class Adapting(Weighing):
    """A client whose rate is `entropy` divided by the gap."""

    state: ClassVar[type[Any]] = AdaptingState

    entropy: float

    def start(self, noise: Noise) -> AdaptingState:
        zeros = np.zeros((*noise.batch, self.experts), np.int64)
        return AdaptingState(zeros, zeros, np.full((*noise.batch, 1), self.least))

    def receive(self, state: Any, broadcast: Any) -> AdaptingState:
        gap = np.broadcast_to(np.maximum(broadcast.gap, self.least), state.gap.shape)
        return replace(state, **vars(super().receive(state, broadcast)), gap=gap)

    def pace(self, state: AdaptingState) -> Array:
        return self.entropy / state.gap

    @property
    def least(self) -> float:
        """The gap before the first round."""
        return self.entropy / SHARPEST


@dataclass(frozen=True)
class Gaps(Summing):
    """A server that adds up losses and mixability gaps."""

    state: ClassVar[type[Any]] = GapState

    entropy: float

    def open(self, noise: Noise) -> tuple[GapTotals, GapState]:
        opening, state = super().open(noise)
        gap = self.entropy / SHARPEST
        return GapTotals(opening.rounds, opening.losses, np.array([gap])), GapState(
            state.totals, state.exchanges, gap
        )

    def aggregate(self, state: Any, uploads: LossSums, noise: Noise) -> tuple[GapTotals, GapState]:
        sent, after = super().aggregate(state, uploads, noise)
        before, now = (from_units(t - t.min()) for t in (state.totals, after.totals))
        gap = state.gap + self.step(before, now, state.gap)
        return GapTotals(sent.rounds, sent.losses, np.array([gap])), GapState(
            after.totals, after.exchanges, gap
        )

    def step(self, before: Array, now: Array, gap: float) -> float:
        """The mixability gap of one batch, from totals above their least before and after it."""
        rate = self.entropy / gap
        weights = np.exp(-rate * before)
        mass = weights.sum()
        expected = (weights * (now - before)).sum() / mass
        mixed = np.log(mass / np.exp(-rate * now).sum()) / rate
        return max(0.0, float(expected - mixed))


@dataclass(frozen=True)
class ManyGaps:
    """The fast path: the gaps of many exchanges, one after the other."""

    client: Adapting
    server: Gaps

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        walk = _Walk(self.client, self.server, run.server.gap)
        after, played = ManySums(self.client, self.server, walk.follow).advance(run, block, source)
        gap = np.full_like(after.clients.gap, walk.gap)
        clients, server = replace(after.clients, gap=gap), replace(after.server, gap=walk.gap)
        return replace(after, clients=clients, server=server), played


@dataclass
class _Walk:
    """The gap after each exchange of one block; the first totals are those already known."""

    client: Adapting
    server: Gaps
    gap: float
    known: Array | None = None

    def follow(self, totals: Array, spans: np.ndarray, noise: Noise) -> np.ndarray:
        totals -= totals.min(axis=-1, keepdims=True)
        gaps = np.empty(len(totals))
        for row, now in enumerate(totals):
            if self.known is not None:
                self.gap += self.server.step(self.known, now, self.gap)
            gaps[row], self.known = self.gap, now
        self.known = totals[-1].copy()
        return self.client.weighed(totals, spans, noise, self.client.entropy / gaps)


def _largest(schedule: Schedule, rounds: int, entropy: float, gap: float) -> float:
    """The largest gap per client after all batches, from a smallest one (`ada_hedge.md#regret`)."""
    batches = schedule.count(rounds) + 1
    for batch in range(batches):
        length = schedule.wait(batch)
        growth, floor = length**2 * entropy / 8, length * entropy / 8
        if length == schedule.every and gap >= max(length, floor):
            left, square = batches - batch, gap**2
            slowing = log(1 + 2 * growth * (left - 1) / square)
            return sqrt(square + 2 * growth * left + growth**2 / square + growth * slowing / 2)
        gap = max(min(gap, floor) + length, gap + growth / max(gap, floor))
    return gap


@dataclass(frozen=True)
class AdaHedge(AlgorithmSpec):
    r"""Play experts at random with exponential weights whose rate adapts. Not private.

    $p_t(x) \propto \exp(-\eta_t S_t(x) / m)$, where $S_t(x)$ is the loss of expert $x$, summed over
    all $m$ clients up to the last exchange, and $\eta_t = \ln(d) / \Delta_t$. $\Delta_t$ adds up
    what mixing has cost so far. On easy losses it stays small, so the best expert soon has almost
    all weight: what privacy costs is measured against this. No horizon is needed. Nothing is
    protected: clients and server exchange exact losses.

    The bound on the expected regret over T rounds is close to sqrt(N T ln(d)) for large T, and
    holds even if losses react to the plays (`proofs/ada_hedge.md#regret`). With sleeping experts it
    holds against each expert over the rounds in which it is awake. It does not cover delayed
    reports.

    Parameters
    ----------
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon, if there is one.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. Default:
        True; without them nothing is known in the first `every` rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Bernoulli(clients=10, experts=20, horizon=1000)
    >>> study = hr.run(game, {"adapts": hr.AdaHedge(), "fixed": hr.Hedge()}, seeds=5)
    >>> study.regret("adapts").mean < study.regret("fixed").mean / 2
    True

    References
    ----------
    de Rooij, van Erven, Grünwald and Koolen 2014.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(meanings=MEANINGS, anytime=True)

    every: int = 1
    early: bool = True

    def __post_init__(self) -> None:
        at_least("every", self.every, 1)

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        schedule = Schedule.of(self.every, self.early)
        entropy = log(max(setting.experts, 2))
        client = Adapting(setting.experts, entropy)
        server = Gaps(setting.experts, schedule, entropy)
        raw = raw_certificate()
        channels = {
            name.replace("Totals", "GapTotals"): channel for name, channel in raw.channels.items()
        }
        limits = totals_of_losses(schedule, setting.experts)
        bound = None
        if setting.horizon is not None:
            value = 2 * _largest(schedule, setting.rounds, entropy, client.least / setting.clients)
            bound = RegretBound(value, "adaptive", Proof("ada_hedge.md", "regret"))
        return Algorithm(
            name="ada_hedge",
            setting=setting,
            client=client,
            server=server,
            certificate=replace(raw, channels={**channels, "GapTotals.gap": Channel.BROADCASTS}),
            uploads=Uploads(LossSums),
            broadcasts=Broadcasts(GapTotals, {**limits, "gap": Numbers(1, MOST_GAP)}),
            supports=MASKS_AND_DELAYS,
            shortcuts=Shortcuts(ManyGaps(client, server).advance),
            claims=Claims(regret_bound=bound),
            parameters=schedule.shown(setting),
        )
