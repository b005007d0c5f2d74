"""The round of a client: clipped gradients of its examples, added up on the lattice.

A gradient is scaled down to the clip and put on multiples of 2^-20, so that the norm bound holds
exactly (`proofs/online_sgd.md#sensitivity`). Where a family knows its gradients, and they are taken
at the start of the round, that is numpy, with 53 bits. All else is compiled: gradients of 24 bits,
cut toward zero, whose sums are whole numbers of steps, in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from math import inf, isfinite, isqrt, nextafter, sqrt
from typing import Any, Literal

import numpy as np

from hedgerow.core.convex import Huber, Logistic, SquaredError
from hedgerow.core.domain import Ball, Domain, Simplex, Space, length
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.extras import need_jax
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units, round_to_lattice
from hedgerow.core.losses import Family, Linear
from hedgerow.core.model import Model

Steps = Literal["start", "convex", "smooth", "clipped"]
Precision = Literal["24 bits", "device"]
MOST = 2.0**11  # examples times clip: sums are whole numbers below 2^31
ONE_LEVEL = 2**10  # squares of a norm that are added up at once
LONGEST = 2.0**1000  # longer gradients count as not finite: no float shortens them exactly
ALONE = {"cpu": 2**14}  # weights of an array whose gradient may be kept apart: joining copies it
ALONE_THERE = 2**17  # the same on an accelerator
AT_ONCE = 2**25  # numbers in the gradients that are held at the same time


def margin(width: int) -> float:
    """By which share the clip is lowered: more than the rounding errors of a norm.

    >>> margin(100) < 4e-5, margin(63_242) < 1e-4, margin(20_000_000) < 2e-3
    (True, True, True)
    """
    row = _row(width)
    return (row + width // row + 64) * 2.0**-23


def _row(width: int) -> int:
    """How many squares are added up before their sums are; all of them for few."""
    return width if width <= ONE_LEVEL else isqrt(width)


@dataclass(frozen=True)
class LocalRound:
    """What one client does in one round.

    Parameters
    ----------
    family
        The loss family of one example.
    width
        The number of weights.
    size
        How many examples there are.
    clip
        The longest gradient of one example.
    steps
        Where gradients are taken: "start", or after local steps.
    local_step
        The size of a local step; not used for "start".
    precision
        The precision of compiled products: "24 bits", as proofs for "convex" and "smooth" assume,
        or what the device takes by default, such as TF32 on a GPU.
    """

    family: Family
    width: int
    size: int
    clip: float
    steps: Steps
    local_step: float
    precision: Precision = "24 bits"

    def __post_init__(self) -> None:
        if not self.size * self.clip < MOST:
            raise InvalidValue(
                f"Expected examples * clip={self.size * self.clip!r} < {MOST:g}: sums must "
                "be exact."
            )
        least = 2.0**-20 * sqrt(self.width)
        if not self.clip >= least:
            raise InvalidValue(
                f"Expected clip={self.clip!r} >= {least!r}, one step of the lattice in every "
                "direction: use other units."
            )

    @property
    def known(self) -> bool:
        """Whether the family itself computes all gradients."""
        return known(self.family, self.steps == "start")

    @property
    def limit(self) -> float:
        """The longest gradient before it is put on the lattice: the clip less a margin."""
        if self.known:
            half = sqrt(self.width) / (2 * UNITS_PER_LOSS)
            return (self.clip - half) * (1 - (self.width + 64) * 2.0**-50)
        return nextafter(self.clip * (1 - margin(self.width)), 0.0)

    def sums(self, point: Array, records: Array) -> tuple[Array, Units]:
        """Return the round sums of clients (*batch, width), from records (*batch, numbers).

        All clients have the same point. Then, for each client: how many of its examples have a loss
        or a gradient that is not finite.
        """
        batch, numbers = records.shape[:-1], self.family.record_width(self.width)
        if self.known:
            return self._rounded(np.asarray(point), records.reshape(*batch, self.size, numbers))
        examples = records.astype(np.float32).reshape(-1, self.size, numbers)
        start = self.steps == "start"
        compiled = _compiled(self.family, self.width, self.size, start, self.precision)
        limit, step = np.float32(self.limit), np.float32(self.local_step / UNITS_PER_LOSS)
        units, odd = compiled(limit, step, np.asarray(point, np.float32), examples)
        sums = np.asarray(units, np.float64).reshape(*batch, self.width) / UNITS_PER_LOSS
        return sums, np.asarray(odd, np.int64).reshape(batch)

    def _rounded(self, point: Array, examples: Array) -> tuple[Array, Units]:
        with np.errstate(all="ignore"):  # a warning would show which of two inputs there is
            found = self.family.gradient(examples, point)
            sizes = length(found)
            finite = np.asarray(sizes < LONGEST)
            found = np.where(finite[..., None], found, 0.0)
            short = found * np.minimum(1.0, self.limit / np.where(sizes > 0, sizes, 1.0))[..., None]
        return round_to_lattice(short).sum(axis=-2), (~finite).sum(axis=-1)


def known(family: Family, start: bool) -> bool:
    """Whether the family itself computes the gradients of a round that are taken at its start."""
    return start and not isinstance(family, Model)


def of_score(family: Family) -> Callable[[Any, Any], Any]:
    """Return the loss by score and target, as a function for JAX; a linear loss is its score."""
    jnp = need_jax().numpy
    if type(family) is Linear:
        return lambda score, target: score
    if type(family) is Logistic:
        return lambda score, target: jnp.logaddexp(0.0, -target * score)
    if type(family) is SquaredError:
        return lambda score, target: (score - target) ** 2 / 2
    if type(family) is Huber:
        most = family.threshold

        def huber(score: Any, target: Any) -> Any:
            size = jnp.abs(score - target)
            square = jnp.minimum(size, most)
            return square * (size - square / 2)

        return huber
    raise Unsupported(
        f"{type(family).__name__} has no gradient in JAX. Write its loss as hr.Model(loss, ...)."
    )


def charge(family: Family, width: int) -> Callable[[Any, Any], Any]:
    """Return the loss of one record at one flat point, as a function for JAX."""
    if isinstance(family, Model):
        return family.charge
    loss = of_score(family)
    return lambda x, z: loss(z[:width] @ x, z[-1])


def projection(domain: Domain) -> Callable[[Any], Any]:
    """Return the projection onto a domain, as a function for JAX."""
    jnp = need_jax().numpy
    if isinstance(domain, Space):
        return lambda x: x
    if isinstance(domain, Ball):
        return lambda x: x * jnp.minimum(1.0, domain.radius / jnp.maximum(1e-30, (x @ x) ** 0.5))
    if isinstance(domain, Simplex):

        def simplex(x: Any) -> Any:
            near = jnp.maximum(x - x.max(), -1.0)
            falling = -jnp.sort(-near)
            levels = (jnp.cumsum(falling) - 1.0) / jnp.arange(1, len(falling) + 1)
            level = levels[(falling > levels).sum() - 1]
            return jnp.maximum(near - level, 0.0)

        return simplex
    raise Unsupported(f"{type(domain).__name__} has no projection in JAX.")


def norm(*parts: Any) -> Any:
    """Return the Euclidean norm of a vector of JAX, also in parts; infinite from about 1e19 on.

    Squares are added up in rows of about the root of their number, and then the sums of the rows:
    so `margin` grows like the root. The barrier keeps the compiler from merging the two sums.
    """
    jax = need_jax()
    row = _row(sum(map(len, parts)))
    return jax.numpy.sqrt(sum(_squares(part, row) for part in parts))


def _squares(x: Any, row: int) -> Any:
    """The sum of squares, of rows of this length."""
    jax = need_jax()
    squares, count = x * x, len(x) // row
    if jax.default_backend() == "cpu":  # where columns are added up fastest
        head = squares[: row * count].reshape(row, count).sum(axis=0)
    else:
        head = squares[: row * count].reshape(count, row).sum(axis=1)
    head = jax.lax.optimization_barrier(head) if count > 1 else head
    return head.sum() + squares[row * count :].sum()


def clipping(
    family: Family, width: int, apart: bool = False
) -> Callable[[Any, Any, Any], tuple[Any, Any, Any]]:
    """Return `clipped(limit, point, record)`, as a function for JAX.

    It returns the clipped gradient of one example in whole steps, in parts that make up the vector
    one after the other: large arrays `apart`, or all in one. It is zero if it is not finite: an
    error instead would show which of two neighbouring inputs there is. Then, whether loss or
    gradient are not finite, and the loss. Conversion to whole numbers cuts toward zero.
    """
    jax = need_jax()
    jnp, units = jax.numpy, np.float32(UNITS_PER_LOSS)

    def value_and_gradient(point: Any, record: Any) -> tuple[Any, Any]:
        if not isinstance(family, Model):
            value, found = jax.value_and_grad(charge(family, width))(point, record)
            return value, (found,)
        # by the tree, joined afterwards: the gradient of a slice of a vector is as long as it
        tree, given = family.unravel(point), family.example(record)
        value, found = jax.value_and_grad(family.loss)(tree, given)
        flat = [leaf.reshape(-1) for leaf in jax.tree.leaves(found)]
        own = partial(_own_part, least=_alone(width)) if apart else (lambda leaf: 0)
        parts = [list(some) for _, some in groupby(enumerate(flat), own)]
        return value, tuple(jnp.concatenate([leaf for _, leaf in some]) for some in parts)

    def clipped(limit: Any, point: Any, record: Any) -> tuple[Any, Any, Any]:
        loss, found = value_and_gradient(point, record)
        length = norm(*found)
        scale = jnp.minimum(1.0, limit / jnp.where(length > 0, length, 1.0)) * units
        finite = jnp.isfinite(length)
        whole = tuple(jnp.where(finite, part * scale, 0.0).astype(jnp.int32) for part in found)
        return whole, ~(finite & jnp.isfinite(loss)), loss

    return clipped


def _alone(width: int) -> int:
    """From how many weights on an array is a part by itself: parts are fewer than the root."""
    return max(ALONE.get(need_jax().default_backend(), ALONE_THERE), 4 * isqrt(width))


def _own_part(leaf: tuple[int, Any], least: int) -> int:
    """Which leaves form one part: large ones alone, small neighbours together."""
    return leaf[0] if len(leaf[1]) >= least else -1


def joined(parts: Sequence[Any]) -> Any:
    """The vector of some parts."""
    return parts[0] if len(parts) == 1 else need_jax().numpy.concatenate(parts)


def stepping(family: Family, width: int) -> Callable[..., tuple[Any, Any, Any]]:
    """Return `summed(limit, step, point, examples)` for one client that takes local steps.

    `step` is that of one unit of the lattice. It returns whole steps, which examples are not
    finite, and all losses.
    """
    jax, clipped = need_jax(), clipping(family, width)

    def summed(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        def after(total: Any, record: Any) -> tuple[Any, Any]:
            found, *rest = clipped(limit, point - step * total.astype(np.float32), record)
            return total + joined(found), rest

        total, (odd, losses) = jax.lax.scan(after, jax.numpy.zeros(width, np.int32), examples)
        return total, odd, losses

    return summed


@lru_cache(maxsize=128)
def _compiled(
    family: Family, width: int, size: int, start: bool, precision: Precision
) -> Callable[..., Any]:
    """Return `sums(limit, step, point, examples)`: whole numbers (clients, width), and how many
    examples of each client are not finite. Plans that differ only in clip and step share it, since
    compiling takes seconds.
    """
    jax = need_jax()
    clipped, stepped = clipping(family, width), stepping(family, width)

    def at_start(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any]:
        found, odd, _ = jax.vmap(clipped, (None, None, 0))(limit, point, examples)
        return joined([part.sum(axis=0) for part in found]), odd.sum()

    def in_steps(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any]:
        found, odd, _ = stepped(limit, step, point, examples)
        return found, odd.sum()

    def everyone(limit: Any, step: Any, point: Any, examples: Any) -> Any:
        some = max(1, AT_ONCE // (width * (size if start else 1)))
        own = partial(at_start if start else in_steps, limit, step, point)
        if some >= len(examples):
            return jax.vmap(own)(examples)
        return jax.lax.map(own, examples, batch_size=some)

    return jax.jit(with_precision(everyone, precision))


def with_precision(function: Callable[..., Any], precision: Precision) -> Callable[..., Any]:
    """Return a function whose products have all 24 bits, or as few as the device takes."""
    if precision == "device":
        return function

    def traced(*arguments: Any) -> Any:
        with need_jax().default_matmul_precision("highest"):
            return function(*arguments)

    return traced


def rounding(clip: float, width: int) -> float:
    """Bounds how far the clipped gradient in steps is from the clipped gradient."""
    return (sqrt(width) * 2.0**-20 + 2 * margin(width) * clip) * (1 + 2.0**-40)


def local_reach(plan: LocalRound) -> float:
    """Bounds the norm of every point where a gradient is taken; local steps leave the domain."""
    domain = plan.family.domain
    if isinstance(domain, Space):
        return inf
    radius = domain.radius if isinstance(domain, Ball) else 1.0
    return radius + plan.local_step * plan.clip * plan.size


def _inexact(plan: LocalRound, smooth: float) -> float:
    """Bounds the error of a gradient from points and scores of 24 bits; 0 where it is assumed."""
    reach = local_reach(plan)
    if not isfinite(reach) or not isfinite(smooth):
        return 0.0
    return smooth * reach * (plan.width + 4) * 2.0**-22


def round_sensitivity(plan: LocalRound, smooth: float) -> float:
    """Bounds the change of a round sum if one example changes (`proofs/online_sgd.md`).

    `smooth` is the smoothness of the loss; it counts for "convex" and "smooth".

    >>> plan = LocalRound(Linear(), 1, 10, 1.0, "smooth", 0.3)
    >>> round(round_sensitivity(plan, 1.0) / 2, 2)
    7.71
    """
    clip, step = plan.clip, plan.local_step
    if plan.steps == "start":
        return 2 * clip
    off = rounding(clip, plan.width) + _inexact(plan, smooth)
    apart = 2 * clip  # in units of the local step
    for _ in range(plan.size - 1):
        grown = 2 * clip
        if plan.steps == "smooth":
            grown = min(grown, step * smooth * apart + 2 * off)
        elif plan.steps == "convex":
            grown = min(grown, max(0.0, step * smooth - 2.0) * apart + 2 * off)
        apart = nextafter((apart + grown) * (1 + 2.0**-50), inf)
    return min(apart, 2 * clip * plan.size)
