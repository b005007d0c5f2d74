"""Phased selection: one private choice at the end of each of the blocks 1, 2, 4, 8, ... (Asi et al. 2023, Limited Updates, Alg. 2).

The expert of a block is chosen from the losses of the block before it, of all clients, and of nothing else. So every loss vector
enters one choice, the whole run costs what one choice costs, and log2(T) messages are enough. For losses that are drawn anew in every
round from one law, independently at every client; an adversary who fixes them, or who looks, can make it regret much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import log, sqrt
from operator import attrgetter
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.phases.blocks import (
    ANNOUNCED,
    BlockClient,
    BlockServer,
    NextBlock,
    NoisySums,
    Spans,
    WholeBlock,
    later_blocks,
)
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.certificate import (
    DEFAULT_VIEWS,
    IDEAL_REALS,
    NO_CARRY_OVER,
    ONE_LOSS_VECTOR,
    PUBLIC_PARAMETERS,
    Assumption,
    Certificate,
    Channel,
    Event,
    Guarantee,
    Observer,
    PrivacyCurve,
    Proof,
    trusted_server,
)
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.rounding import root_up, round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget, expect
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import gaussian_scale, laplace_scale, settled
from hedgerow.privacy.curves import GaussianDP, Quoted
from hedgerow.privacy.mechanisms import (
    AdditiveNoise,
    ExponentialMechanism,
    GaussianNoise,
    KNorm,
    NoisyMax,
)
from hedgerow.privacy.mechanisms.shares import GaussianShare

PROOF = "phased_selection.md"
Trust = Literal["central", "distributed", "local"]
Choice = Literal["permute_and_flip", "exponential"]
Report = Literal["k_norm", "laplace", "gaussian"]


@dataclass(frozen=True)
class PhasedSelection(AlgorithmSpec):
    """x_t for 2^k <= t < 2^(k+1) is chosen from the losses of all clients in the rounds 2^(k-1), ..., 2^k - 1 (counted from 1).

    `trust="central"`: the server gets exact sums and chooses privately, by `choice`: "permute_and_flip" (the default, never worse at
    the same epsilon) or the "exponential" mechanism. Both cost exactly `epsilon`; a `delta` would buy nothing and is refused.
    `trust="local"`: every client adds noise to its own sums, and the server takes the leader. `report` is the noise: "k_norm" or
    "laplace" (more noise, but with an exact sampler for real data), which are pure, or "gaussian", for delta > 0. By default it is the
    one with the smallest proven regret that the budget allows, so that `delta` is spent only where that helps.
    `trust="distributed"`: secure aggregation shows the server only the sum of all uploads, in which every client has put a share of
    Gaussian noise (delta > 0). The shares of `honest` clients are enough: by default all but one, because a peer knows its own.
    With few clients and few experts "local" has the smaller proven regret and asks for less trust: compare by `hedgerow certify`.

    The printed algorithm names no constants for a finite set of experts, so there is only one calibration.

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = PhasedSelection(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=2**14))
    >>> print(algorithm.certificate.guarantees[1].curve.words())
    epsilon = 1, delta = 0
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"distributed": {"trust": "distributed", "delta": 1e-6}, "local": {"trust": "local"}},
        exact="trust='central', or trust='local' with report='laplace' or, where delta > 0, report='gaussian'",
        meanings={
            "choice": "how an expert is chosen privately",
            "report": "law of the noise on each site's sums",
            "report_noise": "law of the noise on each site's sums",
            "report_deviation": "standard deviation of that noise, for each number sent",
            "honest": "sites whose shares of noise are enough",
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    trust: Trust = "central"
    choice: Choice | None = None
    report: Report | None = None
    honest: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        options = {
            "trust": get_args(Trust),
            "choice": (None, *get_args(Choice)),
            "report": (None, *get_args(Report)),
        }
        for name, allowed in options.items():
            words = tuple(word for word in allowed if word is not None)
            expect(getattr(self, name) in allowed, name, getattr(self, name), f"in {words}")
        expect(
            self.choice is None or self.trust == "central",
            "choice",
            self.choice,
            "only with trust='central', where the server chooses",
        )
        expect(
            self.report is None or self.trust == "local",
            "report",
            self.report,
            "only with trust='local', where clients add the noise",
        )
        gaussian = self.trust == "distributed" or self.report == "gaussian"
        expect(
            self.delta > 0 or not gaussian,
            "delta",
            self.delta,
            "> 0, as delta = 1e-6: Gaussian noise has no pure guarantee",
        )
        pure = "trust='central'" if self.trust == "central" else f"report={self.report!r}"
        needless = self.delta > 0 and (
            self.trust == "central" or self.report in ("k_norm", "laplace")
        )
        expect(
            not needless,
            "delta",
            self.delta,
            f"to be 0 with {pure}, which is epsilon-DP: only Gaussian reports spend a delta",
        )
        if self.honest is not None:
            expect(
                self.trust == "distributed",
                "honest",
                self.honest,
                "only with trust='distributed', where noise is shared",
            )
            at_least("honest", self.honest, 1)

    def build(self, setting: Setting) -> Algorithm:
        if self.honest is not None:
            most = _all_but_one(setting)
            expect(
                self.honest <= most,
                "honest",
                self.honest,
                f"<= {most} with clients={setting.clients}: a peer knows its own share",
            )
        selection, reporting = (
            (self._selection(), None)
            if self.trust == "central"
            else (None, self._reporting(setting))
        )
        client, server = (
            BlockClient(setting.experts, reporting),
            BlockServer(setting.experts, selection, WholeBlock()),
        )
        exact = reporting is None
        return Algorithm(
            name="phased_selection",
            setting=setting,
            client=client,
            server=server,
            certificate=self._central(setting, selection)
            if exact
            else self._noisy_reports(setting, reporting),
            upload=LossSums if exact else NoisySums,
            broadcast=NextBlock,
            advance=Spans(client, server).advance,
            common_play=attrgetter("expert") if exact else None,
            log_likelihood=server.log_likelihood if exact else None,
            regret_bound=RegretBound(
                regret_bound(setting, self._excess(setting, reporting)),
                "stochastic",
                Proof(PROOF, "regret"),
            ),
            parameters={"choice": self._chosen}
            if exact
            else _noise_on_reports(setting.experts, reporting),
        )

    def audit_variants(self) -> tuple[PhasedSelection, ...]:
        """Loud versions whose tiny games come close to the certificate."""
        return replace(self, epsilon=24.0), replace(self, epsilon=3.0)

    def laws(self) -> tuple[PhasedSelection, ...]:
        """With each noise on reports that a game may choose."""
        if self.trust != "local" or self.report is not None or self.delta == 0:
            return (self,)
        return replace(self, report="k_norm", delta=0.0), replace(self, report="gaussian")

    @property
    def _chosen(self) -> Choice:
        return self.choice or "permute_and_flip"

    def _selection(self) -> ExponentialMechanism | NoisyMax:
        if self._chosen == "exponential":
            return ExponentialMechanism("selection", self.epsilon)
        return NoisyMax("selection", "exponential", self.epsilon)

    def _reporting(self, setting: Setting) -> Any:
        """Among the laws that the budget allows the one with the smallest proven excess: public values alone decide."""
        return min(
            (spec._noise(setting) for spec in self.laws()),
            key=lambda noise: leader_excess(setting, noise),
        )

    def _noise(self, setting: Setting) -> Any:
        """One loss vector moves every coordinate of its client's sum by at most 1, so all of them by sqrt(d) in the l2 norm."""
        experts, across = setting.experts, root_up(Fraction(setting.experts))
        if self.trust == "distributed":
            return _share(
                Budget(self.epsilon, self.delta), across, self.honest or _all_but_one(setting)
            )
        if self.report == "gaussian":
            return GaussianNoise(
                "report", gaussian_scale(Budget(self.epsilon, self.delta), across), across
            )
        if self.report == "laplace":
            return AdditiveNoise(
                "report",
                "laplace",
                laplace_scale(Budget(self.epsilon), float(experts)),
                float(experts),
            )
        return KNorm("report", round_up(1 / Fraction(self.epsilon)))

    def _excess(self, setting: Setting, reporting: Any) -> float:
        """How much the total loss of the chosen expert may exceed the least one, in expectation, because of noise."""
        if reporting is None:
            return choice_excess(setting.experts, self.epsilon)
        return leader_excess(setting, reporting)

    def _central(self, setting: Setting, selection: Any) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=selection.curve,
            proof=Proof(PROOF, "one-choice-for-each-datum"),
            channels={"LossSums.losses": Channel.UPLOADS, **ANNOUNCED},
            mechanisms=(selection,),
            composition="sum",
            entered=1,
        )

    def _noisy_reports(self, setting: Setting, reporting: Any) -> Certificate:
        """What the server sees is protected already, and everything else is made from it."""
        curve: PrivacyCurve = reporting.curve
        if isinstance(curve, GaussianDP):
            curve = Quoted(curve, self.delta)
        assumes = {IDEAL_REALS, PUBLIC_PARAMETERS, NO_CARRY_OVER}
        colluding, seen, anchor = setting.clients - 1, Channel.UPLOADS, "noisy-reports"
        if self.trust == "distributed":
            honest = reporting.honest
            colluding, seen, anchor = setting.clients - honest, Channel.SUM, "shared-noise"
            assumes.add(_secure_aggregation(honest))
        views = {
            **DEFAULT_VIEWS,
            Observer.SERVER: DEFAULT_VIEWS[Observer.SERVER] - {Channel.UPLOADS} | {seen},
        }
        guarantees = tuple(
            Guarantee(
                observer,
                view,
                Event(),
                ONE_LOSS_VECTOR,
                curve,
                Proof(PROOF, anchor),
                colluding=colluding,
                horizon=setting.horizon,
                assumes=frozenset(assumes),
            )
            for observer, view in views.items()
        )
        channels = {"NoisySums.losses": seen, **ANNOUNCED}
        return Certificate(
            self.trust, "certified", guarantees, channels, (reporting,), "sum", entered=1
        )


