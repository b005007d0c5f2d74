"""Benchmarks of start-up: processor time of new Python processes, measured alternately."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from hedgerow.benchmarks.measure import REPEATS, Row

FIRST_USE = "import hedgerow as hr; hr.run, hr.SparseVector, hr.Realizable"


def process_seconds(*arguments: str) -> float:
    """Processor time of a new Python process from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_rows() -> Iterator[Row]:
    """Imports against `import numpy`, and the help page against `import typer, rich`."""
    yield _row("import hedgerow", ("-c", "import hedgerow"), "import numpy", limit=0.5)
    yield _row("hedgerow --help", ("-m", "hedgerow", "--help"), "import typer, rich", limit=2.0)
    yield _row("import hedgerow.privacy", ("-c", "import hedgerow.privacy"), "import numpy")
    yield _row("look up hr.run", ("-c", FIRST_USE), "import numpy", limit=10.0)


def _row(name: str, ours: tuple[str, ...], theirs: str, limit: float | None = None) -> Row:
    pairs = [(process_seconds(*ours), process_seconds("-c", theirs)) for _ in range(REPEATS + 1)]
    warm = pairs[1:]  # the first run may read from a cold disk
    ratio, value = median(a / b for a, b in warm), median(a for a, _ in warm)
    return Row(
        f"start/{name}", ratio, theirs, 1000 * value, "ms", None if limit is None else "<=", limit
    )
