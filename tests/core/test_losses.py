"""Linear families: losses and gains, their ranges, and where records are moved into range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hedgerow.core.block import ABSENT
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS, check_unit_range, to_units
from hedgerow.core.losses import Clipped, Family, Gains, Linear


def test_a_family_is_a_declared_interface() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Family()  # pyright: ignore[reportAbstractUsage]
    assert isinstance(Linear(), Family)
    assert (Linear.gains, Linear.linear, Gains.gains, Gains.linear) == (False, True, True, True)
    assert (Family.gains, Family.linear) == (False, False)
    assert Linear().record_width(4) == Gains().record_width(4) == 4
    assert Linear().curvature(np.zeros((1, 2)), np.ones(2) / 2) is None


@pytest.mark.parametrize(("family", "sign"), [(Linear(), 1.0), (Gains(), -1.0)])
def test_an_absent_client_does_not_pay_for_another(family: Family, sign: float) -> None:
    records = np.array([[[0.25, 0.5], [0.0, 0.0]], [[0.0, 0.0], [0.5, 0.75]]])
    plays = np.array([[0, ABSENT], [ABSENT, 1]])
    assert (sign * family.value(records, plays) == [[0.25, 0.0], [0.0, 0.75]]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1e-300, -0.0, 1.0 + 2**-52])
def test_linear_records_are_checked_as_ever(bad: float) -> None:
    records = np.full((3, 2, 4), 0.5)
    Linear().check("loss", records)
    records[1, 0, 3] = bad
    if bad == 0.0:
        Linear().check("loss", records)
        return
    with pytest.raises(InvalidValue) as found:
        Linear().check("loss", records, 7)
    with pytest.raises(InvalidValue) as expected:
        check_unit_range("loss", records, 7)
    assert str(found.value) == str(expected.value)
    assert "(round 8, client 0, expert 3)" in str(found.value)


def test_clipping_counts_records_and_lands_on_the_lattice() -> None:
    given = np.array([[[0.3, 0.5], [1.5, -2.0]], [[1.0, 0.0], [0.0, 1.0 + 1e-9]]])
    found = Linear().clip(given)
    assert isinstance(found, Clipped)
    assert found.moved == 2
    assert found.records[0, 1].tolist() == [1.0, 0.0]
    to_units(found.records)
    Linear().check("loss", found.records)
    assert Linear().clip(found.records).moved == 0
    assert given[0, 1, 0] == 1.5
    with pytest.raises(InvalidValue, match=r"finite numbers in every record \(record 1\)"):
        Linear().clip(np.array([[0.0, 1.0], [np.nan, 0.0]]))


# Gains


def test_a_gain_is_minus_a_charge() -> None:
    family, gains = Gains(-1.0, 3.0), np.array([[[1.0, -0.5, 3.0], [0.0, 0.25, 2.0]]])
    assert family.value(gains, np.array([[2, 1]])).tolist() == [[-3.0, -0.25]]
    assert family.value(gains, np.full((1, 2, 3), 1 / 3)) == pytest.approx(-gains.mean(axis=-1))
    assert family.gradient(gains, gains).tolist() == (-gains).tolist()
    assert family.bounds == (-3.0, 1.0)
    assert Gains(low=(-4.0, 0.0), high=2.0).bounds == (-2.0, 4.0)


def test_the_range_of_gains_is_declared_for_each_expert() -> None:
    family = Gains(low=0.0, high=(1.0, 40.0))
    family.check("gain", np.array([[[1.0, 40.0]]]))
    with pytest.raises(InvalidValue, match=r"every gain in \[0.0, 1.0\] \(round 5, client 0, num"):
        family.check("gain", np.array([[[1.0, 40.0]], [[1.5, 0.0]]]), 4)
    with pytest.raises(InvalidValue, match=r"every gain in \[0.0, 40.0\]"):
        family.check("gain", np.array([[[1.0, np.nan]]]))
    with pytest.raises(InvalidValue, match="ranges for 2 experts, but there are 3"):
        family.check("gain", np.zeros((1, 1, 3)))
    # an absent client has zeros, which need not be gains
    low = Gains(low=0.5)
    with pytest.raises(InvalidValue, match="client 1"):
        low.check("gain", np.array([[[1.0], [0.0]]]))
    low.check("gain", np.array([[[1.0], [0.0]]]), 0, np.array([[True, False]]))


def test_reports_of_silos_have_the_range_of_their_expert() -> None:
    family = Gains(low=0.0, high=(1.0, 40.0, 5.0))
    reports = np.array([[[1.0], [39.0], [5.0]], [[0.5], [1.0], [2.0]]])
    family.check_reports(reports)
    reports[1, 2] = 6.0
    with pytest.raises(InvalidValue, match=r"every report in \[0.0, 5.0\] \(round 11, client 2, "):
        family.check_reports(reports, 10)
    family.check_reports(reports, 10, np.array([[True] * 3, [True, True, False]]))
    with pytest.raises(InvalidValue, match="ranges for 3 experts, but there are 4"):
        family.check_reports(np.zeros((1, 4, 1)))
    family.check_reports(np.zeros((1, 9, 3)))  # whole vectors
    Gains().check_reports(np.ones((2, 9, 1)))  # one range for all
    with pytest.raises(InvalidValue, match=r"every report in"):
        Gains().check_reports(np.full((2, 9, 1), 1.25))
    with pytest.raises(InvalidValue, match=r"every report in"):
        Linear().check_reports(np.full((2, 9, 1), 1.25))


def test_clipped_gains_lie_on_the_lattice_inside_the_range() -> None:
    family = Gains(low=-0.3, high=(0.3, 1000.0))  # 0.3 is not on the lattice; the nearest is above
    given = np.array([[0.3, 1000.0], [-0.3, -0.3], [0.31, 0.0], [0.1, 2e3]])
    clipped = family.clip(given)
    records = clipped.records
    assert clipped.moved == 2
    family.check("gain", records)
    assert np.abs(records[0] - [0.3, 1000.0]).max() < 1 / UNITS_PER_LOSS
    to_units(records)
    again = family.clip(records)
    assert again.moved == 0
    assert np.array_equal(again.records, records)


def test_sums_of_the_largest_gains_are_exact() -> None:
    """As many as the largest block of a simulation holds, in any order."""
    gain = 1024.0 - 1 / UNITS_PER_LOSS
    Gains(high=1024.0).check("gain", np.full((1, 1, 1), gain))
    total = np.full(2**22, gain).sum()
    assert int(to_units(total)) == 2**22 * int(gain * UNITS_PER_LOSS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"low": 2.0}, r"low=2\.0 <= high=1\.0"),
        ({"low": (0.0, 0.5), "high": (1.0, 0.25)}, r"low=0\.5 <= high=0\.25"),
        ({"low": (0.0, 0.0), "high": (1.0,)}, "as many numbers as low"),
        ({"high": 1025.0}, "choose a larger unit"),
        ({"low": float("nan")}, "low=nan to be a number"),
        ({"high": ()}, "one number for each expert"),
        ({"high": (1.0, "2")}, "high='2' to be a number"),
        ({"low": 1e-7, "high": 2e-7}, "a multiple of 2"),
    ],
)
def test_wrong_ranges_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Gains(**fields)


@pytest.mark.parametrize("family", [Linear(), Gains(-3.0, 1.0), Gains(0.0, (1.0, 5.0, 2.0))])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_gradients_of_linear_families_attain_their_bound(family: Family, norm: Any) -> None:
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    extreme = family.clip(np.array(np.meshgrid(*[[-1e6, 1e6]] * 3)).reshape(3, -1).T).records
    inside = family.clip(np.random.default_rng(0).uniform(-6, 6, (300, 3))).records
    points = np.eye(3)[0]
    for records, attained in ((extreme, True), (inside, False)):
        sizes = np.linalg.norm(family.gradient(records, points), ord=order, axis=-1)
        assert sizes.max() <= family.gradient_bound(norm, 3) * (1 + 1e-12)
        if attained:
            assert sizes.max() >= family.gradient_bound(norm, 3) * 0.99
    assert family.smoothness("l1", 3) == family.smoothness("l2", 3) == 0.0
    charges = family.value(extreme, np.broadcast_to(np.eye(3)[:, None], (3, len(extreme), 3)))
    assert (charges.min(), charges.max()) == family.bounds


@pytest.mark.parametrize("family", [Linear(), Gains(0.0, 1.0)])
def test_an_absent_client_pays_its_own_zero_and_a_wrong_expert_is_refused(family: Family) -> None:
    records = np.array([[[0.5, 1.0], [0.0, 0.0]], [[0.25, 0.75], [0.5, 0.25]]])
    paid = family.value(records, np.array([[0, ABSENT], [1, 0]]))
    assert np.abs(paid).tolist() == [[0.5, 0.0], [0.75, 0.5]]
    with pytest.raises(IndexError):
        family.value(records, np.array([[0, 2], [1, 0]]))
