"""What a result depends on: configuration, code, versions and losses.

If all of them are equal, results are equal to the last bit.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import tomli_w

from hedgerow.records.provenance import code, versions
from hedgerow.studies.config import StudyConfig, to_table
from hedgerow.studies.storage.fingerprints import fingerprints

Table = dict[str, Any]


def toml_table(config: StudyConfig) -> Table:
    """A configuration as it is read back from a TOML file."""
    return tomllib.loads(tomli_w.dumps(to_table(config)))


def sources() -> Table:
    """Hashes of the code of the package and of plugins, and the versions of libraries."""
    found = code()
    return {"code": found.sha256, "plugins": found.plugins, "versions": versions()}


def identity(studies: Mapping[str, StudyConfig]) -> Table:
    """Everything that the results of these studies depend on."""
    return {
        "studies": {name: toml_table(config) for name, config in studies.items()},
        **sources(),
        "losses": {name: fingerprints(config) for name, config in studies.items()},
    }


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten nested tables into one, by dotted path; algorithms are named by their labels.

    >>> flat({"seeds": 2, "algorithms": [{"label": "a", "every": 5}]})
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
        found |= flat(item, f"{path}.{key}" if path else str(key))
    return found


def shown(value: Any) -> str:
    """The text of a value in a list of differences; of a hash, the first 12 digits."""
    if value is None:
        return "not set"
    text = str(value)
    return text[:12] if len(text) == 64 and set(text) <= set("0123456789abcdef") else text


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs, in words: `seeds was 20, is 10`."""
    old, new = flat(before), flat(now)
    return [
        f"{path} was {shown(old.get(path))}, is {shown(new.get(path))}"
        for path in dict.fromkeys((*old, *new))
        if old.get(path) != new.get(path)
    ]
