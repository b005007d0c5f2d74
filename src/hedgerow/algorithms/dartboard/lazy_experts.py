"""Lazy experts with two chains, after L2P (Asi, Koren, Liu, Talwar 2024): a second expert y makes the chance to leave x relative.

At every exchange the server keeps x with probability exp(-rate * (2c + L(x) - L(y) + base)), c = clients * every the largest
possible loss of a group, and otherwise draws it with weights exp(-rate * S); with probability p = 1 - exp(-rate * base) it also
draws y anew. The source as it is quoted to us leaves out what is needed to rebuild it (which law y is drawn from, p, what is
played inside a group), so this is a version with a proof of its own, not a reproduction (`proofs/lazy_experts.md`). For
exponential weights the second chain is not needed: the dartboard has the same law of x at a smaller cost, and wherever we looked
its regret bound is smaller, or the same (`hedgerow reproduce lazy-vs-dartboard`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.dartboard.choices import LazyChoices, resolved, when_spent
from hedgerow.algorithms.dartboard.cost import Choice, TwoChains, cost_of
from hedgerow.algorithms.dartboard.server import LazyServer, log_drawn
from hedgerow.algorithms.dartboard.server import ServerState as OneExpertState
from hedgerow.algorithms.shared.following import CurrentExpert, Follower
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.certificate import Certificate, Channel, Proof, trusted_server
from hedgerow.core.lattice import Array, from_units
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from hedgerow.privacy.mechanisms import Coin


@dataclass(frozen=True)
class TwoExperts(CurrentExpert):
    """Also the companion, and how often it was drawn."""

    companion: int
    refreshes: int


@dataclass(frozen=True)
class ServerState(OneExpertState):
    companion: int
    refreshes: int


@dataclass(frozen=True)
class Pair(LazyServer):
    """The server: a coin for x, then a coin for y that sees no data; a draw for each that is not kept, while the cap allows it."""

    OPENING_DRAWS: ClassVar[int] = 2

    refresh: Coin

    def cost(self, setting: Setting) -> CoinThenDraws:
        return cost_of(setting, self.every, self.draws, self.coin, self.selection, self.refresh)

    def open(self, noise: Noise) -> tuple[TwoExperts, ServerState]:
        expert, companion = (noise.index(self.experts, purpose) for purpose in ("first expert", "first companion"))
        state = ServerState(np.zeros(self.experts, np.int64), expert, 0, companion, 0)
        return self.message(state), state

    def message(self, state: ServerState) -> TwoExperts:
        rounds = None if self.over(self.used(state)) else self.every
        return TwoExperts(rounds, state.expert, state.switches, state.companion, state.refreshes)

    def used(self, now: Any) -> int:
        return now.switches + now.refreshes

    def seen(self, now: Any, lost: Any) -> Any:
        return lost(now.expert) - lost(now.companion)

    def aggregate(self, state: ServerState, uploads: LossSums, noise: Noise) -> tuple[TwoExperts, ServerState]:
        state = replace(state, totals=state.totals + uploads.losses)
        scores = from_units(state.totals)
        if not self.stays(state, uploads.losses, noise):
            state = self.switched(state, scores, noise)
        if not self.over(self.used(state)) and not noise.release(self.refresh, 0.0):
            state = self.renewed(state, scores, noise)
        return self.message(state), state

    def renewals(self, exchanges: int, noise: Noise) -> list[int]:
        return np.flatnonzero(self.refresh.hidden(np.zeros(exchanges), self.refresh.draw_uniform(exchanges, noise))).tolist()

    def renewed(self, state: ServerState, scores: Array, noise: Noise) -> ServerState:
        return replace(state, companion=noise.release(self.selection, scores), refreshes=state.refreshes + 1)

    def log_renewal(self, now: TwoExperts, sent: TwoExperts, chances: list[float]) -> float:
        if self.over(sent.switches + now.refreshes):  # the coin is not flipped any more
            return 0.0 if (sent.companion, sent.refreshes) == (now.companion, now.refreshes) else -np.inf
        drawn = log_drawn(chances, now.companion, sent.companion, sent.refreshes - now.refreshes)
        return drawn + self.refresh.log_probability(0.0, sent.refreshes == now.refreshes)


@dataclass(frozen=True)
class LazyExperts(LazyChoices):
    """Private federated experts with two chains, for losses fixed in advance.

    `epsilon` and `delta` are the budget (delta = 0: pure). `every` is the number of rounds between exchanges (the group size B); None
    lets the calibration choose, for the smallest proven regret bound. `rate`, `leave` (p) and `draws` (the cap on draws of both
    experts together) are taken as given, and the calibration chooses the others for them; the certificate follows.

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = LazyExperts(epsilon=1.0, delta=1e-6).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(algorithm.certificate.guarantees[1].curve.words(), round(algorithm.regret_at_most))
    epsilon = 0.9993, delta = 1e-6 39
    """

    KIND: ClassVar[type[Choice]] = TwoChains
    traits: ClassVar[SpecTraits] = SpecTraits(
        forms=LazyChoices.traits.forms,
        meanings={
            **LazyChoices.traits.meanings,
            "base": "added to the difference of two losses in a group of rounds, besides twice the largest loss of a group",
            "leave": "chance that the companion, the expert one is compared with, is drawn anew after a group",
            "draws": "new experts drawn, companions among them, at most; then the last one stays",
        },
    )

    def audit_variants(self) -> tuple[LazyExperts, ...]:
        """Loud versions whose tiny games come close to the certificate: by draws, and by the first coin alone; for a delta one without
        a cap, so that coins decide how many draws there are.
        """
        loud = replace(self, epsilon=200.0, every=1, rate=1.5, leave=0.2, draws=1)
        return loud, replace(loud, leave=0.02, draws=None) if self.delta > 0 else replace(loud, rate=0.05, leave=0.01)

    def build(self, setting: Setting) -> Algorithm:
        self.fits(setting)
        choice = self.settled(setting)
        server = Pair(setting.experts, choice.every, choice.draws, choice.coin(setting), choice.selection, choice.refresh)
        self.afford(choice, server.cost(setting))
        return Algorithm(
            name="lazy_experts",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=self._certificate(setting, server),
            upload=LossSums,
            broadcast=TwoExperts,
            advance=server.advance,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            regret_bound=RegretBound(choice.regret_bound(setting), "oblivious", Proof("lazy_experts.md", "regret")),
            parameters=resolved(choice),
        )

    def _certificate(self, setting: Setting, server: Pair) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=self.curve(server.cost(setting)),
            proof=Proof("lazy_experts.md", "privacy"),
            channels={
                "LossSums.losses": Channel.UPLOADS,
                "TwoExperts.rounds": Channel.TIMING,
                **{f"TwoExperts.{name}": Channel.BROADCASTS for name in ("expert", "switches", "companion", "refreshes")},
            },
            mechanisms=(server.coin, server.refresh, server.selection),
            when_spent=when_spent(server.draws),
        )
