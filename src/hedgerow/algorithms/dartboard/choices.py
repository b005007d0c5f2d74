"""What the users of lazy algorithms choose (shrinking dartboard, lazy experts), and how the rest is settled within the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hedgerow.algorithms.dartboard.cost import Choice, with_chance
from hedgerow.algorithms.dartboard.tuning import Given, choose
from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget, expect
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.curves import PureDP, Quoted

RAREST = 1e-9  # of the chances to leave that may be given: below it the lattice of losses has hardly any


@dataclass(frozen=True)
class LazyChoices(AlgorithmSpec):
    """`epsilon` and `delta` are the budget (delta = 0: pure). `every` is the number of rounds between exchanges (the group size B);
    None lets the calibration choose. `rate`, `leave` (p) and `draws` (the cap) are taken as they are given, and the calibration chooses
    the others for them. With `rate`, `leave` and `every` nothing is left to choose, and without `draws` there is no cap. p is played as
    the nearest chance that the lattice of losses allows.
    """

    KIND: ClassVar[type[Choice]] = Choice
    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
        meanings={
            "rate": "learning rate",
            "base": "added to the loss of a group of rounds, so that an expert may be left without a reason",
            "leave": "chance of that, after each group: the `every` rounds between two exchanges",
            "draws": "new experts drawn, at most; then the last one stays",
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int | None = None
    rate: float | None = None
    leave: float | None = None
    draws: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        if self.every is not None:
            at_least("every", self.every, 1)
        if self.rate is not None:
            between("rate", self.rate, 1e-12, 100.0)
        if self.leave is not None:
            rule = f"in [{RAREST}, {1 - RAREST}]: at 0 every leaving tells a reason, at 1 nobody ever stays"
            expect(RAREST <= self.leave <= 1 - RAREST, "leave", self.leave, rule)
        if self.draws is not None:
            at_least("draws", self.draws, 1)

    def build(self, setting: Setting) -> Algorithm:
        raise NotImplementedError

    def settled(self, setting: Setting) -> Choice:
        """What was asked for, the rest as calibrated."""
        given = Given(self.rate, self.leave, self.draws)
        return self.given() or choose(setting, self.epsilon, self.delta, self.every, self.KIND, given)

    def afford(self, choice: Choice, cost: CoinThenDraws) -> None:
        """Refuses a choice whose server costs more than the budget; names what was given of it, or all where nothing was."""
        if cost.pure <= self.epsilon if self.delta == 0 else cost.delta(self.epsilon) <= self.delta:
            return
        hints = {"rate": "a smaller rate", "leave": "a larger leave", "draws": "fewer draws", "every": "a larger every"}
        given = {name: getattr(self, name) for name in hints if getattr(self, name) is not None}
        given = given or {name: getattr(choice, name) for name in hints if getattr(choice, name) is not None}
        told = ", ".join(f"{name}={value!r}" for name, value in given.items())
        change = ", ".join(hints[name] for name in given)
        rule = f"within epsilon={self.epsilon}, delta={self.delta}: this choice costs {self.curve(cost).words()} or more"
        raise InvalidValue(f"Expected {told} {rule}; take {change} or a larger epsilon.")

    @property
    def by_hand(self) -> bool:
        """Is any of the values given that a calibration would choose, or a paper has printed?"""
        return (self.rate, self.leave, self.draws) != (None, None, None)

    def given(self) -> Choice | None:
        """The choice, if nothing is left to calibrate."""
        if self.rate is None or self.leave is None or self.every is None:
            return None
        return with_chance(self.rate, self.leave, self.every, self.draws, self.KIND)

    def replaced(self, found: Choice) -> Choice:
        """What was found with what was given put in its place, and nothing else changed."""
        if not self.by_hand:
            return found
        draws = found.draws if self.draws is None else self.draws
        return with_chance(self.rate or found.rate, self.leave or found.leave, found.every, draws, self.KIND)

    def fits(self, setting: Setting) -> None:
        if self.every is not None:
            expect(self.every <= setting.horizon, "every", self.every, f"<= horizon={setting.horizon}")

    def curve(self, cost: CoinThenDraws) -> PrivacyCurve:
        return PureDP(cost.pure) if self.delta == 0 else Quoted(cost, self.delta)


def resolved(choice: Choice) -> dict[str, Any]:
    """The parameters that a built algorithm shows."""
    found: dict[str, Any] = {"rate": choice.rate, "base": choice.base, "leave": choice.leave, "every": choice.every}
    return found if choice.draws is None else {**found, "draws": choice.draws}


def when_spent(draws: int | None) -> str:
    if draws is None:
        return "the budget lasts for the whole horizon"
    return f"after {draws} draws the sites keep the last expert, and nothing is sent any more"
