"""Certificates of the shrinking dartboard against the best adversary of tiny games: none is too
low, and one with a mistake in it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.algorithms.dartboard.cost import Choice, with_chance
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.audits.cases.dartboard import half_the_chance
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from support.tiny_dartboard import tiny_game

Game = tuple[int, int, float, float, int | None]  # clients, groups, rate, leave, cap
GAMES: list[Game] = [
    (1, 4, 0.807, 0.52, None),
    (3, 4, 1.59, 0.23, 2),
    (1, 5, 0.7, 0.3, None),
    (2, 4, 0.1, 0.05, None),
    (1, 4, 0.0834, 0.02, None),
]


def settled(game: Game) -> tuple[Choice, CoinThenDraws]:
    clients, groups, rate, leave, cap = game
    choice = with_chance(rate, leave, Schedule(1), cap)
    return choice, choice.cost(Setting(clients, 2, groups))


def closest(game: Game, curve: CoinThenDraws) -> float:
    """The largest of true delta / certified delta."""
    choice, honest = settled(game)
    played, found = tiny_game(choice, game[0], game[1]), 0.0
    assert played.chances.sum(axis=-1) == pytest.approx(1.0)
    for epsilon in np.linspace(0.0, 0.95 * honest.pure, 20):
        exact, certified = played.delta(float(epsilon)), curve.delta(float(epsilon))
        if exact > 1e-9:
            found = max(found, exact / certified if certified > 0 else np.inf)
    return found


@pytest.mark.parametrize("game", GAMES)
def test_no_delta_is_above_the_certificate(game: Game) -> None:
    """And the best adversary comes near to it."""
    assert 0.85 < closest(game, settled(game)[1]) <= 1 + 1e-9


MISTAKES: dict[str, tuple[Game, Callable[[CoinThenDraws], CoinThenDraws]]] = {
    "half the chance of a draw": (GAMES[0], half_the_chance),
    "half the chance of a draw, three clients, a cap": (GAMES[1], half_the_chance),
    "half the occasions": (GAMES[0], lambda cost: replace(cost, occasions=cost.occasions // 2)),
    "half the range": (GAMES[0], lambda cost: replace(cost, range=cost.range / 2)),
    "twice the gap": (GAMES[4], lambda cost: replace(cost, gap=2 * cost.gap)),
    "half of what moves": (GAMES[4], lambda cost: replace(cost, moved=cost.moved / 2)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistaken_certificate_is_below_a_true_delta(name: str) -> None:
    game, mistake = MISTAKES[name]
    assert closest(game, mistake(settled(game)[1])) > 1.01
