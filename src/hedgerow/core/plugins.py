"""Load a user's own algorithms, environments and experiments from a Python file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from hedgerow.core.errors import HedgerowError

_loaded: list[str] = []


def loaded_plugins() -> tuple[str, ...]:
    """Return the files that a worker process must load again."""
    return tuple(_loaded)


def load_plugin(path: str) -> None:
    """Run a plugin file.

    The file registers what it adds, for example with `hedgerow.ALGORITHMS.add(name, class)`.
    """
    file = Path(path).resolve()
    if str(file) in _loaded:
        return
    if not file.is_file():
        raise HedgerowError(f"Plugin {path} not found. Check the path.")
    name = f"hedgerow_plugin_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise HedgerowError(f"Plugin {path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except HedgerowError:
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise HedgerowError(
            f"Plugin {path} failed to import: {type(error).__name__}: {error}"
        ) from error
    _loaded.append(str(file))


def load_plugins(paths: Sequence[str]) -> None:
    """Run several plugin files."""
    for path in paths:
        load_plugin(path)
