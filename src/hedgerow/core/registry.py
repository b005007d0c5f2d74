"""Named things: built in, from an installed package's entry point, or from a user's own file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.validate import nearest

Thing = TypeVar("Thing")


class _Reference(str):
    """`"module:attribute"`, not imported yet."""

    def load(self) -> Any:
        module, _, attribute = self.partition(":")
        return getattr(import_module(module), attribute)


def _is(known: Any, thing: Any) -> bool:
    """Whether a registered thing, perhaps not imported yet, is this one."""
    if isinstance(known, _Reference):
        return isinstance(thing, type) and known == f"{thing.__module__}:{thing.__qualname__}"
    return known is thing


class Registry(Generic[Thing]):
    """Names and what they stand for.

    Built-in things are given by reference (`"module:attribute"`) and imported when they are first used. Entry points of the group
    `hedgerow.<kind>s` are loaded when a name is first looked up. With a `base`, only its subclasses can be added.
    """

    def __init__(self, kind: str, built_in: Mapping[str, str], base: type | None = None) -> None:
        self.kind = kind
        self.base = base
        self._things: dict[str, Any] = {name: _Reference(where) for name, where in built_in.items()}
        self._found_plugins = False

    def add(self, name: str, thing: Thing) -> None:
        if name in self._things and not _is(self._things[name], thing):
            raise InvalidValue(f"Expected a new {self.kind} name, {name!r} is already taken.")
        if self.base is not None and not (isinstance(thing, type) and issubclass(thing, self.base)):
            raise InvalidValue(
                f"Expected the {self.kind} {name!r} to be a class that inherits from {self.base.__name__}, got {thing!r}."
            )
        self._things[name] = thing

    def _load_plugins(self) -> None:
        if self._found_plugins:
            return
        self._found_plugins = True
        for point in entry_points(group=f"hedgerow.{self.kind}s"):
            try:
                self.add(point.name, point.load())
            except HedgerowError:
                raise
            except Exception as error:
                raise HedgerowError(
                    f"Plugin {point.value!r} failed to load: {type(error).__name__}: {error}"
                ) from error

    def __getitem__(self, name: str) -> Thing:
        self._load_plugins()
        if name not in self._things:
            raise InvalidValue(f"Unknown {self.kind} {name!r}; {nearest(name, self._things)}")
        thing = self._things[name]
        if isinstance(thing, _Reference):
            thing = self._things[name] = thing.load()
        return thing

    def __contains__(self, name: object) -> bool:
        self._load_plugins()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(sorted(self._things))

    def items(self) -> list[tuple[str, Thing]]:
        return [(name, self[name]) for name in self]

    def name_of(self, thing: object) -> str:
        """The name under which a thing, or the class of an object, is registered."""
        self._load_plugins()
        for name, known in sorted(self._things.items()):
            if _is(known, thing) or _is(known, type(thing)):
                return name
        raise InvalidValue(
            f"Expected a registered {self.kind}, got {type(thing).__name__}; register it with add()."
        )
