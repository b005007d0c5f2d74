"""The tree-perturbed leader: follow the leader on running sums from a tree of noisy sums.

This is the prior work of Agarwal and Singh (2017), with a trusted server. Privacy and regret are
proven in `proofs/tree_leader.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from operator import attrgetter
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.correlated.running_leader import (
    ANNOUNCED,
    FilteringClient,
    FilteringState,
    Leader,
    SumReporter,
    regret_bound,
)
from hedgerow.algorithms.correlated.silo_games import silo_games
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import LossSums, sums_of_losses
from hedgerow.core.block import Block
from hedgerow.core.certificate import Certificate, Proof
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array
from hedgerow.core.limits import Between, Broadcasts, Planned, Uploads
from hedgerow.core.losses import Gains, Linear
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
from hedgerow.core.setting import Setting
from hedgerow.core.units import Part, Unit
from hedgerow.core.validate import at_least, gaussian_delta, one_of
from hedgerow.privacy.budget import given_budget
from hedgerow.privacy.calibrate import gaussian_scale
from hedgerow.privacy.curves import GaussianDP, Quoted
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow_papers.agarwal2017.tree_game import (
    PROOF,
    Reports,
    TreeGame,
    declared,
    fill_in_budget,
)
from hedgerow_papers.agarwal2017.tree_server import PADDING, TreeServer

Aim = Literal["min_noise", "min_regret"]
DELTA = 1e-6


@dataclass(frozen=True)
class LeaderServer(TreeServer):
    """Sends the expert with the smallest noisy running sum."""

    def say(self, sums: Array, wait: int) -> Leader:
        return Leader(wait, int(np.argmin(sums)))

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """Play many exchanges at once; the clients play."""
        ahead, clients = self.ahead(run, block, source), run.clients
        leaders = np.append(clients.expert[:1], np.argmin(ahead.sums, axis=1))
        expert = np.full_like(clients.expert, leaders[-1])
        clients = FilteringState(expert, ahead.losses, clients.uploads, clients.memory)
        plays = leaders[ahead.spans(block.rounds)]
        everyone = np.broadcast_to(plays[:, None], block.losses.shape[:2])
        return ahead.after(run, clients, block.rounds), Trace(everyone, len(ahead.due))


@dataclass(frozen=True)
class TreeLeader(AlgorithmSpec):
    r"""Follow the expert with the smallest noisy running sum, from a tree of noisy sums.

    A trusted server keeps the sums over dyadic intervals with Gaussian noise. A running sum is put
    together from at most $h = \lceil \log_2 T \rceil$ of them, and further draws are added so that
    every running sum has the noise of $h$ draws. Gains are followed by the largest sum.

    It is the prior work that newer algorithms are compared with. `RunningLeader` has less noise at
    the same budget, and also works without a trusted server. The horizon must be known.

    Parameters
    ----------
    epsilon, delta
        The budget, epsilon in [1e-6, 1e6] and delta in (0, 1). Default: 1 and 1e-6.
    mu
        The budget in Gaussian DP, instead of epsilon and delta. inf: no budget; with
        aim="min_noise" this is follow the leader, and nothing is protected.
    aim
        "min_noise" (default): the least noise that the budget needs. "min_regret": at least the
        noise with the smallest regret bound, even if the budget needs less.
    every
        Rounds between two exchanges: from 1 (default) to the horizon.
    padding
        Whether every running sum gets the same amount of noise (default), as the paper has it.
        False: no further draws; expert 0 is played until the first exchange.
    reports
        "each" (default): every client reports all experts. "silo": client i reports its own
        number, that of expert i, and deciders play.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every` (default).
        They are further leaves of the tree.

    Guarantee
    ---------
    One record of one client in one round, or `unit`, is protected from the public and from other
    clients, even if all of them collude. The server is trusted. Proof:
    `proofs/tree_leader.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=1, experts=24, horizon=148)
    >>> algorithm = TreeLeader(mu=1.0).build(setting)
    >>> round(algorithm.parameters["deviation"], 2)  # sqrt(24) * 8 / mu
    39.19
    >>> algorithm.certificate.peer.curve
    GaussianDP(mu=1.0)

    References
    ----------
    Agarwal and Singh 2017, Algorithms 2 and 3.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        meanings={
            "mu": "budget of Gaussian DP",
            "aim": "least noise, or least regret bound",
            "padding": "every running sum has the same amount of noise",
            "reports": "each client about all experts, or a silo about its own",
            "draws": "draws of noise in a padded running sum",
            "deviation": "largest standard deviation of the noise of a running sum",
            **MEANINGS,
        },
        families=(Linear, Gains),
    )

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    aim: Aim = "min_noise"
    every: int = 1
    padding: bool = True
    reports: Reports = "each"
    early: bool = True

    def __post_init__(self) -> None:
        fill_in_budget(self, DELTA)
        if self.delta is not None:
            gaussian_delta(self.delta)
        one_of(self, aim=get_args(Aim))
        at_least("every", self.every, 1)
        one_of(self, reports=get_args(Reports))
        part = declared(self.unit)
        own = part is not None and isinstance(part.moves, tuple)
        if not self.padding and self.aim != "min_noise":
            raise InvalidValue(
                f"Expected padding={self.padding!r} to be True with aim='min_regret': its bound "
                "needs equal noise in every running sum."
            )
        if own and self.padding:
            raise InvalidValue(
                f"Expected padding={self.padding!r} to be False where moves has a number for each "
                "round: noise differs by node."
            )

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        own = isinstance(unit, Part)  # each node then has noise for what is declared of its rounds
        return self.resolve(setting) if own else super().protecting(unit, setting)

    def resolve(self, setting: Setting) -> Algorithm:
        schedule = Schedule.of(self.every, self.early)
        game = TreeGame(setting, schedule, self.reports, declared(self.unit))
        noise, experts = self.noise(game), setting.experts
        server = LeaderServer(
            experts,
            schedule,
            game.encoder,
            noise,
            game.draws,
            self.padding,
            isinstance(setting.family, Gains),
            game.own_scales(),
        )
        playing = setting.deciders is None
        plain = playing and isinstance(setting.family, Linear)
        errors = _errors(game, server)
        return Algorithm(
            name="tree_leader",
            setting=setting,
            client=FilteringClient(experts)
            if playing
            else SumReporter(1 if game.silo else experts),
            server=server,
            decider=None if playing else FilteringClient(experts),
            certificate=self.certificate(game, noise),
            uploads=Uploads(
                LossSums,
                sums_of_losses(setting, 1 if game.silo else experts),
                combine="each" if game.silo else "sum",
                closing=game.closing,
            ),
            broadcasts=Broadcasts(
                Leader, {"rounds": Planned(schedule), "expert": Between(0, experts - 1)}
            ),
            supports=frozenset()
            if playing
            else frozenset({Feature.SIDE_INFORMATION, Feature.SOME_REPORT}),
            shortcuts=Shortcuts(
                server.advance if playing else None,
                common_play=attrgetter("expert") if playing else None,
            ),
            claims=Claims(
                regret_bound=self._bound(game, errors),
                reference=FollowTheLeader(self.every, self.early).build(setting) if plain else None,
                free_noise=frozenset({PADDING} if self.padding and noise is not None else ()),
            ),
            parameters={
                "draws": game.draws,
                "deviation": float(errors.max()),
                **schedule.shown(setting),
            },
        )

    def noise(self, game: TreeGame) -> GaussianNoise | None:
        """The noise of a node; the sensitivity is that of all releases of the game together."""
        scale = self.scale(game)
        if self.aim == "min_regret":
            scale = max(scale, self.least_regret(game))
        return GaussianNoise("node", scale, game.moved()) if scale > 0 else None

    def scale(self, game: TreeGame) -> float:
        """The scale of a node that the budget needs."""
        budget = given_budget(self.epsilon, self.delta, self.mu)
        return 0.0 if budget is None else gaussian_scale(budget, game.moved())

    def least_regret(self, game: TreeGame) -> float:
        """The scale of a node that minimises the regret bound."""
        return game.clients * game.span * sqrt(game.squares / (2 * game.draws))

    def certificate(
        self, game: TreeGame, noise: GaussianNoise | None, **labels: Any
    ) -> Certificate:
        curve = GaussianDP(0.0) if noise is None else noise.curve
        quoted = curve if self.delta is None else Quoted(curve, self.delta)
        return game.certificate(quoted, noise, ANNOUNCED, "shifts", **labels)

    def _bound(self, game: TreeGame, errors: Array) -> RegretBound | None:
        """The bound per client; where deciders play, nothing ties their charges to reports."""
        setting, span = game.setting, game.span
        if setting.deciders is not None or not errors.any():
            return None
        if self.padding:
            value = padded_bound(setting, game.schedule, float(errors[0]) / span)
        else:
            value = regret_bound(setting, game.schedule, errors / span)
        return RegretBound(span * value, "oblivious", Proof(PROOF, "leader"))

    def audit_variants(self) -> tuple[TreeLeader, ...]:
        return (replace(self, every=1),)  # the noise is used whatever the budget is

    def games(self) -> Games | None:
        return silo_games() if self.reports == "silo" else None


