"""Environments with a good expert: it never loses, loses little, or survives repeated halving."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np

from hedgerow.core.environment import Traits
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import between
from hedgerow.environments.drawn.generated import Counted
from hedgerow.environments.drawn.scattered import LONGEST, Scattered


@dataclass(frozen=True, kw_only=True)
class Realizable(Counted):
    """One expert, drawn at the start, never loses; the others lose with a given mean.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    mean
        The mean loss of the other experts, in [0, 1], or in [0, 0.5] for the uniform law.
    law
        `"bernoulli"` or `"uniform"`. Uniform losses lie in [0, 2 * mean].

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Realizable(clients=100, experts=3, horizon=50)
    >>> block, _ = environment.block(environment.start(0), 50, None)
    >>> block.losses.mean(axis=(0, 1)).round(1)
    array([0.5, 0. , 0.5])

    References
    ----------
    Gao et al. 2024, Figure 2: uniform losses on [0, 1] (`mean=0.5`) are our reading of its "random
    losses".
    """

    mean: float = 0.5
    law: Literal["bernoulli", "uniform"] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.law not in ("bernoulli", "uniform"):
            raise InvalidValue(f"Expected law={self.law!r} in ('bernoulli', 'uniform').")
        between("mean", self.mean, 0.0, 0.5 if self.law == "uniform" else 1.0)

    @property
    def traits(self) -> Traits:
        why_not = (
            None
            if self.law == "bernoulli"
            else f"sums of losses of law={self.law!r} cannot be drawn directly; law='bernoulli' can"
        )
        return replace(super().traits, adversary="stochastic", why_no_sums=why_not, best_loss=0.0)

    def plan(self, rng: np.random.Generator) -> Any:
        """Draw the expert that never loses."""
        return int(rng.integers(self.experts))

    def draw(self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int) -> Array:
        losses = rng.random((rounds, self.clients, self.experts))
        if self.law == "uniform":
            losses *= 2 * self.mean
        else:
            np.less(losses, self.mean, out=losses)  # 0 or 1
        losses[..., plan] = 0.0
        return losses

    def counts(
        self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int
    ) -> np.ndarray:
        counted = rng.binomial(rounds * self.clients, self.mean, self.experts)
        counted[plan] = 0
        return counted


@dataclass(frozen=True, kw_only=True)
class NearRealizable(Realizable):
    """Like `Realizable`, but the best expert has a total loss of `best_loss` at every client.

    It loses 1 in random rounds, drawn separately for each client, and the fractional rest of
    `best_loss` in one more.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    mean
        The mean loss of the other experts, in [0, 1], or in [0, 0.5] for the uniform law.
    law
        `"bernoulli"` or `"uniform"`. Uniform losses lie in [0, 2 * mean].
    best_loss
        The total loss of the best expert at each client, in [0, horizon].
    exact
        True: the total is exactly `best_loss`. False: the best expert loses 1 in every round with
        probability best_loss / horizon, so `best_loss` is the mean of the total.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.NearRealizable(clients=2, experts=3, horizon=100, best_loss=2.5)
    >>> block, _ = environment.block(environment.start(0), 100, None)
    >>> block.losses.sum(axis=0).min(axis=1)
    array([2.5, 2.5])
    """

    best_loss: float = 5.0
    exact: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between("best_loss", self.best_loss, 0.0, float(self.horizon))
        if self.exact and not self.horizon <= LONGEST:
            raise InvalidValue(f"Expected horizon={self.horizon!r} <= {LONGEST} where exact=True.")

    @property
    def traits(self) -> Traits:
        """With an exact total, earlier rounds carry information about later ones.

        Such losses are fixed in advance, not drawn independently in every round.
        """
        certain = self.best_loss if self.exact or self.best_loss == 0 else None
        inherited = replace(super().traits, adversary="stochastic", best_loss=certain)
        if not self.exact:
            return inherited
        exactly = (
            "sums where every client's best expert loses exactly best_loss cannot be drawn "
            "directly; exact=False can"
        )
        why_not = "; ".join(filter(None, [inherited.why_no_sums, exactly]))
        return replace(inherited, adversary="oblivious", why_no_sums=why_not)

    def plan(self, rng: np.random.Generator) -> tuple[int, Scattered, np.ndarray]:
        """Draw the best expert, the rounds in which it loses, and the fractional one.

        The last array gives, for each client, which of these rounds takes the fractional rest.
        """
        best, count = int(rng.integers(self.experts)), ceil(self.best_loss)
        losing = Scattered(
            int(rng.integers(2**63)), self.clients, self.horizon, self.chunk_rounds, count
        )
        return best, losing, rng.integers(max(1, count), size=self.clients)

    def draw(
        self,
        rng: np.random.Generator,
        plan: tuple[int, Scattered, np.ndarray],
        first_round: int,
        rounds: int,
    ) -> Array:
        best, losing, partial = plan
        losses = super().draw(rng, best, first_round, rounds)
        if not self.exact:
            losses[..., best] = rng.random((rounds, self.clients)) < self.best_loss / self.horizon
            return losses
        number = losing.number(rng, first_round, rounds)
        losses[..., best] = np.where(number == partial, self.best_loss + 1 - losing.count, 1.0) * (
            number >= 0
        )
        return losses

    def counts(
        self, rng: np.random.Generator, plan: Any, first_round: int, rounds: int
    ) -> np.ndarray:
        best, _, _ = plan
        counted = super().counts(rng, best, first_round, rounds)
        counted[best] = rng.binomial(rounds * self.clients, self.best_loss / self.horizon)
        return counted


@dataclass(frozen=True, kw_only=True)
class Halving(Counted):
    """Every horizon/8 rounds half of the remaining experts start to lose 1 in every round.

    The losses are the same at all clients.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.
    jitter
        Whether the seven rounds in which experts fall are random instead. Default: False.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Halving(clients=1, experts=16, horizon=80)
    >>> block, _ = environment.block(environment.start(0), 80, None)
    >>> block.losses[::10, 0].sum(axis=1)  # how many of the 16 experts lose
    array([ 0.,  8., 12., 14., 15., 15., 15., 15.])
    """

    jitter: bool = False

    @property
    def traits(self) -> Traits:
        return replace(super().traits, best_loss=0.0)

    def plan(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the round in which each expert starts to lose (the horizon for survivors)."""
        death = np.full(self.experts, self.horizon)
        alive = rng.permutation(self.experts)
        regular = [step * self.horizon // 8 for step in range(1, 8)]
        falls = np.sort(rng.integers(self.horizon, size=7)) if self.jitter else regular
        for fall in falls:
            fallen = len(alive) // 2
            death[alive[:fallen]] = fall
            alive = alive[fallen:]
        return death

    def draw(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> Array:
        lost = np.arange(first_round, first_round + rounds)[:, None] >= plan
        return np.repeat(lost[:, None, :].astype(np.float64), self.clients, axis=1)

    def counts(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> np.ndarray:
        return self.clients * np.clip(first_round + rounds - plan, 0, rounds)


@dataclass(frozen=True, kw_only=True)
class Rotating(Counted):
    """Eight groups of experts lose 1 in every round, one group after the other, twice around.

    One expert never loses. The losses are the same at all clients.

    Parameters
    ----------
    clients, experts, horizon
        The size of the game: number of clients, experts and rounds.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Rotating(clients=1, experts=17, horizon=32)
    >>> block, _ = environment.block(environment.start(0), 32, None)
    >>> np.unique(block.losses[:, 0].sum(axis=0)).tolist()  # of the perfect expert and the others
    [0.0, 4.0]
    >>> np.unique(block.losses[:, 0].sum(axis=1)).tolist()  # experts that lose in a round
    [2.0]
    """

    @property
    def traits(self) -> Traits:
        return replace(super().traits, best_loss=0.0)

    def plan(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the group of each expert; group 8 never loses."""
        group = np.arange(-1, self.experts - 1) % 8
        group[0] = 8
        return rng.permutation(group)

    def _lost(self, plan: np.ndarray, before: np.ndarray) -> np.ndarray:
        """What each expert has lost before each of some rounds."""
        sixteenth = [part * self.horizon // 16 for part in range(17)]
        lost = np.zeros((len(before), self.experts), np.int64)
        for part in range(16):
            begin, end = sixteenth[part : part + 2]
            lost[:, plan == part % 8] += np.clip(before - begin, 0, end - begin)[:, None]
        return lost

    def draw(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> Array:
        lost = np.diff(self._lost(plan, np.arange(first_round, first_round + rounds + 1)), axis=0)
        return np.repeat(lost[:, None, :].astype(np.float64), self.clients, axis=1)

    def counts(
        self, rng: np.random.Generator, plan: np.ndarray, first_round: int, rounds: int
    ) -> np.ndarray:
        begin, end = self._lost(plan, np.array([first_round, first_round + rounds]))
        return self.clients * (end - begin)
