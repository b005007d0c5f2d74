"""Audit cases for Fed-DP-OPE-Stoch: the printed noise reveals more than is claimed.

They show it on ten experts where clients add the noise, and on two Huber losses where the server
chooses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases.parts import peer_curve, with_curve
from hedgerow.audits.cases.releases import release_cases
from hedgerow.core.convex import Huber, OnSimplex
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.privacy.curves import PureDP
from hedgerow_papers.gao2024.certified_attacks import (
    NEAR,
    ROUNDS,
    Cases,
    behind,
    two_experts,
    worst_stream,
)
from hedgerow_papers.gao2024.frank_wolfe import FedDPOPEStoch

SHARP, CROWD = OnSimplex(Huber(threshold=0.02)), 5
FAR = 25.0  # as NEAR of the certified noise: how far behind the worse expert is


def frank_wolfe(spec: FedDPOPEStoch) -> Cases:
    """The null case, then the worst streams, then what is claimed, which must be refuted."""
    return _choice(spec) if spec.trust == "central" else _local(spec)


def _claimed(case: AuditCase, spec: FedDPOPEStoch) -> AuditCase:
    """The printed noise against what the paper claims."""
    claim = PureDP(spec.epsilon)
    return replace(
        case,
        name=f"{case.name}, as claimed",
        algorithm=with_curve(case.algorithm, claim),
        certified=claim,
        expected="violated",
    )


def _local(spec: FedDPOPEStoch) -> Cases:
    """Ten experts, so that the coordinates of one vector add up to more than is claimed."""
    played = replace(spec, trees=1)
    algorithm = played.build(Setting(1, 10, ROUNDS))
    streams = two_experts(1, 0.0, experts=10)
    whole = release_cases(algorithm, *streams, parameters=changes(spec, played))
    return *whole, _claimed(whole[1], spec)


def _choice(spec: FedDPOPEStoch) -> Cases:
    """Losses of experts, then two Huber losses that show more than is claimed.

    They belong to a right child and move the leader and another expert apart. All clients together
    make expert 1 the point of the phase, and expert 0 the choice at the first leaf.
    """
    linear = replace(spec, trees=1)
    far, near = (
        worst_stream(spec, *behind(linear, lead), of=of, parameters=changes(spec, linear))
        for lead, of in ((FAR, ""), (NEAR, ", a likelier choice"))
    )
    null, worst, less, _ = far
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
        parameters=changes(spec, played),
    )
    return null, worst, less, near[1], near[3], huber, _claimed(huber, played)
