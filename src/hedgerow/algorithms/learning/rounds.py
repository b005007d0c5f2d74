"""The round of a client, compiled: clipped gradients of its examples, added up on the lattice.

Gradients are numbers of 24 bits. A gradient is scaled down to the clip and cut toward zero to
multiples of 2^-20, so the norm bound holds exactly (`proofs/online_sgd.md#sensitivity`). Sums of
such gradients are whole numbers of steps, in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import inf, isfinite, nextafter, sqrt
from typing import Any, Literal

import numpy as np

from hedgerow.algorithms.learning.extra import need_jax
from hedgerow.algorithms.learning.model import Model
from hedgerow.core.convex import Huber, Logistic, SquaredError
from hedgerow.core.domain import Ball, Domain, Simplex, Space
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units
from hedgerow.core.losses import Family, Linear
from hedgerow.core.validate import expect

Steps = Literal["start", "convex", "smooth", "clipped"]
MOST = 2.0**11  # examples times clip: sums are whole numbers below 2^31
AT_ONCE = 2**25  # numbers in the gradients that are held at the same time


def margin(width: int) -> float:
    """By which share the clip is lowered: more than the rounding errors of a norm.

    >>> margin(100) < 1e-4, margin(63_242) < 0.02
    (True, True)
    """
    return (width + 64) * 2.0**-22


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
    """

    family: Family
    width: int
    size: int
    clip: float
    steps: Steps
    local_step: float

    def __post_init__(self) -> None:
        rule = f"< {MOST:g}: sums must be exact"
        expect(self.size * self.clip < MOST, "examples * clip", self.size * self.clip, rule)
        least = 2.0**-20 * sqrt(self.width)
        rule = f">= {least!r}, one step of the lattice in every direction: use other units"
        expect(self.clip >= least, "clip", self.clip, rule)
        expect(margin(self.width) < 0.5, "weights", self.width, "to be fewer: below 2,000,000")

    def sums(self, point: Array, records: Array) -> tuple[Array, Units]:
        """Return the round sums of clients (*batch, width), from records (*batch, numbers).

        All clients have the same point. Then, for each client: how many of its examples have a loss
        or a gradient that is not finite.
        """
        batch, numbers = records.shape[:-1], self.family.record_width(self.width)
        examples = records.astype(np.float32).reshape(-1, self.size, numbers)
        units, odd, _ = compiled(self).sums(np.asarray(point, np.float32), examples)
        sums = np.asarray(units, np.float64).reshape(*batch, self.width) / UNITS_PER_LOSS
        return sums, np.asarray(odd, np.int64).reshape(batch)


@dataclass(frozen=True)
class Compiled:
    """Compiled functions of a round.

    `sums(point, examples)` returns whole numbers (clients, width), how many examples of each client
    are not finite, and the loss of each example where its gradient is taken. `chunk(project)` plays
    many rounds; `OnlineSGD` uses it.
    """

    sums: Callable[..., Any]
    chunk: Callable[[Domain], Callable[..., Any]]


def charge(family: Family, width: int) -> Callable[[Any, Any], Any]:
    """Return the loss of one record at one flat point, as a function for JAX."""
    jnp = need_jax().numpy
    if isinstance(family, Model):
        return family.charge
    if type(family) is Linear:
        return lambda x, z: z @ x
    if type(family) is Logistic:
        return lambda x, z: jnp.logaddexp(0.0, -z[width] * (z[:width] @ x))
    if type(family) is SquaredError:
        return lambda x, z: (z[:width] @ x - z[width]) ** 2 / 2
    if type(family) is Huber:
        most = family.threshold

        def huber(x: Any, z: Any) -> Any:
            size = jnp.abs(z[:width] @ x - z[width])
            square = jnp.minimum(size, most)
            return square * (size - square / 2)

        return huber
    raise Unsupported(
        f"{type(family).__name__} has no gradient in JAX. Write its loss as hr.Model(loss, ...)."
    )


