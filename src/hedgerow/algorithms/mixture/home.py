"""Personal play: a client mixes the public combination with its own learner, at home.

Its own learner knows its targets exactly. What comes out must stay at the client: the answers that
it sends are about the public combination, so the mixture costs no privacy
(`proofs/private_mixture.md#privacy`). Nothing is proven about its loss; `hedgerow reproduce
personal-play` measures it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import log
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.mixture.roles import (
    Answering,
    ClientState,
    Learning,
    ServerState,
    asked,
    normalised,
)
from hedgerow.core.lattice import Array
from hedgerow.core.layout import Matrix, Value, Vector
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Context

PRIOR = np.array([0.5, 0.15, 0.15, 0.2])  # public; the own learners by memory; and these together
MEMORY = 0.95  # of what these four have lost
BOLDNESS = 2.0


@dataclass(frozen=True)
class HomeState(ClientState):
    """The public weights, the answer to send, and what the client has learned by itself.

    The first seven fields are those of a server that has one client. `lost` is what the public
    combination and the own ones have lost, and `energy` adds up the squares of their differences.
    """

    sums: Matrix
    squares: Matrix
    noise: Matrix
    combinations: Matrix
    losses: Vector
    total: Value
    largest: Value
    lost: Vector
    energy: Value


@dataclass(frozen=True)
class AtHome(Answering):
    """Answers about the public combination; plays a mixture of it with its own learner's.

    It mixes four combinations: the public one, those of its two learners, and what it would use
    by itself. Weights are exponential in what each has lost, at twice the rate sqrt(ln 4 / V),
    where V adds up the squares of the largest differences of their losses. Both forget: the last
    twenty targets count most. Losses count, not slopes at the mixed forecast: where a target lies
    between two forecasts their losses differ less than they do, and a small V makes it quick to
    leave one that is worse.
    """

    state: ClassVar[type[Any]] = HomeState

    @property
    def learning(self) -> Learning:
        """What the server would be if this were the only client."""
        return Learning.exact(self.family, self.width)

    def start(self, noise: Noise) -> HomeState:
        _, fresh = self.learning.open(noise)
        fresh = replace(fresh, noise=fresh.noise[:, :1])  # 0 for all models
        own = {
            name: np.broadcast_to(value, (*noise.batch, *np.shape(value)))
            for name, value in vars(fresh).items()
        }
        lost = np.zeros((*noise.batch, len(PRIOR)))
        usual = super().start(noise)
        return HomeState(**vars(usual), **own, lost=lost, energy=np.zeros(noise.batch))

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[Array, Any]:
        energy = np.asarray(state.energy)
        rate = np.zeros_like(energy)
        np.divide(log(len(PRIOR)), energy, out=rate, where=energy > 0)
        rate = BOLDNESS * np.sqrt(rate)
        shares = normalised(np.log(PRIOR) - rate[..., None] * state.lost)
        return _mixed(shares, self._all(state)), state

    def observe(self, state: Any, reports: Array, noise: Noise) -> Any:
        every = self._all(state)
        lost = np.stack([self.family.value(reports, weights) for weights in every], axis=-1)
        own, differ = self._learned(_own(state), reports, every[-1])
        learned = vars(own) | {
            "lost": MEMORY * state.lost + lost,
            "energy": MEMORY**2 * state.energy + np.ptp(lost, axis=-1) ** 2,
        }
        if differ.ndim == 0 or not differ.all():
            learned = {n: _where(differ, new, getattr(state, n)) for n, new in learned.items()}
        return replace(super().observe(state, reports, noise), **learned)

    def _learned(
        self, own: ServerState, reports: Array, alone: Array
    ) -> tuple[ServerState, np.ndarray]:
        """What a server of this client would know, and whether its forecasts differ.

        All levels count, as nothing is sent. The slope is that at `alone`, its own combination.
        """
        learning, levels = self.learning, len(self.family.slopes)
        gradient, size, spread = np.zeros_like(alone), np.zeros_like(alone), 0.0
        for level in range(levels):
            at = np.full(np.shape(own.total), level)
            answer = asked(self.family, reports, at, alone)
            forecasts = answer.forecasts
            reported = np.asarray(answer.middle + learning.half * answer.sign)
            gradient += reported[..., None] / levels * forecasts
            size += learning.half**2 / levels * forecasts * forecasts
            spread = spread + np.ptp(_each(own.combinations, forecasts), axis=-1) / levels
        paid = _each(own.combinations, gradient)
        energy = (learning.steepest * spread) ** 2 / 8
        noise = np.zeros((*np.shape(energy), 1))  # none
        differ = np.asarray((size > 0).any(axis=-1))
        return learning.moved(own, gradient, size, noise, paid, energy), differ

    def _all(self, state: HomeState) -> list[Array]:
        """The four combinations."""
        own = _own(state)
        rows = _rows(own.combinations)
        return [state.point, *rows[:-1], _mixed(self.learning.shares(own), rows)]


def _own(state: HomeState) -> ServerState:
    return ServerState(*(getattr(state, part.name) for part in fields(ServerState)))


def _each(rows: Array, forecasts: Array) -> Array:
    """The score of every row (..., k, models), the same for rows that are the same."""
    return np.einsum("...kd,...d->...k", rows, forecasts)


def _rows(matrices: Array) -> list[Array]:
    return [matrices[..., k, :] for k in range(matrices.shape[-2])]


def _mixed(shares: Array, rows: list[Array]) -> Array:
    """The mean of the rows, added up in the same order for one client and for many."""
    found = shares[..., 0, None] * rows[0]
    for k in range(1, len(rows)):
        found += shares[..., k, None] * rows[k]
    return found


def _where(chosen: np.ndarray, new: Array, old: Array) -> Array:
    """The new values of the clients that are chosen."""
    return np.where(chosen.reshape(chosen.shape + (1,) * (np.ndim(new) - chosen.ndim)), new, old)
