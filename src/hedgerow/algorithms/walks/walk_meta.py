"""The walk with several forecasters: follow the one that did best so far (RW-Meta).

Clients report their records with Gaussian noise. Forecasters predict the next gains from these
noisy reports alone, and each names an expert. The server keeps a noisy score of every forecaster
and follows one of them, with noise that hides which of them share the noise of the reports. All of
this is computed from the reports, so it costs no privacy. Proofs: `proofs/walk_meta.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import sqrt
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.walks.choices import MEANINGS, WalkSpec, span
from hedgerow.algorithms.walks.decorrelation import Decorrelation, MetaNoise, regret_bound
from hedgerow.algorithms.walks.forecasters import FORECASTERS, PUBLISHED, Panel, Past
from hedgerow.algorithms.walks.reports import (
    NoisyReport,
    Reporter,
    noisy_vector,
    noisy_vectors,
    received,
)
from hedgerow.algorithms.walks.walk_leader import (
    ClientState,
    DeciderState,
    LeadingClient,
    LeadingDecider,
    SummingServer,
    WalkLeader,
    heard,
    leader,
)
from hedgerow.algorithms.walks.walk_leader import ServerState as NoisySum
from hedgerow.core.block import Block, Side
from hedgerow.core.certificate import Channel, Proof
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Gains, Linear
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Algorithm, RunState, SpecTraits, Trace
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import expect, positive
from hedgerow.privacy.mechanisms import GaussianNoise

CHOICE = "choice"  # the purpose of the noise with which a forecaster is chosen
ANNOUNCED = {"Forecast.rounds": Channel.TIMING, "Forecast.values": Channel.BROADCASTS}
Follow = Literal["choice", "mean"]


@dataclass(frozen=True)
class Forecast(Broadcast):
    """The forecast that is followed: one number for each expert; the largest is played."""

    values: Array


@dataclass(frozen=True)
class MetaClient(LeadingClient):
    """A client that reports and follows the forecast."""

    def receive(self, state: ClientState, broadcast: Any) -> ClientState:
        return replace(state, sums=np.broadcast_to(broadcast.values, state.sums.shape))


@dataclass(frozen=True)
class MetaDecider(LeadingDecider):
    """A decider that follows the forecast; in a silo, only experts that report in this round."""

    def receive(self, state: DeciderState, broadcast: Any) -> DeciderState:
        return DeciderState(np.broadcast_to(broadcast.values, state.sums.shape))


@dataclass(frozen=True)
class ServerState:
    """Noisy gains and scores of forecasters; everything is computed from reports.

    `reported` rounds are over, `recent` are the noisy gains of the last ones, and `sums` those of
    all. Every forecaster has an expert that it names for the coming round (`picks`), and a noisy
    score; `covariance` is that of the noise in the scores.
    """

    reported: int
    recent: Array
    sums: Array
    picks: np.ndarray
    scores: Array
    covariance: Array


@dataclass(frozen=True)
class MetaServer:
    """Updates forecasts and scores, and sends the forecast to follow."""

    state: ClassVar[type[Any]] = ServerState

    adding: SummingServer
    gains: bool
    panel: Panel
    decorrelation: Decorrelation
    follow: Follow

    def open(self, noise: Noise) -> tuple[Forecast, ServerState]:
        """Begin with an expert at random, for all forecasters."""
        started = self.adding.open(noise)[1]
        count, values = len(self.panel.members), self.signed(started.sums)
        picks, scores = np.full(count, int(np.argmax(values))), np.zeros(count)
        empty = np.zeros((0, self.adding.experts))
        state = ServerState(0, empty, started.sums, picks, scores, np.zeros((count, count)))
        return Forecast(1, values), state

    def aggregate(
        self, state: ServerState, uploads: NoisyReport, noise: Noise
    ) -> tuple[Forecast, ServerState]:
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
            normal = noise.draw("gaussian", CHOICE, scores.shape, scale=1.0)
            extra = self.decorrelation.noise(covariance, float(reported + 1), normal)
            chosen = forecasts[int(np.argmax(scores + extra))]
        picks = forecasts.argmax(axis=-1)
        after = ServerState(reported, recent, added.sums, picks, scores, covariance)
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
    decider: MetaDecider | None
    server: MetaServer

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        rounds, plays, exchanges, at = block.rounds, np.empty(block.rounds, np.int64), 0, 0
        masked = self.server.adding.silo and block.reporting is not None
        while at < rounds and (at == 0 or run.server.reported == 0):  # one exchange by the roles
            if run.remaining == 0:
                run, exchanges = self._exchange(run, source), exchanges + 1
            awake = heard(block.reporting[at]) if masked and block.reporting is not None else None
            forecast = run.clients.sums if self.decider is None else run.deciders.sums
            plays[at] = leader(forecast[0], True, awake)
            run, at = self._observe(run, block, at, source), at + 1
        state, first, chosen = run.server, at, None
        for noisy in noisy_vectors(
            self.client, block, range(at - 1, rounds - 1), source, self.server.adding.silo
        ):
            part = slice(at, at + len(noisy))
            variance = self._variance(block, slice(at - 1, part.stop - 1), source.server())
            state, chosen = self._many(state, noisy, variance, source.server())
            awake = heard(block.reporting[part]) if masked and block.reporting is not None else None
            plays[part], at = leader(chosen, True, awake), part.stop
        if chosen is not None:
            run = self._receive(replace(run, server=state), Forecast(1, chosen[-1]))
            run = replace(self._observe(run, block, rounds - 1, source), round=run.round + at - first)
        common = np.broadcast_to(plays[:, None], block.losses.shape[:2])
        return run, Trace(common, exchanges + at - first)

    def _many(
        self, state: ServerState, noisy: Array, variance: Array, noise: Noise
    ) -> tuple[ServerState, Array]:
        """Return the state after several rounds, and the forecasts that follow from each."""
        server, rounds, before = self.server, len(noisy), len(state.recent)
        panel, values, sums = server.panel, server.signed(noisy), noisy.copy()
        sums[0] += state.sums
        totals = server.signed(np.cumsum(sums, axis=0, out=sums))
        history = np.concatenate([state.recent, values])
        count = len(state.scores)
        forecasts = np.empty((rounds, count, noisy.shape[1]))
        for i in range(rounds):
            stop = before + i + 1
            recent = history[max(0, stop - panel.window) : stop]
            forecasts[i] = panel.forecasts(Past(recent, totals[i], state.reported + i + 1))
        picks = np.concatenate([state.picks[None], forecasts.argmax(axis=-1)])
        scores, covariance, chosen = state.scores, state.covariance, forecasts[:, 0]
        if server.follow == "mean":
            chosen = forecasts.mean(axis=1)
        elif count > 1:
            gained = np.take_along_axis(values, picks[:-1], axis=-1)
            gained[0] += scores
            more = shared(picks[:-1], variance)
            more[0] += covariance
            all_scores, all_covariance = np.cumsum(gained, axis=0), np.cumsum(more, axis=0)
            normal = noise.draw("gaussian", CHOICE, (count,), rounds=rounds, scale=1.0)
            round_numbers = np.arange(state.reported + 2.0, state.reported + rounds + 2.0)
            extra = server.decorrelation.noise(all_covariance, round_numbers, normal)
            followed = np.argmax(all_scores + extra, axis=-1)
            chosen = forecasts[np.arange(rounds), followed]
            scores, covariance = all_scores[-1], all_covariance[-1]
        recent = history[max(0, len(history) - panel.window) :].copy()
        reported = state.reported + rounds
        after = ServerState(reported, recent, sums[-1].copy(), picks[-1], scores, covariance)
        return after, chosen

    def _variance(self, block: Block, part: slice, noise: Noise) -> Array:
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
        totals, zeros = each.sum(axis=1), np.zeros(adding.experts)
        if adding.only is not None and (totals != adding.only).any():  # refused by the server
            wrong = NoisyReport(zeros, totals[totals != adding.only][0])
            adding.aggregate(NoisySum(1, zeros), wrong, noise)
        return np.broadcast_to(totals[:, None], (len(each), adding.experts))

    def _exchange(self, run: RunState, source: NoiseSource) -> RunState:
        everyone = source.everyone("client", len(run.clients.record))
        sent, clients = self.client.upload(run.clients, everyone)
        seen = received(sent, self.server.adding.silo)
        broadcast, server = self.server.aggregate(run.server, seen, source.server())
        return self._receive(replace(run, clients=clients, server=server), broadcast)

    def _receive(self, run: RunState, broadcast: Forecast) -> RunState:
        deciders = None if self.decider is None else self.decider.receive(run.deciders, broadcast)
        clients = self.client.receive(run.clients, broadcast)
        return replace(run, clients=clients, deciders=deciders, remaining=broadcast.rounds)

    def _observe(self, run: RunState, block: Block, at: int, source: NoiseSource) -> RunState:
        noise = source.everyone("client", block.reports.shape[1])
        seen = self.client.observe(run.clients, block.reports[at], noise, block.side_of(at))
        return replace(run, round=run.round + 1, clients=seen, remaining=0)


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
    appearances
        The most records of one person, at any clients; the budget holds for all of them together.
        Default 1.
    sized
        True: noise is scaled to the public size of each client, such as its beds. Default False.
    forecasters
        Names in `FORECASTERS`, at least one. Default: those of the published experiment, trends
        over 8 to 64 rounds and the leader.
    follow
        "choice" (default): one forecaster in each round. "mean": the mean of all forecasts, without
        scores. Nothing is proven about the regret of the mean.
    meta_noise
        The noise of the choice: "added" (default, a regret bound is proven for any forecasters),
        "published" (proven only if the noise of reports is small), or "none" (no decorrelation and
        no bound). It protects nothing.
    gain_range
        The largest difference of the gains (or losses) of two experts at one client in one round.
        The noise of the choice is scaled to it. None (default): as declared in the setting. With
        a smaller number, the regret bound is not stated.

    Guarantee
    ---------
    That of `WalkLeader` with the same choices: one record, or a person with at most `appearances`
    records, is protected with mu from every observer. Proof: `proofs/walk_meta.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Switching(clients=1, experts=5, horizon=400)
    >>> algorithms = {"meta": hr.WalkMeta(mu=4.0), "leader": hr.WalkLeader(mu=4.0)}
    >>> study = hr.run(game, algorithms, seeds=5)
    >>> study["meta"].regret.mean < study["leader"].regret.mean
    True

    References
    ----------
    Jacobsen et al. 2025, Algorithm 2.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"mean of forecasts": {"follow": "mean"}},
        meanings={
            **MEANINGS,
            "forecasters": "what predicts the next gains from noisy reports",
            "follow": "one forecaster in each round, or the mean of all",
            "meta_noise": "the noise with which a forecaster is chosen; it protects nothing",
            "gain_range": "largest difference of two experts in one round",
        },
        exact="trust='local'",
        anytime=True,
        families=(Linear, Gains),
    )

    forecasters: tuple[str, ...] = PUBLISHED
    follow: Follow = "choice"
    meta_noise: MetaNoise = "added"
    gain_range: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(len(self.forecasters) > 0, "forecasters", self.forecasters, "to name at least one")
        FORECASTERS.panel(self.forecasters)  # refuses unknown names
        for name, allowed in {"follow": get_args(Follow), "meta_noise": get_args(MetaNoise)}.items():
            expect(getattr(self, name) in allowed, name, getattr(self, name), f"in {allowed}")
        if self.gain_range is not None:
            positive("gain_range", self.gain_range)

    def resolve(self, setting: Setting) -> Algorithm:
        alone = WalkLeader(**{f.name: getattr(self, f.name) for f in fields(WalkSpec)})
        walk, noise = alone.build(setting), self.noise(setting)
        assert isinstance(walk.server, SummingServer)
        server = MetaServer(
            walk.server,
            setting.family.gains,
            FORECASTERS.panel(self.forecasters),
            Decorrelation(self.meta_noise, self._range(setting)),
            self.follow,
        )
        width, decider = self.width(setting), None
        client = MetaClient(width, noise, self.sized, gains=True)
        if setting.deciders is not None:
            client = Reporter(width, noise, self.sized)
            decider = MetaDecider(setting.experts, gains=True, silo=self.silo)
        return replace(
            walk,
            name="walk_meta",
            client=client,
            server=server,
            decider=decider,
            certificate=self.certificate(setting, noise, ANNOUNCED),
            broadcast=Forecast,
            advance=MetaWalk(client, decider, server).advance,
            regret_bound=self._bound(setting, walk.regret_bound, noise),
            reference=None,
            free_noise=walk.free_noise | {CHOICE},
        )

    def _reporters(self, setting: Setting) -> int:
        """Return how many reports are added up in a round."""
        return setting.clients if self.reports == "each" else 1

    def _range(self, setting: Setting) -> float:
        """Return the largest difference of the gains of two experts, summed over reporters."""
        own = span(setting) if self.gain_range is None else self.gain_range
        return own * self._reporters(setting)

    def _bound(
        self, setting: Setting, of_leader: RegretBound | None, noise: GaussianNoise | None
    ) -> RegretBound | None:
        """Return the bound against the best forecaster, plus that of the leader among them."""
        honest = self.gain_range is None or self.gain_range >= span(setting)
        if of_leader is None or noise is None or not honest or setting.horizon is None:
            return None
        if self.follow == "mean" or "leader" not in self.forecasters:
            return None
        reporters = self._reporters(setting)
        chosen = regret_bound(
            setting.horizon,
            len(self.forecasters),
            noise.scale * sqrt(reporters),
            kind=self.meta_noise,
            gain_range=self._range(setting),
        )
        if chosen is None:
            return None
        value = min(span(setting) * setting.horizon, chosen / reporters + of_leader.value)
        return RegretBound(value, "oblivious", Proof("walk_meta.md", "regret"))
