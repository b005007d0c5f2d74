"""What a server that lies gets from a client that does not trust it: nothing more."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.core.messages import decode, encode
from hedgerow.deployment import wire
from hedgerow.deployment.simulated import small_study

ASKED = 100


class Greedy:
    """A server with the right key that answers every upload by asking for another one at once."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.values: list[np.ndarray] = []

    def call(self, request: bytes) -> bytes | None:
        server = self._server
        if request[:1] != wire.Upload.kind:
            return server.take([request])[0]
        sent = wire.unpack(request, server.study, wire.Upload)
        upload = decode(server.algorithm.upload, sent.payload)
        self.values.append(getattr(upload, fields(upload)[0].name))
        opening = wire.unpack(server.answer(0), server.study, wire.Answer).broadcast
        again = replace(decode(server.algorithm.broadcast, opening), rounds=0)
        receipt = wire.hash_of(request)[: wire.RECEIPT]
        answer = wire.Answer(sent.exchange, 1, receipt + encode(again))
        return wire.pack(answer, server.study, server.key)


@pytest.mark.parametrize("algorithm", ["walk_leader", "phased_selection"])
def test_a_record_is_released_once_whatever_the_server_asks(
    place: Path, built_once: None, algorithm: str
) -> None:
    study = small_study(
        place, clients=1, experts=2, horizon=4, algorithm=algorithm,
        choices={"trust": "local", "epsilon": "64"}, seed=0,
    )  # fmt: skip
    learner = study.learner(0)
    learner.client.link = greedy = Greedy(study.running_server())
    learner.predict()
    learner.observe(0, [1.0, 0.0])
    for _ in range(ASKED):
        learner.client.advance()
    first, *others = np.array(greedy.values)
    assert abs(first[0] - 1) < 0.75  # so little noise that the record is seen
    assert len(others) == ASKED - 1
    assert abs(np.mean(others, axis=0)).max() < 0.25
    study.close()
