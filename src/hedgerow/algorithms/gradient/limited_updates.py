"""Limited Updates: a private offline method, run again on each block of 2, 4, 8, ... rounds.

The point of a block is computed from the records of the block before it, and from nothing else. So
every record enters one run of a private method, and the whole game costs as much privacy as one
run. Any method for stochastic convex optimisation plugs in (`Subroutine`). The regret bound assumes
that records are independent and follow one law.

The reduction is Algorithm 2 of Asi, Feldman, Koren and Talwar 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar, get_args

import numpy as np

from hedgerow.algorithms.gradient.clipped import KNOWN, Shortened, farthest, finite, known
from hedgerow.algorithms.gradient.phased_gradient import phased_gradient
from hedgerow.algorithms.gradient.subroutine import Law, Subroutine
from hedgerow.algorithms.gradient.trial_games import huber_games
from hedgerow.algorithms.shared.noisy_reports import Trust, check_honest, noisy_reports
from hedgerow.algorithms.shared.points import PlaysPoint
from hedgerow.core.certificate import Certificate, Channel, Proof, trusted_server
from hedgerow.core.domain import Domain
from hedgerow.core.errors import InvalidValue
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Vector, Whole
from hedgerow.core.limits import Broadcasts, Numbers, Planned, Range, Uploads
from hedgerow.core.measure import Measure
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget, gaussian_delta, one_of, positive
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.curves import GaussianDP, Quoted

PROOF = "limited_updates.md"
ANNOUNCED = {
    "Released.rounds": Channel.TIMING,
    "Released.total": Channel.BROADCASTS,
    "Released.samples": Channel.TIMING,
    "Released.step": Channel.TIMING,
}


@dataclass(frozen=True)
class Report(Upload):
    """The report of one client at the end of a step, exact or with noise."""

    values: Vector


@dataclass(frozen=True)
class Released(Broadcast):
    """The noisy sum of all reports, and the step that comes next in a block of `samples` rounds."""

    total: Vector
    samples: int
    step: int


@dataclass(frozen=True)
class UpdatesClientState:
    """The point to play, the public vector of the run, and the memory of the step.

    `seen` counts the records in the memory. `samples` and `step` say where in which block it is.
    """

    point: Vector
    public: Vector
    memory: Vector
    samples: Whole
    step: Whole
    seen: Whole


@dataclass(frozen=True)
class SamplingClient(PlaysPoint):
    """Plays the point of the last block and folds the records of this block into its memory.

    If there is a mechanism `reporting`, it adds noise to the reports before they leave the client.
    """

    state: ClassVar[type[Any]] = UpdatesClientState

    subroutine: Subroutine
    domain: Domain
    coordinates: int
    reporting: Mechanism | None = None

    def start(self, noise: Noise) -> UpdatesClientState:
        point = np.broadcast_to(self.centre, (*noise.batch, len(self.centre)))
        public = self.subroutine.start(point)
        zeros = np.zeros(noise.batch, np.int64)
        return UpdatesClientState(point, public, self.subroutine.empty(public), zeros, zeros, zeros)

    @property
    def centre(self) -> Array:
        """The first point."""
        return self.domain.centre(self.coordinates)

    def receive(self, state: UpdatesClientState, broadcast: Released) -> UpdatesClientState:
        point, public = state.point, state.public
        opened = bool(state.samples.flat[0])  # the opening broadcast answers nothing
        if opened:
            public = self.subroutine.answer(broadcast.total, public, *self._at(state))
        if opened and broadcast.step == 0:
            point = self.subroutine.point(public)
            public = self.subroutine.start(point)
        return UpdatesClientState(
            point,
            public,
            self.subroutine.empty(public),
            np.full_like(state.samples, broadcast.samples),
            np.full_like(state.step, broadcast.step),
            np.zeros_like(state.seen),
        )

    def _at(self, state: UpdatesClientState) -> tuple[int, int]:
        """The rounds of the block, and the step in it; all clients are in the same."""
        return max(self.subroutine.least, int(state.samples.flat[0])), int(state.step.flat[0])

    def observe(
        self, state: UpdatesClientState, reports: Array, noise: Noise
    ) -> UpdatesClientState:
        return self.observe_many(state, reports[None], noise)

    def observe_many(
        self, state: UpdatesClientState, reports: Array, noise: Noise
    ) -> UpdatesClientState:
        samples, step = self._at(state)
        memory = self.subroutine.take(state.memory, reports, state.public, samples, step)
        return replace(state, memory=memory, seen=np.asarray(state.seen + len(reports)))

    def upload(self, state: UpdatesClientState, noise: Noise) -> tuple[Report, UpdatesClientState]:
        samples, step = self._at(state)
        opened = bool(state.samples.flat[0])  # before the opening broadcast there are no records
        expected = self.subroutine.steps(samples)[step] if opened else 0
        if not (state.seen == expected).all():  # a record more or less would count for more
            raise InvalidValue(
                f"Expected {expected} records in a report that was not sent before, got "
                f"{int(state.seen.flat[0])}."
            )
        values = self.subroutine.report(state.memory, state.public, samples, step)
        values = finite(values)
        if self.reporting is not None:
            values = noise.release(self.reporting, values)
        return Report(values), replace(state, seen=np.zeros_like(state.seen))


@dataclass(frozen=True)
class UpdatesServerState:
    """The rounds of the current block, and the current step in it."""

    samples: int
    step: int


@dataclass(frozen=True)
class UpdatingServer:
    """Releases the sum of the reports of each step; blocks double.

    With a mechanism `releasing` it adds the noise. Without one the reports already have noise.
    """

    state: ClassVar[type[Any]] = UpdatesServerState

    subroutine: Subroutine
    releasing: Mechanism | None = None

    def open(self, noise: Noise) -> tuple[Released, UpdatesServerState]:
        return self._announce(np.zeros(self.subroutine.width), self.subroutine.least, 0)

    def aggregate(
        self, state: UpdatesServerState, uploads: Report, noise: Noise
    ) -> tuple[Released, UpdatesServerState]:
        total = uploads.values
        if self.releasing is not None:
            total = noise.release(self.releasing, total)
        samples, step = state.samples, state.step + 1
        if step == len(self.subroutine.steps(samples)):
            samples, step = min(2 * samples, self.subroutine.longest), 0
        return self._announce(total, samples, step)

    def _announce(
        self, total: Array, samples: int, step: int
    ) -> tuple[Released, UpdatesServerState]:
        rounds = self.subroutine.steps(samples)[step]
        return Released(rounds, total, samples, step), UpdatesServerState(samples, step)


def reduction(
    name: str,
    setting: Setting,
    subroutine: Subroutine,
    trust: Trust,
    *,
    delta: float = 0.0,
    parameters: Mapping[str, Any] | None = None,
    measures: Callable[[], tuple[Measure, ...]] | None = None,
) -> Algorithm:
    """Return the online algorithm that runs a private method on one block after the other.

    Parameters
    ----------
    name
        The name of the algorithm.
    setting
        The setting of the game.
    subroutine
        The private method.
    trust
        "central": the server draws the noise. "local": every client draws it. "distributed": every
        client draws a share, so `subroutine.noise` is a `GaussianShare`.
    delta
        The delta at which a Gaussian curve is quoted.
    parameters, measures
        What else the algorithm reports.

    Examples
    --------
    >>> import hedgerow as hr
    >>> from hedgerow.algorithms.gradient.phased_gradient import phased_gradient
    >>> setting = hr.Setting(clients=2, experts=3, horizon=None, family=hr.Logistic())
    >>> method = phased_gradient(setting, hr.Budget(1.0, 1e-6), "local")
    >>> reduction("mine", setting, method, "local", delta=1e-6).certificate.trust
    'local'
    """
    central, alone = trust == "central", setting.clients == 1
    reporting, releasing = (None, subroutine.noise) if central else (subroutine.noise, None)
    bound = regret_bound(setting, subroutine)
    return Algorithm(
        name=name,
        setting=setting,
        client=SamplingClient(subroutine, setting.family.domain, setting.experts, reporting),
        server=UpdatingServer(subroutine, releasing),
        certificate=_certificate(setting, subroutine, trust, delta),
        uploads=Uploads(Report, _ranges(subroutine, central)),
        broadcasts=Broadcasts(
            Released,
            {
                "rounds": Planned(subroutine),
                "total": Numbers.noisy(subroutine.width, setting.clients),
                "samples": Planned(subroutine, "samples"),
                "step": Planned(subroutine, "step"),
            },
        ),
        plays="point",
        claims=Claims(
            regret_bound=RegretBound(bound, "stochastic", Proof(PROOF, "regret"))
            if bound is not None and alone
            else None,
            measures=measures,
        ),
        parameters={
            **(parameters or {}),
            **({} if bound is None or alone else {"regret_if_alike": bound}),
        },
    )


def _ranges(subroutine: Subroutine, central: bool) -> dict[str, Range]:
    """Where honest reports lie, if it is known."""
    width, most = subroutine.width, subroutine.most
    if not central:
        return {"values": Range.noisy(width)}
    return {} if most is None else {"values": Range(width, -most, most)}


def _certificate(
    setting: Setting, subroutine: Subroutine, trust: Trust, delta: float
) -> Certificate:
    noise = subroutine.noise
    curve = noise.curve
    assert curve is not None
    if isinstance(curve, GaussianDP):
        curve = Quoted(curve, delta)
    proof = Proof(PROOF, "one-run-for-each-record")
    if trust == "central":
        return trusted_server(
            setting=setting,
            curve=curve,
            proof=proof,
            channels={"Report.values": Channel.UPLOADS, **ANNOUNCED},
            mechanisms=(noise,),
            composition="sum",
            entered=1,
            sent="results of their records",
            assumes=subroutine.assumes,
        )
    return noisy_reports(
        setting=setting,
        reporting=noise,
        report="Report.values",
        announced=ANNOUNCED,
        curve=curve,
        proof=proof,
        composition="sum",
        entered=1,
        assumes=subroutine.assumes,
    )


def blocks(least: int, longest: int, horizon: int) -> list[tuple[int, int]]:
    """For every block but the first: the rounds of the block before, and the rounds played in it.

    >>> blocks(2, 4, 15)
    [(2, 4), (4, 4), (4, 4), (4, 1)]
    """
    found, samples, played = list[tuple[int, int]](), least, least
    while played < horizon:
        before, samples = samples, min(2 * samples, longest)
        found.append((before, min(samples, horizon - played)))
        played += samples
    return found


def regret_bound(setting: Setting, subroutine: Subroutine) -> float | None:
    """Bounds the expected regret per client, for independent records that follow one law.

    It must be the same law for all clients. None without a horizon, or if nothing is proven about
    the subroutine.
    """
    if setting.horizon is None or subroutine.excess(subroutine.least) is None:
        return None
    horizon, family, width = setting.horizon, setting.family, setting.experts
    slope, reach = family.gradient_bound("l2", width), farthest(family.domain, width)
    total = slope * reach * (min(subroutine.least, horizon) + sqrt(horizon / setting.clients))
    for before, rounds in blocks(subroutine.least, subroutine.longest, horizon):
        excess = subroutine.excess(before)
        assert excess is not None
        total += rounds * min(slope * family.domain.diameter, excess)
    low, high = family.bounds
    return min(total, horizon * (high - low))


@dataclass(frozen=True)
class RunPlan:
    """What experts may choose about the runs of `LimitedUpdates`.

    Parameters
    ----------
    noise
        The law of the noise: "gaussian" needs delta > 0; "euclidean" (smaller) and "laplace" (with
        an exact sampler for real data) are pure. None (default): "gaussian" if delta > 0, otherwise
        "euclidean".
    phases
        How many steps a run has, at most; fewer where samples are few. None (default): the number
        with the smallest proven regret.
    warm
        Whether a run starts at the last point instead of the centre. The proven regret is larger,
        but if noise is small, so that points are good, less regret is measured.
    """

    noise: Law | None = None
    phases: int | None = None
    warm: bool = False

    def __post_init__(self) -> None:
        one_of(self, noise=(None, *get_args(Law)))
        if self.phases is not None:
            at_least("phases", self.phases, 1)


FREE = RunPlan()


@dataclass(frozen=True)
class LimitedUpdates(AlgorithmSpec):
    """Play the result of a private offline method, run again on blocks of 2, 4, 8, ... rounds.

    Use it for points if records are independent and follow one law, the same for all clients. A
    regret bound that covers clients with different laws is proven for one client only; for more,
    the parameter `regret_if_alike` is the bound for one law. The point of a block comes from
    the records of the block before. In a block each client takes gradient steps along its records;
    now and then the mean of all clients' points is published with noise, and all go on from it
    (phased gradient descent). No horizon is needed. With one client and Gaussian noise this is the
    algorithm behind Corollary 13 of Asi et al. 2023.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). Default 1e-6. 0 gives pure differential privacy.
    trust
        "central" (default): the server receives exact reports and adds noise to their sum.
        "distributed": every client adds a share of Gaussian noise, and the server sees only the sum
        of all reports. "local": every client adds all the
        noise that protects it.
    clip
        The longest gradient; longer ones are shortened, and the measure `clipped` counts them. None
        (default): the bound that the loss family declares. A smaller one means less noise, but then
        no regret bound is proven. Not for `CrossEntropy`.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".
    plan
        What experts may choose themselves: `RunPlan(noise, phases, warm)` of
        `hedgerow.algorithms.gradient.limited_updates`, in a study file a table. None
        (default): chosen from public values.

    Guarantee
    ---------
    One record of one client in one round is protected with (epsilon, delta). "central": from the
    public and from other clients, even if all of them collude; the server is trusted.
    "distributed": from every observer, the server included, if only the sum of the uploads is
    visible and `honest` clients keep their shares secret. "local": from every observer, even if
    all other clients collude. Proofs: `proofs/limited_updates.md#one-run-for-each-record`,
    `proofs/limited_updates.md#phased-gradient-descent`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Classification(clients=10, features=5, horizon=4096)
    >>> algorithm = hr.LimitedUpdates().build(game.setting)
    >>> print(algorithm.certificate.peer.curve.words())
    epsilon = 1, delta = 1e-6
    >>> hr.LimitedUpdates(delta=0.0).build(game.setting).certificate.peer.curve.stated()
    (1.0, 0.0)

    References
    ----------
    Asi, Feldman, Koren and Talwar 2023, Algorithm 2; Feldman, Koren and Talwar 2020.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={
            "pure": {"delta": 0.0, "plan": RunPlan(phases=2)},
            "distributed": {"trust": "distributed"},
            "local": {"trust": "local"},
        },
        exact="plan.noise='laplace' or, if delta > 0, plan.noise='gaussian'",
        meanings={
            "noise": "distribution of the noise",
            "clip": "longest gradient; longer ones are shortened",
            "phases": "steps of a run, at most",
            "honest": "number of clients whose shares of noise are enough",
            "regret_if_alike": "proven regret bound if all clients follow one law",
            "noise_deviation": "root mean square length of the noise of a mean report, in steps",
        },
        anytime=True,
        families=KNOWN,
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    trust: Trust = "central"
    clip: float | None = None
    honest: int | None = None
    plan: RunPlan | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        one_of(self, trust=get_args(Trust))
        check_honest(self.trust, self.honest)
        known = self.plan is None or isinstance(self.plan, RunPlan)
        if not known:
            raise InvalidValue(f"Expected plan={self.plan!r} to be a RunPlan or None.")
        noise = self.given.noise
        if self.clip is not None:
            positive("clip", self.clip)
        gaussian = self.trust == "distributed" or noise == "gaussian"
        if gaussian:
            gaussian_delta(self.delta)
        if self.delta != 0 and noise in ("euclidean", "laplace"):
            raise InvalidValue(
                f"Expected delta={self.delta!r} to be 0 with noise={noise!r}, which is epsilon-DP."
            )

    @property
    def given(self) -> RunPlan:
        """The plan; empty if there is none."""
        return self.plan or FREE

    def resolve(self, setting: Setting) -> Algorithm:
        method = phased_gradient(
            setting,
            Budget(self.epsilon, self.delta),
            self.trust,
            self.given.noise,
            self.clip,
            phases=self.given.phases,
            warm=self.given.warm,
            honest=self.honest,
        )
        counted = method.clip < method.steepest or not known(setting.family)
        return reduction(
            "limited_updates",
            setting,
            method,
            self.trust,
            delta=self.delta,
            parameters={
                "noise": method.noise.words(),
                "noise_deviation": method.deviation,
                "clip": method.clip,
            },
            measures=(lambda: (Shortened(setting.family, method.clip),)) if counted else None,
        )

    def games(self) -> Games | None:
        """Return games of Huber losses."""
        return huber_games(horizon=16)
