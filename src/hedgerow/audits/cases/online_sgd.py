"""Audit cases for online SGD: one example that pulls in opposite directions.

The published sensitivity does not hold for local steps. On a concave quadratic, what the first
example moves grows in every later step: with ten steps of 0.3 / L it is 7.7 times what the text
says. Noise for the published sensitivity must be caught there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.learning.model import Example, Model
from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases.releases import less_noise, release_cases
from hedgerow.core.batch import Batch
from hedgerow.core.certificate import Observer
from hedgerow.core.convex import Huber
from hedgerow.core.protocol import Algorithm
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.learning.online_sgd import OnlineSGD

ROUNDS, RUNS = 3, 300
FLAT = Batch(Huber(), 2)
STEPS, STEP = 10, 0.3  # local steps, and their size times the smoothness


def concave(params: Any, pair: Example) -> Any:
    """The loss `slope * x - x^2 / 2`, whose slope is the target of the example.

    >>> concave({"x": 2.0}, (0.0, 1.0))
    0.0
    """
    return pair[1] * params["x"] - params["x"] ** 2 / 2


@lru_cache(maxsize=1)
def hill() -> Batch:
    """Return the family of the concave losses, with ten examples in every round."""
    return Batch(Model(concave, {"x": 0.0}, features=(1,), smooth=1.0), STEPS)


def cases(spec: OnlineSGD) -> tuple[AuditCase, ...]:
    """The first example of the first round, which enters every release; then concave losses."""
    played = replace(spec, clip=None, factorisation=_kind(spec))
    # on a line, with nothing but the example, losses are as they are declared to be
    observer = Observer.PEER if spec.trust == "central" else Observer.SERVER
    algorithm, first, second = _pull(played, FLAT)
    found = release_cases(
        algorithm, first, second, runs=RUNS, observer=observer, parameters=changes(spec, played)
    )
    local = replace(played, steps="smooth", local_step=STEP, clip=1.0, calibration="certified")
    climbing, one, other = _pull(local, hill())
    honest = release_cases(
        climbing,
        one,
        other,
        runs=RUNS,
        observer=observer,
        broken=less_noise(climbing, 1 / climbing.parameters["factor"]),
        parameters=changes(spec, local),
        of=", concave losses",
    )
    name = "concave losses, noise for the published sensitivity"
    return (*found, honest[1], replace(honest[2], name=name))


def _kind(spec: OnlineSGD) -> Any:
    """The factorisation, unless it is for another number of rounds."""
    return spec.factorisation if isinstance(spec.factorisation, str) else "blt"


def _pull(spec: OnlineSGD, family: Batch) -> tuple[Algorithm, Replay, Replay]:
    """One example pulls in opposite directions in the two worlds; all others pull nowhere."""
    clients, width = (4 if spec.trust == "distributed" else 1), 1
    algorithm = spec.build(Setting(clients, width, ROUNDS, family=family))
    worlds = list[Replay]()
    for target in (1.0, -1.0):
        records = np.zeros((ROUNDS, clients, family.size, 2))
        records[0, 0, 0] = 1.0, target
        worlds.append(Replay(records.reshape(ROUNDS, clients, -1), family))
    return algorithm, worlds[0], worlds[1]
