"""The theorems of Gao, Huang and Yang 2024, with every hidden constant 1.

They show how regret and communication grow. Nothing is certified by them. Theorem 2.2 is about
Frank-Wolfe, Theorem 2.6 about Fed-SVT.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from hedgerow.algorithms.gradient.frank_wolfe import FrankWolfe
from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.potential import Potential
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting


def theorem_regret(setting: Setting, epsilon: float) -> tuple[float, float]:
    """Theorem 2.2, local: the statistical term, and the privacy term, which falls like m^(-1/4)."""
    clients, horizon, entropy, (steep, bend) = _constants(setting)
    common = log(horizon)
    statistical = (steep + bend) * common * sqrt(horizon * entropy / clients)
    private = sqrt(steep * bend * horizon / epsilon) * common * entropy / clients**0.25
    return statistical, private


def corollary_regret(setting: Setting, epsilon: float) -> tuple[float, float]:
    """The later corollary for small smoothness: its privacy term falls like m^(-1/2)."""
    clients, horizon, entropy, _ = _constants(setting)
    return sqrt(horizon * entropy / clients), log(horizon) * entropy / (sqrt(clients) * epsilon)


@dataclass(frozen=True)
class PrintedCount:
    """How many numbers a theorem says are sent, with the hidden constant 1, and its formula."""

    formula: str
    value: float
    source: str


def printed_numbers(spec: AlgorithmSpec, setting: Setting) -> PrintedCount | None:
    """The printed communication cost of an algorithm of the paper, or of its kind; None: none.

    >>> printed_numbers(SparseVector(every=30), Setting(10, 100, 512)).formula
    'm d T / N'
    """
    if setting.horizon is None or setting.experts < 2:
        return None
    if isinstance(spec, SparseVector | Doubling | Potential):
        return PrintedCount("m d T / N", fed_svt_communication(setting, spec.every), "Theorem 2.6")
    if isinstance(spec, PhasedSelection | RandomPrefix | LimitedUpdates):
        return PrintedCount("m d ln T", corollary_communication(setting), "Corollary 2.3")
    if isinstance(spec, FrankWolfe):
        if spec.trees == 1 or _constants(setting)[3][1] == 0:
            return PrintedCount("m d ln T", corollary_communication(setting), "Corollary 2.3")
        formula = "m^(5/4) d sqrt(T epsilon beta / (alpha ln d))"
        value = theorem_communication(setting, spec.epsilon)
        return PrintedCount(formula, value, "Theorem 2.2")
    return None


def fed_svt_communication(setting: Setting, every: int) -> float:
    """Theorem 2.6: m d T / N numbers."""
    return setting.clients * setting.experts * setting.rounds / every


def fed_svt_regret(setting: Setting, epsilon: float, every: int, rho: float = 0.05) -> float:
    """Theorem 2.6 with a perfect expert and delta = 0.

    (ln^2 d + ln(T^2/(N^2 rho)) ln(d/rho))/(m epsilon) + N ln(d/rho)
    """
    doubt = log(setting.experts / rho)
    shared = log(setting.experts) ** 2 + log((setting.rounds / every) ** 2 / rho) * doubt
    return shared / (setting.clients * epsilon) + every * doubt


def theorem_communication(setting: Setting, epsilon: float) -> float:
    """Theorem 2.2: m^(5/4) d sqrt(T epsilon beta / (alpha ln d)) numbers.

    The earlier version of the paper prints a further factor log T.
    """
    clients, horizon, entropy, (steep, bend) = _constants(setting)
    return clients**1.25 * setting.experts * sqrt(horizon * epsilon * bend / (steep * entropy))


def corollary_communication(setting: Setting) -> float:
    """The corollary: m d ln T numbers."""
    return setting.clients * setting.experts * log(setting.rounds)


def _constants(setting: Setting) -> tuple[int, int, float, tuple[float, float]]:
    family, width = setting.family, setting.experts
    constants = family.gradient_bound("linf", width), family.smoothness("l1", width)
    return setting.clients, setting.rounds, log(width), constants
