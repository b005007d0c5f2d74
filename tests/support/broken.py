"""Algorithms that each break one contract. A contract that does not catch its own is worthless."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader, Leader
from hedgerow.algorithms.baselines.hedge import Hedge, Sampler
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.dartboard.server import DartboardServer
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.proven.proven_sparse_vector import ProvenSparseVector
from hedgerow.algorithms.shared.following import CurrentExpert, Follower
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import AdderState, Summing, Totals
from hedgerow.algorithms.shared.totals import SummingState as TotalsState
from hedgerow.algorithms.sparse_vector.plan import Plan
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.selector import Selector, SelectorState
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.audits.cases.dartboard import half_the_chance
from hedgerow.audits.cases.parts import with_curve
from hedgerow.core.certificate import Channel, NoGuarantee, Observer, PrivacyCurve, Proof
from hedgerow.core.lattice import Units, from_units
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, RunState, Trace
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.units import Client
from hedgerow.privacy.curves import GaussianDP, PureDP
from hedgerow.privacy.mechanisms import ExponentialMechanism
from hedgerow_papers.gao2024.fed_svt import FedSVT, total_cost
from support.broken_games import BROKEN_GAMES
from support.honest import NoisySums
from support.stopping import Stopping


@dataclass(frozen=True)
class Peeks(AlgorithmSpec):
    """Its fast path plays the best expert of the present round."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = FollowTheLeader().build(setting)

        def advance(run: RunState, block: Any, source: NoiseSource) -> tuple[RunState, Trace]:
            plays = block.losses.argmin(axis=2)
            return replace(run, round=run.round + block.rounds), Trace(plays, block.rounds)

        return replace(honest, shortcuts=replace(honest.shortcuts, advance=advance))


@dataclass(frozen=True)
class PeeksAhead(AlgorithmSpec):
    """Obeys within a block but reads one round ahead of the exchange that is due."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping(epsilon=50.0).build(setting)
        server = honest.server
        assert isinstance(server, Selector)

        def advance(run: RunState, block: Any, source: NoiseSource) -> tuple[RunState, Trace]:
            after, trace = server.advance(run, block, source)
            plays = np.asarray(trace.plays)
            return after, Trace(np.concatenate([plays[1:], plays[-1:]]), trace.exchanges)

        return replace(honest, shortcuts=replace(honest.shortcuts, advance=advance))


@dataclass(frozen=True)
class Telling(Broadcast):
    """A broadcast with a field that no certificate mentions."""

    expert: int
    switches: int
    best_so_far: int


@dataclass(frozen=True)
class TellingSelector(Selector):
    def message(self, state: SelectorState) -> Any:
        honest = super().message(state)
        return Telling(honest.rounds, honest.expert, honest.switches, int(state.totals.argmin()))


def _with_server(algorithm: Algorithm, kind: type[Selector], **changes: Any) -> Algorithm:
    old = algorithm.server
    assert isinstance(old, Selector)
    values = {f.name: getattr(old, f.name) for f in fields(old)}
    server = kind(**{**values, **changes})
    return replace(
        algorithm,
        server=server,
        shortcuts=replace(algorithm.shortcuts, advance=server.advance),
        claims=replace(algorithm.claims, log_likelihood=server.log_likelihood),
    )


@dataclass(frozen=True)
class Selfish(Follower):
    """Plays the best expert of its own raw losses."""

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[np.ndarray, Any]:
        return np.argmin(state.losses, axis=-1), state


@dataclass(frozen=True)
class RawPlays(AlgorithmSpec):
    """Promises the public epsilon for plays that are a function of raw losses."""

    def resolve(self, setting: Setting) -> Algorithm:
        built = Stopping(every=2).build(setting)
        return replace(
            built, client=Selfish(setting.experts), shortcuts=replace(built.shortcuts, advance=None)
        )


@dataclass(frozen=True)
class ForgedServerGuarantee(AlgorithmSpec):
    """Promises protection from the server, who is sent exact sums."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping().build(setting)
        guarantees = tuple(
            replace(g, curve=PureDP(0.1), proof=honest.certificate.guarantee(Observer.PEER).proof)
            if g.observer is Observer.SERVER
            else g
            for g in honest.certificate.guarantees
        )
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class AlwaysFails(AlgorithmSpec):
    """Cannot be built at all."""

    def resolve(self, setting: Setting) -> Algorithm:
        raise ValueError("oops, a bug")


