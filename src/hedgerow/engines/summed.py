"""A game in which only sums are drawn.

It is for many clients and rounds, where drawing every loss would take too long. All clients of the
algorithm must play the broadcast expert and upload the sums of their losses, and the server must
see only the total (`Shortcuts.common_play`). The environment must draw such totals directly
(`Environment.sums`). The server's noise is the same as in the other engines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.environment import Environment, draws_sums
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.noise import NoiseSource
from hedgerow.core.protocol import Algorithm
from hedgerow.core.transcript import Sink
from hedgerow.engines.loop import EXCHANGES_AT_ONCE
from hedgerow.environments.registry import ENVIRONMENTS


def what_instead() -> str:
    """Return advice for games that cannot be played from sums."""
    able = [name for name, kind in ENVIRONMENTS.items() if draws_sums(kind)]
    names = ", ".join(able)
    return f"Omit the engine to draw every loss separately. Environments that draw sums: {names}"


def why_not_by_sums(algorithm: Algorithm, environment: Environment) -> str | None:
    """Return all reasons why this game cannot be played from sums; None if it can."""
    reason = _needs_single_clients(algorithm)
    found = [None if reason is None else f"{algorithm.name} cannot be played from sums: {reason}"]
    able = draws_sums(type(environment))
    found.append(
        environment.traits.why_no_sums
        if able
        else f"{type(environment).__name__} cannot draw sums of losses directly"
    )
    return "; ".join(reason for reason in found if reason) or None


def _needs_single_clients(algorithm: Algorithm) -> str | None:
    """Return why the sums of all clients do not suffice; None if they do."""
    if algorithm.decider is not None:
        return "its players are not its clients"
    if algorithm.uploads.combine != "sum":
        return "its server sees every single upload"
    if algorithm.shortcuts.common_play is not None:
        return None
    if algorithm.certificate.trust in ("local", "distributed") and algorithm.certificate.mechanisms:
        return "each of its clients adds its own noise"
    return "it does not name one expert for all clients until the next exchange (common_play)"


def play_sums(
    algorithm: Algorithm,
    environment: Environment,
    seed: int,
    source: NoiseSource,
    sinks: Sequence[Sink],
    horizon: int,
) -> None:
    """Play all rounds, from exchange to exchange and from mark to mark of the sinks."""
    follow = algorithm.shortcuts.common_play
    why = why_not_by_sums(algorithm, environment)
    if why is not None or follow is None:
        raise Unsupported(f"The engine 'summed' draws only sums: {why}. {what_instead()}.")
    if any(sink.wants_messages for sink in sinks):
        raise Unsupported(
            "The engine 'summed' draws only sums, so messages of single clients cannot be kept. "
            "Use another engine."
        )
    noise = source.server()
    marks = sorted({horizon, *(mark for sink in sinks for mark in sink.marks)})
    broadcast, server = algorithm.server.open(noise)
    state, at = environment.start(seed), 0
    gathered = np.zeros(algorithm.setting.experts, np.int64)
    remaining, counted = broadcast.rounds, _counted(algorithm, broadcast, horizon)
    while at < horizon:
        made = 0
        while remaining == 0:
            broadcast, server = algorithm.server.aggregate(
                server, _upload(algorithm, gathered), noise
            )
            gathered, remaining, made = np.zeros_like(gathered), broadcast.rounds, made + 1
            counted = _counted(algorithm, broadcast, horizon)
            if made > EXCHANGES_AT_ONCE:
                raise InvalidValue(
                    f"{algorithm.name} requested {made} exchanges without playing a round. "
                    "Its server must broadcast rounds > 0 or None."
                )
        rounds = marks[bisect_right(marks, at)] - at
        rounds = min(rounds, horizon if remaining is None else remaining, counted or horizon)
        totals, state = environment.sums(state, rounds)
        for sink in sinks:
            sink.exchanges(made)
            sink.span(at, rounds, follow(broadcast), totals)
        if counted > 0:
            gathered += totals
            counted -= rounds
        at += rounds
        remaining = None if remaining is None else remaining - rounds


def _counted(algorithm: Algorithm, broadcast: Any, horizon: int) -> int:
    """Return how many rounds after a broadcast enter the next upload; the default is all."""
    return (
        horizon
        if algorithm.shortcuts.common_rounds is None
        else algorithm.shortcuts.common_rounds(broadcast)
    )


def _upload(algorithm: Algorithm, gathered: np.ndarray) -> Any:
    """Return what the server sees of the uploads of all clients."""
    return algorithm.uploads.kind(gathered)  # pyright: ignore[reportCallIssue]
