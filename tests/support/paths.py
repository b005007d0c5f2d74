"""Where things are in this checkout."""

from __future__ import annotations

from pathlib import Path

import hedgerow

ROOT = Path(__file__).parents[2]
PACKAGE = Path(hedgerow.__file__).parent
PROOFS = PACKAGE / "proofs"
EXAMPLES = PACKAGE / "examples"
PLUGINS = (ROOT / "papers", ROOT / "benchmarks")  # installed like Hedgerow itself
