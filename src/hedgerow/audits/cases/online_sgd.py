"""Audit cases for online SGD: one example that pulls in opposite directions.

The published sensitivity does not hold for local steps. On a concave quadratic, what the first
example moves grows in every later step: with ten steps of 0.3 / L it is 7.7 times what the paper
says. Noise for the published sensitivity must be caught there.

A trusted server shows peers models only. The certificate promises as much to a peer that sees the
releases, and this is attacked.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, changes
from hedgerow.audits.cases.releases import less_noise, release_cases
from hedgerow.core.batch import Batch
from hedgerow.core.certificate import Observer
from hedgerow.core.convex import Huber
from hedgerow.core.model import Example, Model
from hedgerow.core.protocol import Algorithm
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.validate import parameters

ROUNDS = 17  # the certificate counts one release more than a game has, which then is little
FLAT = Batch(Huber(), 2)
STEPS, STEP = 10, 0.3  # local steps, and their size times the smoothness
CONCAVE, PUBLISHED = ", concave losses", "concave losses, noise for the published sensitivity"


def concave(params: Any, pair: Example) -> Any:
    """The loss `slope * x - x^2 / 2`, whose slope is the target of the example.

    >>> concave({"x": 2.0}, (0.0, 1.0))
    0.0
    """
    return pair[1] * params["x"] - params["x"] ** 2 / 2


@lru_cache(maxsize=1)
def hill() -> Batch:
    """Return the family of the concave losses, with ten examples in every round."""
    return Batch(Model(concave, {"x": 0.0}, features=(1,), smooth=1.0, radius=100.0), STEPS)


def cases(spec: OnlineSGD) -> tuple[AuditCase, ...]:
    """The first example of the first round, which enters every release; then concave losses."""
    steps = spec.chosen.steps
    plain = replace(spec, clip=None, plan=replace(spec.chosen, factorisation=_kind(spec)))
    hard = steps in ("smooth", "clipped")  # there an example moves later steps as well
    played = _climbing(plain, steps) if hard else plain
    local = OnlineSGD(**parameters(_climbing(plain, "smooth")))  # certified, whatever `spec` is
    climbing, one, other = _pull(local, hill())
    honest = _cases(spec, local, (climbing, one, other), CONCAVE)[1]
    published = honest.caught(PUBLISHED, less_noise(climbing, 1 / climbing.parameters["factor"]))
    found = _cases(spec, played, _pull(played, hill() if hard else FLAT))
    return (*found, honest, published)


def _cases(
    spec: OnlineSGD, played: OnlineSGD, pulled: tuple[Algorithm, Replay, Replay], of: str = ""
) -> tuple[AuditCase, ...]:
    central = spec.trust == "central"
    return release_cases(
        *pulled,
        observer=Observer.PEER if central else Observer.SERVER,
        claim=RELEASES if central else WHOLE,
        parameters=changes(spec, played),
        of=of,
    )


def _climbing(spec: OnlineSGD, steps: Any) -> OnlineSGD:
    """Local steps on the hill: on a line, with nothing but the example, losses are as declared.

    Without a declared smoothness, steps are so long that all later gradients are clipped.
    """
    local = STEP if steps == "smooth" else 1.0
    plan = replace(spec.chosen, steps=steps, local_step=local, precision="24 bits")
    return replace(spec, plan=plan, clip=1.0)


def _kind(spec: OnlineSGD) -> Any:
    """The factorisation, unless it is for another number of rounds."""
    kind = spec.chosen.factorisation
    return kind if isinstance(kind, str) else "blt"


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
