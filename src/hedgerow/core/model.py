"""A model as a loss family: the points are its weights, and the charge is the user's loss.

On the wire a model is one flat vector. Inside a client it is the tree of parameters that the loss
function takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from math import inf, prod
from typing import Any

import numpy as np

from hedgerow.core.domain import Ball, Domain, Space
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.extras import need_jax
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Clipped, Family, Move, Norm, Rounding, finite, refuse
from hedgerow.core.record import Record, example
from hedgerow.core.validate import at_least, positive

Example = tuple[Any, Any]
LARGEST = 100.0  # the default largest charge


@dataclass(frozen=True, eq=False, repr=False)
class Model(Family):
    """A model with a loss function in JAX: any tree of parameters, any architecture.

    A record is one example: the numbers of its features, row by row, then its target. Give several
    examples in every round with `hr.Batch(model, size)`.

    Parameters
    ----------
    loss
        `loss(params, (features, target))` returns the loss of one example, a number. Write it with
        `jax.numpy`, at the top level of a module.
    params
        The tree of parameters with which training starts: arrays in dicts, lists and tuples.
    features
        The shape of the features of one example.
    classes
        The number of classes, if the target is the number of a class, from 0 on; it is then
        a whole number for `loss`. None (default): the target is any number.
    scores
        `scores(params, features)` returns the score of every class; the largest wins. It is used
        to measure accuracy. None (default): accuracy is not measured.
    steepest
        The largest norm of a gradient of the loss, if you know it. None (default): unknown.
    smooth
        The smoothness of the loss, if you know it: how fast a gradient changes, at most. Local
        steps leave `radius`; the certificate says how far `steepest`, `smooth` and `convex` must
        hold. None (default): unknown.
    convex
        Whether the loss is convex in the parameters. Default: False.
    radius
        The largest norm of the weights: longer models are projected. Local steps whose noise counts
        on `smooth` need it where the server is not trusted. None (default): no limit.
    largest
        Losses above this number, and losses that are not a number, are charged as this number;
        nothing else changes. Default: 100.

    Examples
    --------
    >>> import hedgerow as hr
    >>> model = hr.Model(squared_error, {"slope": [0.5, 0.0], "offset": 1.0}, features=(2,))
    >>> model
    Model(squared_error, weights=3, features=(2,))
    >>> float(model.value([2.0, 0.0, 1.0], model.start))
    1.0
    >>> model.tree(model.gradient([2.0, 0.0, 1.0], model.start))
    {'offset': array(2., dtype=float32), 'slope': array([4., 0.], dtype=float32)}
    """

    loss: Callable[[Any, Example], Any]
    params: Any
    features: tuple[int, ...]
    classes: int | None = None
    scores: Callable[[Any, Any], Any] | None = None
    steepest: float | None = None
    smooth: float | None = None
    convex: bool = False
    radius: float | None = None
    largest: float = LARGEST

    def __post_init__(self) -> None:
        jax = need_jax()
        for name in ("steepest", "smooth", "radius", "largest"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.classes is not None:
            at_least("classes", self.classes, 2)
        shape = tuple(self.features) if isinstance(self.features, tuple | list) else ()
        if not shape or not all(isinstance(n, int) and n >= 1 for n in shape):
            raise InvalidValue(f"Expected features={self.features!r} to be a shape, such as (4,).")
        object.__setattr__(self, "features", shape)
        leaves, kind = jax.tree.flatten(self.params, is_leaf=_is_numbers)
        arrays = [np.asarray(leaf) for leaf in leaves]
        if not arrays or any(a.dtype.kind not in "biuf" or not a.size for a in arrays):
            raise InvalidValue("Expected params to be a tree of arrays of numbers, none empty.")
        arrays = [np.asarray(a, np.float32) for a in arrays]
        if not all(np.isfinite(a).all() for a in arrays):
            raise InvalidValue("Expected params of finite numbers.")
        object.__setattr__(self, "params", jax.tree.unflatten(kind, arrays))
        if self.radius is not None and not self.domain.contains(self.start):
            raise InvalidValue(f"Expected params of norm at most radius={self.radius!r}.")
        self._check_loss(jax)

    def _check_loss(self, jax: Any) -> None:
        """Refuse a loss that is no number; nothing is computed for it."""
        features = jax.ShapeDtypeStruct(self.features, np.float32)
        target = jax.ShapeDtypeStruct((), np.float32 if self.classes is None else np.int32)
        name = getattr(self.loss, "__name__", repr(self.loss))
        try:
            found = jax.eval_shape(self.loss, self.params, (features, target))
        except Exception as error:
            why = (str(error).splitlines() or [""])[0]
            raise InvalidValue(
                f"{name}(params, (features, target)) failed on features of shape {self.features}: "
                f"{type(error).__name__} {why}. Check the names and shapes in params, and use "
                "jax.numpy."
            ) from error
        if getattr(found, "shape", None) != () or np.dtype(found.dtype).kind != "f":
            raise InvalidValue(
                f"Expected {name}(params, (features, target)) to return one number, got {found}."
            )

    @classmethod
    def stand_in(cls, name: str, weights: int, features: tuple[int, ...], **declared: Any) -> Model:
        """Return a model with these facts and no loss: enough for a certificate, not to train.

        >>> model = Model(squared_error, {"slope": [0.5], "offset": 1.0}, features=(1,), smooth=2.0)
        >>> repr(Model.stand_in("squared_error", 2, (1,), smooth=2.0)) == repr(model)
        True
        """

        def loss(params: Any, pair: Example) -> Any:
            return params[0]

        loss.__name__ = name
        return cls(loss, np.zeros(weights, np.float32), features, **declared)

    @cached_property
    def weights(self) -> int:
        """How many weights the model has: the width of a point."""
        return sum(leaf.size for leaf in need_jax().tree.leaves(self.params))

    @cached_property
    def blank(self) -> Model:
        """The model with all parameters zero: what is compiled for it serves all first weights."""
        return replace(self, params=need_jax().tree.map(np.zeros_like, self.params))

    @property
    def start(self) -> Array:
        """The parameters with which training starts, as a flat vector."""
        return self.vector(self.params)

    def vector(self, params: Any) -> Array:
        """Return a tree of parameters as one flat vector."""
        jax = need_jax()
        leaves, kind = jax.tree.flatten(params, is_leaf=_is_numbers)
        own, expected = jax.tree.flatten(self.params)
        shapes = [np.shape(leaf) for leaf in leaves]
        if kind != expected or shapes != [leaf.shape for leaf in own]:
            raise InvalidValue(
                f"Expected parameters like those of {self!r}, {expected} with shapes "
                f"{[leaf.shape for leaf in own]}, got {kind} with shapes {shapes}."
            )
        return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in leaves])

    def tree(self, point: Array) -> Any:
        """Return a flat vector as a tree of parameters."""
        return need_jax().tree.map(np.asarray, self.unravel(np.asarray(point, np.float32)))

    def unravel(self, point: Any) -> Any:
        """Return a flat vector, of numpy or JAX, as a tree of parameters."""
        jax = need_jax()
        leaves, kind = jax.tree.flatten(self.params)
        if point.shape != (self.weights,):
            raise InvalidValue(
                f"Expected a vector of {self.weights} weights, as {self!r} has, "
                f"got shape {point.shape}."
            )
        cuts = np.cumsum([0, *(leaf.size for leaf in leaves)]).tolist()
        parts = zip(cuts, cuts[1:], leaves, strict=False)
        return jax.tree.unflatten(kind, [point[a:b].reshape(one.shape) for a, b, one in parts])

    def example(self, record: Any) -> Example:
        """Return the features and the target of a record, of numpy or JAX."""
        target = record[-1]
        return (
            record[:-1].reshape(self.features),
            target if self.classes is None else target.astype(np.int32),
        )

    def charge(self, point: Any, record: Any) -> Any:
        """Return the loss of one record at one flat point, as a function for JAX."""
        return self.loss(self.unravel(point), self.example(record))

    @property
    def trained(self) -> bool:
        return True

    @property
    def domain(self) -> Domain:
        return Space() if self.radius is None else Ball(self.radius)

    @property
    def bounds(self) -> tuple[float, float]:
        return (-self.largest, self.largest)

    @property
    def record(self) -> Record:
        words = f"({prod(self.features)} features, "
        answer = "target" if self.classes is None else "label"
        where = "a target)" if self.classes is None else f"a label in 0..{self.classes - 1})"
        return example(self.bounds, words + where, answer)

    def record_width(self, width: int) -> int:
        return prod(self.features) + 1

    def point_width(self, numbers: int) -> int:
        if numbers != self.record_width(0):
            raise InvalidValue(
                f"Expected records of {self.record_width(0)} numbers, features and a target, "
                f"got {numbers}."
            )
        return self.weights

    def value(self, records: Array, plays: np.ndarray) -> Array:
        return self.charged(self._each(_compiled(self)[0], records, plays, ()))

    def charged(self, losses: Array) -> Array:
        """Return what is charged for computed losses: at most `largest`."""
        return np.clip(np.nan_to_num(losses, nan=self.largest), -self.largest, self.largest)

    def gradient(self, records: Array, points: Array) -> Array:
        return self._each(_compiled(self)[1], records, points, (self.weights,))

    def right(self, records: Array, points: Array) -> np.ndarray:
        """Whether the class with the largest score is the label of each record."""
        if self.scores is None or self.classes is None:
            raise Unsupported("Accuracy needs a model with `scores` and `classes`.")
        return self._each(_compiled(self)[2], records, points, ()) > 0

    def _each(self, compiled: Any, records: Array, points: Array, shape: tuple[int, ...]) -> Array:
        """Apply a function of one point and many records; leading axes broadcast.

        Where many records share a point, they are one call.
        """
        rows, given = np.asarray(records, np.float32), np.asarray(points)
        lead = np.broadcast_shapes(rows.shape[:-1], given.shape[:-1])
        given = np.broadcast_to(given, (*lead, given.shape[-1]))
        varying = max((k + 1 for k in range(len(lead)) if _varies(given, k)), default=0)
        rows = np.broadcast_to(rows, (*lead, rows.shape[-1]))
        rows = rows.reshape(prod(lead[:varying]), -1, rows.shape[-1])
        some = given[(*[slice(None)] * varying, *[0] * (len(lead) - varying))]
        some = np.asarray(some, np.float32).reshape(len(rows), -1)
        found = [np.asarray(compiled(x, r), float) for x, r in zip(some, rows, strict=True)]
        return np.array(found).reshape((*lead, *shape))

    def gradient_bound(self, norm: Norm, width: int) -> float:
        if self.steepest is None:
            return inf
        return self.steepest * (width**0.5 if norm == "l1" else 1.0)

    def smoothness(self, norm: Move, width: int) -> float:
        return inf if self.smooth is None else self.smooth

    def rounding(self, width: int, reach: float) -> Rounding:
        return Rounding(inf, inf)  # of a user's function in float32: nothing is certified

    def check(
        self, name: str, records: Array, first_round: int = 0, present: np.ndarray | None = None
    ) -> None:
        counted = np.ones(records.shape[:-1], bool) if present is None else present
        refuse(
            counted & ~np.isfinite(records).all(axis=-1),
            first_round,
            f"Expected finite numbers in every {name} ({{place}}). Remove or repair it.",
        )
        if self.classes is None:
            return
        labels = records[..., -1]
        wrong = counted & ~((labels >= 0) & (labels < self.classes) & (labels % 1 == 0))
        text = f"Expected the label of every {name} to be in 0..{self.classes - 1}"
        refuse(wrong, first_round, text + " ({place}).")

    def clip(self, records: Array) -> Clipped:
        """Refuse records that are not allowed: every finite example is."""
        given = finite(records)
        self.check("record", given)
        return Clipped(given, 0)

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        """All that decides what the model is."""
        jax = need_jax()
        leaves, kind = jax.tree.flatten(self.params)
        total = hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()
        plain = tuple(getattr(self, fact.name) for fact in DECLARED)
        shapes = (x.shape for x in leaves)
        return (self.loss, self.scores, str(kind), *shapes, total, self.features, plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        """The name of the loss, and all facts that a certificate depends on."""
        name = getattr(self.loss, "__name__", "")
        shown = {"weights": self.weights, "features": self.features}
        for fact in DECLARED:
            value = getattr(self, fact.name)
            shown |= {} if value == fact.default else {fact.name: value}
        facts = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        return f"Model({name if name.isidentifier() else 'loss'}, {facts})"


DECLARED = [f for f in fields(Model) if f.name not in ("loss", "params", "features", "scores")]


def _is_numbers(node: Any) -> bool:
    """Whether a node is a list of numbers, which stands for one array."""
    return isinstance(node, list) and all(isinstance(x, int | float) for x in node) and bool(node)


def _varies(points: Array, axis: int) -> bool:
    return points.shape[axis] > 1 and points.strides[axis] != 0


def squared_error(params: Any, pair: Example) -> Any:
    """Return the squared error of a linear model: the smallest example of a loss.

    >>> squared_error({"slope": np.array([2.0]), "offset": 1.0}, (np.array([1.0]), 2.5)).item()
    0.25
    """
    features, target = pair
    return (features @ params["slope"] + params["offset"] - target) ** 2


@lru_cache(maxsize=64)
def _compiled(model: Model) -> tuple[Any, Any, Any]:
    """Loss, gradient and accuracy of one flat point at many records, compiled."""
    jax = need_jax()

    def right(point: Any, record: Any) -> Any:
        features, label = model.example(record)
        assert model.scores is not None
        return model.scores(model.unravel(point), features).argmax() == label

    def over(function: Any) -> Any:
        return jax.jit(jax.vmap(function, (None, 0)))

    return over(model.charge), over(jax.grad(model.charge)), over(right)
