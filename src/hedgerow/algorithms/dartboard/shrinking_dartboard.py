"""Private shrinking dartboard: exponential weights that change their mind rarely (Asi, Feldman, Koren, Talwar 2023, Algorithm 1).

Every `every` rounds the clients send the sums of their losses. The server stays with the current expert x with probability
exp(-rate * (L(x) + base)), L(x) its loss since the last exchange; otherwise it draws an expert with weights exp(-rate * S), S the
total losses. So the expert always has the law of exponential weights, while most exchanges change nothing. In the paper's letters
(1 - eta)^l = exp(-rate * l) and p = 1 - exp(-rate * base), the chance to leave without a reason, which hides the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, exp, log, log1p
from operator import attrgetter
from typing import Any, ClassVar, Literal

from hedgerow.algorithms.dartboard.cost import Choice, with_chance
from hedgerow.algorithms.dartboard.server import DartboardServer
from hedgerow.algorithms.dartboard.tuning import LARGEST_CHANCE, Given, choose
from hedgerow.algorithms.shared.following import CHANNELS, CurrentExpert, Follower
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.certificate import Certificate, PrivacyCurve, Proof, trusted_server
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget, expect
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.curves import ApproximateDP, PureDP, Quoted

RAREST = 1e-9  # smallest chance to leave that may be given: the lattice of losses has few below it


def printed(
    setting: Setting, epsilon: float, delta: float, every: int | None
) -> tuple[Choice, float]:
    """The printed constants for the mean loss of all clients, and the regret bound printed with them.

    Corollary 4 for delta = 0; otherwise Corollary 6, which for groups of one round is Corollary 3. Groups of another size than
    Corollary 6 says are rounds of a shorter game to Corollaries 3 and 4.
    """
    experts, horizon = max(2, setting.experts), setting.horizon
    expect(epsilon <= 1, "epsilon", epsilon, "<= 1 (Corollaries 3, 4 and 6 of Asi et al. 2023)")
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
    rule = f"so large that {name} has p <= 1/2 in {game:.4g} rounds, which Theorems 2 and 5 need; it has p = {p:.4g}"
    expect(
        p <= LARGEST_CHANCE,
        "delta" if delta > 0 else "horizon",
        delta if delta > 0 else horizon,
        _smaller(rule, delta),
    )
    expect(
        eta < 0.5,
        "epsilon",
        epsilon,
        f"so small that {name} has eta < 1/2, which Theorems 2 and 5 need; it has eta = {eta:.4g}",
    )
    rate = -log1p(-eta) / (setting.clients * size)
    bound = eta * horizon + size * log(experts) / eta + 2 * horizon * exp(-game * p / 3)
    return with_chance(rate, p, size, max(1, ceil(4 * game * p) - 1)), bound


def _smaller(rule: str, delta: float) -> str:
    return rule.replace("so large", "so small") if delta > 0 else rule


@dataclass(frozen=True)
class ShrinkingDartboard(AlgorithmSpec):
    """Private federated experts for losses fixed in advance, of which no expert need be good.

    `epsilon` and `delta` are the budget (delta = 0: pure). `every` is the number of rounds between exchanges (the group size B); None
    lets the calibration choose. `calibration="certified"` (default) chooses everything else from public values for the
    smallest proven regret bound; `"published"` takes the printed constants, and its certificate says what they really cost. `rate`,
    `leave` (p) and `draws` (K - 1) are taken as given: a certified calibration chooses the others for them, the printed constants
    stay as they are. The certificate follows.

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = ShrinkingDartboard(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(algorithm.certificate.guarantees[1].curve.words(), round(algorithm.regret_at_most))
    epsilon = 1, delta = 0 75
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={
            "published": {"calibration": "published"},
            "approximate": {"delta": 1e-6},
            "approximate, published": {"delta": 1e-6, "calibration": "published"},
        },
        meanings={
            "rate": "learning rate",
            "base": "added to the loss of a group of rounds, so that an expert may be left without a reason",
            "leave": "chance of that, after each group: the `every` rounds between two exchanges",
            "draws": "new experts drawn, at most; then the last one stays",
            "printed_regret_bound": "what the paper claims",
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int | None = None
    rate: float | None = None
    leave: float | None = None
    draws: int | None = None
    calibration: Literal["certified", "published"] = "certified"

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
        options = ("certified", "published")
        expect(self.calibration in options, "calibration", self.calibration, f"in {options}")

    def audit_variants(self) -> tuple[ShrinkingDartboard, ...]:
        """Loud versions whose tiny games come close to the certificate: by draws, and by the first coin alone; for a delta one without
        a cap, so that coins decide how many draws there are.
        """
        loud = replace(
            self, epsilon=200.0 if self.calibration == "certified" else self.epsilon, every=1
        )
        other = (
            replace(loud, rate=0.7, leave=0.3, draws=None)
            if self.delta > 0
            else replace(loud, rate=0.3, leave=0.02, draws=1)
        )
        return replace(loud, rate=2.0, leave=0.05, draws=2), other

    def build(self, setting: Setting) -> Algorithm:
        if self.every is not None:
            expect(
                self.every <= setting.horizon, "every", self.every, f"<= horizon={setting.horizon}"
            )
        choice, claimed_bound = self._choice(setting)
        server = DartboardServer(
            setting.experts, choice.every, choice.draws, choice.coin, choice.selection
        )
        if self.calibration == "certified":
            self.afford(choice, server.cost(setting))
        return Algorithm(
            name="shrinking_dartboard",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=self._certificate(setting, server),
            upload=LossSums,
            broadcast=CurrentExpert,
            advance=server.advance,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            regret_bound=RegretBound(
                choice.regret_bound(setting), "oblivious", Proof("dartboard.md", "regret")
            ),
            parameters=_shown(choice, claimed_bound),
        )

    @property
    def by_hand(self) -> bool:
        """Is any of the values given that a calibration would choose, or a paper has printed?"""
        return (self.rate, self.leave, self.draws) != (None, None, None)

    def _choice(self, setting: Setting) -> tuple[Choice, float | None]:
        """The parameters, and the printed regret bound where they are the printed ones."""
        if self.rate is not None and self.leave is not None and self.every is not None:
            return with_chance(self.rate, self.leave, self.every, self.draws), None
        if self.calibration == "certified":
            return choose(
                setting,
                self.epsilon,
                self.delta,
                self.every,
                Given(self.rate, self.leave, self.draws),
            ), None
        found, bound = printed(setting, self.epsilon, self.delta, self.every)
        if not self.by_hand:
            return found, bound
        draws = found.draws if self.draws is None else self.draws
        return with_chance(
            self.rate or found.rate, self.leave or found.leave, found.every, draws
        ), None

    def afford(self, choice: Choice, cost: CoinThenDraws) -> None:
        """Refuses a choice whose server costs more than the budget; names what was given of it, or all where nothing was."""
        if cost.pure <= self.epsilon if self.delta == 0 else cost.delta(self.epsilon) <= self.delta:
            return
        hints = {
            "rate": "a smaller rate",
            "leave": "a larger leave",
            "draws": "fewer draws",
            "every": "a larger every",
        }
        given = {name: getattr(self, name) for name in hints if getattr(self, name) is not None}
        given = given or {
            name: getattr(choice, name) for name in hints if getattr(choice, name) is not None
        }
        told = ", ".join(f"{name}={value!r}" for name, value in given.items())
        change = ", ".join(hints[name] for name in given)
        rule = f"within epsilon={self.epsilon}, delta={self.delta}: this choice costs {self.curve(cost).words()} or more"
        raise InvalidValue(f"Expected {told} {rule}; take {change} or a larger epsilon.")

    def curve(self, cost: CoinThenDraws) -> PrivacyCurve:
        return PureDP(cost.pure) if self.delta == 0 else Quoted(cost, self.delta)

    def _certificate(self, setting: Setting, server: DartboardServer) -> Certificate:
        claimed = (
            PureDP(self.epsilon) if self.delta == 0 else ApproximateDP(self.epsilon, self.delta)
        )
        return trusted_server(
            setting=setting,
            curve=self.curve(server.cost(setting)),
            claimed=claimed if self.calibration == "published" and not self.by_hand else None,
            proof=Proof("dartboard.md", "pure-dp" if self.delta == 0 else "approximate-dp"),
            calibration=self.calibration,
            channels=CHANNELS,
            mechanisms=(server.coin, server.selection),
            when_spent=_when_spent(server.draws),
        )


def _shown(choice: Choice, printed_bound: float | None) -> dict[str, Any]:
    """The parameters that a built algorithm shows."""
    found: dict[str, Any] = {
        "rate": choice.rate,
        "base": choice.base,
        "leave": choice.leave,
        "every": choice.every,
    }
    maybe = {"draws": choice.draws, "printed_regret_bound": printed_bound}
    return found | {name: value for name, value in maybe.items() if value is not None}


def _when_spent(draws: int | None) -> str:
    if draws is None:
        return "the budget lasts for the whole horizon"
    return f"after {draws} draws the sites keep the last expert, and nothing is sent any more"
