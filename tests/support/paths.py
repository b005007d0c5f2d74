"""Where things are in this checkout."""

from __future__ import annotations

from pathlib import Path

import hedgerow
from hedgerow import proofs

ROOT = Path(__file__).parents[2]
PACKAGE = Path(hedgerow.__file__).parent
PROOFS = {f"{name}.md": Path(str(file)) for name, file in proofs.found().items()}
EXAMPLES = PACKAGE / "examples"
PLUGINS = (ROOT / "papers", ROOT / "benchmarks")  # installed like Hedgerow itself
