"""What a whole game sends, counted before any data are seen.

Exchanges take place at public times. So the server alone, with empty uploads and without noise,
shows how many there are. An algorithm that stops early sends less.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.core.errors import HedgerowError
from hedgerow.core.noise import NoNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.engines.loop import Batched, combine
from hedgerow.engines.simulate import counters_of

MOST = 2000  # exchanges that are counted one by one


@dataclass(frozen=True)
class Communication:
    """The exchanges of a game, and the numbers and bytes of all its messages.

    `counted` is False if there are more exchanges than are counted one by one. The others are then
    taken to follow at the pace of the last one that was counted.
    """

    exchanges: int
    numbers: int
    bytes: int
    counted: bool = True


def communication(algorithm: Algorithm, most: int = MOST) -> Communication | None:
    """The messages of a game that does not end early.

    None if there is no horizon, or if the server refuses uploads without data.

    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> communication(hr.SparseVector(every=50, early=False).build(setting))
    Communication(exchanges=10, numbers=10330, bytes=97050, counted=True)
    >>> communication(hr.Uniform().build(setting)).exchanges
    0
    """
    horizon = algorithm.setting.horizon
    if horizon is None:
        return None
    counters, silent = counters_of(algorithm), NoNoise()
    clients = Batched(silent, "client", algorithm.setting.clients)
    uploads, _ = clients.upload(algorithm.client, clients.start(algorithm.client))
    empty, noise = combine(algorithm, uploads), silent.server()
    broadcast, server = algorithm.server.open(noise)
    played, left = 0, 0
    while broadcast.rounds is not None and played + broadcast.rounds < horizon:
        if counters.exchanged >= most and broadcast.rounds > 0:
            left = (horizon - 1 - played) // broadcast.rounds
            break
        played += broadcast.rounds
        try:
            broadcast, server = algorithm.server.aggregate(server, empty, noise)
        except HedgerowError:
            return None
        counters.exchanges(1)
    counters.exchanges(left)
    return Communication(
        counters.exchanged,
        counters.uploaded_scalars + counters.broadcast_scalars,
        counters.uploaded_bytes + counters.broadcast_bytes,
        left == 0,
    )
