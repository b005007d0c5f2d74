"""The running leader: follow the expert with the smallest private running sum of losses.

The losses since the last exchange are filtered, (C g)_r, and released with independent Gaussian
noise. The server decodes the releases into running sums, whose noise is correlated and small, and
all clients follow the expert with the smallest sum. A loss vector enters all later releases, so it
costs the norm of a column of C. Privacy and regret are proven in
`proofs/correlated_noise.md#running-leader`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, log, sqrt
from operator import attrgetter
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.correlated.decoding import DecodingServer, DecodingState, sums_certificate
from hedgerow.algorithms.correlated.silo_games import silo_games
from hedgerow.algorithms.shared.noisy_reports import Trust, check_honest, gaussian_noise
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import LossSums, check_interval, sums_of_losses
from hedgerow.core.block import Side
from hedgerow.core.certificate import Certificate, Channel, Proof
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array, from_units, to_units
from hedgerow.core.layout import Matrix, UnitVector, Vector, Whole
from hedgerow.core.limits import (
    ANY_CLOSING,
    WAIT_ONLY,
    Between,
    Broadcasts,
    Planned,
    Range,
    Uploads,
)
from hedgerow.core.losses import Gains, Linear, ranges
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protecting import with_own_pattern
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Context, Shortcuts, SpecTraits
from hedgerow.core.record import of_own_expert
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.rounding import root_up
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Unit
from hedgerow.core.validate import at_least, check_budget, gaussian_delta, one_of
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.kinds import Kind, check_kind, factorise
from hedgerow.running_sums.lattice import LatticeEncoder, memory_of_clients

PROOF = "correlated_noise.md"
STEP = 2.0**-20  # of the lattice
Reports = Literal["each", "silo"]
ANNOUNCED = {"Leader.rounds": Channel.TIMING, "Leader.expert": Channel.BROADCASTS}


@dataclass(frozen=True)
class Leader(Broadcast):
    """The expert to follow."""

    expert: int


@dataclass(frozen=True)
class NoisyFiltered(Upload):
    """The filtered losses of every expert at one client, with noise."""

    losses: Vector


@dataclass(frozen=True)
class FilteringState:
    """The expert to follow, the losses since the last upload, and the filter: uploads, memory."""

    expert: Whole
    losses: UnitVector
    uploads: Whole
    memory: Matrix


@dataclass(frozen=True)
class FilteringClient:
    """Plays the leader and adds up losses.

    If there is an encoder, the sums are filtered and get noise before they leave the client.
    """

    state: ClassVar[type[Any]] = FilteringState

    experts: int
    encoder: LatticeEncoder | None = None
    reporting: GaussianNoise | None = None

    def start(self, noise: Noise) -> FilteringState:
        zeros, shape = np.zeros(noise.batch, np.int64), (*noise.batch, self.experts)
        memory = memory_of_clients(self.encoder, shape)
        return FilteringState(zeros, np.zeros(shape, np.int64), zeros, memory)

    def receive(self, state: FilteringState, broadcast: Leader) -> FilteringState:
        leader = np.full_like(state.expert, broadcast.expert)
        return FilteringState(leader, np.zeros_like(state.losses), state.uploads, state.memory)

    def play(
        self, state: FilteringState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, FilteringState]:
        return state.expert, state

    def play_many(
        self, state: FilteringState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, FilteringState]:
        return np.broadcast_to(state.expert, (rounds, *state.expert.shape)), state

    def observe(self, state: FilteringState, reports: Array, noise: Noise) -> FilteringState:
        return self.observe_many(state, reports[None], noise)

    def observe_many(self, state: FilteringState, reports: Array, noise: Noise) -> FilteringState:
        losses = state.losses + to_units(reports.sum(axis=0))
        return FilteringState(state.expert, losses, state.uploads, state.memory)

    def upload(
        self, state: FilteringState, noise: Noise
    ) -> tuple[LossSums | NoisyFiltered, FilteringState]:
        if self.encoder is None or self.reporting is None:
            return LossSums(state.losses), state
        filtered, memory = self.encoder.step_clients(
            state.uploads, state.memory, from_units(state.losses)
        )
        then = FilteringState(state.expert, state.losses, np.asarray(state.uploads + 1), memory)
        return NoisyFiltered(noise.release(self.reporting, filtered)), then


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
        return SumReporterState(np.zeros_like(state.losses))

    def play(self, state: SumReporterState, context: Context, noise: Noise) -> Any:
        raise Unsupported("This client reports and does not play: deciders do.")

    def observe(
        self, state: SumReporterState, reports: Array, noise: Noise, side: Side | None = None
    ) -> SumReporterState:
        return SumReporterState(state.losses + to_units(reports))

    def upload(self, state: SumReporterState, noise: Noise) -> tuple[LossSums, SumReporterState]:
        return LossSums(state.losses), state


@dataclass(frozen=True)
class LeadingServer(DecodingServer):
    """Sends the expert with the smallest decoded sum, for gains the largest."""

    gains: bool = False

    def open(self, noise: Noise) -> tuple[Leader, Any]:
        return Leader(self.schedule.wait(0), 0), self.start()

    def aggregate(
        self, state: Any, uploads: LossSums | NoisyFiltered, noise: Noise
    ) -> tuple[Leader, Any]:
        sums, after = self.decoded(state, uploads, noise)
        leader = int(np.argmax(sums) if self.gains else np.argmin(sums))
        return Leader(self.schedule.wait(after.exchanges), leader), after

    def decoded(
        self, state: DecodingState, uploads: LossSums | NoisyFiltered, noise: Noise
    ) -> tuple[Array, DecodingState]:
        """Return the decoded sums of all experts after one more exchange, and the decoder."""
        given = np.asarray(uploads.losses, np.float64)
        if isinstance(uploads, LossSums):
            given = from_units(np.asarray(uploads.losses, np.int64))
        given = np.reshape(given, self.width)  # of all experts, or a number from each silo
        return self.running_sums(state, given, noise)


@dataclass(frozen=True)
class RunningLeader(AlgorithmSpec):
    r"""Follow the expert with the smallest private running sum of losses.

    Every `every` rounds the new losses are filtered and released with Gaussian noise. The decoded
    sums have correlated noise, whose size grows with ln(T) instead of sqrt(T). Expert 0 is played
    until the first exchange.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in (0, 1). Default 1e-6: Gaussian noise needs one.
    trust
        "central" (default): the server receives exact sums, filters them and adds the noise.
        "distributed": every client filters its losses and adds a share of the noise, and the server
        sees only the sum of all uploads. "local": every client
        filters its losses and adds all the noise that protects it.
    every
        Rounds between two exchanges: from 1 (default) to the horizon.
    factorisation
        Which noise: the name of a factorisation (`factorise`), or one for as many rounds as there
        are exchanges. "blt" (default) keeps a few buffers and is close to the best; "root" and
        "dense" remember everything.
    reports
        "each" (default): every client reports all experts. "silo": client i reports the number of
        expert i, and deciders play; the server must be trusted.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. Default:
        True; without them nothing is known in the first `every` rounds.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".

    Guarantee
    ---------
    One loss vector of one client in one round is protected with (epsilon, delta), although it
    enters all later releases. "central": from the public and from other clients, even if all of
    them collude; the server is trusted. "distributed": from every observer, the server included, if
    only the sum of the uploads is visible and `honest` clients keep their shares secret. "local":
    from every observer, even if all other clients collude. Proof:
    `proofs/correlated_noise.md#running-leader`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=1024)
    >>> for kind in ("independent", "tree", "blt"):
    ...     built = hr.RunningLeader(factorisation=kind).build(setting)
    ...     print(kind, round(built.parameters["deviation"]))
    independent 1352
    tree 313
    blt 138

    References
    ----------
    Denisov et al. 2022; Dvijotham et al. 2024; Kalai and Vempala 2005.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"distributed": {"trust": "distributed"}, "local": {"trust": "local"}},
        meanings={
            "reports": "each client about all experts, or a silo about its own",
            "factorisation": "how the noise of the running sums is correlated",
            "deviation": "largest standard deviation of the noise of a running sum",
            "honest": "number of clients whose shares of noise are enough",
            **MEANINGS,
        },
        families=(Linear, Gains),
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    trust: Trust = "central"
    every: int = 1
    factorisation: Kind | Factorisation = "blt"
    reports: Reports = "each"
    early: bool = True
    honest: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        gaussian_delta(self.delta)
        one_of(self, trust=get_args(Trust), reports=get_args(Reports))
        check_honest(self.trust, self.honest)
        silo = self.reports == "silo"
        if self.trust != "central" and silo:
            raise InvalidValue(
                f"Expected trust={self.trust!r} to be 'central' with reports='silo': `WalkLeader` "
                "trusts no server."
            )
        check_kind(self.factorisation)
        at_least("every", self.every, 1)

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        return with_own_pattern(self, unit, setting)

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        check_honest(self.trust, self.honest, setting)
        self._check(setting)
        experts, central, silo = setting.experts, self.trust == "central", self.reports == "silo"
        playing, (low, high) = setting.deciders is None, ranges(setting.family, experts)
        schedule = Schedule.of(self.every, self.early)
        exchanges = schedule.count(setting.rounds) + 1  # one more: after the last round
        factors = factorise(self.factorisation, exchanges)
        together = setting.clients if central and not silo else 1
        most = max(1, ceil(float(max(np.abs(low).max(), np.abs(high).max())) / STEP)) * STEP
        largest = most * (self.every * together)
        encoder = LatticeEncoder(factors, experts, largest, rounds=exchanges)
        # one loss vector moves one sum by at most sqrt(d); the sensitivity is that of all releases
        # together, so the curve of the mechanism is that of the whole game
        pattern = self.pattern(setting, self.every)
        moved = encoder.sensitivity(change(low, high, silo), *pattern)
        budget = Budget(self.epsilon, self.delta)
        mechanism = gaussian_noise(
            self.trust, "running sums", budget, moved, setting.clients, self.honest
        )
        noise_on_sums = mechanism.scale * (1.0 if central else sqrt(setting.clients))
        client: Any = FilteringClient(experts)
        server = LeadingServer(experts, schedule, factors, gains=isinstance(setting.family, Gains))
        if central:
            server = replace(server, encoder=encoder, releasing=mechanism)
        else:
            client = replace(client, encoder=encoder, reporting=mechanism)
        decider = None if playing else client
        if not playing:
            client = SumReporter(1 if silo else experts)
        errors = noise_on_sums * factors.error_by_round(exchanges)
        off = (1 if central else setting.clients) * encoder.rounding() / (2 * sqrt(experts))
        span = max(STEP, float(high.max() - low.min()))
        off *= factors.errors(exchanges).max / span
        bound = span * regret_bound(setting, schedule, errors / span, off)
        return Algorithm(
            name="running_leader",
            setting=setting,
            client=client,
            server=server,
            decider=decider,
            certificate=self._certificate(setting, mechanism),
            uploads=Uploads(
                LossSums if central else NoisyFiltered,
                sums_of_losses(setting, 1 if silo else experts)
                if central
                else {"losses": Range.noisy(experts)},
                combine="each" if silo else "sum",
                closing=ANY_CLOSING if central and not silo and pattern[0] == 1 else WAIT_ONLY,
            ),
            broadcasts=Broadcasts(
                Leader, {"rounds": Planned(schedule), "expert": Between(0, experts - 1)}
            ),
            supports=frozenset()
            if playing
            else frozenset({Feature.SIDE_INFORMATION, Feature.SOME_REPORT}),
            shortcuts=Shortcuts(common_play=attrgetter("expert") if central and playing else None),
            claims=Claims(
                regret_bound=RegretBound(bound, "oblivious", Proof(PROOF, "running-leader"))
                if playing
                else None
            ),
            parameters={"deviation": float(errors.max()), **schedule.shown(setting)},
        )

    def _check(self, setting: Setting) -> None:
        """Refuse a game of deciders that does not fit the reports or the trust."""
        if self.reports == "silo" and (
            setting.deciders is None or setting.clients != setting.experts
        ):
            raise Unsupported(
                "reports='silo' needs separate deciders and one client for each expert, got "
                f"{setting}."
            )
        if setting.deciders is not None and self.trust != "central":
            raise Unsupported(
                f"running_leader with trust={self.trust!r} lets the clients play, not deciders. "
                "Use trust='central', or walk_leader."
            )

    def _certificate(self, setting: Setting, mechanism: GaussianNoise) -> Certificate:
        central = self.trust == "central"
        found = sums_certificate(
            setting=setting,
            mechanism=mechanism,
            central=central,
            delta=self.delta,
            upload="LossSums.losses" if central else "NoisyFiltered.losses",
            announced=ANNOUNCED,
            proof=Proof(PROOF, "running-leader"),
        )
        if self.reports == "each":
            return found
        unit = Event(record=of_own_expert(setting.family.record))
        own = (replace(g, unit=unit, adjacency=unit.adjacency()) for g in found.guarantees)
        return replace(found, guarantees=tuple(own))

    def games(self) -> Games | None:
        return silo_games() if self.reports == "silo" else None


