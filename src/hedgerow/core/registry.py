"""Named things: built in, from an installed package's entry point, or from a user's Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.validate import nearest

Thing = TypeVar("Thing")


class _Reference(str):
    """A reference `"module:attribute"` that is not imported yet."""

    def load(self) -> Any:
        module, _, attribute = self.partition(":")
        return getattr(import_module(module), attribute)


class _EntryPoint(_Reference):
    """A reference that an installed package announces."""

    def load(self) -> Any:
        try:
            return super().load()
        except HedgerowError:
            raise
        except Exception as error:
            raise HedgerowError(
                f"Plugin {str(self)!r} failed to load: {type(error).__name__}: {error}"
            ) from error


def _is(known: Any, thing: Any) -> bool:
    """Whether a registered thing, perhaps not imported yet, is this one."""
    if isinstance(known, _Reference):
        return isinstance(thing, type) and known == f"{thing.__module__}:{thing.__qualname__}"
    return known is thing


class Registry(Generic[Thing]):
    """A mapping from names to classes or functions.

    Built-in entries are references (`"module:attribute"`), and so are the entry points of the group
    `hedgerow.<kind>s`; each is imported when it is first used. If `base` is given, only its
    subclasses can be added.
    """

    def __init__(self, kind: str, built_in: Mapping[str, str], base: type | None = None) -> None:
        self.kind = kind
        self.base = base
        self._things: dict[str, Any] = {name: _Reference(where) for name, where in built_in.items()}
        self.built_in = tuple(sorted(built_in))
        self._installed = set(built_in)
        self._found_plugins = False

    def add(self, name: str, thing: Thing) -> None:
        """Register a thing under a new name."""
        if name in self._things and not _is(self._things[name], thing):
            raise InvalidValue(
                f"The {self.kind} name {name!r} is already taken. Choose another name."
            )
        self._things[name] = self._checked(name, thing)

    def _checked(self, name: str, thing: Any) -> Any:
        """The thing, if it is of the kind that this registry holds."""
        if self.base is not None and not (isinstance(thing, type) and issubclass(thing, self.base)):
            raise InvalidValue(
                f"Expected the {self.kind} {name!r} to be a class that inherits from "
                f"{self.base.__name__}, got {thing!r}."
            )
        return thing

    def _find_plugins(self) -> None:
        """Note the entry points of installed packages; none is imported yet."""
        if self._found_plugins:
            return
        self._found_plugins = True
        for point in entry_points(group=f"hedgerow.{self.kind}s"):
            where = _EntryPoint(f"{point.module}:{point.attr}")
            self._installed.add(point.name)
            known = self._things.setdefault(point.name, where)
            if known != where and not _is(where, known):
                raise InvalidValue(
                    f"The {self.kind} name {point.name!r} is taken, so plugin {point.value!r} "
                    "cannot have it. Uninstall one of the two."
                )

    def __getitem__(self, name: str) -> Thing:
        self._find_plugins()
        if name not in self._things:
            hint = nearest(name, self._things)
            text = f"Unknown {self.kind} {name!r}; {hint} Load your own with --plugin FILE.py."
            raise InvalidValue(" ".join(filter(None, (text, self.what_to_install()))))
        thing = self._things[name]
        if isinstance(thing, _Reference):
            thing = self._things[name] = self._checked(name, thing.load())
        return thing

    def __contains__(self, name: object) -> bool:
        self._find_plugins()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        self._find_plugins()
        return iter(sorted(self._things))

    def items(self) -> list[tuple[str, Thing]]:
        return [(name, self[name]) for name in self]

    def installed(self) -> list[str]:
        """The names that every process knows, without files passed with --plugin."""
        self._find_plugins()
        return sorted(self._installed)

    def what_to_install(self) -> str | None:
        """A sentence for users without those of the papers, a plugin; None for others."""
        if PAPERS in installed_plugins():
            return None
        return (
            f"The {self.kind}s of the papers are not installed: run `pip install ./papers` in a "
            "checkout of Hedgerow."
        )

    def name_of(self, thing: object) -> str:
        """Return the registered name of a thing, or of the class of an object."""
        self._find_plugins()
        for name, known in sorted(self._things.items()):
            if _is(known, thing) or _is(known, type(thing)):
                return name
        raise InvalidValue(
            f"Expected a registered {self.kind}, got {type(thing).__name__}; "
            "register it with add()."
        )


EXPERIMENTS: Registry[Any] = Registry("experiment", {})
"""The experiments of installed plugins, such as that of the papers; the package has none."""
PAPERS = "hedgerow_papers"
PLUGIN = "hedgerow_plugin_"  # then the name of the file, and a hash of its path
_loaded: list[str] = []


def module_name(module: str) -> str:
    """Return the name of a module; that of a plugin without what depends on its path.

    >>> module_name("hedgerow_plugin_mine_0123abcd"), module_name("hedgerow.core.block")
    ('hedgerow_plugin_mine', 'hedgerow.core.block')
    """
    return module.rpartition("_")[0] if module.startswith(PLUGIN) else module


def loaded_plugins() -> tuple[str, ...]:
    """Return the files that a worker process must load again."""
    return tuple(_loaded)


def installed_plugins() -> tuple[str, ...]:
    """Return the installed packages that announce something on which results may depend."""
    groups = (f"hedgerow.{kind}s" for kind in ("algorithm", "environment", "experiment"))
    points = (point for group in groups for point in entry_points(group=group))
    return tuple(sorted({point.module.partition(".")[0] for point in points}))


_libraries: list[str] = []


def depends_on(*libraries: str) -> None:
    """Name installed packages that results depend on; every record lists their versions.

    Call it beside the import, also if that import comes later.
    """
    _libraries.extend(name for name in libraries if name not in _libraries)


def named_libraries() -> tuple[str, ...]:
    """Return the packages that were named with `depends_on`."""
    return tuple(_libraries)


def load_plugin(path: str) -> None:
    """Run a plugin file.

    The file registers what it adds, for example with `hedgerow.ALGORITHMS.add(name, class)`. It may
    name the libraries that its results depend on with `depends_on`. Nothing is written beside it.
    """
    file = Path(path).resolve()
    if str(file) in _loaded:
        return
    if not file.is_file():
        raise HedgerowError(f"Plugin {path} not found. Check the path.")
    place = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    name = f"{PLUGIN}{file.stem}_{place}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise HedgerowError(f"Plugin {path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    writes_nothing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except HedgerowError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        text = f"Plugin {path} failed to import: {type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name == PAPERS:
            text += f". {EXPERIMENTS.what_to_install()}"
        raise HedgerowError(text) from error
    finally:
        sys.dont_write_bytecode = writes_nothing
    _loaded.append(str(file))


def load_plugins(paths: Sequence[str]) -> None:
    """Run several plugin files."""
    for path in paths:
        load_plugin(path)
