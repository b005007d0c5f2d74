"""Convex families: values by hand, derivatives against differences, constants against the worst
records and points, ranges, and numbers at the edge of floats.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from hedgerow.core.convex import CrossEntropy, Huber, Logistic, Scored, SquaredError
from hedgerow.core.errors import InvalidValue
from hedgerow.core.losses import EPS, FEW, Family

FAMILIES: tuple[Family, ...] = (
    SquaredError(),
    SquaredError(feature_norm=2.0, radius=1.5, target=0.5),
    Huber(),
    Huber(feature_norm=0.5, radius=3.0, target=2.0, threshold=0.1),
    Huber(feature_norm=0.5, radius=1.0, target=0.25, threshold=9.0),  # never linear
    Logistic(),
    Logistic(feature_norm=3.0, radius=2.0),
    CrossEntropy(),
    CrossEntropy(floor=0.7),
    CrossEntropy(floor=1e-3),
)
WIDTHS = (1, 2, 5)
ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}
by_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)


def _directions(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Unit vectors: random ones, axes and diagonals."""
    drawn = rng.normal(size=(count, width))
    signs = rng.choice([-1.0, 1.0], size=(count, width))
    axes = np.eye(width)[rng.integers(width, size=count)] * signs
    all_of_them = np.concatenate([drawn, signs, axes])
    return all_of_them / np.linalg.norm(all_of_them, axis=1, keepdims=True)


def _worlds(
    family: Family, width: int, seed: int = 0, count: int = 400
) -> tuple[np.ndarray, np.ndarray]:
    """Records and points: random ones inside, extreme ones, and pairs that point the same way."""
    rng = np.random.default_rng(seed)
    if isinstance(family, Scored):
        features, points = _directions(rng, count, width), _directions(rng, count, width)
        aligned = features * rng.choice([-1.0, 0.0, 1.0], size=(len(features), 1))
        features, points = np.concatenate([features, features]), np.concatenate([points, aligned])
        inner = rng.choice([1.0, 0.5], size=(2, len(features), 1))
        target = family.largest_target * rng.choice([-1.0, 1.0], size=(len(features), 1))
        if not isinstance(family, Logistic):
            target *= rng.choice([1.0, 0.3, 0.0], size=target.shape)
        records = np.concatenate([family.feature_norm * inner[0] * features, target], axis=1)
        return records, family.radius * inner[1] * points
    drawn = [rng.dirichlet(np.full(width, 0.3), size=2 * count) for _ in range(2)]
    corners = [np.eye(width)[rng.integers(width, size=2 * count)] for _ in range(2)]
    records, points = (np.concatenate(pair) for pair in zip(drawn, corners, strict=True))
    return records, points


# Values


def test_values_by_hand() -> None:
    record, point = np.array([2.0, 0.0, 0.5]), np.array([0.5, 9.0])
    assert SquaredError(2.0, 10.0).value(record, point) == 0.125
    assert Huber(2.0, 10.0, threshold=0.25).value(record, point) == 0.25 * (0.5 - 0.125)
    assert Huber(2.0, 10.0, threshold=0.5).value(record, point) == 0.125
    yes = np.array([2.0, 0.0, 1.0])
    assert Logistic(2.0, 10.0).value(yes, point) == pytest.approx(np.log1p(np.exp(-1.0)))
    forecast = CrossEntropy(0.5).value(np.array([0.25, 0.75]), np.array([1.0, 0.0]))
    assert forecast == pytest.approx(-0.25 * np.log(1.5) - 0.75 * np.log(0.5))
    assert [family.record_width(3) for family in (FAMILIES[0], FAMILIES[-1])] == [4, 3]


@by_family
@pytest.mark.parametrize("width", WIDTHS)
def test_charges_reach_their_bounds_and_never_pass_them(family: Family, width: int) -> None:
    charges = family.value(*_worlds(family, width))
    low, high = family.bounds
    scale = 1e-12 * (high - low)
    assert charges.min() >= low - scale
    assert charges.max() <= high + scale
    if width > 1 or isinstance(family, Scored):
        assert charges.min() <= low + 0.01 * (high - low)
        assert charges.max() >= high - 0.01 * (high - low)


