"""The contract on uploads in a deployment: honest ones stay, false ones do no harm."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from hedgerow.contracts.deployed import EXTREMES, Deployed, false_uploads, require_deployable
from hedgerow.contracts.games import built, games_of, pairs, whole
from hedgerow.contracts.neighbours import SEEDED, Randomness, units
from hedgerow.contracts.outcome import BrokenContract, demand, same
from hedgerow.core.environment import Environment
from hedgerow.core.errors import HedgerowError, Unsupported
from hedgerow.core.messages import InvalidMessage, encode
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import simulate


def uploads_are_bounded(spec: AlgorithmSpec, noise: Randomness = SEEDED) -> str:
    """Honest uploads stay as they are; a false one cannot stop the server or change its messages.

    Client 0 sends the largest and the smallest numbers, and numbers off the lattice. With each of
    them, the game goes on to its end on neighbouring inputs of the honest clients. With distributed
    trust the server sees their sum only, modulo 2^64, and moves that into its range.
    """
    games = games_of(spec)
    algorithm = built(spec, games.setting)
    require_deployable(algorithm)
    try:
        algorithm.require_limits()
    except Unsupported as refusal:
        raise BrokenContract(str(refusal)) from refusal
    _, *streams = next(pairs(spec, units(algorithm)[0], 1))
    honest = _honest_stay(algorithm, games.recorded(streams[0]))
    if honest is not None:
        _wrong_sizes_are_refused(algorithm, honest)
    for game, tried in zip(map(games.recorded, streams), (range(EXTREMES), range(2)), strict=True):
        for number in tried:
            lies = Deployed(algorithm, false=lambda sent, n=number: false_uploads(sent)[n])
            try:
                found = lies.play(whole(game), noise.source(number))
                for one in found:
                    encode(one.broadcast)
            except HedgerowError as error:
                raise BrokenContract(f"a false upload ends the game: {error}") from error
            demand(
                all(type(one.broadcast) is algorithm.broadcasts.kind for one in found),
                "a false upload changes the type of a broadcast",
            )
    return f"tried {EXTREMES} false uploads on neighbouring inputs"


def _honest_stay(algorithm: Algorithm, game: Environment) -> Any:
    """Demand that every honest upload is left as it is, bit for bit; return one of them."""
    kept, one = Everything(), None
    simulate(algorithm, game, 0, engine="in_process", fused=False, sinks=[kept])
    ends = [when for when, _, _ in kept.messages]
    for rounds, (_, uploads, _) in zip(np.diff([0, *ends]), kept.messages, strict=True):
        for client in range(algorithm.setting.clients):
            sent = {f.name: getattr(uploads, f.name)[client] for f in fields(uploads)}
            plain = {name: value if value.ndim else value.item() for name, value in sent.items()}
            one = algorithm.uploads.kind(**plain)
            demand(
                same(algorithm.uploads.bounded(one, int(rounds)), one),
                f"the declared range of {algorithm.uploads.kind.__name__} changes an honest upload",
            )
    return one


def _wrong_sizes_are_refused(algorithm: Algorithm, honest: Any) -> None:
    """Demand that a vector that is too long, or empty, is refused as a message."""
    for f in fields(honest):
        value = np.asarray(getattr(honest, f.name))
        if not value.ndim:
            continue
        for wrong in (value[:0], np.concatenate([value, value[:1]])):
            try:
                algorithm.uploads.bounded(replace(honest, **{f.name: wrong}), 1)
            except InvalidMessage:
                continue
            raise BrokenContract(f"{f.name} of shape {wrong.shape} is accepted")
