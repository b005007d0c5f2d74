"""Phased selection: one private choice at the end of each block of 1, 2, 4, 8, ... rounds.

The expert of a block is chosen from the losses of all clients in the block before it, and from
nothing else. So every loss vector enters at most one choice, the whole game costs as much privacy
as one choice, and log2(T) exchanges are enough. The regret bound assumes that rounds are
independent and follow one distribution, and that clients are independent within a round. Losses
that are fixed in advance or that react to the plays can cause a large regret.

The algorithm is Algorithm 2 (Limited Updates) of Asi et al. 2023.
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
from hedgerow.algorithms.shared.noisy_reports import (
    Trust,
    all_but_one,
    check_honest,
    gaussian_share,
    noisy_reports,
)
from hedgerow.algorithms.shared.totals import LossSums, sums_of_losses
from hedgerow.core.certificate import Certificate, Channel, PrivacyCurve, Proof, trusted_server
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.errors import InvalidValue
from hedgerow.core.limits import ANY_CLOSING, WAIT_OR_DROP, Broadcasts, Range, Uploads
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Shortcuts, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.rounding import root_up, round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import check_budget, gaussian_delta, one_of
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import gaussian_scale, laplace_scale
from hedgerow.privacy.curves import GaussianDP, Quoted
from hedgerow.privacy.mechanisms import (
    AdditiveNoise,
    ExponentialMechanism,
    GaussianNoise,
    KNorm,
    NoisyMax,
)

PROOF = "phased_selection.md"
Choice = Literal["permute_and_flip", "exponential"]
Report = Literal["k_norm", "laplace", "gaussian"]


@dataclass(frozen=True)
class PhasedSelection(AlgorithmSpec):
    """Choose one expert per block of 1, 2, 4, ... rounds, from the losses of the last block.

    The expert of the rounds t with 2^k <= t < 2^(k+1) (counted from 1) is chosen from the losses
    of all clients in the rounds 2^(k-1), ..., 2^k - 1. Use it if rounds are independent and follow
    one distribution, and clients are independent within a round (their distributions may differ).
    The paper prints no constants for a finite set of experts, so there is only one calibration.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). It must be 0 (default) with trust="central" and
        with report="k_norm" or "laplace", where it would gain nothing. It must be > 0 for Gaussian
        noise: with trust="distributed" or report="gaussian".
    trust
        "central" (default): the server receives exact sums and chooses privately. "distributed":
        secure aggregation shows the server only the sum of all uploads, and every client adds a
        share of Gaussian noise. "local": every client adds noise to its own sums, and the server
        chooses the smallest noisy sum. With few clients and few experts "local" has a smaller
        proven regret than "distributed" and needs less trust; compare them with `hedgerow certify`.
    choice
        How a trusted server chooses: "permute_and_flip" (default; never worse at the same epsilon)
        or "exponential". Both cost exactly epsilon. Only with trust="central".
    report
        The noise that a client adds. "k_norm" and "laplace" are pure ("laplace" is larger);
        "gaussian" needs delta > 0. None (default): the one with
        the smallest proven regret that the budget allows, so delta is used only where it helps.
        Only with trust="local".
    honest
        The number of clients whose shares of noise must be enough, from 1 to clients - 1. None
        (default): clients - 1, because a client knows its own share. Only with trust="distributed".

    Guarantee
    ---------
    One loss vector of one client in one round is protected with (epsilon, delta). "central": from
    the public and from other clients, even if all of them collude; the server is trusted.
    "distributed": from every observer, the server included, if only the sum of the uploads is
    visible and at least `honest` clients keep their shares of noise secret. "local": from every
    observer, even if all other clients collude. Proofs:
    `proofs/phased_selection.md#one-choice-for-each-datum`,
    `proofs/phased_selection.md#shared-noise`, `proofs/phased_selection.md#noisy-reports`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=2**14)
    >>> for trust in ("central", "local"):
    ...     print(hr.PhasedSelection(trust=trust).build(setting).certificate.server.curve.words())
    no guarantee (clients send the server exact sums of their losses)
    epsilon = 1, delta = 0

    References
    ----------
    Asi et al. 2023, Algorithm 2 (Limited Updates).
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"distributed": {"trust": "distributed", "delta": 1e-6}, "local": {"trust": "local"}},
        meanings={
            "choice": "how the server chooses an expert privately",
            "report": "distribution of the noise on each client's sums",
            "report_noise": "distribution of the noise on each client's sums",
            "report_deviation": "standard deviation of that noise, for each number sent",
            "honest": "number of clients whose shares of noise are enough",
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
        one_of(
            self,
            trust=get_args(Trust),
            choice=(None, *get_args(Choice)),
            report=(None, *get_args(Report)),
        )
        if self.choice is not None and self.trust != "central":
            raise InvalidValue(
                f"Expected choice={self.choice!r} only with trust='central', where the server "
                "chooses."
            )
        if self.report is not None and self.trust != "local":
            raise InvalidValue(
                f"Expected report={self.report!r} only with trust='local', where clients add the "
                "noise."
            )
        gaussian = self.trust == "distributed" or self.report == "gaussian"
        if gaussian:
            gaussian_delta(self.delta)
        pure = "trust='central'" if self.trust == "central" else f"report={self.report!r}"
        needless = self.delta > 0 and (
            self.trust == "central" or self.report in ("k_norm", "laplace")
        )
        if needless:
            raise InvalidValue(
                f"Expected delta={self.delta!r} to be 0 with {pure}, which is epsilon-DP: only "
                "Gaussian reports spend a delta."
            )
        check_honest(self.trust, self.honest)

    def resolve(self, setting: Setting) -> Algorithm:
        check_honest(self.trust, self.honest, setting)
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
            uploads=Uploads(
                LossSums if exact else NoisySums,
                sums_of_losses(setting) if exact else {"losses": Range.noisy(setting.experts)},
                closing=WAIT_OR_DROP if self.trust == "distributed" else ANY_CLOSING,
            ),
            broadcasts=Broadcasts(NextBlock, server.broadcasts),
            supports=MASKS_AND_DELAYS,
            shortcuts=Shortcuts(
                Spans(client, server).advance, common_play=attrgetter("expert") if exact else None
            ),
            claims=Claims(
                regret_bound=RegretBound(
                    regret_bound(setting, self._excess(setting, reporting)),
                    "stochastic",
                    Proof(PROOF, "regret"),
                ),
                log_likelihood=server.log_likelihood if exact else None,
            ),
            parameters={"choice": self._chosen}
            if exact
            else _noise_on_reports(setting.experts, reporting),
        )

    def audit_variants(self) -> tuple[PhasedSelection, ...]:
        """Variants whose tiny games come close to the certificate."""
        return replace(self, epsilon=24.0), replace(self, epsilon=3.0)

    def laws(self) -> tuple[PhasedSelection, ...]:
        """One variant for each distribution of report noise that the budget allows."""
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
        """The report noise with the smallest proven excess that the budget allows.

        The choice depends on public values only.
        """
        return min(
            (spec._noise(setting) for spec in self.laws()),
            key=lambda noise: leader_excess(setting, noise),
        )

    def _noise(self, setting: Setting) -> Any:
        """The noise that one client adds.

        One loss vector moves every coordinate of its client's sum by at most 1, so it moves the sum
        by at most sqrt(d) in the l2 norm.
        """
        experts, across = setting.experts, root_up(Fraction(setting.experts))
        if self.trust == "distributed":
            return gaussian_share(
                "report",
                Budget(self.epsilon, self.delta),
                across,
                self.honest or all_but_one(setting.clients),
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
        """Bounds the expected extra loss of the chosen expert that is due to noise."""
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
        curve: PrivacyCurve = reporting.curve
        if isinstance(curve, GaussianDP):
            curve = Quoted(curve, self.delta)
        anchor = "shared-noise" if self.trust == "distributed" else "noisy-reports"
        return noisy_reports(
            setting=setting,
            reporting=reporting,
            report="NoisySums.losses",
            announced=ANNOUNCED,
            curve=curve,
            proof=Proof(PROOF, anchor),
            composition="sum",
            entered=1,
        )


def _noise_on_reports(experts: int, reporting: Any) -> dict[str, Any]:
    """The distribution of the noise, and the standard deviation of one number that is sent.

    Scales of different distributions cannot be compared.
    """
    laws = ((GaussianNoise, "gaussian"), (KNorm, "k_norm"), (AdditiveNoise, "laplace"))
    law = next(name for kind, name in laws if isinstance(reporting, kind))
    return {"report_noise": law, "report_deviation": reporting.deviation(experts)}


# Regret if rounds are independent with one distribution, and clients are independent in a round:
# `proofs/phased_selection.md#regret`.


def regret_bound(setting: Setting, excess: float) -> float:
    """Bounds the expected regret per client against the best expert in hindsight.

    A choice adds at most `excess` to the total loss because of noise.

    >>> settings = [Setting(clients=m, experts=100, horizon=2**14) for m in (1, 10)]
    >>> [round(regret_bound(setting, choice_excess(100, 1.0))) for setting in settings]
    [1025, 293]
    """
    clients, experts, horizon = setting.clients, setting.experts, setting.rounds
    if experts == 1:
        return 0.0
    entropy, total = log(experts), 1.0
    for before, rounds in later_blocks(horizon):
        total += rounds * min(
            1.0, sqrt(entropy / (2 * before * clients)) + excess / (before * clients)
        )
    return min(float(horizon), total + sqrt(horizon * entropy / (2 * clients)))


def choice_excess(experts: int, epsilon: float) -> float:
    """Bounds E[S(chosen)] - min S by 2 ln(d) / epsilon.

    The bound holds for the exponential mechanism and so for permute-and-flip.
    """
    return 2 * log(experts) / epsilon


def leader_excess(setting: Setting, reporting: Any) -> float:
    """The same for the smallest noisy sum: at most the expected maximum of the experts' noise."""
    clients, entropy, scale = setting.clients, log(setting.experts), reporting.scale
    if isinstance(reporting, GaussianNoise):
        return scale * sqrt(2 * clients * entropy)
    if isinstance(reporting, KNorm):
        experts = setting.experts
        return scale * sqrt(2 * clients * entropy * (experts + 1) * (experts + 2) / 3)
    if not (isinstance(reporting, AdditiveNoise) and reporting.law == "laplace"):
        raise NotImplementedError(f"No bound is proven for the maximum of this noise: {reporting}.")
    at = np.linspace(1e-3, 1 - 1e-3, 999)
    return float(scale * ((entropy - clients * np.log1p(-np.square(at))) / at).min())
