"""The recursion for bounded-range steps against closed forms, brute force and exact adaptive trees;
its cache; the search.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import exp, expm1, log, nextafter, sqrt
from pathlib import Path

import numpy as np
import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import fits, largest_range
from hedgerow.privacy.composition import bounded_range, recursion, table_cache
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange, BoundedRangeSequence
from hedgerow.privacy.composition.fixed_plan import fixed_plan
from hedgerow.privacy.composition.steps import AfterPureStep
from hedgerow.privacy.curves import BoundedRange, GaussianDP

EPSILONS = (-1.2, -0.3, 0.0, 0.05, 0.2, 0.5, 0.9, 1.3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HEDGEROW_CACHE", str(tmp_path))
    bounded_range._table.cache_clear()
    yield tmp_path
    bounded_range._table.cache_clear()


def weight(t: np.ndarray | float, r: float) -> np.ndarray | float:
    return np.expm1(np.asarray(t) - r) / expm1(-r)


def brute(ranges: tuple[float, ...], u: np.ndarray, points: int) -> np.ndarray:
    """The supremum over so many values of t in every step, in the order of the ranges: never above
    the truth.
    """
    if not ranges:
        return np.maximum(0.0, 1 - u)
    r, rest = ranges[0], ranges[1:]
    t = np.linspace(0, r, points)
    q, at = weight(t, r), u[..., None]
    return np.max(
        q * brute(rest, at * np.exp(-t), points)
        + (1 - q) * brute(rest, at * np.exp(r - t), points),
        axis=-1,
    )


def fine(curve: AdaptiveBoundedRange, cells: int, delta: float) -> float:
    """epsilon on another grid, by an independent look-up (rounded to the next grid point)."""
    grid = recursion.grid_for(curve._runs(), cells)
    return float(np.nonzero(recursion.compute(grid) <= delta)[0][0] * grid.width)


@pytest.mark.parametrize("r", [1e-4, 0.05, 0.5, 2.0, 8.0, 40.0])
def test_one_step_is_the_closed_form(r: float) -> None:
    curve, exact = AdaptiveBoundedRange(r, 1), BoundedRange(r)
    for epsilon in np.linspace(-1.5 * r, 1.1 * r, 57):
        assert (
            exact.delta(epsilon) * (1 - 1e-12)
            <= curve.delta(epsilon)
            <= exact.delta(epsilon) * 1.01 + 1e-4 * expm1(-r) ** 2
        )
    for delta in (1e-3 * exact.delta(0), 0.1 * exact.delta(0)):
        assert (
            exact.epsilon(delta) * (1 - 1e-12)
            <= curve.epsilon(delta)
            <= exact.epsilon(delta) * 1.002
        )


@pytest.mark.parametrize(
    "ranges",
    [(0.5, 0.5), (0.2, 0.9), (0.9, 0.2), (1.5, 1.5, 1.5), (0.3, 0.3, 0.3), (0.2, 0.7, 0.4)],
)
def test_two_and_three_steps_against_brute_force(ranges: tuple[float, ...]) -> None:
    points = {2: 401, 3: 61}[len(ranges)]
    epsilons = np.linspace(-0.5, 0.95, 11) * sum(ranges)
    lower = brute(ranges, np.exp(epsilons), points)
    curve = BoundedRangeSequence(ranges)
    upper = np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
    assert (upper >= lower).all()
    assert (upper <= 1.015 * lower + 1e-4 * sum(ranges)).all()


def test_the_order_of_ranges_is_the_order_of_the_steps() -> None:
    """The two orders differ in truth; each table has to match its own."""
    u = np.exp([0.25, 0.6])
    for ranges in ((0.1, 0.9), (0.9, 0.1)):
        upper = np.array([BoundedRangeSequence(ranges).delta(float(np.log(each))) for each in u])
        lower = brute(ranges, u, 601)
        assert (upper >= lower).all()
        assert (upper <= 1.03 * lower).all()


def deltas(losses: np.ndarray, first: np.ndarray, epsilon: float) -> tuple[float, float]:
    second = first * np.exp(-losses)
    assert abs(second.sum() - 1) < 1e-12
    forward = np.maximum(0, first - exp(epsilon) * second).sum()
    return float(forward), float(np.maximum(0, second - exp(epsilon) * first).sum())


def random_tree(
    generator: np.random.Generator, r: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Losses and probabilities of all leaves; every node has its own three-point step of range r."""
    losses, first = np.zeros(1), np.ones(1)
    for _ in range(steps):
        t = generator.beta(2, 2, len(losses)) * r
        middle, share = t - generator.random(len(losses)) * r, generator.random(len(losses)) ** 3
        share *= 0.5
        high, low = np.exp(-t), np.exp(r - t)
        rest = (1 - share * np.exp(-middle)) / (1 - share)
        q = np.clip((low - rest) / (low - high), 0, 1)
        valid = np.abs(q * high + (1 - q) * low - rest) < 1e-13
        share = np.where(valid, share, 0.0)
        q = np.where(valid, q, weight(t, r))
        losses = np.concatenate([losses + t, losses + middle, losses + t - r])
        first = np.concatenate(
            [first * (1 - share) * q, first * share, first * (1 - share) * (1 - q)]
        )
    return losses, first


