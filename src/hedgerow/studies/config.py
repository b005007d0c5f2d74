"""The configuration of a study: one environment, several algorithms, seeds.

TOML files are loaded into it, and experiments are built from it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.environment import Environment, Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.text import one_line
from hedgerow.core.validate import at_least, nearest, one_of
from hedgerow.engines.simulate import ENGINES, require_fit, setting_of
from hedgerow.environments.recorded.data import beside
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.records.build import choices_of
from hedgerow.records.plain import from_registry


@dataclass(frozen=True)
class Entry:
    """One algorithm of a study.

    Parameters
    ----------
    label
        The name in tables and pictures.
    algorithm
        The algorithm and its parameters.
    environment
        The environment of this entry alone. None: the environment of the study.
    alone
        Whether every client plays by itself, in a game of one client, and results are averaged.
    """

    label: str
    algorithm: AlgorithmSpec
    environment: Environment | None = None
    alone: bool = False


ALONE = ", alone"  # ends the label of an entry whose clients play by themselves


def entries_with_alone(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Add to every entry one in which every client plays by itself."""
    found = []
    for entry in entries:
        found.append(entry)
        if not entry.alone:
            found.append(replace(entry, label=entry.label + ALONE, alone=True))
    return tuple(found)


@dataclass(frozen=True)
class StudyConfig:
    """What `hedgerow run FILE.toml` runs.

    Parameters
    ----------
    title
        The title of tables and pictures.
    environment
        The environment that the algorithms share.
    algorithms
        One entry for each algorithm; labels are unique.
    seeds
        The number of seeds, at least 1.
    first_seed
        The first seed; the others follow.
    engine
        The engine that plays the rounds.
    comparator_switches
        Also compare with the best sequence of experts with at most this many changes, for each
        number.
    tags
        Words by which `hedgerow runs` finds the run.
    """

    title: str
    environment: Environment
    algorithms: tuple[Entry, ...]
    seeds: int = 20
    first_seed: int = 0
    engine: str = "vectorised"
    comparator_switches: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        at_least("seeds", self.seeds, 1)
        at_least("first_seed", self.first_seed, 0)
        one_of(self, engine=ENGINES)
        for count in self.comparator_switches:
            at_least("comparator_switches", count, 1)
        if len(self.algorithms) == 0:
            raise InvalidValue("Expected algorithms=[] to name at least one algorithm.")
        labels = [entry.label for entry in self.algorithms]
        names = [("title", self.title)] + [("tag", tag) for tag in self.tags]
        for what, text in (*names, *(("label", label) for label in labels)):
            if one_line(text) != text:
                raise InvalidValue(f"Expected {what}={text!r} without control characters.")
        for label in labels:
            if labels.count(label) != 1:
                raise InvalidValue(
                    f"Expected label={label!r} to be used once. Give each algorithm its own label "
                    '= "...".'
                )

    def environment_of(self, entry: Entry) -> Environment:
        """The environment that an entry plays in."""
        return self.environment if entry.environment is None else entry.environment

    def build(self, entry: Entry) -> Algorithm:
        """The algorithm of an entry, certified for its environment; refused if it does not fit."""
        environment = self.environment_of(entry)
        built = entry.algorithm.build(setting_of(environment, entry.alone))
        require_fit(built, environment, entry.alone)
        return built.in_game(environment.traits)

    def stream_of(self, index: int) -> int:
        """The number of the first entry with the same losses as entry `index`.

        Where losses depend on the plays, that is `index` itself.
        """
        environment = self.environment_of(self.algorithms[index])
        if self._reacts(environment):
            return index
        return next(
            i
            for i, entry in enumerate(self.algorithms)
            if _same(self.environment_of(entry), environment)
        )

    @staticmethod
    def _reacts(environment: Environment) -> bool:
        """Whether losses depend on the plays. Where experts sleep, the comparators' losses do."""
        return (
            environment.traits.sees_plays or Feature.SLEEPING_EXPERTS in environment.traits.features
        )

    def stream_name(self, index: int) -> str:
        """A name for the losses of an entry: how its environment differs from that of the study.

        It is empty if they are the same, a few values if both are of one kind, and otherwise the
        name of the kind or the label.
        """
        own, common = self.environment_of(self.algorithms[index]), self.environment
        if self._reacts(own) or (type(own) is not type(common) and not is_dataclass(own)):
            return self.algorithms[index].label
        if type(own) is not type(common):
            return type(own).__name__
        return ", ".join(_differences(own, common))

    def own_name(self) -> str:
        """A name for the losses of the study: how they differ from others of the same kind.

        It is empty if no entry has another environment of the same kind.
        """
        others = [self.environment_of(entry) for entry in self.algorithms]
        values = [
            value
            for other in others
            if type(other) is type(self.environment)
            for value in _differences(self.environment, other)
        ]
        return ", ".join(dict.fromkeys(values))


