"""Noise sources that watch: record every release, replay recorded outputs on other data, or try out every possible output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.core.noise import Noise, NoiseSource


@dataclass(frozen=True)
class Release:
    """One call of `noise.release`: the mechanism, the secret value, what came out."""

    mechanism: Any
    value: Any
    output: Any


@dataclass
class Ledger:
    """All releases of a run in order, and draws made outside any release."""

    releases: list[Release] = field(default_factory=list)
    bare_draws: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Watched:
    """A view that answers releases through `answer` and notes draws made outside of one."""

    inner: Noise
    ledger: Ledger
    answer: Callable[[Any, Any, Noise], Any]

    @property
    def batch(self) -> tuple[int, ...]:
        return self.inner.batch

    def draw(self, law: str, purpose: str, shape: tuple[int, ...] = (), rounds: int | None = None, scale: float | None = None) -> Any:
        self.ledger.bare_draws.append((law, purpose))
        return self.inner.draw(law, purpose, shape, rounds, scale)

    def lattice(self, value: Any) -> Any:
        return self.inner.lattice(value)

    def choose(self, law: str, gaps: Any, rate: float, purpose: str) -> Any:
        self.ledger.bare_draws.append((law, purpose))
        return self.inner.choose(law, gaps, rate, purpose)

    def release(self, mechanism: Any, value: Any) -> Any:
        output = self.answer(mechanism, value, self.inner)
        self.ledger.releases.append(Release(mechanism, value, output))
        return output


class RecordingNoise:
    """Wraps a source and keeps a ledger. With `replay`, outputs are taken from an earlier ledger instead of being drawn."""

    def __init__(self, inner: NoiseSource, replay: Ledger | None = None) -> None:
        self.inner = inner
        self.ledger = Ledger()
        self._script = None if replay is None else iter(replay.releases)

    def _answer(self, mechanism: Any, value: Any, noise: Noise) -> Any:
        if self._script is None:
            return mechanism.sample(value, noise)
        recorded = next(self._script, None)
        if recorded is None or recorded.mechanism != mechanism:
            raise AssertionError("the sequence of releases depends on data beyond what was released")
        return recorded.output

    def server(self) -> Noise:
        return _Watched(self.inner.server(), self.ledger, self._answer)

    def everyone(self, role: str, count: int) -> Noise:
        return _Watched(self.inner.everyone(role, count), self.ledger, self._answer)

    def single(self, role: str, index: int, count: int) -> Noise:
        return _Watched(self.inner.single(role, index, count), self.ledger, self._answer)


@dataclass(frozen=True)
class _Scripted:
    """A view whose discrete outcomes follow a script; beyond its end the first outcome is taken and noted as open."""

    source: ScriptedNoise
    batch: tuple[int, ...]

    def draw(self, law: str, purpose: str, shape: tuple[int, ...] = (), rounds: int | None = None, scale: float | None = None) -> Any:
        if law != "uniform" or shape or rounds is not None or scale is not None:
            raise AssertionError(f"cannot enumerate a bare {law} draw for {purpose!r}")
        choice = self.source.next(self.source.experts)
        return np.full(self.batch, (choice + 0.5) / self.source.experts)

    def lattice(self, value: Any) -> Any:
        return value

    def choose(self, law: str, gaps: Any, rate: float, purpose: str) -> Any:
        raise AssertionError(f"cannot enumerate a bare {law} choice for {purpose!r}")

    def release(self, mechanism: Any, value: Any) -> Any:
        outcomes = mechanism.outcomes(value)
        return value if outcomes is None else outcomes[self.source.next(len(outcomes))]


class ScriptedNoise:
    """Walks one path of the tree of all discrete outcomes; continuous noise is left out (likelihoods integrate over it)."""

    def __init__(self, script: tuple[int, ...], experts: int) -> None:
        self.script = script
        self.experts = experts
        self.path: list[tuple[int, int]] = []

    def next(self, count: int) -> int:
        choice = self.script[len(self.path)] if len(self.path) < len(self.script) else 0
        self.path.append((choice, count))
        return choice

    def server(self) -> Noise:
        return _Scripted(self, ())

    def everyone(self, role: str, count: int) -> Noise:
        del role
        return _Scripted(self, (count,))

    def single(self, role: str, index: int, count: int) -> Noise:
        del role, index, count
        return _Scripted(self, ())


def all_paths(experts: int, walk: Callable[[ScriptedNoise], Any]) -> list[Any]:
    """`walk` on every path of the outcome tree, depth first."""
    found, open_scripts = [], [()]
    while open_scripts:
        script = open_scripts.pop()
        noise = ScriptedNoise(script, experts)
        found.append(walk(noise))
        for depth in range(len(script), len(noise.path)):
            taken = tuple(choice for choice, _ in noise.path[:depth])
            open_scripts += [(*taken, other) for other in range(1, noise.path[depth][1])]
    return found
