"""A wrapper in which clients see the losses of people who come, some of them often."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.core.people import with_people
from hedgerow.core.validate import at_least
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.wrappers.masks import Around, Position

_KEY = 0x766973  # "vis"


@dataclass(frozen=True, kw_only=True)
class Visits(Around):
    """Any environment in which each client has `people`, and sees losses when one of them comes.

    A client pays its losses in all rounds. In most of them nobody comes, and it sees nothing; in
    the others it sees the losses, and who came: one person at most. How often a person comes has a
    heavy tail: twice or more, more than k times with a chance of about 1/k, `most` times at most.

    Parameters
    ----------
    of
        The environment to wrap; it keeps its losses, clients, experts and rounds.
    people
        The number of people at each client. Each comes at one client only.
    most
        The most rounds in which one person comes, at least 2.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.Visits(of=hr.Bernoulli(clients=2, experts=3, horizon=64), people=8, most=9)
    >>> block, _ = environment.block(environment.start(0), 64, None)
    >>> block.reports.shape  # the last column says who came
    (64, 2, 4)
    """

    feature: ClassVar[Feature] = Feature.PEOPLE
    not_around: ClassVar[frozenset[Feature]] = frozenset(Feature)

    people: int = 10
    most: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("people", self.people, 1)
        at_least("most", self.most, 2)
        if self.setting.deciders is not None or not self.setting.family.linear:
            raise InvalidValue("Expected of= to be a game in which clients follow experts.")

    def block(
        self, state: Position, rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, Position]:
        made, inner = self.of.block(state.inner, rounds, past_plays)
        who = _visits(self, state.seed)[state.round : state.round + rounds]
        block = replace(made, reports=with_people(made.losses, who), checked=False)
        return block, Position(state.seed, state.round + rounds, inner)


@lru_cache(maxsize=4)
def _visits(game: Visits, seed: int) -> np.ndarray:
    """Who comes at each client in each round, (rounds, clients); -1: nobody."""
    rng, rounds = generator(seed, _KEY), game.setting.rounds
    found = np.full((rounds, game.setting.clients), -1)
    for client in range(game.setting.clients):
        often = np.minimum(game.most, 2 + np.floor(rng.pareto(1.0, game.people))).astype(int)
        visits = rng.permutation(np.repeat(np.arange(game.people), often))[:rounds]
        found[rng.permutation(rounds)[: len(visits)], client] = visits
    return found
