"""Noisy FTRL: follow the regularised leader on private running sums of gradients (DP-FTRL).

Every client sends the gradients at the point that is played. They are filtered, released with
Gaussian noise and decoded into running sums, whose noise is correlated and small. The next point
minimises the linear loss with this sum plus a quadratic penalty. Gradients are taken where
everybody plays, so privacy needs neither convex nor smooth losses; and the regret bound holds for
losses that react to the plays. Proofs: `proofs/noisy_ftrl.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar, get_args

import numpy as np

from hedgerow.algorithms.correlated.decoding import DecodingServer, DecodingState, sums_certificate
from hedgerow.algorithms.gradient.clipped import Shortened, farthest, finite, known
from hedgerow.algorithms.gradient.trial_games import huber_games
from hedgerow.algorithms.shared.noisy_reports import Trust, check_honest, gaussian_noise
from hedgerow.algorithms.shared.points import PlaysPoint
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import check_interval
from hedgerow.core.certificate import Channel, Proof
from hedgerow.core.convex import CrossEntropy, Huber, Logistic, SquaredError
from hedgerow.core.domain import Domain
from hedgerow.core.errors import InvalidValue
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array, clip_to_lattice
from hedgerow.core.layout import Matrix, Vector, Whole
from hedgerow.core.limits import ANY_CLOSING, WAIT_ONLY, Broadcasts, Planned, Points, Range, Uploads
from hedgerow.core.losses import Family, Linear
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protecting import with_own_pattern
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit
from hedgerow.core.validate import at_least, check_budget, gaussian_delta, one_of, positive
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.kinds import Kind, check_kind, factorise
from hedgerow.running_sums.lattice import LatticeEncoder, memory_of_clients

PROOF = "noisy_ftrl.md"
ANNOUNCED = {"Leader.rounds": Channel.TIMING, "Leader.point": Channel.BROADCASTS}


@dataclass(frozen=True)
class Leader(Broadcast):
    """The point to play: the regularised leader on the decoded sums."""

    point: Vector


@dataclass(frozen=True)
class Gradients(Upload):
    """The gradients of one client since its last upload; filtered and noisy, or exact."""

    gradients: Vector


@dataclass(frozen=True)
class FTRLClientState:
    """The point to play, gradients since the last upload, and the filter: uploads, memory."""

    point: Vector
    gradients: Vector
    uploads: Whole
    filtered: Matrix


@dataclass(frozen=True)
class Following(PlaysPoint):
    """Plays the point of the server and adds up clipped gradients at it.

    If there is an encoder, the sums are filtered and get noise before they leave the client.
    """

    state: ClassVar[type[Any]] = FTRLClientState

    width: int
    family: Family
    clip: float
    encoder: LatticeEncoder | None = None
    reporting: GaussianNoise | None = None

    def start(self, noise: Noise) -> FTRLClientState:
        shape = (*noise.batch, self.width)
        point = np.broadcast_to(self.family.domain.centre(self.width), shape)
        filtered = memory_of_clients(self.encoder, shape)
        return FTRLClientState(point, np.zeros(shape), np.zeros(noise.batch, np.int64), filtered)

    def receive(self, state: FTRLClientState, broadcast: Leader) -> FTRLClientState:
        shape = state.gradients.shape
        point = np.broadcast_to(broadcast.point, shape)
        return replace(state, point=point, gradients=np.zeros(shape))

    def observe(self, state: FTRLClientState, reports: Array, noise: Noise) -> FTRLClientState:
        return self.observe_many(state, reports[None], noise)

    def observe_many(self, state: FTRLClientState, reports: Array, noise: Noise) -> FTRLClientState:
        gradients = finite(self.family.gradient(reports, state.point))
        added = clip_to_lattice(gradients, self.clip).sum(axis=0)  # exact, in any order
        return replace(state, gradients=state.gradients + added)

    def upload(self, state: FTRLClientState, noise: Noise) -> tuple[Gradients, FTRLClientState]:
        if self.encoder is None or self.reporting is None:
            return Gradients(state.gradients), state
        values, memory = self.encoder.step_clients(state.uploads, state.filtered, state.gradients)
        after = replace(state, uploads=np.asarray(state.uploads + 1), filtered=memory)
        return Gradients(noise.release(self.reporting, values)), after


@dataclass(frozen=True, kw_only=True)
class Leading(DecodingServer):
    """Broadcasts the regularised leader on the decoded sums of all clients' gradients."""

    domain: Domain
    weight: float

    def open(self, noise: Noise) -> tuple[Leader, DecodingState]:
        return Leader(self.schedule.wait(0), self.domain.centre(self.width)), self.start()

    def aggregate(
        self, state: DecodingState, uploads: Gradients, noise: Noise
    ) -> tuple[Leader, DecodingState]:
        sums, after = self.running_sums(state, uploads.gradients, noise)
        point = self.domain.project(self.domain.centre(self.width) - sums / self.weight)
        return Leader(self.schedule.wait(after.exchanges), point), after


