"""A cache of arrays on disk, by key. A file that is not exactly as it was written is ignored."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


def cache_folder() -> Path:
    """The folder of the tables: `HEDGEROW_CACHE` if set, otherwise the user's cache folder."""
    chosen = os.environ.get("HEDGEROW_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("hedgerow")


def cache_file(key: str) -> Path:
    return cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.table"


def _header(key: str, payload: bytes) -> dict[str, str]:
    return {"key": key, "sha256": hashlib.sha256(key.encode() + b"\n" + payload).hexdigest()}


def load(key: str) -> Values | None:
    """The stored values, or None if there are none or the file is not as it was written."""
    try:
        header, _, payload = cache_file(key).read_bytes().partition(b"\n")
        if json.loads(header) != _header(key, payload):
            return None
        return np.frombuffer(payload, dtype="<f8").astype(np.float64)
    except (OSError, ValueError):
        return None


def store(key: str, values: Values) -> None:
    """Write a temporary file and rename it, so that other processes see a whole file or none."""
    payload = values.astype("<f8").tobytes()
    with suppress(OSError):  # a cache that cannot be written costs time, not correctness
        target = cache_file(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.stem, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(json.dumps(_header(key, payload)).encode() + b"\n" + payload)
            os.replace(name, target)
        except OSError:
            Path(name).unlink(missing_ok=True)
