"""The walk with several forecasters: follow the one that did best so far (RW-Meta).

Clients report their records with Gaussian noise. Forecasters predict the next gains from these
noisy reports alone, and each names an expert. The server keeps a noisy score of every forecaster
and follows one of them, with noise that hides which of them share the noise of the reports. All of
this is computed from the reports, so it costs no privacy. Proofs: `proofs/walk_meta.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import sqrt
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.walks.choices import MEANINGS, WalkSpec, span
from hedgerow.algorithms.walks.reports import (
    NoisyReport,
    Reporter,
    add_up,
    noisy_vector,
    noisy_vectors,
    received,
)
from hedgerow.algorithms.walks.walk_leader import (
    LeadingClient,
    LeadingDecider,
    SummingServer,
    WalkLeader,
    every_round,
    leader,
)
from hedgerow.algorithms.walks.walk_leader import NoisySumsState as NoisySum
from hedgerow.core.block import Block, Side
from hedgerow.core.certificate import Channel, Proof
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Matrix, Vector, WholeVector
from hedgerow.core.losses import Gains, Linear
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Algorithm, RunState, SpecTraits, Trace
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import one_of
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow_papers.jacobsen2025.decorrelation import Decorrelation
from hedgerow_papers.jacobsen2025.forecasters import FORECASTERS, PUBLISHED, Panel, Past

CHOICE = "choice"  # the purpose of the noise with which a forecaster is chosen
ANNOUNCED = {"Forecast.rounds": Channel.TIMING, "Forecast.values": Channel.BROADCASTS}
Follow = Literal["choice", "mean"]


@dataclass(frozen=True)
class MetaPlan:
    """What experts may choose about `WalkMeta`; it costs no privacy.

    Parameters
    ----------
    follow
        "choice" (default): one forecaster in each round. "mean": the mean of all forecasts, without
        scores. Nothing is proven about the regret of the mean.
    decorrelated
        Whether noise is added to the scores before one forecaster is chosen. Default: True; without
        it nothing is proven about the regret.
    """

    follow: Follow = "choice"
    decorrelated: bool = True

    def __post_init__(self) -> None:
        one_of(self, follow=get_args(Follow))


DEFAULT = MetaPlan()


@dataclass(frozen=True)
class Forecast(Broadcast):
    """The forecast that is followed: one number for each expert; the largest is played."""

    values: Vector

    @property
    def followed(self) -> Array:
        """The numbers of which the best is played."""
        return self.values


@dataclass(frozen=True)
class MetaState:
    """Noisy gains and scores of forecasters; everything is computed from reports.

    `reported` rounds are over, `recent` are the noisy gains of the last ones, and `sums` those of
    all. Every forecaster has an expert that it names for the coming round (`picks`), and a noisy
    score; `covariance` is that of the noise in the scores.
    """

    reported: int
    recent: Matrix
    sums: Vector
    picks: WholeVector
    scores: Vector
    covariance: Matrix


@dataclass(frozen=True)
class MetaServer:
    """Updates forecasts and scores, and sends the forecast to follow."""

    state: ClassVar[type[Any]] = MetaState

    adding: SummingServer
    gains: bool
    panel: Panel
    decorrelation: Decorrelation | None
    follow: Follow

    def open(self, noise: Noise) -> tuple[Forecast, MetaState]:
        """Begin with an expert at random, for all forecasters."""
        started = self.adding.open(noise)[1]
        count, values = len(self.panel.members), self.signed(started.sums)
        picks, scores = np.full(count, int(np.argmax(values))), np.zeros(count)
        empty = np.zeros((0, self.adding.experts))
        state = MetaState(0, empty, started.sums, picks, scores, np.zeros((count, count)))
        return Forecast(1, values), state

    def aggregate(
        self, state: MetaState, uploads: NoisyReport, noise: Noise
    ) -> tuple[Forecast, MetaState]:
        added = self.adding.aggregate(NoisySum(state.reported, state.sums), uploads, noise)[1]
        values, variance = noisy_vector(uploads, self.adding.experts, self.adding.silo)
        values, reported = self.signed(values), added.reported
        kept = max(0, len(state.recent) + 1 - self.panel.window)
        recent = np.concatenate([state.recent[kept:], values[None]])
        forecasts = self.panel.forecasts(Past(recent, self.signed(added.sums), reported))
        scores, covariance, chosen = state.scores, state.covariance, forecasts[0]
        if self.follow == "mean":
            chosen = forecasts.mean(axis=0)
        elif len(scores) > 1:
            scores = scores + values[state.picks]
            covariance = covariance + shared(state.picks, variance)
            noisy = scores
            if self.decorrelation is not None:
                normal = noise.draw("gaussian", CHOICE, scores.shape, scale=1.0)
                extra = self.decorrelation.noise(covariance, float(reported + 1), normal)
                noisy = scores + extra
            chosen = forecasts[int(np.argmax(noisy))]
        picks = forecasts.argmax(axis=-1)
        after = MetaState(reported, recent, added.sums, picks, scores, covariance)
        return Forecast(1, chosen), after

    def signed(self, values: Array) -> Array:
        """Return gains: losses count as gains below 0."""
        return values if self.gains else -values


def shared(picks: np.ndarray, variance: Array) -> Array:
    """Return the covariance of the noise in the gains of forecasters in one round.

    >>> shared(np.array([1, 1, 0]), np.array([4.0, 9.0]))
    array([[9., 9., 0.],
           [9., 9., 0.],
           [0., 0., 4.]])
    """
    own = np.take_along_axis(variance, picks, axis=-1)[..., None]
    return (picks[..., :, None] == picks[..., None, :]) * own


@dataclass(frozen=True)
class MetaWalk:
    """The fast path: noise, scores and choices of many rounds at once."""

    client: Reporter
    decider: LeadingDecider | None
    server: MetaServer

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        rounds, state, plays = block.rounds, run.server, list[np.ndarray]()
        heard = None if self.decider is None else self.decider.heard(block.reporting)
        if run.remaining:  # no report is due before the first round
            forecast = run.clients.sums if self.decider is None else run.deciders.sums
            plays.append(leader(forecast[:1], True, None if heard is None else heard[:1]))
        at = len(plays)
        exchanges, chosen = rounds - at, None
        for noisy, variance in self._reports(run, block, source):
            part = slice(at, at + len(noisy))
            awake = None if heard is None else heard[part]
            state, played, chosen = self._many(state, noisy, variance, awake, source.server())
            plays.append(played)
            at = part.stop
        if chosen is not None:
            run = self._receive(replace(run, server=state), Forecast(1, chosen))
        common = np.broadcast_to(np.concatenate(plays)[:, None], block.losses.shape[:2])
        noise, last = source.everyone("client", block.reports.shape[1]), rounds - 1
        seen = self.client.observe(run.clients, block.reports[last], noise, block.side_of(last))
        after = replace(run, round=run.round + rounds, clients=seen, remaining=0)
        return after, Trace(common, exchanges)

    def _reports(
        self, run: RunState, block: Block, source: NoiseSource
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the noisy vectors of some rounds and the variances of their noise, in pieces.

        The first one may be that of the round before the block.
        """
        adding, first = self.server.adding, list[tuple[Array, Array]]()
        if run.remaining == 0:
            everyone = source.everyone("client", len(run.clients.record))
            sent = received(self.client.upload(run.clients, everyone)[0], adding.silo)
            first.append(noisy_vector(sent, adding.experts, adding.silo))
        rounds, at = range(block.rounds - 1), 0
        for noisy in noisy_vectors(self.client, block, rounds, source, adding.silo):
            part = slice(at, at + len(noisy))
            variance = self._variance(block, part)
            before = [(values[None], v[None]) for values, v in first]
            pieces = zip(*before, (noisy, variance), strict=True)
            noisy, variance = (np.concatenate(piece) for piece in pieces)
            yield noisy, variance
            first, at = [], part.stop
        for values, variance in first:
            yield values[None], variance[None]

    def _many(
        self,
        state: MetaState,
        noisy: Array,
        variance: Array,
        shown: np.ndarray | None,
        noise: Noise,
    ) -> tuple[MetaState, np.ndarray, Array]:
        """Return the state after several rounds, their plays, and the last forecast to follow.

        `shown` marks the experts that may be followed in each round.
        """
        server, rounds, count = self.server, len(noisy), len(state.scores)
        panel, values, sums = server.panel, server.signed(noisy), noisy.copy()
        sums[0] += state.sums if state.reported else np.sqrt(variance[0]) * state.sums
        add_up(sums)
        totals = server.signed(sums)
        history, before = np.concatenate([state.recent, values]), len(state.recent)
        one = np.empty((count, values.shape[1]))  # all rounds in the same place, in the cache

        def forecasts(i: int) -> Array:
            stop = before + i + 1
            recent = history[max(0, stop - panel.window) : stop]
            return panel.forecasts(Past(recent, totals[i], state.reported + i + 1), one)

        picks = np.empty((rounds + 1, count), np.int64)
        picks[0], mean = state.picks, server.follow == "mean"
        means = np.empty(rounds, np.int64)
        for i in range(rounds):
            found = forecasts(i)
            found.argmax(axis=-1, out=picks[i + 1])
            if mean:
                means[i] = found.mean(axis=0).argmax()
        scores, covariance, followed = state.scores, state.covariance, np.zeros(rounds, np.int64)
        if not mean and count > 1:
            gained, more = np.take_along_axis(values, picks[:-1], -1), shared(picks[:-1], variance)
            gained[0] += scores
            more[0] += covariance
            gained, more = np.cumsum(gained, axis=0), np.cumsum(more, axis=0)
            chosen_by = gained
            if server.decorrelation is not None:
                normal = noise.draw("gaussian", CHOICE, (count,), rounds=rounds, scale=1.0)
                coming = np.arange(state.reported + 2.0, state.reported + rounds + 2.0)
                chosen_by = gained + server.decorrelation.noise(more, coming, normal)
            followed = np.argmax(chosen_by, axis=-1)
            scores, covariance = gained[-1], more[-1]

        def chosen(i: int) -> Array:
            found = forecasts(i)
            return found.mean(axis=0) if mean else found[followed[i]].copy()

        plays = means if mean else picks[np.arange(1, rounds + 1), followed]
        if shown is not None:
            for i in np.flatnonzero(~np.take_along_axis(shown, plays[:, None], -1)[:, 0]).tolist():
                plays[i] = leader(chosen(i), True, shown[i])
        recent = history[max(0, len(history) - panel.window) :].copy()
        after = MetaState(
            state.reported + rounds, recent, sums[-1].copy(), picks[-1], scores, covariance
        )
        return after, plays, chosen(rounds - 1)

    def _variance(self, block: Block, part: slice) -> Array:
        """Return the variance of the noise of every expert's gain in some rounds."""
        clients, adding = block.reports.shape[1], self.server.adding
        side = Side(
            None if block.side is None else block.side[part],
            None if block.reporting is None else block.reporting[part],
        )
        size, shown = self.client.public(side, (part.stop - part.start, clients))
        each = np.where(shown, self.client.variance(size), 0.0)
        if adding.silo:
            return each
        return np.broadcast_to(each.sum(axis=1)[:, None], (len(each), adding.experts))

    def _receive(self, run: RunState, broadcast: Forecast) -> RunState:
        deciders = None if self.decider is None else self.decider.receive(run.deciders, broadcast)
        clients = self.client.receive(run.clients, broadcast)
        return replace(run, clients=clients, deciders=deciders, remaining=broadcast.rounds)


