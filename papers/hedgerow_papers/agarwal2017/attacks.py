"""Audit cases for tree leader and tree hedge: all nodes of a tree that hold one record.

Peers see leaders, or running sums with more noise. The certificate promises as much to a peer that
sees the nodes, and this is attacked.
"""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf
from typing import TYPE_CHECKING

from hedgerow.audits.case import RELEASES, AuditCase, changes
from hedgerow.audits.cases.releases import expert_pairs, release_cases, worst_pair
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import InvalidValue
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow_papers.agarwal2017.tree_hedge import TreeHedge
    from hedgerow_papers.agarwal2017.tree_leader import TreeLeader

ROUNDS = 9  # eight exchanges: the first record is in the nodes of 1, 2, 4 and 8 batches
CHOICES = {"every": 1, "reports": "each", "unit": None}


def cases(spec: TreeLeader | TreeHedge) -> tuple[AuditCase, ...]:
    """The null case, the record that is in most nodes, and too little noise, to be caught."""
    if spec.mu == inf:
        raise InvalidValue(
            f"Expected mu={spec.mu!r} finite: without noise nothing is protected, and there is "
            "nothing to audit."
        )
    known = {part.name for part in fields(spec)}
    played = replace(spec, **{name: CHOICES[name] for name in CHOICES if name in known})
    algorithm = played.build(Setting(1, 2, ROUNDS))
    return release_cases(
        algorithm,
        *worst_pair(algorithm, expert_pairs(algorithm.setting), Observer.PEER),
        observer=Observer.PEER,
        claim=RELEASES,
        parameters=changes(spec, played),
    )
