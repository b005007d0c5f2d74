"""Fingerprints of algorithms: the same in every process and for two versions of the libraries,
another one after any change, and refused where a value has no canonical form.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, make_dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
import hedgerow_papers
from hedgerow.core.errors import InvalidValue
from hedgerow.core.fingerprint import fingerprint
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.protocol import FINGERPRINTED, Algorithm
from hedgerow.core.registry import load_plugin
from support import fingerprints
from support.fingerprints import PINNED, SETTING, pinned

SCRIPT = Path(fingerprints.__file__)
SOURCE = Path(hr.__file__).parents[1]
PAPERS = Path(hedgerow_papers.__file__).parents[1]
FILE = Path(__file__).with_name("fingerprints.json")


def _printed(python: Path | str, *arguments: str, **variables: str) -> dict[str, str]:
    """What the script prints in another process with these environment variables."""
    path = os.pathsep.join(map(str, (SOURCE, PAPERS)))
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    command = [str(python), str(SCRIPT), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_fingerprints_are_pinned() -> None:
    expected = json.loads(FILE.read_text())
    comment = expected.pop("comment")
    assert pinned() == expected, comment


def test_fingerprints_are_the_same_in_another_process() -> None:
    expected = json.loads(FILE.read_text())
    assert _printed(sys.executable, PYTHONHASHSEED="12345") == expected


def test_different_algorithms_have_different_fingerprints() -> None:
    assert len(set(pinned().values())) == len(PINNED)


@pytest.mark.long
def test_fingerprints_are_the_same_for_older_libraries(tmp_path: Path) -> None:
    """Every form of the package in several settings, with the oldest numpy and scipy allowed.

    Plugins are not installed there, so their algorithms are not compared.
    """
    folder = tmp_path / "older"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    needed = ("numpy==2.0.2", "scipy==1.13.1", "lazy-loader", "mpmath", "platformdirs")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed]
    if subprocess.run(pip, check=False, capture_output=True).returncode != 0:
        pytest.skip("pip cannot download the older versions")
    versions = "import numpy, scipy; print(numpy.__version__, scipy.__version__)"
    used = subprocess.check_output([str(python), "-c", versions], text=True).split()
    assert used == ["2.0.2", "1.13.1"]
    older = _printed(python, "all", HEDGEROW_CACHE=str(tmp_path / "first"))
    newer = _printed(sys.executable, "all", HEDGEROW_CACHE=str(tmp_path / "second"))
    assert len(older) > 200
    assert {name for name in older if older[name] != newer[name]} == set()


# Every change of a field is seen.


def _changes(value: Any) -> Iterator[Any]:
    """Copies of a value, each with one change somewhere inside; constructors are not called."""
    match value:
        case tuple():
            yield (*value, None)
            for i, item in enumerate(value):
                yield from ((*value[:i], new, *value[i + 1 :]) for new in _changes(item))
        case frozenset():
            yield value | {"one more"}
            for item in value:
                yield from ((value - {item}) | {new} for new in _changes(item))
        case Mapping():
            yield {**value, "one more": None}
            for key, item in value.items():
                yield {k: v for k, v in value.items() if k != key}
                yield from ({**value, key: new} for new in _changes(item))
        case _ if is_dataclass(value):
            for f in fields(value):
                for new in _changes(getattr(value, f.name)):
                    yield _with(value, f.name, new)
        case _:
            yield _another(value)


def _another(value: Any) -> Any:
    """The nearest other value of the same kind."""
    match value:
        case None:
            return 0
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return math.nextafter(value, math.inf) if value < math.inf else 0.0
        case str():
            return value + "x"
    assert isinstance(value, Enum)
    return next(other for other in type(value) if other is not value)


def _with(record: Any, name: str, value: Any) -> Any:
    changed = copy(record)
    object.__setattr__(changed, name, value)
    return changed


@dataclass(frozen=True)
class OtherUpload(Upload):
    losses: np.ndarray


@dataclass(frozen=True)
class OtherBroadcast(Broadcast):
    expert: int


TYPES = {"uploads": OtherUpload, "broadcasts": OtherBroadcast}
COUNTED_CLAIMS = ("regret_bound", "free_noise")


def _changes_of(algorithm: Algorithm, part: str) -> Iterator[Any]:
    """What a field may be instead: for messages another type, or another value of the rest."""
    value = getattr(algorithm, part)
    if part in TYPES:
        yield _with(value, "kind", TYPES[part])
        for name in {f.name for f in fields(value)} - {"kind"}:
            yield from (_with(value, name, new) for new in _changes(getattr(value, name)))
    elif value is not None:
        yield from _changes(value)


@pytest.mark.parametrize("name", PINNED)
def test_any_change_changes_the_fingerprint(name: str) -> None:
    algorithm = PINNED[name].build(SETTING)
    found = [algorithm.fingerprint()]
    for part in FINGERPRINTED:
        found += [_with(algorithm, part, new).fingerprint() for new in _changes_of(algorithm, part)]
    for part in COUNTED_CLAIMS:
        found += [
            _with(algorithm, "claims", _with(algorithm.claims, part, new)).fingerprint()
            for new in _changes(getattr(algorithm.claims, part))
        ]
    assert len(found) > 60
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", ["sparse_vector", "random_prefix"])
def test_a_decider_counts_and_what_adds_nothing_does_not(name: str) -> None:
    algorithm = PINNED[name].build(SETTING)
    print_ = algorithm.fingerprint()
    assert _with(algorithm, "decider", algorithm.client).fingerprint() != print_
    assert {f.name for f in fields(Algorithm)} - set(FINGERPRINTED) == {
        *("needs", "claims", "shortcuts")
    }
    for part in ("needs", "shortcuts"):
        assert _with(algorithm, part, object()).fingerprint() == print_
    claims = {f.name for f in fields(algorithm.claims)} - set(COUNTED_CLAIMS)
    assert claims == {"log_likelihood", "measures", "reference"}
    for part in claims:
        changed = _with(algorithm.claims, part, object())
        assert _with(algorithm, "claims", changed).fingerprint() == print_


@dataclass(frozen=True)
class LongerState:
    totals: np.ndarray
    more: int


def test_the_layout_of_a_state_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = PINNED["hedge"].build(SETTING)
    before = algorithm.fingerprint()
    monkeypatch.setattr(type(algorithm.server), "state", LongerState)
    assert algorithm.fingerprint() != before


def test_cached_values_do_not_matter() -> None:
    algorithm = PINNED["shrinking_dartboard, approximate"].build(SETTING)
    fresh = algorithm.fingerprint()
    algorithm.certificate.public.curve.epsilon(1e-6)
    for mechanism in algorithm.certificate.mechanisms:
        mechanism.noise_scale()
        mechanism.words()
    assert algorithm.fingerprint() == fresh
    used, unused = Cached(3.0), Cached(3.0)
    assert used.square == 9.0
    assert "square" in vars(used)
    assert fingerprint(used, "a") == fingerprint(unused, "a")


def test_an_empty_slot_and_a_true_cached_value_hide_nothing() -> None:
    assert fingerprint(Inheriting(1), "a") != fingerprint(Inheriting(2), "a")
    assert fingerprint(_overwritten(9.0), "a") == fingerprint(Cached(3.0), "a")


def test_free_noise_counts() -> None:
    algorithm = PINNED["hedge"].build(SETTING)
    changed = replace(algorithm, claims=replace(algorithm.claims, free_noise=frozenset({"start"})))
    assert changed.fingerprint() != algorithm.fingerprint()


# Single values.


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Cached:
    value: Any

    @cached_property
    def square(self) -> float:
        return self.value**2


@dataclass(frozen=True)
class Other:
    value: Any

    def method(self) -> None: ...


def first(*given: Any, **named: Any) -> None: ...


def second(*given: Any, **named: Any) -> None: ...


@lru_cache
def third() -> None: ...


DIFFERENT = [
    None,
    True,
    False,
    0,
    1,
    2**70,
    0.0,
    -0.0,
    1.0,
    math.inf,
    math.nan,
    math.nextafter(1.0, 2.0),
    "",
    "1",
    "None",
    (),
    (1,),
    ((1,),),
    (1, 2),
    (2, 1),
    [1, 2],
    ("1,2",),
    {1: 2},
    {1: {2: 3}},
    {"1": 2},
    frozenset(),
    frozenset({1}),
    frozenset({1, 2}),
    Colour.RED,
    Colour.BLUE,
    Cached(1),
    Cached(1.0),
    Cached(None),
    Other(1),
    Cached,
    Other,
    first,
    second,
    third,
    math.log,
    partial(first),
    partial(first, 1),
    partial(first, a=1),
    partial(second, 1),
    Other(1).method,
    Other(2).method,
    np.zeros(2),
    np.zeros(2, np.int64),
    np.zeros(2, np.float32),
    np.zeros((2, 1)),
    np.array(0.0),
    -np.zeros(2),
    np.array([1.0, 2.0]),
]


def test_different_values_have_different_fingerprints() -> None:
    assert len({fingerprint(value, "value") for value in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize(
    ("value", "equal"),
    [
        (np.float64(0.1), 0.1),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int32(7), 7),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (frozenset("abcdef"), frozenset("fedcba")),
        (np.arange(6).reshape(2, 3).T, np.array([[0, 3], [1, 4], [2, 5]])),
        (np.arange(3, dtype=">i8"), np.arange(3, dtype="<i8")),
        (np.broadcast_to(1.0, (3,)), np.ones(3)),
        (Cached(np.int64(2)), Cached(2)),
    ],
)
def test_equal_values_have_equal_fingerprints(value: Any, equal: Any) -> None:
    assert fingerprint(value, "value") == fingerprint(equal, "value")


class Plain:
    pass


def _hiding() -> Other:
    record = Other(1)
    object.__setattr__(record, "memory", [1])
    return record


class Slotted:
    __slots__ = ("__deep", "rate")


@dataclass(frozen=True)
class Inheriting(Slotted):
    value: Any


def _in_a_slot(name: str) -> Inheriting:
    record = Inheriting(1)
    object.__setattr__(record, name, 2.0)
    return record


def _overwritten(square: Any) -> Cached:
    record = Cached(3.0)
    object.__setattr__(record, "square", square)
    return record


def _local() -> Any:
    seen: list[int] = []

    def inner() -> list[int]:
        return seen

    return inner


def _local_class() -> Any:
    return make_dataclass("Made", ["value"])(1)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Other(Plain()), r"^role\.value has no fingerprint: Plain is not a dataclass\. Make it a"),
        (
            Other((1, {"a": object()})),
            r"^role\.value\[1\]\['a'\] has no fingerprint: object is not",
        ),
        (_hiding(), r"^role\.memory has no fingerprint: it is not a field\. Declare it as a field"),
        (_in_a_slot("rate"), r"^role\.rate has no fingerprint: it is not a field"),
        (_in_a_slot("_Slotted__deep"), r"^role\._Slotted__deep has no fingerprint"),
        (_overwritten(8.0), r"^role\.square has no fingerprint: it is not a field"),
        (_overwritten(np.array([9.0])), r"^role\.square has no fingerprint"),
        (
            lambda: 0,
            "<lambda> is not the name of one thing. Define it at the top level of a module",
        ),
        (_local(), "_local.<locals>.inner is not the name of one thing"),
        (partial(_local(), 1), "_local.<locals>.inner is not the name of one thing"),
        (_local_class(), "Made is not the name of one thing"),
        ([].append, "list.append is not the name of one thing"),
        (np.array([object()]), "object is not a type of numbers"),
        (np.ma.array([1.0]), "MaskedArray is not a dataclass"),
        (np.longdouble(1), "longdouble is not a dataclass"),
        (iter(()), "tuple_iterator is not a dataclass"),
    ],
)
def test_what_has_no_canonical_form_is_refused_by_name(value: Any, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        fingerprint(value, "role")


def test_a_plugin_has_the_same_fingerprint_in_every_folder(tmp_path: Path) -> None:
    text = (SOURCE / "hedgerow" / "examples" / "my_algorithm.py").read_text()
    found = []
    for place in ("here", "there"):
        file = tmp_path / place / "my_algorithm.py"
        file.parent.mkdir()
        file.write_text(
            text.replace('"my_algorithm"', f'"{place}"').replace(f'name="{place}"', 'name="mine"')
        )
        load_plugin(str(file))
        found.append(hr.ALGORITHMS[place]().build(SETTING).fingerprint())
    assert found[0] == found[1]
