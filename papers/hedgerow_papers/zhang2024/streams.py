"""Drawn examples for online learning: every client sees several examples in every round.

`FederatedSynthetic` has clients that differ. In `DriftingExamples` the law of all clients changes
with time, so that the best model changes, too.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hedgerow.core.batch import Batch
from hedgerow.core.convex import Logistic
from hedgerow.core.domain import length
from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.measure import Measure
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, one_of, positive
from hedgerow.environments.drawn.examples import CHUNK, Chunked
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.measures import Accuracy, TestAccuracy, TestLoss
from hedgerow_papers.zhang2024.round_regret import RoundRegret

_PLAN, _CHUNK, _TEST = 1, 2, 3
TEST = 5000  # examples of the test data


@dataclass(frozen=True, kw_only=True)
class LabelledStreams(Chunked):
    """Base class: `examples` examples with a label for each client and round, logistic loss."""

    clients: int = 20
    features: int = 100
    examples: int = 5
    horizon: int = 1000
    radius: float = 100.0

    def __post_init__(self) -> None:
        at_least("features", self.features, 1)
        at_least("examples", self.examples, 1)
        positive("radius", self.radius)
        _ = self.setting

    @property
    def setting(self) -> Setting:
        family = Batch(Logistic(radius=self.radius), self.examples)
        return Setting(self.clients, self.features, self.horizon, family=family)

    @abstractmethod
    def plan(self, rng: Any) -> Any:
        """Draw what the whole stream shares, once."""

    @abstractmethod
    def draw(self, rng: Any, plan: Any, times: Array, count: int) -> tuple[Array, Array]:
        """Draw `count` examples of each client at these times (fractions of the game).

        Returns features (times, clients, count, features) of norm at most 1, and labels -1 or 1.
        """

    def chunk(self, seed: int, index: int) -> Array:
        times = (index * CHUNK + np.arange(CHUNK)) / self.horizon
        plan = self.plan(generator(seed, _PLAN))
        records = self._records(generator(seed, _CHUNK, index), plan, times, self.examples)
        return records.reshape(CHUNK, self.clients, -1)

    def _records(self, rng: Any, plan: Any, times: Array, count: int) -> Array:
        features, labels = self.draw(rng, plan, times, count)
        return np.concatenate([features, labels[..., None]], axis=-1)


@dataclass(frozen=True, kw_only=True)
class FederatedSynthetic(LabelledStreams):
    """Clients with different features and labels: synthetic(alpha, beta) of FedProx, two classes.

    Client k has its own linear classifier and its own mean of features. With u ~ N(0, alpha) and
    B ~ N(0, beta), standard deviations as in the FedProx code: weights and offsets ~ N(u, 1),
    mean ~ N(B, 1), and features ~ N(mean, variances j^(-1.2)). The label is the class with the
    larger score, written as -1 or 1. All rounds have the same law. It brings loss and accuracy on
    5000 test examples of all clients.

    Parameters
    ----------
    clients, features, horizon
        The number of clients, features and rounds.
    examples
        How many examples every client sees in a round (tau).
    radius
        The radius of the ball of models, large enough not to matter.
    alpha
        How much the classifiers of clients differ, >= 0.
    beta
        How much the means of their features differ, >= 0.
    scaling
        "unit" (default): the features of every example are divided by their norm. "fixed": all are
        divided by `scale`, a public number, and longer ones are shortened to norm 1.
    scale
        The number for "fixed", > 0. Default 12: with 100 features few are longer.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = FederatedSynthetic(clients=2, features=3, examples=4, horizon=10)
    >>> game.setting.numbers  # 2 clients with 4 examples of 3 features and a label
    32
    >>> game.test(seed=0).shape
    (5000, 4)

    References
    ----------
    Li et al. 2020 (FedProx); Zhang et al. 2024, section V-A.
    """

    alpha: float = 0.1
    beta: float = 0.1
    scaling: Literal["unit", "fixed"] = "unit"
    scale: float = 12.0

    def __post_init__(self) -> None:
        if not self.alpha >= 0:
            raise InvalidValue(f"Expected alpha={self.alpha!r} >= 0.")
        if not self.beta >= 0:
            raise InvalidValue(f"Expected beta={self.beta!r} >= 0.")
        if self.scaling not in ("unit", "fixed"):
            raise InvalidValue(f"Expected scaling={self.scaling!r} in ('unit', 'fixed').")
        positive("scale", self.scale)
        super().__post_init__()

    @property
    def traits(self) -> Traits:
        return Traits(adversary="stochastic", fresh=True)

    def plan(self, rng: Any) -> tuple[Array, Array, Array]:
        """Draw the means of features, the weights of the score, and its offset, for each client."""
        means = np.empty((self.clients, self.features))
        weights, offsets = np.empty_like(means), np.empty(self.clients)
        for k in range(self.clients):
            shared, centre = rng.normal(0, self.alpha), rng.normal(0, self.beta)
            means[k] = rng.normal(centre, 1, self.features)
            both = rng.normal(shared, 1, (self.features, 2))
            either = rng.normal(shared, 1, 2)
            weights[k], offsets[k] = both[:, 1] - both[:, 0], either[1] - either[0]
        return means, weights, offsets

    def draw(
        self, rng: Any, plan: tuple[Array, Array, Array], times: Array, count: int
    ) -> tuple[Array, Array]:
        means, weights, offsets = plan
        shape = (len(times), self.clients, count, self.features)
        spread = np.arange(1.0, self.features + 1) ** -0.6
        features = means[:, None, :] + spread * rng.standard_normal(shape)
        scores = np.einsum("rktd,kd->rkt", features, weights) + offsets[:, None]
        if self.scaling == "unit":
            features /= length(features)[..., None]
        else:
            features /= self.scale
            features /= np.maximum(1.0, length(features))[..., None]
        return features, np.where(scores > 0, 1.0, -1.0)

    def test(self, seed: int) -> Array:
        """Return the test data for a seed: (5000, features + 1), equally many of each client."""
        each = -(-TEST // self.clients)
        rng, plan = generator(seed, _TEST), self.plan(generator(seed, _PLAN))
        records = self._records(rng, plan, np.zeros(1), each)[0]
        return records.swapaxes(0, 1).reshape(-1, self.features + 1)[:TEST]

    def measures(self) -> tuple[Measure, ...]:
        family = Logistic(radius=self.radius)
        return TestLoss(family, self.test), TestAccuracy(family, self.test)


@dataclass(frozen=True, kw_only=True)
class DriftingExamples(LabelledStreams):
    """Labelled examples whose law changes with time: a rotating concept, or shares of labels.

    Features have norm 1. For "rotation" they are uniform, and the label is 1 with probability
    1 / (1 + exp(-strength * <features, direction>)); the direction turns in a hidden plane. For
    "labels" the last feature is constant; the others lean by +-strength / 10 to a hidden direction,
    according to the label, and the share of label 1 is 1/2 + 0.4 sin(2 pi turns t / horizon).

    With clients * examples well above the number of features no model fits a round perfectly, so
    the best model of a round has a loss above 0. The table shows the regret against it.

    Parameters
    ----------
    clients, features, horizon
        The number of clients, features (at least 2) and rounds.
    examples
        How many examples every client sees in a round.
    radius
        The radius of the ball of models.
    drift
        "rotation" (default) or "labels".
    turns
        How often the direction turns around, or the share goes up and down, in the whole game.
    strength
        How well labels follow the features, > 0.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = DriftingExamples(clients=5, features=3, examples=16, horizon=20)
    >>> study = hr.run(game, {"open": hr.OnlineSGD(epsilon=2.0)}, seeds=2)
    >>> sorted(study["open"].results[0].figures)
    ['accuracy', 'dynamic regret']
    """

    features: int = 10
    radius: float = 20.0
    drift: Literal["rotation", "labels"] = "rotation"
    turns: float = 0.5
    strength: float = 4.0

    def __post_init__(self) -> None:
        at_least("features", self.features, 2)
        one_of(self, drift=("rotation", "labels"))
        if not self.turns >= 0:
            raise InvalidValue(f"Expected turns={self.turns!r} >= 0.")
        between("strength", self.strength, 1e-3, 1e3)
        super().__post_init__()

    @property
    def traits(self) -> Traits:
        return Traits(fresh=True)

    def plan(self, rng: Any) -> Array:
        """Draw two orthonormal directions, (2, features)."""
        return np.linalg.qr(rng.standard_normal((self.features, 2)))[0].T

    def direction(self, plan: Array, times: Array) -> Array:
        """Return the direction of labels at these times, (times, features)."""
        angles = 2 * np.pi * self.turns * times
        return np.cos(angles)[:, None] * plan[0] + np.sin(angles)[:, None] * plan[1]

    def draw(self, rng: Any, plan: Array, times: Array, count: int) -> tuple[Array, Array]:
        shape = (len(times), self.clients, count, self.features)
        features, coins = rng.standard_normal(shape), rng.random(shape[:-1])
        if self.drift == "rotation":
            features /= length(features)[..., None]
            scores = np.einsum("rktd,rd->rkt", features, self.direction(plan, times))
            return features, np.where(coins < 1 / (1 + np.exp(-self.strength * scores)), 1.0, -1.0)
        share = 0.5 + 0.4 * np.sin(2 * np.pi * self.turns * times)
        labels = np.where(coins < share[:, None, None], 1.0, -1.0)
        features += self.strength / 10 * labels[..., None] * plan[0]
        features[..., -1] = 1.0
        return features / length(features)[..., None], labels

    def measures(self) -> tuple[Measure, ...]:
        return Accuracy(self.examples), RoundRegret(self)
