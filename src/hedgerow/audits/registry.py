"""The audits by algorithm: each function takes the algorithm's spec and returns its cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hedgerow.audits.case import AuditCase
from hedgerow.core.registry import Registry

AUDITS: Registry[Callable[[Any], tuple[AuditCase, ...]]] = Registry(
    "audit",
    {
        "block_selection": "hedgerow.audits.cases.watch:block_cases",
        "doubling": "hedgerow.audits.cases.restarting:cases",
        "limited_updates": "hedgerow.audits.cases.ball:limited_updates",
        "noisy_ftrl": "hedgerow.audits.cases.ball:noisy_ftrl",
        "online_sgd": "hedgerow.audits.cases.online_sgd:cases",
        "phased_selection": "hedgerow.audits.cases.phased_selection:cases",
        "private_hedge": "hedgerow.audits.cases.private_hedge:cases",
        "private_mixture": "hedgerow.audits.cases.mixture:cases",
        "random_prefix": "hedgerow.audits.cases.blocks:exact_cases",
        "repeated_votes": "hedgerow.audits.cases.votes:repeated_cases",
        "running_leader": "hedgerow.audits.cases.running_leader:cases",
        "shrinking_dartboard": "hedgerow.audits.cases.dartboard:cases",
        "sparse_vector": "hedgerow.audits.cases.sparse_vector:cases",
        "vote_selection": "hedgerow.audits.cases.votes:cases",
        "walk_leader": "hedgerow.audits.cases.walks:cases",
        "watched_selection": "hedgerow.audits.cases.watch:watched_cases",
        "window_leader": "hedgerow.audits.cases.running_leader:cases",
    },
)