def _share(budget: Budget, sensitivity: float, honest: int) -> GaussianShare:
    """So much that the shares of `honest` clients are together what one client would need."""

    def share(scale: float) -> GaussianShare:
        return GaussianShare("report", scale, sensitivity, honest)

    least = root_up(Fraction(gaussian_scale(budget, sensitivity)) ** 2 / honest)
    return share(settled(least, lambda scale: share(scale).curve, budget))


def _noise_on_reports(experts: int, reporting: Any) -> dict[str, Any]:
    """Which law, and the standard deviation of one number that is sent: scales of different laws cannot be compared."""
    if isinstance(reporting, GaussianNoise):
        return {"report_noise": "gaussian", "report_deviation": reporting.scale}
    if isinstance(reporting, KNorm):
        return {
            "report_noise": "k_norm",
            "report_deviation": reporting.scale * sqrt((experts + 1) * (experts + 2) / 3),
        }
    return {"report_noise": "laplace", "report_deviation": reporting.scale * sqrt(2)}


def _all_but_one(setting: Setting) -> int:
    return max(1, setting.clients - 1)


def _secure_aggregation(honest: int) -> Assumption:
    text = f"nobody sees more of the uploads than their sum, and at least {honest} clients draw their share of noise and tell nobody"
    return Assumption("SECURE_AGGREGATION", text)


