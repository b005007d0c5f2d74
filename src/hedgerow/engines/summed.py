"""A game in which only sums are ever drawn: for many clients and rounds, where every loss by itself would take too long.

It needs an algorithm whose clients all play the broadcast expert and upload the sums of their losses, of which the server sees only
the total (`Algorithm.common_play`), and an environment that draws such totals directly (`Environment.sums`). Server noise is that of
the other engines.
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
    """What to do where only sums cannot be drawn."""
    able = [name for name, kind in ENVIRONMENTS.items() if draws_sums(kind)]
    return f"Leave the engine out (every loss is then drawn by itself). Environments that draw sums: {', '.join(able)}"


def why_not_by_sums(algorithm: Algorithm, environment: Environment) -> str | None:
    """Everything that stands in the way, if anything does."""
    reason = _needs_single_clients(algorithm)
    found = [None if reason is None else f"{algorithm.name} cannot be played by sums, {reason}"]
    able = draws_sums(type(environment))
    found.append(
        environment.traits.why_no_sums
        if able
        else f"{type(environment).__name__} cannot draw sums of losses directly"
    )
    return "; ".join(reason for reason in found if reason) or None


def _needs_single_clients(algorithm: Algorithm) -> str | None:
    """Why the sums of all clients are not enough for an algorithm, if they are not."""
    if algorithm.decider is not None:
        return "others than its clients play"
    if algorithm.combine != "sum":
        return "its server sees every upload by itself"
    if algorithm.common_play is not None:
        return None
    if algorithm.certificate.trust in ("local", "distributed") and algorithm.certificate.mechanisms:
        return "each of its clients adds noise of its own"
    return "it does not say which one expert all clients play until the next exchange (common_play)"


def play_sums(
    algorithm: Algorithm,
    environment: Environment,
    seed: int,
    source: NoiseSource,
    sinks: Sequence[Sink],
) -> None:
    """Play the whole horizon, from exchange to exchange and from mark to mark of the sinks."""
    follow = algorithm.common_play
    why = why_not_by_sums(algorithm, environment)
    if why is not None or follow is None:
        raise Unsupported(f"Only sums are drawn with the engine 'summed': {why}. {what_instead()}.")
    if any(sink.wants_messages for sink in sinks):
        raise Unsupported("Messages of single clients cannot be kept where only sums are drawn.")
    horizon, noise = algorithm.setting.horizon, source.server()
    marks = sorted({horizon, *(mark for sink in sinks for mark in sink.marks)})
    broadcast, server = algorithm.server.open(noise)
    state, at = environment.start(seed), 0
    gathered = np.zeros(algorithm.setting.experts, np.int64)
    remaining, counted = broadcast.rounds, _counted(algorithm, broadcast)
    while at < horizon:
        made = 0
        while remaining == 0:
            broadcast, server = algorithm.server.aggregate(
                server, _upload(algorithm, gathered), noise
            )
            gathered, remaining, made = np.zeros_like(gathered), broadcast.rounds, made + 1
            counted = _counted(algorithm, broadcast)
            if made > EXCHANGES_AT_ONCE:
                raise InvalidValue(
                    f"Expected {algorithm.name} to play at last, it asked for {made} exchanges in a row."
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


def _counted(algorithm: Algorithm, broadcast: Any) -> int:
    """How many rounds after a broadcast enter the next upload: all, if the algorithm says nothing else."""
    return (
        algorithm.setting.horizon
        if algorithm.common_rounds is None
        else algorithm.common_rounds(broadcast)
    )


def _upload(algorithm: Algorithm, gathered: np.ndarray) -> Any:
    """What the server sees of the uploads of all clients."""
    return algorithm.upload(gathered)  # pyright: ignore[reportCallIssue]
