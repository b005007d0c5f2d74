"""Families of combinations: values by hand, slopes, ranges, words, and records that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hedgerow.core.certificate import no_carry_over
from hedgerow.core.combination import Combination, PublicForecasts, QuantileCombination
from hedgerow.core.convex import AbsoluteError, Huber, Logistic, OnSimplex, Pinball, SquaredError
from hedgerow.core.errors import InvalidValue
from hedgerow.core.family_text import family_of
from hedgerow.core.losses import Norm
from hedgerow.core.units import Client, Event, Person

FAMILIES: tuple[PublicForecasts, ...] = (
    Combination(),
    Combination(AbsoluteError(feature_norm=3.0, target=5.0)),
    Combination(Pinball(feature_norm=3.0, target=5.0, quantile=0.9)),
    Combination(SquaredError(feature_norm=2.0, target=1.5)),
    Combination(Huber(feature_norm=2.0, target=1.5, threshold=0.25)),
    QuantileCombination((0.1, 0.5, 0.75), feature_norm=2.0, target=3.0),
    QuantileCombination((0.5,), feature_norm=2.0, target=3.0),
)
by_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)


def _worlds(family: PublicForecasts, width: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    records = family.clip(rng.normal(size=(300, family.record_width(width))) * 3).records
    return records, rng.dirichlet(np.ones(width), size=300)


def test_values_by_hand() -> None:
    record, weights = np.array([1.0, 3.0, 2.5]), np.array([0.5, 0.5])
    assert Combination(AbsoluteError(4.0, target=4.0)).value(record, weights) == 0.5
    assert Combination(Pinball(4.0, target=4.0, quantile=0.75)).value(record, weights) == 0.375
    low = Combination(Pinball(4.0, target=4.0, quantile=0.25)).value(record, weights)
    assert low == 0.125
    quantiles = QuantileCombination((0.25, 0.75), feature_norm=4.0, target=4.0)
    record = np.array([1.0, 3.0, 3.0, 4.0, 2.5])  # 2 and 3.5, combined
    assert quantiles.value(record, weights) == (2 * 0.25 * 0.5 + 2 * 0.25 * 1.0) / 2


@by_family
def test_gradients_are_slopes_of_values(family: PublicForecasts) -> None:
    records, points = _worlds(family)
    found, step = family.gradient(records, points), 1e-7
    off = 0
    for i, axis in enumerate(np.eye(4)):
        rise = family.value(records, points + step * axis) - family.value(
            records, points - step * axis
        )
        off += int((np.abs(rise / (2 * step) - found[:, i]) > 1e-5).sum())
    assert off <= 4  # at a kink a difference is no derivative


@by_family
def test_charges_gradients_and_slopes_stay_in_their_bounds(family: PublicForecasts) -> None:
    records, points = _worlds(family)
    charges, gradients = family.value(records, points), family.gradient(records, points)
    assert charges.min() >= family.bounds[0]
    assert charges.max() <= family.bounds[1]
    orders: dict[Norm, float] = {"l1": 1, "l2": 2, "linf": np.inf}
    for norm, order in orders.items():
        sizes = np.linalg.norm(gradients, ord=order, axis=1)
        assert sizes.max() <= family.gradient_bound(norm, 4) * (1 + 1e-12)
    for level, (least, most) in enumerate(family.slopes):
        levels = np.full(len(records), level)
        forecasts = family.at_level(records, levels)
        assert np.linalg.norm(forecasts, axis=1).max() <= family.longest * (1 + 1e-12)
        scores = (forecasts * points).sum(axis=1)
        slopes = family.slope(scores, records[:, -1], levels)
        assert least <= slopes.min() < slopes.max() <= most
        assert not family.jumps or set(np.round(slopes, 12)) == {round(least, 12), round(most, 12)}


@by_family
def test_the_gradient_is_the_mean_slope_times_forecasts(family: PublicForecasts) -> None:
    records, points = _worlds(family)
    total = np.zeros_like(points)
    for level in range(len(family.slopes)):
        levels = np.full(len(records), level)
        forecasts = family.at_level(records, levels)
        slopes = family.slope((forecasts * points).sum(axis=1), records[:, -1], levels)
        total += slopes[:, None] * forecasts / len(family.slopes)
    assert np.allclose(total, family.gradient(records, points), atol=1e-12)


def test_one_level_of_quantiles_is_the_absolute_error() -> None:
    one, other = FAMILIES[-1], Combination(AbsoluteError(feature_norm=2.0, target=3.0))
    records, points = _worlds(one)
    assert np.array_equal(one.value(records, points), other.value(records, points))
    assert np.array_equal(one.gradient(records, points), other.gradient(records, points))


@by_family
def test_words_protect_the_target_alone_and_say_so(family: PublicForecasts) -> None:
    record = family.record
    assert (record.name, record.public) == ("target", "forecasts")
    for unit in (Event(record=record), Person(2, 2, record=record), Client(record=record)):
        assert unit.words().endswith("(forecasts are public)")
        assert unit.adjacency().endswith("; forecasts are public and stay the same")
        assert "target" in unit.adjacency()
    assert "later targets and forecasts depend" in no_carry_over(record).meaning


@by_family
def test_a_family_is_read_from_its_text(family: PublicForecasts) -> None:
    assert family_of(repr(family)) == family


@by_family
def test_records_outside_are_refused_and_clipped(family: PublicForecasts) -> None:
    width = family.record_width(4)
    inside = np.zeros((1, 2, width))
    family.check("record", inside)
    far, long = inside.copy(), inside.copy()
    far[0, 1, -1], long[0, 1, 0] = 1e6, 1e6
    for wrong, text in ((far, "target"), (long, "norm")):
        with pytest.raises(InvalidValue, match=f"{text}.*round 0, client 1"):
            family.check("record", wrong)
        present = np.array([[True, False]])
        family.check("record", wrong, present=present)
        clipped = family.clip(wrong)
        assert clipped.moved == 1
        family.check("record", clipped.records)
    for value in (np.nan, np.inf):
        bad = inside.copy()
        bad[0, 0, -1] = value
        with pytest.raises(InvalidValue, match="finite"):
            family.check("record", bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Combination(Logistic()),
        lambda: Combination(AbsoluteError(radius=0.5)),
        lambda: OnSimplex(AbsoluteError()),
        lambda: Pinball(quantile=1.0),
        lambda: Pinball(quantile=float("nan")),
        lambda: AbsoluteError(target=0.0),
        lambda: QuantileCombination(()),
        lambda: QuantileCombination((0.5, 0.25)),
        lambda: QuantileCombination((0.0, 0.5)),
        lambda: QuantileCombination((0.5, 0.75)).point_width(6),
    ],
)
def test_wrong_choices_are_refused(make: Any) -> None:
    with pytest.raises(InvalidValue, match="Expected"):
        make()
