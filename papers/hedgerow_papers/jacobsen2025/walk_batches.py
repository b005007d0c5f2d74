"""Walk batches: the walk leader, updated in batches (RW-AdaBatch).

If the leader is far ahead it stays the leader for some rounds, almost surely. So the reports of
these rounds wait and are added all at once. Plays almost never change, and the
public learns less about later records, because plays depend on sums of whole batches only.
`proofs/walk_batches.md` has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.walks.choices import MEANINGS, span
from hedgerow.algorithms.walks.reports import NoisyReport
from hedgerow.algorithms.walks.walk_leader import (
    NoisySums,
    NoisySumsState,
    SummingServer,
    Walk,
    WalkLeader,
    leader,
)
from hedgerow.core.certificate import Assumption, Guarantee, Proof
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Vector
from hedgerow.core.losses import Gains, Linear
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.rounding import root_up
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit
from hedgerow.core.validate import at_least
from hedgerow.privacy.curves.base import QUOTED_DELTA
from hedgerow_papers.jacobsen2025.batch_sizes import size_law
from hedgerow_papers.jacobsen2025.delays import Delays, Rule
from hedgerow_papers.jacobsen2025.mixture import GaussianMixture

PROOF = "walk_batches.md"
NEVER = Delays(experts=1, scale=0.0, drift=1.0, tolerance=1.0)  # one expert never waits
OBLIVIOUS_DATA = Assumption(
    "OBLIVIOUS_DATA",
    "no record depends on earlier plays or broadcasts: all were fixed in advance, or drawn "
    "independently of the noise",
)
ALL_REPORTS = Assumption(
    "ALL_REPORTS", "every report that was due up to the arrival of the protected record was sent"
)


def leads(sums: Array, gains: bool) -> tuple[np.ndarray, Array]:
    """Return the leader of each row and its distance to the second, 0 if there is none.

    >>> leads(np.array([[3.0, 1.0, 2.5], [0.0, 0.0, 4.0]]), gains=True)
    (array([0, 2]), array([0.5, 4. ]))
    """
    rows, lead = np.arange(len(sums)), leader(sums, gains)
    if sums.shape[1] == 1:
        return lead, np.zeros(len(sums))
    best = sums[rows, lead]
    sums[rows, lead] = -np.inf if gains else np.inf
    second = sums.max(axis=1) if gains else sums.min(axis=1)
    sums[rows, lead] = best
    return lead, np.abs(best - second)


@dataclass(frozen=True)
class BatchState(NoisySumsState):
    """The noisy sums, those after the last whole batch, and the rounds until this batch ends."""

    shown: Vector
    left: int


@dataclass(frozen=True)
class BatchingServer(SummingServer):
    """Adds up noisy reports, and shows the sums after each batch."""

    state: ClassVar[type[Any]] = BatchState

    gains: bool = False
    delays: Delays = NEVER

    def open(self, noise: Noise) -> tuple[NoisySums, BatchState]:
        sent, state = super().open(noise)
        return sent, BatchState(state.reported, state.sums, state.sums, 0)

    def add(self, state: Any, uploads: NoisyReport) -> BatchState:
        added = super().add(state, uploads)
        if state.left:
            return BatchState(added.reported, added.sums, state.shown, state.left - 1)
        _, gaps = leads(added.sums[None].copy(), self.gains)
        left = self.delays.at(added.reported, float(gaps[0]))
        return BatchState(added.reported, added.sums, added.sums, left)

    def announce(self, state: Any) -> NoisySums:
        return NoisySums(1, state.shown)


def batches(delays: Delays, before: int, gaps: list[float]) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each batch, given the gaps after each further report.

    `before` is the number of reports before the first gap. The last batch may end after the gaps.

    >>> list(batches(Delays(2, 1.0, 1.0, 0.01), 0, [0.0, 20.0, 1.0, 2.0, 3.0, 4.0]))
    [(0, 1), (1, 9)]
    """
    row = 0
    while row < len(gaps):
        end = row + 1 + delays.at(before + row + 1, gaps[row])
        yield row, end
        row = end


