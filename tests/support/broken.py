"""Algorithms that each break one contract. A contract that does not catch its own is worthless."""

from __future__ import annotations

from collections.abc import Callable
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
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector
from hedgerow_papers.gao2024.fed_svt import total_cost
from support.broken_games import BROKEN_GAMES
from support.honest import NoisySums
from support.planted import Planted, certified, claiming, promising, shortcut
from support.stopping import Stopping


def peeks(honest: Algorithm) -> Algorithm:
    """Its fast path plays the best expert of the present round."""

    def advance(run: RunState, block: Any, source: NoiseSource) -> tuple[RunState, Trace]:
        plays = block.losses.argmin(axis=2)
        return replace(run, round=run.round + block.rounds), Trace(plays, block.rounds)

    return shortcut(honest, advance=advance)


def moving(move: Callable[[np.ndarray, Any], np.ndarray]) -> Callable[[Algorithm], Algorithm]:
    """Its fast path moves the honest plays of a block."""

    def bug(honest: Algorithm) -> Algorithm:
        inner = honest.shortcuts.advance
        assert inner is not None

        def advance(run: RunState, block: Any, source: NoiseSource) -> tuple[RunState, Trace]:
            after, trace = inner(run, block, source)
            plays = move(np.asarray(trace.plays), block) % honest.setting.experts
            return after, Trace(plays, trace.exchanges)

        return shortcut(honest, advance=advance)

    return bug


def ahead(plays: np.ndarray, block: Any) -> np.ndarray:
    """Obeys within a block but reads one round ahead of the exchange that is due."""
    return np.concatenate([plays[1:], plays[-1:]])


def noticing(plays: np.ndarray, block: Any) -> np.ndarray:
    """Lets those who are present play differently where somebody is absent."""
    return plays if block.present is None else plays + 1


def telling(plays: np.ndarray, block: Any) -> np.ndarray:
    """Plays another expert once a raw total is above 1000."""
    large = block.losses.sum(axis=1).cumsum(axis=0).max(axis=-1) > 1000
    return plays + large[:, None]


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
    algorithm = shortcut(replace(algorithm, server=server), advance=server.advance)
    return claiming(algorithm, log_likelihood=server.log_likelihood)


def _selector(algorithm: Algorithm) -> Selector:
    assert isinstance(algorithm.server, Selector)
    return algorithm.server


def served_by(kind: type[Selector]) -> Callable[[Algorithm], Algorithm]:
    return partial(_with_server, kind=kind)


@dataclass(frozen=True)
class Selfish(Follower):
    """Plays the best expert of its own raw losses."""

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[np.ndarray, Any]:
        return np.argmin(state.losses, axis=-1), state


def raw_plays(honest: Algorithm) -> Algorithm:
    """Promises the public epsilon for plays that are a function of raw losses."""
    return shortcut(replace(honest, client=Selfish(honest.setting.experts)), advance=None)


def forged_server_guarantee(honest: Algorithm) -> Algorithm:
    """Promises protection from the server, who is sent exact sums."""
    forged = {"curve": PureDP(0.1), "proof": honest.certificate.guarantee(Observer.PEER).proof}
    return promising(honest, lambda g: replace(g, **forged) if g.observer is Observer.SERVER else g)


@dataclass(frozen=True)
class AlwaysFails(AlgorithmSpec):
    """Cannot be built at all."""

    def resolve(self, setting: Setting) -> Algorithm:
        raise ValueError("oops, a bug")


def tells_leader(honest: Algorithm, **more: Channel) -> Algorithm:
    """Broadcasts the exact leader, and leaves it out of the certificate unless more is given."""
    channels = {
        k.replace("CurrentExpert", "Telling"): v for k, v in honest.certificate.channels.items()
    }
    forged = replace(
        honest,
        broadcasts=replace(honest.broadcasts, kind=Telling),
        certificate=replace(honest.certificate, channels={**channels, **more}),
    )
    return _with_server(forged, TellingSelector)


def narrow_view(honest: Algorithm) -> Algorithm:
    """Its guarantee for peers leaves out that they see the broadcasts."""
    return promising(
        honest,
        lambda g: (
            replace(g, view=g.view - {Channel.BROADCASTS}) if g.observer is Observer.PEER else g
        ),
    )


def selecting(honest: Algorithm, selection: Any, kind: type[Selector] = Selector) -> Algorithm:
    """Selects with another mechanism, and names it in the certificate."""
    named = certified(honest, mechanisms=(*honest.certificate.mechanisms[:2], selection))
    return _with_server(named, kind, selection=selection)


