"""Noise sources, the only impure objects.

An engine owns a source; mechanisms draw from it by law, scale and purpose. Every (role, purpose,
law, width) has its own stream, created on first use. A stream is a sequence of rows with one lane
for each client: client i's k-th draw is always entry i of row k. So drawing for all clients at
once, for one client at a time, or for many rounds in advance gives the same numbers.

Gaussian noise of the purpose `COUNTED` is a function of seed, stream, row and lane: it can be drawn
anywhere, and the sum of all clients' noise without the noise of any (`core/counted.py`).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from hedgerow.core.counted import lanes_of_row, words
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array


def _gumbel(rng: np.random.Generator, count: int) -> Array:
    """Gumbel noise -log(-log(1 - u)), as numpy draws it but four times faster.

    u = 0, which has probability 2^-53, would give infinity.
    """
    drawn = rng.random(count)
    np.maximum(drawn, 2.0**-53, out=drawn)
    np.subtract(1.0, drawn, out=drawn)
    for _ in range(2):
        np.negative(np.log(drawn, out=drawn), out=drawn)
    return drawn


LAWS = {
    "uniform": lambda rng, n: rng.random(n),
    "exponential": lambda rng, n: rng.standard_exponential(n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "gaussian": lambda rng, n: rng.standard_normal(n),
    "gumbel": _gumbel,
}
CHUNK = 2**15
COUNTED = "gradients of a model"


class Releasing(Protocol):
    """The part of a mechanism that a noise source uses."""

    def sample(self, value: Any, noise: Noise) -> Any: ...


class Noise(ABC):
    """The noise that an algorithm gets.

    It is for the server, for one client (`batch=()`) or for all clients (`batch=(m,)`).
    """

    batch: tuple[int, ...]
    whole: bool = False
    """Whether all noise is whole steps of the lattice: secure noise."""

    @abstractmethod
    def draw(
        self,
        law: str,
        purpose: str,
        shape: tuple[int, ...] = (),
        rounds: int | None = None,
        scale: float | None = None,
    ) -> Array:
        """Return noise of shape (*batch, *shape) and the given scale (None: 1).

        With `rounds`, that number of draws is stacked in front. The law "cube" is K-norm noise: one
        gamma length and uniform coordinates for each vector. Coordinates of other laws are
        independent.
        """

    def ahead(self, law: str, purpose: str, rounds: int, scale: float) -> Array:
        """Return what the next `rounds` draws of single numbers will be; fast paths may ask."""
        raise Unsupported("Only seeded noise can be known in advance.")

    def lattice(self, value: Any) -> Any:
        """Return the value if noise may be added; a secure source requires a lattice value."""
        return value

    @abstractmethod
    def choose(self, law: str, gaps: Array, rate: float, purpose: str) -> Any:
        """Return the index of the largest noise - rate * gap, with unit noise of that law.

        `gaps` is one row, or one row for each client.
        """

    @abstractmethod
    def flip(self, gaps: Array | float, rate: float, purpose: str) -> Any:
        """Return coins that are True with probability exp(-rate * gap): one, or one per client."""

    @abstractmethod
    def index(self, count: int, purpose: str) -> Any:
        """Return a uniform index below `count`: one, or one for each client."""

    def release(self, mechanism: Releasing, value: Any) -> Any:
        """Return `mechanism.sample(value, self)`; releases can be recorded and replayed here."""
        return mechanism.sample(value, self)

    def full(self, shape: tuple[int, ...], rounds: int | None) -> tuple[int, ...]:
        """The shape of what `draw` returns."""
        return (*self.batch, *shape) if rounds is None else (rounds, *self.batch, *shape)


class PassedOn(Noise):
    """A view that passes every draw on to another view; `drawn` can be overridden to watch them."""

    def __init__(self, inner: Noise) -> None:
        self.inner, self.batch, self.whole = inner, inner.batch, inner.whole

    def drawn(self, method: str, *given: Any) -> Any:
        """The outcome of a method of `Noise` ("draw", "choose", "flip" or "index")."""
        return getattr(self.inner, method)(*given)

    def draw(
        self,
        law: str,
        purpose: str,
        shape: tuple[int, ...] = (),
        rounds: int | None = None,
        scale: float | None = None,
    ) -> Any:
        return self.drawn("draw", law, purpose, shape, rounds, scale)

    def lattice(self, value: Any) -> Any:
        return self.inner.lattice(value)

    def choose(self, law: str, gaps: Array, rate: float, purpose: str) -> Any:
        return self.drawn("choose", law, gaps, rate, purpose)

    def flip(self, gaps: Array | float, rate: float, purpose: str) -> Any:
        return self.drawn("flip", gaps, rate, purpose)

    def index(self, count: int, purpose: str) -> Any:
        return self.drawn("index", count, purpose)


class NoiseSource(ABC):
    """The noise that an engine owns: one view for each role."""

    __slots__ = ()

    @abstractmethod
    def view(self, role: str, index: int | None, count: int) -> Noise:
        """The noise of one of `count` players of a role; None: of all of them at once."""

    def server(self) -> Noise:
        """The noise of the server."""
        return self.view("server", 0, 1)

    def everyone(self, role: str, count: int) -> Noise:
        """The noise of all players of a role at once: every draw has one row for each."""
        return self.view(role, None, count)

    def single(self, role: str, index: int, count: int) -> Noise:
        """The noise of one of `count` players of a role."""
        return self.view(role, index, count)


def plain(outcome: Any) -> Any:
    """Return a single outcome as a Python number; arrays stay as they are."""
    return outcome if np.ndim(outcome) else outcome.item()


def best(noisy: Array) -> Any:
    """Return the index of the largest entry, for one vector or a batch of vectors."""
    return plain(np.argmax(noisy, axis=-1))


@dataclass
class _Stream:
    """Rows of `width` numbers per lane, generated in chunks.

    Each reader has a cursor. Chunks that all readers have passed are dropped.
    """

    rng: np.random.Generator
    law: str
    lanes: int
    width: int
    cursors: list[int]
    first: int = 0
    chunk: int = CHUNK
    chunks: list[Array] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = max(1, self.chunk // max(1, self.lanes * self.width))

    def _chunk(self, index: int) -> Array:
        while index >= self.first + len(self.chunks):
            self.states.append(self.rng.bit_generator.state)
            drawn = LAWS[self.law](self.rng, self.rows * self.lanes * self.width)
            self.chunks.append(drawn.reshape(self.rows, self.lanes, self.width))
        return self.chunks[index - self.first]

    def take(
        self, reader: int, rounds: int, lanes: slice, scale: float | None, ahead: bool = False
    ) -> Array:
        """The next rows of a reader, in these lanes, times the scale. None: they may be a view.

        `ahead`: they will be taken again.
        """
        start = self.cursors[reader]
        found = self._chunk(start // self.rows)[start % self.rows :][:rounds, lanes]
        if len(found) == rounds:
            found = found if scale is None else scale * found
        else:
            at, found = 0, np.empty((rounds, *found.shape[1:]))
            while at < rounds:
                index, offset = divmod(start + at, self.rows)
                piece = self._chunk(index)[offset : offset + rounds - at, lanes]
                np.multiply(piece, 1.0 if scale is None else scale, out=found[at : at + len(piece)])
                at += len(piece)
                if len(self.cursors) == 1 and not ahead:
                    self._drop((start + at) // self.rows)
        if ahead:
            return found
        self.cursors[reader] = start + rounds
        self._drop(min(self.cursors) // self.rows)
        return found

    def _drop(self, below: int) -> None:
        gone = min(below - self.first, len(self.chunks))
        if gone > 0:
            del self.chunks[:gone], self.states[:gone]
            self.first += gone

    def snapshot(self) -> dict[str, Any]:
        state = self.states[0] if self.states else self.rng.bit_generator.state
        return {
            "law": self.law,
            "lanes": self.lanes,
            "width": self.width,
            "cursors": list(self.cursors),
            "first": self.first,
            "state": state,
        }


@dataclass
class _CountedStream:
    """Rows that are counted, of which only the last is kept; each reader has a cursor."""

    words: np.ndarray
    lanes: int
    width: int
    cursors: list[int]
    last: tuple[int, Array] | None = None

    def take(self, reader: int, rounds: int, lanes: slice, scale: float | None) -> Array:
        first = self.cursors[reader]
        self.cursors[reader] += rounds
        rows = np.stack([self._row(first + k)[lanes] for k in range(rounds)])
        return rows if scale is None else scale * rows

    def _row(self, index: int) -> Array:
        if self.last is None or self.last[0] != index:
            self.last = index, lanes_of_row(self.words, index, self.lanes, self.width)
        return self.last[1]

    def snapshot(self) -> dict[str, Any]:
        return {"lanes": self.lanes, "width": self.width, "cursors": list(self.cursors)}


class SeededNoise(NoiseSource):
    """Fast reproducible noise for simulation only: the seed reveals the noise.

    `chunk` numbers are drawn at a time; the noise does not depend on it. Short runs need few.
    """

    def __init__(self, seed: int, chunk: int = CHUNK) -> None:
        self.seed, self.chunk = seed, chunk
        self._streams: dict[str, _Stream | _CountedStream] = {}

    def view(self, role: str, index: int | None, count: int) -> Noise:
        return _View(self, role, (count,) if index is None else (), count, index)

    def _generator(self, name: str) -> np.random.Generator:
        words = np.frombuffer(hashlib.blake2b(name.encode(), digest_size=16).digest(), "<u4")
        return np.random.Generator(
            np.random.PCG64(np.random.SeedSequence([self.seed, *map(int, words)]))
        )

    def words(self, name: str) -> np.ndarray:
        """Return the key of a counted stream."""
        return words(self.seed, name)

    def take(
        self,
        name: str,
        law: str,
        lanes: int,
        width: int,
        lane: int | None,
        rounds: int,
        scale: float | None,
        ahead: bool = False,
    ) -> Array:
        stream = self._streams.get(name)
        if stream is None:
            readers = 1 if lane is None else lanes
            cursors = [0] * readers
            stream = (
                _CountedStream(self.words(name), lanes, width, cursors)
                if law == "counted"
                else _Stream(self._generator(name), law, lanes, width, cursors, chunk=self.chunk)
            )
            self._streams[name] = stream
        if (len(stream.cursors) > 1) != (lane is not None and lanes > 1):
            raise InvalidValue(
                f"The stream {name!r} was read for all clients and for single ones. Choose one."
            )
        lanes_read = slice(None) if lane is None else slice(lane, lane + 1)
        if ahead and isinstance(stream, _Stream):
            return stream.take(lane or 0, rounds, lanes_read, scale, ahead)
        return stream.take(lane or 0, rounds, lanes_read, scale)

    def snapshot(self) -> dict[str, Any]:
        """Return plain values from which `restore` continues every stream exactly."""
        return {
            "seed": self.seed,
            "chunk": self.chunk,
            "streams": {name: stream.snapshot() for name, stream in self._streams.items()},
        }

    @classmethod
    def restore(cls, saved: dict[str, Any]) -> SeededNoise:
        """Continue from a snapshot."""
        source = cls(saved["seed"], saved.get("chunk", CHUNK))
        for name, s in saved["streams"].items():
            if "law" not in s:
                source._streams[name] = _CountedStream(source.words(name), **s)
                continue
            rng = source._generator(name)
            rng.bit_generator.state = s["state"]
            source._streams[name] = _Stream(
                rng, s["law"], s["lanes"], s["width"], list(s["cursors"]), s["first"], source.chunk
            )
        return source


def stream_name(role: str, purpose: str, law: str, width: int) -> str:
    """Return the name of the stream of a role."""
    return f"{role}/{purpose}/{law}/{width}"


@dataclass(frozen=True)
class _View(Noise):
    """The view of one role on a seeded source."""

    source: SeededNoise
    role: str
    batch: tuple[int, ...]
    lanes: int
    lane: int | None

    def draw(
        self,
        law: str,
        purpose: str,
        shape: tuple[int, ...] = (),
        rounds: int | None = None,
        scale: float | None = None,
    ) -> Array:
        if law == "cube":
            radius = self.draw("exponential", purpose, (prod(shape) + 1,), rounds).sum(axis=-1)
            direction = 2 * self.draw("uniform", purpose, shape, rounds) - 1
            radius = np.reshape(radius, (*np.shape(radius), *(1 for _ in shape)))
            return (1.0 if scale is None else scale) * radius * direction
        width, law = prod(shape), "counted" if (law, purpose) == ("gaussian", COUNTED) else law
        name = stream_name(self.role, purpose, law, width)
        count = 1 if rounds is None else rounds
        rows = self.source.take(name, law, self.lanes, width, self.lane, count, scale)
        drawn = rows.reshape(len(rows), *self.batch, *shape)
        return drawn[0] if rounds is None else drawn

    def ahead(self, law: str, purpose: str, rounds: int, scale: float) -> Array:
        name = f"{self.role}/{purpose}/{law}/1"
        rows = self.source.take(name, law, self.lanes, 1, self.lane, rounds, scale, ahead=True)
        return rows.reshape(rounds, *self.batch)

    def choose(self, law: str, gaps: Array, rate: float, purpose: str) -> Any:
        return best(self.draw(law, purpose, np.shape(gaps)[len(self.batch) :]) - rate * gaps)

    def flip(self, gaps: Array | float, rate: float, purpose: str) -> Any:
        drawn = self.draw("uniform", purpose, np.shape(gaps)[len(self.batch) :])
        return plain(drawn < np.exp(-rate * np.asarray(gaps)))

    def index(self, count: int, purpose: str) -> Any:
        drawn = self.draw("uniform", purpose) * count
        return plain(np.minimum(drawn.astype(np.int64), count - 1))


@dataclass(frozen=True)
class _Silence(Noise):
    """The view of one role on a source without noise."""

    batch: tuple[int, ...]

    def draw(
        self,
        law: str,
        purpose: str,
        shape: tuple[int, ...] = (),
        rounds: int | None = None,
        scale: float | None = None,
    ) -> Array:
        return np.full(self.full(shape, rounds), 0.5 if law == "uniform" else 0.0)

    def ahead(self, law: str, purpose: str, rounds: int, scale: float) -> Array:
        return self.draw(law, purpose, rounds=rounds)

    def choose(self, law: str, gaps: Array, rate: float, purpose: str) -> Any:
        return best(-gaps)

    def flip(self, gaps: Array | float, rate: float, purpose: str) -> Any:
        return plain(rate * np.asarray(gaps) < np.log(2))

    def index(self, count: int, purpose: str) -> Any:
        return np.full(self.batch, count // 2) if self.batch else count // 2


class NoNoise(NoiseSource):
    """A source without noise.

    Additive noise is 0, selection takes the leader, a coin shows its likelier side, and a uniform
    number is 1/2.
    """

    def view(self, role: str, index: int | None, count: int) -> Noise:
        return _Silence((count,) if index is None else ())
