"""MNIST: how the images are split among clients, its files, and accuracy on the test images."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from hedgerow.core.errors import HedgerowError, InvalidValue, MissingData
from hedgerow_papers.zhang2024.mnist import FILES, MNIST, read_idx, split


def test_half_the_images_are_random_half_by_digit() -> None:
    labels = np.random.default_rng(0).integers(0, 10, 60000)
    parts = split(labels, 1)
    every = np.concatenate(parts)
    assert len(np.unique(every)) == len(every) == 60000
    for digit, own in enumerate(parts):
        others = int((labels[own] != digit).sum())
        assert binomtest(others, 3000, 0.9).pvalue > 1e-3
        assert len(own) - 3000 > 2700
        halves = [(labels[half] == digit).mean() for half in np.array_split(own, 2)]
        assert abs(halves[0] - halves[1]) < 0.05  # shuffled


def idx(values: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    return head + values.astype(np.uint8).tobytes()


def test_idx_files(tmp_path: Path) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    plain, packed, short = (tmp_path / name for name in ("a", "a.gz", "short"))
    plain.write_bytes(idx(values))
    packed.write_bytes(gzip.compress(idx(values)))
    short.write_bytes(idx(values)[:-1])
    assert np.array_equal(read_idx(plain), values)
    assert np.array_equal(read_idx(packed), values)
    with pytest.raises(InvalidValue, match="24 numbers"):
        read_idx(short)
    plain.write_bytes(b"text")
    with pytest.raises(InvalidValue, match="idx file"):
        read_idx(plain)
    packed.write_bytes(b"text")
    with pytest.raises(HedgerowError, match="Cannot read"):
        read_idx(packed)


def small_mnist(folder: Path, count: int = 400) -> None:
    """Files of the right form with few images of noise."""
    rng = np.random.default_rng(0)
    (folder / "mnist").mkdir()
    for name in FILES.values():
        shape = (count, 28, 28) if "images" in name else (count,)
        (folder / name).write_bytes(idx(rng.integers(0, 10, shape)))


def test_mnist_needs_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path))
    game = MNIST(model="linear")
    with pytest.raises(MissingData, match="train-images-idx3-ubyte"):
        game.start(0)
    small_mnist(tmp_path)
    with pytest.raises(InvalidValue, match=r"Client \d has \d+ images"):
        game.start(0)


def test_mnist_blocks_and_accuracy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(tmp_path))
    monkeypatch.setattr("hedgerow_papers.zhang2024.mnist.RANDOM", 20)
    small_mnist(tmp_path)
    game = MNIST(model="linear", examples=2, horizon=10)
    assert (game.setting.clients, game.setting.horizon) == (10, 10)
    (whole, _), (first, state) = (game.block(game.start(0), n, None) for n in (10, 3))
    rest, _ = game.block(state, 7, None)
    assert np.array_equal(np.concatenate([first.losses, rest.losses]), whole.losses)
    game.family.check("record", whole.losses)
    measure: Any = game.measures()[0]
    measure.begin(0)
    assert measure.value(np.zeros(game.setting.experts)) < 0.3  # noise has nothing to learn
    fewer = replace(game, tested=50)
    assert fewer.fingerprint() == game.fingerprint()  # the losses are the same
    some: Any = fewer.measures()[0]
    some.begin(0)
    assert np.array_equal(some._examples, measure._examples[:: len(measure._examples) // 50])
    for count in (0, 10_001):
        with pytest.raises(InvalidValue, match="tested"):
            MNIST(tested=count)
