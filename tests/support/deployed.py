"""Playing of simulated deployments, for tests."""

from __future__ import annotations

import numpy as np

from support.simulated import SimulatedStudy


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
