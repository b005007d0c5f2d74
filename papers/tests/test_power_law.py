"""The exponent of a power law: right on exact laws, and an interval that covers and pairs."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from hedgerow_papers.statistics import exponent

PLACES = (1.0, 2.0, 4.0, 8.0, 16.0)


def test_exact_laws_give_their_exponent() -> None:
    for power in (-1.0, -0.3, 0.0, 2.0):
        assert exponent({x: [3 * x**power] * 4 for x in PLACES}).mean == pytest.approx(
            power, abs=1e-12
        )


def test_what_moves_all_points_of_a_seed_is_no_error() -> None:
    luck = np.random.default_rng(0).lognormal(size=20)
    assert exponent({x: luck * x for x in PLACES}).half_width == pytest.approx(0.0, abs=1e-12)
    shuffled = {x: np.random.default_rng(int(x)).permutation(luck) * x for x in PLACES}
    assert exponent(shuffled).half_width > 0.1


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    values = rng.gamma(4.0, size=(400, len(PLACES), 20)) * np.sqrt(PLACES)[:, None]
    found = [exponent(dict(zip(PLACES, table, strict=True))) for table in values]
    covered = np.mean([abs(estimate.mean - 0.5) <= estimate.half_width for estimate in found])
    assert 0.91 <= covered <= 0.98


def test_no_exponent_where_a_mean_is_not_positive() -> None:
    assert isnan(exponent({1.0: [1.0, 2.0], 2.0: [1.0, -1.0]}).mean)
