"""The core: lattice, messages, block check, loss families, certificates, registry, setting."""

from __future__ import annotations

import re
from fractions import Fraction
from math import exp, isfinite
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hedgerow as hr
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core import block as block_module
from hedgerow.core.block import Block, check
from hedgerow.core.certificate import IDEAL_REALS, Guarantee, Observer, not_private
from hedgerow.core.convex import SquaredError
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import (
    MOST_LOSSES,
    UNITS_PER_LOSS,
    clip_to_lattice,
    from_units,
    round_to_lattice,
    to_units,
)
from hedgerow.core.losses import Linear
from hedgerow.core.registry import Registry
from hedgerow.core.rounding import round_down, sum_down
from hedgerow.core.setting import Setting
from hedgerow.core.units import Client, Event, Person
from hedgerow.deployment import config as servers
from hedgerow.privacy.curves import PureDP
from hedgerow.studies import config as studies

quick = settings(derandomize=True, deadline=None, database=None, max_examples=60)
unit_losses = hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(0, 1))


# Lattice


@quick
@given(unit_losses)
def test_rounding_moves_a_loss_by_at_most_half_a_unit(losses: np.ndarray) -> None:
    rounded = round_to_lattice(losses)
    assert np.abs(rounded - losses).max() <= 0.5 / UNITS_PER_LOSS
    assert ((rounded * UNITS_PER_LOSS) % 1 == 0).all()
    assert rounded.min() >= 0
    assert rounded.max() <= 1


@quick
@given(unit_losses, st.randoms(use_true_random=False))
def test_sums_are_exact_in_any_order(losses: np.ndarray, shuffler: Any) -> None:
    rounded = round_to_lattice(losses)
    exact = sum(int(loss * UNITS_PER_LOSS) for loss in rounded)
    order = list(range(len(rounded)))
    shuffler.shuffle(order)
    assert to_units(rounded[order].cumsum()[-1]) == to_units(rounded.sum()) == exact
    assert from_units(exact) == rounded.sum()


def test_sums_of_unrounded_losses_are_refused_and_named() -> None:
    with pytest.raises(InvalidValue, match=r"every sum of them, on the lattice"):
        to_units([0.5, 0.1])


finite_floats = st.floats(allow_nan=False, allow_infinity=False)


@quick
@given(finite_floats, finite_floats, st.integers(-3, 3))
def test_a_sum_is_rounded_down_as_exactly_as_by_fractions(a: float, b: float, steps: int) -> None:
    near = -a
    for _ in range(abs(steps)):
        near = float(np.nextafter(near, np.inf if steps > 0 else -np.inf))
    for other in (b, near, -near, b * 2.0**-60, a * 2.0**-53):
        if isfinite(other):
            assert sum_down(a, other) == round_down(Fraction(a) + Fraction(other))


# Block check

FRAME = Setting(clients=2, experts=3, horizon=10)


def _checked(losses: Any, first: int = 0) -> Block:
    return check(Block.of(losses), FRAME, first, 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, np.nextafter(1, 2), -1e-300, -np.nan])
def test_a_bad_loss_is_named_with_round_site_and_expert(bad: float) -> None:
    losses = np.zeros((4, 2, 3))
    losses[2, 1, 0] = bad
    with pytest.raises(
        InvalidValue, match=r"every loss in \[0, 1\] \(round 7, client 1, expert 0\)"
    ):
        _checked(losses, first=5)


def test_negative_zero_and_one_are_losses() -> None:
    losses = np.full((4, 2, 3), -0.0)
    losses[1] = 1.0
    assert (_checked(losses).own_totals == UNITS_PER_LOSS).all()


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((4, 2, 2)),
        np.zeros((3, 2, 3)),
        np.zeros((4, 2, 3), np.float32),
        np.zeros((4, 6)),
        [[[0.0]]],
    ],
)
def test_wrong_shapes_and_types_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidValue, match="Expected losses"):
        _checked(bad)


def test_losses_off_the_lattice_are_refused_even_where_their_sum_is_on_it() -> None:
    losses = np.zeros((4, 2, 3))
    losses[0, 0, 0], losses[1, 0, 0] = 0.1, 0.9
    with pytest.raises(InvalidValue, match="lattice"):
        _checked(losses)


