"""Several records in every round: the charge is the mean, and everything else follows from it."""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.evaluation.best_point import best_point

FAMILY = hr.Batch(hr.Logistic(radius=3.0), 4)


def records(count: int, width: int = 3) -> np.ndarray:
    rng = np.random.default_rng(7)
    found = rng.normal(size=(count, 4, width + 1))
    found[..., :-1] /= np.maximum(1.0, np.linalg.norm(found[..., :-1], axis=-1, keepdims=True))
    found[..., -1] = np.where(found[..., 0] + 0.5 * rng.normal(size=(count, 4)) > 0, 1.0, -1.0)
    return found.reshape(count, -1)


def test_charges_gradients_and_curvature_are_means() -> None:
    given, point = records(6), np.array([0.5, -1.0, 0.25])
    single = given.reshape(6, 4, 4)
    assert np.allclose(FAMILY.value(given, point), FAMILY.of.value(single, point).mean(axis=1))
    slopes = FAMILY.of.gradient(single, point).mean(axis=1)
    assert np.allclose(FAMILY.gradient(given, np.tile(point, (6, 1))), slopes)
    bent = FAMILY.of.curvature(given.reshape(-1, 4), point)
    assert bent is not None
    found = FAMILY.curvature(given, point)
    assert found is not None
    assert np.allclose(found, bent / 4)
    assert FAMILY.record_width(3) == 16
    assert FAMILY.point_width(16) == 3
    assert FAMILY.gradient_bound("l2", 3) == FAMILY.of.gradient_bound("l2", 3)


def test_the_best_point_is_that_of_all_single_records() -> None:
    given = records(50)
    together = best_point(FAMILY, 3, lambda: [given])
    single = best_point(FAMILY.of, 3, lambda: [given.reshape(-1, 4)])
    assert np.allclose(together.point, single.point, atol=1e-3)
    assert together.total == pytest.approx(single.total / 4, rel=1e-6)
    assert together.gap < 1e-3


def test_a_wrong_record_is_named_by_round_client_and_number() -> None:
    given = records(6).reshape(3, 2, 16)
    given[2, 1, 7] = 0.5
    with pytest.raises(InvalidValue, match=r"label of every record \(2 of 4\).*round 12, client 1"):
        FAMILY.check("record", given, 10)
    given[2, 1, 7], given[0, 1, 0] = 1.0, 9.0
    with pytest.raises(InvalidValue, match=r"features of every record \(1 of 4\)"):
        FAMILY.check("record", given)
    assert FAMILY.clip(given).moved == 1
    FAMILY.check("record", FAMILY.clip(given).records)
    FAMILY.check("record", given, present=np.array([[True, False], [True, True], [True, True]]))
    with pytest.raises(InvalidValue, match="4 records of the same width"):
        FAMILY.examples(np.zeros(15))


def test_what_is_no_batch_is_refused() -> None:
    for family in (hr.Linear(), hr.Gains(), FAMILY):
        with pytest.raises(InvalidValue, match="single records"):
            hr.Batch(family, 2)
    with pytest.raises(InvalidValue, match="size"):
        hr.Batch(hr.Huber(), 0)


def test_one_of_several_records_is_protected() -> None:
    assert FAMILY.record.each == 4
    game = hr.Replay(records(6).reshape(3, 2, 16), FAMILY)
    assert game.setting == hr.Setting(2, 3, 3, family=FAMILY)
    assert game.family.record.plural == "examples"


def test_the_whole_space_has_no_linear_minimum() -> None:
    space = hr.Space()
    assert space.diameter == float("inf")
    assert space.project(np.ones(2)).tolist() == [1.0, 1.0]
    views = np.broadcast_to(np.array([[[1.0, np.inf]], [[1.0, 2.0]]]), (2, 5, 2))
    assert space.contains(views).tolist() == [[False] * 5, [True] * 5]
    with pytest.raises(Unsupported, match="Ball"):
        space.linear_minimum(np.ones(2))