# Derivatives


@by_family
@pytest.mark.parametrize("width", WIDTHS)
def test_gradients_are_slopes_of_values(family: Family, width: int) -> None:
    records, points = _worlds(family, width)
    found, step = family.gradient(records, points), 1e-6
    if isinstance(family, Huber):  # not at the kink of the slope
        residual = np.abs((records[:, :-1] * points).sum(axis=1) - records[:, -1])
        kept = np.abs(residual - family.threshold) > 1e-3
        records, points, found = records[kept], points[kept], found[kept]
    elif isinstance(family, CrossEntropy):
        step *= family.floor
    noise = 16 * EPS * (1 + max(map(abs, family.bounds))) / step  # of a difference of two charges
    for i, axis in enumerate(np.eye(width)):
        rise = family.value(records, points + step * axis) - family.value(
            records, points - step * axis
        )
        assert np.allclose(rise / (2 * step), found[:, i], rtol=1e-6, atol=noise)


@by_family
@pytest.mark.parametrize("width", WIDTHS)
def test_curvature_is_the_slope_of_the_summed_gradient(family: Family, width: int) -> None:
    records, points = _worlds(family, width, count=40)
    point, step = family.domain.project(points.mean(axis=0) + 0.01), 1e-6
    if isinstance(family, Huber):
        residual = np.abs(records[:, :-1] @ point - records[:, -1])
        records = records[np.abs(residual - family.threshold) > 1e-3]
    found = family.curvature(records, point)
    assert found is not None
    assert found.shape == (width, width)
    assert np.array_equal(found, found.T) or np.allclose(found, found.T, rtol=1e-12)
    for i, axis in enumerate(np.eye(width)):
        change = family.gradient(records, point + step * axis) - family.gradient(
            records, point - step * axis
        )
        slope = change.sum(axis=0) / (2 * step)
        assert slope == pytest.approx(found[:, i], rel=1e-5, abs=1e-6 * (1 + np.abs(found).max()))
    shaped = records.reshape(-1, 2, records.shape[1]) if len(records) % 2 == 0 else records[None]
    assert family.curvature(shaped, point) == pytest.approx(found, rel=1e-12)


# Constants


@by_family
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_gradients_come_close_to_their_bound_and_never_pass_it(
    family: Family, width: int, norm: Any
) -> None:
    records, points = _worlds(family, width)
    family.check("record", records)
    assert family.domain.contains(points, 1e-12 * family.domain.diameter).all()
    sizes = np.linalg.norm(family.gradient(records, points), ord=ORDERS[norm], axis=1)
    bound = family.gradient_bound(norm, width)
    assert 0.99 * bound <= sizes.max() <= bound * (1 + 1e-12)


