"""The broadcasts of one run, as every engine makes them, for likelihoods and audits."""

from __future__ import annotations

from typing import Any

from hedgerow.core.lattice import Array
from hedgerow.core.noise import NoiseSource
from hedgerow.core.protocol import Algorithm, Context
from hedgerow.core.transcript import Everything
from hedgerow.engines.loop import Engine


def broadcasts_of(algorithm: Algorithm, losses: Array, noise: NoiseSource) -> list[Any]:
    """Return all broadcasts on a stream (rounds, clients, experts), with the opening one.

    The stream may end before the horizon.
    """
    engine, kept = Engine.vectorised(algorithm, noise, fused=False), Everything()
    opening, run = engine.open()
    for reports in losses:
        run = engine.exchange(run, [kept])
        if run.remaining is None:
            break
        _, run = engine.play(run, Context(run.round))
        run = engine.observe(run, reports)
    return [opening, *(broadcast for _, _, broadcast in kept.messages)]
