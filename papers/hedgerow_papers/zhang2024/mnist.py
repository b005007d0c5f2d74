"""MNIST as a stream of images for ten clients: half random, half by digit.

The data are the four official idx files, packed with gzip or not, in a folder `mnist`. They are
never downloaded.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hedgerow.core.batch import Batch
from hedgerow.core.block import Block
from hedgerow.core.environment import Environment, fingerprint_of
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.measure import Measure
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, one_of
from hedgerow.environments.drawn.generated import generator
from hedgerow.environments.measures import TestAccuracy
from hedgerow.environments.recorded.data import find_any

SOURCE = (
    "any copy of MNIST: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte "
    "and t10k-labels-idx1-ubyte, packed with gzip (.gz) or not, in a folder mnist"
)
FILES = {
    "train images": "mnist/train-images-idx3-ubyte",
    "train labels": "mnist/train-labels-idx1-ubyte",
    "test images": "mnist/t10k-images-idx3-ubyte",
    "test labels": "mnist/t10k-labels-idx1-ubyte",
}
DIGITS, SIDE = 10, 28
RANDOM = 3000  # images of each client that are drawn from all digits
LEAST = 5600  # images that every client has, with about half of the images of its digit
MODELS = {
    "full": ((32, 32), (64, 32)),
    "small": ((8, 8), ()),
    "linear": ((), ()),
}
TESTED = 10_000  # test images
SEEN = 8  # how often accuracy is measured


@dataclass(frozen=True, kw_only=True)
class MNIST(Environment):
    """Images of handwritten digits at ten clients, half of them random, half of one digit each.

    The seed shuffles the 60,000 training images. Client k gets 3000 of the first half, and from the
    second half all images of digit k, in random order. Nobody sees an image twice. Accuracy is
    measured on the 10,000 test images. Models need JAX: `pip install "hedgerow[learning]"`.

    Parameters
    ----------
    examples
        How many images every client sees in a round (tau).
    horizon
        The number of rounds. None (default): 5600 images of each client.
    model
        "full" (default): the network of Zhang et al., 63,242 weights. "small": two layers of 8
        filters and one layer of scores, 2,674 weights. "linear": softmax regression, 7,850 weights.
    start_seed
        The seed of the initial weights, which are public.
    tested
        How many of the 10,000 test images measure accuracy, evenly spaced among them. Default: all.
        Without a GPU that takes as long as training; fewer take less time.

    Examples
    --------
    >>> MNIST(examples=10, model="linear").setting.horizon
    560

    References
    ----------
    Zhang et al. 2024, section V-B.
    """

    examples: int = 5
    horizon: int | None = None
    model: Literal["full", "small", "linear"] = "full"
    start_seed: int = 0
    tested: int = field(default=TESTED, repr=False)  # the losses are the same for all values

    def __post_init__(self) -> None:
        at_least("examples", self.examples, 1)
        at_least("start_seed", self.start_seed, 0)
        at_least("tested", self.tested, 1)
        if not self.tested <= TESTED:
            raise InvalidValue(f"Expected tested={self.tested!r} <= {TESTED}.")
        one_of(self, model=tuple(MODELS))
        if self.horizon is None:
            if not self.rounds >= 1:
                raise InvalidValue(f"Expected examples={self.examples!r} <= {LEAST}.")
        else:
            at_least("horizon", self.horizon, 1)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return LEAST // self.examples if self.horizon is None else self.horizon

    @property
    def setting(self) -> Setting:
        model = model_of(self.model, self.start_seed)
        return Setting(DIGITS, model.weights, self.rounds, family=Batch(model, self.examples))

    def fingerprint(self) -> str:
        images, labels = load("train")
        return fingerprint_of(images, labels, repr(self))

    def measures(self) -> tuple[Measure, ...]:
        family = self.setting.family
        assert isinstance(family, Batch)
        return (TestAccuracy(family.of, lambda seed: _test_records(self.tested), SEEN),)

    def start(self, seed: int) -> tuple[np.ndarray, int]:
        """Return which image each client sees when, (clients, images), and the round."""
        labels, wanted = load("train")[1], self.rounds * self.examples
        order = split(labels, seed)
        for client, own in enumerate(order):
            if len(own) < wanted:
                raise InvalidValue(
                    f"Client {client} has {len(own)} images for seed {seed}, but "
                    f"{self.rounds} rounds of {self.examples} need {wanted}. "
                    f"Set horizon={len(own) // self.examples} or less."
                )
        return np.stack([own[:wanted] for own in order]), 0

    def block(
        self, state: tuple[np.ndarray, int], rounds: int, past_plays: np.ndarray | None
    ) -> tuple[Block, tuple[np.ndarray, int]]:
        order, at = state
        images, labels = load("train")
        wanted = order[:, at * self.examples : (at + rounds) * self.examples]
        wanted = wanted.reshape(DIGITS, rounds, self.examples).swapaxes(0, 1)
        records = np.empty((*wanted.shape, SIDE * SIDE + 1))
        records[..., :-1], records[..., -1] = images[wanted] / 255.0, labels[wanted]
        return Block.of(records.reshape(rounds, DIGITS, -1)), (order, at + rounds)


@lru_cache(maxsize=8)
def model_of(name: str, seed: int) -> Any:
    """Return the model of this name, with initial weights from a seed."""
    from hedgerow.algorithms.learning.models import convolutional

    filters, layers = MODELS[name]
    return convolutional(filters=filters, layers=layers, seed=seed)


def split(labels: np.ndarray, seed: int) -> list[np.ndarray]:
    """Return the images of each client: 3000 random ones and half of those of one digit, shuffled.

    >>> labels = np.arange(60000) % 10
    >>> own = split(labels, seed=0)[7]
    >>> len(own) > 5000, float((labels[own] == 7).mean().round(1))
    (True, 0.6)
    """
    rng = generator(seed, 1)
    order = rng.permutation(len(labels))
    common, rest = order[: DIGITS * RANDOM], order[DIGITS * RANDOM :]
    parts = [common[k * RANDOM : (k + 1) * RANDOM] for k in range(DIGITS)]
    return [
        rng.permutation(np.concatenate([part, rest[labels[rest] == k]]))
        for k, part in enumerate(parts)
    ]


def load(part: Literal["train", "test"]) -> tuple[np.ndarray, np.ndarray]:
    """Return images (count, 784) and labels (count,), as bytes; files are read once."""
    names = (FILES[f"{part} images"], FILES[f"{part} labels"])
    paths = [find_any((f"{name}.gz", name), SOURCE) for name in names]
    return _load(*paths, *(path.stat().st_mtime_ns for path in paths))


@lru_cache(maxsize=2)
def _load(
    images: Path, labels: Path, images_changed: int, labels_changed: int
) -> tuple[np.ndarray, np.ndarray]:
    pixels, digits = read_idx(images), read_idx(labels)
    if pixels.shape[1:] != (SIDE, SIDE) or digits.shape != pixels.shape[:1]:
        raise InvalidValue(
            f"Expected images of {SIDE} x {SIDE} pixels in {images} and as many labels in "
            f"{labels}, got shapes {pixels.shape} and {digits.shape}."
        )
    if digits.size and digits.max() >= DIGITS:
        raise InvalidValue(f"Expected digits 0 to 9 in {labels}, got {int(digits.max())}.")
    return pixels.reshape(len(pixels), -1), digits


@lru_cache(maxsize=1)
def _test_records(count: int) -> Any:
    images, labels = load("test")
    count = min(count, len(images))
    chosen = np.arange(count) * len(images) // count
    images, labels = images[chosen], labels[chosen]
    records = np.empty((len(images), SIDE * SIDE + 1), np.float32)
    records[:, :-1], records[:, -1] = images / np.float32(255), labels
    return records


def read_idx(path: Path) -> np.ndarray:
    """Read an idx file of bytes, packed with gzip or not.

    The file begins with 0, 0, 8 (bytes), the number of axes, and the length of every axis.
    """
    try:
        given = path.read_bytes()
        raw = gzip.decompress(given) if path.suffix == ".gz" else given
    except (OSError, EOFError, zlib.error) as error:
        raise HedgerowError(f"Cannot read {path}: {str(error).splitlines()[0]}") from error
    axes = raw[3] if len(raw) > 3 else 0
    if raw[:3] != b"\x00\x00\x08" or len(raw) < 4 + 4 * axes:
        raise InvalidValue(f"Expected an idx file of bytes in {path}. Get it from {SOURCE}.")
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", axes, 4))
    count = int(np.prod(shape))
    if len(raw) != 4 + 4 * axes + count:
        raise InvalidValue(
            f"Expected {count:,} numbers in {path}, got {len(raw) - 4 - 4 * axes:,}. "
            "The file is not complete; get it again."
        )
    return np.frombuffer(raw, np.uint8, count, 4 + 4 * axes).reshape(shape)
