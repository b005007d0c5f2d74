"""Public keys of a server that nobody runs, for manifests that are made and not played."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hedgerow.deployment import veil
from hedgerow.deployment.server_ledger import PublicKeys

NOBODY: PublicKeys = {
    "server": "00" * 32,
    "sealing": veil.load_or_make(Path(tempfile.mkdtemp()) / "server.box").public,
}
