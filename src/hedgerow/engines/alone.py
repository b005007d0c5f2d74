"""Every client by itself: one game of one client for each of them, on the same losses.

Nothing is sent. The games share no noise, so what a client shows depends on its own data only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.transcript import Everything, Plays, Sink
from hedgerow.engines.loop import Engine, WholeGame


def own_seed(seed: int, client: int) -> int:
    """Return the seed of one client's noise.

    >>> own_seed(0, 0) != own_seed(0, 1) != own_seed(1, 0)
    True
    """
    digest = hashlib.blake2b(f"alone {seed} {client}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class AllAlone:
    """The states of all games, which are in the same round."""

    runs: tuple[Any, ...]

    @property
    def round(self) -> int:
        return self.runs[0].round


@dataclass(frozen=True)
class Alone:
    """One engine for each client; it is used like one `Engine`."""

    engines: tuple[Engine | WholeGame, ...]

    def start(self) -> AllAlone:
        return AllAlone(tuple(engine.start() for engine in self.engines))

    def advance(self, state: AllAlone, block: Block, sinks: Sequence[Sink]) -> AllAlone:
        """Play all rounds of a checked block; sinks see all clients together."""
        runs, plays = [], []
        for client, (engine, run) in enumerate(zip(self.engines, state.runs, strict=True)):
            played = Everything(wants_messages=False)
            runs.append(engine.advance(run, of_client(block, client), [played]))
            plays.append(played.all_plays())
        joined = np.concatenate(plays, axis=1)
        points = self.engines[0].algorithm.plays == "point"
        for sink in sinks:
            sink.states([run.clients for run in runs])
            sink.servers([run.server for run in runs])
            sink.rounds(state.round, block, Plays.of(joined) if points else joined)
        return AllAlone(tuple(runs))


def of_client(block: Block, client: int) -> Block:
    """Return the part of a checked block that is about one client."""
    one = slice(client, client + 1)
    losses = block.losses[:, one]
    optional = {
        name: None if value is None else value[:, one]
        for name in ("awake", "present", "side", "reporting", "segments", "grains")
        for value in (getattr(block, name),)
    }
    reports = losses if block.reports is block.losses else block.reports[:, one]
    return replace(block, losses=losses, reports=reports, **optional)
