"""Where data files are looked for: `--data DIR` (which sets HEDGEROW_DATA), then HEDGEROW_DATA, then the user's data folder."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

from hedgerow.core.errors import MissingData

VARIABLE = "HEDGEROW_DATA"


def directories() -> list[Path]:
    chosen = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
    return [*chosen, user_data_path("hedgerow")]


def find(name: str, source: str) -> Path:
    """The file called `name` in a data directory; `source` says where a user can get it."""
    places = directories()
    for place in places:
        if (place / name).is_file():
            return place / name
    looked = " or ".join(str(place / name) for place in places)
    raise MissingData(f"Data file {name!r} not found: get it from {source} and put it at {looked} (or use --data DIR).")