@dataclass(frozen=True)
class BatchWalk(Walk):
    """The fast path: only the ends of batches are looked at one by one."""

    server: BatchingServer

    def follow(
        self, state: Any, sums: Array, plays: np.ndarray, awake: np.ndarray | None
    ) -> BatchState:
        rows, shown, flushed = len(sums), state.shown, None
        row, left = min(state.left, rows), max(0, state.left - rows)
        plays[:row] = leader(shown, self.gains, None if awake is None else awake[:row])
        if row < rows:
            first, (lead, gaps) = row, leads(sums[row:], self.gains)
            for start, end in batches(self.server.delays, state.reported + first, gaps.tolist()):
                flushed, row = first + start, min(rows, first + end)
                left = max(0, first + end - rows)
                plays[flushed:row] = (
                    lead[start]
                    if awake is None
                    else leader(sums[flushed], self.gains, awake[flushed:row])
                )
        shown = shown if flushed is None else sums[flushed].copy()
        return BatchState(state.reported + rows, sums[-1].copy(), shown, left)


@dataclass(frozen=True)
class WalkBatches(WalkLeader):
    r"""Follow the leader of noisy sums, updated in batches (RW-AdaBatch). It needs no horizon.

    After each batch the server computes from the gap between the two best experts how long the
    leader stays ahead, whatever the data are. The next batch lasts as long. Its reports wait and
    are then added up at once. With probability at least 1 - tolerance sqrt(ln(n) / t) the play of
    round t + 1 is that of `WalkLeader` with the same noise.

    Parameters
    ----------
    mu
        The privacy budget in Gaussian DP, > 0. None (default): 1, unless epsilon is given. `inf`:
        no noise and no guarantee, for comparison.
    epsilon, delta
        The budget in (epsilon, delta)-DP instead of mu. Default of delta: 1e-6.
    reports
        "each" (default): every client reports about all experts in every round. "slot": one client
        reports in each round, and the reporter is public. "silo": client i reports about expert i
        only; such a game has one decider.
    trust
        "local" (default): every client adds all the noise that protects it. "distributed": every
        client adds a share, and the server sees only the sum of all reports. Only with
        reports="each".
    tolerance
        How often a play may differ from that of `WalkLeader`: > 0, default 0.01. In T rounds it
        is 2 tolerance sqrt(T ln(n)) times, on average, at most.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".

    Guarantee
    ---------
    As for `WalkLeader`: one record of one client in one round is protected with mu from every
    observer, at all times and for adaptive data (`proofs/walk_batches.md#reports-are-private`). A
    record that arrives late is better protected from the public, if no record depends on earlier
    plays: see `amplified`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> walk, setting = WalkBatches(mu=1.0), hr.Setting(clients=1, experts=25, horizon=None)
    >>> walk.build(setting).certificate.public.curve.delta(1.0)
    0.1269...
    >>> [round(walk.amplified(setting, t).curve.delta(1.0), 4) for t in (1, 100, 10_000)]
    [0.1269, 0.1008, 0.0212]

    References
    ----------
    Jacobsen and Fawaz 2025, Algorithm 1; its law of batch sizes is corrected here.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        meanings={
            **MEANINGS,
            "tolerance": "how often a play may differ from that of walk_leader",
            "late_epsilon_at_most": (
                f"epsilon at delta = {QUOTED_DELTA:g} of a record that arrives in the last round, "
                "for the public, if no record depends on earlier plays, all reports are sent and "
                "noise has the exact real law"
            ),
        },
        anytime=True,
        families=(Linear, Gains),
    )

    rule: ClassVar[Rule] = "reflection"

    sized: bool = field(default=False, init=False, repr=False)  # batches need noise of one size
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1e-12 <= self.tolerance <= 1e12:
            raise InvalidValue(f"Expected tolerance={self.tolerance!r} in [1e-12, 1e12].")

    def delays(self, setting: Setting) -> Delays:
        """Return the delays in this setting."""
        noise, reports = self.noise(setting), setting.clients if self.reports == "each" else 1
        scale = 0.0 if noise is None else noise.scale * sqrt(reports)
        return Delays(setting.experts, scale, reports * span(setting), self.tolerance, self.rule)

    def resolve(self, setting: Setting) -> Algorithm:
        built, delays = super().resolve(setting), self.delays(setting)
        plain: Any = built.server
        server = BatchingServer(plain.experts, plain.silo, setting.family.gains, delays)
        client: Any = built.client
        decider: Any = built.decider
        late = {}
        amplifies = built.certificate.public.protects
        if setting.horizon is not None and amplifies:
            curve = self.amplified(setting, setting.horizon).curve
            late = {"late_epsilon_at_most": curve.stated()[0]}
        return replace(
            built,
            name="walk_batches",
            server=server,
            shortcuts=replace(
                built.shortcuts,
                advance=BatchWalk(client, decider, server, setting.family.gains).advance,
            ),
            claims=replace(
                built.claims, regret_bound=self._longer(setting, built.claims.regret_bound)
            ),
            parameters={**built.parameters, **late},
        )

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        found = super().protecting(unit, setting)
        own = {k: v for k, v in found.parameters.items() if k != "late_epsilon_at_most"}
        return replace(found, parameters=own)  # that is for one record

    def _longer(self, setting: Setting, bound: RegretBound | None) -> RegretBound | None:
        """Add the rounds in which the leader of the last batch is not the leader."""
        if bound is None or setting.horizon is None:
            return None
        rounds, most = setting.horizon, span(setting)
        missed = 2 * self.tolerance * sqrt(rounds * log(setting.experts))
        value = min(most * rounds, bound.value + most * missed)
        return RegretBound(value, bound.covers, Proof(PROOF, "delay"))

    def amplified(self, setting: Setting, arrival: int, known: int = 0) -> Guarantee:
        """Return the guarantee of the public about a record that arrives in this round.

        The public sees plays, and a play depends on sums of whole batches only. So a record in a
        batch of size b costs mu / sqrt(b). Small batches become rare over time: the guarantee is
        computed with a certified bound on the law of b. For the first round it is that of the
        certificate.

        Parameters
        ----------
        setting
            The game.
        arrival
            The round of the record, counted from 1.
        known
            With reports="slot": the most reports in one batch whose noise an attacker knows, such
            as those of clients that collude. Default 0. Otherwise all other clients may collude.

        Examples
        --------
        >>> import hedgerow as hr
        >>> setting = hr.Setting(clients=1, experts=25, horizon=None)
        >>> late = WalkBatches().amplified(setting, arrival=10_000)
        >>> print(late.words())
        public (sees plays, timing): epsilon = 4.424 at delta = 1e-06 (Gaussian, random noise) for
        one loss vector of one client in one round; assumes ALL_REPORTS, IDEAL_REALS,
        NO_CARRY_OVER, OBLIVIOUS_DATA, PUBLIC_PARAMETERS
        """
        at_least("arrival", arrival, 1)
        at_least("known", known, 0)
        algorithm = super().resolve(setting)
        noise, given = self.noise(setting), algorithm.certificate.public
        if noise is None or self.unit is not None:
            raise Unsupported(
                "Only a single record is better protected in a batch: give a finite mu and no "
                f"unit, not mu={self.mu}, unit={self.unit}."
            )
        secret, others = ALL_REPORTS, given.colluding
        if self.reports == "slot":
            text = f"; in each batch the noise of all reports but {known} at most stays secret"
            secret, others = replace(secret, meaning=secret.meaning + text), 0
        return replace(
            given,
            curve=mixture(self.delays(setting), noise.curve.mu, arrival, known),
            proof=Proof(PROOF, "size-law"),
            colluding=others,
            assumes=given.assumes | {OBLIVIOUS_DATA, secret},
        )


@lru_cache(maxsize=256)
def mixture(delays: Delays, mu: float, arrival: int, known: int) -> GaussianMixture:
    """Return the curve of a record in a batch of random size, `known` reports of which are known.

    >>> round(mixture(Delays(25, 5.0, 1.0, 0.01), 1.0, 10_000, 0).delta(1.0), 4)
    0.0212
    """
    unknown = ((max(1, size - known), weight) for size, weight in size_law(delays, arrival))
    parts = ((root_up(Fraction(mu) ** 2 / left), weight) for left, weight in unknown)
    return GaussianMixture(tuple(parts))


@dataclass(frozen=True)
class JacobsenWalkBatches(WalkBatches):
    """RW-AdaBatch with the printed bound behind the delays. `WalkBatches` has longer batches.

    The bound is larger, so batches are smaller. Parameters and guarantee are those of
    `WalkBatches`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=1, experts=25, horizon=None)
    >>> late = [walk().amplified(setting, 10_000) for walk in (JacobsenWalkBatches, WalkBatches)]
    >>> [round(one.curve.delta(1.0), 4) for one in late]
    [0.0272, 0.0212]

    References
    ----------
    Jacobsen and Fawaz 2025, Algorithm 1 and Theorem 4.1.
    """

    rule: ClassVar[Rule] = "published"

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(super().resolve(setting), name="jacobsen2025_walk_batches")