def _same(one: object, other: object) -> bool:
    """Whether two environments are equal; False if they hold arrays that cannot be compared."""
    try:
        return one is other or bool(one == other)
    except ValueError:
        return False


def _differences(own: Any, common: Any) -> list[str]:
    """The values in which two environments of one kind differ, including wrapped environments."""
    found = []
    for name in [f.name for f in fields(own) if f.init] if is_dataclass(own) else []:
        mine, theirs = getattr(own, name), getattr(common, name)
        if is_dataclass(mine) and type(mine) is type(theirs):
            found += _differences(mine, theirs)
        elif not _same(mine, theirs):
            found.append(f"{name} = {type(mine).__name__ if is_dataclass(mine) else mine}")
    return found


_TOP = (
    "title",
    "seeds",
    "first_seed",
    "engine",
    "comparator_switches",
    "alone",
    "tags",
    "environment",
    "algorithms",
)


PATH = "path"  # what environments call their data file
_BARE = re.compile(r"^([+-]?)\.(\d)")  # TOML requires a digit before the point


def _own_environment(common: Mapping[str, Any], changes: Any, where: str) -> Any:
    """The study's environment with some values changed, or another one if the name is another."""
    if not isinstance(changes, Mapping):
        raise InvalidValue(f"Expected {where}={changes!r} to be a table.")
    return from_registry(ENVIRONMENTS, _changed(common, changes), where)


