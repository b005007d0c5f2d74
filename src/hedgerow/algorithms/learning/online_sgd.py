"""Online SGD: clients with streams of examples train one model, with correlated noise.

In every round each client adds up the clipped gradients of its examples, filters the sum and
releases it with noise. The server decodes running sums, whose noise is correlated and small, and
sends the next model. What is played is the released model; local points are never shown. Proofs:
`proofs/online_sgd.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, isinf, log, sqrt
from typing import Any, ClassVar, get_args

from hedgerow.algorithms.correlated.decoding import sums_certificate
from hedgerow.algorithms.learning.matched import matched
from hedgerow.algorithms.learning.measures import Contradicted, NotFinite, ShortenedExamples
from hedgerow.algorithms.learning.plan import Plan
from hedgerow.algorithms.learning.playing import Resident
from hedgerow.algorithms.learning.roles import (
    GradientSums,
    LearningClient,
    Released,
    TrainingServer,
)
from hedgerow.algorithms.learning.rounds import LocalRound, local_reach, round_sensitivity
from hedgerow.algorithms.learning.trial_games import learning_games
from hedgerow.algorithms.shared.noisy_reports import Trust, check_honest, gaussian_noise
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.batch import Batch, single
from hedgerow.core.certificate import Assumption, Certificate, Channel, Proof, not_private
from hedgerow.core.convex import Huber, Logistic, SquaredError
from hedgerow.core.domain import Space
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.games import Games
from hedgerow.core.limits import ANY_CLOSING, WAIT_ONLY, Broadcasts, Planned, Points, Range, Uploads
from hedgerow.core.losses import Family, Linear
from hedgerow.core.measure import Measure
from hedgerow.core.model import Model
from hedgerow.core.noise import COUNTED
from hedgerow.core.protecting import with_own_pattern
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Shortcuts, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Unit
from hedgerow.core.validate import check_budget, gaussian_delta, one_of, positive
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.kinds import factorise
from hedgerow.running_sums.lattice import LatticeEncoder

PROOF = "online_sgd.md"
ANNOUNCED = {"Released.rounds": Channel.TIMING, "Released.model": Channel.BROADCASTS}
CLIP = 1.0  # of a model whose gradients have no declared bound
STEP = 0.1  # of a model whose smoothness is not declared


@dataclass(frozen=True)
class OnlineSGD(AlgorithmSpec):
    r"""Train one model from the examples of many clients, with correlated noise.

    In every round each client has a few examples. It adds up their gradients, each scaled down to
    `clip`, and releases the sum with noise. All play the released model; or, better, the average of
    the released models, which has less noise at no cost.

    Use it with your own model (`hr.Model`), or for regression (`hr.Logistic`,
    `hr.SquaredError`, `hr.Huber`). Give several examples in every round with `hr.Batch`. It needs
    JAX: `pip install "hedgerow[learning]"`.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1. `inf`: no noise and no guarantee, for
        comparison.
    delta
        The second part of the budget, in (0, 1). Default 1e-6: Gaussian noise needs one.
    trust
        "local" (default): every client filters its sums and adds all the noise that protects it.
        "distributed": every client adds a share of the noise, and the server sees only the sum of
        all uploads. "central": the server receives exact sums,
        filters them and adds the noise.
    clip
        The longest gradient of one example; longer ones are scaled down. None (default): the bound
        that the loss family declares, or 1 if it declares none.
    step
        The size of the steps of the server along the mean gradient. None (default): the smaller of
        1/(8 L) and 1/(10 L ln R) for an L-smooth loss and R rounds, for which the paper proves its
        bounds for convex losses; 0.1 if L is not known. Larger steps are often better. Try them on
        public data: a step that is tuned on private data is not covered.
    average
        The share that an exponential average of the released models keeps in every round, in
        (0, 1), such as 0.99. Gradients are taken at the released model. None (default): no average.
    plan
        What only experts choose: `Plan(steps, factorisation, buffers, local_step, momentum,
        precision)` of `hedgerow.algorithms.learning.plan`, in a study file a table. None (default):
        `Plan()`.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".

    Guarantee
    ---------
    One example of one client in one round is protected with (epsilon, delta), although its
    gradient enters all later releases; with `unit`, all records of a unit are, such as
    `hr.Example(passes=3, apart=100)`, an example that is used in three rounds. "local": from every
    observer, even if all other clients collude. "distributed": from every observer, the server
    included, if only the sum of the uploads is visible and `honest` clients keep their shares
    secret. "central": from the public and from other clients; the server is trusted. Proofs:
    `proofs/online_sgd.md#sensitivity`, `proofs/online_sgd.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> family = hr.Batch(hr.Logistic(radius=10.0), size=5)
    >>> setting = hr.Setting(clients=20, experts=100, horizon=1000, family=family)
    >>> for kind in ("independent", "tree", "blt"):
    ...     built = hr.OnlineSGD(2.0, delta=1e-3, plan=Plan(factorisation=kind)).build(setting)
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
            "local steps": {"plan": Plan("convex", momentum=0.5), "average": 0.9},
        },
        meanings={
            "plan": "where gradients are taken, how noise is correlated, momentum",
            "clip": "longest gradient of one example; longer ones are scaled down",
            "step": "size of the steps of the server",
            "local_step": "size of a local step",
            "average": "share that the average of models keeps in every round",
            "factor": "sensitivity of a round sum, in units of 2 clip",
            "deviation": "largest standard deviation of the noise of a running sum",
        },
        families=(Batch, Logistic, SquaredError, Huber, Model, Linear),
        family=Batch(Logistic(radius=10.0), 5),
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    trust: Trust = "local"
    clip: float | None = None
    step: float | None = None
    average: float | None = None
    plan: Plan | None = None
    honest: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.epsilon, int | float) and not self.epsilon > 0:
            raise InvalidValue(f"Expected epsilon={self.epsilon!r} > 0 (inf: no noise).")
        check_budget(1.0 if self.noiseless else self.epsilon, self.delta)
        gaussian_delta(self.delta)
        one_of(self, trust=get_args(Trust))
        check_honest(self.trust, self.honest)
        known = self.plan is None or isinstance(self.plan, Plan)
        if not known:
            raise InvalidValue(f"Expected plan={self.plan!r} to be None or a Plan.")
        for name in ("clip", "step"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.average is not None and not 0 < self.average < 1:
            raise InvalidValue(f"Expected average={self.average!r} in (0, 1).")

    @property
    def chosen(self) -> Plan:
        """The plan, or the default."""
        return Plan() if self.plan is None else self.plan

    @property
    def noiseless(self) -> bool:
        """Whether no noise is added and nothing is protected."""
        return isinstance(self.epsilon, float) and isinf(self.epsilon) and self.epsilon > 0

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        if self.noiseless:
            return super().protecting(unit, setting)
        return with_own_pattern(self, unit, setting)

    def pattern(self, setting: Setting, every: int = 1) -> tuple[int, int, int]:
        """As for any running sum; clipped steps of a client move no further for several records."""
        records, together, apart = super().pattern(setting, every)
        if self.chosen.steps == "clipped" and self.unit is not None:
            clients = (parse_unit(self.unit).shape or (1, inf, 1))[1]
            together = int(min(together, clients * every))
        return records, together, apart

    def resolve(self, setting: Setting) -> Algorithm:
        family, width, clients = setting.family, setting.experts, setting.clients
        check_honest(self.trust, self.honest, setting)
        one, size = single(family)
        _require_known(one, width)
        steepest, smooth = one.gradient_bound("l2", width), one.smoothness("l2", width)
        clip = min(steepest, self.clip or (steepest if isfinite(steepest) else CLIP))
        step = default_step(smooth, setting.rounds) if self.step is None else float(self.step)
        plan = self.chosen
        local = step / size if plan.local_step is None else float(plan.local_step)
        work = LocalRound(one, width, size, clip, plan.steps, local, plan.precision)
        self._require_true(one, work, smooth)
        factors = self._factors(setting.rounds)
        central, change = self.trust == "central", round_sensitivity(work, smooth)
        client = LearningClient(work, self.average)
        first = one.start if isinstance(one, Model) else family.domain.centre(width)
        server = TrainingServer(
            width,
            Schedule(1),
            factors,
            first=first,
            domain=family.domain,
            rate=step / (clients * size),
            momentum=plan.momentum,
        )
        mechanism, deviation = None, 0.0
        if not self.noiseless:
            most = clip * size * (clients if central else 1)
            encoder = LatticeEncoder(factors, width, most)
            mechanism = self.noise(setting, encoder, change, clip)
            one = mechanism.scale * factors.errors().max
            deviation = one * (1.0 if central else sqrt(clients))
            if central:
                server = replace(server, encoder=encoder, releasing=mechanism)
            else:
                client = replace(client, encoder=encoder, reporting=mechanism)
        resident = Resident(client, server, clients)
        return Algorithm(
            name="online_sgd",
            setting=setting,
            client=client,
            server=server,
            certificate=self._certificate(setting, mechanism, work, smooth),
            uploads=Uploads(
                GradientSums,
                {
                    "sums": Range(width, -clip * size, clip * size)
                    if central
                    else Range.noisy(width)
                },
                closing=ANY_CLOSING if central and self.pattern(setting)[0] == 1 else WAIT_ONLY,
            ),
            broadcasts=Broadcasts(
                Released, {"rounds": Planned(Schedule(1)), "model": Points(family.domain, width)}
            ),
            plays="point",
            shortcuts=Shortcuts(resident=resident if resident.fits else None),
            claims=Claims(
                measures=lambda: self._measures(family, clip, steepest),
                reference=None
                if self.noiseless
                else replace(self, epsilon=inf, unit=None).build(setting),
            ),
            parameters={
                "clip": clip,
                "step": step,
                **({} if plan.steps == "start" else {"local_step": local}),
                **({} if plan.precision == "24 bits" else {"precision": plan.precision}),
                "factor": change / (2 * clip),
                "deviation": deviation,
            },
        )

    def _factors(self, rounds: int) -> Factorisation:
        if self.noiseless:
            return factorise("independent", rounds)
        plan = self.chosen
        if plan.factorisation != "matched":
            return factorise(plan.factorisation, rounds, plan.buffers)
        kept = self.average or plan.momentum
        if not kept:
            raise InvalidValue("factorisation='matched' needs average or momentum.")
        return matched(rounds, kept, plan.buffers)

    def _require_true(self, single: Family, work: LocalRound, smooth: float) -> None:
        """Refuse what is not known of the loss, or cannot be true after clipping."""
        name, steps = type(single).__name__, self.chosen.steps
        if steps in ("convex", "smooth") and not isfinite(smooth):
            raise InvalidValue(
                f"Expected a declared smoothness of {name} with steps={steps!r}. Declare it "
                "(`smooth`) if you can prove it; otherwise choose steps='start'."
            )
        if steps == "convex" and isinstance(single, Model):
            if not single.convex:
                raise InvalidValue(
                    f"Expected convex={single.convex!r} to be True with steps='convex'."
                )
            if single.steepest is None:
                raise InvalidValue(
                    "Declare steepest, the largest gradient norm: steps='convex' must not clip."
                )
            bound = single.gradient_bound("l2", work.width)
            if not work.clip >= bound:
                raise InvalidValue(
                    f"Expected clip={work.clip!r} >= steepest={bound!r}: clipped gradients of a "
                    "convex model need not be convex."
                )
        exposed = self.trust != "central" and not self.noiseless
        if steps in ("convex", "smooth") and exposed and isinstance(single.domain, Space):
            raise InvalidValue(
                f"Declare radius, the largest norm of the weights, with steps={steps!r} and "
                f"trust={self.trust!r}: a server that lies could send a model so large that "
                "numbers of 24 bits break the declared smoothness."
            )

    def noise(
        self, setting: Setting, encoder: LatticeEncoder, change: float, clip: float
    ) -> GaussianNoise:
        """The noise of one release.

        The sensitivity is that of all releases together, for all records of the unit, so the curve
        of the mechanism is that of the whole game.
        """
        moved = encoder.sensitivity(change, *self.pattern(setting))
        budget = Budget(self.epsilon, self.delta)
        return gaussian_noise(self.trust, COUNTED, budget, moved, setting.clients, self.honest)

    def _certificate(
        self, setting: Setting, mechanism: GaussianNoise | None, work: LocalRound, smooth: float
    ) -> Certificate:
        if mechanism is None:
            channels = {"GradientSums.sums": Channel.UPLOADS, **ANNOUNCED}
            return not_private("no noise is added", channels, setting.family.record)
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
            **self.labels(),
        )

    def labels(self) -> dict[str, Any]:
        """What the certificate says about where the noise comes from."""
        return {}

    def _measures(self, family: Family, clip: float, steepest: float) -> tuple[Measure, ...]:
        """What is counted: shortened gradients where that is cheap, and contradictions."""
        one, _ = single(family)
        if isinstance(one, Model):
            declared = self.chosen.steps in ("convex", "smooth")
            finite = NotFinite()
            if not declared:
                return (finite,)
            return finite, Contradicted(one, self.average)
        return (ShortenedExamples(family, clip),) if clip < steepest else ()

    def games(self) -> Games:
        """Return games with two examples in every round."""
        return learning_games()


def default_step(smooth: float, rounds: int) -> float:
    """Return the step for which the paper proves its regret bounds for convex losses.

    >>> round(default_step(0.25, 1000), 4), default_step(0.25, 2), default_step(float("inf"), 1000)
    (0.0579, 0.5, 0.1)
    """
    if not 0 < smooth < inf:
        return STEP
    return min(1 / (8 * smooth), 1 / (10 * smooth * log(max(2, rounds))))


def _require_known(single: Family, width: int) -> None:
    if isinstance(single, Model):
        if single.weights != width:
            raise InvalidValue(
                f"Expected experts={width!r} to be {single.weights}, the weights of {single!r}: "
                "one tree of parameters is trained."
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
        reach = local_reach(work)
        where = f" for weights of norm at most {reach!r}" if isfinite(reach) else ""
        text += f"{where}, as declared, and gradients along the local steps are computed exactly"
    else:
        text += ", as proven"
    return frozenset({Assumption("DECLARED_SMOOTHNESS", text)})
