"""Domains: projections and linear minima, by hand and against their defining inequalities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hedgerow.core.domain import Ball, Domain, Simplex
from hedgerow.core.errors import InvalidValue

quick = settings(derandomize=True, deadline=None, database=None, max_examples=80)
numbers = st.floats(-1e6, 1e6)
arrays = hnp.arrays(float, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6), elements=numbers)
domains = st.sampled_from([Simplex(), Ball(1.0), Ball(1e-3), Ball(50.0)])


def test_projections_by_hand() -> None:
    simplex = Simplex()
    assert simplex.project(np.array([0.5, 0.5])).tolist() == [0.5, 0.5]
    assert simplex.project(np.array([2.0, 0.0, 0.0])).tolist() == [1.0, 0.0, 0.0]
    assert simplex.project(np.array([-7.0])).tolist() == [1.0]
    assert simplex.project(np.array([1.0, 1.0, 0.0])).tolist() == [0.5, 0.5, 0.0]
    assert simplex.project(np.array([[0.0, 0.5], [1e300, -1e300]])).tolist() == [
        [0.25, 0.75],
        [1.0, 0.0],
    ]
    assert Ball(2.0).project(np.array([[0.0, 1.0], [0.0, -9.0]])).tolist() == [[0, 1], [0, -2]]
    assert Ball(5.0).project(np.array([3e200, 4e200])) == pytest.approx([3.0, 4.0])


def test_linear_minima_by_hand() -> None:
    point, value = Simplex().linear_minimum(np.array([[3.0, 1.0, 2.0], [0.0, 0.0, -1.0]]))
    assert point.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert value.tolist() == [1.0, -1.0]
    point, value = Ball(2.0).linear_minimum(np.array([[3.0, -4.0], [0.0, 0.0]]))
    assert point == pytest.approx(np.array([[-1.2, 1.6], [0.0, 0.0]]))
    assert value.tolist() == [-10.0, 0.0]


def test_what_a_domain_contains() -> None:
    points = np.array([[0.5, 0.5], [0.5, 0.6], [1.1, -0.1], [np.nan, 0.0]])
    assert Simplex().contains(points).tolist() == [True, False, False, False]
    assert Simplex().contains(points, slack=0.2).tolist() == [True, True, True, False]
    assert Ball(1.0).contains(np.array([[0.6, 0.8], [0.7, 0.8]])).tolist() == [True, False]
    assert Simplex().contains(Simplex().centre(7))
    assert Ball(0.1).centre(3).tolist() == [0.0] * 3


def test_a_ball_needs_a_radius() -> None:
    with pytest.raises(InvalidValue, match=r"radius=0\.0 > 0"):
        Ball(0.0)


@quick
@given(domains, arrays)
def test_a_projection_is_the_nearest_point(domain: Domain, points: np.ndarray) -> None:
    """<point - projection, s - projection> <= 0 for all s, of which the linear minimum is worst."""
    found = domain.project(points)
    assert domain.contains(found, 1e-9).all()
    away = found - points
    _, least = domain.linear_minimum(away)
    scale = 1e-9 * (1 + np.abs(points).max())
    assert ((away * found).sum(axis=-1) - least <= scale).all()
    assert np.abs(domain.project(found) - found).max() <= 1e-12 * domain.diameter


@quick
@given(domains, arrays, st.integers(0, 2**32 - 1))
def test_a_linear_minimum_is_attained_and_never_passed(
    domain: Domain, gradients: np.ndarray, seed: int
) -> None:
    point, value = domain.linear_minimum(gradients)
    assert domain.contains(point, 1e-9).all()
    scale = 1e-12 * (1 + domain.diameter) * (1 + np.abs(gradients).max())
    assert np.abs((gradients * point).sum(axis=-1) - value).max() <= scale
    rival = domain.project(10 * np.random.default_rng(seed).normal(size=gradients.shape))
    assert ((gradients * rival).sum(axis=-1) - value >= -scale).all()
    assert (np.linalg.norm(rival - point, axis=-1) <= domain.diameter * (1 + 1e-9)).all()
