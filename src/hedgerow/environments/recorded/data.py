"""Search paths of data files: `--data DIR`, then HEDGEROW_DATA, then the user's data folder.

`--data` is passed on in its own environment variable, so that worker processes search the same
places.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_data_path

from hedgerow.core.errors import MissingData

CHOSEN = "HEDGEROW_DATA_OPTION"
VARIABLE = "HEDGEROW_DATA"


def _named(variable: str) -> list[Path]:
    return [Path(os.environ[variable])] if os.environ.get(variable) else []


def directories(here: bool = False) -> list[Path]:
    """Return the folders to search, in order; `here` adds the current folder after `--data`."""
    return [
        *_named(CHOSEN),
        *([Path()] if here else []),
        *_named(VARIABLE),
        user_data_path("hedgerow"),
    ]


def _places(names: Sequence[str], folders: Sequence[Path]) -> list[Path]:
    """Where a file may be; one with an absolute path may have moved to the folder of `--data`."""
    there = (folder / name for folder in folders for name in names)
    absolute = [Path(name).name for name in names if Path(name).is_absolute()]
    moved = (folder / name for folder in _named(CHOSEN) for name in absolute)
    return list(dict.fromkeys((*there, *moved)))


def beside(name: str, folder: Path) -> str:
    """Return the absolute path of a file that a study file in `folder` names.

    It is looked for in the folder of `--data`, then in `folder`, then as `find` does. If it is not
    found, its place is in `folder`: that is reported when the file is read.
    """
    for file in _places((name,), (*_named(CHOSEN), folder, *directories(here=True))):
        if file.is_file():
            return str(file.absolute())
    return str((folder / name).absolute())


def find(name: str, source: str = "", *, here: bool = False) -> Path:
    """Return the file called `name` in a data folder; `source` states where to get it."""
    return find_any((name,), source, here=here)


def find_any(names: Sequence[str], source: str, *, here: bool = False) -> Path:
    """Return the first of several equivalent files, in the first data folder that has one."""
    for file in _places(names, directories(here)):
        if file.is_file():
            return file
        if file.is_dir():
            raise MissingData(f"{file.absolute()} is a folder. Name a file in it.")
    looked = " or ".join(str(file.absolute()) for file in _places(names[:1], directories(here)))
    get = f"Get it from {source} and put it there" if source else "Put it there"
    name = Path(names[0]).name if Path(names[0]).is_absolute() else names[0]
    raise MissingData(
        f"Data file {name!r} not found at {looked}. {get}, or name its folder with --data DIR."
    )
