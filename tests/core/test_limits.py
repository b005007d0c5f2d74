"""Ranges of uploads: honest numbers stay, all others move to the nearest honest one."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.registry import variants
from hedgerow.algorithms.shared.totals import LossSums, sums_of_losses
from hedgerow.contracts.games import built, games_of
from hedgerow.core.limits import Range
from hedgerow.core.messages import InvalidMessage


@pytest.mark.parametrize("rounds", [1, 7])
def test_whole_numbers_stay_whole(rounds: int) -> None:
    given = np.array([-(2**63), -1, 0, 5, rounds * 2**20, rounds * 2**20 + 1, 2**63 - 1])
    found = Range(7, 0.0, 1.0).within("losses", given, rounds)
    top = rounds * 2**20
    assert found.tolist() == [0, 0, 0, 5, top, top, top]
    assert found.dtype == np.int64


def test_floats_on_the_lattice_keep_every_bit() -> None:
    given = np.array([-0.0, 0.25, -3 / 2**20, 2.0, -2.0])
    assert Range(5, -1.0, 1.0).within("sums", given, 2).tobytes() == given.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, 2.0**-60, 0.3, -1e-300])
def test_every_float_comes_to_the_lattice(value: float) -> None:
    found = Range(1, -0.3, 0.3).within("sums", np.array([value]), 3)
    assert (found * 2**20 % 1 == 0).all()
    assert (np.abs(found) <= 3 * np.floor(0.3 * 2**20) / 2**20).all()


def test_noisy_numbers_are_left_alone_up_to_the_end_of_the_sampler() -> None:
    honest = np.array([0.1, -1e9, 2.0**34])
    assert Range.noisy(3).within("values", honest, 1).tobytes() == honest.tobytes()
    assert Range.noisy(3).within("values", -2 * honest, 1)[2] == -(2.0**34)


def test_a_single_number_stays_a_python_number() -> None:
    found = Range(None, 0.0, 4.0, per_round=False, exact=False).within("variance", 1e9, 1)
    assert type(found) is float
    assert found == 4.0


@pytest.mark.parametrize("shape", [(), (0,), (2,), (4,), (3, 1)])
def test_another_size_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidMessage, match=r"Expected losses of shape \(3,\), got"):
        Range(3, 0.0, 1.0).within("losses", np.zeros(shape, np.int64), 1)


def test_gains_have_their_own_range() -> None:
    setting = hr.Setting(2, 2, 9, deciders=1, family=hr.Gains(low=-0.1, high=(2.0, 0.5)))
    found = sums_of_losses(setting, 1)["losses"]
    assert found.low == round(-0.1 * 2**20) / 2**20
    assert found.high == 2.0


def test_a_game_whose_sums_may_be_too_large_is_refused() -> None:
    large = hr.RandomPrefix().build(hr.Setting(2**20, 2, 2**13))
    with pytest.raises(hr.Unsupported, match=r"may reach 8\.59e\+09"):
        large.require_limits()


def test_an_algorithm_without_ranges_is_refused_by_name() -> None:
    exact = hr.WalkLeader(mu=inf).build(hr.Setting(2, 3, 5))
    with pytest.raises(hr.Unsupported, match="walk_leader does not say where the numbers of"):
        exact.require_limits()


FORMS: dict[str, Any] = variants()
OTHER_NUMBERS = ("approximate", "pure")  # with the roles of the default


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name.endswith(OTHER_NUMBERS) else ())
        for name in FORMS
    ],
)
def test_whatever_can_be_deployed_has_ranges(name: str) -> None:
    """Central or local trust, exact noise, clients that play."""
    algorithm = built(FORMS[name], games_of(FORMS[name]).setting)
    exact = all(mechanism.exact for mechanism in algorithm.certificate.mechanisms)
    if algorithm.certificate.trust in ("central", "local") and exact and not algorithm.decider:
        algorithm.require_limits()
    else:
        assert algorithm.certificate.trust in ("none", "distributed") or not exact


def test_uploads_keep_their_type() -> None:
    algorithm = hr.SparseVector().build(hr.Setting(2, 3, 5))
    found = algorithm.uploads.bounded(LossSums(np.array([7, -7, 2**40])), 2)
    assert isinstance(found, LossSums)
    assert found.losses.tolist() == [7, 0, 2**21]
