"""A whole game of online learning on one device, on a CPU or an accelerator: one compiled loop.

Decoding undoes encoding, so the decoded sums are the exact sums plus B z: only noise is filtered
here, and of the noise only the sum of all clients, one lane (`core/counted.py`). A filter with a
bounded memory is linear; its tables are read off the filter that the roles use, by its own steps on
unit vectors, so there is no second implementation. Filters that remember all rounds are one matrix
product with the noise, before the game; on an accelerator so are all, if they are small.

It agrees with the plain loop, which draws the same noise, up to rounding errors of 24 bits
(`tests/algorithms/test_resident.py` states the tolerance). All numbers of a setting are arguments
(`Numbers`), so settings and seeds share what is compiled, and `jax.vmap` plays them together
(`playing.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from hedgerow.algorithms.learning.rounds import (
    Precision,
    charge,
    clipping,
    joined,
    known,
    of_score,
    projection,
    stepping,
    with_precision,
)
from hedgerow.core.counted import row
from hedgerow.core.domain import Domain
from hedgerow.core.extras import need_jax
from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.core.losses import Family
from hedgerow.core.model import Model
from hedgerow.running_sums.filters import (
    Filter,
    FilterState,
    GeometricFilter,
    RunningSum,
    SolvingFilter,
    WindowFilter,
)

STEADY = (GeometricFilter, RunningSum, SolvingFilter, WindowFilter)  # the same in every round
AT_ONCE = {"cpu": 2**25}  # numbers in the gradients that are held at the same time
MUCH = 2**30  # the same on an accelerator
LARGE = 2**22  # weights from which one game on an accelerator gains by keeping gradients apart
LOW = 12  # bits of the lower part of a sum: each part fits into 24 bits


class Tables(NamedTuple):
    """A linear filter: memory' = kept @ memory + enters z; output = read @ memory + direct z.

    The first axis is the round, or has length 1 if all rounds are alike.
    """

    kept: Any
    enters: Any
    read: Any
    direct: Any


def tables(given: Filter, rounds: int) -> Tables:
    """Return the tables of a filter with a bounded memory, by its own steps on unit vectors."""
    count = given.buffers(0)
    memory = np.concatenate([np.eye(count), np.zeros((count, 1))], axis=1)
    vector, found = np.append(np.zeros(count), 1.0), []
    for k in range(1 if isinstance(given, STEADY) else rounds):
        out, after = given.step(FilterState(k, memory), vector)
        found.append((after.memory[:, :count], after.memory[:, count], out[:count], out[count]))
    return Tables(*(np.array(part, np.float32) for part in zip(*found, strict=True)))


class Numbers(NamedTuple):
    """The numbers of one game: `vmap` over any of them."""

    words: Any  # the key of the noise
    scale: Any  # of the noise of all clients together
    rate: Any  # step of the server for one unit of the lattice
    local: Any  # local step for one unit
    limit: Any  # the longest gradient
    momentum: Any
    keep: Any  # of the played average; 0: the released model
    first: Any  # the first model


class Carry(NamedTuple):
    """What the device keeps from round to round."""

    total: Any  # the sum of all gradients in units, and what rounding left out of it
    memory: Any  # of the filter, one vector for each buffer
    trail: Any  # the average of the sums, for momentum
    average: Any  # of the models
    pending: Any  # the gradients of the last round, in whole units
    odd: Any  # how many gradients were not finite so far


@dataclass(frozen=True)
class Form:
    """What is compiled once: everything but numbers."""

    family: Family
    width: int
    clients: int
    size: int
    start: bool  # gradients at the start of the round
    domain: Domain
    noise: tuple[tuple[bool, ...], ...] | None  # where the filter is not 0; None: rows are given
    ahead: bool  # the noise of all rounds of a call is drawn before the first of them
    averaged: bool
    wide: bool  # sums of all clients may not fit into 32 bits
    paid: bool  # what is paid is computed here
    rounds: int  # in one call, at most
    precision: Precision
    apart: bool = False  # gradients of large arrays are not joined

    @property
    def known(self) -> bool:
        """Whether the sum of a round is one product of slopes and features."""
        return known(self.family, self.start)

    @property
    def examples(self) -> int:
        """How many examples of all clients there are in a round."""
        return self.clients * self.size


def gradients(form: Form) -> Callable[..., tuple[Any, Any, Any]]:
    """Return `found(limit, step, point, examples)`, as a function for JAX.

    It adds up the clipped gradients of all clients in whole units: one vector of 32 bits, or the
    high and the low parts. Gradients of one score, slope times features, are never formed: their
    sum is a product of 24 bits, which is not rounded to whole units. Then, how many examples are
    not finite, and all losses.
    """
    jax = need_jax()
    jnp, width, count = jax.numpy, form.width, form.examples

    def added(parts: Any) -> tuple[Any, ...]:
        if not form.wide:
            return (joined([part.sum(axis=0) for part in parts]),)
        halves = zip(*map(_split, parts), strict=True)
        return tuple(joined([part.sum(axis=0) for part in half]) for half in halves)

    def at_start(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        each = jax.vmap(partial(clipping(form.family, width, form.apart), limit, point))
        most = max(1, AT_ONCE.get(jax.default_backend(), MUCH) // width)
        some = next(k for k in range(min(count, most), 0, -1) if count % k == 0)
        if some == count:
            found, odd, losses = each(examples)
            return added(found), odd.sum(), losses

        def more(total: Any, part: Any) -> tuple[Any, Any]:
            found, *rest = each(part)
            return jax.tree.map(jnp.add, total, added(found)), rest

        nothing = tuple(jnp.zeros(width, np.int32) for _ in range(1 + form.wide))
        parts = examples.reshape(count // some, some, -1)
        total, (odd, losses) = jax.lax.scan(more, nothing, parts)
        return total, odd.sum(), losses.reshape(-1)

    def by_product(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        features = examples[:, :width]
        of_one = jax.vmap(jax.value_and_grad(of_score(form.family)))
        losses, slopes = of_one(features @ point, examples[:, -1])
        lengths = jnp.abs(slopes) * jnp.sqrt((features * features).sum(axis=1))
        slopes = slopes * jnp.minimum(1.0, limit / jnp.where(lengths > 0, lengths, 1.0))
        finite = jnp.isfinite(slopes)
        sums = jnp.where(finite, slopes, 0.0) @ features
        return (sums * np.float32(UNITS_PER_LOSS),), (~finite).sum(), losses

    def in_steps(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        own = partial(stepping(form.family, width), limit, step, point)
        units, odd, losses = jax.vmap(own)(examples.reshape(form.clients, form.size, -1))
        return added((units,)), odd.sum(), losses.reshape(-1)

    return by_product if form.known else at_start if form.start else in_steps


def _filtered(form: Form, table: Tables, at: Any, memory: Any, z: Any) -> tuple[Any, Any]:
    """One step of the filter; sums are written out, so that they are one pass over the memory."""
    k = need_jax().numpy.minimum(at, len(table.direct) - 1)
    kept, enters, read, direct = (part[k] for part in table)
    out, rows, pattern = direct * z, [], form.noise or ()
    for a, line in enumerate(pattern):
        out, new = out + read[a] * memory[a], enters[a] * z
        for b, used in enumerate(line):
            new = new + kept[a, b] * memory[b] if used else new
        rows.append(new)
    return out, tuple(rows)


def game(form: Form) -> Callable[..., tuple[Carry, Any]]:
    """Return `played(numbers, filter, carry, first, count, examples)`, as a function for JAX.

    It plays `count` rounds from round `first` on, with examples (form.rounds, examples, numbers).
    `filter` are the tables, or the decoded noise of all rounds. It returns the carry and, by round,
    the played points and what is paid, if that is computed here.
    """
    jax = need_jax()
    jnp, lax, project = jax.numpy, jax.lax, projection(form.domain)
    find, loss = gradients(form), charge(form.family, form.width)
    most = form.family.largest if isinstance(form.family, Model) else np.inf

    def noise_of(n: Numbers, past: Any) -> Any:
        return row(n.words, past, np.uint32(0), form.width)

    def model(n: Numbers, table: Any, drawn: Any, carry: Carry, at: Any, k: Any) -> Any:
        """The released model of a round; nothing is summed up or drawn before the first one."""
        high, low = _added(carry.total, carry.pending)
        memory, past = carry.memory, jnp.maximum(at - 1, 0)
        scale = jnp.where(at > 0, n.scale, np.float32(0))
        if form.noise is None:
            decoded = scale * lax.dynamic_index_in_dim(table, past, keepdims=False)
        elif not form.noise:
            decoded = np.float32(0)
        else:
            if form.ahead:
                z = scale * lax.dynamic_index_in_dim(drawn, k, keepdims=False)
            else:  # without the barrier the compiler draws the numbers again for every buffer
                z = lax.optimization_barrier(scale * noise_of(n, past))
            decoded, memory = _filtered(form, table, past, memory, z)
        sums = (high + low) + decoded * np.float32(UNITS_PER_LOSS)
        trail = n.momentum * carry.trail + (1 - n.momentum) * sums
        point = jnp.where(at > 0, project(n.first - n.rate * trail), n.first)
        return point, carry._replace(total=(high, low), memory=memory, trail=trail)

    def paid(losses: Any) -> Any:
        fit = jnp.clip(jnp.nan_to_num(losses, nan=most), -most, most)
        return fit.sum() / form.size

    def one(
        n: Numbers, table: Any, drawn: Any, examples: Any, first: Any, k: Any, state: Any
    ) -> Any:
        carry, out = state
        records = lax.dynamic_index_in_dim(examples, k, keepdims=False)
        point, carry = model(n, table, drawn, carry, first + k, k)
        play, average = point, carry.average
        if form.averaged:
            average = n.keep * average + (1 - n.keep) * point
            play = average / (1 - n.keep ** (first + k + 1).astype(np.float32))
        pending, odd, losses = find(n.limit, n.local, point, records)
        found = (play,)
        if form.paid:
            same = form.start and not form.averaged
            found += (paid(losses if same else jax.vmap(loss, (None, 0))(play, records)),)
        out = tuple(
            lax.dynamic_update_index_in_dim(rows, new, k, 0)
            for rows, new in zip(out, found, strict=True)
        )
        odd = carry.odd + odd.astype(np.int32)
        return carry._replace(average=average, pending=pending, odd=odd), out

    def played(n: Numbers, table: Any, carry: Carry, first: Any, count: Any, examples: Any) -> Any:
        drawn, shapes = None, ((form.rounds, form.width), (form.rounds,))[: 1 + form.paid]
        if form.noise and form.ahead:
            before = jnp.maximum(first - 1 + jnp.arange(form.rounds, dtype=np.int32), 0)
            drawn = jax.vmap(partial(noise_of, n))(before)
        out = tuple(jnp.zeros(shape, np.float32) for shape in shapes)
        one_round = partial(one, n, table, drawn, examples, first)
        return lax.fori_loop(0, count, one_round, (carry, out))

    return with_precision(played, form.precision)


def _added(total: tuple[Any, Any], pending: Any) -> tuple[Any, Any]:
    """The sum and what rounding left out of it, after one more round."""
    high, low = total
    for part in _parts(pending):  # exact sums of two numbers, and what they leave out
        reached = high + part
        back = reached - high
        low = low + ((high - (reached - back)) + (part - back))
        high = reached
    return high, low


def _parts(pending: Any) -> tuple[Any, ...]:
    """Whole units as exact numbers of 24 bits: two for each number of 32 bits."""
    if pending[0].dtype == np.float32:
        return pending
    places = (2**LOW, 1)[-len(pending) :]
    halves = [(_split(units), place) for units, place in zip(pending, places, strict=True)]
    return tuple(
        part.astype(np.float32) * (place * unit)
        for half, place in halves
        for part, unit in zip(half, (2**LOW, 1), strict=True)
    )


def _split(units: Any) -> tuple[Any, Any]:
    """High and low bits of whole numbers: the high ones times 2^LOW, plus the low ones."""
    return units >> LOW, units & (2**LOW - 1)


@lru_cache(maxsize=64)
def _zeros(form: Form, lead: tuple[int, ...]) -> Callable[[], Carry]:
    jnp, width = need_jax().numpy, form.width

    def zero(kind: Any = np.float32, width: int = width) -> Any:
        return jnp.zeros((*lead, width), kind)

    def carry() -> Carry:
        return Carry(
            (zero(), zero()),
            tuple(zero() for _ in form.noise or ()),
            zero(),
            zero(width=width if form.averaged else 0),
            tuple(zero(np.float32 if form.known else np.int32) for _ in range(1 + form.wide)),
            jnp.zeros(lead, np.int32),
        )

    return need_jax().jit(carry)


def opening(form: Form, *lead: int) -> Carry:
    """Return what the device keeps before the first round, for one game or many."""
    return _zeros(replace(form, rounds=0), lead)()


@lru_cache(maxsize=64)
def compiled(form: Form, every: bool, many: bool = False) -> Callable[..., Any]:
    """The compiled game, or `many`: seeds and, within them, settings, on the examples of a seed.

    The carry is written over. Threads that play it compile it once. An accelerator plays a fixed
    number of rounds (`every`), or it would ask after each whether there is another. A CPU plays as
    many as there are.
    """
    jax = need_jax()
    apart = many or form.width >= LARGE or jax.default_backend() == "cpu"
    played, lock = game(replace(form, apart=apart)), Lock()

    def all_of(n: Numbers, table: Any, carry: Carry, first: Any, count: Any, examples: Any) -> Any:
        rounds = form.rounds if every else count
        carry, found = played(n, table, carry, first, rounds, examples)
        return carry, found, jax.numpy.isfinite(found[0]).all(), carry.odd

    if many:
        own = None if form.noise is not None else 0  # tables are those of a setting, rows a game's
        all_of = jax.vmap(all_of, (0, 0, 0, None, None, None))
        all_of = jax.vmap(all_of, (0, own, 0, None, None, 0))
    function = jax.jit(all_of, donate_argnums=2)

    def play(*given: Any) -> Any:
        with lock:
            return function(*given)

    return play


@lru_cache(maxsize=16)
def decoded(rounds: int, width: int) -> Any:
    """The function that returns B z of all rounds, for several B and, for each, several keys."""
    jax = need_jax()

    def one(matrix: Any, key: Any) -> Any:
        at = jax.numpy.arange(rounds, dtype=np.int32)
        rows = jax.vmap(lambda k: row(key, k, np.uint32(0), width))(at)
        return jax.numpy.matmul(matrix, rows, precision="highest")

    return jax.jit(jax.vmap(jax.vmap(one), (None, 0)))
