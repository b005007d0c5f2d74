"""A fingerprint of what an environment hands out, to know whether two runs saw the same losses.

An environment with data of its own offers `fingerprint()`, a text that is another for other data; one that is made of another
environment has that one's in it. Of drawn losses the first rounds of seed 0 are hashed (their sums, where only sums are played):
with equal parameters they tell whether the code that draws is the same.
"""

from __future__ import annotations

from hedgerow.core.environment import Environment, draws_sums
from hedgerow.environments.recorded.data import fingerprint_of
from hedgerow.environments.wrappers.masks import Around
from hedgerow.studies.config import StudyConfig

ADAPTIVE = "adaptive"
HEAD_ELEMENTS = 2**16
HEAD_ROUNDS = 1000


def fingerprint(environment: Environment, engine: str = "vectorised") -> str:
    """`adaptive` where losses follow the plays: then no two algorithms see the same."""
    if environment.traits.sees_plays:
        return ADAPTIVE
    offered = environment.fingerprint()
    if offered is not None:
        return offered
    setting = environment.setting
    if engine == "summed" and draws_sums(type(environment)):
        return fingerprint_of(
            environment.sums(environment.start(0), min(setting.horizon, HEAD_ROUNDS))[0]
        )
    inner = fingerprint(environment.of) if isinstance(environment, Around) else None
    rounds = min(setting.horizon, max(1, HEAD_ELEMENTS // (setting.players * setting.experts)))
    block, _ = environment.block(environment.start(0), rounds, None)
    reports = None if block.reports is block.losses else block.reports
    return fingerprint_of(inner, block.losses, reports, block.awake, block.present)


def fingerprints(config: StudyConfig) -> dict[str, str]:
    """One for each label."""
    engine = config.engine
    common = (
        fingerprint(config.environment, engine)
        if any(entry.environment is None for entry in config.algorithms)
        else ""
    )
    return {
        e.label: common if e.environment is None else fingerprint(e.environment, engine)
        for e in config.algorithms
    }
