"""Models to start with: convolutional networks and softmax regression for images.

Logistic regression with two classes is the loss family `hr.Logistic`, which needs no model.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod, sqrt
from typing import Any

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import need_jax
from hedgerow.core.model import Example, Model
from hedgerow.core.validate import at_least


def convolutional(
    filters: tuple[int, ...] = (32, 32),
    layers: tuple[int, ...] = (64, 32),
    *,
    image: tuple[int, int] = (28, 28),
    classes: int = 10,
    seed: int = 0,
) -> Model:
    """Return a convolutional network with cross-entropy loss.

    Every layer of 3 x 3 filters is followed by ReLU and a 2 x 2 maximum, then fully connected
    layers with ReLU, then one score for each class. The defaults are the network of Zhang et al.
    2024. Fewer weights need less noise: `filters=(8, 8), layers=()` often learns more under
    privacy. Without filters and layers it is softmax regression.

    Parameters
    ----------
    filters
        The number of filters in each convolutional layer.
    layers
        The width of each hidden layer that is fully connected.
    image
        Height and width of an image.
    classes
        The number of classes, at least 2.
    seed
        The seed of the first weights: normal, with variance 2 / inputs. They are public.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.convolutional()
    Model(cross_entropy, weights=63242, features=(28, 28), classes=10)
    >>> hr.convolutional(filters=(8, 8), layers=()).weights
    2674
    >>> hr.convolutional(filters=(), layers=()).weights
    7850
    """
    for name, counts in (("filters", filters), ("layers", layers), ("image", image)):
        for count in counts:
            at_least(name, count, 1)
    if len(image) != 2:
        raise InvalidValue(f"Expected image={image!r} to be a height and a width.")
    at_least("classes", classes, 2)
    at_least("seed", seed, 0)
    return _network(tuple(filters), tuple(layers), tuple(image), classes, seed)


@lru_cache(maxsize=32)
def _network(
    filters: tuple[int, ...],
    layers: tuple[int, ...],
    image: tuple[int, ...],
    classes: int,
    seed: int,
) -> Model:
    side, channels, shapes = image, 1, list[tuple[int, int]]()
    for count in filters:
        shapes.append((9 * channels, count))
        side, channels = tuple((length - 2) // 2 for length in side), count
        if not min(side) >= 1:
            raise InvalidValue(
                f"Expected filters={filters!r} to be fewer for images of shape {image}."
            )
    inputs = prod(side) * channels
    for width in (*layers, classes):
        shapes.append((inputs, width))
        inputs = width
    weights = _weights(shapes, seed, trained=bool(filters or layers))
    params = {"filters": weights[: len(filters)], "layers": weights[len(filters) :]}
    return Model(cross_entropy, params, features=image, classes=classes, scores=class_scores)


def _weights(shapes: list[tuple[int, int]], seed: int, trained: bool) -> list[tuple[Any, Any]]:
    """First weights and offsets of every layer; zero where there is only one.

    Each layer takes the beginning of a draw of the largest size, so that one size is compiled.
    """
    jax = need_jax()
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    sizes = [prod(shape) for shape in shapes]
    drawn = [np.asarray(jax.random.normal(key, (max(sizes),))) for key in keys]
    return [
        (
            normal[:size].reshape(shape) * np.float32(trained * sqrt(2 / shape[0])),
            np.zeros(shape[1], np.float32),
        )
        for normal, size, shape in zip(drawn, sizes, shapes, strict=True)
    ]


def class_scores(params: Any, image: Any) -> Any:
    """Return the score of every class for one image (height, width).

    >>> class_scores({"filters": [], "layers": [(np.eye(4), np.ones(4))]}, np.ones((2, 2))).tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    jnp = need_jax().numpy
    found = image[:, :, None]
    for weights, offsets in params["filters"]:
        found = _largest(jnp.maximum(_patches(found) @ weights + offsets, 0.0))
    found = found.reshape(-1)
    *hidden, last = params["layers"]
    for weights, offsets in hidden:
        found = jnp.maximum(found @ weights + offsets, 0.0)
    return found @ last[0] + last[1]


def cross_entropy(params: Any, pair: Example) -> Any:
    """Return minus the log of the probability that the scores give to the label.

    >>> params = {"filters": [], "layers": [(np.zeros((4, 2)), np.zeros(2))]}
    >>> round(float(cross_entropy(params, (np.ones((2, 2)), 1))), 4)
    0.6931
    """
    image, label = pair
    scores = class_scores(params, image)
    return need_jax().nn.logsumexp(scores) - scores[label]


def _patches(image: Any) -> Any:
    """All 3 x 3 patches of an image (height, width, channels), as rows."""
    jnp = need_jax().numpy
    height, width = image.shape[0] - 2, image.shape[1] - 2
    shifts = [(i, j) for i in range(3) for j in range(3)]
    return jnp.concatenate([image[i : i + height, j : j + width] for i, j in shifts], axis=-1)


def _largest(image: Any) -> Any:
    """The largest number of every 2 x 2 square; a last odd row or column is left out."""
    height, width, channels = image.shape
    whole = image[: height // 2 * 2, : width // 2 * 2]
    return whole.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3))
