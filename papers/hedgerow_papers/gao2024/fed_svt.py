"""Fed-SVT as printed (Gao et al. 2024, Algorithms 4 and 5), and what it costs.

All losses since the start have the same weight in every draw, and after `switches` draws the last
expert is kept. Its server is `Selector`, the base of those of the package.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log, log2, nextafter, sqrt
from typing import ClassVar

import numpy as np

from hedgerow.algorithms.printed import Printed, printed_numbers, printed_regret
from hedgerow.algorithms.shared.following import CHANNELS, CurrentExpert, current_expert, followed
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import check_interval
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.certificate import PrivacyCurve, Proof, trusted_server
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.limits import Broadcasts
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import largest_range
from hedgerow.privacy.composition.bounded_range import WIDEST, AdaptiveBoundedRange
from hedgerow.privacy.composition.steps import AfterPureStep, pure_sum
from hedgerow.privacy.curves import PureDP, Quoted, promise
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism
from hedgerow_papers.printed_bounds import fed_svt_bound, fed_svt_numbers

MEANINGS = {
    **SparseVector.traits.meanings,
    "switches": "largest number of changes of expert",
    "rho": "probability of missing the published accuracy; does not affect privacy",
    "printed_regret_bound": "regret per client that the paper claims with probability 1 - O(rho)",
}


@dataclass(frozen=True)
class FedSVT(AlgorithmSpec):
    """Fed-SVT with the printed constants. `SparseVector` is better: use it.

    The certificate states what the printed constants really cost beside what the paper claims.

    Parameters
    ----------
    epsilon
        The claimed budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). Default 0.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon.
    best_loss
        The total loss L* of the best expert per client, >= 0 (default 0).
    rho
        The failure probability in the printed constants, in (0, 1/2). It does not affect privacy.
    switches
        The number of draws (kappa), at least 1. None (default): 3 ceil(log2 d) + 24 ln(1/rho).
    threshold
        The threshold L, >= 0, on the loss summed over clients. None (default): the printed one.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proofs: `proofs/sparse_vector.md#whole-algorithm` for delta = 0,
    `proofs/sparse_vector.md#approximate-dp` for delta > 0.

    Examples
    --------
    >>> built = FedSVT(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(built.certificate.peer.curve.words(), built.parameters["switches"])
    epsilon = 0.75, delta = 0 93

    References
    ----------
    Gao et al. 2024, Algorithms 4 and 5.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}}, meanings=MEANINGS
    )
    name: ClassVar[str] = "gao2024_fed_svt"
    draws_per_bit: ClassVar[int] = 3
    spread: ClassVar[int] = 1

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    best_loss: float = 0.0
    rho: float = 0.05
    switches: int | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("every", self.every, 1)
        if not 0 <= self.best_loss < np.inf:
            raise InvalidValue(f"Expected best_loss={self.best_loss!r} >= 0 and finite.")
        if not 0 < self.rho < 0.5:
            raise InvalidValue(f"Expected rho={self.rho!r} in (0, 1/2).")
        if self.switches is not None:
            at_least("switches", self.switches, 1)
        if self.threshold is not None and not 0 <= self.threshold < np.inf:
            raise InvalidValue(f"Expected threshold={self.threshold!r} >= 0 and finite.")

    def audit_variants(self) -> tuple[FedSVT, ...]:
        """Variants whose tiny games have several runs and come close to the certificate."""
        return (
            replace(self, epsilon=24.0, switches=2, threshold=1.0, every=1, best_loss=0.0),
            replace(self, epsilon=36.0, switches=3, threshold=0.5, every=1, best_loss=0.5),
            replace(self, epsilon=3.0, switches=2, threshold=0.5, every=1, best_loss=0.0),
        )

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        between("best_loss", self.best_loss, 0.0, float(setting.rounds))
        server = self.server(setting)
        bound = printed_regret(self, setting)
        kept = {} if bound is None else {"printed_regret_bound": bound.value}
        return followed(
            name=self.name,
            setting=setting,
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=cost(server.switches, server.sparse, server.selection.epsilon, self.delta),
                claimed=promise(self.epsilon, self.delta),
                proof=Proof(
                    "sparse_vector.md", "whole-algorithm" if self.delta == 0 else "approximate-dp"
                ),
                calibration="published",
                channels=CHANNELS,
                mechanisms=(
                    server.sparse.threshold_noise,
                    server.sparse.comparison,
                    server.selection,
                ),
                when_spent=(
                    f"after {server.switches} changes of expert the clients keep the last one, "
                    "and no more messages are sent"
                ),
            ),
            broadcasts=Broadcasts(CurrentExpert, current_expert(server.schedule, setting)),
            switches_left=server.switches_left,
            parameters={**server.shown(), **kept, **server.schedule.shown(setting)},
        )

    def server(self, setting: Setting) -> Selector:
        """The server with the printed constants, or those that were chosen by hand."""
        switches, eta, threshold, sparse = self.constants(setting)
        return Selector(
            setting.experts,
            Schedule(self.every),
            switches,
            float(round_to_lattice(threshold if self.threshold is None else self.threshold)),
            float(round_to_lattice(setting.clients * self.best_loss)),
            sparse,
            ExponentialMechanism("selection", eta),
        )

    def constants(self, setting: Setting) -> tuple[int, float, float, AboveThreshold]:
        """The draws, the rate of each, the threshold and the noise of the test, as printed."""
        kappa = self.draws_per_bit * ceil(log2(setting.experts)) + 24 * log(1 / self.rho)
        switches = self.switches or ceil(kappa)
        eta = (
            self.epsilon / (2 * switches)
            if self.delta == 0
            else self.epsilon / sqrt(self.spread * switches * log(1 / self.delta))
        )
        wait = 8 * log(2 * (setting.rounds / self.every) ** 2 / self.rho) / self.epsilon
        printed = setting.clients * self.best_loss + wait + 4 / eta
        return switches, eta, printed, AboveThreshold("laplace", 4 / self.epsilon, 8 / self.epsilon)