def projection(domain: Domain) -> Callable[[Any], Any]:
    """Return the projection onto a domain, as a function for JAX."""
    jnp = need_jax().numpy
    if isinstance(domain, Space):
        return lambda x: x
    if isinstance(domain, Ball):
        return lambda x: x * jnp.minimum(1.0, domain.radius / jnp.maximum(1e-30, norm(x)))
    if isinstance(domain, Simplex):

        def simplex(x: Any) -> Any:
            near = jnp.maximum(x - x.max(), -1.0)
            falling = -jnp.sort(-near)
            levels = (jnp.cumsum(falling) - 1.0) / jnp.arange(1, len(falling) + 1)
            level = levels[(falling > levels).sum() - 1]
            return jnp.maximum(near - level, 0.0)

        return simplex
    raise Unsupported(f"{type(domain).__name__} has no projection in JAX.")


def norm(x: Any) -> Any:
    """Return the Euclidean norm of a vector of JAX; infinite from about 1e19 on."""
    return need_jax().numpy.sqrt((x * x).sum())


def compiled(plan: LocalRound) -> Compiled:
    """Return the compiled functions of a round.

    Plans that differ only in clip and local step share them, since compiling takes seconds.
    """
    shared = _compiled(plan.family, plan.width, plan.size, plan.steps == "start")
    limit = np.float32(nextafter(plan.clip * (1 - margin(plan.width)), 0.0))
    given = limit, np.float32(plan.local_step / UNITS_PER_LOSS)
    return Compiled(
        partial(shared.sums, *given), lambda domain: partial(shared.chunk(domain), *given)
    )


@lru_cache(maxsize=128)
def _compiled(family: Family, width: int, size: int, start: bool) -> Compiled:
    """Return the compiled functions, whose first arguments are the longest gradient and the step.

    The step is that of one unit of the lattice.
    """
    jax = need_jax()
    jnp, units = jax.numpy, np.float32(UNITS_PER_LOSS)
    gradient = jax.value_and_grad(charge(family, width))

    def clipped(limit: Any, point: Any, record: Any) -> tuple[Any, Any, Any]:
        """The clipped gradient of one example in whole steps; zero if it is not finite.

        An error instead would show which of two neighbouring inputs there is. Then, whether loss or
        gradient are not finite, and the loss. Conversion to whole numbers cuts toward zero.
        """
        loss, found = gradient(point, record)
        length = norm(found)
        scale = jnp.minimum(1.0, limit / jnp.where(length > 0, length, 1.0)) * units
        whole = jnp.where(jnp.isfinite(length), found * scale, 0.0).astype(jnp.int32)
        return whole, ~(jnp.isfinite(length) & jnp.isfinite(loss)), loss

    def at_start(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        found, odd, losses = jax.vmap(clipped, (None, None, 0))(limit, point, examples)
        return found.sum(axis=0), odd.sum(), losses

    def in_steps(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        def after(total: Any, record: Any) -> tuple[Any, Any]:
            found, *rest = clipped(limit, point - step * total.astype(jnp.float32), record)
            return total + found, rest

        total, (odd, losses) = jax.lax.scan(after, jnp.zeros(width, jnp.int32), examples)
        return total, odd.sum(), losses

    client = at_start if start else in_steps

    def everyone(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        some = max(1, AT_ONCE // (width * (size if start else 1)))
        own = partial(client, limit, step, point)
        if some >= len(examples):
            return jax.vmap(own)(examples)
        return jax.lax.map(own, examples, batch_size=some)

    def chunk(domain: Domain) -> Callable[..., Any]:
        project = projection(domain)

        def played(
            limit: Any, step: Any, base: Any, examples: Any, pending: Any, rate: Any, keep: Any
        ) -> Any:
            """Play rounds whose models, apart from what is summed up here, are in `base`."""

            def one(carry: Any, given: Any) -> tuple[Any, Any]:
                summed, trail, new = carry
                model, own = given
                summed = summed + new
                trail = keep * trail + (1 - keep) * summed
                found, *rest = everyone(limit, step, project(model - rate * trail), own)
                return (summed, trail, found.astype(jnp.float32).sum(axis=0)), (found, *rest)

            nothing = jnp.zeros(width, jnp.float32)
            return jax.lax.scan(one, (nothing, nothing, pending), (base, examples))[1]

        return jax.jit(in_24_bits(played))

    return Compiled(jax.jit(in_24_bits(everyone)), lru_cache(maxsize=8)(chunk))


def in_24_bits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose products have all 24 bits, as proofs assume; GPUs may use fewer."""

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