def _changed(common: Mapping[str, Any], changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with the changes applied, also inside a wrapped environment."""
    if changes.get("name", common.get("name")) != common.get("name"):
        return changes
    both = {
        k for k in changes if isinstance(changes[k], Mapping) and isinstance(common.get(k), Mapping)
    }
    return {**common, **changes, **{k: _changed(common[k], changes[k]) for k in both}}


def study_from_table(table: Mapping[str, Any], title: str = "Untitled") -> StudyConfig:
    """A study from the plain values of a TOML file; `title` is used if the file has none."""
    for key in table:
        if key not in _TOP:
            raise InvalidValue(f"Unknown key {key}; {nearest(key, _TOP)}")
    environment_table = table.get("environment", {})
    environment = from_registry(ENVIRONMENTS, environment_table, "environment")
    rows = table.get("algorithms", [])
    if not isinstance(rows, list):
        named = (
            [key for key, value in rows.items() if isinstance(value, Mapping)]
            if isinstance(rows, Mapping)
            else []
        )
        first = next(iter(named), "hedge")
        name = rows.get("name") or first if isinstance(rows, Mapping) else first
        label, lines = "", "the next"
        if named and name == first and (own := rows[first].get("name", first)) != first:
            name, label, lines = own, f'label = "{first}" and ', "the next two"
        form = f'[[algorithms]] in one line, {label}name = "{name}" in {lines}, then its parameters'
        found = "one table" if named or rows else repr(rows)
        raise InvalidValue(
            f"Expected algorithms to be a list of tables, got {found}. Write {form}."
        )
    entries = []
    for i, row in enumerate(rows):
        where = f"algorithms.{i}"
        spec = from_registry(ALGORITHMS, row, where, ("label", "environment", "alone"))
        own = (
            None
            if row.get("environment") is None
            else _own_environment(environment_table, row["environment"], f"{where}.environment")
        )
        by_itself = _truth(row, "alone", f"{where}.")
        entries.append(Entry(str(row.get("label", row["name"])), spec, own, by_itself))
    plain = {k: v for k, v in table.items() if k in ("title", "seeds", "first_seed", "engine")}
    for key, value in plain.items():
        if key in ("title", "engine") and not isinstance(value, str):
            raise InvalidValue(f"Expected {key}={value!r} to be text.")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if key in ("seeds", "first_seed") and not whole:
            raise InvalidValue(f"Expected {key}={value!r} to be a whole number.")
    counts = table.get("comparator_switches", [])
    if not isinstance(counts, list):
        raise InvalidValue(
            f"Expected comparator_switches={counts!r} to be a list of whole numbers."
        )
    tags = table.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidValue(f"Expected tags={tags!r} to be a list of texts.")
    return StudyConfig(
        **{"title": title, **plain},
        environment=environment,
        algorithms=entries_with_alone(entries) if _truth(table, "alone") else tuple(entries),
        comparator_switches=tuple(counts),
        tags=tuple(tags),
    )


def _truth(table: Mapping[str, Any], key: str, where: str = "") -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise InvalidValue(f"Expected {where}{key}={value!r} to be true or false.")
    return value


def study_table(config: StudyConfig) -> dict[str, Any]:
    """The resolved configuration as plain values; `study_from_table` restores the same study."""

    def plain(registry: Any, thing: Any) -> dict[str, Any]:
        hints = get_type_hints(type(thing))
        values = choices_of(thing)
        values |= {k: plain(ENVIRONMENTS, v) for k, v in values.items() if hints[k] is Environment}
        return {"name": registry.name_of(thing), **values}

    rows = []
    for entry in config.algorithms:
        row = {"label": entry.label, **plain(ALGORITHMS, entry.algorithm)}
        if entry.environment is not None:
            row["environment"] = plain(ENVIRONMENTS, entry.environment)
        if entry.alone:
            row["alone"] = True
        rows.append(row)
    return {
        "title": config.title,
        "seeds": config.seeds,
        "first_seed": config.first_seed,
        "engine": config.engine,
        "comparator_switches": list(config.comparator_switches),
        **({"tags": list(config.tags)} if config.tags else {}),
        "environment": plain(ENVIRONMENTS, config.environment),
        "algorithms": rows,
    }


def study_with_paths(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A study with absolute paths of its data files, which it names relative to `folder`."""
    found = dict(table)
    if isinstance(table.get("environment"), Mapping):
        found["environment"] = _located(table["environment"], folder)
    if isinstance(table.get("algorithms"), list):
        found["algorithms"] = [
            {**row, "environment": _located(row["environment"], folder)}
            if isinstance(row, Mapping) and isinstance(row.get("environment"), Mapping)
            else row
            for row in table["algorithms"]
        ]
    return found


def _located(environment: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """An environment, and those inside it, with the absolute path of its data file."""
    return {
        key: _located(value, folder)
        if isinstance(value, Mapping)
        else beside(value, folder)
        if key == PATH and isinstance(value, str)
        else value
        for key, value in environment.items()
    }


def parse_setting(text: str) -> tuple[str, Any]:
    """Split `a.b=c` into a path and a value, which is read as TOML or else as text.

    >>> parse_setting("algorithms.0.epsilon=2.5"), parse_setting("leave=.5")
    (('algorithms.0.epsilon', 2.5), ('leave', 0.5))
    >>> parse_setting("environment.name=halving")
    ('environment.name', 'halving')
    """
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise InvalidValue(f"Expected --set {text!r} of the form key=value.")
    for written in (value, _BARE.sub(r"\g<1>0.\2", value.strip())):
        try:
            return path.strip(), tomllib.loads(f"x = {written}")["x"]
        except tomllib.TOMLDecodeError:
            pass
    return path.strip(), value.strip()


def override_setting(table: dict[str, Any], path: str, value: Any) -> None:
    """Set one value in place. Algorithms are addressed by number or by label."""
    *parents, last = path.split(".")
    place: Any = table
    for i, step in enumerate(parents):
        if isinstance(place, list):
            by_label = {
                str(row.get("label", row.get("name"))): row
                for row in place
                if isinstance(row, dict)
            }
            rows = {**by_label, **{str(n): row for n, row in enumerate(place)}}
            if step not in rows:
                raise InvalidValue(
                    f"Unknown {'.'.join(parents[: i + 1])} in --set {path}; {nearest(step, rows)}"
                )
            place = rows[step]
        elif isinstance(place, dict):
            place = place.setdefault(step, {})
        else:
            raise InvalidValue(f"Expected {'.'.join(parents[:i])} in --set {path} to be a table.")
    if not isinstance(place, dict):
        raise InvalidValue(f"Expected --set {path} to name a key, not a whole list.")
    place[last] = value


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file."""
    if not path.is_file():
        raise InvalidValue(f"There is no TOML file at {path}. Check the path.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"Cannot read {path}: {error}") from error


def load_study(
    path: Path, settings: Sequence[str] = (), first_seed: int | None = None
) -> StudyConfig:
    """Read a TOML file, apply `key=value` settings and validate the study.

    Paths of data files are relative to the TOML file.
    """
    table = read_toml(path)
    for text in settings:
        override_setting(table, *parse_setting(text))
    config = study_from_table(study_with_paths(table, path.parent), path.stem)
    return config if first_seed is None else replace(config, first_seed=first_seed)
