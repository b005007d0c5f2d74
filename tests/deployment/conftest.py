"""A place for ledgers in memory where there is one: thousands of synchronous writes take no time."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import hedgerow.deployment.client
import hedgerow.deployment.server
from hedgerow.core.protocol import Algorithm
from hedgerow.deployment.manifest import Manifest, rebuild


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An empty folder, in memory if the system has such a place."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="hedgerow-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # a ledger that is closed now deletes its own files


@pytest.fixture
def built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parties that are opened hundreds of times rebuild the same manifest once."""
    known: dict[bytes, Algorithm] = {}

    def remembered(manifest: Manifest) -> Algorithm:
        if manifest.digest not in known:
            known[manifest.digest] = rebuild(manifest)
        return known[manifest.digest]

    for module in (hedgerow.deployment.client, hedgerow.deployment.server):
        monkeypatch.setattr(module, "rebuild", remembered)
