"""Audit cases for Frank-Wolfe on trees: what is released at leaves or vertices, replayed.

Losses of experts come closest to the certificate, at a root. The printed noise has its own streams:
ten experts where clients add it, and two Huber losses where the server chooses.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.gradient.tree_roles import ClientState, FrankWolfeClient
from hedgerow.audits.case import WHOLE, AuditCase, changes
from hedgerow.audits.cases.parts import peer_curve, with_curve
from hedgerow.audits.cases.releases import less_noise, release_cases
from hedgerow.core.certificate import Observer
from hedgerow.core.convex import Huber, OnSimplex
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.protocol import Algorithm
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import PureDP

if TYPE_CHECKING:
    from hedgerow.algorithms.gradient.frank_wolfe import FrankWolfe
    from hedgerow.algorithms.gradient.trees import Step

FIRST, ROUNDS = 3, 8  # the first round of the phase of 4 rounds, which has one tree
OUTSIDE, READ_AT = 4.0, 0.05  # epsilon of games seen from outside, and the delta of comparisons
SHARP, CROWD = OnSimplex(Huber(threshold=0.02)), 5
Cases = tuple[AuditCase, ...]


def cases(spec: FrankWolfe) -> Cases:
    """The null case, then the worst stream, then the bugs that must be caught."""
    if spec.calibration == "published":
        return _published_choice(spec) if spec.trust == "central" else _published_local(spec)
    if spec.trust == "central" and spec.placement == "vertex":
        return _from_outside(spec)
    return _replayed(spec)


def _two_experts(clients: int, gap: float, experts: int = 2) -> tuple[Array, Array]:
    """Losses of a game with one tree in its last phase; the datum is in the batch of the root.

    At the last client, expert 0 loses `gap` in this batch, so choosing it reveals much.
    """
    first = np.zeros((ROUNDS, clients, experts))
    if gap:
        first[FIRST : FIRST + 2, -1, 0] = float(round_to_lattice(gap))
    second = first.copy()
    first[FIRST, 0], second[FIRST, 0] = 0.0, 1.0
    return first, second


def _worst(spec: FrankWolfe, algorithm: Algorithm, runs: int, **names: Any) -> Cases:
    """Everything that is released about a record in the batch of a root."""
    central, clients = spec.trust == "central", algorithm.setting.clients
    first, second = _two_experts(clients, 0.5 if central else 0.0)
    if central:  # opposite moves
        first[FIRST, 0], second[FIRST, 0] = (0.0, 1.0), (1.0, 0.0)
    observer = Observer.PEER if central else Observer.SERVER
    return release_cases(algorithm, first, second, runs=runs, observer=observer, **names)


def _replayed(spec: FrankWolfe) -> Cases:
    """The worst stream, and a bug: a record in two batches."""
    played = replace(spec, trees=1, honest=None)
    clients = {"central": 2, "distributed": 5, "local": 1}[spec.trust]
    algorithm = played.build(Setting(clients, 2, ROUNDS))
    gaussian = algorithm.parameters.get("report_noise") == "gaussian"
    whole = _worst(spec, algorithm, 400 if gaussian else 100, parameters=changes(spec, played))
    if gaussian:  # two batches would show sqrt(2) times the certificate, which needs many runs
        return whole
    again = replace(
        whole[1],
        name="all releases, a record in two batches",
        algorithm=_reusing(algorithm),
        expected="violated",
    )
    return *whole, again


class Reusing(FrankWolfeClient):
    """The bug: right children take the records of the root again."""

    def _increment(self, state: ClientState, step: Step) -> Array:
        return super()._increment(state, replace(step, level=0))


def _reusing(algorithm: Algorithm) -> Algorithm:
    parts = {part.name: getattr(algorithm.client, part.name) for part in fields(FrankWolfeClient)}
    return replace(algorithm, client=Reusing(**parts))


def _from_outside(spec: FrankWolfe) -> Cases:
    """The server adds noise to vectors that nobody sees: the frequencies of its choices."""
    played = replace(spec, epsilon=OUTSIDE, trees=0)
    algorithm = played.build(Setting(2, 2, 4))
    streams = np.zeros((4, 2, 2)), np.zeros((4, 2, 2))
    streams[0][1, 0], streams[1][1, 0] = (1.0, 0.0), (0.0, 1.0)

    def case(name: str, audited: Algorithm, other: Array, caught: bool) -> AuditCase:
        return AuditCase(
            name,
            WHOLE,
            audited,
            peer_curve(algorithm),
            streams[0],
            other,
            method="black box",
            runs=4000,
            delta=0.0 if spec.delta == 0 else READ_AT,
            expected="violated" if caught else "holds",
            parameters=changes(spec, played),
        )

    return (
        case("null, from outside", algorithm, streams[0], False),
        case("one phase, from outside", algorithm, streams[1], False),
        case("a quarter of the noise, from outside", less_noise(algorithm, 0.25), streams[1], True),
    )


def _claimed(case: AuditCase, spec: FrankWolfe) -> AuditCase:
    """The printed noise against what the paper claims."""
    claim = PureDP(spec.epsilon)
    return replace(
        case,
        name=f"{case.name}, as claimed",
        algorithm=with_curve(case.algorithm, claim),
        certified=claim,
        expected="violated",
    )


def _published_local(spec: FrankWolfe) -> Cases:
    """Ten experts, so that the coordinates of one vector add up to more than is claimed."""
    played = replace(spec, trees=1)
    algorithm = played.build(Setting(1, 10, ROUNDS))
    streams = _two_experts(1, 0.0, experts=10)
    whole = release_cases(algorithm, *streams, runs=400, parameters=changes(spec, played))
    return *whole, _claimed(whole[1], spec)


def _published_choice(spec: FrankWolfe) -> Cases:
    """Losses of experts, then two Huber losses that show more than is claimed.

    They belong to a right child and move the leader and another expert apart. All clients together
    make expert 1 the point of the phase, and expert 0 the choice at the first leaf.
    """
    linear = replace(spec, trees=1)
    printed = linear.build(Setting(2, 2, ROUNDS))
    null, worst, half = _worst(spec, printed, 100, parameters=changes(spec, linear))
    quarter = replace(
        half, name="all releases, a quarter of the noise", algorithm=less_noise(printed, 0.25)
    )
    played = replace(spec, epsilon=4.0, trees=1)
    algorithm = played.build(Setting(CROWD, 3, 8, family=SHARP))
    first = np.zeros((8, CROWD, 4))
    first[:3, :, 1], first[3:5, :, 0] = 1.0, 1.0
    first[:5, :, -1] = 1.0  # far targets: the gradient points away from the feature
    second = first.copy()
    # slopes change from one end to the other between the points (0, 1, 0) and (1, 0, 0)
    first[5, 0], second[5, 0] = (0.7, 0.0, -0.7, 0.35), (-0.4, -0.45, 0.79, -0.425)
    huber = replace(
        worst,
        name="two Huber losses",
        algorithm=algorithm,
        certified=peer_curve(algorithm),
        first=Replay(first, SHARP),
        second=Replay(second, SHARP),
        runs=100,
        parameters=changes(spec, played),
    )
    return null, worst, quarter, huber, _claimed(huber, played)