@dataclass(frozen=True)
class ForgetsField(AlgorithmSpec):
    """Broadcasts the exact leader and leaves it out of the certificate."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping().build(setting)
        channels = {
            k.replace("CurrentExpert", "Telling"): v for k, v in honest.certificate.channels.items()
        }
        forged = replace(
            honest,
            broadcasts=replace(honest.broadcasts, kind=Telling),
            certificate=replace(honest.certificate, channels=channels),
        )
        return _with_server(forged, TellingSelector)


@dataclass(frozen=True)
class TellsLeader(AlgorithmSpec):
    """Broadcasts the exact leader and says that the guarantee covers it."""

    def resolve(self, setting: Setting) -> Algorithm:
        forged = ForgetsField().build(setting)
        channels = {**forged.certificate.channels, "Telling.best_so_far": Channel.BROADCASTS}
        return replace(forged, certificate=replace(forged.certificate, channels=channels))


@dataclass(frozen=True)
class NarrowView(AlgorithmSpec):
    """Its guarantee for peers leaves out that they see the broadcasts."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping().build(setting)
        guarantees = tuple(
            replace(g, view=frozenset(c for c in g.view if c.value != "broadcasts"))
            if g.observer is Observer.PEER
            else g
            for g in honest.certificate.guarantees
        )
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class HalfSensitivity(AlgorithmSpec):
    """Declares that one loss moves a score by 1/2 and scales its noise to that."""

    epsilon: float = 1.0

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping(epsilon=self.epsilon).build(setting)
        server = honest.server
        assert isinstance(server, Selector)
        selection = replace(server.selection, sensitivity=0.5)
        certificate = replace(
            honest.certificate, mechanisms=(*honest.certificate.mechanisms[:2], selection)
        )
        return _with_server(replace(honest, certificate=certificate), Selector, selection=selection)


@dataclass(frozen=True)
class HalfNoise(AlgorithmSpec):
    """Draws everything with half the noise its certificate is computed from."""

    epsilon: float = 1.0
    which: str = "all"

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping(epsilon=self.epsilon).build(setting)
        server = honest.server
        assert isinstance(server, Selector)
        sparse, selection = server.sparse, server.selection
        if self.which in ("all", "threshold"):
            sparse = replace(sparse, threshold_scale=sparse.threshold_scale / 2)
        if self.which in ("all", "query"):
            sparse = replace(sparse, query_scale=sparse.query_scale / 2)
        if self.which in ("all", "selection"):
            selection = selection.scaled(0.5)
        return _with_server(honest, Selector, sparse=sparse, selection=selection)


@dataclass(frozen=True)
class QuietSelection(ExponentialMechanism):
    """A mechanism that states one law and samples another."""

    def sample(self, value: Any, noise: Noise) -> int:
        return ExponentialMechanism(self.purpose, 2 * self.epsilon, self.sensitivity).sample(
            value, noise
        )


@dataclass(frozen=True)
class StickySelector(Selector):
    """Never redraws the threshold noise."""

    def switch(self, state: SelectorState, noise: Noise) -> SelectorState:
        return replace(super().switch(state, noise), noisy_threshold=state.noisy_threshold)


@dataclass(frozen=True)
class EndlessWindow(Selector):
    """Counts an expert's losses from the very start, so that a datum stands in the window of every
    run.
    """

    def switch(self, state: SelectorState, noise: Noise) -> SelectorState:
        return replace(super().switch(state, noise), base=0)


@dataclass(frozen=True)
class OneMore(Selector):
    """One selection more than the certificate counts."""

    def message(self, state: SelectorState) -> CurrentExpert:
        return CurrentExpert(
            None if state.switches > self.switches else self.schedule.every,
            state.expert,
            state.switches,
        )

    def switch(self, state: SelectorState, noise: Noise) -> SelectorState:
        after = super().switch(state, noise)
        return (
            replace(after, noisy_threshold=self.sparse.begin(self.threshold, noise))
            if after.switches == self.switches
            else after
        )


@dataclass(frozen=True)
class Variant(AlgorithmSpec):
    """Fed-SVT with another server, audited on the same loud games."""

    kind: Any
    inner: FedSVT = field(default_factory=Stopping)

    def audit_variants(self) -> tuple[Variant, ...]:
        return tuple(Variant(self.kind, loud) for loud in self.inner.audit_variants())

    def resolve(self, setting: Setting) -> Algorithm:
        return _with_server(self.inner.build(setting), self.kind)


@dataclass(frozen=True)
class Understated(AlgorithmSpec):
    """Its certificate counts one selection only."""

    inner: FedSVT = field(default_factory=Stopping)

    def audit_variants(self) -> tuple[Understated, ...]:
        return tuple(Understated(loud) for loud in self.inner.audit_variants())

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.inner.build(setting)
        server = honest.server
        assert isinstance(server, Selector)
        less = total_cost(1, server.sparse, server.selection.epsilon)
        guarantees = tuple(
            replace(g, curve=less) if g.protects else g for g in honest.certificate.guarantees
        )
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class HalfTheDelta:
    """The right curve, but for a delta that is read off too small."""

    curve: PrivacyCurve

    def delta(self, epsilon: float) -> float:
        return self.curve.delta(epsilon) / 2

    def epsilon(self, delta: float) -> float:
        return self.curve.epsilon(delta)

    def stated(self) -> tuple[float, float]:
        return self.curve.stated()

    def words(self) -> str:
        return self.curve.words()


