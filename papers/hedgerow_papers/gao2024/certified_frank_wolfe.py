"""Federated private Frank-Wolfe: phases of 1, 2, 4, ... rounds, gradients estimated on trees.

The point of a phase is computed from the records of the phase before it, and from nothing else.
Every record is in the batch of one vertex of one tree, so it is used once. At each leaf
the clients send an estimate of the gradient, and the point moves towards the expert with the
smallest coordinate. The regret bound assumes that records are independent and follow one law.

The algorithm is Fed-DP-OPE-Stoch (Algorithms 1 to 3) of Gao, Huang and Yang 2024; with one client
it is Limited Updates (Asi et al. 2023) with the private Frank-Wolfe method of Asi et al. 2021.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from math import sqrt
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.gradient.clipped import Shortened, known
from hedgerow.algorithms.phases.phased_selection import choice_excess, leader_excess
from hedgerow.algorithms.shared.noisy_reports import (
    Trust,
    all_but_one,
    check_honest,
    gaussian_share,
    noisy_reports,
)
from hedgerow.core.certificate import (
    Certificate,
    Channel,
    Composition,
    PrivacyCurve,
    Proof,
    trusted_server,
)
from hedgerow.core.convex import CrossEntropy, Huber, OnSimplex
from hedgerow.core.errors import InvalidValue
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array
from hedgerow.core.limits import Between, Broadcasts, Planned, Range, Uploads
from hedgerow.core.losses import Linear, Norm
from hedgerow.core.measure import Measure
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.replay import Replay
from hedgerow.core.rounding import round_up
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Unit
from hedgerow.core.validate import at_least, check_budget, gaussian_delta, one_of
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import gaussian_scale, laplace_scale
from hedgerow.privacy.curves import PureDP, Quoted
from hedgerow.privacy.mechanisms import AdditiveNoise, GaussianNoise, KNorm, NoisyMax
from hedgerow_papers.gao2024.gradients import BoundedGradients
from hedgerow_papers.gao2024.tree_bounds import (
    Excess,
    regret_bound,
    weights,
    worst_leaf,
)
from hedgerow_papers.gao2024.tree_roles import (
    ANNOUNCED,
    FrankWolfeClient,
    FrankWolfeServer,
    GradientSum,
    Placement,
    Schedule,
    Towards,
)
from hedgerow_papers.gao2024.trees import MOST_TREES, Plan, plan, plans

PROOF = "frank_wolfe.md"
PURPOSE = "gradient"
Report = Literal["k_norm", "laplace", "gaussian"]
LATER = (5, 11, 12, 19, 20, 26, 27)  # rounds whose records are at right children
NORMS: dict[str, Norm] = {"k_norm": "linf", "laplace": "l1", "gaussian": "l2", "choice": "linf"}


@dataclass(frozen=True)
class FrankWolfe(AlgorithmSpec):
    """Play a point of the simplex, computed by private Frank-Wolfe steps from the last phase.

    The point of the rounds t with 2^k <= t < 2^(k+1) (counted from 1) is computed from the records
    of the rounds 2^(k-1), ..., 2^k - 1. Use it for convex losses that are curved: mixtures of
    forecasts, or forecasts of a distribution. For plain losses of experts, `PhasedSelection` has
    less regret. Records must be independent and follow one distribution.

    A phase of n rounds has T1 trees if n >= 2^T1 (T1 + T1 (T1 + 1) / 4); with fewer rounds than for
    a single tree (n < 3) one batch of all records is used for one step.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). It must be > 0 for Gaussian noise: with
        trust="distributed" or report="gaussian". Elsewhere it must be 0 (default), unless the
        choice of the noise is left open (report=None).
    trust
        "central" (default): the server receives exact sums. "distributed": secure aggregation
        shows the server only the sum of all uploads, and every client adds a share of Gaussian
        noise. "local": every client adds noise to what it sends.
    noise
        "leaf": each leaf gets its own noise, as published; a trusted server then chooses an expert
        by permute-and-flip. "vertex": the part of an estimate that is new at a leaf gets noise
        once, and estimates add up what was released on their path; with three trees or more this
        is less noise. None (default): "leaf" with trust="central", else "vertex".
    report
        The noise on what is sent: "k_norm" or "laplace" (pure), or "gaussian" (needs delta > 0).
        None (default): the one with the smallest proven regret that the budget allows. Not with
        noise="leaf" and trust="central", where the server chooses.
    trees
        The largest number of `trees` in a phase (T_1 in the paper), from 0 to 12. None (default):
        in every phase the number with the smallest proven excess.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".

    Guarantee
    ---------
    One record of one client in one round is protected with (epsilon, delta). "central": from the
    public and from other clients; the server is trusted. "distributed": from every observer, if
    only the sum of the uploads is visible and `honest` clients keep their shares secret. "local":
    from every observer, even if all other clients collude. Proofs:
    `proofs/frank_wolfe.md#vertices`, `proofs/frank_wolfe.md#leaves`,
    `proofs/frank_wolfe.md#choices`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=20, horizon=2**10, family=hr.CrossEntropy())
    >>> algorithm = FrankWolfe(trust="local").build(setting)
    >>> algorithm.parameters["trees"], algorithm.certificate.server.curve.stated()
    (4, (1.0, 0.0))

    References
    ----------
    Gao, Huang and Yang 2024, Algorithms 1 to 5; Asi et al. 2021.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={
            "distributed": {"trust": "distributed", "delta": 1e-6},
            "local": {"trust": "local"},
        },
        meanings={
            "noise": "where noise is added: at every leaf, or once at every vertex",
            "report": "distribution of the noise on what is sent",
            "report_noise": "distribution of the noise on what is sent",
            "report_deviation": "standard deviation of that noise, for each number sent",
            "trees": "largest number of trees in a phase",
            "exchanges_at_once": "largest number of exchanges before one round",
            "honest": "number of clients whose shares of noise are enough",
        },
        families=(Linear, CrossEntropy, OnSimplex),
    )

    epsilon: float = 1.0
    delta: float = 0.0
    trust: Trust = "central"
    noise: Placement | None = None
    report: Report | None = None
    trees: int | None = None
    honest: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        one_of(
            self,
            trust=get_args(Trust),
            noise=(None, *get_args(Placement)),
            report=(None, *get_args(Report)),
        )
        if self.trees is not None:
            at_least("trees", self.trees, 0)
            if not self.trees <= MOST_TREES:
                raise InvalidValue(
                    f"Expected trees={self.trees!r} <= {MOST_TREES}: there would be "
                    f"{2 ** (self.trees + 1) - 2} exchanges before one round, more than engines "
                    "allow."
                )
        self._check_noise()

    def _check_noise(self) -> None:
        chosen = self.report
        if chosen is not None and self._chooses:
            raise InvalidValue(
                f"Expected report={chosen!r} only where vectors are released: with trust='local', "
                "or with noise='vertex'."
            )
        if chosen not in (None, "gaussian") and self.trust == "distributed":
            raise InvalidValue(
                f"Expected report={chosen!r} to be 'gaussian' with trust='distributed': other "
                "noise has no shares."
            )
        gaussian = self.trust == "distributed" or chosen == "gaussian"
        if gaussian:
            gaussian_delta(self.delta)
        needless = self.delta > 0 and (self._chooses or chosen in ("k_norm", "laplace"))
        if needless:
            raise InvalidValue(
                f"Expected delta={self.delta!r} to be 0: only Gaussian noise spends a delta."
            )
        check_honest(self.trust, self.honest)

    @property
    def placement(self) -> Placement:
        """Where noise is added."""
        return self.noise or ("leaf" if self.trust == "central" else "vertex")

    @property
    def _chooses(self) -> bool:
        """Whether a trusted server chooses an expert privately, instead of releasing vectors."""
        return self.trust == "central" and self.placement == "leaf"

    def laws(self) -> tuple[str, ...]:
        """The distributions of noise among which the proven regret decides."""
        if self._chooses:
            return ("choice",)
        if self.trust == "distributed":
            return ("gaussian",)
        if self.report is not None:
            return (self.report,)
        return ("k_norm", "laplace", *(("gaussian",) if self.delta > 0 else ()))

    def form(self, setting: Setting, law: str) -> Form:
        """This spec in a setting, with one distribution of noise."""
        return Form(self, setting, law)

    def resolve(self, setting: Setting) -> Algorithm:
        check_honest(self.trust, self.honest, setting)
        form = min((self.form(setting, law) for law in self.laws()), key=Form.worth)
        schedule = Schedule(form.plans, form.gradients, self.placement)
        exact = self.trust == "central"
        client = FrankWolfeClient(schedule, None if exact else form.mechanism)
        server = FrankWolfeServer(schedule, form.mechanism if exact else None)
        value = regret_bound(setting, form.plans, form.excess)
        return Algorithm(
            name="frank_wolfe",
            setting=setting,
            client=client,
            server=server,
            certificate=form.certificate(),
            uploads=Uploads(GradientSum, {"gradients": form.range()}),
            broadcasts=Broadcasts(
                Towards,
                {
                    "rounds": Planned(schedule),
                    "expert": Between(0, setting.experts - 1, opening=-1),
                },
            ),
            plays="point",
            claims=Claims(
                regret_bound=RegretBound(value, "stochastic", Proof(PROOF, "regret")),
                measures=None if known(setting.family) else form.measures,
            ),
            parameters=form.parameters(),
        )

    def games(self) -> Games:
        """Return games of Huber losses: mixtures of forecasts."""
        family = OnSimplex(Huber(threshold=0.02))
        setting = Setting(2, 8, 33, family=family)
        return Games(
            setting,
            lambda records: Replay(records, family),
            partial(_stream, family),
            partial(_pair, family, setting),
            far=partial(_far, family),
            long=replace(setting, clients=20, horizon=200),
        )