def half_sensitivity(honest: Algorithm) -> Algorithm:
    """Declares that one loss moves a score by 1/2 and scales its noise to that."""
    return selecting(honest, replace(_selector(honest).selection, sensitivity=0.5))


def half_noise(honest: Algorithm, which: str = "all") -> Algorithm:
    """Draws everything with half the noise its certificate is computed from."""
    sparse, selection = _selector(honest).sparse, _selector(honest).selection
    if which in ("all", "threshold"):
        sparse = replace(sparse, threshold_scale=sparse.threshold_scale / 2)
    if which in ("all", "query"):
        sparse = replace(sparse, query_scale=sparse.query_scale / 2)
    if which in ("all", "selection"):
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


def understated(honest: Algorithm) -> Algorithm:
    """Its certificate counts one selection only."""
    server = _selector(honest)
    less = total_cost(1, server.sparse, server.selection.epsilon)
    return promising(honest, lambda g: replace(g, curve=less) if g.protects else g)


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


def small_delta(honest: Algorithm) -> Algorithm:
    """An approximate certificate whose largest log-ratio is right and whose delta is not."""
    return promising(honest, lambda g: replace(g, curve=HalfTheDelta(g.curve)) if g.protects else g)


def no_likelihood(honest: Algorithm) -> Algorithm:
    """Claims an epsilon that nothing can check."""
    return claiming(honest, log_likelihood=None)


def free_lunch(honest: Algorithm) -> Algorithm:
    """Follow the leader that claims to be perfectly private."""
    proof = Uniform().build(honest.setting).certificate.guarantees[0].proof
    return promising(honest, lambda g: replace(g, curve=PureDP(0.0), proof=proof))


def lying_mechanism(honest: Algorithm) -> Algorithm:
    """Selects with a mechanism that states one law and samples another."""
    return selecting(honest, QuietSelection("selection", _selector(honest).selection.epsilon))


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


def claims_without_mechanism(honest: Algorithm) -> Algorithm:
    """Follow the leader with a certificate from nowhere."""
    assert all(isinstance(g.curve, NoGuarantee) for g in honest.certificate.guarantees)
    return promising(honest, lambda g: replace(g, curve=PureDP(1.0)))


