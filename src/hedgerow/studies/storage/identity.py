"""What a result depends on: configuration, code, versions and losses.

If all of them are equal, results are equal to the last bit. A fingerprint identifies the losses.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from hedgerow.core.environment import Environment, draws_sums, fingerprint_of
from hedgerow.core.extras import needs
from hedgerow.environments.wrappers.masks import Around
from hedgerow.records.provenance import code_provenance, library_versions
from hedgerow.studies.config import StudyConfig, study_table

Table = dict[str, Any]


def toml_table(config: StudyConfig) -> Table:
    """A configuration as it is read back from a TOML file."""
    with needs("runs"):
        import tomli_w

    return tomllib.loads(tomli_w.dumps(study_table(config)))


def code_identity() -> Table:
    """Hashes of the code of the package and of plugins, and the versions of libraries."""
    found = code_provenance()
    return {"code": found.sha256, "plugins": found.plugins, "versions": library_versions()}


def studies_identity(studies: Mapping[str, StudyConfig]) -> Table:
    """Everything that the results of these studies depend on."""
    return {
        "studies": {name: toml_table(config) for name, config in studies.items()},
        **code_identity(),
        "losses": {name: study_fingerprints(config) for name, config in studies.items()},
    }


def flat_study_table(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten nested tables into one, by dotted path; algorithms are named by their labels.

    >>> flat_study_table({"seeds": 2, "algorithms": [{"label": "a", "every": 5}]})
    {'seeds': 2, 'algorithms.a.label': 'a', 'algorithms.a.every': 5}
    """
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, Mapping) and "label" in item for item in value)
    ):
        value = {item["label"]: item for item in value}
    if not isinstance(value, Mapping):
        return {path: value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found |= flat_study_table(item, f"{path}.{key}" if path else str(key))
    return found


def shown(value: Any) -> str:
    """The text of a value in a list of differences; of a hash, the first 12 digits."""
    if value is None:
        return "not set"
    text = str(value)
    return text[:12] if len(text) == 64 and set(text) <= set("0123456789abcdef") else text


def identity_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs, in words: `seeds was 20, is 10`."""
    old, new = flat_study_table(before), flat_study_table(now)
    return [
        f"{path} was {shown(old.get(path))}, is {shown(new.get(path))}"
        for path in dict.fromkeys((*old, *new))
        if old.get(path) != new.get(path)
    ]


ADAPTIVE = "adaptive"
HEAD_ELEMENTS = 2**16
HEAD_ROUNDS = 1000


def losses_fingerprint(environment: Environment, engine: str = "vectorised") -> str:
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
            environment.sums(environment.start(0), min(setting.rounds, HEAD_ROUNDS))[0]
        )
    inner = losses_fingerprint(environment.of) if isinstance(environment, Around) else None
    rounds = min(setting.rounds, max(1, HEAD_ELEMENTS // setting.numbers))
    block, _ = environment.block(environment.start(0), rounds, None)
    reports = None if block.reports is block.losses else block.reports
    public = (block.side, block.reporting) if block.informs else ()
    return fingerprint_of(inner, block.losses, reports, block.awake, block.present, *public)


def study_fingerprints(config: StudyConfig) -> dict[str, str]:
    """The fingerprint of the losses of each label."""
    engine = config.engine
    common = (
        losses_fingerprint(config.environment, engine)
        if any(entry.environment is None for entry in config.algorithms)
        else ""
    )
    return {
        e.label: common if e.environment is None else losses_fingerprint(e.environment, engine)
        for e in config.algorithms
    }
