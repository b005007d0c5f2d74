"""The theorems of Gao, Huang and Yang 2024 on Frank-Wolfe, with every hidden constant 1.

They show how regret and communication grow. Nothing is certified by them.
"""

from __future__ import annotations

from math import log, sqrt

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


def theorem_communication(setting: Setting, epsilon: float) -> float:
    """Theorem 2.2: m^(5/4) d sqrt(T epsilon beta / (alpha ln d)) numbers."""
    clients, horizon, entropy, (steep, bend) = _constants(setting)
    return clients**1.25 * setting.experts * sqrt(horizon * epsilon * bend / (steep * entropy))


def corollary_communication(setting: Setting) -> float:
    """The corollary: m d ln T numbers."""
    return setting.clients * setting.experts * log(setting.rounds)


def _constants(setting: Setting) -> tuple[int, int, float, tuple[float, float]]:
    family, width = setting.family, setting.experts
    constants = family.gradient_bound("linf", width), family.smoothness("l1", width)
    return setting.clients, setting.rounds, log(width), constants