@quick
@given(
    st.integers(1, 30),
    st.integers(0, 20),
    st.lists(st.integers(0, 60), unique=True).map(sorted),
    st.integers(1, 40),
)
def test_sums_are_right_for_any_marks(
    rounds: int, first: int, marks: list[int], cache: int
) -> None:
    losses = round_to_lattice(np.random.default_rng(rounds).random((rounds, 2, 3)))
    with patch.object(block_module, "CACHE_ELEMENTS", cache):
        checked = check(Block.of(losses), Setting(2, 3, 100), first, rounds, marks)
    assert checked.segments is not None
    assert checked.cuts[-1] == rounds
    assert set(checked.cuts[:-1]) == {
        mark - first for mark in marks if first < mark < first + rounds
    }
    units, start = to_units(losses), 0
    for piece, cut in zip(checked.segments, checked.cuts, strict=True):
        assert np.array_equal(piece, units[start:cut].sum(axis=0))
        start = cut
    assert np.array_equal(checked.own_totals, units.sum(axis=0))


# Loss families


def test_linear_charges_experts_and_points_alike() -> None:
    losses = np.random.default_rng(0).random((5, 2, 3))
    plays = np.array([[0, 1], [2, 2], [1, 0], [0, 0], [2, 1]])
    charged = Linear().value(losses, plays)
    assert charged.tolist() == [[losses[t, i, plays[t, i]] for i in range(2)] for t in range(5)]
    assert np.allclose(Linear().value(losses, np.eye(3)[plays]), charged)
    assert np.array_equal(Linear().gradient(losses, np.eye(3)[plays]), losses)
    assert Linear().bounds == (0.0, 1.0)


def test_squared_error_gradient_matches_finite_differences() -> None:
    rng = np.random.default_rng(1)
    family, records, points = SquaredError(), rng.normal(size=(4, 2, 4)), rng.normal(size=(4, 2, 3))
    for i, direction in enumerate(np.eye(3)):
        step = 1e-6 * direction
        slope = (family.value(records, points + step) - family.value(records, points - step)) / 2e-6
        assert np.allclose(slope, family.gradient(records, points)[..., i], atol=1e-6)


def test_squared_error_bound_is_attained_and_never_passed() -> None:
    family = SquaredError(feature_norm=2.0, radius=1.5, target=0.5)
    assert family.value(np.array([2.0, 0.0, -0.5]), np.array([1.5, 0.0])) == family.bounds[1]
    rng = np.random.default_rng(2)
    features, points = (
        (x := rng.normal(size=(999, 2))) / np.linalg.norm(x, axis=1, keepdims=True)
        for _ in range(2)
    )
    records = np.concatenate([2.0 * features, rng.uniform(-0.5, 0.5, (999, 1))], axis=1)
    assert family.value(records, 1.5 * points).max() <= family.bounds[1]


def test_squared_error_refuses_bad_frames() -> None:
    with pytest.raises(InvalidValue, match="width 3, got width 2"):
        SquaredError().value(np.zeros((1, 4)), np.zeros((1, 2)))
    with pytest.raises(InvalidValue, match=r"radius=0\.0 > 0"):
        SquaredError(radius=0.0)


# Certificates


def _guarantee(curve: Any, **more: Any) -> Guarantee:
    return Guarantee(Observer.PUBLIC, frozenset(), Event(), "replace one record", curve, **more)


def test_a_guarantee_in_words_names_everything_that_matters() -> None:
    words = _guarantee(PureDP(0.75), claimed=PureDP(1.0), assumes=frozenset({IDEAL_REALS})).words()
    assert "epsilon = 0.75" in words
    assert "one loss vector of one client" in words
    assert "paper claims epsilon = 1" in words
    assert "IDEAL_REALS" in words
    assert "at most 3 records across clients" in Person(3, 3).words()
    assert Person(3).words() != Person(3, 3).words() != Client().words()


def test_an_unprotected_algorithm_says_so_to_everybody() -> None:
    certificate = not_private("raw", {})
    assert {g.observer for g in certificate.guarantees} == set(Observer)
    for observer in Observer:
        curve = certificate.guarantee(observer).curve
        assert (curve.delta(100.0), curve.epsilon(0.5), curve.epsilon(1.0)) == (1.0, np.inf, 0.0)


# Registry and setting


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(
        InvalidValue, match="Unknown algorithm 'sparse_vectr'; did you mean 'sparse_vector'"
    ):
        ALGORITHMS["sparse_vectr"]
    with pytest.raises(
        InvalidValue,
        match=r"valid: ada_hedge, agarwal2017_tree_leader, .*, doubling, follow_the_leader",
    ):
        ALGORITHMS["zzz"]


@pytest.mark.parametrize(
    "cause",
    [
        lambda text: hr.Recorded(f"{text}.csv").setting,
        lambda text: studies.study_from_table({text: 1}),
        lambda text: servers.from_table({text: 1}, environ={}),
        lambda text: hr.run(np.zeros((2, 1, 2)), {text: hr.Hedge()}, seeds=1),
    ],
    ids=["path", "study", "server", "label"],
)
def test_every_error_can_be_printed(cause: Any) -> None:
    """It may quote text with half a character (a lone surrogate) or a command to the terminal."""
    with pytest.raises(hr.HedgerowError) as error:
        cause("a\ud800b\x1b[2Jc")
    str(error.value).encode()
    assert "\x1b" not in str(error.value)


