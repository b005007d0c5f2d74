"""Fed-DP-OPE-Stoch with the printed noise (Gao et al. 2024, Algorithms 1 to 3), and its cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, log, log2, sqrt
from typing import Any, ClassVar, Literal

from hedgerow.algorithms.phases.phased_selection import leader_excess
from hedgerow.algorithms.shared.noisy_reports import Trust
from hedgerow.core.certificate import Certificate
from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.protocol import Algorithm, SpecTraits
from hedgerow.core.rounding import round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import one_of
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms import AdditiveNoise
from hedgerow_papers.gao2024.certified_frank_wolfe import PURPOSE, Form, FrankWolfe, Report
from hedgerow_papers.gao2024.laplace_max import LaplaceMax
from hedgerow_papers.gao2024.tree_roles import Placement
from hedgerow_papers.gao2024.trees import MOST_TREES, Plan, plan


@dataclass(frozen=True)
class FedDPOPEStoch(FrankWolfe):
    """Fed-DP-OPE-Stoch with the printed noise. `FrankWolfe` is better: use it.

    Every leaf gets noise of the printed scale, 4 alpha 2^j / (b epsilon). The certificate states
    what it really costs beside what the paper claims: for losses of experts with trust="local" up
    to d epsilon / 4.

    Parameters
    ----------
    epsilon
        The claimed budget, in [1e-6, 1e6]. Default 1.
    trust
        "local" (default): every client adds noise to what it sends. "central": the server receives
        exact sums and chooses an expert with noise.
    trees
        The largest number of `trees` in a phase (T_1 in the paper), from 0 to 12. None (default):
        the printed number, rounded down, as far as the records allow.
    batches
        The printed `batches`. "theorem" (default): b = 2^(p-1) / (p-1)^2 in phase p, rounded up to
        whole records of every vertex. "corollary": b = 2^(p-1), with which Corollary 1 is proven
        for T_1 = 1. A phase that has too few records takes the largest batches that fit; for the
        corollary these are all phases.

    Guarantee
    ---------
    One record of one client in one round is protected with the certified epsilon: with "local" from
    every observer, even if all other clients collude; with "central" from the public and from other
    clients. Proofs: `proofs/frank_wolfe.md#leaves`, `proofs/frank_wolfe.md#choices`.

    Examples
    --------
    >>> built = FedDPOPEStoch(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(built.certificate.server.curve.words())
    epsilon = 25, delta = 0

    References
    ----------
    Gao, Huang and Yang 2024, Algorithms 1 to 3.
    """

    traits: ClassVar[SpecTraits] = replace(
        FrankWolfe.traits,
        forms={"central": {"trust": "central"}},
        exact="trust='local'",
    )

    delta: float = field(default=0.0, init=False, repr=False)
    trust: Trust = "local"
    batches: Literal["theorem", "corollary"] = "theorem"
    noise: Placement | None = field(default="leaf", init=False, repr=False)
    report: Report | None = field(default=None, init=False, repr=False)
    honest: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        one_of(self, batches=("theorem", "corollary"))
        if self.trust == "distributed":
            raise InvalidValue(
                f"Expected trust={self.trust!r} to be central or local, as published."
            )
        super().__post_init__()

    def laws(self) -> tuple[str, ...]:
        return ("choice",) if self.trust == "central" else ("laplace",)

    def form(self, setting: Setting, law: str) -> Form:
        return PrintedForm(self, setting, law)

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(super().resolve(setting), name="gao2024_fed_dp_ope_stoch")


@dataclass(frozen=True)
class PrintedForm(Form):
    """The printed trees, batches and scale of the noise."""

    spec: FedDPOPEStoch

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(self._plan(phase) for phase in range(self.setting.rounds.bit_length()))

    def _plan(self, phase: int) -> Plan:
        """The printed trees and batches; fewer trees or smaller batches if records are too few."""
        parts = (phase + 1) ** 2 if self.spec.batches == "theorem" else 1
        batch = Fraction(2 ** (phase + 1), parts)
        most = self._trees(float(batch)) if self.spec.trees is None else self.spec.trees
        fit = (plan(2**phase, trees) for trees in range(most, -1, -1))
        largest = next(one for one in fit if one is not None)
        whole = 2**largest.trees
        return replace(largest, batch=min(largest.batch, whole * ceil(batch / whole)))

    def _trees(self, batch: float) -> int:
        """The printed number of trees, rounded down."""
        family, width = self.setting.family, self.setting.experts
        steep, bend = family.gradient_bound("linf", width), family.smoothness("l1", width)
        clients = self.setting.clients
        together = clients if self.spec.trust == "central" else sqrt(clients)
        inside = batch * self.spec.epsilon * bend * together / (steep * log(max(2, width)))
        return min(MOST_TREES, floor(log2(inside) / 2)) if inside > 1 else 0

    def noise(self, trees: int) -> Mechanism:
        """The printed scale, 4 alpha 2^j / (b epsilon), in units of R / b and of tree `trees`."""
        moved = self.moved(trees)
        family, width = self.setting.family, self.setting.experts
        steep = family.gradient_bound("linf", width) / self.gradients.unit
        scale = 4.0 * steep * 2.0**trees / self.spec.epsilon
        if self.law == "choice":
            cost = round_up(2 * Fraction(moved) / Fraction(scale))
            return LaplaceMax(PURPOSE, cost, moved)
        return AdditiveNoise(PURPOSE, "laplace", scale, moved)

    def error(self, mechanism: Any) -> float:
        if not isinstance(mechanism, LaplaceMax):
            return super().error(mechanism)
        alone = replace(self.setting, clients=1)
        return leader_excess(alone, AdditiveNoise(PURPOSE, "laplace", mechanism.scale))

    def certificate(self, **labels: Any) -> Certificate:
        claimed = PureDP(self.spec.epsilon)
        return super().certificate(calibration="published", claimed=claimed, **labels)
