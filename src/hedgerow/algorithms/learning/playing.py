"""Whole games on the device, as an engine plays them: one alone, or many together.

Nothing leaves the device but what each round costs, and how many gradients are not finite. Models
are brought only where somebody looks at them; there are no states of single clients.

On an accelerator, games of one kind are one program (`jax.vmap`): several seeds, and on the
examples of each seed several settings. On a CPU that is no faster, and every game is played alone:
there results do not depend on what else is played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod, sqrt
from threading import Lock
from typing import Any

import numpy as np

from hedgerow.algorithms.learning.resident import (
    LOW,
    Carry,
    Form,
    Numbers,
    compiled,
    decoded,
    opening,
    tables,
)
from hedgerow.algorithms.learning.roles import LearningClient, TrainingServer
from hedgerow.algorithms.learning.rounds import MOST
from hedgerow.core.block import Block, frozen
from hedgerow.core.domain import Domain
from hedgerow.core.extras import need_jax
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.model import Model
from hedgerow.core.noise import COUNTED, SeededNoise, stream_name
from hedgerow.core.protocol import Trace
from hedgerow.core.transcript import Plays
from hedgerow.running_sums.filters import HistoryFilter

MATRIX = 2**11  # rounds of which an accelerator decodes all noise by one product, if it is few:
NUMBERS = 2**27  # numbers
FEW = 2**24  # numbers in the models of a block that are brought all at once
TOGETHER = (
    2**28
)  # numbers of games that are played together, if the device does not tell its memory
WORTH = 2**18  # rounds of games of networks that gain more than their program takes to compile
SHARE = 24  # bytes of the memory of a device for one such number
ALIGNED = 64  # bytes
COARSE = 2**-10  # steps of the lattice are not seen beside clips from here on
KEPT = 2**24  # numbers in the records that stay on the device for other runs


class _Sent:
    """The last records that were sent to the device: algorithms that play them share them.

    Records that nobody can write to stay for other runs too, if they are few.
    """

    def __init__(self) -> None:
        self.last: tuple[Array, Any] | None = None
        self.kept: dict[Any, tuple[Array, Any]] = {}
        self.lock = Lock()

    def to_device(self, records: Array, form: Form) -> Any:
        with self.lock:
            return self._to_device(records, form)

    def _to_device(self, records: Array, form: Form) -> Any:
        shape = (form.rounds, form.examples, records.shape[-1] // form.size)
        place = (records.__array_interface__["data"], records.strides, records.shape, shape)
        if (last := self.kept.get(place)) is not None:
            return last[1]
        if (last := self.last) is not None and last[0] is records and last[1].shape == shape:
            return last[1]
        given = _aligned((form.rounds, *records.shape[1:]))
        given[: len(records)] = records
        if accelerated():  # which plays these rounds too
            given[len(records) :] = 0
        sent = need_jax().device_put(given.reshape(shape))
        self.last = records, sent
        if frozen(records) and given.size <= KEPT:
            while sum(one.size for _, one in self.kept.values()) + given.size > KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[place] = records, sent
        return sent


def _aligned(shape: tuple[int, ...]) -> Any:
    """An empty array of 24 bits that JAX takes on a CPU as it is, without a copy."""
    count, step = prod(shape), ALIGNED // 4
    raw = np.empty(count + step, np.float32)
    first = -raw.ctypes.data // 4 % step
    return raw[first : first + count].reshape(shape)


_SENT = _Sent()
_COMPILING = Lock()


class Models:
    """The models of all rounds of some games, on the device."""

    def __init__(self, given: Any) -> None:
        self.given = given

    @cached_property
    def few(self) -> Array | None:
        """All of them, if they are few."""
        return np.asarray(self.given) if self.given.size <= FEW else None

    def __getitem__(self, at: tuple[Any, ...]) -> Array:
        return np.asarray((self.given if self.few is None else self.few)[at])


class Distant(Plays):
    """Plays on the device, which are brought when somebody looks; all players share them."""

    def __init__(
        self,
        models: Models,
        at: tuple[int, ...],
        finite: bool,
        paid: Array | None,
        shape: tuple[int, int, int],
        domain: Domain,
    ) -> None:
        given = {"models": models, "place": at, "finite": finite, "paid": paid, "domain": domain}
        self.__dict__.update(given, shape=shape, lengths=np.ones(shape[0], np.int64))

    models: Models
    place: tuple[int, ...]
    finite: bool
    domain: Domain

    @cached_property
    def values(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The points; those of 24 bits may lie outside of the domain by a rounding error."""
        return self._brought(self.models[(*self.place, slice(0, len(self.lengths)))])

    def at(self, round_number: int) -> Array:
        if "values" in self.__dict__:
            return self.values[round_number]
        return self._brought(self.models[(*self.place, round_number)])

    def inside(self, domain: Domain) -> bool:
        return self.finite and domain == self.domain

    def _brought(self, models: Array) -> Array:
        points = self.domain.project(np.asarray(models, np.float64))[..., None, :]
        return np.broadcast_to(points, (*points.shape[:-2], self.shape[1], points.shape[-1]))


