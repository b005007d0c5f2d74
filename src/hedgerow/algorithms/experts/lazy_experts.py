"""Lazy experts with two chains, after L2P (Asi, Koren, Liu, Talwar 2024): a second expert y makes the chance to leave x relative.

At every exchange the server keeps x with probability exp(-rate * (2c + L(x) - L(y) + base)), c = clients * every the largest
possible loss of a group, and otherwise draws it with weights exp(-rate * S); with probability p = 1 - exp(-rate * base) it also
draws y anew. The source as it is quoted to us leaves out what is needed to rebuild it (which law y is drawn from, p, what is
played inside a group), so this is a version with a proof of its own, not a reproduction (`proofs/lazy_experts.md`). For
exponential weights the second chain is not needed: the dartboard has the same law of x at a smaller cost, and a smaller regret
bound wherever we looked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.experts.shrinking_dartboard_tuning import Choice, choose, with_chance
from hedgerow.algorithms.experts.sparse_vector import ClientState, Follower
from hedgerow.algorithms.experts.totals import LossSums
from hedgerow.core.certificate import Certificate, Channel, PrivacyCurve, Proof, trusted_server
from hedgerow.core.checks import at_least, between, check_budget, expect
from hedgerow.core.lattice import Array, Units, from_units, to_units
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import PureDP, Quoted
from hedgerow.privacy.mechanisms import Coin, ExponentialMechanism


@dataclass(frozen=True)
class TwoChains(Choice):
    """As for the dartboard, but a datum moves L(x) - L(y) by 2, the exponent lies between c and 3c, and y is drawn as well."""

    MOVES: ClassVar[int] = 2
    NEAR: ClassVar[int] = 1
    FAR: ClassVar[int] = 3
    CHAINS: ClassVar[int] = 2


@dataclass(frozen=True)
class TwoExperts(Broadcast):
    """The expert to follow and its companion, and how often each was drawn."""

    expert: int
    switches: int
    companion: int
    refreshes: int


@dataclass(frozen=True)
class ServerState:
    totals: Units
    expert: int
    switches: int
    companion: int
    refreshes: int


class Spanning(Follower):
    """Plays the broadcast expert, many rounds at a time."""

    def play_many(self, state: ClientState, rounds: int, noise: Noise) -> tuple[np.ndarray, ClientState]:
        del noise
        return np.broadcast_to(state.expert, (rounds, *state.expert.shape)), state

    def observe_many(self, state: ClientState, reports: Array, noise: Noise) -> ClientState:
        del noise
        return ClientState(state.expert, state.losses + to_units(reports.sum(axis=0)))


@dataclass(frozen=True)
class Pair:
    """The server: a coin for x, then a coin for y that sees no data; a draw for each that is not kept, while the cap allows it."""

    experts: int
    every: int
    draws: int | None
    stay: Coin
    refresh: Coin
    selection: ExponentialMechanism

    def open(self, noise: Noise) -> tuple[TwoExperts, ServerState]:
        expert, companion = (noise.index(self.experts, purpose) for purpose in ("first expert", "first companion"))
        state = ServerState(np.zeros(self.experts, np.int64), expert, 0, companion, 0)
        return self.message(state), state

    def over(self, draws: int) -> bool:
        return self.draws is not None and draws >= self.draws

    def message(self, state: ServerState) -> TwoExperts:
        rounds = None if self.over(state.switches + state.refreshes) else self.every
        return TwoExperts(rounds, state.expert, state.switches, state.companion, state.refreshes)

    def aggregate(self, state: ServerState, uploads: LossSums, noise: Noise) -> tuple[TwoExperts, ServerState]:
        state = replace(state, totals=state.totals + uploads.losses)
        lost, scores = uploads.losses, from_units(state.totals)
        if not noise.release(self.stay, float(from_units(int(lost[state.expert]) - int(lost[state.companion])))):
            state = replace(state, expert=noise.release(self.selection, scores), switches=state.switches + 1)
        if not self.over(state.switches + state.refreshes) and not noise.release(self.refresh, 0.0):
            state = replace(state, companion=noise.release(self.selection, scores), refreshes=state.refreshes + 1)
        return self.message(state), state

    def log_likelihood(self, broadcasts: list[TwoExperts], reports: Array) -> float:
        """Exact log-probability of the broadcasts."""
        now, result = broadcasts[0], -2 * log(self.experts)
        for sent, (lost, chances) in zip(broadcasts[1:], _steps(self, reports.shape, reports.tobytes()), strict=False):
            if self.over(now.switches + now.refreshes):
                return -np.inf
            result += self.stay.log_probability(lost[now.expert] - lost[now.companion], sent.switches == now.switches)
            result += _drawn(chances, now.expert, sent.expert, sent.switches - now.switches)
            if not self.over(sent.switches + now.refreshes):
                result += self.refresh.log_probability(0.0, sent.refreshes == now.refreshes)
                result += _drawn(chances, now.companion, sent.companion, sent.refreshes - now.refreshes)
            elif (sent.companion, sent.refreshes) != (now.companion, now.refreshes):
                return -np.inf
            now = sent
        return float(result)


@lru_cache(maxsize=4)
def _steps(server: Pair, shape: tuple[int, ...], reports: bytes) -> list[tuple[list[float], list[float]]]:
    """For the exchange after each group: the losses of every expert in it, and ln of the chance that it is drawn."""
    lost = from_units(to_units(np.frombuffer(reports).reshape(shape).sum(axis=1)))
    groups = np.stack([lost[first : first + server.every].sum(axis=0) for first in range(0, len(lost), server.every)])
    chances = np.log(server.selection.probabilities(np.cumsum(groups, axis=0)))
    return list(zip(groups.tolist(), chances.tolist(), strict=True))


def _drawn(chances: list[float], before: int, after: int, draws: int) -> float:
    if draws == 0:
        return 0.0 if before == after else -np.inf
    return chances[after] if draws == 1 else -np.inf


@dataclass(frozen=True)
class LazyExperts:
    """Private federated experts with two chains; `epsilon`, `delta`, `every`, `rate`, `leave` and `draws` as for the dartboard.

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = LazyExperts(epsilon=1.0, delta=1e-6).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(algorithm.certificate.guarantees[1].curve.words(), round(algorithm.regret_bound or 0))
    epsilon = 0.9993, delta = 1e-6 39
    """

    epsilon: float = 1.0
    delta: float = 0.0
    every: int | None = None
    rate: float | None = None
    leave: float | None = None
    draws: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        expect((self.rate is None) == (self.leave is None), "rate, leave", (self.rate, self.leave), "to be given both or neither")
        expect(self.draws is None or self.rate is not None, "draws", self.draws, "to be given with rate and leave")
        if self.every is not None:
            at_least("every", self.every, 1)
        if self.rate is not None and self.leave is not None:
            between("rate", self.rate, 1e-12, 100.0)
            expect(0 < self.leave < 1, "leave", self.leave, "in (0, 1)")
        if self.draws is not None:
            at_least("draws", self.draws, 1)

    def audit_variants(self) -> tuple[LazyExperts, ...]:
        """A loud version whose tiny games come close to the certificate."""
        return (replace(self, epsilon=200.0, every=1, rate=1.5, leave=0.2, draws=1),)

    def build(self, setting: Setting) -> Algorithm:
        if self.every is not None:
            expect(self.every <= setting.horizon, "every", self.every, f"<= horizon={setting.horizon}")
        choice = self._choice(setting)
        most = float(setting.clients * choice.every)
        stay = Coin("stay", choice.rate, choice.base + 2 * most, sensitivity=2.0, least=-most)
        refresh = Coin("refresh", choice.rate, choice.base)
        selection = ExponentialMechanism("selection", 2 * choice.rate)
        server = Pair(setting.experts, choice.every, choice.draws, stay, refresh, selection)
        parameters: dict[str, Any] = {"rate": choice.rate, "base": choice.base, "leave": choice.leave, "every": choice.every}
        parameters |= {} if choice.draws is None else {"draws": choice.draws}
        return Algorithm(
            name="lazy_experts",
            setting=setting,
            client=Spanning(setting.experts),
            server=server,
            certificate=self._certificate(setting, choice, (stay, refresh, selection)),
            upload=LossSums,
            broadcast=TwoExperts,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            regret_bound=choice.regret_bound(setting),
            parameters=parameters,
        )

    def _choice(self, setting: Setting) -> Choice:
        if self.rate is None or self.leave is None:
            found = choose(setting, self.epsilon, self.delta, self.every, TwoChains)
        else:
            found = with_chance(self.rate, self.leave, self.every or 1, self.draws, TwoChains)
        curve = found.cost(setting)
        spent = curve.pure <= self.epsilon if self.delta == 0 else curve.delta(self.epsilon) <= self.delta
        rule = f"within epsilon={self.epsilon}, delta={self.delta}: this choice costs {self._curve(setting, found).words()}"
        expect(spent, "rate, leave, draws", (found.rate, found.leave, found.draws), rule)
        return found

    def _curve(self, setting: Setting, choice: Choice) -> PrivacyCurve:
        curve = choice.cost(setting)
        return PureDP(curve.pure) if self.delta == 0 else Quoted(curve, self.delta)

    def _certificate(self, setting: Setting, choice: Choice, mechanisms: tuple[Any, ...]) -> Certificate:
        capped = f"after {choice.draws} draws the sites keep the last expert, and nothing is sent any more"
        return trusted_server(
            setting=setting,
            curve=self._curve(setting, choice),
            proof=Proof("lazy_experts.md", "privacy"),
            channels={
                "LossSums.losses": Channel.UPLOADS,
                "TwoExperts.rounds": Channel.TIMING,
                **{f"TwoExperts.{name}": Channel.BROADCASTS for name in ("expert", "switches", "companion", "refreshes")},
            },
            mechanisms=mechanisms,
            when_spent="the budget lasts for the whole horizon" if choice.draws is None else capped,
        )
