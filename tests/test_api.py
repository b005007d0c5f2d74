"""Every exported class and function documents its parameters and has an example that runs."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest

import hedgerow
import hedgerow.privacy
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.units import Unit
from support.paths import PACKAGE


def exported() -> dict[str, Any]:
    """Classes and functions by name; registries and the version are values."""
    listed = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    names = [
        alias.name
        for node in listed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    found = {f"hedgerow.{name}": getattr(hedgerow, name) for name in names}
    found |= {
        f"hedgerow.privacy.{name}": getattr(hedgerow.privacy, name)
        for name in dir(hedgerow.privacy)
    }
    return {
        name: thing
        for name, thing in found.items()
        if inspect.isclass(thing) or inspect.isfunction(thing)
    }


EXPORTED = exported()


def parameters(thing: Any) -> list[str]:
    """The names that a caller may give."""
    if isinstance(thing, type) and issubclass(thing, Exception):
        return []
    try:
        signature = inspect.signature(thing)
    except ValueError:  # an enumeration
        return []
    if isinstance(thing, type) and hasattr(thing, "__members__"):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, p in signature.parameters.items()
        if p.kind not in kinds and not name.startswith("_") and name not in inherited(thing)
    ]


def inherited(thing: Any) -> set[str]:
    """What a base class documents for all: the unit of a spec and the record of a unit."""
    if not isinstance(thing, type):
        return set()
    bases = {AlgorithmSpec: {"unit"}, Unit: {"record"}}
    known = [names for base, names in bases.items() if issubclass(thing, base)]
    return set[str]().union(*known)


def documented(thing: Any) -> list[str]:
    """The names under the heading Parameters, which may be that of a base class."""
    docstring = thing.__doc__ or ""
    same = re.search(r"Parameters and guarantee are those\s+of\s+`(\w+)`", docstring)
    if same is not None:
        (base,) = (kind for kind in thing.__mro__ if kind.__name__ == same[1])
        return documented(base)
    _, _, after = inspect.cleandoc(docstring).partition("Parameters\n----------\n")
    section = re.split(r"\n\w[\w ]*\n-{3,}\n", after)[0]
    heads = re.findall(r"^(\w[\w, ]*?)(?: : .*)?$", section, re.MULTILINE)
    return [name.strip() for head in heads for name in head.split(",")]


@pytest.mark.parametrize("name", EXPORTED)
def test_parameters_are_documented(name: str) -> None:
    thing = EXPORTED[name]
    missing = [given for given in parameters(thing) if given not in documented(thing)]
    assert not missing, f"{name} does not document {missing}"
    unknown = [given for given in documented(thing) if given not in parameters(thing)]
    assert not unknown, f"{name} documents {unknown}, which it does not take"


@pytest.mark.parametrize("name", EXPORTED)
def test_there_is_an_example(name: str) -> None:
    assert ">>> " in (EXPORTED[name].__doc__ or ""), f"{name} has no example"


def test_many_things_are_exported() -> None:
    assert len(EXPORTED) > 60
