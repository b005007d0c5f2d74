"""Bounds that papers print: Gao, Huang and Yang 2024 and Asi et al. 2023; hidden constants are 1.

They show how regret and communication grow. Nothing is certified by them. Theorem 2.2 is about
Frank-Wolfe, Theorem 2.6 about Fed-SVT. There are also the bounds that Asi et al. 2023 print for the
algorithms that `doubling` and `potential` are after, and for the dartboard.
"""

from __future__ import annotations

from math import ceil, log, log2, sqrt

from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.printed import Printed, printed_numbers, printed_regret
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.setting import Setting
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe

DOUBT = 0.05  # the failure probability of a theorem, rho or beta


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


@printed_regret.register
def _(spec: SparseVector, setting: Setting) -> Printed | None:
    return fed_svt_bound(setting, spec.epsilon, spec.delta, spec.every, spec.best_loss)


@printed_regret.register
def _(spec: Doubling, setting: Setting) -> Printed | None:
    if setting.horizon is None or setting.experts < 2 or spec.delta > 0:
        return None
    entropy, rounds = log(setting.experts), log(setting.rounds)
    doubt = log(setting.rounds * setting.experts / DOUBT)
    value = (entropy**2 + log(setting.rounds / DOUBT) * doubt) * rounds / spec.epsilon
    formula = "(ln^2 d + ln(T/beta) ln(T d/beta)) ln T / epsilon"
    return Printed(formula, value, "Asi et al. 2023, Theorem 2, for one client and L* = 0")


@printed_regret.register
def _(spec: Potential, setting: Setting) -> Printed | None:
    return potential_bound(setting, spec.epsilon, spec.delta)


@printed_numbers.register
def _(spec: SparseVector | Doubling | Potential, setting: Setting) -> Printed | None:
    return fed_svt_numbers(setting, spec.every)


@printed_numbers.register
def _(spec: PhasedSelection | RandomPrefix | LimitedUpdates, setting: Setting) -> Printed | None:
    if setting.horizon is None or setting.experts < 2:
        return None
    return Printed("m d ln T", corollary_communication(setting), "Table 1")


@printed_numbers.register
def _(spec: FrankWolfe, setting: Setting) -> Printed | None:
    if setting.horizon is None or setting.experts < 2:
        return None
    if spec.trees == 1 or _constants(setting)[3][1] == 0:
        return Printed("m d ln T", corollary_communication(setting), "Table 1")
    central = spec.trust == "central"
    power, theorem = ("3/2", "Theorem 7 (NeurIPS)") if central else ("5/4", "Theorem 2.2")
    formula = f"m^({power}) d sqrt(T epsilon beta / (alpha ln d))"
    return Printed(formula, theorem_communication(setting, spec.epsilon, central), theorem)


def potential_bound(setting: Setting, epsilon: float, delta: float) -> Printed | None:
    """Theorems 6 and 7 of Asi et al. 2023."""
    if setting.horizon is None or setting.experts < 2:
        return None
    entropy, rounds = log(setting.experts), log(setting.rounds)
    formula, value = "ln^2 d ln T / epsilon", entropy**2 * rounds / epsilon
    if delta > 0:
        formula = "ln^(3/2) d ln T sqrt(ln(1/delta)) / epsilon"
        value = entropy**1.5 * rounds * sqrt(log(1 / delta)) / epsilon
    theorem = "Theorem 7" if delta > 0 else "Theorem 6"
    return Printed(formula, value, f"Asi et al. 2023, {theorem}, for one client and small L*")


def fed_svt_numbers(setting: Setting, every: int) -> Printed | None:
    """Theorem 2.6: m d T / N numbers."""
    if setting.horizon is None or setting.experts < 2:
        return None
    value = setting.clients * setting.experts * setting.rounds / every
    return Printed("m d T / N", value, "Theorem 2.6")


def fed_svt_bound(
    setting: Setting,
    epsilon: float,
    delta: float = 0.0,
    every: int = 1,
    best_loss: float = 0.0,
    rho: float = DOUBT,
) -> Printed | None:
    """The bound at the end of the paper's proof of Theorem 2.6, before constants are hidden.

    It is for the printed constants, and may exceed the horizon.

    >>> round(fed_svt_bound(Setting(10, 100, 512), 10.0).value)
    1025
    """
    if setting.horizon is None or setting.experts < 2:
        return None
    draws = ceil(3 * ceil(log2(setting.experts)) + 24 * log(1 / rho))
    rate = epsilon / (2 * draws if delta == 0 else sqrt(draws * log(1 / delta)))
    wait = 16 * log(2 * (setting.rounds / every) ** 2 / rho) / epsilon
    run = setting.clients * (best_loss + every) + wait + 4 / rate
    formula = "(kappa/m) (m L* + 16 ln(2 T^2/(N^2 rho))/epsilon + 4/eta + m N)"
    source = "Gao et al. 2024, Theorem 2.6, for the printed constants"
    return Printed(formula, draws * run / setting.clients, source, hidden_constant=False)


def fed_svt_regret(setting: Setting, epsilon: float, every: int, rho: float = DOUBT) -> float:
    """Theorem 2.6 with a perfect expert and delta = 0.

    (ln^2 d + ln(T^2/(N^2 rho)) ln(d/rho))/(m epsilon) + N ln(d/rho)
    """
    doubt = log(setting.experts / rho)
    shared = log(setting.experts) ** 2 + log((setting.rounds / every) ** 2 / rho) * doubt
    return shared / (setting.clients * epsilon) + every * doubt


def theorem_communication(setting: Setting, epsilon: float, central: bool = False) -> float:
    """Theorem 2.2: m^(5/4) d sqrt(T epsilon beta / (alpha ln d)) numbers.

    With a trusted server (Theorem 7 of the later version) m^(3/2). The earlier version prints a
    further factor log T.
    """
    clients, horizon, entropy, (steep, bend) = _constants(setting)
    return (
        clients ** (1.5 if central else 1.25)
        * setting.experts
        * sqrt(horizon * epsilon * bend / (steep * entropy))
    )


def corollary_communication(setting: Setting) -> float:
    """The corollary: m d ln T numbers."""
    return setting.clients * setting.experts * log(setting.rounds)


def _constants(setting: Setting) -> tuple[int, int, float, tuple[float, float]]:
    family, width = setting.family, setting.experts
    constants = family.gradient_bound("linf", width), family.smoothness("l1", width)
    return setting.clients, setting.rounds, log(width), constants