@dataclass(frozen=True)
class WalkMeta(WalkSpec):
    r"""Forecast from noisy reports, and follow the forecaster with the best noisy score (RW-Meta).

    Good where the best expert changes over time. Privacy costs the same as for `WalkLeader`, for
    any number of forecasters, because they see noisy reports only. It needs no horizon.

    Parameters
    ----------
    mu, epsilon, delta
        The privacy budget: mu in Gaussian DP, > 0, or epsilon and delta. Default: mu = 1. mu = inf:
        no noise and no guarantee, for comparison.
    reports
        "each" (default): every client reports about all experts in every round. "slot": one client
        reports in each round. "silo": client i reports about expert i only.
    trust
        "local" (default): every client adds all the noise that protects it. "distributed": every
        client adds a share, and the server sees only the sum of all reports.
    sized
        True: noise is scaled to the public size of each client, such as its beds. Default False.
    forecasters
        Names in `FORECASTERS`, at least one. Default: those of the published experiment, trends
        over 8 to 64 rounds and the leader.
    plan
        What experts may choose about the choice of a forecaster:
        `MetaPlan(follow, decorrelated)` of `hedgerow_papers.jacobsen2025.certified_meta`, in a
        study file a table. None (default): a noisy choice, with a regret bound for any forecasters.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".

    Guarantee
    ---------
    That of `WalkLeader` with the same choices: one record, or `unit`, is protected with mu from
    every observer. Proof: `proofs/walk_meta.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Switching(clients=1, experts=5, horizon=400)
    >>> algorithms = {"meta": WalkMeta(mu=4.0), "leader": hr.WalkLeader(mu=4.0)}
    >>> study = hr.run(game, algorithms, seeds=5)
    >>> study["meta"].regret.mean < study["leader"].regret.mean
    True

    References
    ----------
    Jacobsen and Fawaz 2025, Algorithm 2.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        meanings={
            **MEANINGS,
            "forecasters": "what predicts the next gains from noisy reports",
        },
        anytime=True,
        families=(Linear, Gains),
    )

    forecasters: tuple[str, ...] = PUBLISHED
    plan: MetaPlan | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.forecasters, tuple):
            raise InvalidValue(
                f"Expected forecasters={self.forecasters!r} to be a tuple of names, such as "
                '("leader",).'
            )
        if len(self.forecasters) == 0:
            raise InvalidValue(f"Expected forecasters={self.forecasters!r} to name at least one.")
        FORECASTERS.panel(self.forecasters)  # refuses unknown names
        known = self.plan is None or isinstance(self.plan, MetaPlan)
        if not known:
            raise InvalidValue(f"Expected plan={self.plan!r} to be a MetaPlan or None.")

    def decorrelation(self, gain_range: float) -> Decorrelation | None:
        """The noise of the choice for gains in this range; None: there is none."""
        return Decorrelation(gain_range) if self._plan.decorrelated else None

    @property
    def _plan(self) -> MetaPlan:
        return DEFAULT if self.plan is None else self.plan

    def resolve(self, setting: Setting) -> Algorithm:
        alone = WalkLeader(**{f.name: getattr(self, f.name) for f in fields(WalkSpec)})
        walk, noise = alone.build(setting), self.noise(setting)
        assert isinstance(walk.server, SummingServer)
        server = MetaServer(
            walk.server,
            setting.family.gains,
            FORECASTERS.panel(self.forecasters),
            self.decorrelation(self._range(setting)),
            self._plan.follow,
        )
        width, decider = self.width(setting), None
        client = LeadingClient(width, noise, self.sized, gains=True)
        if setting.deciders is not None:
            client = Reporter(width, noise, self.sized, self.silent(setting))
            decider = LeadingDecider(setting.experts, True, self.reports)
        return replace(
            walk,
            name="walk_meta",
            client=client,
            server=server,
            decider=decider,
            certificate=self.certificate(setting, noise, ANNOUNCED),
            broadcasts=replace(
                walk.broadcasts, kind=Forecast, limits=every_round("values", setting, self.least)
            ),
            shortcuts=replace(walk.shortcuts, advance=MetaWalk(client, decider, server).advance),
            claims=replace(
                walk.claims,
                regret_bound=self._bound(setting, walk.claims.regret_bound, noise),
                reference=None,
                free_noise=walk.claims.free_noise | {CHOICE},
            ),
        )

    def _reporters(self, setting: Setting) -> int:
        """Return how many reports are added up in a round."""
        return setting.clients if self.reports == "each" else 1

    def _range(self, setting: Setting) -> float:
        """Return the largest difference of the gains of two experts, summed over reporters."""
        return span(setting) * self._reporters(setting)

    def _bound(
        self, setting: Setting, of_leader: RegretBound | None, noise: GaussianNoise | None
    ) -> RegretBound | None:
        """Return the bound against the best forecaster, plus that of the leader among them."""
        if of_leader is None or noise is None or setting.horizon is None:
            return None
        rule = self.decorrelation(self._range(setting))
        if self._plan.follow == "mean" or rule is None or "leader" not in self.forecasters:
            return None
        reporters = self._reporters(setting)
        deviation = noise.scale * sqrt(reporters)
        chosen = rule.regret_bound(setting.horizon, len(self.forecasters), deviation)
        if chosen is None:
            return None
        value = min(span(setting) * setting.horizon, chosen / reporters + of_leader.value)
        return RegretBound(value, "oblivious", Proof("walk_meta.md", "regret"))
