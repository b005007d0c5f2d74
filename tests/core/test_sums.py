"""Sums of rows: compiled code and numpy give the same bits, and bad sizes are refused."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow as hr
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core import lattice
from hedgerow.core.block import Block, check
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import round_to_lattice, sum_rows, sum_unit_rows
from hedgerow.core.setting import Setting
from hedgerow.evaluation.recorder import Recorder

quick = settings(derandomize=True, deadline=None, database=None, max_examples=60)
COMPILED = lattice.load_compiled()
needs_compiled = pytest.mark.skipif(COMPILED is None, reason="no compiled sums here")
ODD = (np.nan, -np.nan, np.inf, -np.inf, -0.0, -1e-300, np.nextafter(1.0, 2.0), 5e-324, 2.0, -1.0)


def test_sums_are_compiled_where_there_is_a_compiler() -> None:
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if shutil.which("cc") and headers.exists() and os.environ.get("HEDGEROW_COMPILED") != "0":
        assert COMPILED is not None, "Run `make setup`."


def _pieces(rng: np.random.Generator, rows: int, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    ends = np.sort(rng.integers(rows + 1, size=(2, pieces)), axis=0)
    return ends[0], ends[1]


def _both(
    monkeypatch: pytest.MonkeyPatch,
    rows: np.ndarray,
    starts: np.ndarray,
    stops: np.ndarray,
    first: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for module in (COMPILED, None):
        monkeypatch.setattr(lattice, "compiled", module)
        out = np.full((len(starts), *rows.shape[1:]), np.nan)
        with np.errstate(invalid="ignore"):
            sum_rows(rows, starts, stops, out, first)
        found.append(out)
    return found[0], found[1]


@needs_compiled
@pytest.mark.parametrize("shape", [(40, 2, 3), (40, 1, 300), (7, 1, 17), (1, 1, 4), (0, 2, 3)])
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("runs_on", [True, False])
def test_compiled_sums_have_the_bits_of_numpy(
    shape: tuple[int, ...], equal: bool, runs_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(shape[0])
    rows, first = round_to_lattice(rng.random(shape)), rng.integers(9, size=shape[1:]) / 4
    starts, stops = _pieces(rng, shape[0], 9)
    if equal:
        starts, stops = np.arange(shape[0]), np.arange(1, shape[0] + 1)
    more = first if runs_on else None
    ours, theirs = _both(monkeypatch, rows, starts, stops, more)
    assert ours.tobytes() == theirs.tobytes()
    right = np.array([rows[a:b].sum(axis=0) for a, b in zip(starts, stops, strict=True)])
    if len(right):
        right = np.cumsum(right, axis=0) + first if runs_on else right
        assert np.array_equal(ours, right)
    rows.reshape(-1)[: len(ODD)] = ODD[: rows.size]
    ours, theirs = _both(monkeypatch, rows, starts, stops, more)
    assert np.array_equal(ours, theirs, equal_nan=True)


@needs_compiled
@pytest.mark.parametrize("width", [5, 300])
def test_sums_that_run_on_add_row_after_row(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, at = np.random.default_rng(width).random((50, width)), np.arange(50)
    ours, theirs = _both(monkeypatch, rows, at, at + 1, np.zeros(width))
    assert ours.tobytes() == theirs.tobytes() == np.cumsum(rows, axis=0).tobytes()


@needs_compiled
def test_rows_that_are_not_contiguous_are_added_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).random((12, 4, 6))
    starts, stops = np.array([0, 3]), np.array([5, 12])
    for part in (rows[::2], rows[:, ::2], rows[..., ::2], rows.transpose(0, 2, 1)):
        bounds = np.minimum(starts, len(part)), np.minimum(stops, len(part))
        ours, theirs = _both(monkeypatch, part, *bounds)
        assert ours.tobytes() == theirs.tobytes()
        assert not sum_unit_rows(part, *bounds, np.empty(ours.shape))
    rows.flags.writeable = False
    ours, theirs = _both(monkeypatch, rows, starts, stops)
    assert ours.tobytes() == theirs.tobytes()


@needs_compiled
@pytest.mark.parametrize("odd", ODD)
def test_one_pass_knows_only_losses(odd: float) -> None:
    rows, starts, stops = np.ones((5, 1, 3)), np.array([0, 2]), np.array([2, 5])
    rows[1, 0, 1] = 0.0
    out = np.empty((2, 1, 3))
    assert sum_unit_rows(rows, starts, stops, out)
    for at in range(rows.size):
        bad = rows.copy()
        bad.reshape(-1)[at] = odd
        assert sum_unit_rows(bad, starts, stops, out) == (odd == 5e-324)
    rows[0] = odd
    assert sum_unit_rows(rows, np.array([1]), np.array([5]), out[:1])  # not read


@needs_compiled
@pytest.mark.parametrize(
    ("starts", "stops", "pieces", "width"),
    [
        ([0], [6], 1, 3),  # past the end
        ([-1], [2], 1, 3),
        ([3], [2], 1, 3),
        ([0, 1], [1, 2], 1, 3),  # no room
        ([0], [1], 2, 3),
        ([0], [1, 2], 1, 3),
        ([0], [1], 1, 0),
        ([0], [1], 1, -3),
        ([0], [1], 1, 4),  # rows of another width
        ([0], [1], 1, 2**61),
        ([2**62], [2**62], 1, 3),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    starts: Any, stops: Any, pieces: int, width: int
) -> None:
    rows, out = np.zeros((5, 3)), np.zeros((pieces, 3))
    assert COMPILED is not None
    with pytest.raises(ValueError, match="do not fit"):
        COMPILED.sum_rows(rows, np.array(starts), np.array(stops), out, width, None)
    assert not out.any()


@needs_compiled
def test_what_is_no_array_is_refused() -> None:
    assert COMPILED is not None
    rows, ends, out = np.zeros((5, 3)), np.array([1]), np.zeros((1, 3))
    crooked = np.zeros(5 * 3 * 8 + 1, np.uint8)[1:]
    with pytest.raises(ValueError, match="do not fit"):
        COMPILED.sum_rows(crooked, ends, ends, out, 3, None)
    with pytest.raises(ValueError, match="do not fit"):
        COMPILED.sum_rows(rows, ends, ends, out, 3, np.zeros(2))
    for bad in (
        (rows[:, ::2], ends, ends, out, 1, None),
        (rows, ends, ends, b"read only", 3, None),
        (rows, ends, ends, out, 3),
        ("x",),
    ):
        with pytest.raises((TypeError, ValueError, BufferError)):
            COMPILED.sum_rows(*bad)


@quick
@given(st.integers(0, 2**32), st.sampled_from((None, *ODD, 0.1)))
def test_a_checked_block_is_the_same_without_compiled_code(seed: int, odd: float | None) -> None:
    rng = np.random.default_rng(seed)
    rounds, clients, experts = (int(rng.integers(1, most)) for most in (200, 4, 60))
    losses = round_to_lattice(rng.random((rounds, clients, experts)))
    if odd is not None:
        losses.reshape(-1)[rng.integers(losses.size)] = odd
    marks = np.unique(rng.integers(1, rounds + 1, size=5)).tolist()
    setting, found = Setting(clients, experts, rounds), list[Any]()
    with pytest.MonkeyPatch.context() as patch:
        for module in (COMPILED, None):
            patch.setattr(lattice, "compiled", module)
            try:
                block = check(Block.of(losses), setting, 0, rounds, marks)
                assert block.grains is not None
                assert block.grain_ends is not None
                upto = np.add.accumulate(losses)[block.grain_ends - 1]  # exact, on the lattice
                assert (np.cumsum(block.grains, axis=0) == upto).all()
                assert set(block.cuts) <= set(block.grain_ends.tolist())
                found.append(block.segments)
            except InvalidValue as error:
                found.append(str(error))
    ours, theirs = found
    assert ours == theirs if isinstance(ours, str) else ours.tobytes() == theirs.tobytes()


def test_a_block_with_a_mask_is_refused() -> None:
    """Checks skip what lies under a mask, and sums do not."""
    hidden = np.ma.masked_array(np.full((4, 2, 3), 7.0), mask=True)
    present = np.ma.masked_array(np.ones((4, 2), bool), mask=True)
    for block in (Block.of(hidden), Block(np.zeros((4, 2, 3)), hidden)):
        with pytest.raises(InvalidValue, match="got MaskedArray"):
            check(block, Setting(2, 3, 4), 0, 4)
    zeros = np.zeros((4, 2, 3))
    with pytest.raises(InvalidValue, match=r"present to be boolean .* got MaskedArray"):
        check(Block(zeros, zeros, present=present), Setting(2, 3, 4), 0, 4)


@needs_compiled
@pytest.mark.parametrize("name", ["shrinking_dartboard", "hedge", "sparse_vector", "frank_wolfe"])
def test_games_are_the_same_without_compiled_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = hr.Realizable(clients=3, experts=20, horizon=3000)
    algorithm, found = ALGORITHMS[name]().build(environment.setting), list[Any]()
    for module in (COMPILED, None):
        monkeypatch.setattr(lattice, "compiled", module)
        recorder = Recorder(environment.setting)
        counters = hr.simulate(algorithm, environment, 1, sinks=[recorder], block_rounds=700)
        result = recorder.result("", 1, counters)
        found.append((result.loss.tobytes(), result.regret.tobytes(), result.switches))
    assert found[0] == found[1]


def test_a_variable_turns_compiled_code_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_COMPILED", "0")
    assert lattice.load_compiled() is None
