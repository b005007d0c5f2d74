"""Audit cases for the running leader: all releases of a short game, replayed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases.releases import release_cases
from hedgerow.core.certificate import Observer
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.correlated.running_leader import RunningLeader

ROUNDS, EXPERTS = 8, 2


def cases(spec: RunningLeader) -> tuple[AuditCase, ...]:
    """The null case, the datum that enters most releases, and half the noise, to be caught.

    The datum is in the first round, so it enters every release. A trusted server is not attacked:
    whoever sees its releases is at least as strong as a peer, who sees the leaders only.
    """
    played = replace(spec, every=1)
    clients = 4 if spec.trust == "distributed" else 1
    algorithm = played.build(Setting(clients, EXPERTS, ROUNDS))
    first = np.zeros((ROUNDS, clients, EXPERTS))
    second = first.copy()
    second[0, 0] = 1.0
    observer = Observer.PEER if spec.trust == "central" else Observer.SERVER
    return release_cases(
        algorithm, first, second, observer=observer, parameters=changes(spec, played)
    )
