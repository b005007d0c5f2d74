"""Tree hedge: exponential weights on running sums from a tree of noisy sums.

This is the prior work of Jain and Thakurta (2014) and of Agarwal and Singh (2017): follow the
regularised leader with the entropy, on a trusted server. Privacy and regret are proven in
`proofs/tree_leader.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, log, log1p, sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.baselines.hedge import Hedge, Sampler
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import AdderState, LossSums, sums_of_losses
from hedgerow.core.block import Block
from hedgerow.core.certificate import Certificate, Channel, Proof
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units
from hedgerow.core.layout import Vector
from hedgerow.core.limits import Broadcasts, Numbers, Planned, Uploads
from hedgerow.core.losses import Gains, Linear
from hedgerow.core.messages import Broadcast
from hedgerow.core.noise import NoiseSource
from hedgerow.core.protocol import (
    Algorithm,
    AlgorithmSpec,
    Claims,
    RunState,
    Shortcuts,
    SpecTraits,
    Trace,
)
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.rounding import round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least
from hedgerow.privacy.budget import Budget, given_budget
from hedgerow.privacy.calibrate import gaussian_scale, settled
from hedgerow.privacy.curves import GaussianDP, PureDP, Quoted
from hedgerow.privacy.mechanisms import AdditiveNoise, GaussianNoise
from hedgerow_papers.agarwal2017.tree_game import PROOF, TreeGame, fill_in_budget
from hedgerow_papers.agarwal2017.tree_server import PADDING, NodeNoise, TreeServer

ANNOUNCED = {"NoisyTotals.rounds": Channel.TIMING, "NoisyTotals.losses": Channel.BROADCASTS}


@dataclass(frozen=True)
class NoisyTotals(Broadcast):
    """The noisy running sums of all experts."""

    losses: Vector


def _units(sums: Array) -> Units:
    """The nearest whole numbers of lattice units."""
    return np.rint(sums * UNITS_PER_LOSS).astype(np.int64)


@dataclass(frozen=True)
class NoisySampler(Sampler):
    """Draws its own expert in every round, with weights by the last noisy sums."""

    def receive(self, state: AdderState, broadcast: Any) -> AdderState:
        totals = np.broadcast_to(_units(broadcast.losses), state.totals.shape)
        return AdderState(totals, np.zeros_like(state.losses))


@dataclass(frozen=True)
class HedgeServer(TreeServer):
    """Sends the noisy running sums."""

    def say(self, sums: Array, wait: int) -> NoisyTotals:
        return NoisyTotals(wait, sums)


@dataclass(frozen=True)
class TreeHedge(AlgorithmSpec):
    r"""Play experts at random with exponential weights of noisy running sums.

    $p_t(x) \propto \exp(-\eta \hat{S}_t(x) / m)$. A trusted server keeps the sums $\hat{S}_t$ in a
    tree with Laplace noise (delta = 0) or Gaussian noise, and every running sum has the noise of
    $h = \lceil \log_2 T \rceil$ draws. Every player draws its own expert in every round.

    It is the prior work that newer algorithms are compared with. The horizon must be known.

    Parameters
    ----------
    epsilon, delta
        The budget, epsilon in [1e-6, 1e6] and delta in [0, 1). Default: 1 and 0, a pure guarantee
        with Laplace noise. With delta > 0 the noise is Gaussian.
    mu
        The budget in Gaussian DP, instead of epsilon and delta. inf: no noise; this is `Hedge`,
        and nothing is protected.
    every
        Rounds between two exchanges: from 1 (default) to the horizon.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. Default:
        True. They are further leaves of the tree.

    Guarantee
    ---------
    One record of one client in one round is protected from the public and from other clients, even
    if all of them collude. The server is trusted. Proof: `proofs/tree_leader.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=100, experts=10, horizon=1024)
    >>> for spec in (TreeHedge(), TreeHedge(delta=1e-6), hr.Hedge()):
    ...     algorithm = spec.build(setting)
    ...     print(algorithm.certificate.trust, round(algorithm.regret_at_most, 1))
    central 35.7
    central 34.5
    none 34.3

    References
    ----------
    Agarwal and Singh 2017, Algorithms 1 and 2; Jain and Thakurta 2014.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
        meanings={
            "mu": "budget of Gaussian DP",
            "rate": "learning rate",
            "draws": "draws of noise in a running sum",
            "deviation": "standard deviation of the noise of a running sum",
            **MEANINGS,
        },
        families=(Linear, Gains),
    )

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    every: int = 1
    early: bool = True

    def __post_init__(self) -> None:
        fill_in_budget(self, delta=0.0)
        at_least("every", self.every, 1)

    def resolve(self, setting: Setting) -> Algorithm:
        schedule = Schedule.of(self.every, self.early)
        game = TreeGame(setting, schedule, "each")
        noise, experts = self._noise(game), setting.experts
        server = HedgeServer(
            experts,
            schedule,
            game.encoder,
            noise,
            game.draws,
            gains=isinstance(setting.family, Gains),
        )
        spread = HedgeBound.of(game, noise)
        rate = spread.best_rate()
        sampler = NoisySampler(experts, rate / game.clients)
        plain = setting.deciders is None and isinstance(setting.family, Linear)
        return Algorithm(
            name="tree_hedge",
            setting=setting,
            client=sampler,
            server=server,
            certificate=self._certificate(game, noise),
            uploads=Uploads(
                LossSums,
                sums_of_losses(setting, experts),
                closing=game.closing,
            ),
            broadcasts=Broadcasts(
                NoisyTotals,
                {
                    "rounds": Planned(game.schedule),
                    "losses": Numbers.noisy(experts, setting.clients),
                },
            ),
            shortcuts=Shortcuts(Playing(server, sampler).advance),
            claims=Claims(
                regret_bound=RegretBound(spread.bound(rate), "oblivious", Proof(PROOF, "hedge")),
                reference=Hedge(self.every, rate, self.early).build(setting) if plain else None,
                free_noise=frozenset(() if noise is None else {PADDING}),
            ),
            parameters={
                "rate": rate,
                "draws": game.draws,
                "deviation": game.clients * spread.deviation,
                **schedule.shown(setting),
            },
        )

    def _noise(self, game: TreeGame) -> NodeNoise | None:
        """The noise of a node: Gaussian for the whole game, Laplace for one node of `draws`."""
        budget = given_budget(self.epsilon, self.delta, self.mu)
        if budget is None:
            return None
        if self.delta != 0:
            moved = game.moved()
            return GaussianNoise("node", gaussian_scale(budget, moved), moved)
        assert self.epsilon is not None
        change = game.change("l1")
        least = round_up(game.draws * Fraction(change) / Fraction(self.epsilon))

        def together(scale: float) -> PureDP:
            return _together(AdditiveNoise("node", "laplace", scale, change), game.draws)

        return AdditiveNoise(
            "node", "laplace", settled(least, together, Budget(self.epsilon)), change
        )

    def _certificate(self, game: TreeGame, noise: NodeNoise | None) -> Certificate:
        if isinstance(noise, AdditiveNoise):
            return game.certificate(_together(noise, game.draws), noise, ANNOUNCED, "sum")
        curve = GaussianDP(0.0) if noise is None else noise.curve
        quoted = curve if self.delta is None else Quoted(curve, self.delta)
        return game.certificate(quoted, noise, ANNOUNCED, "shifts")

    def audit_variants(self) -> tuple[TreeHedge, ...]:
        return (replace(self, every=1),)  # the noise is used whatever the budget is


def _together(noise: AdditiveNoise, draws: int) -> PureDP:
    """The cost of all nodes that a record is in."""
    return PureDP(round_up(draws * Fraction(noise.curve.epsilon(0.0))))


@dataclass(frozen=True)
class Playing:
    """The fast path of a game in which the clients play."""

    server: HedgeServer
    sampler: NoisySampler

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """Play many exchanges at once."""
        ahead, rounds = self.server.ahead(run, block, source), block.rounds
        totals = np.vstack([run.clients.totals[:1], _units(ahead.sums)])
        coins = source.everyone("client", len(ahead.losses)).draw("uniform", "play", rounds=rounds)
        known = AdderState(totals[ahead.spans(rounds)][:, None, :], ahead.losses)
        plays = self.sampler.choose(known, coins)
        clients = AdderState(np.broadcast_to(totals[-1], ahead.losses.shape), ahead.losses)
        return ahead.after(run, clients, rounds), Trace(plays, len(ahead.due))


@dataclass(frozen=True)
class HedgeBound:
    """The regret bound per player as a function of the rate (`proofs/tree_leader.md#hedge`).

    `scale` is that of the noise of a node divided by the number of clients, and `charges` is what
    the charges of all batches contribute.
    """

    entropy: float
    draws: int
    scale: float
    laplace: bool
    charges: float
    most: float

    @classmethod
    def of(cls, game: TreeGame, noise: NodeNoise | None) -> HedgeBound:
        return cls(
            log(max(2, game.setting.experts)),
            game.draws,
            0.0 if noise is None else noise.scale / game.clients,
            isinstance(noise, AdditiveNoise),
            game.squares * game.span**2 / 8,
            game.setting.rounds * game.span,
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a running sum, divided by the clients."""
        return self.scale * sqrt(self.draws * (2 if self.laplace else 1))

    def best_rate(self) -> float:
        """The rate of the smallest bound; for Laplace noise, of a bound slightly above it."""
        steep = 4 * log(4 / 3) if self.laplace else 0.5  # -ln(1 - y) <= steep * y for y <= 1/4
        rate = sqrt(self.entropy / (self.draws * steep * self.scale**2 + self.charges))
        return min(rate, 0.5 / self.scale) if self.laplace else rate

    def bound(self, rate: float) -> float:
        """The bound at this rate, at most that of any play."""
        share = (rate * self.scale) ** 2
        if not self.laplace:
            moments = self.draws * share / 2
        else:
            moments = -self.draws * log1p(-share) if share < 1 else inf
        return min(self.most, (self.entropy + moments) / rate + rate * self.charges)
