"""A fingerprint of what an environment hands out, to know whether two runs saw the same losses.

Recorded losses are hashed whole. Of drawn losses the first rounds of seed 0 are hashed: with equal parameters they tell whether
the code that draws is the same. An environment that reads data of its own can offer `fingerprint()`, a text.
"""

from __future__ import annotations

import hashlib

import numpy as np

from hedgerow.core.protocol import Environment
from hedgerow.experiments.config import StudyConfig

ADAPTIVE = "adaptive"
HEAD_ELEMENTS = 2**16


def _hash(*arrays: np.ndarray | None) -> str:
    total = hashlib.sha256()
    for array in arrays:
        if array is not None:
            total.update(f"{array.dtype.str}{array.shape}".encode())
            total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def fingerprint(environment: Environment) -> str:
    """`adaptive` where losses follow the plays: then no two algorithms see the same."""
    if environment.adaptive:
        return ADAPTIVE
    offered = getattr(environment, "fingerprint", None)
    if callable(offered):
        return str(offered())
    recorded = getattr(environment, "losses", None)
    if isinstance(recorded, np.ndarray):
        return _hash(recorded)
    setting = environment.setting
    rounds = min(setting.horizon, max(1, HEAD_ELEMENTS // (setting.players * setting.experts)))
    block, _ = environment.block(environment.start(0), rounds, None)
    return _hash(block.losses, None if block.reports is block.losses else block.reports, block.awake, block.present)


def fingerprints(config: StudyConfig) -> dict[str, str]:
    """One for each label."""
    common = fingerprint(config.environment) if any(entry.environment is None for entry in config.algorithms) else ""
    return {entry.label: common if entry.environment is None else fingerprint(entry.environment) for entry in config.algorithms}
