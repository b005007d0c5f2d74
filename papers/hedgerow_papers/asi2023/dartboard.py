"""The private shrinking dartboard with the printed constants (Asi et al. 2023, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, exp, log, log1p
from typing import Any, ClassVar

from hedgerow.algorithms.dartboard.cost import Choice, with_chance
from hedgerow.algorithms.dartboard.server import DartboardServer
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.dartboard.tuning import FREE, LARGEST_CHANCE
from hedgerow.algorithms.printed import Printed, printed_regret
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.certificate import Certificate
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import Algorithm, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import promise


def printed(
    setting: Setting, epsilon: float, delta: float, every: int | None
) -> tuple[Choice, float]:
    """The printed constants for the mean loss of all clients, and the printed regret bound.

    They are those of Corollary 4 if delta = 0 and of Corollary 6 otherwise; for groups of one round
    Corollary 6 is Corollary 3. If the group size is not that of Corollary 6, each group counts as
    one round of a shorter game in Corollaries 3 and 4.
    """
    experts, horizon = max(2, setting.experts), setting.rounds
    if not epsilon <= 1:
        raise InvalidValue(
            f"Expected epsilon={epsilon!r} <= 1 (Corollaries 3, 4 and 6 of Asi et al. 2023)."
        )
    if delta == 0:
        size, game = every or 1, horizon / (every or 1)
        p, name = game**-0.5, "Corollary 4"
        eta = p * epsilon / 20
    else:
        tail = log(1 / delta)
        size = every or max(
            1, min(horizon, round(tail**0.4 * log(experts) ** 0.6 / (horizon**0.2 * epsilon**0.6)))
        )
        game = horizon / size
        p, name = (
            (game * tail) ** (-1 / 3),
            "Corollary 6" if every is None and size > 1 else "Corollary 3",
        )
        most = tail ** (1 / 3) * game ** (-1 / 6) * log(experts) ** 0.5
        eta = size * p * epsilon / 40 if name == "Corollary 6" else p * min(epsilon / 2, most) / 20
    found = f"but {name} gives p = {p:.4g} in {game:.4g} rounds"
    if not p <= LARGEST_CHANCE:
        wrong = (
            f"delta={delta!r} to be smaller" if delta > 0 else f"horizon={horizon!r} to be larger"
        )
        raise InvalidValue(f"Expected {wrong}: Theorems 2 and 5 need p <= 1/2, {found}.")
    if not eta < 0.5:
        raise InvalidValue(
            f"Expected epsilon={epsilon!r} to be smaller: Theorems 2 and 5 need eta < 1/2, but "
            f"{name} gives eta = {eta:.4g}."
        )
    rate = -log1p(-eta) / (setting.clients * size)
    bound = eta * horizon + size * log(experts) / eta + 2 * horizon * exp(-game * p / 3)
    return with_chance(rate, p, Schedule(size), max(1, ceil(4 * game * p) - 1)), bound


@dataclass(frozen=True)
class AsiDartboard(ShrinkingDartboard):
    """The dartboard with the printed constants. `ShrinkingDartboard` is better: use it.

    The certificate states what the printed constants really cost beside what the paper claims.

    Parameters
    ----------
    epsilon
        The claimed budget, in [1e-6, 1]. Default 1.
    delta
        The second part of the budget, in [0, 1). Default 0.
    every
        Rounds between two exchanges (the group size B): from 1 to the horizon. None (default): the
        printed value.
    plan
        `Plan(rate, leave, draws)`, as for `ShrinkingDartboard`. None (default): the printed values.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proofs: `proofs/dartboard.md#pure-dp` for delta = 0,
    `proofs/dartboard.md#approximate-dp` for delta > 0.

    Examples
    --------
    >>> built = AsiDartboard(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(built.certificate.peer.curve.words())
    epsilon = 0.0446, delta = 0

    References
    ----------
    Asi, Feldman, Koren and Talwar 2023, Algorithm 1; Corollaries 3, 4 and 6 for the constants.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
        meanings={
            **ShrinkingDartboard.traits.meanings,
            "printed_regret_bound": "regret bound that the paper claims",
        },
    )

    early: bool | None = field(default=False, init=False, repr=False)

    @property
    def by_hand(self) -> bool:
        """Whether any of the printed constants is replaced."""
        return self.given != FREE

    def audit_variants(self) -> tuple[ShrinkingDartboard, ...]:
        return tuple(replace(one, epsilon=self.epsilon) for one in super().audit_variants())

    def resolve(self, setting: Setting) -> Algorithm:
        built = replace(super().resolve(setting), name="asi2023_dartboard")
        if self.by_hand:
            return built
        _, bound = printed(setting, self.epsilon, self.delta, self.every)
        return replace(built, parameters={**built.parameters, "printed_regret_bound": bound})

    def choice(self, setting: Setting) -> Choice:
        """The printed constants, or those that are given instead."""
        given = self.given
        if given.rate is not None and given.leave is not None and self.every is not None:
            return with_chance(given.rate, given.leave, Schedule(self.every), given.draws)
        found, _ = printed(setting, self.epsilon, self.delta, self.every)
        if not self.by_hand:
            return found
        draws = found.draws if given.draws is None else given.draws
        return with_chance(
            given.rate or found.rate, given.leave or found.leave, found.schedule, draws
        )

    def certificate(self, setting: Setting, server: DartboardServer, **labels: Any) -> Certificate:
        claimed = None if self.by_hand else promise(self.epsilon, self.delta)
        return super().certificate(
            setting, server, calibration="published", claimed=claimed, **labels
        )


@printed_regret.register
def _(spec: AsiDartboard, setting: Setting) -> Printed | None:
    """For the printed constants only."""
    if setting.experts < 2 or spec.by_hand:
        return None
    choice, value = printed(setting, spec.epsilon, spec.delta, spec.every)
    formula = "eta T + B ln(d)/eta + 2 T exp(-T p/(3 B))"
    theorem = "Theorem 2" if choice.schedule.every == 1 else "Theorem 5"
    source = f"Asi et al. 2023, {theorem}, for the printed constants"
    return Printed(formula, value, source, hidden_constant=False)
