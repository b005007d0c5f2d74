"""Named things: built in, from an installed package's entry point, or from a user's own file."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.validate import nearest

Thing = TypeVar("Thing")


class Registry(Generic[Thing]):
    """A dictionary with kind errors. Entry points of the group `hedgerow.<kind>s` are loaded when first needed."""

    def __init__(self, kind: str, built_in: dict[str, Thing]) -> None:
        self.kind = kind
        self._things = dict(built_in)
        self._found_plugins = False

    def add(self, name: str, thing: Thing) -> None:
        if name in self._things and self._things[name] is not thing:
            raise InvalidValue(f"Expected a new {self.kind} name, {name!r} is already taken.")
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
                raise HedgerowError(f"Plugin {point.value!r} failed to load: {type(error).__name__}: {error}") from error

    def __getitem__(self, name: str) -> Thing:
        self._load_plugins()
        if name not in self._things:
            raise InvalidValue(f"Unknown {self.kind} {name!r}; {nearest(name, self._things)}")
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(sorted(self._things))

    def items(self) -> list[tuple[str, Thing]]:
        return [(name, self[name]) for name in self]

    def name_of(self, thing: object) -> str:
        """The name under which a thing, or the class of an object, is registered."""
        for name, known in self.items():
            if known is thing or known is type(thing):
                return name
        raise InvalidValue(f"Expected a registered {self.kind}, got {type(thing).__name__}; register it with add().")
