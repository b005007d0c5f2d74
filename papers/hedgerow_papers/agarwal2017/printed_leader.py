"""The tree-perturbed leader with the printed noise (Agarwal and Singh 2017, Theorem 3.5)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import Any, ClassVar

from hedgerow.core.certificate import Certificate
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import Algorithm, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import ApproximateDP
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow_papers.agarwal2017.tree_game import TreeGame, declared
from hedgerow_papers.agarwal2017.tree_leader import Aim, TreeLeader


@dataclass(frozen=True)
class AgarwalTreeLeader(TreeLeader):
    """The tree-perturbed leader with the printed noise. `TreeLeader` needs less: use that.

    The certificate states what the noise of Theorem 3.5 really costs beside what the paper claims.

    Parameters
    ----------
    epsilon, delta
        The claimed budget, epsilon in [1e-6, 1e6] and delta in (0, 1). Default: 1 and 1e-6.
    aim
        "min_regret" (default): both terms of Theorem 3.5. "min_noise": only the one that privacy
        needs.
    every
        Rounds between two exchanges: from 1 (default) to the horizon.
    padding, reports
        As for `TreeLeader`.

    Guarantee
    ---------
    One record of one client in one round, or `unit`, is protected from the public and from other
    clients, even if all of them collude, with the certified (epsilon, delta). The server is
    trusted. Proof: `proofs/tree_leader.md#privacy`.

    Examples
    --------
    >>> built = AgarwalTreeLeader(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(built.certificate.peer.curve.words())
    epsilon = 0.07408, delta = 1e-6

    References
    ----------
    Agarwal and Singh 2017, Algorithms 2 and 3, Theorem 3.5.
    """

    traits: ClassVar[SpecTraits] = TreeLeader.traits

    mu: float | None = field(default=None, init=False, repr=False)
    aim: Aim = "min_regret"
    early: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        part = declared(self.unit)
        if part is not None and isinstance(part.moves, tuple):
            raise InvalidValue(
                f"Expected moves={part.moves!r} to be one number: the paper has none that differs "
                "by round."
            )

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(super().resolve(setting), name="agarwal2017_tree_leader")

    def scale(self, game: TreeGame) -> float:
        assert self.epsilon is not None
        assert self.delta is not None
        change = game.moved() / sqrt(game.draws)
        return change / self.epsilon * game.draws * log(game.draws / self.delta)

    def least_regret(self, game: TreeGame) -> float:
        """The first term of Theorem 3.5."""
        return game.diameter * sqrt(game.batches / (sqrt(game.setting.experts) * game.draws))

    def certificate(
        self, game: TreeGame, noise: GaussianNoise | None, **labels: Any
    ) -> Certificate:
        assert self.epsilon is not None
        assert self.delta is not None
        claimed = ApproximateDP(self.epsilon, self.delta)
        return super().certificate(game, noise, calibration="published", claimed=claimed, **labels)
