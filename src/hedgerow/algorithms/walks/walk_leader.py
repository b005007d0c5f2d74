"""The walk leader: follow the best expert by sums of noisy reports (RW-FTPL).

In every round the clients report their records with Gaussian noise, and all follow the expert with
the best noisy sum so far. The noise of the sums is a random walk. It protects the records, and it
keeps the leader from changing often. No horizon is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.walks.choices import MEANINGS, PROOF, ReportModel, WalkSpec, span
from hedgerow.algorithms.walks.reports import (
    NoisyReport,
    Reporter,
    ReporterState,
    add_up,
    noisy_vector,
    noisy_vectors,
    received,
)
from hedgerow.core.block import Block
from hedgerow.core.certificate import Channel, Proof
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Vector
from hedgerow.core.limits import (
    ANY_CLOSING,
    WAIT_ONLY,
    WAIT_OR_DROP,
    Allowed,
    Broadcasts,
    Numbers,
    Planned,
    Uploads,
)
from hedgerow.core.losses import Gains, Linear
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import (
    Algorithm,
    Claims,
    Context,
    RunState,
    Shortcuts,
    SpecTraits,
    Trace,
)
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.privacy.mechanisms import GaussianNoise

START = "start"  # the purpose of the noise before the first report
ANNOUNCED = {"NoisySums.rounds": Channel.TIMING, "NoisySums.sums": Channel.BROADCASTS}


@dataclass(frozen=True)
class NoisySums(Broadcast):
    """The sum of all noisy reports so far, for each expert."""

    sums: Vector

    @property
    def followed(self) -> Array:
        """The numbers of which the best is played."""
        return self.sums


def every_round(numbers: str, setting: Setting, least: float = 1.0) -> dict[str, Allowed]:
    """What a server may send: a number for each expert in the field `numbers`, every round."""
    return {
        "rounds": Planned(Schedule(1)),
        numbers: Numbers.noisy(setting.experts, setting.clients, least),
    }


def leader(sums: Array, gains: bool, awake: np.ndarray | None = None) -> np.ndarray:
    """Return the awake expert with the best sum; ties go to the lowest number.

    >>> leader(np.array([3.0, 1.0, 2.0]), gains=False, awake=np.array([True, False, True]))
    array(2)
    """
    if awake is not None:
        sums = np.where(awake, sums, -np.inf if gains else np.inf)
    return np.asarray(np.argmax(sums, axis=-1) if gains else np.argmin(sums, axis=-1))


@dataclass(frozen=True)
class LeadingClientState(ReporterState):
    """The record to report, and the noisy sums of the last broadcast."""

    sums: Vector


@dataclass(frozen=True)
class LeadingClient(Reporter):
    """A client that reports and follows the best number of the broadcast (`followed`)."""

    state: ClassVar[type[Any]] = LeadingClientState

    gains: bool = False

    def start(self, noise: Noise) -> LeadingClientState:
        own = super().start(noise)
        return LeadingClientState(own.record, own.size, own.reporting, np.zeros_like(own.record))

    def receive(self, state: LeadingClientState, broadcast: Any) -> LeadingClientState:
        return replace(state, sums=np.broadcast_to(broadcast.followed, state.sums.shape))

    def play(
        self, state: LeadingClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, LeadingClientState]:
        return leader(state.sums, self.gains, context.awake), state


@dataclass(frozen=True)
class DeciderState:
    """The noisy sums of the last broadcast."""

    sums: Vector


@dataclass(frozen=True)
class LeadingDecider:
    """A decider that follows the best number of the broadcast (`followed`).

    In a silo it follows only experts that report in this round. Where one client reports in each
    round (a slot), other numbers of reports are refused.
    """

    state: ClassVar[type[Any]] = DeciderState

    experts: int
    gains: bool
    reports: ReportModel

    def start(self, noise: Noise) -> DeciderState:
        return DeciderState(np.zeros((*noise.batch, self.experts)))

    def receive(self, state: DeciderState, broadcast: Any) -> DeciderState:
        return DeciderState(np.broadcast_to(broadcast.followed, state.sums.shape))

    def play(
        self, state: DeciderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, DeciderState]:
        shown = None if context.side is None else context.side.reporting
        return leader(state.sums, self.gains, self.heard(shown)), state

    def heard(self, reporting: np.ndarray | None) -> np.ndarray | None:
        """Return the experts that may be followed: in a silo those that report, if any does."""
        if self.reports == "slot" and reporting is not None:
            counts = np.ravel(reporting.sum(axis=-1))
            if (counts != 1).any():
                raise InvalidValue(
                    f"Expected one report in each round (reports='slot'), "
                    f"got {int(counts[counts != 1][0])}. Mark one client in `reporting`."
                )
        if reporting is None or self.reports != "silo":
            return None
        return reporting | ~reporting.any(axis=-1, keepdims=True)


@dataclass(frozen=True)
class NoisySumsState:
    """The number of rounds that were reported, and the noisy sums.

    Before the first report the sums are standard normal. They get the scale of the first reports.
    """

    reported: int
    sums: Vector


@dataclass(frozen=True)
class SummingServer:
    """Adds up noisy reports."""

    state: ClassVar[type[Any]] = NoisySumsState

    experts: int
    silo: bool = False

    def open(self, noise: Noise) -> tuple[NoisySums, NoisySumsState]:
        sums = noise.draw("gaussian", START, (self.experts,), scale=1.0)
        return NoisySums(1, sums), NoisySumsState(0, sums)

    def aggregate(
        self, state: NoisySumsState, uploads: NoisyReport, noise: Noise
    ) -> tuple[NoisySums, NoisySumsState]:
        after = self.add(state, uploads)
        return self.announce(after), after

    def add(self, state: NoisySumsState, uploads: NoisyReport) -> NoisySumsState:
        """Return the state with the reports of one more round."""
        values, variance = noisy_vector(uploads, self.experts, self.silo)
        before = state.sums if state.reported else np.sqrt(variance) * state.sums
        return NoisySumsState(state.reported + 1, before + values)

    def announce(self, state: Any) -> NoisySums:
        """Return what is broadcast in this state."""
        return NoisySums(1, state.sums)


@dataclass(frozen=True)
class Walk:
    """The fast path: noise, sums and leaders of many rounds at once."""

    client: Reporter
    decider: LeadingDecider | None
    server: SummingServer
    gains: bool

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        rounds, silo = block.rounds, self.server.silo
        heard = None if self.decider is None else self.decider.heard(block.reporting)
        plays, exchanges, at = np.empty(rounds, np.int64), 0, 0
        while at < rounds and (at == 0 or run.server.reported == 0):  # one exchange by the roles
            if run.remaining == 0:
                run, exchanges = self._exchange(run, source), exchanges + 1
            awake = None if heard is None else heard[at]
            sums = run.clients.sums if self.decider is None else run.deciders.sums
            plays[at] = leader(sums[0], self.gains, awake)
            noise = source.everyone("client", block.reports.shape[1])
            seen = self.client.observe(run.clients, block.reports[at], noise, block.side_of(at))
            run, at = replace(run, round=run.round + 1, clients=seen, remaining=0), at + 1
        if at == rounds:
            return run, self._trace(plays, block, exchanges)
        server, sums, first = run.server, run.server.sums, at
        for noisy in noisy_vectors(self.client, block, range(at - 1, rounds - 1), source, silo):
            noisy[0] += sums
            add_up(noisy)
            part = slice(at, at + len(noisy))
            awake = None if heard is None else heard[part]
            server = self.follow(server, noisy, plays[part], awake)
            sums, at = server.sums, part.stop
        last = rounds - 1
        noise = source.everyone("client", block.reports.shape[1])
        sent = self.server.announce(server)
        clients = self.client.receive(run.clients, sent)
        run = replace(
            run,
            round=run.round + rounds - first,
            clients=self.client.observe(clients, block.reports[last], noise, block.side_of(last)),
            deciders=None if self.decider is None else self.decider.receive(run.deciders, sent),
            server=server,
        )
        return run, self._trace(plays, block, exchanges + rounds - first)

    def follow(
        self, state: Any, sums: Array, plays: np.ndarray, awake: np.ndarray | None
    ) -> NoisySumsState:
        """Write the plays of some rounds, given the sums before each, and return the next state."""
        plays[:] = leader(sums, self.gains, awake)
        return NoisySumsState(state.reported + len(sums), sums[-1].copy())

    @staticmethod
    def _trace(plays: np.ndarray, block: Block, exchanges: int) -> Trace:
        return Trace(np.broadcast_to(plays[:, None], block.losses.shape[:2]), exchanges)

    def _exchange(self, run: RunState, source: NoiseSource) -> RunState:
        everyone = source.everyone("client", len(run.clients.record))
        sent, clients = self.client.upload(run.clients, everyone)
        got = received(sent, self.server.silo)
        broadcast, server = self.server.aggregate(run.server, got, source.server())
        deciders = None if self.decider is None else self.decider.receive(run.deciders, broadcast)
        return replace(
            run,
            clients=self.client.receive(clients, broadcast),
            deciders=deciders,
            server=server,
            remaining=broadcast.rounds,
        )


@dataclass(frozen=True)
class WalkLeader(WalkSpec):
    r"""Follow the expert with the best sum of noisy reports (RW-FTPL). It needs no horizon.

    In every round clients report their records with Gaussian noise, and the expert with the best
    sum of all reports so far is played. Before the first report the sums are Gaussian noise with
    the scale of one round. The clients need not trust the server.

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
    sized
        True: the first public number about a client (`side`) is its size, such as its beds, and one
        person moves a number in its record by at most 1 / size. Noise is scaled to that. Sizes
        above 1024 count as 1024. Default False: a record may change within its whole range.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".

    Guarantee
    ---------
    One record of one client in one round is protected with mu, or with `unit` all that belongs to
    one person. "local": from every observer, even if all other clients collude; a person with k
    records has mu if each report has mu / sqrt(k). A person who moves from one silo to another
    changes two records: `unit=hr.Person(2, clients=2)`. "distributed": from every observer if only
    the sum of the reports is visible and `honest` clients keep their shares secret. Proofs:
    `proofs/walks.md#reports`, `proofs/walks.md#silos`, `proofs/walks.md#sizes`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> learner = hr.Learner(hr.WalkLeader(mu=0.5), clients=2, experts=3)
    >>> for _ in range(1000):
    ...     played = learner.predict()
    ...     learner.observe([[1, 0, 1], [1, 0, 0]])
    >>> played
    array([1, 1])
    >>> learner.certificate.server.curve
    GaussianDP(mu=0.5)

    References
    ----------
    Jacobsen and Fawaz 2025; Devroye, Lugosi and Neu 2013.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"distributed": {"trust": "distributed"}},
        meanings=MEANINGS,
        anytime=True,
        families=(Linear, Gains),
    )

    def resolve(self, setting: Setting) -> Algorithm:
        self.check_setting(setting)
        noise, gains, separate = self.noise(setting), setting.family.gains, setting.deciders
        width, server = self.width(setting), SummingServer(setting.experts, self.silo)
        if separate is None:
            client, decider = LeadingClient(width, noise, self.sized, gains=gains), None
        else:
            client = Reporter(width, noise, self.sized, self.silent(setting))
            decider = LeadingDecider(setting.experts, gains, self.reports)
        plain = setting.family == LOSSES and self.reports == "each" and separate is None
        closing = WAIT_OR_DROP if self.trust == "distributed" else ANY_CLOSING
        return Algorithm(
            name="walk_leader",
            setting=setting,
            client=client,
            server=server,
            decider=decider,
            certificate=self.certificate(setting, noise, ANNOUNCED),
            uploads=Uploads(
                NoisyReport,
                self.ranges(setting, noise),
                combine="each" if self.silo else "sum",
                closing=WAIT_ONLY if self.silo else closing,
            ),
            broadcasts=Broadcasts(NoisySums, every_round("sums", setting, self.least)),
            supports=self.supports(setting),
            needs=self.needs(setting),
            shortcuts=Shortcuts(Walk(client, decider, server, gains).advance),
            claims=Claims(
                regret_bound=self._bound(setting, noise),
                reference=FollowTheLeader().build(setting) if plain else None,
                free_noise=frozenset({START}),
            ),
            parameters=self.report_parameters(noise),
        )

    def _bound(self, setting: Setting, noise: GaussianNoise | None) -> RegretBound | None:
        """Return the bound if the scale of all noise is known before the game."""
        outside = self.reports == "each" and setting.deciders is not None
        if setting.horizon is None or noise is None or self.sized or outside:
            return None
        reporters = setting.clients if self.reports == "each" else 1
        value = regret_bound(
            setting.horizon, setting.experts, noise.scale, span=span(setting), clients=reporters
        )
        return RegretBound(value, "oblivious", Proof(PROOF, "regret"))


def regret_bound(
    rounds: int,
    experts: int,
    deviation: float,
    *,
    most: float | None = None,
    span: float = 1.0,
    clients: int = 1,
) -> float:
    """Bounds the expected regret per client, for records fixed in advance.

    `deviation` is the standard deviation of the noise in a report; if it varies between reports,
    it is the smallest and `most` the largest. `span` is the largest difference of two experts in
    one record, and `clients` the number of reports that are added up in a round.

    >>> round(regret_bound(10_000, 25, 5.0)), round(regret_bound(10_000, 25, 5.0, most=10.0))
    (1294, 5101)
    """
    if experts == 1:
        return 0.0
    largest = deviation if most is None else most
    over = largest**2 / deviation * sqrt(rounds / clients)
    behind = span**2 * sqrt(clients) * (2 * sqrt(rounds) - 1) / (4 * deviation)
    first = span if largest != deviation else 0.0  # the sums do not have these scales in round 1
    return min(span * rounds, first + sqrt(2 * log(experts)) * (over + behind))
