"""Benchmarks of start-up: new Python processes, measured alternately.

Imports are compared by processor time, whole commands by wall time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from statistics import median
from tempfile import TemporaryDirectory

from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import REPEATS

FIRST_USE = "import hedgerow as hr; hr.run, hr.SparseVector, hr.Realizable"


def process_seconds(*arguments: str) -> float:
    """Processor time of a new Python process from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


BARE = "import numpy, scipy.special, matplotlib.pyplot"
STUDY = str(files("hedgerow") / "examples" / "study.toml")
COMMANDS: dict[str, tuple[tuple[str, ...], float, int]] = {
    "hedgerow demo": (("demo",), 5.0, 3),
    "hedgerow run examples/study.toml": (("run", STUDY), 5.0, 3),
    "hedgerow gallery --quick": (("gallery", "--quick"), 90.0, 1),
}
"""Commands by name: their arguments, the most times a bare import, and how often to measure."""


class Failed(Exception):
    """A command that ended with another exit code than 0, and what it said."""


def wall_seconds(*arguments: str) -> float:
    """Wall time of a new Python process, in an empty folder that is removed afterwards."""
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        taken = time.perf_counter() - start
    if done.returncode != 0:
        lines = done.stdout.splitlines()
        why = [line for line in lines if "failed" in line or "Error" in line] or lines[-1:]
        raise Failed(f"exit code {done.returncode}: {'; '.join(why)}")
    return taken


def command_rows(*names: str) -> Iterator[Row]:
    """Whole commands against a bare import of what they need; by default all of them."""
    wall_seconds("-c", BARE)  # the first run may read from a cold disk
    for name in names or COMMANDS:
        arguments, limit, repeats = COMMANDS[name]
        try:
            if repeats > 1:
                wall_seconds("-m", "hedgerow", *arguments)
            pairs = [
                (
                    wall_seconds("-m", "hedgerow", *arguments),
                    median(wall_seconds("-c", BARE) for _ in range(3)),
                )
                for _ in range(repeats)
            ]
        except Failed as error:
            yield Row(f"start/{name}", None, BARE, 0.0, "ms", "<=", limit, failure=str(error))
            continue
        ratio, value = median(a / b for a, b in pairs), median(a for a, _ in pairs)
        yield Row(f"start/{name}", ratio, BARE, 1000 * value, "ms", "<=", limit)


def quick_start() -> Iterator[Row]:
    """Imports and the demo."""
    yield from import_rows()
    yield from command_rows("hedgerow demo")


def start_rows() -> Iterator[Row]:
    """Imports, then whole commands."""
    yield from import_rows()
    yield from command_rows()


def import_rows() -> Iterator[Row]:
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


START = Benchmark(start_rows, quick_start)