def padded_bound(setting: Setting, schedule: Schedule, deviation: float) -> float:
    """Bounds the expected regret per client if all running sums have one standard deviation.

    The losses are in [0, 1] and fixed in advance.

    >>> setting = Setting(clients=1, experts=10, horizon=1000)
    >>> found = padded_bound(setting, Schedule(1), sqrt(500.0))
    >>> round(found, 1) == round(sqrt(4 * 1000 * log(10)), 1)
    True
    """
    if setting.experts == 1:
        return 0.0
    squares = setting.clients**2 * schedule.squares(setting.rounds)
    spread = deviation + squares / (2 * deviation)
    return min(float(setting.rounds), sqrt(2 * log(setting.experts)) * spread / setting.clients)


def _errors(game: TreeGame, server: TreeServer) -> Array:
    """The standard deviations of the running sums after each exchange."""
    count = game.tree.rounds
    if server.releasing is None:
        return np.zeros(count)
    scale = server.releasing.scale
    if server.padding:
        return np.full(count, scale * sqrt(game.draws))
    if not server.scales:
        return scale * game.tree.error_by_round()
    squares = np.zeros(count + 1)  # of a running sum: its last node, and what is before it
    for end in range(1, count + 1):
        squares[end] = server.scales[end - 1] ** 2 + squares[end & (end - 1)]
    return scale * np.sqrt(squares[1:])
