"""Where data files are looked for: `--data DIR`, then HEDGEROW_DATA, then the user's data folder.

`--data` is handed on in a variable of its own, so that worker processes look in the same places.
"""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

from hedgerow.core.errors import MissingData

CHOSEN = "HEDGEROW_DATA_OPTION"
VARIABLE = "HEDGEROW_DATA"


def directories() -> list[Path]:
    named = [Path(os.environ[name]) for name in (CHOSEN, VARIABLE) if os.environ.get(name)]
    return [*named, user_data_path("hedgerow")]


def find(name: str, source: str = "whoever recorded it", *, here: bool = False) -> Path:
    """The file called `name`, `here` or in a data directory; `source` says where a user can get it."""
    places = [*([Path()] if here else []), *directories()]
    for place in places:
        if (place / name).is_file():
            return place / name
    looked = " or ".join(str((place / name).absolute()) for place in places)
    raise MissingData(f"Data file {name!r} not found: get it from {source} and put it at {looked} (or use --data DIR).")
