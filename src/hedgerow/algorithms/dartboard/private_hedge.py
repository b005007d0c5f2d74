"""Private Hedge: exponential weights with a trusted server that draws an expert at every exchange.

The server adds up the losses of all clients. At every exchange it draws one expert for all of them
by the exponential mechanism on the total losses. A record enters all later draws, so their costs
are composed. With delta > 0 they grow like the square root of the number of draws, and enough
clients or budget make privacy free. Proofs: `proofs/private_hedge.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.dartboard.server import DartboardState, after_rounds
from hedgerow.algorithms.shared.following import (
    CHANNELS,
    CurrentExpert,
    current_expert,
    followed,
)
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import LossSums, check_interval
from hedgerow.core.block import Block
from hedgerow.core.certificate import Certificate, PrivacyCurve, Proof, trusted_server
from hedgerow.core.lattice import Array, from_units, to_units
from hedgerow.core.limits import Broadcasts
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import (
    Algorithm,
    AlgorithmSpec,
    RunState,
    SpecTraits,
    Trace,
)
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.rounding import round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget, positive
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import largest_range, largest_rate
from hedgerow.privacy.composition.bounded_range import WIDEST, AdaptiveBoundedRange
from hedgerow.privacy.curves import PureDP, Quoted, ZeroConcentratedDP
from hedgerow.privacy.mechanisms import ExponentialMechanism

PROOF = "private_hedge.md"
MANY = 4096  # draws; for more of them the exact composition would take long
LEAST = 1e-75  # the smallest range that is tried


@dataclass(frozen=True)
class DrawingServer:
    """Draws an expert from the total losses at every exchange."""

    state: ClassVar[type[Any]] = DartboardState

    experts: int
    schedule: Schedule
    selection: ExponentialMechanism

    def open(self, noise: Noise) -> tuple[CurrentExpert, DartboardState]:
        first = noise.index(self.experts, "first expert")
        state = DartboardState(np.zeros(self.experts, np.int64), first, 0, 0)
        return CurrentExpert(self.schedule.wait(0), first, 0), state

    def aggregate(
        self, state: DartboardState, uploads: LossSums, noise: Noise
    ) -> tuple[CurrentExpert, DartboardState]:
        totals = state.totals + uploads.losses
        expert = noise.release(self.selection, from_units(totals))
        draws = state.switches + 1
        sent = CurrentExpert(self.schedule.wait(draws), expert, draws)
        return sent, DartboardState(totals, expert, draws, draws)

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """Play many exchanges at once: add up all losses, then draw."""
        noise, losses, state = source.server(), block.losses, run.server
        rounds = len(losses)
        assert run.remaining is not None
        due = self.schedule.due(run.round, run.remaining, rounds)
        plays, own = np.full(rounds, state.expert), run.clients.losses + block.own_totals
        left = run.remaining - rounds
        if len(due) > 0:
            before = from_units(state.totals + run.clients.losses.sum(axis=0))
            scores = _sums_before(losses, due) + before
            drawn = [noise.release(self.selection, row) for row in scores]
            plays[due[0] :] = np.repeat(drawn, np.diff(np.append(due, rounds)))
            last, count = int(due[-1]), state.switches + len(due)
            state = DartboardState(to_units(scores[-1]), drawn[-1], count, count)
            own = to_units(losses[last:].sum(axis=0))
            left = self.schedule.wait(count) - (rounds - last)
        return after_rounds(run, state, own, left, plays, len(due))

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        """The exact log-probability of the broadcasts."""
        due = np.array([self.schedule.time(draw) for draw in range(1, len(broadcasts))], np.int64)
        scores = _sums_before(from_units(to_units(reports)), due)
        return -log(self.experts) + sum(
            self.selection.log_probability(row, sent.expert)
            for row, sent in zip(scores, broadcasts[1:], strict=True)
        )


def _sums_before(losses: Array, due: np.ndarray) -> Array:
    """The losses of every expert at all clients in the rounds before each of the given rounds."""
    sums = np.zeros((int(due[-1]) + 1 if len(due) else 1, losses.shape[-1]))
    losses[: len(sums) - 1].sum(axis=1, out=sums[1:])
    return np.cumsum(sums, axis=0, out=sums)[due]


@dataclass(frozen=True)
class PrivateHedge(AlgorithmSpec):
    r"""Play with exponential weights, with a draw by a trusted server at every exchange.

    At every exchange the server draws an expert with probability proportional to
    $\exp(-\lambda S(x) / m)$, where $S(x)$ is the loss of expert $x$, summed over all $m$ clients
    and all rounds so far. All clients follow it. Use it with delta > 0 if losses may react to the
    plays, or if there are many clients: then privacy costs little or nothing.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). Default 1e-6. With 0 every draw gets an equal
        share of epsilon, and the regret is linear in the horizon unless there are many clients.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon.
    rate
        The learning rate lambda on the mean loss of all clients, > 0. None (default): the rate
        with the smallest regret bound within the budget. The certificate states what the rate
        really costs, which may be less than the budget.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. Default:
        True; each is a further draw, which the budget pays for.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, and also if later losses react to the plays. The server is trusted:
    it receives exact sums of losses. Proof: `proofs/private_hedge.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> algorithm = hr.PrivateHedge(epsilon=1.0).build(setting)
    >>> round(algorithm.regret_at_most), algorithm.claims.regret_bound.covers
    (51, 'adaptive')
    >>> algorithm.certificate.peer.curve.epsilon(1e-6) <= 1.0
    True
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"pure, epsilon 8": {"delta": 0.0, "epsilon": 8.0}, "every 3": {"every": 3}},
        meanings={
            "rate": "learning rate on the mean loss of all clients",
            "draws": "number of draws that a record may enter",
            **MEANINGS,
        },
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    every: int = 1
    rate: float | None = None
    early: bool = True

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("every", self.every, 1)
        if self.rate is not None:
            positive("rate", self.rate)

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        schedule = Schedule.of(self.every, self.early)
        squares = schedule.squares(setting.rounds)
        draws, entropy = max(1, schedule.count(setting.rounds)), log(max(2, setting.experts))
        rate = sqrt(8 * entropy / squares) if self.rate is None else self.rate
        allowed = _largest(draws, Budget(self.epsilon, self.delta))
        reach = min(2 * rate / setting.clients, WIDEST)
        if self.rate is None:
            reach = min(reach, allowed)
        selection = ExponentialMechanism("selection", reach)
        rate = setting.clients * reach / 2
        server = DrawingServer(setting.experts, schedule, selection)
        return followed(
            name="private_hedge",
            setting=setting,
            server=server,
            certificate=self._certificate(setting, selection, draws),
            broadcasts=Broadcasts(CurrentExpert, current_expert(schedule, setting)),
            supports=frozenset(),
            regret_bound=RegretBound(
                entropy / rate + rate * squares / 8,
                "adaptive" if self.every == 1 else "oblivious",
                Proof(PROOF, "regret"),
            ),
            parameters={"rate": rate, "draws": draws, **schedule.shown(setting)},
        )

    def audit_variants(self) -> tuple[PrivateHedge, ...]:
        """A variant whose tiny games come close to the certificate."""
        return (replace(self, epsilon=12.0, rate=None),)

    def _certificate(
        self, setting: Setting, selection: ExponentialMechanism, draws: int
    ) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=_curve(selection.epsilon, draws, self.delta),
            proof=Proof(PROOF, "privacy"),
            channels=CHANNELS,
            mechanisms=(selection,),
            composition="sum",
            entered=draws,
        )


def _curve(reach: float, draws: int, delta: float) -> PrivacyCurve:
    """The curve of all draws together."""
    if delta == 0:
        return PureDP(round_up(draws * Fraction(reach)))
    if draws <= MANY:
        return Quoted(AdaptiveBoundedRange(reach, draws), delta)
    return Quoted(_concentrated(reach, draws), delta)


def _concentrated(reach: float, draws: int) -> ZeroConcentratedDP:
    return ZeroConcentratedDP(round_up(draws * Fraction(reach) ** 2 / 8))


def _largest(draws: int, budget: Budget) -> float:
    """The largest range of a draw within the budget."""
    if draws <= MANY or budget.failure == 0:
        return largest_range(draws, budget)
    return largest_rate(lambda reach: _concentrated(reach, draws), budget, LEAST, 1.0)
