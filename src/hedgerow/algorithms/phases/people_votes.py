"""Votes of people inside clients: one person has one vote, whatever its number of records.

A client keeps the losses of each of its people apart, and sends the sum of their scores. Who came
when, and how often, is inside the score of that person alone (`proofs/vote_selection.md#people`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.phases.votes import Voter
from hedgerow.core.environment import Feature, Traits
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array, from_units, to_units
from hedgerow.core.layout import UnitRows, Whole, WholeVector
from hedgerow.core.noise import Noise
from hedgerow.core.people import who_came, with_people
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit

FEW = 8  # records of a person; with fewer, scores are clipped and not studentised


@dataclass(frozen=True)
class PeopleState:
    """The expert to follow; in how many rounds each person came, and with which losses so far."""

    expert: Whole
    rounds: WholeVector
    losses: UnitRows


@dataclass(frozen=True)
class PeopleVoter(Voter):
    """Follows the announced expert and says what its people prefer; only `people` are heard."""

    state: ClassVar[type[Any]] = PeopleState

    people: int

    def start(self, noise: Noise) -> Any:
        rounds = np.zeros((*noise.batch, self.people), np.int64)
        losses = np.zeros((*rounds.shape, self.experts), np.int64)
        return PeopleState(np.zeros(noise.batch, np.int64), rounds, losses)

    def observe(self, state: Any, reports: Array, noise: Noise) -> Any:
        return self.observe_many(state, np.asarray(reports)[None], noise)

    def observe_many(self, state: Any, reports: Array, noise: Noise) -> Any:
        rounds, losses = self._added(state.rounds, state.losses, reports)
        return replace(state, rounds=rounds, losses=losses)

    def of_reports(self, reports: Array) -> np.ndarray:
        rounds = np.zeros((reports.shape[1], self.people), np.int64)
        losses = np.zeros((*rounds.shape, self.experts), np.int64)
        rounds, losses = self._added(rounds, losses, reports)
        return self.opinion(from_units(losses), rounds)

    def opinion(self, losses: Array, rounds: Any) -> np.ndarray:
        scores = super().opinion(losses, rounds)
        if self.scores == "studentised":  # few records say little about their deviation
            few = Voter(self.experts, "clip").opinion(losses, rounds)
            scores = np.where(rounds[..., None] < FEW, few, scores)
        return (self.votes(rounds)[..., None] * scores).sum(axis=-2)

    def votes(self, rounds: np.ndarray) -> np.ndarray:
        """How many votes a person has who came in this many rounds."""
        return np.minimum(rounds, 1)

    def _added(self, rounds: Any, losses: Any, reports: Array) -> tuple[np.ndarray, np.ndarray]:
        seen, who = who_came(reports)
        came = np.nonzero((who >= 0) & (who < self.people))
        at = (*came[1:], who[came])
        rounds, losses = np.array(rounds), np.array(losses)
        np.add.at(rounds, at, 1)
        np.add.at(losses, at, to_units(seen[came]))
        return rounds, losses


SETTING, PEOPLE = Setting(3, 3, 24), 4


def people_games() -> Games:
    """Games in which people come to clients, for contracts; a unit is all visits of one person."""

    def stream(rng: Any, of: Setting) -> Array:
        shape = (of.rounds, of.clients, of.experts)
        losses = rng.random(shape) * np.linspace(0, 1, of.experts)
        return with_people(losses, rng.integers(-1, PEOPLE, shape[:2]))

    def pair(rng: Any, unit: Unit) -> tuple[Array, Array]:
        """The visits of one person, at as many clients as may be, change, and so does their number.

        The person may also come where nobody did; nobody else is moved.
        """
        shape = (SETTING.rounds, SETTING.clients, SETTING.experts)
        losses, who = rng.integers(0, 2, shape).astype(float), rng.integers(-1, PEOPLE, shape[:2])
        far, other = losses.copy(), who.copy()
        most = min(int((unit.shape or (1, 1, 1))[1]), SETTING.clients)
        liked = rng.integers(SETTING.experts)
        for client in rng.choice(SETTING.clients, most, replace=False):
            own = int(rng.integers(PEOPLE))
            mine = np.isin(who[:, client], (-1, own))
            who[mine & (rng.random(len(mine)) < 0.7), client] = own
            other[mine, client] = np.where(rng.random(mine.sum()) < 0.7, own, -1)
            losses[mine, client] = np.arange(SETTING.experts) != liked
            far[mine, client] = 1 - losses[mine, client]
        return with_people(losses, who), with_people(far, other)

    return Games(SETTING, Played, stream, pair, far=_far)


def _far(rng: Any, of: Setting) -> Iterator[tuple[Array, Array]]:
    """Nobody comes, or people who lose nothing, against the most that people can lose; inverses."""
    shape = (of.rounds, of.clients, of.experts)
    who, low, mixed = rng.integers(-1, PEOPLE, shape[:2]), np.zeros(shape), rng.random(shape)
    for high in (np.ones(shape), np.broadcast_to(np.eye(of.experts)[0], shape)):
        yield with_people(low, np.full_like(who, -1)), with_people(high, np.zeros_like(who))
        yield with_people(low, who), with_people(high, who)
    yield with_people(mixed, who), with_people(1.0 - mixed, rng.permutation(who))


class Played(Replay):
    """A recorded game of people: everybody pays what is seen."""

    def __init__(self, reports: Array) -> None:
        super().__init__(reports[..., :-1], reports=reports)

    @property
    def setting(self) -> Setting:
        return replace(super().setting, deciders=None)

    @property
    def traits(self) -> Traits:
        return Traits(features=frozenset({Feature.PEOPLE}))