@dataclass(frozen=True)
class NoisyFTRL(AlgorithmSpec):
    r"""Follow the regularised leader on private running sums of gradients (DP-FTRL).

    Use it for points if losses may react to the plays, or follow no law. After k exchanges all
    clients play the projection of $c - S_k / (m \lambda)$ onto the domain, where c is its centre
    and $S_k$ the private sum of all clients' gradients so far.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in (0, 1). Default 1e-6: Gaussian noise needs one.
    trust
        "central" (default): the server receives exact gradients, filters them and adds the noise.
        "distributed": every client filters its gradients and adds a share of the noise, and the
        server sees only the sum of all uploads. "local": every
        client filters its gradients and adds all the noise that protects it.
    every
        Rounds between two exchanges: from 1 (default) to the horizon.
    factorisation
        Which noise: "tree" (default, as in Kairouz et al. 2021, with least squares), "blt" (smaller
        noise, a few buffers), "root" (the square root, which remembers everything), "banded",
        "epochs", "dense", "naive_tree" or "independent" (see `factorise`), or a factorisation for
        as many rounds as there are exchanges.
    clip
        The longest gradient, in [2^-20, 2^30]; longer ones are shortened, and the measure `clipped`
        counts them. None (default): the bound that the loss family declares. With a smaller one no
        regret bound is proven.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. Default:
        True; without them nothing is known in the first `every` rounds.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".

    Guarantee
    ---------
    One record of one client in one round is protected with (epsilon, delta), although its gradient
    enters all later releases. "central": from the public and from other clients, even if all of
    them collude; the server is trusted. "distributed": from every observer, the server included, if
    only the sum of the uploads is visible and `honest` clients keep their shares secret. "local":
    from every observer, even if all other clients collude. Proof: `proofs/noisy_ftrl.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Classification(clients=10, features=5, horizon=1024)
    >>> for kind in ("independent", "tree", "blt"):
    ...     built = hr.NoisyFTRL(factorisation=kind).build(game.setting)
    ...     print(kind, round(built.regret_at_most), built.claims.regret_bound.covers)
    independent 831 adaptive
    tree 424 adaptive
    blt 339 adaptive

    References
    ----------
    Kairouz et al. 2021 (DP-FTRL); Agarwal and Singh 2017; Denisov et al. 2022.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"distributed": {"trust": "distributed"}, "local": {"trust": "local"}},
        meanings={
            "factorisation": "how the noise of the running sums is correlated",
            "clip": "longest gradient; longer ones are shortened",
            "penalty": "weight of the quadratic penalty",
            "deviation": "largest standard deviation of the noise of a running sum",
            "honest": "number of clients whose shares of noise are enough",
            **MEANINGS,
        },
        families=(SquaredError, Logistic, Huber, CrossEntropy, Linear),
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    trust: Trust = "central"
    every: int = 1
    factorisation: Kind | Factorisation = "tree"
    clip: float | None = None
    early: bool = True
    honest: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        gaussian_delta(self.delta)
        one_of(self, trust=get_args(Trust))
        check_honest(self.trust, self.honest)
        check_kind(self.factorisation)
        at_least("every", self.every, 1)
        if self.clip is not None:
            positive("clip", self.clip)

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        return with_own_pattern(self, unit, setting)

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        check_honest(self.trust, self.honest, setting)
        family, width, clients = setting.family, setting.experts, setting.clients
        steepest = family.gradient_bound("l2", width)
        clip = steepest if self.clip is None else min(self.clip, steepest)
        if not 2.0**-20 <= clip <= 2.0**30:
            raise InvalidValue(f"Expected clip={clip!r} in [2^-20, 2^30]: use other units.")
        schedule = Schedule.of(self.every, self.early)
        batches = schedule.count(setting.rounds) + 1
        factors = factorise(self.factorisation, batches)
        central = self.trust == "central"
        encoder = LatticeEncoder(factors, width, clip * self.every * (clients if central else 1))
        # one record moves one gradient by at most 2 clip; the sensitivity is that of all releases
        # together, so the curve of the mechanism is that of the whole game
        budget, pattern = Budget(self.epsilon, self.delta), self.pattern(setting, self.every)
        moved = encoder.sensitivity(2 * clip, *pattern)
        mechanism = gaussian_noise(self.trust, "gradients", budget, moved, clients, self.honest)
        errors = mechanism.scale * (1.0 if central else sqrt(clients)) * factors.error_by_round()
        off = (1 if central else clients) * encoder.rounding() / 2 * factors.errors().max
        moves = batch_moves(setting, schedule, errors, off)
        weight = sqrt(2 * moves) / farthest(family.domain, width)
        client = Following(width, family, clip)
        server = Leading(width, schedule, factors, domain=family.domain, weight=clients * weight)
        if central:
            server = replace(server, encoder=encoder, releasing=mechanism)
        else:
            client = replace(client, encoder=encoder, reporting=mechanism)
        proven = clip >= steepest
        return Algorithm(
            name="noisy_ftrl",
            setting=setting,
            client=client,
            server=server,
            certificate=sums_certificate(
                setting=setting,
                mechanism=mechanism,
                central=central,
                delta=self.delta,
                upload="Gradients.gradients",
                announced=ANNOUNCED,
                proof=Proof(PROOF, "privacy"),
                sent="sums of gradients",
            ),
            uploads=Uploads(
                Gradients,
                {"gradients": Range(width, -clip, clip) if central else Range.noisy(width)},
                closing=ANY_CLOSING if central and pattern[0] == 1 else WAIT_ONLY,
            ),
            broadcasts=Broadcasts(
                Leader, {"rounds": Planned(schedule), "point": Points(family.domain, width)}
            ),
            plays="point",
            claims=Claims(
                regret_bound=RegretBound(
                    regret_bound(setting, moves, weight), "adaptive", Proof(PROOF, "regret")
                )
                if proven
                else None,
                measures=None if proven and known(family) else (lambda: (Shortened(family, clip),)),
            ),
            parameters={
                "clip": clip,
                "penalty": weight,
                "deviation": float(errors.max()),
                **schedule.shown(setting),
            },
        )

    def games(self) -> Games:
        """Return games of Huber losses."""
        return huber_games(horizon=10)


def batch_moves(setting: Setting, schedule: Schedule, errors: Array, off: float = 0.0) -> float:
    """Bounds the sum over batches of (slope of the batch) * (move of the leader, times lambda).

    `errors` are the standard deviations of the decoded sums after each exchange. `off` bounds how
    far rounding of filtered values moves a decoded sum (Euclidean).
    """
    width, clients = setting.experts, setting.clients
    batches = schedule.count(setting.rounds) + 1
    lengths = schedule.lengths(setting.rounds)
    lengths[-1] = schedule.wait(batches - 1)  # counts as a whole one
    slope = lengths * setting.family.gradient_bound("l2", width)
    noise = np.concatenate([[0.0], np.asarray(errors, float)])[:batches]
    rounded = lengths * sqrt(width) * 2.0**-20  # of the gradients, to the lattice
    return float((slope * (slope + rounded + (sqrt(width) * noise + off) / clients)).sum())


def regret_bound(setting: Setting, moves: float, weight: float) -> float:
    """Bounds the expected regret per client; losses may react to the plays.

    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=4, horizon=1000, family=hr.Huber())
    >>> moves = batch_moves(setting, Schedule(1), np.full(1000, 30.0))
    >>> round(regret_bound(setting, moves, (2 * moves) ** 0.5), 1)
    80.6
    """
    family, width = setting.family, setting.experts
    reach = farthest(family.domain, width)
    rounded = setting.rounds * sqrt(width) * 2.0**-20 * family.domain.diameter
    low, high = family.bounds
    return min(weight * reach**2 / 2 + moves / weight + rounded, setting.rounds * (high - low))
