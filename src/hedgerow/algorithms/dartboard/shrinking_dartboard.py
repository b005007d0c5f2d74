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
from typing import ClassVar, Literal

import numpy as np

from hedgerow.algorithms.dartboard.choices import LazyChoices, resolved, when_spent
from hedgerow.algorithms.dartboard.cost import Choice, with_chance
from hedgerow.algorithms.dartboard.server import LazyServer, ServerState
from hedgerow.algorithms.dartboard.tuning import LARGEST_CHANCE
from hedgerow.algorithms.shared.following import CHANNELS, CurrentExpert, Follower
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.certificate import Certificate, Proof, trusted_server
from hedgerow.core.lattice import from_units
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import expect
from hedgerow.privacy.curves import ApproximateDP, PureDP


@dataclass(frozen=True)
class Dartboard(LazyServer):
    """The server: the coin sees what the current expert lost."""

    def open(self, noise: Noise) -> tuple[CurrentExpert, ServerState]:
        state = ServerState(np.zeros(self.experts, np.int64), noise.index(self.experts, "first expert"), 0)
        return self.message(state), state

    def message(self, state: ServerState) -> CurrentExpert:
        return CurrentExpert(None if self.over(state.switches) else self.every, state.expert, state.switches)

    def aggregate(self, state: ServerState, uploads: LossSums, noise: Noise) -> tuple[CurrentExpert, ServerState]:
        state = replace(state, totals=state.totals + uploads.losses)
        if not self.stays(state, uploads.losses, noise):
            state = self.switched(state, from_units(state.totals), noise)
        return self.message(state), state


def printed(setting: Setting, epsilon: float, delta: float, every: int | None) -> tuple[Choice, float]:
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
        size = every or max(1, min(horizon, round(tail**0.4 * log(experts) ** 0.6 / (horizon**0.2 * epsilon**0.6))))
        game = horizon / size
        p, name = (game * tail) ** (-1 / 3), "Corollary 6" if every is None and size > 1 else "Corollary 3"
        most = tail ** (1 / 3) * game ** (-1 / 6) * log(experts) ** 0.5
        eta = size * p * epsilon / 40 if name == "Corollary 6" else p * min(epsilon / 2, most) / 20
    rule = f"so large that {name} has p <= 1/2 in {game:.4g} rounds, which Theorems 2 and 5 need; it has p = {p:.4g}"
    expect(p <= LARGEST_CHANCE, "delta" if delta > 0 else "horizon", delta if delta > 0 else horizon, _smaller(rule, delta))
    expect(eta < 0.5, "epsilon", epsilon, f"so small that {name} has eta < 1/2, which Theorems 2 and 5 need; it has eta = {eta:.4g}")
    rate = -log1p(-eta) / (setting.clients * size)
    bound = eta * horizon + size * log(experts) / eta + 2 * horizon * exp(-game * p / 3)
    return with_chance(rate, p, size, max(1, ceil(4 * game * p) - 1)), bound


def _smaller(rule: str, delta: float) -> str:
    return rule.replace("so large", "so small") if delta > 0 else rule


@dataclass(frozen=True)
class ShrinkingDartboard(LazyChoices):
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
        meanings={**LazyChoices.traits.meanings, "printed_regret_bound": "what the paper claims"},
    )

    calibration: Literal["certified", "published"] = "certified"

    def __post_init__(self) -> None:
        super().__post_init__()
        options = ("certified", "published")
        expect(self.calibration in options, "calibration", self.calibration, f"in {options}")

    def audit_variants(self) -> tuple[ShrinkingDartboard, ...]:
        """Loud versions whose tiny games come close to the certificate: by draws, and by the first coin alone; for a delta one without
        a cap, so that coins decide how many draws there are.
        """
        loud = replace(self, epsilon=200.0 if self.calibration == "certified" else self.epsilon, every=1)
        other = replace(loud, rate=0.7, leave=0.3, draws=None) if self.delta > 0 else replace(loud, rate=0.3, leave=0.02, draws=1)
        return replace(loud, rate=2.0, leave=0.05, draws=2), other

    def build(self, setting: Setting) -> Algorithm:
        self.fits(setting)
        choice, claimed_bound = self._choice(setting)
        server = Dartboard(setting.experts, choice.every, choice.draws, choice.coin(setting), choice.selection)
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
            regret_bound=RegretBound(choice.regret_bound(setting), "oblivious", Proof("dartboard.md", "regret")),
            parameters=resolved(choice) | ({} if claimed_bound is None else {"printed_regret_bound": claimed_bound}),
        )

    def _choice(self, setting: Setting) -> tuple[Choice, float | None]:
        """The parameters, and the printed regret bound where they are the printed ones."""
        if self.calibration == "certified":
            return self.settled(setting), None
        given = self.given()
        if given is not None:
            return given, None
        found, bound = printed(setting, self.epsilon, self.delta, self.every)
        return self.replaced(found), None if self.by_hand else bound

    def _certificate(self, setting: Setting, server: Dartboard) -> Certificate:
        claimed = PureDP(self.epsilon) if self.delta == 0 else ApproximateDP(self.epsilon, self.delta)
        return trusted_server(
            setting=setting,
            curve=self.curve(server.cost(setting)),
            claimed=claimed if self.calibration == "published" and not self.by_hand else None,
            proof=Proof("dartboard.md", "pure-dp" if self.delta == 0 else "approximate-dp"),
            calibration=self.calibration,
            channels=CHANNELS,
            mechanisms=(server.coin, server.selection),
            when_spent=when_spent(server.draws),
        )
