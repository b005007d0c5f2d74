"""Audit cases for online SGD: one example that pulls in opposite directions.

The published sensitivity does not hold for local steps. On a concave quadratic, what the first
example moves grows in every later step: with ten steps of 0.3 / L it is 7.7 times what the paper
says. Noise for the published sensitivity must be caught there.

Where clients add the noise, the server is attacked by replaying all releases of a short game. A
trusted server shows peers models only, so they are attacked from outside: by the frequencies of the
first model that depends on the example, which is read to a fifth of its noise.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.learning.model import Example, Model
from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.parts import peer_curve
from hedgerow.audits.cases.releases import less_noise, release_cases
from hedgerow.core.batch import Batch
from hedgerow.core.convex import Huber
from hedgerow.core.protocol import Algorithm
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.learning.online_sgd import OnlineSGD

ROUNDS, RUNS = 3, 300
FLAT = Batch(Huber(), 2)
STEPS, STEP = 10, 0.3  # local steps, and their size times the smoothness
OUTSIDE, READ_AT, SEEN = 4.0, 0.05, 2000  # epsilon, delta and runs of the game from outside
MODEL = "one model, from outside"
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
    return _from_outside(spec) if spec.trust == "central" else _replayed(spec)


def _climbing(spec: OnlineSGD) -> OnlineSGD:
    """Local steps on the hill: on a line, with nothing but the example, losses are as declared."""
    return replace(spec, steps="smooth", local_step=STEP, clip=1.0, calibration="certified")


def _replayed(spec: OnlineSGD) -> tuple[AuditCase, ...]:
    played = replace(spec, clip=None, factorisation=_kind(spec))
    algorithm, first, second = _pull(played, FLAT)
    found = release_cases(algorithm, first, second, runs=RUNS, parameters=changes(spec, played))
    local = _climbing(played)
    climbing, one, other = _pull(local, hill())
    honest = release_cases(
        climbing,
        one,
        other,
        runs=RUNS,
        broken=less_noise(climbing, 1 / climbing.parameters["factor"]),
        parameters=changes(spec, local),
        of=CONCAVE,
    )
    return (*found, honest[1], replace(honest[2], name=PUBLISHED))


def _from_outside(spec: OnlineSGD) -> tuple[AuditCase, ...]:
    flat = replace(spec, epsilon=OUTSIDE, clip=None, step=None, factorisation=_kind(spec))
    played, first, second = _pull(flat, FLAT, rounds=2)
    local = _climbing(flat)
    climbing, one, other = _pull(local, hill(), rounds=2)

    def case(
        name: str, audited: Algorithm, of: Algorithm, worlds: tuple[Replay, Replay], caught: bool
    ) -> AuditCase:
        server: Any = of.server
        loudest = np.abs(server.factorisation.decoding()[0]).max() * server.releasing.scale
        cell = server.rate * (1 - server.momentum) * loudest / 5
        expected: Verdict = "violated" if caught else "holds"
        return AuditCase(
            name,
            WHOLE,
            audited,
            peer_curve(of),
            worlds[0].records,
            worlds[1].records,
            method="black box",
            reading=lambda sent: int(sent[1].model[0] // cell),
            runs=SEEN,
            delta=READ_AT,
            expected=expected,
            parameters=changes(spec, flat if of is played else local),
        )

    half = less_noise(played, 0.5)
    less = less_noise(climbing, 1 / climbing.parameters["factor"])
    return (
        case("null, from outside", played, played, (first, first), False),
        case(MODEL, played, played, (first, second), False),
        case("half the noise, from outside", half, played, (first, second), True),
        case(MODEL + CONCAVE, climbing, climbing, (one, other), False),
        case(PUBLISHED, less, climbing, (one, other), True),
    )


def _kind(spec: OnlineSGD) -> Any:
    """The factorisation, unless it is for another number of rounds."""
    return spec.factorisation if isinstance(spec.factorisation, str) else "blt"


def _pull(spec: OnlineSGD, family: Batch, rounds: int = ROUNDS) -> tuple[Algorithm, Replay, Replay]:
    """One example pulls in opposite directions in the two worlds; all others pull nowhere."""
    clients, width = (4 if spec.trust == "distributed" else 1), 1
    algorithm = spec.build(Setting(clients, width, rounds, family=family))
    worlds = list[Replay]()
    for target in (1.0, -1.0):
        records = np.zeros((rounds, clients, family.size, 2))
        records[0, 0, 0] = 1.0, target
        worlds.append(Replay(records.reshape(rounds, clients, -1), family))
    return algorithm, worlds[0], worlds[1]
