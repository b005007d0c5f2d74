"""Noise sources that record releases, replay them on other data, or enumerate all outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from hedgerow.core.noise import Noise, NoiseSource, PassedOn, SeededNoise

_SHORT = 2**9


def short_noise(seed: int) -> SeededNoise:
    """Return the noise of a seed, drawn in small chunks, because most runs here are short."""
    return SeededNoise(seed, _SHORT)


Who = tuple[str, int | None]  # a role and the index of the party; ("server", None) is the server
SERVER: Who = ("server", None)
MAY_BE_FREE = ("draw", "index")  # a choice or a flip takes scores, which come from data


@dataclass(frozen=True)
class Release:
    """One call of `noise.release`: the mechanism, the secret value, the output, and the party.

    A release for all clients at once is recorded as one release per client.
    """

    mechanism: Any
    value: Any
    output: Any
    who: Who = SERVER

    @property
    def client(self) -> int | None:
        """The index of the client; None for the server."""
        return self.who[1]


@dataclass(frozen=True)
class Call:
    """One call of `noise.release`, by one party or by all clients at once (`batch`)."""

    mechanism: Any
    value: Any
    output: Any
    players: tuple[Who, ...]
    batch: tuple[int, ...]

    def releases(self) -> list[Release]:
        """The release of each party."""
        rows = zip(
            self.players, _rows(self.value, self.batch), _rows(self.output, self.batch), strict=True
        )
        return [Release(self.mechanism, value, output, who) for who, value, output in rows]


@dataclass(frozen=True, eq=False)
class Coin:
    """One draw outside releases: who drew it, its whole law, and the outcome.

    `method` is the method of `Noise`: "draw", "choose", "flip" or "index".
    """

    players: tuple[Who, ...]
    method: str
    law: str
    purpose: str
    shape: tuple[int, ...] = ()
    rounds: int | None = None
    scale: Any = None
    count: int | None = None
    gaps: Any = None
    rate: float | None = None
    drawn: Any = None

    @property
    def kind(self) -> tuple[str, str, str]:
        """What was asked for, without numbers."""
        return self.method, self.law, self.purpose

    @property
    def whole_law(self) -> tuple[Any, ...]:
        """Everything but the outcome, with numbers and arrays bit for bit."""
        numbers = (self.shape, self.rounds, self.scale, self.count, self.gaps, self.rate)
        return (self.players, *self.kind, *map(_bits, numbers))


def _bits(value: Any) -> Any:
    if value is None:
        return None
    array = np.asarray(value)
    return array.dtype.str, array.shape, array.tobytes()


@dataclass
class Ledger:
    """All releases of a run in order, and the draws made outside releases, with results."""

    calls: list[Call] = field(default_factory=list)
    coins: list[Coin] = field(default_factory=list)

    @property
    def releases(self) -> list[Release]:
        """All releases, one for each party."""
        return [release for call in self.calls for release in call.releases()]


@lru_cache(maxsize=64)
def _everyone(role: str, count: int) -> tuple[Who, ...]:
    return tuple((role, index) for index in range(count))


def _check_rows(value: Any, batch: tuple[int, ...]) -> None:
    if batch and np.shape(value)[:1] != batch:
        raise AssertionError(
            f"a value of shape {np.shape(value)} was released for a batch of {batch[0]} clients"
        )


def _rows(value: Any, batch: tuple[int, ...]) -> list[Any]:
    """The value of each party of a view: the rows of a batch, or the value itself."""
    _check_rows(value, batch)
    return list(value) if batch else [value]


def _next(left: deque[Any] | None, mechanism: Any) -> Any:
    """The next output of a script, which must come from the same mechanism."""
    if not left or left[0].mechanism != mechanism:
        raise AssertionError("the sequence of releases depends on data beyond what was released")
    return left.popleft().output


def _kept(value: Any) -> Any:
    """A copy of an array, which may be written to later; other values as they are."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _joined(rows: list[Any], batch: tuple[int, ...]) -> Any:
    return np.stack(rows) if batch else rows[0]


_ASKED = {
    "draw": ("law", "purpose", "shape", "rounds", "scale"),
    "choose": ("law", "gaps", "rate", "purpose"),
    "flip": ("gaps", "rate", "purpose"),
    "index": ("count", "purpose"),
}
_OWN_LAW = {"flip": "flip", "index": "uniform"}  # of methods that are given none


class _Watched(PassedOn):
    """A view of some parties: a recording source answers its releases and notes other draws."""

    def __init__(self, inner: Noise, source: RecordingNoise, players: tuple[Who, ...]) -> None:
        super().__init__(inner)
        self.source, self.players = source, players

    def drawn(self, method: str, *given: Any) -> Any:
        asked = {"law": _OWN_LAW.get(method, ""), **dict(zip(_ASKED[method], given, strict=True))}
        coin = Coin(self.players, method, **{name: _kept(value) for name, value in asked.items()})
        outcome = self.source.toss(coin, lambda: super(_Watched, self).drawn(method, *given))
        self.source.ledger.coins.append(replace(coin, drawn=outcome))
        return outcome

    def release(self, mechanism: Any, value: Any) -> Any:
        output = self.source.answer(self.players, mechanism, value, self.inner)
        for given in (value, output):
            _check_rows(given, self.batch)
        self.source.ledger.calls.append(Call(mechanism, value, output, self.players, self.batch))
        return output