@pytest.mark.parametrize(("r", "steps"), [(0.5, 3), (1.5, 4), (0.2, 5)])
def test_random_adaptive_trees_stay_below(r: float, steps: int) -> None:
    generator = np.random.default_rng(7)
    curve = AdaptiveBoundedRange(r, steps)
    grid = np.array(EPSILONS) * r * sqrt(steps)
    bounds = [curve.delta(float(epsilon)) for epsilon in grid]
    closest = 0.0
    for _ in range(150):
        losses, first = random_tree(generator, r, steps)
        for epsilon, bound in zip(grid, bounds, strict=True):
            exact = max(deltas(losses, first, float(epsilon)))
            assert exact <= bound * (1 + 1e-12)
            closest = max(closest, exact / bound)
    assert closest > 0.8


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_the_optimal_two_point_tree_is_close(epsilon: float) -> None:
    """The tree that the proof builds, enumerated leaf by leaf: the bound cannot be improved."""
    r, steps, choices = 0.8, 4, np.linspace(0, 0.8, 161)
    q = np.asarray(weight(choices, r))

    def value(u: np.ndarray, left: int) -> np.ndarray:
        if left == 1:
            return np.array([BoundedRange(r).delta(log(each)) for each in u.ravel()]).reshape(
                u.shape
            )
        curve = AdaptiveBoundedRange(r, left)
        return np.array([curve.delta(log(each)) for each in u.ravel()]).reshape(u.shape)

    losses, first = np.zeros(1), np.ones(1)
    for left in range(steps - 1, -1, -1):
        u = np.exp(epsilon - losses)[:, None]
        ends = [u * np.exp(-choices), u * np.exp(r - choices)]
        high, low = [value(end, left) if left else np.maximum(0, 1 - end) for end in ends]
        best = np.argmax(q * high + (1 - q) * low, axis=1)
        losses = np.concatenate([losses + choices[best], losses + choices[best] - r])
        first = np.concatenate([first * q[best], first * (1 - q[best])])
    exact, bound = deltas(losses, first, epsilon)[0], AdaptiveBoundedRange(r, steps).delta(epsilon)
    assert exact <= bound <= 1.01 * exact