def change(low: Array, high: Array, silo: bool) -> float:
    """How far one record moves the vector of a round (l2 norm), rounded upward.

    >>> change(np.zeros(3), np.array([1.0, 2.0, 2.0]), silo=False)
    3.0
    >>> change(np.zeros(3), np.array([1.0, 2.0, 2.0]), silo=True)
    2.0
    """
    lengths = [
        max(Fraction(STEP), Fraction(b) - Fraction(a))
        for a, b in zip(low.tolist(), high.tolist(), strict=True)
    ]
    return root_up(max(lengths) ** 2 if silo else sum((n**2 for n in lengths), Fraction(0)))


def regret_bound(setting: Setting, schedule: Schedule, errors: Array, off: float = 0.0) -> float:
    """Bounds the expected regret per client, for losses fixed in advance.

    `errors` are the standard deviations of the decoded sums after each exchange. `off` bounds how
    far rounding moves a sum.

    >>> setting = Setting(clients=10, experts=100, horizon=10_000)
    >>> round(regret_bound(setting, Schedule(1), np.full(10_000, 300.0)))
    598
    """
    clients, experts, horizon = setting.clients, setting.experts, setting.rounds
    if experts == 1:
        return 0.0
    used = np.asarray(errors[: schedule.count(horizon)], float)  # before later batches
    if not len(used):
        return float(horizon)
    first, *later = schedule.lengths(horizon).tolist()
    batch = clients * np.array([*later[:-1], schedule.wait(len(used))], float)  # the last: whole
    varied = float(np.abs(np.diff(used, prepend=0.0)).sum())
    moved = float((batch * (batch + 2 * off) / (2 * used)).sum())
    return min(float(horizon), first + sqrt(2 * log(experts)) * (varied + moved) / clients)
