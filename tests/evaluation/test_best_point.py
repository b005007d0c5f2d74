"""The best point: its bracket against scipy and exact answers, in easy and in hard cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize

from hedgerow.core.convex import CrossEntropy, Huber, Logistic, SquaredError
from hedgerow.core.domain import Ball, Domain, Simplex
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family, Gains, Linear
from hedgerow.evaluation import best_point as module
from hedgerow.evaluation.best_point import BestPoint, best_point


def _records(family: Family, count: int, width: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if isinstance(family, CrossEntropy):
        return rng.dirichlet(np.full(width, 0.4), size=count)
    if isinstance(family, Linear | Gains):
        return family.clip(rng.uniform(-1, 2, (count, width))).records
    features = rng.normal(size=(count, width))
    target = features @ rng.normal(size=(width, 1)) + 0.5 * rng.standard_t(2, size=(count, 1))
    target = np.where(target < 0, -1.0, 1.0) if isinstance(family, Logistic) else target
    return family.clip(np.concatenate([features, target], axis=1)).records


def _total(family: Family, records: Array, point: Array) -> float:
    rows = records.reshape(-1, records.shape[-1])
    return float(family.value(rows, np.broadcast_to(point, (len(rows), len(point)))).sum())


def _rival(family: Family, records: Array, width: int) -> float:
    """The least total that scipy finds, at a point that is surely in the domain."""
    domain = family.domain
    rules = (
        {"type": "ineq", "fun": lambda x: domain.radius**2 - x @ x}
        if isinstance(domain, Ball)
        else {"type": "eq", "fun": lambda x: x.sum() - 1.0}
    )
    found = minimize(
        lambda x: _total(family, records, x) / len(records),
        domain.centre(width) + (1e-3 if isinstance(domain, Ball) else 0.0),
        jac=lambda x: family.gradient(records, np.broadcast_to(x, (len(records), width))).mean(0),
        bounds=[(0.0, 1.0)] * width if isinstance(domain, Simplex) else None,
        constraints=[rules],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return _total(family, records, domain.project(found.x))


def _brackets(found: BestPoint, rival: float, records: int) -> bool:
    """Whether a point in the domain with this total may exist, and cannot be much better."""
    return found.total - found.gap <= rival and found.total <= rival + 1e-6 * records


FAMILIES: tuple[Family, ...] = (
    SquaredError(radius=0.05),
    SquaredError(radius=5.0),
    Huber(radius=0.3, threshold=0.1),
    Huber(radius=20.0, threshold=0.01),
    Logistic(radius=0.5),
    Logistic(radius=30.0),
    CrossEntropy(floor=0.5),
    CrossEntropy(floor=0.01),
    Linear(),
    Gains(-1.0, 1.0),
)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize(("count", "width"), [(1, 1), (1, 4), (40, 1), (60, 5)])
def test_the_bracket_holds_against_another_solver(family: Family, count: int, width: int) -> None:
    records = _records(family, count, width, seed=count + width)
    found = best_point(family, width, lambda: [records])
    assert family.domain.contains(found.point, 1e-12 * family.domain.diameter)
    assert found.total == pytest.approx(_total(family, records, found.point), rel=1e-9, abs=1e-9)
    assert 0 <= found.gap <= 1e-6 * count
    assert _brackets(found, _rival(family, records, width), count)
    if isinstance(family, SquaredError | Linear | Gains):
        assert found.passes <= 2


def test_the_best_point_is_found_inside_and_on_the_ball() -> None:
    """In the ball the gradient vanishes; on the sphere it points inward."""
    records = _records(SquaredError(), 80, 3, seed=1)
    for radius, inside in ((100.0, True), (0.1, False), (1e-6, False)):
        family = SquaredError(radius=radius)
        found = best_point(family, 3, lambda: [records], tolerance=1e-9 * radius)
        size = float(np.linalg.norm(found.point))
        assert (size < radius * 0.999) == inside
        slope = family.gradient(records, np.broadcast_to(found.point, (80, 3))).sum(axis=0)
        if inside:
            exact = np.linalg.lstsq(records[:, :-1], records[:, -1], rcond=None)[0]
            assert found.point == pytest.approx(exact, rel=1e-9)
            assert np.abs(slope).max() < 1e-9
        else:
            assert slope / np.linalg.norm(slope) == pytest.approx(-found.point / size, rel=1e-6)


# Hard cases


def test_flat_directions() -> None:
    """Fewer records than coordinates: the least total is 0, at many points."""
    family = SquaredError(feature_norm=10.0, radius=50.0, target=10.0)
    records = np.random.default_rng(2).normal(size=(2, 1, 6))
    found = best_point(family, 5, lambda: [records])
    assert found.total == pytest.approx(0.0, abs=1e-8)
    silent = np.zeros((3, 1, 6))
    silent[..., -1] = 2.0
    found = best_point(family, 5, lambda: [silent])
    assert found.point.tolist() == [0.0] * 5
    assert found.total == pytest.approx(6.0)
    assert found.total - found.gap <= 6.0 <= found.total


def test_the_median_of_equal_and_of_spread_records() -> None:
    """A small Huber threshold is nearly the absolute error, whose curvature is mostly zero."""
    family = Huber(radius=1.0, threshold=1e-4)
    equal = np.tile([1.0, 0.25], (50, 1))
    found = best_point(family, 1, lambda: [equal])
    assert found.point == pytest.approx([0.25], abs=1e-4)
    assert found.total - found.gap <= 0.0 <= found.total
    spread = np.stack([np.ones(101), np.linspace(-0.2, 0.9, 101) ** 3], axis=1)
    found = best_point(family, 1, lambda: [spread])
    assert found.point == pytest.approx([np.median(spread[:, 1])], abs=2e-3)
    assert found.gap <= 1e-6 * 101


def test_separable_logistic_data_go_to_the_boundary() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3))
    records = np.concatenate([features, np.sign(features @ [[1.0], [2.0], [-1.0]])], axis=1)
    for radius in (1.0, 100.0, 1e4):
        family = Logistic(feature_norm=6.0, radius=radius)
        found = best_point(family, 3, lambda: [records], tolerance=1e-9)
        assert _brackets(found, _rival(family, records, 3), 200)
        assert found.gap <= (1e-9 if radius < 1e4 else 1e-6) * 200  # scores of 6e4 round coarsely
        assert radius > 100 or np.linalg.norm(found.point) == pytest.approx(radius)


def test_counts_on_the_simplex_have_a_formula() -> None:
    """For a small floor, one category per record: x_k + floor in proportion to the counts."""
    counts, floor = np.array([60, 25, 15, 0]), 0.01
    records = np.repeat(np.eye(4), counts, axis=0)
    found = best_point(CrossEntropy(floor), 4, lambda: [records], tolerance=1e-12)
    exact = np.append(counts[:3] / 100 * (1 + 3 * floor) - floor, 0.0)
    assert found.point == pytest.approx(exact, abs=1e-6)
    assert found.total - found.gap <= _total(CrossEntropy(floor), records, exact) + 1e-9
    sure = best_point(CrossEntropy(floor), 4, lambda: [np.tile(np.eye(4)[2], (9, 1))])
    assert sure.point == pytest.approx(np.eye(4)[2], abs=1e-12)


def test_many_records_in_pieces() -> None:
    """The answer does not depend on the pieces, and only one of them is held at a time."""
    family = Logistic(radius=3.0)
    records = _records(family, 100_000, 4, seed=9)
    read = 0

    def pieces() -> Iterator[Array]:
        nonlocal read
        for start in range(0, 100_000, 7_000):
            part = records[start : start + 7_000]
            read += len(part)
            yield part.reshape(-1, 4 if len(part) % 4 == 0 else 1, 5)

    found, whole = best_point(family, 4, pieces), best_point(family, 4, lambda: [records])
    assert read == found.passes * 100_000
    assert found.passes <= 8
    assert found.total == pytest.approx(whole.total, rel=1e-10)
    assert found.point == pytest.approx(whole.point, rel=1e-6)
    assert found.gap <= 0.1


def test_no_records_and_wrong_arguments() -> None:
    found = best_point(SquaredError(), 3, lambda: [])
    assert (found.total, found.gap, found.point.tolist()) == (0.0, 0.0, [0.0] * 3)
    with pytest.raises(InvalidValue, match=r"tolerance=0\.0 > 0"):
        best_point(SquaredError(), 3, lambda: [], tolerance=0.0)


def test_a_search_that_is_stopped_reports_its_true_gap() -> None:
    family = Huber(radius=20.0, threshold=0.01)
    records = _records(family, 60, 5, seed=4)
    done = best_point(family, 5, lambda: [records], tolerance=1e-12)
    gaps = []
    for passes in (1, 2, 4, 8):
        found = best_point(family, 5, lambda: [records], most_passes=passes)
        assert found.passes <= passes
        assert found.total - found.gap <= done.total
        assert found.total >= done.total - done.gap
        gaps.append(found.gap)
    assert gaps[0] > 1e-3
    assert gaps == sorted(gaps, reverse=True)


@pytest.mark.parametrize("family", FAMILIES[:8], ids=repr)
def test_a_planted_wrong_answer_is_outside(family: Family) -> None:
    """Totals of points that are a little off lie above the bracket, wrong optima below it."""
    records = _records(family, 60, 3, seed=7)
    found = best_point(family, 3, lambda: [records], tolerance=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(20):
        off = family.domain.project(found.point + 0.2 * rng.normal(size=3))
        if np.linalg.norm(off - found.point) > 0.01 * family.domain.diameter:
            assert _total(family, records, off) > found.total
    assert not _brackets(found, found.total * (1 - 1e-5) - 1e-5, 60)
    assert not _brackets(found, found.total - 1e-3, 60)


def test_rounding_is_part_of_the_bracket() -> None:
    """A perfect fit pays nothing; the computed total does not, but its bracket reaches 0."""
    rng = np.random.default_rng(5)
    family = SquaredError(feature_norm=10.0, radius=1e3, target=1e4)
    features = rng.normal(size=(4000, 3))
    truth = np.array([128.0, -256.0, 64.0])
    features = np.round(features * 2**20) / 2**20
    records = np.concatenate([features, features @ truth[:, None]], axis=1)  # exact
    found = best_point(family, 3, lambda: [records])
    assert _total(family, records, truth) == 0.0
    assert found.total - found.gap <= 0.0 <= found.total
    assert 0 < found.total < 1e-6 * 4000
    assert found.gap < 1e-6 * 4000


# A family with a full Hessian on the simplex, and one without a Hessian


@dataclass(frozen=True)
class Mixture(SquaredError):
    """Squared error of a mixture of forecasts."""

    @property
    def domain(self) -> Domain:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Simplex()


@dataclass(frozen=True)
class Slopes(Logistic):
    """A family that declares no Hessian."""

    def curvature(self, records: Array, point: Array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


@pytest.mark.parametrize("width", [1, 2, 6])
@pytest.mark.parametrize("seed", range(3))
def test_a_quadratic_on_the_simplex(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, family = rng.normal(size=(50, width)) ** 3, Mixture()
    mixed = features @ rng.dirichlet(np.full(width, 0.2), size=1).T + 0.1 * rng.normal(size=(50, 1))
    records = family.clip(np.concatenate([features, mixed], axis=1)).records
    found = best_point(family, width, lambda: [records])
    assert found.gap <= 1e-6 * 50
    assert found.passes <= 3
    assert _brackets(found, _rival(family, records, width), 50)


def test_a_family_without_curvature_takes_gradient_steps() -> None:
    family = Slopes(radius=1.0)
    records = _records(family, 50, 3, seed=3)
    found = best_point(family, 3, lambda: [records])
    assert found.gap <= 1e-6 * 50
    assert _brackets(found, best_point(Logistic(), 3, lambda: [records]).total, 50)


def test_a_wrong_gradient_is_caught_by_the_gap() -> None:
    """Were the sum of gradients wrong, the bracket would miss the optimum: the test has power."""
    records = _records(SquaredError(), 40, 2, seed=8)

    @dataclass(frozen=True)
    class Broken(SquaredError):
        def gradient(self, records: Array, points: Array) -> Array:
            return super().gradient(records, points) - 0.05

    found = best_point(Broken(radius=5.0), 2, lambda: [records])
    assert not _brackets(found, _rival(SquaredError(radius=5.0), records, 2), 40)


def test_an_unknown_domain_is_refused() -> None:
    class Box(Simplex):
        pass

    assert module._next(Box(), _place(), np.eye(2)).tolist() == [0.5, 0.5]

    with pytest.raises(NotImplementedError, match="in a Ball or a Simplex, not in object"):
        module._next(object(), _place(), np.eye(2))  # pyright: ignore[reportArgumentType]


def _place() -> module._Place:
    point, zero = np.full(2, 0.5), np.zeros(2)
    return module._Place(point, 1, 0.0, zero, None, 0.0, 0.0, 0.0, 0.0)
