"""Points in run lengths, append-only buffers, and what they do in states and digests."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pytest

from hedgerow.core.block import Block
from hedgerow.core.convex import SquaredError
from hedgerow.core.errors import InvalidValue
from hedgerow.core.layout import LEAST_ROOM, Buffer
from hedgerow.core.losses import Gains, Linear
from hedgerow.core.messages import decode, encode
from hedgerow.core.transcript import Digest, Plays, charges

EMPTY = Block(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)))


def _plays(*runs: tuple[float, int]) -> Plays:
    return Plays(np.array([[[value]] for value, _ in runs]), np.array([n for _, n in runs]))


def test_a_view_that_repeats_one_round_is_one_piece() -> None:
    point = np.array([[0.25, 0.75]])
    assert Plays.of(np.broadcast_to(point, (7, 1, 2))).lengths.tolist() == [7]
    assert Plays.of(np.repeat(point[None], 7, axis=0)).lengths.tolist() == [1] * 7
    joined = Plays.join([Plays.of(np.broadcast_to(point, (3, 1, 2))), Plays.of(point[None])])
    assert joined.rounds == 4
    assert np.array_equal(joined.dense(), np.repeat(point[None], 4, axis=0))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidValue, match="one length each"):
        Plays(np.zeros((2, 1, 3)), np.array([1]))


@pytest.mark.parametrize("family", [Linear(), Gains(low=-1.0, high=2.0), SquaredError()])
def test_charges_of_runs_equal_charges_of_every_round(
    family: Linear | Gains | SquaredError,
) -> None:
    rng = np.random.default_rng(0)
    width = family.record_width(3)
    records = family.clip(rng.normal(size=(9, 2, width))).records
    values = family.domain.project(rng.normal(size=(3, 2, 3)))
    plays = Plays(values, np.array([4, 1, 4]))
    expected = family.value(records, plays.dense()).sum(axis=1)
    assert np.allclose(charges(family, records, plays), expected, rtol=1e-13, atol=1e-13)
    assert np.allclose(charges(family, records, Plays.of(plays.dense())), expected, rtol=1e-13)


def test_a_digest_does_not_depend_on_how_runs_are_cut() -> None:
    digests = []
    for parts in (
        [_plays((1.0, 5), (2.0, 1))],
        [_plays((1.0, 2)), _plays((1.0, 3)), _plays((2.0, 1))],
        [_plays((1.0, 1), (1.0, 4), (2.0, 1))],
    ):
        digest = Digest()
        for part in parts:
            digest.rounds(0, EMPTY, part)
        assert digest.hex == digest.hex  # reading it changes nothing
        digests.append(digest.hex)
    assert len(set(digests)) == 1
    for other in (_plays((1.0, 4), (2.0, 2)), _plays((1.0, 5)), _plays((2.0, 1), (1.0, 5))):
        digest = Digest()
        digest.rounds(0, EMPTY, other)
        assert digest.hex != digests[0]


def test_an_old_buffer_does_not_change_when_a_newer_one_grows() -> None:
    first = Buffer.empty((2,), 3)
    states = [first]
    for k in range(5 * LEAST_ROOM):
        states.append(states[-1].append(np.full((2, 3), float(k))))
    for k, state in enumerate(states):
        assert len(state) == k
        assert np.array_equal(state.rows[0, :, 0], np.arange(k))


def test_two_branches_of_a_buffer_do_not_write_over_each_other() -> None:
    common = Buffer([[0.0], [1.0]])
    left, right = common.append([2.0]), common.append([3.0])
    assert left.append([4.0]).rows[:, 0].tolist() == [0, 1, 2, 4]
    assert right.rows[:, 0].tolist() == [0, 1, 3]
    assert left.rows[:, 0].tolist() == [0, 1, 2]
    assert left != right
    assert left == Buffer([[0.0], [1.0], [2.0]])


def test_rows_cannot_be_written_to() -> None:
    rows = Buffer([[1.0]]).rows
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0] = 2.0


def test_rows_of_another_shape_are_refused() -> None:
    buffer = Buffer.empty((4,), 3)
    for row in (np.ones((4, 1)), np.ones(3), np.ones((1, 3))):
        with pytest.raises(InvalidValue, match="rows of shape"):
            buffer.append(row)


def test_appending_copies_only_now_and_then() -> None:
    buffer, arrays = Buffer.empty((), 1), set[int]()
    for k in range(10_000):
        buffer = buffer.append([float(k)])
        arrays.add(id(buffer._store))  # a new store is a copy
    assert len(arrays) <= 12  # doubling: log2(10,000 / 16) is 9.3


@dataclass(frozen=True)
class State:
    kept: Buffer
    count: int


def test_a_state_with_a_buffer_survives_the_codec_and_a_copy() -> None:
    state = State(Buffer.empty((2,), 3).append(np.ones((2, 3))).append(np.zeros((2, 3))), 2)
    for other in (decode(State, encode(state)), copy.deepcopy(state)):
        assert isinstance(other.kept, Buffer)
        assert other == state
        assert other.kept.append(np.ones((2, 3))).rows.shape == (2, 3, 3)
    with pytest.raises(InvalidValue, match="a NumPy array of numbers, got list"):
        encode(State([1.0, 2.0], 2))  # pyright: ignore[reportArgumentType]
    empty = State(Buffer.empty((), 4), 0)
    assert decode(State, encode(empty)).kept.rows.shape == (0, 4)