@pytest.mark.parametrize(("r", "steps"), [(0.5, 3), (0.1, 10), (2.0, 20), (0.0342, 93), (1.0, 250)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_within_one_percent_of_a_fine_grid(r: float, steps: int, delta: float) -> None:
    curve = AdaptiveBoundedRange(r, steps)
    cells = {3: 512, 10: 256, 20: 128, 93: 40, 250: 40}[steps]
    assert (
        fine(curve, cells, delta) * 0.99 <= curve.epsilon(delta) <= fine(curve, cells, delta) * 1.01
    )


def test_reference_values_and_the_older_grids() -> None:
    """Between the truth (at least the normal limit here) and the first-order grids of the design
    notes.
    """
    for r, steps, above, below in [
        (0.1, 10, 0.62, 0.6500),
        (0.1, 100, 2.2, 2.3042),
        (0.0316, 1000, 2.25, 2.3058),
    ]:
        assert above < AdaptiveBoundedRange(r, steps).epsilon(1e-6) < below
    assert AdaptiveBoundedRange(0.0279, 93).epsilon(1e-6) < 0.5574


def test_never_below_the_non_adaptive_optimum_and_never_above_the_dominating_pair() -> None:
    for r, steps, floor in [(0.1, 10, 0.6284), (0.1, 100, 2.2418)]:
        epsilon = AdaptiveBoundedRange(r, steps).epsilon(1e-6)
        assert floor < epsilon < fixed_plan([(BoundedRange(r), steps)]).epsilon(1e-6)


def test_grows_with_steps_and_range_and_falls_with_epsilon() -> None:
    grid = np.linspace(-1, 2.5, 29)
    rows = [
        [AdaptiveBoundedRange(r, k).delta(float(e)) for e in grid]
        for r, k in [(0.2, 2), (0.2, 3), (0.2, 8), (0.25, 8), (0.3, 8)]
    ]
    assert (np.diff(rows, axis=0) >= -1e-15).all()
    assert (np.diff(rows, axis=1) <= 1e-15).all()


def test_edges_that_a_rounding_look_up_gets_wrong() -> None:
    curve = AdaptiveBoundedRange(0.5, 3)
    assert 1.4 < curve.epsilon(1e-9) <= 1.5  # not the end of a table that is too short
    long = AdaptiveBoundedRange(0.1, 100)
    assert long.epsilon(0.0) == nextafter(10.0, 11.0)  # the float 0.1 is above 1/10
    assert long.epsilon(1e-60) == long.epsilon(
        0.0
    )  # below the reach: the pure bound, nothing smaller
    assert long.delta(9.999) > 0.0
    assert long.delta(long.epsilon(0.0)) == 0.0
    assert curve.delta(-5.0) == pytest.approx(-expm1(-5.0), rel=1e-12)
    assert curve.delta(-5.0) >= -expm1(-5.0)
    assert curve.delta(-1e9) == 1.0
    grid = recursion.grid_for(curve._runs())
    node = 40 * grid.width  # just above and just below a grid point: no inward tolerance
    assert (
        curve.delta(nextafter(node, 0.0)) >= curve.delta(node) >= curve.delta(nextafter(node, 2.0))
    )
    assert curve.delta(node) >= bounded_range._table(grid)[40]
    assert grid.width * grid.runs[0][0] > 0.5
    for delta in (1e-12, 1e-6, 1e-3, 0.1, 0.3):
        assert curve.delta(curve.epsilon(delta)) <= delta
    assert curve.epsilon(1.0) == 0.0


def test_nothing_happens_without_steps_or_range() -> None:
    for curve in (
        AdaptiveBoundedRange(0.0, 5),
        AdaptiveBoundedRange(0.5, 0),
        BoundedRangeSequence(()),
        BoundedRangeSequence((0.0,)),
    ):
        assert (curve.delta(0.0), curve.epsilon(0.0)) == (0.0, 0.0)
        assert curve.delta(-1.0) == pytest.approx(-expm1(-1.0))


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), 51.0])
def test_bad_ranges_are_refused(value: float) -> None:
    with pytest.raises(InvalidValue, match="Expected range="):
        AdaptiveBoundedRange(value, 3)
    with pytest.raises(InvalidValue, match="Expected range="):
        BoundedRangeSequence((0.1, value))


def test_bad_questions_are_refused() -> None:
    for steps in (-1, 2.5):
        with pytest.raises(InvalidValue, match="Expected steps="):
            AdaptiveBoundedRange(0.1, steps)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="Expected delta="):
        AdaptiveBoundedRange(0.1, 2).epsilon(1.5)
    with pytest.raises(InvalidValue, match="Expected epsilon=nan"):
        AdaptiveBoundedRange(0.1, 2).delta(float("nan"))
    with pytest.raises(InvalidValue, match="Expected delta="):
        largest_range(3, Budget(1.0, 1.0))