# Regret on losses that are drawn anew in every round, independently at every client: `proofs/phased_selection.md#regret`.


def regret_bound(setting: Setting, excess: float) -> float:
    """Mean regret of a client against the best expert in hindsight, where a choice costs at most `excess` in total loss.

    >>> small, large = (Setting(clients=m, experts=100, horizon=2**14) for m in (1, 10))
    >>> round(regret_bound(small, choice_excess(100, 1.0))), round(regret_bound(large, choice_excess(100, 1.0)))
    (1025, 293)
    """
    clients, experts, horizon = setting.clients, setting.experts, setting.horizon
    if experts == 1:
        return 0.0
    entropy, total = log(experts), 1.0
    for before, rounds in later_blocks(horizon):
        total += rounds * min(
            1.0, sqrt(entropy / (2 * before * clients)) + excess / (before * clients)
        )
    return min(float(horizon), total + sqrt(horizon * entropy / (2 * clients)))


def choice_excess(experts: int, epsilon: float) -> float:
    """E[S(chosen)] - min S for the exponential mechanism, and so for permute-and-flip: 2 ln(d) / epsilon."""
    return 2 * log(experts) / epsilon


def leader_excess(setting: Setting, reporting: Any) -> float:
    """The same for the leader of noisy sums: at most the mean of the largest noise among the experts."""
    clients, entropy, scale = setting.clients, log(setting.experts), reporting.scale
    if isinstance(reporting, GaussianNoise):
        return scale * sqrt(2 * clients * entropy)
    if isinstance(reporting, KNorm):
        experts = setting.experts
        return scale * sqrt(2 * clients * entropy * (experts + 1) * (experts + 2) / 3)
    if not (isinstance(reporting, AdditiveNoise) and reporting.law == "laplace"):
        raise NotImplementedError(f"no bound is proven for the largest of such noises: {reporting}")
    at = np.linspace(1e-3, 1 - 1e-3, 999)
    return float(scale * ((entropy - clients * np.log1p(-np.square(at))) / at).min())