def _moves(family: Family, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records and two points of the domain: far apart, and close in the directions that matter."""
    rng = np.random.default_rng(1)
    records, points = _worlds(family, width, seed=2)
    others = rng.permutation(points)
    far = (records, points, others)
    if isinstance(family, Scored):
        # from the score 0, where every charge is bent most, along the features
        still = records.copy()
        if not isinstance(family, Logistic):
            still[:, -1] = 0.0
        ahead = still[:, :-1] / np.linalg.norm(still[:, :-1], axis=1, keepdims=True)
        close = (still, np.zeros_like(points), 1e-4 * min(1.0, family.radius) * ahead)
    else:
        assert isinstance(family, CrossEntropy)
        # from 0 in one coordinate, taken evenly from all others
        start = (1 - np.eye(width)) / max(width - 1, 1)
        step = 1e-4 * family.floor * (np.eye(width) - start)
        close = (np.eye(width), start, start + step) if width > 1 else far
    return tuple(np.concatenate(pair) for pair in zip(far, close, strict=True))  # pyright: ignore[reportReturnType]


@by_family
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_gradients_change_as_fast_as_declared_and_no_faster(
    family: Family, width: int, norm: Any
) -> None:
    records, start, end = _moves(family, width)
    change = family.gradient(records, end) - family.gradient(records, start)
    sizes = np.linalg.norm(change, ord=np.inf if norm == "l1" else 2, axis=1)
    moved = np.linalg.norm(end - start, ord=ORDERS[norm], axis=1)
    rates = sizes[moved > 1e-8] / moved[moved > 1e-8]  # rounding does not show
    bound = family.smoothness(norm, width)
    if isinstance(family, CrossEntropy) and width == 1:
        assert bound == 0.0
        return
    assert 0.99 * bound <= rates.max() <= bound * (1 + 1e-7)


@by_family
def test_rounding_errors_stay_within_their_bounds(family: Family) -> None:
    """Against 40 digits, for random and extreme records and points."""
    records, points = _worlds(family, 3, seed=5, count=12)
    values, gradients = family.value(records, points), family.gradient(records, points)
    used_value, used_gradient = [], []
    with mpmath.workdps(40):
        for record, point, value, gradient in zip(records, points, values, gradients, strict=True):
            charge, slope = _precise(family, list(map(mpmath.mpf, record)), point)
            error = [float(s - mpmath.mpf(g)) for s, g in zip(slope, gradient, strict=True)]
            allowed = family.rounding(3, float(np.linalg.norm(point)))
            few = FEW * EPS
            used_value.append(
                float(charge - mpmath.mpf(value)) / (allowed.value + few * abs(value))
            )
            used_gradient.append(
                np.linalg.norm(error) / (allowed.gradient + few * np.linalg.norm(gradient) + 1e-300)
            )
    for used in (used_value, used_gradient):
        assert 1e-3 < np.abs(used).max() <= 1.0


def _precise(family: Family, record: list[Any], point: np.ndarray) -> tuple[Any, list[Any]]:
    x = list(map(mpmath.mpf, point))
    if isinstance(family, CrossEntropy):
        base = [a + mpmath.mpf(family.floor) for a in x]
        charge = -mpmath.fsum(p * mpmath.log(b) for p, b in zip(record, base, strict=True))
        return charge, [-p / b for p, b in zip(record, base, strict=True)]
    *features, target = record
    score = mpmath.fsum(f * a for f, a in zip(features, x, strict=True))
    if isinstance(family, Logistic):
        charge = mpmath.log(1 + mpmath.exp(-target * score))
        slope = -target / (1 + mpmath.exp(target * score))
    else:
        limit = mpmath.mpf(family.threshold) if isinstance(family, Huber) else mpmath.inf
        residual = score - target
        near = min(abs(residual), limit)
        charge = residual**2 / 2 if near < limit else limit * (abs(residual) - limit / 2)
        slope = mpmath.sign(residual) * near
    return charge, [slope * f for f in features]


# Ranges


def test_records_out_of_range_are_named_with_what_to_do() -> None:
    good = np.zeros((2, 3, 3))
    good[..., 2] = 1.0
    for family in (SquaredError(), Huber(), Logistic()):
        family.check("record", good)
        long, lost = good.copy(), good.copy()
        long[1, 2, :2] = 0.8
        lost[1, 0, 0] = np.nan
        with pytest.raises(InvalidValue, match=r"norm of at most feature_norm=1\.0 \(round 6, cl"):
            family.check("record", long, 5)
        with pytest.raises(InvalidValue, match=r"finite numbers in every report \(round 1, client"):
            family.check_reports(lost)
        family.check("record", long, 5, ~(long[..., 0] > 0))
    far = good.copy()
    far[0, 1, 2] = -1.5
    with pytest.raises(InvalidValue, match=r"target of every record in \[-1\.0, 1\.0\].*clip"):
        SquaredError().check("record", far)
    with pytest.raises(InvalidValue, match=r"label of every record to be -1 or 1"):
        Logistic().check("record", far)
    shares = np.array([[[0.5, 0.5], [0.5, 0.5 + 1e-9]]])
    with pytest.raises(InvalidValue, match=r"add up to 1 \(round 3, client 1\).*clip"):
        CrossEntropy().check("record", shares, 3)
    CrossEntropy().check("record", shares, 3, np.array([[True, False]]))
    with pytest.raises(InvalidValue, match=r"client 0"):
        CrossEntropy().check("record", np.array([[[np.nan, 1.0]]]))


def test_rounding_of_a_norm_or_a_sum_is_no_fault() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(5000, 7))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    SquaredError().check("record", np.concatenate([features, np.ones((5000, 1))], axis=1))
    CrossEntropy().check("record", rng.dirichlet(np.ones(50), size=500))


@by_family
def test_clipped_records_are_in_range_and_counted(family: Family) -> None:
    rng = np.random.default_rng(3)
    inside, _ = _worlds(family, 3)
    same = family.clip(inside)
    assert same.moved == 0
    assert np.array_equal(same.records, inside)
    wild = inside.copy()
    wild[::5, 0] += 1e3 * rng.random(len(wild[::5])) + 10.0
    clipped = family.clip(wild)
    moved, count = clipped.records, clipped.moved
    assert count == len(wild[::5])
    family.check("record", moved)
    assert np.array_equal(moved[1::5], inside[1::5])
    assert family.clip(moved).moved == 0
    assert family.clip(wild.reshape(-1, 2, wild.shape[1])).moved == count
    with pytest.raises(InvalidValue, match="finite"):
        family.clip(np.full((1, 4), np.inf))


def test_a_clipped_record_is_the_nearest_one() -> None:
    clipped = SquaredError(target=2.0).clip(np.array([[3.0, 4.0, -5.0], [0.0, 1.0, 2.0]]))
    assert clipped.records == pytest.approx(np.array([[0.6, 0.8, -2.0], [0.0, 1.0, 2.0]]))
    assert clipped.moved == 1
    assert CrossEntropy().clip(np.array([[1.0, 1.0, 0.0]])).records.tolist() == [[0.5, 0.5, 0.0]]
    with pytest.raises(InvalidValue, match=r"label of every record"):
        Logistic().clip(np.array([[1.0, 0.0]]))


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (SquaredError, "feature_norm"),
        (SquaredError, "radius"),
        (SquaredError, "target"),
        (Huber, "target"),
        (Huber, "threshold"),
        (Logistic, "radius"),
        (CrossEntropy, "floor"),
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_wrong_parameters_are_named(kind: Any, field: str, value: float) -> None:
    with pytest.raises(InvalidValue, match=f"Expected {field}=.* > 0 and finite"):
        kind(**{field: value})


# Extreme numbers


def test_extreme_scores_neither_overflow_nor_vanish() -> None:
    family, point = Logistic(1.0, 1e6), np.array([1e6])
    right, wrong = np.array([1.0, 1.0]), np.array([1.0, -1.0])
    assert family.value(wrong, point) == 1e6
    assert family.value(right, point) == 0.0
    assert family.gradient(wrong, point) == [1.0]
    assert family.gradient(right, point) == [0.0]
    assert family.curvature(right[None], point).tolist() == [[0.0]]
    assert family.value(right, np.array([700.0])) == pytest.approx(np.exp(-700.0), rel=1e-9)
    assert family.bounds == (0.0, 1e6)
    huge = Huber(1e150, 1e150, threshold=1.0)
    assert huge.value(np.array([1e150, 0.0]), np.array([1e150])) == pytest.approx(1e300)
    assert huge.gradient(np.array([1e150, 0.0]), np.array([1e150])) == [1e150]
    small = CrossEntropy(1e-4)
    assert small.value(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == pytest.approx(9.2103404)
    with pytest.raises(InvalidValue, match=r"floor=1e-05 >= 0\.0001"):
        CrossEntropy(1e-5)