@dataclass(frozen=True)
class SmallDelta(AlgorithmSpec):
    """An approximate certificate whose largest log-ratio is right and whose delta is not."""

    inner: FedSVT = field(default_factory=lambda: Stopping(delta=1e-3))

    def audit_variants(self) -> tuple[SmallDelta, ...]:
        return tuple(SmallDelta(loud) for loud in self.inner.audit_variants())

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.inner.build(setting)
        guarantees = tuple(
            replace(g, curve=HalfTheDelta(g.curve)) if g.protects else g
            for g in honest.certificate.guarantees
        )
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class NoLikelihood(AlgorithmSpec):
    """Claims an epsilon that nothing can check."""

    def resolve(self, setting: Setting) -> Algorithm:
        built = Stopping().build(setting)
        return replace(built, claims=replace(built.claims, log_likelihood=None))


@dataclass(frozen=True)
class FreeLunch(AlgorithmSpec):
    """Follow the leader that claims to be perfectly private."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = FollowTheLeader().build(setting)
        proof = Uniform().build(setting).certificate.guarantees[0].proof
        guarantees = tuple(
            replace(g, curve=PureDP(0.0), proof=proof) for g in honest.certificate.guarantees
        )
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class OtherMessage(AlgorithmSpec):
    """Sends another message than it declares."""

    def resolve(self, setting: Setting) -> Algorithm:
        return _with_server(Stopping().build(setting), TellingSelector)


@dataclass(frozen=True)
class LyingMechanism(AlgorithmSpec):
    epsilon: float = 1.0

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping(epsilon=self.epsilon).build(setting)
        server = honest.server
        assert isinstance(server, Selector)
        selection = QuietSelection("selection", server.selection.epsilon)
        certificate = replace(
            honest.certificate, mechanisms=(*honest.certificate.mechanisms[:2], selection)
        )
        return _with_server(replace(honest, certificate=certificate), Selector, selection=selection)


@dataclass(frozen=True)
class BareSelector(Selector):
    """Draws its comparison noise itself, beside the mechanism."""

    def aggregate(
        self, state: SelectorState, uploads: Any, noise: Noise
    ) -> tuple[CurrentExpert, SelectorState]:
        state = replace(state, totals=state.totals + uploads.losses, exchanges=state.exchanges + 1)
        noisy = (
            self.query(state) + float(noise.draw("exponential", "query")) * self.sparse.query_scale
        )
        if noisy > state.noisy_threshold:
            state = self.switch(state, noise)
        return self.message(state), state


@dataclass(frozen=True)
class BypassesMechanism(AlgorithmSpec):
    epsilon: float = 1.0

    def resolve(self, setting: Setting) -> Algorithm:
        return _with_server(Stopping(epsilon=self.epsilon).build(setting), BareSelector)


@dataclass(frozen=True)
class ClaimsWithoutMechanism(AlgorithmSpec):
    """Follow the leader with a certificate from nowhere."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = FollowTheLeader().build(setting)
        guarantees = tuple(replace(g, curve=PureDP(1.0)) for g in honest.certificate.guarantees)
        assert all(isinstance(g.curve, NoGuarantee) for g in honest.certificate.guarantees)
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class RoundDependent(Leader):
    """Client i of a batch plays differently from a client alone."""

    def play(
        self, state: AdderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        plays, state = super().play(state, context, noise)
        return (plays + len(noise.batch)) % self.experts, state


@dataclass(frozen=True)
class EngineDependent(AlgorithmSpec):
    def resolve(self, setting: Setting) -> Algorithm:
        return replace(FollowTheLeader().build(setting), client=RoundDependent(setting.experts))


@dataclass(frozen=True)
class ForgetfulSpan(Leader):
    """Its span path forgets the last round."""

    def observe_many(self, state: AdderState, reports: np.ndarray, noise: Noise) -> AdderState:
        return super().observe_many(state, reports[:-1] if len(reports) > 1 else reports, noise)


@dataclass(frozen=True)
class BlockDependent(AlgorithmSpec):
    def resolve(self, setting: Setting) -> Algorithm:
        every = min(5, setting.rounds)
        return replace(
            FollowTheLeader(every=every).build(setting), client=ForgetfulSpan(setting.experts)
        )


@dataclass(frozen=True)
class FollowsAnother(AlgorithmSpec):
    """Says that everybody plays the next expert to the one that is played."""

    def resolve(self, setting: Setting) -> Algorithm:
        built = Stopping().build(setting)
        return replace(
            built,
            shortcuts=replace(
                built.shortcuts,
                common_play=lambda broadcast: (broadcast.expert + 1) % setting.experts,
            ),
        )


@dataclass(frozen=True)
class MemorySummer(Summing):
    """Keeps a secret memory outside its state."""

    memory: list[Units] = field(default_factory=list, compare=False)

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        self.memory.append(uploads.losses)
        broadcast, state = super().aggregate(state, uploads, noise)
        return replace(
            broadcast, losses=broadcast.losses + 2**20 * len(self.memory) * np.arange(self.experts)
        ), state


@dataclass(frozen=True)
class Impure(AlgorithmSpec):
    def resolve(self, setting: Setting) -> Algorithm:
        return replace(
            FollowTheLeader().build(setting), server=MemorySummer(setting.experts, Schedule(1))
        )


@dataclass(frozen=True)
class InPlaceSummer(Summing):
    """Adds into the state it was handed."""

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        state.totals[...] += uploads.losses
        return Totals(self.schedule.every, state.totals.copy()), state


@dataclass(frozen=True)
class Overwrites(AlgorithmSpec):
    def resolve(self, setting: Setting) -> Algorithm:
        return replace(
            FollowTheLeader().build(setting), server=InPlaceSummer(setting.experts, Schedule(1))
        )


class _Leftover:
    """Something the codec cannot carry."""


@dataclass(frozen=True)
class OpaqueState:
    totals: Units
    exchanges: int
    extra: Any


@dataclass(frozen=True)
class OpaqueSummer(Summing):
    state: ClassVar[type[Any]] = OpaqueState

    def open(self, noise: Noise) -> tuple[Totals, Any]:
        broadcast, state = super().open(noise)
        return broadcast, OpaqueState(state.totals, 0, _Leftover())

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        broadcast, after = super().aggregate(state, uploads, noise)
        return broadcast, OpaqueState(after.totals, after.exchanges, state.extra)


@dataclass(frozen=True)
class Unsavable(AlgorithmSpec):
    def resolve(self, setting: Setting) -> Algorithm:
        return replace(
            FollowTheLeader().build(setting), server=OpaqueSummer(setting.experts, Schedule(1))
        )


@dataclass(frozen=True)
class LaterState(TotalsState):
    """The same fields under another name."""


@dataclass(frozen=True)
class ChangesItsState(Summing):
    """Returns a state of another type once every expert has lost something."""

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        broadcast, after = super().aggregate(state, uploads, noise)
        return broadcast, LaterState(after.totals, after.exchanges) if after.totals.all() else after


@dataclass(frozen=True)
class TalliedState(TotalsState):
    tally: Any


@dataclass(frozen=True)
class Tallying(Summing):
    """Keeps the number of experts in a field of its state, as `kind` makes it."""

    state: ClassVar[type[Any]] = TalliedState
    kind: Any = int

    def open(self, noise: Noise) -> tuple[Totals, Any]:
        broadcast, state = super().open(noise)
        return broadcast, TalliedState(state.totals, 0, self.kind(self.experts))

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        broadcast, after = super().aggregate(state, uploads, noise)
        return broadcast, TalliedState(after.totals, after.exchanges, self.kind(self.experts))


@dataclass(frozen=True)
class HidesInState(Summing):
    """Keeps the number of uploads beside the fields of its state."""

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        broadcast, after = super().aggregate(state, uploads, noise)
        object.__setattr__(after, "uploads", getattr(state, "uploads", 0) + 1)
        return broadcast, after


@dataclass(frozen=True)
class KnowsItsState(Summing):
    """Starts again unless it is handed the very object that it returned."""

    last: list[Any] = field(default_factory=list, compare=False)

    def open(self, noise: Noise) -> tuple[Totals, Any]:
        broadcast, state = super().open(noise)
        self.last[:] = [state]
        return broadcast, state

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        known = state if state is self.last[0] else super().open(noise)[1]
        broadcast, self.last[0] = super().aggregate(known, uploads, noise)
        return broadcast, self.last[0]


@dataclass(frozen=True)
class Undeclared:
    """A server that does not say what its state is."""

    summing: Summing

    def open(self, noise: Noise) -> tuple[Totals, Any]:
        return self.summing.open(noise)

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        return self.summing.aggregate(state, uploads, noise)


@dataclass(frozen=True)
class CountedState(AdderState):
    rounds: Any


@dataclass(frozen=True)
class CountingLeader(Leader):
    """Counts rounds in an array of the shape of the batch.

    For one client alone a sum of two such arrays is a number, not an array.
    """

    state: ClassVar[type[Any]] = CountedState

    def start(self, noise: Noise) -> CountedState:
        plain = super().start(noise)
        return CountedState(plain.totals, plain.losses, np.zeros(noise.batch, np.int64))

    def receive(self, state: Any, broadcast: Totals) -> CountedState:
        plain = super().receive(state, broadcast)
        return CountedState(plain.totals, plain.losses, state.rounds)

    def observe(self, state: Any, reports: np.ndarray, noise: Noise) -> CountedState:
        plain = super().observe(state, reports, noise)
        return CountedState(plain.totals, plain.losses, state.rounds + 1)

    def observe_many(self, state: Any, reports: np.ndarray, noise: Noise) -> CountedState:
        plain = super().observe_many(state, reports, noise)
        return CountedState(plain.totals, plain.losses, state.rounds + len(reports))


@dataclass(frozen=True)
class WithRoles(AlgorithmSpec):
    """Follow the leader with another client or another server."""

    client: Any = Leader
    server: Any = Summing

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(
            FollowTheLeader().build(setting),
            client=self.client(setting.experts),
            server=self.server(setting.experts, Schedule(1)),
        )


def big_endian(count: int) -> np.ndarray:
    return np.array([count], ">i8")


def pair(count: int) -> tuple[int, int]:
    return (count, count)


def undeclared(experts: int, schedule: Schedule) -> Undeclared:
    return Undeclared(Summing(experts, schedule))


@dataclass(frozen=True)
class OffByOne(Leader):
    def play(
        self, state: AdderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        plays, state = super().play(state, context, noise)
        return plays + 1, state

    def play_many(
        self, state: AdderState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        plays, state = super().play_many(state, rounds, noise)
        return plays + 1, state


@dataclass(frozen=True)
class InvalidPlays(AlgorithmSpec):
    def resolve(self, setting: Setting) -> Algorithm:
        return replace(FollowTheLeader().build(setting), client=OffByOne(setting.experts))


@dataclass(frozen=True)
class Boastful(AlgorithmSpec):
    """Declares a regret bound it does not keep."""

    def resolve(self, setting: Setting) -> Algorithm:
        built = Hedge().build(setting)
        return replace(
            built,
            claims=replace(
                built.claims, regret_bound=RegretBound(0.5, "adaptive", Proof("hedge.md", "regret"))
            ),
        )


@dataclass(frozen=True)
class Loser(Leader):
    """Plays the expert with the largest total loss so far."""

    def play(
        self, state: AdderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        return super().play(replace(state, totals=-state.totals), context, noise)

    def play_many(
        self, state: AdderState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        return super().play_many(replace(state, totals=-state.totals), rounds, noise)


@dataclass(frozen=True)
class WorstPlayer(AlgorithmSpec):
    """Follows the worst expert, and claims the regret bound of an honest algorithm."""

    honest: Any

    def resolve(self, setting: Setting) -> Algorithm:
        claim = self.honest.build(setting)
        worst = replace(FollowTheLeader(every=10).build(setting), client=Loser(setting.experts))
        return replace(worst, claims=replace(worst.claims, regret_bound=claim.claims.regret_bound))


@dataclass(frozen=True)
class LowerBound(AlgorithmSpec):
    """Says half of the regret bound that is proven for an honest algorithm."""

    honest: Any

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.honest.build(setting)
        bound = replace(honest.claims.regret_bound, value=honest.claims.regret_bound.value / 2)
        return replace(honest, claims=replace(honest.claims, regret_bound=bound))


@dataclass(frozen=True)
class IdleMechanism(AlgorithmSpec):
    """Its certificate names a mechanism that no run uses."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = NoisySums().build(setting)
        mechanisms = (*honest.certificate.mechanisms, ExponentialMechanism("idle", 1.0))
        return replace(honest, certificate=replace(honest.certificate, mechanisms=mechanisms))


@dataclass(frozen=True)
class WrongReference(AlgorithmSpec):
    """Says that without noise it is follow the leader; it is Hedge."""

    def resolve(self, setting: Setting) -> Algorithm:
        built = Hedge().build(setting)
        return replace(
            built, claims=replace(built.claims, reference=FollowTheLeader().build(setting))
        )


@dataclass(frozen=True)
class NoCost(AlgorithmSpec):
    """Says its releases add up, though the answers of sparse vector have no cost of their own."""

    epsilon: float = 1.0

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping(epsilon=self.epsilon).build(setting)
        return replace(honest, certificate=replace(honest.certificate, composition="sum"))


@dataclass(frozen=True)
class FalseClaim(AlgorithmSpec):
    """An honest algorithm that promises some observers (or all it protects) another curve."""

    inner: NoisySums
    curve: PrivacyCurve
    observers: tuple[Observer, ...] = tuple(Observer)

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.inner.build(setting)
        guarantees = tuple(
            replace(g, curve=self.curve) if g.protects and g.observer in self.observers else g
            for g in honest.certificate.guarantees
        )
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class WholeSite(AlgorithmSpec):
    """Promises for everything a client holds what holds for one loss vector."""

    inner: NoisySums = field(default_factory=NoisySums)

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.inner.build(setting)
        guarantees = tuple(replace(g, unit=Client()) for g in honest.certificate.guarantees)
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class OwnNoise(AlgorithmSpec):
    """Promises protection from the server, who adds the noise itself."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = NoisySums("gaussian", "server").build(setting)
        local = NoisySums("gaussian", "clients").build(setting)
        return replace(honest, certificate=local.certificate)


@dataclass(frozen=True)
class OwnLikelihood(AlgorithmSpec):
    """A joint proof and a likelihood of the broadcasts, but it is the clients who draw the noise."""

    protect_server: bool

    def resolve(self, setting: Setting) -> Algorithm:
        honest = NoisySums().build(setting)
        guarantees = tuple(
            g
            if g.observer is not Observer.SERVER or self.protect_server
            else replace(g, curve=NoGuarantee("trusted"))
            for g in honest.certificate.guarantees
        )
        certificate = replace(honest.certificate, composition="joint", guarantees=guarantees)
        return replace(
            honest,
            certificate=certificate,
            claims=replace(honest.claims, log_likelihood=lambda broadcasts, reports: 0.0),
        )


@dataclass(frozen=True)
class Inaudible(AlgorithmSpec):
    """Its tiny games stay far below the certificate, and it offers no louder ones."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping().build(setting)
        guarantees = tuple(
            replace(g, curve=PureDP(10.0)) if g.protects else g
            for g in honest.certificate.guarantees
        )
        return replace(honest, certificate=replace(honest.certificate, guarantees=guarantees))


@dataclass(frozen=True)
class Sleepwalking(Leader):
    def play(
        self, state: AdderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        return super().play(state, Context(context.round), noise)


@dataclass(frozen=True)
class Sleepwalker(AlgorithmSpec):
    """Says it supports sleeping experts and follows them all the same."""

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(FollowTheLeader().build(setting), client=Sleepwalking(setting.experts))


@dataclass(frozen=True)
class NoticesAbsence(AlgorithmSpec):
    """Its fast path lets those who are present play differently where somebody is absent."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = Stopping().build(setting)
        server = honest.server
        assert isinstance(server, Selector)

        def advance(run: RunState, block: Any, source: NoiseSource) -> tuple[RunState, Trace]:
            after, trace = server.advance(run, block, source)
            moved = 0 if block.present is None else 1
            return after, Trace(
                (np.asarray(trace.plays) + moved) % setting.experts, trace.exchanges
            )

        return replace(honest, shortcuts=replace(honest.shortcuts, advance=advance))


@dataclass(frozen=True)
class Overflowing(Sampler):
    """Keeps weights outside the log domain: they vanish on long runs and leave it with an expert
    that does not exist.
    """

    def choose(self, state: AdderState, coins: np.ndarray) -> np.ndarray:
        mass = np.cumsum(np.exp(-self.rate * from_units(state.totals)), axis=-1)
        return (mass <= coins[..., None] * mass[..., -1:]).sum(axis=-1)


@dataclass(frozen=True)
class Underflows(AlgorithmSpec):
    every: int = 1

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(
            Hedge(every=self.every).build(setting), client=Overflowing(setting.experts, 0.5)
        )


@dataclass(frozen=True)
class Overspends(PhasedSelection):
    """Half the noise that the budget asks for, honestly certified: twice the epsilon."""

    def _noise(self, setting: Setting) -> Any:
        return super()._noise(setting).scaled(0.5)


@dataclass(frozen=True)
class FewDraws(ShrinkingDartboard):
    """Its certificate counts with half the chance of a draw: no single transcript gives that away."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = super().resolve(setting)
        assert isinstance(honest.server, DartboardServer)
        return with_curve(honest, self.curve(half_the_chance(honest.server.cost(setting))))


@dataclass(frozen=True)
class LateLeak(Selector):
    """Lets raw totals through once they are large: far beyond what a tiny game reaches."""

    where: str = ""

    def message(self, state: SelectorState) -> CurrentExpert:
        honest, totals = super().message(state), from_units(state.totals)
        if self.where == "timing" and totals.max() > 200 and honest.rounds is not None:
            return replace(honest, rounds=honest.rounds + 1)
        if self.where == "gap" and np.ptp(totals) > 300 and honest.rounds is not None:
            return replace(honest, rounds=honest.rounds + 1)
        if self.where == "window" and ((totals > 200) & (totals < 203)).any():
            return replace(honest, switches=-1)
        if self.where == "play" and totals.max() > 10_000:
            return replace(honest, expert=(honest.expert + 1) % self.experts)
        if self.where == "field" and totals.max() > 100_000:
            return replace(honest, switches=-1)
        return honest


@dataclass(frozen=True)
class RememberingState:
    expert: np.ndarray
    losses: Units
    own: Units


@dataclass(frozen=True)
class Remembering(Follower):
    """Plays another expert once its own raw total is above 200."""

    state: ClassVar[type[Any]] = RememberingState

    def start(self, noise: Noise) -> Any:
        state = super().start(noise)
        return RememberingState(state.expert, state.losses, np.zeros_like(state.losses))

    def receive(self, state: Any, broadcast: CurrentExpert) -> Any:
        after = super().receive(state, broadcast)
        return RememberingState(after.expert, after.losses, state.own)

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[np.ndarray, Any]:
        large = from_units(state.own).max(axis=-1) > 200
        return (state.expert + large) % self.experts, state

    def observe(self, state: Any, reports: np.ndarray, noise: Noise) -> Any:
        after = super().observe(state, reports, noise)
        return RememberingState(after.expert, after.losses, state.own + after.losses - state.losses)


@dataclass(frozen=True)
class LeaksLate(AlgorithmSpec):
    """Honest in small games; in large ones, raw totals change what is sent or played."""

    where: str
    inner: FedSVT = field(default_factory=Stopping)

    def audit_variants(self) -> tuple[LeaksLate, ...]:
        return tuple(LeaksLate(self.where, loud) for loud in self.inner.audit_variants())

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.inner.build(setting)
        if self.where == "client":
            client = Remembering(setting.experts)
            return replace(
                honest,
                client=client,
                shortcuts=replace(honest.shortcuts, advance=None),
                supports=frozenset(),
            )
        late = _with_server(honest, LateLeak, where=self.where)
        return replace(
            late,
            shortcuts=replace(late.shortcuts, advance=None),
            broadcasts=replace(late.broadcasts, limits={}),
        )  # nobody checks what it sends


@dataclass(frozen=True)
class FastLeak(AlgorithmSpec):
    """Its fast path plays another expert once a raw total is above 1000."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = PhasedSelection().build(setting)
        inner = honest.shortcuts.advance
        assert inner is not None

        def advance(run: RunState, block: Any, source: NoiseSource) -> tuple[RunState, Trace]:
            after, trace = inner(run, block, source)
            large = block.losses.sum(axis=1).cumsum(axis=0).max(axis=-1) > 1000
            plays = (np.asarray(trace.plays) + large[:, None]) % setting.experts
            return after, Trace(plays, trace.exchanges)

        return replace(honest, shortcuts=replace(honest.shortcuts, advance=advance))


@dataclass(frozen=True)
class FlipsWithDelta(AlgorithmSpec):
    """Certified for selections of bounded range, and draws by permute-and-flip, which has not."""

    inner: SparseVector = field(default_factory=lambda: SparseVector(delta=1e-3))

    def audit_variants(self) -> tuple[FlipsWithDelta, ...]:
        # two equal selections, and hardly anything for the test
        return (FlipsWithDelta(replace(self.inner, epsilon=3.0, plan=Plan(2, 0.5))),)

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.inner.build(setting)
        assert isinstance(honest.server, RecencySelector)
        selection = honest.server.weights.selection("permute-and-flip")
        certificate = replace(
            honest.certificate, mechanisms=(*honest.certificate.mechanisms[:2], selection)
        )
        return _with_server(
            replace(honest, certificate=certificate), RecencySelector, selection=selection
        )


BROKEN: dict[str, tuple[str, Any]] = {
    "peeks at the present loss": ("causal", Peeks()),
    "reads one round ahead": ("causal", PeeksAhead()),
    "forgets a message field": ("covers every message", ForgetsField()),
    "leaves broadcasts out of a view": ("covers every message", NarrowView()),
    "claims without a mechanism": ("covers every message", ClaimsWithoutMechanism()),
    "plays raw losses": ("nothing raw in a view", RawPlays()),
    "protects from a server that sees sums": ("nothing raw in a view", ForgedServerGuarantee()),
    "broadcasts the exact leader": ("nothing raw in a view", TellsLeader()),
    "times that tell a large total": ("nothing raw in a view", LeaksLate("timing")),
    "times that tell a large gap": ("nothing raw in a view", LeaksLate("gap")),
    "a field that tells a total in a window": ("nothing raw in a view", LeaksLate("window")),
    "a play that tells a large total": ("nothing raw in a view", LeaksLate("play")),
    "a field that tells a large total": ("nothing raw in a view", LeaksLate("field")),
    "a play that tells a client's total": ("nothing raw in a view", LeaksLate("client")),
    "cannot be built": ("valid plays", AlwaysFails()),
    "declares half its sensitivity": ("sensitivities hold", HalfSensitivity()),
    "half the noise": ("noise follows its law", HalfNoise()),
    "half the threshold noise": ("noise follows its law", HalfNoise(which="threshold")),
    "half the query noise": ("noise follows its law", HalfNoise(which="query")),
    "half the selection noise": ("noise follows its law", HalfNoise(which="selection")),
    "half the noise, audited": ("exact ratio below certificate", HalfNoise()),
    "noise beside the mechanism": ("noise follows its law", BypassesMechanism()),
    "a mechanism that is not used": ("noise follows its law", IdleMechanism()),
    "a mechanism that lies": ("noise follows its law", LyingMechanism()),
    "a mechanism that lies, audited": ("exact ratio below certificate", LyingMechanism()),
    "threshold noise not redrawn": ("exact ratio below certificate", Variant(StickySelector)),
    "a datum in every window": ("exact ratio below certificate", Variant(EndlessWindow)),
    "permute-and-flip under a curve of bounded range": (
        "exact ratio below certificate",
        FlipsWithDelta(),
    ),
    "one selection too many": ("exact ratio below certificate", Variant(OneMore)),
    "counts one selection only": ("exact ratio below certificate", Understated()),
    "half the chance of a draw": ("exact ratio below certificate", FewDraws(delta=1e-6)),
    "spends more than it was given": ("within the budget", Overspends(trust="local")),
    "half the delta": ("exact ratio below certificate", SmallDelta()),
    "nothing to check it by": ("exact ratio below certificate", NoLikelihood()),
    "perfectly private for free": ("nothing raw in a view", FreeLunch()),
    "another message than declared": ("same on every engine", OtherMessage()),
    "adds up what has no cost": ("ledger composes", NoCost()),
    "counts one release of many": (
        "ledger composes",
        FalseClaim(NoisySums(forgets=False), PureDP(1.0)),
    ),
    "a false Gaussian claim": (
        "ledger composes",
        FalseClaim(NoisySums("gaussian", "server", cost=0.5), GaussianDP(0.0001)),
    ),
    "Gaussian releases that do not add": (
        "ledger composes",
        FalseClaim(NoisySums("gaussian", "server", cost=0.5, forgets=False), GaussianDP(0.5)),
    ),
    "a false claim to the server alone": (
        "ledger composes",
        FalseClaim(NoisySums("k-norm"), PureDP(0.5), (Observer.SERVER,)),
    ),
    "all losses again and again, to the server": (
        "ledger composes",
        FalseClaim(NoisySums("k-norm", forgets=False), PureDP(0.5), (Observer.SERVER,)),
    ),
    "the server's own noise": ("ledger composes", OwnNoise()),
    "a promise for a whole site": ("ledger composes", WholeSite()),
    "a likelihood that leaves out uploads": (
        "exact ratio below certificate",
        OwnLikelihood(protect_server=True),
    ),
    "a likelihood that leaves out clients": (
        "exact ratio below certificate",
        OwnLikelihood(protect_server=False),
    ),
    "too quiet to be audited": ("exact ratio below certificate", Inaudible()),
    "depends on the engine": ("same on every engine", EngineDependent()),
    "depends on blocks": ("same for every block", BlockDependent()),
    "a fast path that tells a large total": ("same for every block", FastLeak()),
    "names another play": ("same by sums", FollowsAnother()),
    "has a hidden memory": ("pure", Impure()),
    "overwrites its state": ("pure", Overwrites()),
    "cannot be saved": ("resumable", Unsavable()),
    "a state of another type after some rounds": (
        "states survive",
        WithRoles(server=ChangesItsState),
    ),
    "a numpy number in a state": (
        "states survive",
        WithRoles(server=partial(Tallying, kind=np.int64)),
    ),
    "a single-precision number in a state": (
        "states survive",
        WithRoles(server=partial(Tallying, kind=np.float32)),
    ),
    "a tuple in a state": ("states survive", WithRoles(server=partial(Tallying, kind=pair))),
    "an array of another byte order in a state": (
        "states survive",
        WithRoles(server=partial(Tallying, kind=big_endian)),
    ),
    "a hidden attribute of a state": ("states survive", WithRoles(server=HidesInState)),
    "a state that must be the same object": ("states survive", WithRoles(server=KnowsItsState)),
    "a server without a declared state": ("states survive", WithRoles(server=undeclared)),
    "a number where one client is alone": ("states survive", WithRoles(client=CountingLeader)),
    "plays what is not there": ("valid plays", InvalidPlays()),
    "follows sleeping experts": ("sleeping experts", Sleepwalker()),
    "notices absence": ("absent clients", NoticesAbsence()),
    "underflows": ("million rounds", Underflows()),
    "boasts": ("regret below bound", Boastful()),
    "follows the worst expert": ("regret below bound", WorstPlayer(Hedge())),
    "half of a proven bound": (
        "regret below bound",
        LowerBound(ProvenSparseVector()),
    ),
    "is not its reference": ("noiseless is reference", WrongReference()),
}
BROKEN |= BROKEN_GAMES