@dataclass(frozen=True)
class Odd:
    """What measures may know of the clients: how many gradients were not finite so far."""

    odd: Any


@dataclass
class Device:
    """Some games that are played together; the device writes over their carry."""

    form: Form
    numbers: Numbers
    table: Any
    carry: Carry


@dataclass(frozen=True)
class Playing:
    """A game that is being played. `device` is None before the first round."""

    round: int
    clients: Odd
    source: SeededNoise
    device: Device | None = None


@dataclass(frozen=True)
class Resident:
    """Plays whole games on the device, with the numbers of the roles."""

    client: LearningClient
    server: TrainingServer
    clients: int

    @property
    def fits(self) -> bool:
        """Whether sums of all clients are exact in two parts, or far finer than the lattice."""
        work = self.client.work
        examples = self.clients * work.size
        fine = not work.known or work.clip >= COARSE * sqrt(work.width)
        return fine and examples < 2**19 and examples * work.clip < MOST * 2**LOW

    @property
    def kind(self) -> Any:
        """Games of one kind can be played together; None: this one is played alone."""
        return self.form if accelerated() else None

    @property
    def worth(self) -> int:
        """From how many rounds of all games on one program for them pays: networks compile long."""
        return WORTH if self.client.work.family.trained else 0

    def most(self, rounds: int) -> int:
        """How many games with blocks of `rounds` fit on the device together."""
        horizon = self.server.factorisation.count(None) if self.form.noise is None else 0
        each = self.client.work.width * max(rounds, self.form.examples, horizon)
        return max(1, _room() // each)

    def start(self, source: SeededNoise) -> Playing:
        """Return the game before the first round."""
        return Playing(0, Odd(0), source)

    def advance(self, run: Playing, block: Block) -> tuple[Playing, Trace]:
        """Play all rounds of a block."""
        return self.together([[self]], [[run]], [block])[0][0]

    @staticmethod
    def together(
        games: Sequence[Sequence[Resident]],
        runs: Sequence[Sequence[Playing]],
        blocks: Sequence[Block],
    ) -> list[list[tuple[Playing, Trace]]]:
        """Play one block of each seed in all its games, which are of one kind."""
        first, rounds, some = runs[0][0].round, blocks[0].rounds, games[0][0]
        device = runs[0][0].device or some.begin(games, [r.source for r, *_ in runs], rounds)
        form, every, many = device.form, accelerated(), len(runs) * len(runs[0]) > 1
        last = first + rounds == some.server.factorisation.rounds
        if rounds > form.rounds or (every and not last):
            form = device.form = replace(form, rounds=rounds)
        sent = [_SENT.to_device(block.reports, form) for block in blocks]
        examples = need_jax().numpy.stack(sent) if many else sent[0]
        with _COMPILING:
            play = compiled(form, every, many)
        given = (device.numbers, device.table, device.carry, np.int32(first), rounds, examples)
        device.carry, (found, *paid), *rest = play(*given)
        models, (inside, odd) = Models(found), map(np.asarray, rest)
        costs = np.asarray(paid[0], np.float64)[..., :rounds] if paid else None
        shape = (rounds, some.clients, form.width)

        def after(run: Playing, at: tuple[int, ...]) -> tuple[Playing, Trace]:
            own = None if costs is None else costs[at]
            plays = Distant(models, at, bool(inside[at]), own, shape, form.domain)
            later = Playing(first + rounds, Odd(odd[at]), run.source, device)
            return later, Trace(plays, rounds - (not first))

        return [
            [after(run, (s, e) if many else ()) for e, run in enumerate(own)]
            for s, own in enumerate(runs)
        ]

    def begin(
        self,
        games: Sequence[Sequence[Resident]],
        sources: Sequence[SeededNoise],
        rounds: int,
    ) -> Device:
        """The form of some games, their numbers, the filters of their noise, the first carry."""
        jax, many = need_jax(), len(games) * len(games[0]) > 1
        form = replace(self.form, rounds=rounds if accelerated() else _rounded(rounds))
        each = [[g.numbers(own) for g in row] for row, own in zip(games, sources, strict=True)]

        def stacked(*some: Any) -> Any:
            return jax.tree.map(lambda *x: np.stack(x), *some)

        numbers = stacked(*(stacked(*row) for row in each)) if many else each[0][0]
        table, lead = None, (len(games), len(games[0]))
        if form.noise is None:
            matrices = np.stack([g.server.factorisation.decoding() for g in games[0]])
            horizon, keys = self.server.factorisation.count(None), numbers.words
            make = decoded(horizon, form.width)
            table = make(matrices.astype(np.float32), keys if many else keys[None, None])
            table = table if many else table[0, 0]
        elif form.noise:
            table = stacked(*(g.tables for g in games[0])) if many else self.tables
        return Device(form, numbers, table, opening(form, *lead if many else ()))

    @cached_property
    def tables(self) -> Any:
        """The tables of the filter of the noise."""
        factors = self.server.factorisation
        return tables(factors.decoder, factors.count(None))

    def numbers(self, source: SeededNoise) -> Numbers:
        """The numbers of the game with this noise."""
        client, server, work = self.client, self.server, self.client.work
        mechanism = client.reporting or server.releasing
        role, many = ("client", self.clients) if client.reporting else ("server", 1)
        f32, units = np.float32, UNITS_PER_LOSS
        return Numbers(
            words=source.words(stream_name(role, COUNTED, "counted", work.width)),
            scale=f32(0 if mechanism is None else mechanism.scale * sqrt(many)),
            rate=f32(server.rate / units),
            local=f32(work.local_step / units),
            limit=f32(work.limit),
            momentum=f32(server.momentum),
            keep=f32(client.average or 0.0),
            first=server.first.astype(f32),
        )

    @cached_property
    def form(self) -> Form:
        """What is compiled for the game, with no rounds yet."""
        client, server, work = self.client, self.server, self.client.work
        factors, horizon = server.factorisation, server.factorisation.count(None)
        few = accelerated() and horizon <= MATRIX and horizon * work.width <= NUMBERS
        pattern: Any = ()
        if few:  # without noise too: its scale is 0
            pattern = None
        elif client.reporting is None and server.releasing is None:
            pass
        elif isinstance(factors.decoder, HistoryFilter):
            pattern = None
        else:
            used = (self.tables.kept != 0).any(axis=0)
            pattern = tuple(tuple(map(bool, line)) for line in used)
        return Form(
            family=work.family.blank if isinstance(work.family, Model) else work.family,
            width=work.width,
            clients=self.clients,
            size=work.size,
            start=work.steps == "start",
            domain=server.domain,
            noise=pattern,
            ahead=not accelerated(),
            averaged=client.average is not None,
            wide=not work.known and self.clients * work.size * work.clip >= MOST,
            paid=not work.family.linear,
            precision=work.precision,
            rounds=0,
        )


def _rounded(rounds: int) -> int:
    """A few more rounds, so that games of about one length share what is compiled."""
    step = max(1, 2 ** (rounds - 1).bit_length() // 16)
    return -(-rounds // step) * step


def _room() -> int:
    """How many numbers games that are played together may have."""
    memory = (need_jax().devices()[0].memory_stats() or {}).get("bytes_limit")
    return TOGETHER if memory is None else memory // SHARE


def accelerated() -> bool:
    """Whether games are played on an accelerator."""
    return need_jax().default_backend() != "cpu"
