"""Benchmarks of the privacy core: the odometer, calibration and composition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from statistics import median

from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import (
    gaussian_scale,
    largest_mu,
    largest_range,
    largest_rate,
    largest_rho,
    least_noise,
)
from hedgerow.privacy.composition import bounded_range, recursion
from hedgerow.privacy.composition import steps as composition
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange
from hedgerow.privacy.composition.fixed_plan import fixed_plan
from hedgerow.privacy.composition.steps import PureComposition
from hedgerow.privacy.curves import BoundedRange, GaussianDP, LaplaceDP, ZeroConcentratedDP
from hedgerow.privacy.odometer import Filter
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import REPEATS, compared, in_turn, seconds, without_caches

CACHES = (bounded_range._table, recursion.grid_for, composition._randomised_responses)
_CHUNK = 2000
_LENGTHS = (10**2, 10**4, 10**6)


def _advanced(releases: int) -> Filter:
    """A filter after `releases` releases, with enough budget left for the timed ones."""
    cost = ZeroConcentratedDP(2.0**-40)
    filtered = Filter(Budget(1.0, 1e-6))
    for _ in range(releases):
        filtered = filtered.spend(cost)
    return filtered


def _go_on(filtered: Filter) -> Callable[[], object]:
    """Asks and then spends, as an application does, `_CHUNK` times."""

    def work() -> object:
        after, cost = filtered, ZeroConcentratedDP(2.0**-40)
        for _ in range(_CHUNK):
            if not after.would_exceed(cost):
                after = after.spend(cost)
        return after

    return work


def odometer_rows() -> Iterator[Row]:
    """Time per release after 10^2, 10^4 and 10^6 others, each alternating with the first."""
    works = {releases: _go_on(_advanced(releases)) for releases in _LENGTHS}
    base = works[_LENGTHS[0]]
    for releases, work in works.items():
        ratio, taken = in_turn(work, base, 2 * REPEATS + 1)
        yield Row(
            f"odometer/releases={releases}",
            ratio,
            "after 100 releases",
            taken / _CHUNK * 1e6,
            "us per release",
            "<=",
            2.0,
        )


def calibration_rows() -> Iterator[Row]:
    """The times of `calibrate`, for information."""

    def fresh(question: Callable[[], object]) -> Callable[[], object]:
        def work() -> object:
            largest_mu.cache_clear()
            largest_rho.cache_clear()
            return question()

        return work

    budget = Budget(1.0, 1e-6)
    questions: dict[str, Callable[[], object]] = {
        "gaussian, closed form": lambda: gaussian_scale(budget),
        "gaussian, search": lambda: least_noise(
            lambda scale: GaussianDP(1 / scale), budget, 1e-3, 1e3
        ),
        "concentrated": lambda: largest_rho(budget),
        "1000 exponential mechanisms": lambda: largest_rate(
            lambda rate: ZeroConcentratedDP(1000 * rate * rate / 8), budget, 1e-6, 1.0
        ),
    }
    for name, question in questions.items():
        taken = median(seconds(fresh(question)) for _ in range(REPEATS))
        yield Row(f"solve/{name}", None, None, taken, "s")


def composition_rows() -> Iterator[Row]:
    """The times of a certified curve and of `largest_range` with empty caches, for information."""
    plan = [(GaussianDP(0.01), 500), (LaplaceDP(0.01), 500), (BoundedRange(0.01), 500)]
    questions: dict[str, Callable[[], object]] = {}
    for steps in (10, 100, 1000):
        curve = AdaptiveBoundedRange(1.4 / sqrt(steps) / 4, steps)
        questions[f"compose/bounded range, {steps} steps"] = lambda curve=curve: curve.epsilon(1e-6)
        questions[f"solve/largest range, {steps} steps"] = lambda steps=steps: largest_range(
            steps, Budget(1.0, 1e-6)
        )
    questions["compose/pure, 10000 steps"] = lambda: PureComposition(0.01, 10**4).epsilon(1e-6)
    questions["compose/fixed plan, 1500 steps"] = lambda: fixed_plan(plan).epsilon(1e-6)
    for name, question in questions.items():
        yield Row(
            name, None, None, median(without_caches(question, *CACHES) for _ in range(REPEATS)), "s"
        )


def library_rows() -> Iterator[Row]:
    """500 Gaussian and 500 Laplace steps, against dp-accounting with its default grid.

    On that grid its epsilon is larger than ours: ours composes the Gaussian steps exactly.
    """
    from dp_accounting.pld import privacy_loss_distribution as library

    plan = [(GaussianDP(0.01), 500), (LaplaceDP(0.01), 500)]

    def theirs() -> float:
        gaussian = library.from_gaussian_mechanism(100.0).self_compose(500)
        laplace = library.from_laplace_mechanism(100.0).self_compose(500)
        return float(gaussian.compose(laplace).get_epsilon_for_delta(1e-6))

    def ours() -> float:
        return fixed_plan(plan).epsilon(1e-6)

    if not ours() <= theirs():
        raise ArithmeticError("The composition is not as accurate as that of dp-accounting.")
    found = compared(ours, theirs, 2 * REPEATS + 1)
    yield Row(
        "compose/500 Gaussian and 500 Laplace steps",
        found.ratio,
        "dp-accounting",
        found.seconds * 1e3,
        "ms",
        "<=",
        1.0,
        found.spread,
    )


def privacy_rows() -> Iterator[Row]:
    """All benchmarks of the privacy core."""
    yield from odometer_rows()
    yield from library_rows()
    yield from calibration_rows()
    yield from composition_rows()


PRIVACY = Benchmark(privacy_rows, library_rows)
