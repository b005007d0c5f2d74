"""Audit cases for the running leader: all releases of a game, by the server or by the clients.

With a trusted server, peers see leaders only. The certificate promises as much to a peer that sees
the releases, and this is attacked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, changes
from hedgerow.audits.cases.releases import expert_pairs, release_cases, worst_pair
from hedgerow.core.certificate import Observer
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.correlated.running_leader import RunningLeader

ROUNDS = 33  # the certificate counts one release more than a game has, which then is little


def cases(spec: RunningLeader) -> tuple[AuditCase, ...]:
    """The null case, the datum that moves most releases, and too little noise, to be caught."""
    central, clients = spec.trust == "central", 4 if spec.trust == "distributed" else 1
    played = replace(spec, every=1, reports="each")
    algorithm = played.build(Setting(clients, 2, ROUNDS))
    observer = Observer.PEER if central else Observer.SERVER
    return release_cases(
        algorithm,
        *worst_pair(algorithm, expert_pairs(algorithm.setting), observer),
        observer=observer,
        claim=RELEASES if central else WHOLE,
        parameters=changes(spec, played),
    )
