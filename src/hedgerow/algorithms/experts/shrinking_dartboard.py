"""Private shrinking dartboard: exponential weights that change their mind rarely (Asi, Feldman, Koren, Talwar 2023, Algorithm 1).

Every `every` rounds the clients send the sums of their losses. The server stays with the current expert x with probability
exp(-rate * (L(x) + base)), L(x) its loss since the last exchange; otherwise it draws an expert with weights exp(-rate * S), S the
total losses. So the expert always has the law of exponential weights, while most exchanges change nothing. In the paper's letters
(1 - eta)^l = exp(-rate * l) and p = 1 - exp(-rate * base), the chance to leave without a reason, which hides the reasons.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, exp, log, log1p
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from hedgerow.algorithms.experts.shrinking_dartboard_tuning import LARGEST_CHANCE, Choice, choose, with_chance
from hedgerow.algorithms.experts.sparse_vector import ClientState, CurrentExpert, Follower
from hedgerow.algorithms.experts.totals import LossSums
from hedgerow.core.audit_case import AuditCase
from hedgerow.core.block import Block
from hedgerow.core.certificate import Certificate, Channel, PrivacyCurve, Proof, trusted_server
from hedgerow.core.checks import at_least, between, check_budget, expect
from hedgerow.core.lattice import Array, Units, from_units, to_units
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Algorithm, RunState, Trace
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import ApproximateDP, PureDP, Quoted
from hedgerow.privacy.mechanisms import Coin, ExponentialMechanism


@dataclass(frozen=True)
class ServerState:
    """Total losses of all clients, the current expert, draws used."""

    totals: Units
    expert: int
    switches: int


@dataclass(frozen=True)
class Dartboard:
    """The server: one coin at every exchange, one draw whenever it does not show "stay"; at most `draws` of them, if there is a cap."""

    experts: int
    every: int
    draws: int | None
    coin: Coin
    selection: ExponentialMechanism

    def open(self, noise: Noise) -> tuple[CurrentExpert, ServerState]:
        state = ServerState(np.zeros(self.experts, np.int64), noise.index(self.experts, "first expert"), 0)
        return self.message(state), state

    def over(self, switches: int) -> bool:
        return self.draws is not None and switches >= self.draws

    def message(self, state: ServerState) -> CurrentExpert:
        return CurrentExpert(None if self.over(state.switches) else self.every, state.expert, state.switches)

    def aggregate(self, state: ServerState, uploads: LossSums, noise: Noise) -> tuple[CurrentExpert, ServerState]:
        state = replace(state, totals=state.totals + uploads.losses)
        if not noise.release(self.coin, float(from_units(int(uploads.losses[state.expert])))):
            state = ServerState(state.totals, noise.release(self.selection, from_units(state.totals)), state.switches + 1)
        return self.message(state), state

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """Many exchanges at once: between two draws only the current expert's column matters, and every loss is added once.

        `due` are the rounds of the block before which there is an exchange; `head` is what was lost before the first of them since
        the last exchange; `scores` are the total losses in the rounds before `summed`.
        """
        noise, losses = source.server(), block.losses
        rounds = len(losses)
        state: ServerState = run.server
        due = np.arange(0) if run.remaining is None else np.arange(run.remaining, rounds, self.every)
        if len(due) == 0:
            left = None if run.remaining is None else run.remaining - rounds
            return self._after(run, state, run.clients.losses + block.own_totals, left, np.full(rounds, state.expert), 0)
        head = run.clients.losses.sum(axis=0) + block.totals_before(int(due[0]))
        anchors, scores = _Anchors.of(block, state.totals + run.clients.losses.sum(axis=0)), from_units(state.totals + head)
        uniform = self.coin.draw_uniform(len(due), noise)
        summed, done, draws, changed, followed = int(due[0]), 0, state.switches, [0], [state.expert]
        while done < len(due) and not self.over(draws):
            found = self._first_leaving(losses, due, done, head, followed[-1], uniform)
            done = len(due) if found is None else found + 1
            if found is not None:
                at, draws = int(due[found]), draws + 1
                summed, scores = at, anchors.totals(losses, at, summed, scores)
                changed.append(at)
                followed.append(noise.release(self.selection, scores))
        last = int(due[done - 1])
        totals = to_units(anchors.totals(losses, last, summed, scores))
        left = None if self.over(draws) else self.every - (rounds - last)
        plays = np.repeat(followed, np.diff([*changed, rounds]))
        state = ServerState(totals, followed[-1], draws)
        return self._after(run, state, to_units(losses[last:].sum(axis=0)), left, plays, done)

    def _first_leaving(self, losses: Array, due: np.ndarray, done: int, head: Units, expert: int, uniform: Array) -> int | None:
        """The first exchange from `done` on whose coin does not show "stay", looked for in growing windows."""
        if done == 0:
            if not self.coin.shown(from_units(head[expert : expert + 1]), uniform[:1])[0]:
                return 0
            done = 1
        window = 64
        while done < len(due):
            stop = min(done + window, len(due))
            column = losses[due[done - 1] : due[stop - 1], :, expert].reshape(stop - done, -1)
            leaving = self.coin.hidden(column[:, 0] if column.shape[1] == 1 else column.sum(axis=1), uniform[done:stop])
            first = int(leaving.argmax())
            if leaving[first]:
                return done + first
            done, window = stop, 2 * window
        return None

    def _after(
        self, run: RunState, state: ServerState, losses: Units, left: int | None, plays: np.ndarray, done: int
    ) -> tuple[RunState, Trace]:
        clients = len(losses)
        kept = ClientState(np.full(clients, state.expert), losses)
        after = RunState(run.round + len(plays), kept, None, state, left)
        return after, Trace(np.broadcast_to(plays[:, None], (len(plays), clients)), done)

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        """Exact log-probability of the broadcasts: a coin for each exchange, a draw where the number of draws went up."""
        steps = _log_probabilities(self, reports.shape, reports.tobytes())
        expert, used, result = broadcasts[0].expert, 0, -log(self.experts)
        for sent, (stay, leave, draw) in zip(broadcasts[1:], steps, strict=False):
            if self.over(used) or sent.switches not in (used, used + 1):
                return -np.inf
            if sent.switches == used:
                result += stay[expert] if sent.expert == expert else -np.inf
            else:
                result += leave[expert] + draw[sent.expert]
            expert, used = sent.expert, sent.switches
        return float(result)

    def grouped(self, lost: Array) -> Array:
        """Losses (rounds, experts) by group."""
        return np.stack([lost[first : first + self.every].sum(axis=0) for first in range(0, len(lost), self.every)])


@lru_cache(maxsize=4)
def _log_probabilities(server: Dartboard, shape: tuple[int, ...], reports: bytes) -> list[tuple[Array, Array, Array]]:
    """For the exchange after each group, and for every expert: ln of the chances to stay with it, to leave it, and to draw it."""
    lost = from_units(to_units(np.frombuffer(reports).reshape(shape).sum(axis=1)))
    groups = server.grouped(lost)
    stay = -server.coin.rate * (groups + server.coin.base)
    draw = np.log(server.selection.probabilities(np.cumsum(groups, axis=0)))
    return list(zip(stay, np.log(-np.expm1(stay)), draw, strict=True))


@dataclass(frozen=True)
class _Anchors:
    """Rounds of a block before which the total losses are known: `scores[i]` before round `at[i]`."""

    at: tuple[int, ...]
    scores: Array

    @classmethod
    def of(cls, block: Block, before: Units) -> _Anchors:
        """From the sums that were made when the block was checked, on top of what was lost before it."""
        assert block.segments is not None
        pieces = np.cumsum(block.segments.sum(axis=1), axis=0)
        return cls((0, *block.cuts), from_units(before + np.vstack([np.zeros_like(before), pieces])))

    def totals(self, losses: Array, at: int, summed: int, scores: Array) -> Array:
        """The total losses before round `at`, from the nearest round for which they are known; for `summed` they are `scores`."""
        right = bisect_left(self.at, at)
        for known in (right - 1, right):
            if known >= 0 and abs(at - self.at[known]) < abs(at - summed):
                summed, scores = self.at[known], self.scores[known]
        between = np.add.reduce(losses[min(at, summed) : max(at, summed)].reshape(-1, losses.shape[-1]))
        return scores + between if at > summed else scores - between


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
class ShrinkingDartboard:
    """Private federated experts for losses fixed in advance, of which no expert need be good.

    `epsilon` and `delta` are the budget (delta = 0: pure). `every` is the number of rounds between exchanges (the group size B); None
    lets the calibration choose. `calibration="certified"` (default) chooses everything else from public values for the
    smallest proven regret bound; `"published"` takes the printed constants, and its certificate says what they really cost. `rate`,
    `leave` (p) and `draws` (K - 1) replace what the calibration would choose; the certificate follows.

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = ShrinkingDartboard(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(algorithm.certificate.guarantees[1].curve.words(), round(algorithm.regret_bound or 0))
    epsilon = 1, delta = 0 75
    """

    epsilon: float = 1.0
    delta: float = 0.0
    every: int | None = None
    calibration: Literal["certified", "published"] = "certified"
    rate: float | None = None
    leave: float | None = None
    draws: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        options = ("certified", "published")
        expect(self.calibration in options, "calibration", self.calibration, f"in {options}")
        if self.every is not None:
            at_least("every", self.every, 1)
        if self.rate is not None:
            between("rate", self.rate, 1e-12, 100.0)
        if self.leave is not None:
            expect(0 < self.leave < 1, "leave", self.leave, "in (0, 1): without leaving for no reason, every leaving tells one")
        if self.draws is not None:
            at_least("draws", self.draws, 1)

    def audit_variants(self) -> tuple[ShrinkingDartboard, ...]:
        """A loud version whose tiny games come close to the certificate."""
        loud = replace(self, epsilon=200.0 if self.calibration == "certified" else self.epsilon, every=1)
        return (replace(loud, rate=2.0, leave=0.05, draws=2),)

    def audit_cases(self) -> tuple[AuditCase, ...]:
        """Its worst streams and planted bugs, for `hedgerow audit`."""
        from hedgerow.algorithms.experts.shrinking_dartboard_audit import cases  # it stands on this file

        return cases(self)

    def build(self, setting: Setting) -> Algorithm:
        if self.every is not None:
            expect(self.every <= setting.horizon, "every", self.every, f"<= horizon={setting.horizon}")
        choice, claimed_bound = self._choice(setting)
        coin = Coin("stay", choice.rate, choice.base)
        selection = ExponentialMechanism("selection", 2 * choice.rate)
        server = Dartboard(setting.experts, choice.every, choice.draws, coin, selection)
        parameters: dict[str, Any] = {"rate": choice.rate, "base": choice.base, "leave": choice.leave, "every": choice.every}
        parameters |= {} if choice.draws is None else {"draws": choice.draws}
        parameters |= {} if claimed_bound is None else {"printed_regret_bound": claimed_bound}
        return Algorithm(
            name="shrinking_dartboard",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=self._certificate(setting, choice, coin, selection),
            upload=LossSums,
            broadcast=CurrentExpert,
            advance=server.advance,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            regret_bound=choice.regret_bound(setting),
            parameters=parameters,
        )

    def _choice(self, setting: Setting) -> tuple[Choice, float | None]:
        """The parameters, and the printed regret bound where they are the printed ones."""
        given = None
        if self.rate is not None and self.leave is not None:
            given = with_chance(self.rate, self.leave, self.every or 1, self.draws)
        if self.calibration == "published":
            if given is not None:
                return given, None
            found, bound = printed(setting, self.epsilon, self.delta, self.every)
            return self._replaced(found), bound if (self.rate, self.leave, self.draws) == (None, None, None) else None
        found = self._replaced(choose(setting, self.epsilon, self.delta, self.every)) if given is None else given
        curve = found.cost(setting)
        spent = curve.pure <= self.epsilon if self.delta == 0 else curve.delta(self.epsilon) <= self.delta
        rule = f"within epsilon={self.epsilon}, delta={self.delta}: this choice costs {self._curve(setting, found).words()}"
        expect(spent, "rate, leave, draws", (found.rate, found.leave, found.draws), rule)
        return found, None

    def _replaced(self, found: Choice) -> Choice:
        if (self.rate, self.leave, self.draws) == (None, None, None):
            return found
        draws = found.draws if self.draws is None else self.draws
        return with_chance(self.rate or found.rate, self.leave or found.leave, found.every, draws)

    def _curve(self, setting: Setting, choice: Choice) -> PrivacyCurve:
        curve = choice.cost(setting)
        return PureDP(curve.pure) if self.delta == 0 else Quoted(curve, self.delta)

    def _certificate(self, setting: Setting, choice: Choice, coin: Coin, selection: ExponentialMechanism) -> Certificate:
        claimed = PureDP(self.epsilon) if self.delta == 0 else ApproximateDP(self.epsilon, self.delta)
        capped = f"after {choice.draws} draws the sites keep the last expert, and nothing is sent any more"
        return trusted_server(
            setting=setting,
            curve=self._curve(setting, choice),
            claimed=claimed if self.calibration == "published" else None,
            proof=Proof("dartboard.md", "pure-dp" if self.delta == 0 else "approximate-dp"),
            calibration=self.calibration,
            channels={
                "LossSums.losses": Channel.UPLOADS,
                "CurrentExpert.rounds": Channel.TIMING,
                "CurrentExpert.expert": Channel.BROADCASTS,
                "CurrentExpert.switches": Channel.BROADCASTS,
            },
            mechanisms=(coin, selection),
            when_spent="the budget lasts for the whole horizon" if choice.draws is None else capped,
        )
