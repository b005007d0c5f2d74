"""Exact K-norm noise: radii and vectors follow their law, and no other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import exp

import numpy as np
import pytest
from scipy import stats

import hedgerow as hr
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.core.noise import SeededNoise
from hedgerow.privacy import KNorm
from hedgerow.privacy.secure.cube import (
    Cube,
    CubeRadius,
    RadiusLaw,
    radius_by_digits,
    uniform_in_cubes,
)
from hedgerow.privacy.secure.words import SecureWords

WORDS = SecureWords()
FALSE_ALARM = 1e-7


def by_table(shape: CubeRadius, count: int) -> np.ndarray:
    return RadiusLaw(shape).sample(count, WORDS) + shape.mode


def by_digits(shape: CubeRadius, count: int) -> np.ndarray:
    return np.array([radius_by_digits(shape, WORDS) for _ in range(count)])


def chi_square(seen: np.ndarray, chances: np.ndarray) -> float:
    """The chance of counts this far from their expectation; rare cells are pooled."""
    expected = chances * seen.sum()
    few = expected < 10
    observed, wanted = (
        np.append(part[~few], [part[few].sum()] if few.any() else []) for part in (seen, expected)
    )
    return float(stats.chisquare(observed, wanted / wanted.sum() * observed.sum()).pvalue)


def radius_chances(dimensions: int, scale: float, most: int) -> np.ndarray:
    radii = np.arange(most + 1)
    logs = dimensions * np.log(2 * radii + 1) - radii / scale
    chances = np.exp(logs - logs.max())
    return chances / chances.sum()


@pytest.mark.parametrize(("draw", "count"), [(by_table, 100_000), (by_digits, 600)])
@pytest.mark.parametrize(("dimensions", "scale"), [(1, 0.5), (2, 3.0), (7, 0.3), (100, 0.3)])
def test_radius_has_its_exact_law(
    draw: Callable[[CubeRadius, int], np.ndarray], count: int, dimensions: int, scale: float
) -> None:
    radii = draw(CubeRadius(dimensions, scale), count)
    most = int((dimensions + 60) * scale * 2) + 60
    seen = np.bincount(radii, minlength=most + 1)
    assert chi_square(seen, radius_chances(dimensions, scale, most)) > FALSE_ALARM
    assert chi_square(seen, radius_chances(dimensions + 1, 1.5 * scale, most)) < 1e-9


@pytest.mark.parametrize("dimensions", [1, 10, 10_000])
def test_radius_on_a_fine_lattice_is_a_gamma_variable(dimensions: int) -> None:
    scale = 2.0**20
    radii = by_table(CubeRadius(dimensions, scale), 20_000) / scale
    assert stats.kstest(radii, stats.gamma(dimensions + 1).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(1.1 * radii, stats.gamma(dimensions + 1).cdf).pvalue < 1e-9


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_vectors_against_all_points_of_the_lattice(dimensions: int) -> None:
    scale, most, count = 0.8, 6, 40_000
    cube = Cube(dimensions, scale, 1.0)
    drawn = np.concatenate([cube.take(rows, WORDS) for rows in (1, 3, count)]).astype(int)
    inside = drawn[np.abs(drawn).max(axis=1) <= most]
    points = list(product(range(-most, most + 1), repeat=dimensions))
    places = {point: at for at, point in enumerate(points)}
    seen = np.bincount([places[tuple(row)] for row in inside.tolist()], minlength=len(points))
    for factor, right in ((1.0, True), (1.3, False)):
        chances = np.exp([-max(map(abs, point)) / (factor * scale) for point in points])
        found = chi_square(seen, chances / chances.sum())
        assert (found > FALSE_ALARM) if right else (found < 1e-9)


@pytest.mark.parametrize("radius", [0, 1, 2**20, 2**51])
def test_coordinates_are_uniform(radius: int) -> None:
    rows = np.empty((50, 100))
    uniform_in_cubes(rows, np.full(50, radius), WORDS)
    assert np.abs(rows).max() <= radius
    assert not (rows % 1).any()
    if radius > 1:
        assert stats.kstest(rows.ravel() / radius, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM


def test_the_loss_is_at_most_epsilon_and_reaches_it() -> None:
    """Exactly, on the plane: two values that are two steps apart."""
    scale, near, far = 3.0, (0, 0), (2, 1)
    ratios = [
        (max(abs(x - far[0]), abs(y - far[1])) - max(abs(x - near[0]), abs(y - near[1]))) / scale
        for x, y in product(range(-40, 40), repeat=2)
    ]
    assert max(ratios) == pytest.approx(KNorm("report", scale, 2.0).curve.bound)


@pytest.mark.parametrize("dimensions", [1, 5, 200])
def test_floats_are_as_precise_as_claimed(dimensions: int) -> None:
    for scale in (0.5, 40.0, 2.0**34):
        shape = CubeRadius(dimensions, scale)
        law = RadiusLaw(shape)
        for at in np.unique(np.linspace(law.tails[1], law.tails[0], 40).astype(int)):
            found = float(shape.weight(np.array([float(at)]))[0])
            assert found == pytest.approx(float(shape.exact(int(at))), rel=2.0**-37, abs=0)


def test_the_law_falls_as_fast_as_the_tails_say() -> None:
    shape = CubeRadius(5, 20.0)
    for at in (30, 200, -30, -80):
        rate, away = shape.decay(at), 1 if at > 0 else -1
        for step in range(60):
            assert shape.exact(at + away * step) <= shape.exact(at) * exp(-rate * step) * (1 + 1e-9)
        assert shape.exact(at + away) == pytest.approx(float(shape.exact(at)) * exp(-rate))


def test_no_vector_is_returned_twice() -> None:
    cube = Cube(3, 2.0**30, 1.0)
    drawn = np.concatenate(
        [cube.take(rows, WORDS) for rows in [1] * 40 + [7, 100, 6000, 2, 1] + [100] * 30]
    )
    assert len(np.unique(drawn, axis=0)) == len(drawn)


def test_seeded_k_norm_noise_is_what_it_was() -> None:
    """One gamma length from exponentials, and uniform coordinates."""
    noise, same = (SeededNoise(4).everyone("client", 3) for _ in range(2))
    released = noise.release(KNorm("report", 2.0), np.ones((3, 5)))
    length = same.draw("exponential", "report", (6,)).sum(axis=-1)
    direction = 2 * same.draw("uniform", "report", (5,)) - 1
    assert (released == 1 + 2.0 * length[:, None] * direction).all()


def test_secure_k_norm_reports_are_deployed() -> None:
    learner = hr.Learner.private(
        hr.PhasedSelection(trust="local", report="k_norm"),
        clients=2,
        experts=3,
        horizon=8,
        source=hr.SecureNoise(),
    )
    for _ in range(8):
        learner.predict()
        learner.observe(np.zeros((2, 3)))
    assert {"ENTROPY", "ARITHMETIC"} <= {a.name for a in learner.certificate.server.assumes}
    noise = hr.SecureNoise().server()
    released = noise.release(KNorm("report", 1.0), np.full(4, 0.5))
    assert not (released * UNITS_PER_LOSS % 1).any()
    with pytest.raises(InvalidValue, match="on the lattice"):
        noise.release(KNorm("report", 1.0), np.full(4, 0.1))
    for scale, reason in ((1e-9, "too coarse"), (2.0**40, "must stay exact")):
        with pytest.raises(InvalidValue, match=reason):
            noise.release(KNorm("report", scale), np.zeros(4))


def test_the_scale_of_released_noise_is_right() -> None:
    noise = hr.SecureNoise().server()
    lengths = [np.abs(noise.release(KNorm("report", 0.5), np.zeros(6))).max() for _ in range(4000)]
    assert stats.kstest(lengths, stats.gamma(6, scale=0.5).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(lengths, stats.gamma(6, scale=0.25).cdf).pvalue < 1e-9