@printed_numbers.register
def _(spec: FedSVT, setting: Setting) -> Printed | None:
    return fed_svt_numbers(setting, spec.every)


@printed_regret.register
def _(spec: FedSVT, setting: Setting) -> Printed | None:
    """For the printed numbers of draws and the printed threshold only.

    Asi et al. print no constants for theirs.
    """
    if type(spec) is not FedSVT or (spec.switches, spec.threshold) != (None, None):
        return None
    return fed_svt_bound(setting, spec.epsilon, spec.delta, spec.every, spec.best_loss, spec.rho)


def total_cost(switches: int, sparse: AboveThreshold, selection_epsilon: float) -> PureDP:
    """Pure cost: the sparse-vector part once, plus one selection per switch.

    Proof: `proofs/sparse_vector.md#whole-algorithm`.
    """
    return pure_sum([sparse.curve, *[PureDP(selection_epsilon)] * switches])


def approximate_cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """Approximate cost: the sparse-vector part, then adaptive selections of bounded range.

    Proof: `proofs/sparse_vector.md#approximate-dp`.
    """
    if selection_epsilon > WIDEST:  # not in the recursion's tables, and it would gain nothing
        return total_cost(switches, sparse, selection_epsilon)
    return Quoted(
        AfterPureStep(AdaptiveBoundedRange(selection_epsilon, switches), sparse.curve.bound), delta
    )


def cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """The privacy cost of the whole game: pure if delta = 0."""
    if delta == 0:
        return total_cost(switches, sparse, selection_epsilon)
    return approximate_cost(switches, sparse, selection_epsilon, delta)


def affordable(epsilon: float, delta: float, switches: int, sparse: AboveThreshold) -> float:
    """The largest epsilon per selection that the budget allows after the sparse-vector part."""
    eta = (epsilon - sparse.curve.bound) / switches
    if delta > 0 and eta < WIDEST:
        eta = largest_range(
            switches, Budget(epsilon, delta), pure=sparse.curve.bound, tolerance=5e-4
        )
    while cost(switches, sparse, eta, delta).delta(epsilon) > delta:  # one last bit, if any
        eta = nextafter(eta, 0.0)
    return eta
