"""A whole game of online learning on one device, on a CPU or an accelerator: one compiled loop.

Decoding undoes encoding, so the decoded sums are the exact sums plus B z: only noise is filtered
here, and of the noise only the sum of all clients, one lane (`core/counted.py`). A filter with a
bounded memory is linear; its tables are read off the filter that the roles use, by its own steps on
unit vectors, so there is no second implementation. Filters that remember all rounds are one matrix
product with the noise, before the game.

Nothing leaves the device but what each round costs, and how many gradients are not finite. Models
are brought only where somebody looks at them; there are no states of single clients.

It agrees with the plain loop, which draws the same noise, up to rounding errors of 24 bits
(`tests/algorithms/test_resident.py` states the tolerance). All numbers of a setting are arguments
(`Numbers`), so settings and seeds share what is compiled, and `jax.vmap` plays them together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import sqrt
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from hedgerow.algorithms.learning.roles import LearningClient, TrainingServer
from hedgerow.algorithms.learning.rounds import (
    MOST,
    Precision,
    charge,
    clipping,
    projection,
    stepping,
    with_precision,
)
from hedgerow.core.block import Block
from hedgerow.core.counted import row
from hedgerow.core.domain import Domain
from hedgerow.core.extras import need_jax
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.losses import Family
from hedgerow.core.model import Model
from hedgerow.core.noise import COUNTED, SeededNoise, stream_name
from hedgerow.core.plays import Plays
from hedgerow.core.protocol import Trace
from hedgerow.running_sums.filters import (
    Filter,
    FilterState,
    GeometricFilter,
    HistoryFilter,
    RunningSum,
    SolvingFilter,
    WindowFilter,
)

STEADY = (GeometricFilter, RunningSum, SolvingFilter, WindowFilter)  # the same in every round
AT_ONCE = {"cpu": 2**25}  # numbers in the gradients that are held at the same time
MUCH = 2**28  # the same on an accelerator
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

    at: Any  # the round
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
    averaged: bool
    wide: bool  # sums of all clients may not fit into 32 bits
    paid: bool  # what is paid is computed here
    rounds: int  # in one call, at most
    precision: Precision

    @property
    def examples(self) -> int:
        """How many examples of all clients there are in a round."""
        return self.clients * self.size


def gradients(form: Form) -> Callable[..., tuple[Any, Any, Any]]:
    """Return `found(limit, step, point, examples)`, as a function for JAX.

    It adds up the clipped gradients of all clients in whole units: one vector of 32 bits, or the
    high and the low parts. Then, how many examples are not finite, and all losses.
    """
    jax = need_jax()
    jnp, width, count = jax.numpy, form.width, form.examples

    def added(units: Any) -> tuple[Any, ...]:
        if not form.wide:
            return (units.sum(axis=0),)
        return tuple(part.sum(axis=0) for part in _split(units))

    def at_start(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        each = jax.vmap(partial(clipping(form.family, width), limit, point))
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

    def in_steps(limit: Any, step: Any, point: Any, examples: Any) -> tuple[Any, Any, Any]:
        own = partial(stepping(form.family, width), limit, step, point)
        units, odd, losses = jax.vmap(own)(examples.reshape(form.clients, form.size, -1))
        return added(units), odd.sum(), losses.reshape(-1)

    return at_start if form.start else in_steps


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
    """Return `played(numbers, filter, carry, count, examples)`, as a function for JAX.

    It plays `count` rounds with examples (form.rounds, examples, numbers). `filter` are the tables,
    or the decoded noise of all rounds. It returns the carry and, by round, the played points and
    what is paid, if that is computed here.
    """
    jax = need_jax()
    jnp, lax, project = jax.numpy, jax.lax, projection(form.domain)
    find, loss = gradients(form), charge(form.family, form.width)
    most = form.family.largest if isinstance(form.family, Model) else np.inf

    def model(n: Numbers, table: Any, carry: Carry) -> tuple[Any, Carry]:
        """The released model of a round; nothing is summed up or drawn before the first one."""
        high, low = carry.total
        for part in _parts(carry.pending):  # exact sums of two numbers, and what they leave out
            reached = high + part
            back = reached - high
            low = low + ((high - (reached - back)) + (part - back))
            high = reached
        memory, past = carry.memory, jnp.maximum(carry.at - 1, 0)
        scale = jnp.where(carry.at > 0, n.scale, np.float32(0))
        if form.noise is None:
            decoded = scale * lax.dynamic_index_in_dim(table, past, keepdims=False)
        elif not form.noise:
            decoded = np.float32(0)
        else:
            # without the barrier the compiler draws the numbers again for every buffer
            drawn = row(n.words, past, np.uint32(0), form.width)
            z = lax.optimization_barrier(scale * drawn)
            decoded, memory = _filtered(form, table, past, memory, z)
        sums = (high + low) + decoded * np.float32(UNITS_PER_LOSS)
        trail = n.momentum * carry.trail + (1 - n.momentum) * sums
        point = jnp.where(carry.at > 0, project(n.first - n.rate * trail), n.first)
        return point, carry._replace(total=(high, low), memory=memory, trail=trail)

    def paid(losses: Any) -> Any:
        fit = jnp.clip(jnp.nan_to_num(losses, nan=most), -most, most)
        return fit.sum() / form.size

    def one(n: Numbers, table: Any, examples: Any, at: Any, state: Any) -> Any:
        carry, out = state
        records = lax.dynamic_index_in_dim(examples, at, keepdims=False)
        point, carry = model(n, table, carry)
        play, average = point, carry.average
        if form.averaged:
            average = n.keep * average + (1 - n.keep) * point
            play = average / (1 - n.keep ** (carry.at + 1).astype(np.float32))
        pending, odd, losses = find(n.limit, n.local, point, records)
        found = (play,)
        if form.paid:
            same = form.start and not form.averaged
            found += (paid(losses if same else jax.vmap(loss, (None, 0))(play, records)),)
        out = tuple(rows.at[at].set(new) for rows, new in zip(out, found, strict=True))
        odd = carry.odd + odd.astype(np.int32)
        carry = carry._replace(at=carry.at + 1, average=average, pending=pending, odd=odd)
        return carry, out

    def played(n: Numbers, table: Any, carry: Carry, count: Any, examples: Any) -> Any:
        shapes = ((form.rounds, form.width), (form.rounds,))[: 1 + form.paid]
        out = tuple(jnp.zeros(shape, np.float32) for shape in shapes)
        return lax.fori_loop(0, count, partial(one, n, table, examples), (carry, out))

    return with_precision(played, form.precision)


def _parts(pending: Any) -> tuple[Any, ...]:
    """Whole units as exact numbers of 24 bits."""
    high, low = pending if len(pending) == 2 else _split(pending[0])
    return high.astype(np.float32) * 2**LOW, low.astype(np.float32)


def _split(units: Any) -> tuple[Any, Any]:
    """High and low bits of whole numbers: the high ones times 2^LOW, plus the low ones."""
    return units >> LOW, units & (2**LOW - 1)


def opening(form: Form) -> Carry:
    """Return what the device keeps before the first round."""
    jnp, width = need_jax().numpy, form.width

    def zero(kind: Any = np.float32) -> Any:
        return jnp.zeros(width, kind)  # one array each: they are written over

    return Carry(
        jnp.zeros((), np.int32),
        (zero(), zero()),
        tuple(zero() for _ in form.noise or ()),
        zero(),
        zero() if form.averaged else jnp.zeros(0, np.float32),
        tuple(zero(np.int32) for _ in range(1 + form.wide)),
        jnp.zeros((), np.int32),
    )


@lru_cache(maxsize=64)
def compiled(form: Form, every: bool) -> Callable[..., Any]:
    """The compiled game; the carry is written over. Threads that play it compile it once.

    An accelerator plays a fixed number of rounds (`every`), or it would ask after each whether
    there is another. A CPU plays as many as there are.
    """
    jax, played = need_jax(), game(form)

    def all_of(n: Numbers, table: Any, carry: Carry, count: Any, examples: Any) -> Any:
        rounds = form.rounds if every else count
        carry, found = played(n, table, carry, rounds, examples)
        return carry, found, jax.numpy.isfinite(found[0]).all()

    function, lock = jax.jit(all_of, donate_argnums=2), Lock()

    def play(*given: Any) -> Any:
        with lock:
            return function(*given)

    return play


@lru_cache(maxsize=16)
def _decoded(rounds: int, width: int) -> Any:
    """The function that returns B z of all rounds, for a filter that remembers them."""
    jax = need_jax()

    def decoded(matrix: Any, key: Any) -> Any:
        at = jax.numpy.arange(rounds, dtype=np.int32)
        rows = jax.vmap(lambda k: row(key, k, np.uint32(0), width))(at)
        return jax.numpy.matmul(matrix, rows, precision="highest")

    return jax.jit(decoded)


_COMPILING = Lock()


class _Sent:
    """The last records that were sent to the device: algorithms that play them share them."""

    last: tuple[Array, Any] | None = None

    def to_device(self, records: Array, form: Form) -> Any:
        shape = (form.rounds, form.examples, records.shape[-1] // form.size)
        if (last := self.last) is not None and last[0] is records and last[1].shape == shape:
            return last[1]
        given = np.empty((form.rounds, *records.shape[1:]), np.float32)
        given[: len(records)], given[len(records) :] = records, 0
        sent = need_jax().device_put(given.reshape(shape))
        self.last = records, sent
        return sent


_SENT = _Sent()


class Distant(Plays):
    """Plays on the device, which are brought when somebody looks; all players share them."""

    def __init__(self, models: Any, finite: Any, rounds: int, players: int, domain: Domain) -> None:
        given = {"models": models, "finite": finite, "players": players, "domain": domain}
        self.__dict__.update(given, lengths=np.ones(rounds, np.int64), paid=None)

    models: Any
    finite: Any
    players: int
    domain: Domain

    @cached_property
    def values(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The points; those of 24 bits may lie outside of the domain by a rounding error."""
        return self._brought(np.asarray(self.models)[: len(self.lengths)])

    def at(self, round_number: int) -> Array:
        if "values" in self.__dict__:
            return self.values[round_number]
        return self._brought(self.models[round_number])

    def inside(self, domain: Domain) -> bool:
        return bool(self.finite) and domain == self.domain

    def _brought(self, models: Any) -> Array:
        points = self.domain.project(np.asarray(models, np.float64))[..., None, :]
        return np.broadcast_to(points, (*points.shape[:-2], self.players, points.shape[-1]))


