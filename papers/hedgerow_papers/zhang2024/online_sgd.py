"""Online SGD with the printed noise (Zhang et al. 2024, Lemma IV.8), and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import Any, ClassVar

from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.algorithms.learning.plan import Plan
from hedgerow.algorithms.shared.noisy_reports import Trust
from hedgerow.core.noise import COUNTED
from hedgerow.core.protecting import protecting
from hedgerow.core.protocol import Algorithm, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit
from hedgerow.privacy.curves import ApproximateDP
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.running_sums.lattice import LatticeEncoder


def published_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the scale of noise by the conversion of Lemma IV.8, through concentrated DP.

    >>> round(published_scale(0.5, 1e-3, 1.0), 3), round(published_scale(2.0, 1e-3, 1.0), 3)
    (7.566, 1.984)
    """
    away = log(1 / delta)
    root = sqrt(epsilon + away) - sqrt(away)
    return sensitivity / (sqrt(2.0) * root)


@dataclass(frozen=True)
class ZhangSGD(OnlineSGD):
    """Online SGD with local steps and the printed noise. `OnlineSGD` is better: use it.

    The noise is for a sensitivity that local steps do not have. The certificate states what it
    really costs beside what the paper claims.

    Parameters
    ----------
    epsilon
        The claimed budget, in [1e-6, 1e6]. Default 1. `inf`: no noise and no guarantee.
    delta
        The second part of the budget, in (0, 1). Default 1e-3.
    clip, step, average
        As for `OnlineSGD`.
    plan
        As for `OnlineSGD`. Default: `Plan("clipped")`, local steps and any loss.

    Guarantee
    ---------
    One example of one client in one round is protected from every observer with the certified
    (epsilon, delta), even if all other clients collude. Proofs: `proofs/online_sgd.md#sensitivity`,
    `proofs/online_sgd.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> family = hr.Batch(hr.Logistic(radius=10.0), size=5)
    >>> setting = hr.Setting(clients=20, experts=100, horizon=1000, family=family)
    >>> print(ZhangSGD(epsilon=2.0).build(setting).certificate.server.curve.words())
    epsilon = 10.32, delta = 0.001

    References
    ----------
    Zhang, Zhu, Fay and Johansson 2024, Lemma IV.8.
    """

    traits: ClassVar[SpecTraits] = replace(OnlineSGD.traits, forms={})

    delta: float = 1e-3
    trust: Trust = field(default="local", init=False, repr=False)

    @property
    def chosen(self) -> Plan:
        return Plan("clipped") if self.plan is None else self.plan

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(super().resolve(setting), name="zhang2024_online_sgd")

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        """By the rule for several records: the printed noise is for one."""
        return protecting(self, unit, setting)

    def noise(
        self, setting: Setting, encoder: LatticeEncoder, change: float, clip: float
    ) -> GaussianNoise:
        """The printed scale, for the sensitivity that the paper claims."""
        claimed = 2 * clip * encoder.factorisation.sensitivity()
        scale = published_scale(self.epsilon, self.delta, claimed)
        return GaussianNoise(COUNTED, scale, encoder.sensitivity(change))

    def labels(self) -> dict[str, Any]:
        return {
            "calibration": "published",
            "claimed": ApproximateDP(self.epsilon, self.delta),
        }