@dataclass(frozen=True)
class Form:
    """A spec in a setting, with one distribution of noise."""

    spec: FrankWolfe
    setting: Setting
    law: str

    @cached_property
    def gradients(self) -> BoundedGradients:
        return BoundedGradients(self.setting.family, self.setting.experts, NORMS[self.law])

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The trees of every phase."""
        spec, phases = self.spec, self.setting.rounds.bit_length()
        if spec.trees is not None:
            return plans(phases, spec.trees, lambda plan: -plan.trees)
        most = max(t for t in range(MOST_TREES + 1) if plan(2 ** (phases - 1), t) is not None)
        return plans(phases, most, self._excess(most))

    @cached_property
    def most(self) -> int:
        return max(plan.trees for plan in self.plans)

    @cached_property
    def mechanism(self) -> Any:
        return self.noise(self.most)

    def moved(self, trees: int) -> float:
        """How far a record moves what is released, if no phase has more than `trees` trees."""
        if self.spec.placement == "vertex":
            return self.gradients.reach
        return worst_leaf(self.gradients, trees, self.law == "gaussian")

    def noise(self, trees: int) -> Any:
        """The noise, for values as clients send them if no phase has more than `trees` trees."""
        spec, moved = self.spec, self.moved(trees)
        budget = Budget(spec.epsilon, spec.delta)
        if self.law == "choice":
            return NoisyMax(PURPOSE, "exponential", spec.epsilon, moved)
        if spec.trust == "distributed":
            honest = spec.honest or all_but_one(self.setting.clients)
            return gaussian_share(PURPOSE, budget, moved, honest)
        if self.law == "gaussian":
            return GaussianNoise(PURPOSE, gaussian_scale(budget, moved), moved)
        pure = Budget(spec.epsilon)
        if self.law == "laplace":
            return AdditiveNoise(PURPOSE, "laplace", laplace_scale(pure, moved), moved)
        return KNorm(PURPOSE, round_up(Fraction(moved) / Fraction(spec.epsilon)), moved)

    @cached_property
    def excess(self) -> Excess:
        return self._excess(self.most)

    def _excess(self, trees: int) -> Excess:
        """The excess of a phase with the noise for at most `trees` trees."""
        each, gradients = self.error(self.noise(trees)), self.gradients
        if self.spec.placement == "leaf":
            return Excess(
                gradients, self.setting.clients, lambda plan, tree: each / 2 ** (trees - tree)
            )
        return Excess(gradients, self.setting.clients, partial(self._along_path, each))

    def error(self, mechanism: Any) -> float:
        """The excess of one choice with this noise, in units of what is sent."""
        if isinstance(mechanism, NoisyMax):
            return mechanism.sensitivity * choice_excess(self.gradients.width, mechanism.epsilon)
        central = self.spec.trust == "central"
        return leader_excess(
            replace(self.setting, clients=1) if central else self.setting, mechanism
        )

    def _along_path(self, each: float, plan: Plan, tree: int) -> float:
        """Noise of several vertices: deviations add up in squares, except for Laplace noise."""
        parts = weights(self.gradients, tree)
        return each * (sum(parts) if self.law == "laplace" else sqrt(sum(w * w for w in parts)))

    def worth(self) -> float:
        """The excess of all phases, by which distributions of noise are compared."""
        excess = self.excess
        return sum(2.0**phase * excess(plan) for phase, plan in enumerate(self.plans))

    def certificate(self, **labels: Any) -> Certificate:
        spec, mechanism = self.spec, self.mechanism
        leaf, gaussian = spec.placement == "leaf", isinstance(mechanism, GaussianNoise)
        curve: PrivacyCurve = mechanism.curve
        if gaussian:
            curve = Quoted(mechanism.curve, spec.delta)
        elif leaf:
            curve = PureDP(mechanism.curve.epsilon(0.0))
        composition: Composition = ("shifts" if gaussian else "moves") if leaf else "sum"
        common: dict[str, Any] = {
            "setting": self.setting,
            "curve": curve,
            "composition": composition,
            "entered": 2**self.most if leaf else 1,
            **labels,
        }
        if spec.trust == "central":
            anchor = "choices" if leaf else "vertices"
            return trusted_server(
                proof=Proof(PROOF, anchor),
                channels={"GradientSum.gradients": Channel.UPLOADS, **ANNOUNCED},
                mechanisms=(mechanism,),
                **common,
            )
        return noisy_reports(
            reporting=mechanism,
            report="GradientSum.gradients",
            announced=ANNOUNCED,
            proof=Proof(PROOF, "leaves" if leaf else "vertices"),
            **common,
        )

    def range(self) -> Range:
        """Where the numbers of an honest upload lie.

        A gradient's coordinate is at most 1, a clipped difference at most `reach`. Along a path of
        tree j these are at most j + 1 batches, and 2^(most - j) times as much is sent.
        """
        if self.spec.trust != "central":
            return Range.noisy(self.gradients.width)
        most = max(plan.batch for plan in self.plans) * max(1.0, self.gradients.reach)
        if self.spec.placement == "leaf":
            most *= 2.0**self.most
        return Range(self.gradients.width, -most, most, per_round=False)

    def measures(self) -> tuple[Measure, ...]:
        """Counts gradients that are longer than your family declares."""
        family, norm = self.setting.family, self.gradients.norm
        bound = family.gradient_bound(norm, self.setting.experts)
        return (Shortened(family, bound * (1 + 1e-9), norm),)

    def parameters(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "noise": self.spec.placement,
            "trees": self.most,
            "exchanges_at_once": max(plan.leaves for plan in self.plans),
        }
        if self.law == "choice":
            return shown
        deviation = self.mechanism.deviation(self.setting.experts)
        return {**shown, "report_noise": self.law, "report_deviation": deviation}


def _stream(family: OnSimplex, rng: Any, setting: Setting) -> Array:
    shape = (setting.rounds, setting.clients, setting.experts + 1)
    return family.clip(rng.normal(size=shape)).records


def _pair(family: OnSimplex, setting: Setting, rng: Any, unit: Unit) -> tuple[Array, Array]:
    """Two streams; one record, or all of a client, pulls coordinates up or down."""
    first = _stream(family, rng, setting)
    second = first.copy()
    client = int(rng.integers(setting.clients))
    when = int(rng.choice(LATER) if int(rng.integers(3)) else rng.integers(setting.rounds))
    rounds = when if isinstance(unit, Event) else slice(None)
    first[rounds, client], second[rounds, client] = _pulling(rng, setting.experts)
    return first, second


def _pulling(rng: Any, width: int) -> Array:
    """Two records with nearly the same features, one strong or all equal, and opposite gradients.

    They are opposite at every point, or change in opposite directions if the point moves towards
    one expert: then two features that differ a little push the scores over the target.
    """
    equal = bool(rng.integers(2))
    features = np.full(width, 0.88 / sqrt(width)) if equal else np.zeros(width)
    if not equal:
        features[int(rng.integers(width))] = 0.95
    found = np.tile(np.append(features, 0.0), (2, 1))
    if not int(rng.integers(4)):
        found[:, -1] = 1.0, -1.0
        return found
    tilt = np.array([0.15, -0.15])
    found[:, int(rng.integers(width))] += tilt
    found[:, -1] = features.mean() * equal + tilt / 2
    found[:, :-1] /= np.maximum(1.0, np.linalg.norm(found[:, :-1], axis=1, keepdims=True))
    return found


def _far(family: OnSimplex, rng: Any, setting: Setting) -> Any:
    drawn, other = _stream(family, rng, setting), _stream(family, rng, setting)
    yield drawn, -drawn
    yield drawn, other
    yield np.zeros_like(drawn), np.broadcast_to(_pulling(rng, setting.experts)[0], drawn.shape)