@dataclass(frozen=True)
class Odd:
    """What measures may know of the clients: how many gradients were not finite so far."""

    odd: Any


@dataclass(frozen=True)
class Playing:
    """A game that is being played. The device writes over its carry: go on from the last one only.

    `device` is None before the first round.
    """

    round: int
    clients: Odd
    source: SeededNoise
    device: tuple[Form, Numbers, Any, Carry] | None = None


@dataclass(frozen=True)
class Resident:
    """Plays whole games on the device, with the numbers of the roles."""

    client: LearningClient
    server: TrainingServer
    clients: int

    @property
    def fits(self) -> bool:
        """Whether sums of all clients are exact in two parts."""
        examples = self.clients * self.client.work.size
        return examples < 2**19 and examples * self.client.work.clip < MOST * 2**LOW

    def start(self, source: SeededNoise) -> Playing:
        """Return the game before the first round."""
        return Playing(0, Odd(0), source)

    def advance(self, run: Playing, block: Block) -> tuple[Playing, Trace]:
        """Play all rounds of a block."""
        device = run.device or self._begin(run.source, block.rounds)
        form, numbers, table, carry = device
        every, last = _accelerated(), run.round + block.rounds == self.server.factorisation.rounds
        if block.rounds > form.rounds or (every and not last):
            form = replace(form, rounds=block.rounds)
        records = _SENT.to_device(block.reports, form)
        with _COMPILING:
            play = compiled(form, every)
        carry, (models, *paid), finite = play(numbers, table, carry, block.rounds, records)
        plays = Distant(models, finite, block.rounds, self.clients, form.domain)
        if paid:
            plays.__dict__["paid"] = np.asarray(paid[0], np.float64)[: block.rounds]
        counted = Odd(carry.odd)
        exchanges = block.rounds - (run.round == 0)
        device = form, numbers, table, carry
        after = Playing(run.round + block.rounds, counted, run.source, device)
        return after, Trace(plays, exchanges)

    def _begin(self, source: SeededNoise, rounds: int) -> tuple[Form, Numbers, Any, Carry]:
        """What is compiled, the numbers, the filter of the noise, and the first carry."""
        client, server, work = self.client, self.server, self.client.work
        mechanism = client.reporting or server.releasing
        role, many = ("client", self.clients) if client.reporting else ("server", 1)
        f32, units, horizon = np.float32, UNITS_PER_LOSS, server.factorisation.count(None)
        numbers = Numbers(
            words=source.words(stream_name(role, COUNTED, "counted", work.width)),
            scale=f32(0 if mechanism is None else mechanism.scale * sqrt(many)),
            rate=f32(server.rate / units),
            local=f32(work.local_step / units),
            limit=f32(work.limit),
            momentum=f32(server.momentum),
            keep=f32(client.average or 0.0),
            first=server.first.astype(f32),
        )
        pattern, table = (), None
        decoder = server.factorisation.decoder
        if mechanism is None:
            pass
        elif isinstance(decoder, HistoryFilter):
            matrix = server.factorisation.decoding().astype(f32)
            pattern, table = None, _decoded(horizon, work.width)(matrix, numbers.words)
        else:
            table = tables(decoder, horizon)
            used = (table.kept != 0).any(axis=0)
            pattern = tuple(tuple(map(bool, line)) for line in used)
        form = Form(
            family=work.family.blank if isinstance(work.family, Model) else work.family,
            width=work.width,
            clients=self.clients,
            size=work.size,
            start=work.steps == "start",
            domain=server.domain,
            noise=pattern,
            averaged=client.average is not None,
            wide=self.clients * work.size * work.clip >= MOST,
            paid=isinstance(work.family, Model),
            precision=work.precision,
            rounds=rounds if _accelerated() else 2 ** (rounds - 1).bit_length(),
        )
        return form, numbers, table, opening(form)


def _accelerated() -> bool:
    return need_jax().default_backend() != "cpu"
