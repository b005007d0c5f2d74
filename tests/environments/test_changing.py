"""The patterns of changing losses are as described."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hedgerow as hr

SIZE = {"clients": 40, "experts": 6, "horizon": 960}


def losses(pattern: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean losses of the experts in every round, in the order of their roles, and all losses."""
    game = hr.Changing(**SIZE, pattern=pattern)
    start = game.start(4)
    drawn = game.block(start, 960, None)[0].losses
    return drawn.mean(axis=1)[:, start.plan], drawn


@pytest.mark.parametrize(
    ("pattern", "rounds", "means"),
    [
        ("late", slice(0, 480), [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
        ("late", slice(480, 960), [0.0, 0.5, 0.5, 0.5, 0.5, 0.5]),
        ("comeback", slice(0, 320), [0.1, 0.35, 0.5, 0.5, 0.5, 0.5]),
        ("comeback", slice(320, 960), [0.7, 0.35, 0.5, 0.5, 0.5, 0.5]),
        ("alternate", slice(0, 960, 2), [0.0, 1.0, 0.6, 0.6, 0.6, 0.6]),
        ("alternate", slice(1, 960, 2), [1.0, 0.0, 0.6, 0.6, 0.6, 0.6]),
        ("camps", slice(0, 15), [0.4, 0.8, 0.2, 0.8, 0.2, 0.8]),
        ("camps", slice(15, 30), [0.4, 0.2, 0.8, 0.2, 0.8, 0.2]),
        ("sawtooth", slice(0, 960), [0.5] * 6),
    ],
)
def test_means_are_those_of_the_pattern(pattern: str, rounds: slice, means: list[float]) -> None:
    found = losses(pattern)[0][rounds].mean(axis=0)
    assert found == pytest.approx(np.array(means), abs=0.08)


def test_one_coin_decides_for_all_clients() -> None:
    by_role, drawn = losses("one_coin")
    assert by_role.mean(axis=0) == pytest.approx(np.array([0.4] + [0.5] * 5), abs=0.06)
    camps = drawn.mean(axis=1) > 0.5
    assert (camps.sum(axis=1) == 3).mean() > 0.9  # half of the experts lose, at all clients alike