class RecordingNoise(NoiseSource):
    """Wraps a noise source and keeps a ledger.

    With `replay`, outputs and coins come from an earlier ledger instead of being drawn. Each party
    replays its own outputs in order, so a ledger can be replayed for all clients at once or one by
    one. Mechanisms and the laws of coins must be those of the ledger: a run that asks for others
    shows data that were not released.
    """

    def __init__(self, inner: NoiseSource, replay: Ledger | None = None) -> None:
        self.inner = inner
        self.ledger = Ledger()
        self._replay = replay
        self._calls: dict[Any, deque[Call]] = {}
        self._own: dict[Who, deque[Release]] = {}
        self._coins: dict[tuple[Who, ...], deque[Coin]] = {}
        self._tossed: set[Who] = set()
        if replay is None:
            return
        for call in replay.calls:
            self._calls.setdefault((call.players, call.batch), deque()).append(call)
        for coin in replay.coins:
            self._coins.setdefault(coin.players, deque()).append(coin)
            self._tossed.update(coin.players)

    def toss(self, coin: Coin, draw: Callable[[], Any]) -> Any:
        """The outcome of the next coin of these players, which must have the same law."""
        left = self._coins.get(coin.players)
        if self._replay is None or (left is None and self._tossed.intersection(coin.players)):
            return draw()  # recorded by another engine: the coins of other groups of players
        if not left or left[0].kind != coin.kind:
            text = "the sequence of coins depends on the data beyond what was released"
            raise AssertionError(text)
        if left[0].whole_law != coin.whole_law:
            raise AssertionError("the law of a coin depends on data beyond what was released")
        return left.popleft().drawn

    def answer(self, players: tuple[Who, ...], mechanism: Any, value: Any, noise: Noise) -> Any:
        """The output of a release of these players."""
        if self._replay is None:
            return mechanism.sample(value, noise)
        if (players, noise.batch) in self._calls:
            return _next(self._calls.get((players, noise.batch)), mechanism)
        if not self._own:  # recorded by another engine: each party replays its own outputs
            for release in self._replay.releases:
                self._own.setdefault(release.who, deque()).append(release)
        return _joined([_next(self._own.get(who), mechanism) for who in players], noise.batch)

    def view(self, role: str, index: int | None, count: int) -> Noise:
        players = _everyone(role, count) if index is None else ((role, index),)
        if role == SERVER[0]:
            players = (SERVER,)
        return _Watched(self.inner.view(role, index, count), self, players)


@dataclass(frozen=True)
class _Scripted(Noise):
    """A view whose discrete outcomes follow a script; after its end every outcome is the first."""

    source: ScriptedNoise
    batch: tuple[int, ...]

    def draw(
        self,
        law: str,
        purpose: str,
        shape: tuple[int, ...] = (),
        rounds: int | None = None,
        scale: float | None = None,
    ) -> Any:
        if law != "uniform" or shape or rounds is not None or scale is not None:
            raise AssertionError(f"cannot enumerate a bare {law} draw for {purpose!r}")
        choice = self.source.next(self.source.experts)
        return np.full(self.batch, (choice + 0.5) / self.source.experts)

    def choose(self, law: str, gaps: Any, rate: float, purpose: str) -> Any:
        raise AssertionError(f"cannot enumerate a bare {law} choice for {purpose!r}")

    def flip(self, gaps: Any, rate: float, purpose: str) -> Any:
        raise AssertionError(f"cannot enumerate a bare coin for {purpose!r}")

    def index(self, count: int, purpose: str) -> Any:
        if self.batch:
            raise AssertionError(f"cannot enumerate an index of every client for {purpose!r}")
        return self.source.next(count)

    def release(self, mechanism: Any, value: Any) -> Any:
        return _joined([self._one(mechanism, own) for own in _rows(value, self.batch)], self.batch)

    def _one(self, mechanism: Any, value: Any) -> Any:
        outcomes = mechanism.outcomes(value)
        return value if outcomes is None else outcomes[self.source.next(len(outcomes))]


class ScriptedNoise(NoiseSource):
    """One path through the tree of all discrete outcomes.

    Continuous noise is left out, because likelihoods integrate over it.
    """

    def __init__(self, script: tuple[int, ...], experts: int) -> None:
        self.script = script
        self.experts = experts
        self.path: list[tuple[int, int]] = []

    def next(self, count: int) -> int:
        choice = self.script[len(self.path)] if len(self.path) < len(self.script) else 0
        self.path.append((choice, count))
        return choice

    def view(self, role: str, index: int | None, count: int) -> Noise:
        return _Scripted(self, (count,) if index is None else ())


def all_paths(experts: int, walk: Callable[[ScriptedNoise], Any]) -> list[Any]:
    """Call `walk` on every path of the outcome tree, depth first, and return the results."""
    found, open_scripts = [], [()]
    while open_scripts:
        script = open_scripts.pop()
        noise = ScriptedNoise(script, experts)
        found.append(walk(noise))
        for depth in range(len(script), len(noise.path)):
            taken = tuple(choice for choice, _ in noise.path[:depth])
            open_scripts += [(*taken, other) for other in range(1, noise.path[depth][1])]
    return found
