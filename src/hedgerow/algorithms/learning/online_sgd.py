"""Online SGD: learners with streams of examples train one model, with correlated noise.

In every round each learner adds up the clipped gradients of its examples, filters the sum and
releases it with noise. The server decodes running sums, whose noise is correlated and small, and
sends the next model. What is played is the released model; local points are never shown. Proofs:
`proofs/online_sgd.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, isinf, log, sqrt
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.correlated.decoding import (
    DecodingServer,
    ServerState,
    sums_certificate,
)
from hedgerow.algorithms.correlated.factorisation import Factorisation
from hedgerow.algorithms.correlated.filters import FilterState
from hedgerow.algorithms.correlated.kinds import Kind, check_kind, factorise
from hedgerow.algorithms.correlated.lattice import LatticeEncoder, memory_of_clients
from hedgerow.algorithms.learning.matched import matched
from hedgerow.algorithms.learning.measures import Contradicted, NotFinite, ShortenedExamples
from hedgerow.algorithms.learning.model import Model
from hedgerow.algorithms.learning.rounds import LocalRound, Steps, compiled, round_sensitivity
from hedgerow.algorithms.learning.streams import filtered, memory_after
from hedgerow.algorithms.learning.trial_games import learning_games
from hedgerow.algorithms.shared.noisy_reports import Trust, gaussian_noise
from hedgerow.core.batch import Batch
from hedgerow.core.block import Block
from hedgerow.core.certificate import (
    Assumption,
    Certificate,
    Channel,
    Proof,
    not_private,
)
from hedgerow.core.convex import Huber, Logistic, SquaredError
from hedgerow.core.domain import Domain
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.games import Games
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.layout import Matrix, Vector, Whole
from hedgerow.core.losses import Family, Linear
from hedgerow.core.measure import Measure
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.plays import Plays
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, RunState, SpecTraits, Trace
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget, expect, positive
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.curves import ApproximateDP
from hedgerow.privacy.mechanisms import GaussianNoise

PROOF = "online_sgd.md"
ANNOUNCED = {"Released.rounds": Channel.TIMING, "Released.model": Channel.BROADCASTS}
CLIP = 1.0  # of a model whose gradients have no declared bound
STEP = 0.1  # of a model whose smoothness is not declared
CHUNK = 64  # rounds that are compiled together, at most
CHUNK_NUMBERS = 2**18  # in the round sums of these rounds, at most: large models gain nothing

Calibration = Literal["certified", "published"]


@dataclass(frozen=True)
class Released(Broadcast):
    """The model of the next round, as one flat vector."""

    model: Vector


@dataclass(frozen=True)
class GradientSums(Upload):
    """The clipped gradients of one learner in one round, added up; filtered and noisy, or exact."""

    sums: Vector


@dataclass(frozen=True)
class LearnerState:
    """The released model, the sum for its average, models so far, the round sum, and the filter."""

    model: Vector
    trail: Vector
    models: Whole
    sums: Vector
    memory: Matrix


@dataclass(frozen=True)
class LearningClient:
    """Plays the released model, or the average of the released models, and adds up gradients.

    If there is an encoder, the round sum is filtered and gets noise before it leaves the client.
    """

    state: ClassVar[type[Any]] = LearnerState

    work: LocalRound
    average: float | None = None
    encoder: LatticeEncoder | None = None
    reporting: GaussianNoise | None = None

    def start(self, noise: Noise) -> LearnerState:
        shape = (*noise.batch, self.work.width)
        trail = np.zeros(shape if self.average is not None else (*noise.batch, 0))
        memory = memory_of_clients(self.encoder, shape)
        none = np.zeros(noise.batch, np.int64)
        return LearnerState(np.zeros(shape), trail, none, np.zeros(shape), memory)

    def receive(self, state: LearnerState, broadcast: Released) -> LearnerState:
        model = np.asarray(broadcast.model)
        if model.shape != (self.work.width,):
            raise InvalidValue(
                f"Expected a model of {self.work.width} weights, got shape {model.shape}. "
                "All clients and the server must train the same model."
            )
        shape, trail = state.sums.shape, state.trail
        if self.average is not None:
            one = _row(trail) * self.average + (1 - self.average) * model
            trail = np.broadcast_to(one, shape)
        return LearnerState(
            np.broadcast_to(model, shape),
            trail,
            np.asarray(state.models + 1),
            np.zeros(shape),
            state.memory,
        )

    def play(
        self, state: LearnerState, context: Context, noise: Noise
    ) -> tuple[Array, LearnerState]:
        del context, noise
        if self.average is None:
            return state.model, state
        weight = 1 - self.average ** int(state.models.flat[0])
        return np.broadcast_to(_row(state.trail) / weight, state.model.shape), state

    def observe(self, state: LearnerState, reports: Array, noise: Noise) -> LearnerState:
        del noise
        return replace(state, sums=self.work.sums(_row(state.model), reports))

    def upload(self, state: LearnerState, noise: Noise) -> tuple[GradientSums, LearnerState]:
        if self.encoder is None or self.reporting is None:
            return GradientSums(state.sums), state
        before = int(state.models.flat[0]) - 1  # a model arrives after every upload
        values, memory = self.encoder.step_clients(max(0, before), state.memory, state.sums)
        return GradientSums(noise.release(self.reporting, values)), replace(state, memory=memory)


def _row(values: Array) -> Array:
    """The vector that all learners have in common."""
    return values.reshape(-1, values.shape[-1])[0]


@dataclass(frozen=True)
class TrainerState(ServerState):
    """The state of a server that decodes sums, and their average for momentum (`trail`)."""

    trail: Vector


@dataclass(frozen=True, kw_only=True)
class TrainingServer(DecodingServer):
    """Sends the next model: a step along the decoded sums of all learners' gradients."""

    state: ClassVar[type[Any]] = TrainerState

    first: Array
    domain: Domain
    rate: float
    momentum: float = 0.0

    def open(self, noise: Noise) -> tuple[Released, TrainerState]:
        del noise
        return Released(1, self.first), _with_trail(self.start(), np.zeros(self.first.shape))

    def aggregate(
        self, state: TrainerState, uploads: GradientSums, noise: Noise
    ) -> tuple[Released, TrainerState]:
        sums, after = self.running_sums(state, uploads.sums, noise)
        trail = self.momentum * state.trail + (1 - self.momentum) * sums
        model = self.domain.project(self.first - self.rate * trail)
        return Released(1, model), _with_trail(after, trail)