@dataclass(frozen=True)
class RoundDependent(Leader):
    """Client i of a batch plays differently from a client alone."""

    def play(
        self, state: AdderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        plays, state = super().play(state, context, noise)
        return (plays + len(noise.batch)) % self.experts, state


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


def follows_another(honest: Algorithm) -> Algorithm:
    """Says that everybody plays the next expert to the one that is played."""
    experts = honest.setting.experts
    return shortcut(honest, common_play=lambda broadcast: (broadcast.expert + 1) % experts)


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
class InPlaceSummer(Summing):
    """Adds into the state it was handed."""

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        state.totals[...] += uploads.losses
        return Totals(self.schedule.every, state.totals.copy()), state


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


def boastful(honest: Algorithm) -> Algorithm:
    """Declares a regret bound it does not keep."""
    return claiming(honest, regret_bound=RegretBound(0.5, "adaptive", Proof("hedge.md", "regret")))


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


def lower_bound(honest: Algorithm) -> Algorithm:
    """Says half of the regret bound that is proven."""
    bound = honest.claims.regret_bound
    assert bound is not None
    return claiming(honest, regret_bound=replace(bound, value=bound.value / 2))


def idle_mechanism(honest: Algorithm) -> Algorithm:
    """Its certificate names a mechanism that no run uses."""
    idle = ExponentialMechanism("idle", 1.0)
    return certified(honest, mechanisms=(*honest.certificate.mechanisms, idle))


def wrong_reference(honest: Algorithm) -> Algorithm:
    """Says that without noise it is follow the leader; it is Hedge."""
    return claiming(honest, reference=FollowTheLeader().build(honest.setting))


def no_cost(honest: Algorithm) -> Algorithm:
    """Says its releases add up, though the answers of sparse vector have no cost of their own."""
    return certified(honest, composition="sum")


def false_claim(
    inner: NoisySums, curve: PrivacyCurve, observers: tuple[Observer, ...] = tuple(Observer)
) -> Planted:
    """An honest algorithm that promises some observers (or all it protects) another curve."""
    return Planted(
        lambda honest: promising(
            honest,
            lambda g: replace(g, curve=curve) if g.protects and g.observer in observers else g,
        ),
        inner,
    )


def whole_site(honest: Algorithm) -> Algorithm:
    """Promises for everything a client holds what holds for one loss vector."""
    return promising(honest, lambda g: replace(g, unit=Client()))


def own_noise(honest: Algorithm) -> Algorithm:
    """Promises protection from the server, who adds the noise itself."""
    local = NoisySums("gaussian", "clients").build(honest.setting)
    return replace(honest, certificate=local.certificate)


def own_likelihood(honest: Algorithm, protect_server: bool) -> Algorithm:
    """A joint proof and a likelihood of the broadcasts, but it is the clients who draw the noise."""
    forged = claiming(
        certified(honest, composition="joint"), log_likelihood=lambda broadcasts, reports: 0.0
    )
    none = NoGuarantee("trusted")
    return promising(
        forged,
        lambda g: (
            replace(g, curve=none) if g.observer is Observer.SERVER and not protect_server else g
        ),
    )


def inaudible(honest: Algorithm) -> Algorithm:
    """Its tiny games stay far below the certificate, and it offers no louder ones."""
    return promising(honest, lambda g: replace(g, curve=PureDP(10.0)) if g.protects else g)


@dataclass(frozen=True)
class Sleepwalking(Leader):
    def play(
        self, state: AdderState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, AdderState]:
        return super().play(state, Context(context.round), noise)


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
    every: int = 1  # so that the contract can play a million rounds in no time

    def resolve(self, setting: Setting) -> Algorithm:
        client = Overflowing(setting.experts, 0.5)
        return replace(Hedge(every=self.every).build(setting), client=client)


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


def leaks_late(where: str) -> Planted:
    """Honest in small games; in large ones, raw totals change what is sent or played."""

    def bug(honest: Algorithm) -> Algorithm:
        if where == "client":
            client = Remembering(honest.setting.experts)
            return shortcut(replace(honest, client=client, supports=frozenset()), advance=None)
        late = shortcut(_with_server(honest, LateLeak, where=where), advance=None)
        # nobody checks what it sends
        return replace(late, broadcasts=replace(late.broadcasts, limits={}))

    return Planted(bug, loud=True)


@dataclass(frozen=True)
class TwoSelections(SparseVector):
    """Audited with two equal selections, and hardly anything for the test."""

    def audit_variants(self) -> tuple[TwoSelections, ...]:
        return (replace(self, epsilon=3.0, plan=Plan(2, 0.5)),)


def flips_with_delta(honest: Algorithm) -> Algorithm:
    """Certified for selections of bounded range, and draws by permute-and-flip, which has not."""
    assert isinstance(honest.server, RecencySelector)
    flip = honest.server.weights.selection("permute-and-flip")
    return selecting(honest, flip, RecencySelector)


BROKEN: dict[str, tuple[str, Any]] = {
    "peeks at the present loss": ("causal", Planted(peeks, FollowTheLeader())),
    "reads one round ahead": ("causal", Planted(moving(ahead), Stopping(epsilon=50.0))),
    "forgets a message field": ("covers every message", Planted(tells_leader)),
    "leaves broadcasts out of a view": ("covers every message", Planted(narrow_view)),
    "claims without a mechanism": (
        "covers every message",
        Planted(claims_without_mechanism, FollowTheLeader()),
    ),
    "plays raw losses": ("nothing raw in a view", Planted(raw_plays, Stopping(every=2))),
    "protects from a server that sees sums": (
        "nothing raw in a view",
        Planted(forged_server_guarantee),
    ),
    "broadcasts the exact leader": (
        "nothing raw in a view",
        Planted(partial(tells_leader, **{"Telling.best_so_far": Channel.BROADCASTS})),
    ),
    "times that tell a large total": ("nothing raw in a view", leaks_late("timing")),
    "times that tell a large gap": ("nothing raw in a view", leaks_late("gap")),
    "a field that tells a total in a window": ("nothing raw in a view", leaks_late("window")),
    "a play that tells a large total": ("nothing raw in a view", leaks_late("play")),
    "a field that tells a large total": ("nothing raw in a view", leaks_late("field")),
    "a play that tells a client's total": ("nothing raw in a view", leaks_late("client")),
    "cannot be built": ("valid plays", AlwaysFails()),
    "declares half its sensitivity": ("sensitivities hold", Planted(half_sensitivity)),
    "half the noise": ("noise follows its law", Planted(half_noise)),
    "half the threshold noise": (
        "noise follows its law",
        Planted(partial(half_noise, which="threshold")),
    ),
    "half the query noise": ("noise follows its law", Planted(partial(half_noise, which="query"))),
    "half the selection noise": (
        "noise follows its law",
        Planted(partial(half_noise, which="selection")),
    ),
    "half the noise, audited": ("exact ratio below certificate", Planted(half_noise, loud=True)),
    "noise beside the mechanism": ("noise follows its law", Planted(served_by(BareSelector))),
    "a mechanism that is not used": ("noise follows its law", Planted(idle_mechanism, NoisySums())),
    "a mechanism that lies": ("noise follows its law", Planted(lying_mechanism)),
    "a mechanism that lies, audited": (
        "exact ratio below certificate",
        Planted(lying_mechanism, loud=True),
    ),
    "threshold noise not redrawn": (
        "exact ratio below certificate",
        Planted(served_by(StickySelector), loud=True),
    ),
    "a datum in every window": (
        "exact ratio below certificate",
        Planted(served_by(EndlessWindow), loud=True),
    ),
    "permute-and-flip under a curve of bounded range": (
        "exact ratio below certificate",
        Planted(flips_with_delta, TwoSelections(delta=1e-3), loud=True),
    ),
    "one selection too many": (
        "exact ratio below certificate",
        Planted(served_by(OneMore), loud=True),
    ),
    "counts one selection only": ("exact ratio below certificate", Planted(understated, loud=True)),
    "half the chance of a draw": ("exact ratio below certificate", FewDraws(delta=1e-6)),
    "spends more than it was given": ("within the budget", Overspends(trust="local")),
    "half the delta": (
        "exact ratio below certificate",
        Planted(small_delta, Stopping(delta=1e-3), loud=True),
    ),
    "nothing to check it by": ("exact ratio below certificate", Planted(no_likelihood)),
    "perfectly private for free": ("nothing raw in a view", Planted(free_lunch, FollowTheLeader())),
    "another message than declared": ("same on every engine", Planted(served_by(TellingSelector))),
    "adds up what has no cost": ("ledger composes", Planted(no_cost)),
    "counts one release of many": (
        "ledger composes",
        false_claim(NoisySums(forgets=False), PureDP(1.0)),
    ),
    "a false Gaussian claim": (
        "ledger composes",
        false_claim(NoisySums("gaussian", "server", cost=0.5), GaussianDP(0.0001)),
    ),
    "Gaussian releases that do not add": (
        "ledger composes",
        false_claim(NoisySums("gaussian", "server", cost=0.5, forgets=False), GaussianDP(0.5)),
    ),
    "a false claim to the server alone": (
        "ledger composes",
        false_claim(NoisySums("k-norm"), PureDP(0.5), (Observer.SERVER,)),
    ),
    "all losses again and again, to the server": (
        "ledger composes",
        false_claim(NoisySums("k-norm", forgets=False), PureDP(0.5), (Observer.SERVER,)),
    ),
    "the server's own noise": (
        "ledger composes",
        Planted(own_noise, NoisySums("gaussian", "server")),
    ),
    "a promise for a whole site": ("ledger composes", Planted(whole_site, NoisySums())),
    "a likelihood that leaves out uploads": (
        "exact ratio below certificate",
        Planted(partial(own_likelihood, protect_server=True), NoisySums()),
    ),
    "a likelihood that leaves out clients": (
        "exact ratio below certificate",
        Planted(partial(own_likelihood, protect_server=False), NoisySums()),
    ),
    "too quiet to be audited": ("exact ratio below certificate", Planted(inaudible)),
    "depends on the engine": ("same on every engine", WithRoles(client=RoundDependent)),
    "depends on blocks": ("same for every block", BlockDependent()),
    "a fast path that tells a large total": (
        "same for every block",
        Planted(moving(telling), PhasedSelection()),
    ),
    "names another play": ("same by sums", Planted(follows_another)),
    "has a hidden memory": ("pure", WithRoles(server=MemorySummer)),
    "overwrites its state": ("pure", WithRoles(server=InPlaceSummer)),
    "cannot be saved": ("resumable", WithRoles(server=OpaqueSummer)),
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
    "plays what is not there": ("valid plays", WithRoles(client=OffByOne)),
    "follows sleeping experts": ("sleeping experts", WithRoles(client=Sleepwalking)),
    "notices absence": ("absent clients", Planted(moving(noticing))),
    "underflows": ("million rounds", Underflows()),
    "boasts": ("regret below bound", Planted(boastful, Hedge())),
    "follows the worst expert": ("regret below bound", WorstPlayer(Hedge())),
    "half of a proven bound": (
        "regret below bound",
        Planted(lower_bound, ProvenSparseVector()),
    ),
    "is not its reference": ("noiseless is reference", Planted(wrong_reference, Hedge())),
}
BROKEN |= BROKEN_GAMES