def test_equal_ranges_in_a_sequence_are_the_plain_curve() -> None:
    assert BoundedRangeSequence((0.2,) * 6).epsilon(1e-6) == AdaptiveBoundedRange(0.2, 6).epsilon(
        1e-6
    )
    mixed = BoundedRangeSequence((0.05,) * 30 + (0.11,) * 30)
    assert mixed.epsilon(0.0) == pytest.approx(4.8, rel=1e-12)
    low, high = (
        AdaptiveBoundedRange(0.05, 60).epsilon(1e-6),
        AdaptiveBoundedRange(0.11, 60).epsilon(1e-6),
    )
    assert low < mixed.epsilon(1e-6) < high
    limit = GaussianDP(sqrt(30 * 0.05**2 + 30 * 0.11**2) / 2).epsilon(1e-6)
    assert mixed.epsilon(1e-6) == pytest.approx(limit, rel=0.04)


# the cache


def counting(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    calls: list[object] = []
    compute = recursion.compute

    def counted(grid: recursion.Grid) -> np.ndarray:
        calls.append(grid)
        return compute(grid)

    monkeypatch.setattr(bounded_range, "compute", counted)
    return calls


def test_lazy_and_the_second_process_reads_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counting(monkeypatch)
    curve = AdaptiveBoundedRange(0.11, 20)
    assert (calls, list(folder.iterdir())) == ([], [])
    first = curve.epsilon(1e-6)
    bounded_range._table.cache_clear()  # what a new process starts with
    assert curve.epsilon(1e-6) == first
    assert len(calls) == len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "flipped", "lowered", "foreign", "other code", "folder"]
)
def test_a_damaged_or_foreign_file_is_rebuilt(
    folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    curve = AdaptiveBoundedRange(0.11, 20)
    truth = curve.epsilon(1e-6)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    match damage:
        case "empty":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(whole[:-8])
        case "flipped":
            file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        case "lowered":
            file.write_bytes(
                whole.partition(b"\n")[0] + b"\n" + bytes(len(whole.partition(b"\n")[2]))
            )
        case "foreign":
            file.write_bytes(b'{"answer": 42}\n[]')
        case "other code":
            monkeypatch.setattr(recursion, "digest", lambda: "another version")
        case _:
            file.unlink()
            file.mkdir()
    bounded_range._table.cache_clear()
    calls = counting(monkeypatch)
    assert curve.epsilon(1e-6) == truth
    assert len(calls) == 1
    if damage not in ("folder", "other code"):
        assert file.read_bytes() == whole
    assert not list(folder.glob("*.part"))


def test_the_key_of_a_table_is_that_of_the_code_that_computes_it() -> None:
    source = Path(recursion.__file__ or "").read_bytes()
    assert hashlib.sha256(source).hexdigest() in recursion.grid_for(((0.11, 20),)).key()


def test_a_sound_file_with_unsound_values_is_rebuilt(folder: Path) -> None:
    curve = AdaptiveBoundedRange(0.11, 20)
    truth, grid = curve.epsilon(1e-6), recursion.grid_for(((0.11, 20),))
    for values in (
        np.linspace(0, 1, grid.reach + 1),
        np.zeros(grid.reach),
        np.full(grid.reach + 1, 2.0),
    ):
        table_cache.store(grid.key(), values)
        bounded_range._table.cache_clear()
        assert curve.epsilon(1e-6) == truth
    assert len(list(folder.iterdir())) == 1


def test_a_table_of_another_composition_under_this_name_is_not_believed(folder: Path) -> None:
    short, long = AdaptiveBoundedRange(0.11, 20), AdaptiveBoundedRange(0.11, 40)
    truth = long.epsilon(1e-6)
    files = [
        table_cache.cache_file(recursion.grid_for(curve._runs()).key()) for curve in (short, long)
    ]
    short.epsilon(1e-6)
    files[1].write_bytes(files[0].read_bytes())
    bounded_range._table.cache_clear()
    assert long.epsilon(1e-6) == truth
    assert len(list(folder.iterdir())) == 2


def test_concurrent_writers_leave_one_whole_file(folder: Path) -> None:
    grid = recursion.grid_for(((0.11, 20),))
    values = recursion.compute(grid)

    def write_and_read(_: int) -> bool:
        table_cache.store(grid.key(), values)
        found = table_cache.load(grid.key())
        return found is not None and np.array_equal(found, values)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write_and_read, range(64)))
    assert len(list(folder.iterdir())) == 1


