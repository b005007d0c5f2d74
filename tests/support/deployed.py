"""Playing of deployments in this process, for tests."""

from __future__ import annotations

import numpy as np

from hedgerow.deployment.server import StudyServer, Wait
from support.simulated import SimulatedStudy


class Direct:
    """A link to a server in this process."""

    def __init__(self, server: StudyServer) -> None:
        self._server = server

    def call(self, request: bytes) -> bytes | None:
        (reply,) = self._server.take([request])
        return None if isinstance(reply, Wait) else reply


def play_until(study: SimulatedStudy, losses: np.ndarray, until: int) -> None:
    """Play until each of the clients 0 and 1 has finished `until` rounds."""
    for _ in range(200):
        for client in (0, 1):
            learner = study.learner(client)
            if learner.round < until and learner.client.advance():
                learner.predict()
                learner.observe(learner.round, losses[learner.round, client])
        if all(study.learner(client).round == until for client in (0, 1)):
            return
    raise AssertionError("the game does not go on")
