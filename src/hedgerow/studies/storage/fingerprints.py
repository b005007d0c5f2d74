"""Fingerprints of losses, which show whether two runs saw the same losses.

An environment with recorded data offers `fingerprint()`, a text that differs for different data.
The fingerprint of a wrapper includes that of the wrapped environment. For drawn losses the first
rounds of seed 0 are hashed (their sums, if only sums are played). With equal parameters, this hash
shows whether the code that draws them is the same.
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
    """The fingerprint of an environment's losses.

    It is `adaptive` if losses depend on the plays: then no two algorithms see the same losses.
    """
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
    """The fingerprint of the losses of each label."""
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