def test_a_folder_that_cannot_be_written_costs_only_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("in the way")
    monkeypatch.setenv("HEDGEROW_CACHE", str(folder / "file"))
    assert AdaptiveBoundedRange(0.1, 10).epsilon(1e-6) == pytest.approx(0.634, rel=1e-2)


def test_the_users_folder_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEDGEROW_CACHE")
    assert table_cache.cache_folder().name == "hedgerow"


# the search


@pytest.mark.parametrize(
    ("steps", "epsilon", "delta"),
    [
        (93, 0.7, 1e-6),
        (1, 1.0, 1e-3),
        (2, 1.0, 1e-6),
        (10, 1.0, 1e-6),
        (5, 1e-3, 1e-3),
        (3, 5.0, 0.5),
        (400, 2.0, 1e-5),
    ],
)
def test_largest_range_is_certified_and_close_to_the_best(
    steps: int, epsilon: float, delta: float
) -> None:
    budget = Budget(epsilon, delta)
    found = largest_range(steps, budget)
    assert fits(AdaptiveBoundedRange(found, steps), budget)
    assert not fits(AdaptiveBoundedRange(found * 1.015, steps), budget)


@pytest.mark.parametrize(("steps", "pure"), [(1, 0.3), (9, 0.5), (93, 0.05)])
def test_largest_range_after_a_pure_step(steps: int, pure: float) -> None:
    found = largest_range(steps, Budget(1.0, 1e-6), pure=pure, tolerance=5e-4)
    assert AfterPureStep(AdaptiveBoundedRange(found, steps), pure).delta(1.0) <= 1e-6
    assert AfterPureStep(AdaptiveBoundedRange(found * 1.002, steps), pure).delta(1.0) > 1e-6
    assert found > largest_range(steps, Budget(1.0 - pure, 1e-6))


def test_largest_range_asks_the_recursion_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counting(monkeypatch)
    found = largest_range(93, Budget(0.7, 1e-6))
    assert len(calls) <= 2
    assert (
        0.97 * 0.7 <= GaussianDP(found * sqrt(93) / 2).epsilon(1e-6) <= 0.7
    )  # the notes reach .97 to .98 of the normal limit


def test_largest_range_at_the_ends() -> None:
    assert largest_range(4, Budget(1.0)) == 0.25
    assert largest_range(3, Budget(1.0)) * 3 <= 1.0
    assert largest_range(5, Budget(1.0), pure=1.0) == 0.0
    assert largest_range(1, Budget(60.0, 0.5)) == bounded_range.WIDEST


def test_largest_range_for_exact_budgets() -> None:
    """n steps of range r have rho = n r^2 / 8, a pure step before them a^2 / 2."""
    found = largest_range(50, Budget(rho=0.5), pure=0.6, tolerance=1e-4)
    assert found == pytest.approx(sqrt(8 * (0.5 - 0.18) / 50), rel=1e-4)
    assert fits(AfterPureStep(AdaptiveBoundedRange(found, 50), 0.6), Budget(rho=0.5))
    found = largest_range(50, Budget(mu=1.0), tolerance=1e-4)
    assert found == pytest.approx(sqrt(8 / np.pi / 50), rel=1e-4)


def test_a_thousand_steps_are_within_one_percent_of_the_normal_limit() -> None:
    limit = GaussianDP(0.0316 * sqrt(1000) / 2).epsilon(1e-6)
    assert limit * 0.999 <= AdaptiveBoundedRange(0.0316, 1000).epsilon(1e-6) <= limit * 1.01


@pytest.mark.long
def test_ten_thousand_steps() -> None:
    limit = GaussianDP(0.01 * sqrt(10_000) / 2).epsilon(1e-6)
    assert limit * 0.999 <= AdaptiveBoundedRange(0.01, 10_000).epsilon(1e-6) <= limit * 1.01