def _with_trail(state: ServerState, trail: Array) -> TrainerState:
    return TrainerState(state.exchanges, state.filtered, state.decoded, trail)


@dataclass(frozen=True)
class Training:
    """The fast path: many rounds in one compiled function, and all their noise at once.

    Filters are linear, and decoding undoes encoding: the decoded sum is the exact sum plus what
    noise and the past add. So the compiled part only adds up gradients. It agrees with the plain
    loop up to rounding errors of 24 bits.
    """

    client: LearningClient
    server: TrainingServer
    clients: int

    @property
    def length(self) -> int:
        """How many rounds are compiled together."""
        return max(1, min(CHUNK, CHUNK_NUMBERS // (self.clients * self.client.work.width)))

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        at, exchanges, played = 0, 0, list[Array]()
        while at < block.rounds:
            rounds = min(self.length, block.rounds - at)
            part = block.reports[at : at + rounds]
            if run.remaining == 0 and 4 * rounds > self.length:
                run, plays = self._chunk(run, part, source)
                exchanges += rounds
            else:
                run, plays, made = self._one(run, part[0], source)
                rounds, exchanges = 1, exchanges + made
            played.append(plays)
            at += rounds
        points = np.concatenate(played)
        shape = (len(points), self.clients, points.shape[-1])
        return run, Trace(Plays.of(np.broadcast_to(points[:, None], shape)), exchanges)

    def _one(self, run: RunState, reports: Array, source: NoiseSource) -> tuple[Any, Array, int]:
        """Play one round by the roles."""
        everyone, due = source.everyone("client", self.clients), run.remaining == 0
        state = run.clients
        if due:
            sent, state = self.client.upload(state, everyone)
            summed = GradientSums(sent.sums.sum(axis=0))
            broadcast, server = self.server.aggregate(run.server, summed, source.server())
            run = replace(run, server=server)
            state = self.client.receive(state, broadcast)
        point, state = self.client.play(state, Context(run.round), everyone)
        state = self.client.observe(state, reports, everyone)
        run = replace(run, round=run.round + 1, clients=state, remaining=0)
        return run, _row(point)[None], int(due)

    def _chunk(self, run: RunState, reports: Array, source: NoiseSource) -> tuple[Any, Array]:
        """Play rounds of which each begins with an exchange."""
        client, server, state, own = self.client, self.server, run.clients, run.server
        count, width = len(reports), self.client.work.width
        noise = self._noise(count, source)
        decoder, past = server.factorisation.decoder, FilterState(own.exchanges, own.decoded)
        entering = self._memory(run)
        quiet = np.zeros((count, width))
        if noise is None:
            base = filtered(decoder, past, quiet)
        else:
            base = filtered(decoder, past, filtered(self._encoder, entering, quiet) + noise)
        steady = _faded(base, own.trail, server.momentum)
        units = self._compiled(server.first - server.rate * steady, reports, state.sums.sum(axis=0))
        sums = np.concatenate([state.sums[None], units / UNITS_PER_LOSS])
        total = sums.sum(axis=1)
        trails = steady + _faded(np.cumsum(total[:-1], axis=0), np.zeros(width), server.momentum)
        models = server.domain.project(server.first - server.rate * trails)
        released = total[:-1]
        if noise is not None:
            released = filtered(self._encoder, entering, released) + noise
        clients, memory = self._filters_after(run, sums[:-1], total[:-1])
        after = TrainerState(
            own.exchanges + count, memory, memory_after(decoder, past, released).memory, trails[-1]
        )
        plays, trail = models, state.trail
        shape = state.sums.shape
        if client.average is not None:
            averages = _faded(models, _row(trail), client.average)
            ages = int(state.models.flat[0]) + 1 + np.arange(count)
            plays = averages / (1 - client.average**ages)[:, None]
            trail = np.broadcast_to(averages[-1].copy(), shape)
        then = LearnerState(
            np.broadcast_to(models[-1].copy(), shape),
            trail,
            np.asarray(state.models + count),
            sums[-1],
            clients,
        )
        return replace(run, round=run.round + count, clients=then, server=after), plays

    def _compiled(self, base: Array, reports: Array, pending: Array) -> Array:
        """Return the round sums in whole steps, (rounds, clients, width).

        Missing rounds are filled up, so that one length is compiled.
        """
        work, count = self.client.work, len(reports)
        examples = reports.astype(np.float32).reshape(
            count, self.clients, work.size, work.family.record_width(work.width)
        )
        models, missing = base.astype(np.float32), self.length - count
        if missing:
            models, examples = (
                np.concatenate([given, np.repeat(given[-1:], missing, axis=0)])
                for given in (models, examples)
            )
        run = compiled(work).chunk(self.server.domain)
        rate = np.float32(self.server.rate)
        found = run(
            models,
            examples,
            pending.astype(np.float32) * np.float32(UNITS_PER_LOSS),
            rate / np.float32(UNITS_PER_LOSS),
            np.float32(self.server.momentum),
        )
        return np.asarray(found)[:count].astype(np.float64)

    @property
    def _encoder(self) -> Any:
        encoder = self.client.encoder or self.server.encoder
        assert encoder is not None
        return encoder.factorisation.encoder

    def _noise(self, count: int, source: NoiseSource) -> Array | None:
        """The noise of all learners together in each round; None if there is none."""
        width = self.client.work.width
        if self.client.reporting is not None:
            mechanism, noise = self.client.reporting, source.everyone("client", self.clients)
        elif self.server.releasing is not None:
            mechanism, noise = self.server.releasing, source.server()
        else:
            return None
        drawn = noise.draw(
            "gaussian", mechanism.purpose, (width,), rounds=count, scale=mechanism.scale
        )
        return drawn.sum(axis=1) if noise.batch else drawn

    def _memory(self, run: RunState) -> FilterState:
        """The state of the encoder, summed over learners."""
        if self.client.encoder is None:
            return FilterState(run.server.exchanges, run.server.filtered)
        return FilterState(run.server.exchanges, run.clients.memory.sum(axis=0))

    def _filters_after(self, run: RunState, sums: Array, total: Array) -> tuple[Array, Array]:
        """The memories of the learners and of the server after some rounds."""
        clients, server, count = run.clients.memory, run.server.filtered, run.server.exchanges
        if self.client.encoder is not None:
            rows = np.ascontiguousarray(np.moveaxis(clients, -2, 0))
            after = memory_after(self._encoder, FilterState(count, rows), sums)
            clients = np.ascontiguousarray(np.moveaxis(after.memory, 0, -2))
        elif self.server.encoder is not None:
            server = memory_after(self._encoder, FilterState(count, server), total).memory
        return clients, server


def _faded(rows: Array, before: Array, keep: float) -> Array:
    """Return t_k = keep t_(k-1) + (1 - keep) row_k for all rows."""
    if keep == 0:
        return rows
    found, last = np.empty_like(rows), before
    for k, row in enumerate(rows):
        last = np.add(keep * last, (1 - keep) * row, out=found[k])
    return found


@dataclass(frozen=True)
class OnlineSGD(AlgorithmSpec):
    r"""Train one model from the examples of many learners, with correlated noise.

    In every round each learner has a few examples. It adds up their gradients, each scaled down to
    `clip`, and releases the sum with noise. All play the released model; or, better, the average of
    the released models, which has less noise at no cost.

    Use it with your own model (`hr.Model`), or for regression (`hr.Logistic`,
    `hr.SquaredError`, `hr.Huber`). Give several examples in every round with `hr.Batch`. It needs
    JAX: `pip install hedgerow[learning]`.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1. `inf`: no noise and no guarantee, for
        comparison.
    delta
        The second part of the budget, in (0, 1). Default 1e-6: Gaussian noise needs one.
    trust
        "local" (default): every learner filters its sums and adds all the noise that protects it.
        "distributed": every learner adds a share of the noise, and the server sees only the sum of
        all uploads (a simulation of secure aggregation). "central": the server receives exact sums,
        filters them and adds the noise.
    steps
        Where gradients are taken, and what is true of the loss. "start" (default): at the released
        model; the noise is the smallest, for any loss. The others take a local step after every
        example. Their noise depends on what you state about the loss: "convex" (and smooth),
        "smooth", or "clipped" (nothing; the noise is as many times larger as there are examples in
        a round).
    factorisation
        Which noise: "blt" (default, a few buffers and close to the best), "dense" (the best, for up
        to a few thousand rounds), "root", "tree", "naive_tree", "banded", "epochs", "independent",
        a `Factorisation` for all rounds, or "matched": a few buffers that are best for the average.
    buffers
        How many earlier vectors the filter of "blt", "matched" and "banded" keeps, at least 1.
        Default 4.
    clip
        The longest gradient of one example; longer ones are scaled down. None (default): the bound
        that the loss family declares, or 1 if it declares none.
    step
        The size of the steps of the server along the mean gradient. None (default): the smaller of
        1/(8 L) and 1/(10 L ln R) for an L-smooth loss and R rounds, for which the text proves its
        bounds for convex losses; 0.1 if L is not known. Larger steps are often better. Try them on
        public data: a step that is tuned on private data is not covered.
    local_step
        The size of a local step. None (default): `step` divided by the examples in a round, so that
        local steps add up to a step of the server.
    average
        The share that an exponential average of the released models keeps in every round, in
        (0, 1), such as 0.99. Gradients are taken at the released model. None (default): no average.
    momentum
        The share of the last move that the server keeps, in [0, 1). Default 0.
    calibration
        "certified" (default), or "published": the noise of Lemma IV.8. The certificate then holds
        the true curve beside what the text claims.

    Guarantee
    ---------
    One example of one learner in one round is protected with (epsilon, delta), although its
    gradient enters all later releases. "local": from every observer, even if all other learners
    collude. "distributed": from every observer, the server included, if only the sum of the uploads
    is visible and all learners but one keep their noise secret. "central": from the public and from
    other learners; the server is trusted. Proofs: `proofs/online_sgd.md#sensitivity`,
    `proofs/online_sgd.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> family = hr.Batch(hr.Logistic(radius=10.0), size=5)
    >>> setting = hr.Setting(clients=20, experts=100, horizon=1000, family=family)
    >>> for kind in ("independent", "tree", "blt"):
    ...     built = hr.OnlineSGD(epsilon=2.0, delta=1e-3, factorisation=kind).build(setting)
    ...     print(kind, round(built.parameters["deviation"], 1))
    independent 408.8
    tree 87.1
    blt 42.2
    >>> print(built.certificate.server.unit.words())
    one of the 5 examples of one client in one round

    References
    ----------
    Zhang, Zhu, Fay and Johansson 2024; Denisov et al. 2022; Dvijotham et al. 2024.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={
            "central": {"trust": "central"},
            "distributed": {"trust": "distributed"},
            "local steps": {"steps": "convex", "average": 0.9, "momentum": 0.5},
            "published": {"steps": "clipped", "calibration": "published", "delta": 1e-3},
        },
        exact="trust='central' or trust='local'",
        meanings={
            "steps": "where gradients are taken, and what is true of the loss",
            "factorisation": "how the noise of the running sums is correlated",
            "buffers": "earlier vectors that the filter keeps",
            "clip": "longest gradient of one example; longer ones are scaled down",
            "step": "size of the steps of the server",
            "local_step": "size of a local step",
            "average": "share that the average of models keeps in every round",
            "momentum": "share of the last move that the server keeps",
            "factor": "sensitivity of a round sum, in units of 2 clip",
            "deviation": "largest standard deviation of the noise of a running sum",
        },
        families=(Batch, Logistic, SquaredError, Huber, Model, Linear),
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    trust: Trust = "local"
    steps: Steps = "start"
    factorisation: Kind | Literal["matched"] | Factorisation = "blt"
    buffers: int = 4
    clip: float | None = None
    step: float | None = None
    local_step: float | None = None
    average: float | None = None
    momentum: float = 0.0
    calibration: Calibration = "certified"

    def __post_init__(self) -> None:
        check_budget(1.0 if self.noiseless else self.epsilon, self.delta)
        text = "> 0, for example 1e-6: Gaussian noise has no pure guarantee"
        expect(self.delta > 0, "delta", self.delta, text)
        choices = {"trust": Trust, "steps": Steps, "calibration": Calibration}
        for name, allowed in choices.items():
            given = getattr(self, name)
            expect(given in get_args(allowed), name, given, f"in {get_args(allowed)}")
        if self.factorisation != "matched":
            check_kind(self.factorisation)
        at_least("buffers", self.buffers, 1)
        for name in ("clip", "step", "local_step"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.average is not None:
            expect(0 < self.average < 1, "average", self.average, "in (0, 1)")
        expect(0 <= self.momentum < 1, "momentum", self.momentum, "in [0, 1)")
        usual = self.calibration == "certified" or self.trust == "local"
        expect(usual, "trust", self.trust, "to be 'local' with calibration='published'")

    @property
    def noiseless(self) -> bool:
        """Whether no noise is added and nothing is protected."""
        return isinstance(self.epsilon, float) and isinf(self.epsilon) and self.epsilon > 0

    def resolve(self, setting: Setting) -> Algorithm:
        family, width, clients = setting.family, setting.experts, setting.clients
        single, size = (family.of, family.size) if isinstance(family, Batch) else (family, 1)
        _require_known(single, width)
        steepest, smooth = single.gradient_bound("l2", width), single.smoothness("l2", width)
        clip = min(steepest, self.clip or (steepest if isfinite(steepest) else CLIP))
        step = default_step(smooth, setting.rounds) if self.step is None else float(self.step)
        local = step / size if self.local_step is None else float(self.local_step)
        work = LocalRound(single, width, size, clip, self.steps, local)
        self._require_true(single, work, smooth)
        factors = self._factors(setting.rounds)
        central, change = self.trust == "central", round_sensitivity(work, smooth)
        client = LearningClient(work, self.average)
        first = single.start if isinstance(single, Model) else family.domain.centre(width)
        server = TrainingServer(
            width,
            1,
            factors,
            first=first,
            domain=family.domain,
            rate=step / (clients * size),
            momentum=self.momentum,
        )
        mechanism, deviation = None, 0.0
        if not self.noiseless:
            most = clip * size * (clients if central else 1)
            encoder = LatticeEncoder(factors, width, most)
            mechanism = self._noise(setting, encoder, change, clip)
            one = mechanism.scale * factors.errors().max
            deviation = one * (1.0 if central else sqrt(clients))
            if central:
                server = replace(server, encoder=encoder, releasing=mechanism)
            else:
                client = replace(client, encoder=encoder, reporting=mechanism)
        return Algorithm(
            name="online_sgd",
            setting=setting,
            client=client,
            server=server,
            certificate=self._certificate(setting, mechanism, work, smooth),
            upload=GradientSums,
            broadcast=Released,
            plays="point",
            advance=Training(client, server, clients).advance,
            reference=None if self.noiseless else replace(self, epsilon=inf).build(setting),
            measures=lambda: self._measures(family, single, clip, steepest),
            parameters={
                "clip": clip,
                "step": step,
                **({} if self.steps == "start" else {"local_step": local}),
                "factor": change / (2 * clip),
                "deviation": deviation,
            },
        )

    def _factors(self, rounds: int) -> Factorisation:
        if self.noiseless:
            return factorise("independent", rounds)
        if self.factorisation != "matched":
            return factorise(self.factorisation, rounds, self.buffers)
        kept = self.average or self.momentum
        expect(kept > 0, "average", self.average, "to be given with factorisation='matched'")
        return matched(rounds, kept, self.buffers)

    def _require_true(self, single: Family, work: LocalRound, smooth: float) -> None:
        """Refuse what is not known of the loss, or cannot be true after clipping."""
        name = type(single).__name__
        if self.steps in ("convex", "smooth") and not isfinite(smooth):
            raise InvalidValue(
                f"Expected a declared smoothness of {name} with steps={self.steps!r}. Declare it "
                "(`smooth`) if you can prove it; otherwise choose steps='start'."
            )
        if self.steps == "convex" and isinstance(single, Model):
            expect(single.convex, "convex", single.convex, "to be True with steps='convex'")
            bound = single.gradient_bound("l2", work.width)
            rule = f">= steepest={bound!r}: clipped gradients of a convex model need not be convex"
            expect(work.clip >= bound, "clip", work.clip, rule)

    def _noise(
        self, setting: Setting, encoder: LatticeEncoder, change: float, clip: float
    ) -> GaussianNoise:
        """The noise of one release.

        The sensitivity is that of all releases together, so the curve of the mechanism is that of
        the whole game.
        """
        moved = encoder.sensitivity(change)
        if self.calibration == "published":
            claimed = 2 * clip * encoder.factorisation.sensitivity()
            return GaussianNoise(
                "gradients", published_scale(self.epsilon, self.delta, claimed), moved
            )
        budget = Budget(self.epsilon, self.delta)
        return gaussian_noise(self.trust, "gradients", budget, moved, setting.clients)

    def _certificate(
        self, setting: Setting, mechanism: GaussianNoise | None, work: LocalRound, smooth: float
    ) -> Certificate:
        if mechanism is None:
            channels = {"GradientSums.sums": Channel.UPLOADS, **ANNOUNCED}
            return not_private("no noise is added", channels, setting.family.record)
        published = self.calibration == "published"
        return sums_certificate(
            setting=setting,
            mechanism=mechanism,
            central=self.trust == "central",
            delta=self.delta,
            upload="GradientSums.sums",
            announced=ANNOUNCED,
            sent="sums of gradients",
            proof=Proof(PROOF, "privacy"),
            assumes=_assumed(work, smooth),
            calibration=self.calibration,
            claimed=ApproximateDP(self.epsilon, self.delta) if published else None,
        )

    def _measures(
        self, family: Family, single: Family, clip: float, steepest: float
    ) -> tuple[Measure, ...]:
        """What is counted: shortened gradients where that is cheap, and contradictions."""
        if isinstance(single, Model):
            declared = self.steps in ("convex", "smooth")
            finite = NotFinite(family, single)
            return (finite, Contradicted(family, single)) if declared else (finite,)
        return (ShortenedExamples(family, clip),) if clip < steepest else ()

    def games(self) -> Games:
        """Return games with two examples in every round."""
        return learning_games()


def default_step(smooth: float, rounds: int) -> float:
    """Return the step for which the text proves its regret bounds for convex losses.

    >>> default_step(0.25, 1000) < 1 / (8 * 0.25), default_step(float("inf"), 1000)
    (True, 0.1)
    """
    if not 0 < smooth < inf:
        return STEP
    return min(1 / (8 * smooth), 1 / (10 * smooth * max(1.0, log(rounds))))


def published_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the scale of noise by the conversion of Lemma IV.8, through concentrated DP.

    >>> round(published_scale(0.5, 1e-3, 1.0), 3), round(published_scale(2.0, 1e-3, 1.0), 3)
    (7.566, 1.984)
    """
    away = log(1 / delta)
    root = sqrt(epsilon + away) - sqrt(away)
    return sensitivity / (sqrt(2.0) * root)


def _require_known(single: Family, width: int) -> None:
    if isinstance(single, Model):
        expect(
            single.weights == width,
            "experts",
            width,
            f"to be {single.weights}, the weights of {single!r}: one tree of parameters is trained",
        )
    elif type(single) not in (Logistic, SquaredError, Huber, Linear):
        raise Unsupported(
            f"OnlineSGD does not know the gradient of {type(single).__name__}. Write its loss as "
            "hr.Model(loss, ...)."
        )


def _assumed(work: LocalRound, smooth: float) -> frozenset[Assumption]:
    """What the certificate assumes about the loss."""
    if work.steps not in ("convex", "smooth"):
        return frozenset()
    what = "convex and " if work.steps == "convex" else ""
    text = f"the loss of {type(work.family).__name__} is {what}{smooth:g}-smooth"
    if isinstance(work.family, Model):
        if work.steps == "convex":
            steepest = work.family.gradient_bound("l2", work.width)
            text += f" with gradients of norm at most {steepest:g}"
        text += ", as declared, and gradients along the local steps are computed exactly"
    else:
        text += ", as proven"
    return frozenset({Assumption("DECLARED_SMOOTHNESS", text)})
