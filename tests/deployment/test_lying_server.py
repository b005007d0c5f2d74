"""What a server that lies gets from a client that does not trust it: nothing more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.core.messages import decode, encode
from hedgerow.deployment import wire
from hedgerow.deployment.client import Distrusted
from support.simulated import small_study

ROUNDS = 4
LIES: dict[str, Callable[[Any], Any]] = {
    "again at once": lambda sent: replace(sent, rounds=0),
    "one round more": lambda sent: replace(sent, rounds=sent.rounds + 1),
    "a negative number": lambda sent: replace(sent, rounds=-1),
    "never again": lambda sent: replace(sent, rounds=None),
    "a number that is too large": lambda sent: _with(sent, 2**62),
    "a number that is negative": lambda sent: _with(sent, -(2**62)),
}


def _with(sent: Any, value: int) -> Any:
    """The broadcast with another value of its second field."""
    name = fields(sent)[1].name
    old = getattr(sent, name)
    new = np.full_like(old, value) * 2.0**30 if isinstance(old, np.ndarray) else value
    return replace(sent, **{name: new})


class Lying:
    """A server with the right key that changes the broadcasts of one client from exchange 1 on."""

    def __init__(self, server: Any, lie: Callable[[Any], Any]) -> None:
        self._server, self._lie = server, lie
        self.uploads = 0

    def call(self, request: bytes) -> bytes | None:
        server = self._server
        if request[:1] != wire.Upload.kind:
            return server.take([request])[0]
        self.uploads += 1
        reply = server.take([request])[0]
        if reply is None:
            return None
        newest, ((data, path),) = wire.Answered.read(reply)
        true = wire.unpack(data, server.study, wire.Answer)
        broadcast = self._lie(decode(server.algorithm.broadcasts.kind, true.broadcast))
        lie = replace(true, payload=true.root + encode(broadcast))
        return wire.Answered(newest, ((wire.pack(lie, server.study, server.key), path),)).pack()


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("algorithm", ["walk_leader", "phased_selection", "running_leader"])
def test_a_client_refuses_lies_in_every_world_alike(
    place: Path, built_once: None, algorithm: str, lie: str
) -> None:
    """One world of two has losses of 1, where one round more would be too much for a filter."""
    found = []
    for world, loss in enumerate((0.0, 1.0)):
        study = small_study(
            place / str(world), clients=1, experts=2, horizon=ROUNDS, algorithm=algorithm,
            choices={"trust": "local", "epsilon": "64"}, seed=0,
        )  # fmt: skip
        learner = study.learner(0)
        learner.client.link = liar = Lying(study.running_server(), LIES[lie])
        learner.predict()
        learner.observe(0, [loss, loss])
        with pytest.raises(Distrusted, match="not one that this study allows") as refusal:
            learner.client.advance()
        assert learner.client.exchange == 0  # the role has not seen it
        with pytest.raises(Distrusted):  # and the same again after that
            learner.client.advance()
        found.append((str(refusal.value), liar.uploads))
        study.close()
    assert found[0] == found[1]
