"""Private shrinking dartboard: exponential weights that rarely change the expert.

Every `every` rounds the clients send the sums of their losses. The server keeps the current expert
x with probability exp(-rate * (L(x) + base)), where L(x) is its loss since the last exchange.
Otherwise it draws an expert with weights exp(-rate * S), where S are the total losses. So the
expert always has the distribution of exponential weights, while most exchanges change nothing.

The algorithm is Algorithm 1 of Asi, Feldman, Koren and Talwar 2023. In the notation of the paper,
(1 - eta)^l = exp(-rate * l) and p = 1 - exp(-rate * base). p is the probability that an expert
leaves although it lost nothing; this hides why an expert left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hedgerow.algorithms.dartboard.cost import Choice, with_chance
from hedgerow.algorithms.dartboard.server import DartboardServer
from hedgerow.algorithms.dartboard.tuning import FREE, Plan, choose
from hedgerow.algorithms.shared.following import (
    CHANNELS,
    CurrentExpert,
    current_expert,
    followed,
)
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.core.certificate import Certificate, PrivacyCurve, Proof, trusted_server
from hedgerow.core.errors import InvalidValue
from hedgerow.core.limits import Broadcasts
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget, parameters
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.curves import PureDP, Quoted


@dataclass(frozen=True)
class ShrinkingDartboard(AlgorithmSpec):
    r"""Play with exponential weights, but change the expert rarely.

    Use it for losses that are fixed in advance but follow no known distribution; no expert needs
    to be good. After each group of rounds the current expert $x$ stays with probability
    $\exp(-\lambda (L(x) + b))$, where $L(x)$ is its loss in the group. Otherwise an expert is
    drawn with probability proportional to $\exp(-\lambda S(x))$, where $S(x)$ is the loss since
    the start. Losses are summed over clients, and $p = 1 - \exp(-\lambda b)$.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). 0 (default) gives pure differential privacy.
    every
        Rounds between two exchanges (the group size B): from 1 to the horizon. None (default):
        chosen for the smallest proven regret bound within the budget.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`, which cut the
        first group into shorter ones. None (default): yes if `every` is given. Where it is chosen,
        they do not lower the proven bound.
    plan
        What experts may choose themselves: `Plan(rate, leave, draws)` of
        `hedgerow.algorithms.dartboard.tuning`, in a study file a table. None (default): chosen as
        `every` is.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proofs: `proofs/dartboard.md#pure-dp` for delta = 0,
    `proofs/dartboard.md#approximate-dp` for delta > 0.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> algorithm = hr.ShrinkingDartboard(epsilon=1.0).build(setting)
    >>> print(algorithm.certificate.peer.curve.words())
    epsilon = 1, delta = 0
    >>> round(algorithm.regret_at_most), algorithm.claims.regret_bound.covers
    (75, 'oblivious')

    References
    ----------
    Asi, Feldman, Koren and Talwar 2023, Algorithm 1.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
        meanings={
            "rate": "learning rate",
            "base": "added to the loss of each group: an expert may leave although it lost nothing",
            "leave": "probability of that after each group (the `every` rounds between exchanges)",
            "draws": "largest number of new experts drawn; then the last one stays",
            **MEANINGS,
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int | None = None
    early: bool | None = None
    plan: Plan | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        if self.every is not None:
            at_least("every", self.every, 1)
        known = self.plan is None or isinstance(self.plan, Plan)
        if not known:
            raise InvalidValue(f"Expected plan={self.plan!r} to be a Plan or None.")

    @property
    def given(self) -> Plan:
        """The plan; empty if there is none."""
        return self.plan or FREE

    def audit_variants(self) -> tuple[ShrinkingDartboard, ...]:
        """Variants whose tiny games come close to the certificate.

        The first comes close by its draws. The second comes close by the first coin alone; with
        delta > 0 it has no limit on draws, so that coins decide how many there are.
        """
        variant = replace(self, epsilon=200.0, every=1)
        other = (
            replace(variant, plan=Plan(0.7, 0.3))
            if self.delta > 0
            else replace(variant, plan=Plan(0.3, 0.02, draws=1))
        )
        return replace(variant, plan=Plan(2.0, 0.05, draws=2)), other

    def resolve(self, setting: Setting) -> Algorithm:
        if self.every is not None and not self.every <= setting.rounds:
            raise InvalidValue(f"Expected every={self.every!r} <= horizon={setting.rounds}.")
        choice = self.choice(setting)
        server = DartboardServer(
            setting.experts, choice.schedule, choice.draws, choice.coin, choice.selection
        )
        return followed(
            name="shrinking_dartboard",
            setting=setting,
            server=server,
            certificate=self.certificate(setting, server),
            broadcasts=Broadcasts(CurrentExpert, current_expert(choice.schedule, setting)),
            regret_bound=RegretBound(
                choice.regret_bound(setting), "oblivious", Proof("dartboard.md", "regret")
            ),
            switches_left=server.switches_left,
            parameters=_shown(choice) | choice.schedule.shown(setting),
        )

    def choice(self, setting: Setting) -> Choice:
        """The values that are given, and for the others the best ones within the budget."""
        soon = self.every is not None if self.early is None else self.early
        given = self.given
        if given.rate is not None and given.leave is not None and self.every is not None:
            schedule = Schedule.of(self.every, soon)
            found = with_chance(given.rate, given.leave, schedule, given.draws)
        else:
            found = choose(setting, self.epsilon, self.delta, self.every, given, soon)
        self.afford(found, found.cost(setting))
        return found

    def afford(self, choice: Choice, cost: CoinThenDraws) -> None:
        """Refuses a choice that costs more than the budget.

        The message names the values that the user gave, or all values if none was given.
        """
        if cost.pure <= self.epsilon if self.delta == 0 else cost.delta(self.epsilon) <= self.delta:
            return
        hints = {
            "rate": "a smaller rate",
            "leave": "a larger leave",
            "draws": "fewer draws",
            "every": "a larger every",
        }
        given = {**parameters(self.given), "every": self.every}
        given = {name: value for name, value in given.items() if value is not None}
        chosen = {"rate": choice.rate, "leave": choice.leave, "draws": choice.draws}
        chosen |= {"every": choice.schedule.every}
        given = given or {name: value for name, value in chosen.items() if value is not None}
        values = ", ".join(f"{name}={value!r}" for name, value in given.items())
        change = ", ".join(hints[name] for name in given)
        raise InvalidValue(
            f"Expected {values} within epsilon={self.epsilon}, delta={self.delta}: "
            f"this choice costs {self.curve(cost).words()} or more. "
            f"Choose {change} or a larger epsilon."
        )

    def curve(self, cost: CoinThenDraws) -> PrivacyCurve:
        """The curve that the certificate states: pure if delta = 0."""
        return PureDP(cost.pure) if self.delta == 0 else Quoted(cost, self.delta)

    def certificate(self, setting: Setting, server: DartboardServer, **labels: Any) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=self.curve(server.cost(setting)),
            proof=Proof("dartboard.md", "pure-dp" if self.delta == 0 else "approximate-dp"),
            channels=CHANNELS,
            mechanisms=(server.coin, server.selection),
            when_spent=_when_spent(server.draws),
            **labels,
        )


def _shown(choice: Choice) -> dict[str, Any]:
    """The parameters that a built algorithm reports."""
    found: dict[str, Any] = {
        "rate": choice.rate,
        "base": choice.base,
        "leave": choice.leave,
        "every": choice.schedule.every,
    }
    return found if choice.draws is None else {**found, "draws": choice.draws}


def _when_spent(draws: int | None) -> str:
    if draws is None:
        return "the budget lasts for the whole horizon"
    return f"after {draws} draws the clients keep the last expert, and no more messages are sent"