def test_names_are_taken_once_and_found_again() -> None:
    registry: Registry[type] = Registry("shape", {"b": "builtins:int"})
    registry.add("a", float)
    registry.add("a", float)
    assert list(registry) == ["a", "b"]
    assert (registry.name_of(2.5), registry.name_of(int)) == ("a", "b")
    with pytest.raises(InvalidValue, match="'a' is already taken"):
        registry.add("a", str)
    with pytest.raises(InvalidValue, match="registered shape, got str"):
        registry.name_of("text")


@pytest.mark.parametrize(
    "frame",
    [
        (0, 1, 1),
        (1, 0, 1),
        (1, 1, 0),
        (1, 1, 1, 0),
        (True, 1, 1),
        (1, 2.0, 1),
        (1, 1, MOST_LOSSES + 1),
    ],
)
def test_impossible_settings_are_refused(frame: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidValue, match="Expected"):
        Setting(*frame)


def test_the_largest_setting_still_sums_exactly() -> None:
    setting = Setting(1, 1, MOST_LOSSES)
    assert int(from_units(MOST_LOSSES * UNITS_PER_LOSS)) == setting.horizon
    assert MOST_LOSSES * UNITS_PER_LOSS < 2**63
    Setting(2**20, 1, 2**22, deciders=1)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("bound", [2.0**-20, 0.3, 1.0, 64.0, 1e6, 2.0**30])
def test_clipped_vectors_obey_the_bound_to_the_last_bit(
    norm: Literal["l1", "l2", "linf"], bound: float
) -> None:
    rng = np.random.default_rng(0)
    for width in (1, 3, 1000):
        on_the_bound = np.full((1, width), bound / {"l1": width, "l2": width**0.5, "linf": 1}[norm])
        for vectors in (
            3 * bound * rng.standard_normal((20, width)),
            1e300 * rng.standard_normal((3, width)),
            on_the_bound,
        ):
            clipped = clip_to_lattice(vectors, bound, norm)
            limit = Fraction(bound) * 2**20
            for row in to_units(clipped).tolist():
                if norm == "l2":
                    assert sum(x * x for x in row) <= limit**2
                else:
                    assert (max if norm == "linf" else sum)(map(abs, row)) <= limit


def test_clipping_changes_no_vector_that_is_short_enough_and_no_direction() -> None:
    rng = np.random.default_rng(1)
    short = round_to_lattice(rng.standard_normal((50, 4)) * 0.1)
    assert np.array_equal(clip_to_lattice(short, 1.0), short)
    assert np.array_equal(clip_to_lattice([[0.0, 1.0, 0.0]], 1.0), [[0.0, 1.0, 0.0]])
    with np.errstate(all="raise", under="ignore"):  # a warning would show a tiny vector
        assert not clip_to_lattice([[1e-310, 0.0], [1e-290, 0.0]], 1e3).any()
    long = rng.standard_normal((50, 4)) * 9 + 20
    clipped = clip_to_lattice(long, 1.0)
    assert np.allclose(clipped, long / np.linalg.norm(long, axis=-1, keepdims=True), atol=4e-6)
    for bad, bound, norm in (
        ([np.nan], 1.0, "l2"),
        ([np.inf], 1.0, "l2"),
        ([1.0], 0.0, "l2"),
        ([1.0], np.nan, "l2"),
        ([1.0], 1.0, "l3"),
    ):
        with pytest.raises(InvalidValue, match="Expected"):
            clip_to_lattice(bad, bound, norm)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 3.0, 7.3, 19.99, 20.0, 60.0])
def test_plain_words_promise_no_more_than_the_certificate(epsilon: float) -> None:
    """The number of times is rounded up, and a budget too large to help is called that."""
    built = hr.PhasedSelection(epsilon=epsilon, trust="local").build(hr.Setting(2, 3, 50))
    words = built.certificate.server.plain_words()
    if epsilon < 20:
        (times,) = re.findall(r"makes nothing that it sees more than (\S+) times likelier", words)
        assert exp(epsilon) <= float(times) <= 1.01 * exp(epsilon)
    else:
        assert "may make what it sees more than a hundred million times likelier" in words


def test_plain_words_add_delta() -> None:
    """It is not the probability that epsilon is exceeded, which may be larger."""
    words = hr.RunningLeader(delta=1e-6).build(hr.Setting(2, 3, 50)).certificate.peer.plain_words()
    assert "2.72 times likelier, plus a probability of 1e-6 (" in words
