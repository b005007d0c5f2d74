"""Certificates of lazy servers against the best adversary of tiny games: none is too low, and one with a mistake in it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import expm1
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.dartboard.cost import Choice, TwoChains, with_chance
from hedgerow.audits.cases.dartboard import half_the_chance
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.random_draws import CoinThenDraws
from support.tiny_lazy import tiny_game

Game = tuple[type[Choice], int, int, float, float, int | None]  # kind, clients, groups, rate, leave, cap
ONE, TWO = Choice, TwoChains
GAMES: list[Game] = [
    (ONE, 1, 4, 0.807, 0.52, None),
    (ONE, 3, 4, 1.59, 0.23, 2),
    (ONE, 1, 5, 0.7, 0.3, None),
    (ONE, 2, 4, 0.1, 0.05, None),
    (ONE, 1, 4, 0.0834, 0.02, None),
    (TWO, 1, 4, 1.5, 0.02, None),
    (TWO, 1, 3, 1.5, 0.8, None),
    (TWO, 2, 3, 0.7, 0.3, None),
    (TWO, 1, 4, 1.0, 0.3, 3),
    (TWO, 1, 3, 3.0, 0.02, None),
]


def settled(game: Game) -> tuple[Choice, CoinThenDraws]:
    kind, clients, groups, rate, leave, cap = game
    choice = with_chance(rate, leave, 1, cap, kind)
    return choice, choice.cost(Setting(clients, 2, groups))


def closest(game: Game, curve: CoinThenDraws) -> float:
    """The largest of true delta / certified delta."""
    choice, honest = settled(game)
    played, found = tiny_game(choice, game[1], game[2]), 0.0
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


def _occasions(which: int, change: Callable[[int, float], tuple[int, float]]) -> Callable[[CoinThenDraws], CoinThenDraws]:
    def mistaken(cost: CoinThenDraws) -> CoinThenDraws:
        return replace(cost, occasions=tuple(change(*one) if i == which else one for i, one in enumerate(cost.occasions)))

    return mistaken


HALF_AS_MANY = _occasions(0, lambda count, chance: (count // 2, chance))
MISTAKES: dict[str, tuple[Game, Callable[[CoinThenDraws], CoinThenDraws]]] = {
    "half the chance of a draw": (GAMES[0], half_the_chance),
    "half the chance of a draw, three clients, a cap": (GAMES[1], half_the_chance),
    "half the occasions": (GAMES[0], HALF_AS_MANY),
    "half the range": (GAMES[0], lambda cost: replace(cost, range=cost.range / 2)),
    "twice the gap": (GAMES[4], lambda cost: replace(cost, gap=2 * cost.gap)),
    "half of what moves": (GAMES[4], lambda cost: replace(cost, moved=cost.moved / 2)),
    "two chains, half the chance of a draw": (GAMES[5], half_the_chance),
    "two chains, half the occasions": (GAMES[5], HALF_AS_MANY),
    "two chains, half the chance of a new companion": (GAMES[6], _occasions(1, lambda count, chance: (count, chance / 2))),
    "two chains, one companion too few": (GAMES[6], _occasions(1, lambda count, chance: (count - 1, chance))),
    "two chains, no new companions": (GAMES[6], lambda cost: replace(cost, occasions=cost.occasions[:1])),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistaken_certificate_is_below_a_true_delta(name: str) -> None:
    game, mistake = MISTAKES[name]
    assert closest(game, mistake(settled(game)[1])) > 1.01


def test_the_companion_makes_later_draws_likelier() -> None:
    """The coin of x has an exponent of up to rate * (base + 3c), and 3c is needed: with c in its place the certificate is too low."""
    choice, cost = settled(GAMES[5])
    nearer: Any = -expm1(-choice.rate * (choice.base + 1))
    assert closest(GAMES[5], _occasions(0, lambda count, _: (count, nearer))(cost)) > 1.005
