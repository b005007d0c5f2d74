"""The stored runs of experiments, which the documentation shows: one file for each paper.

`hedgerow reproduce ID --json > run.json`, then `python -m hedgerow_papers.stored run.json ...`
replaces their rows. A run that fails one of its checks is refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hedgerow.core.registry import EXPERIMENTS
from hedgerow.version import __version__

FOLDER, FILE, OURS = Path(__file__).parent, "results.json", "ours"
KEPT = ("id", "status", "message", "holds", "passed", "checks", "tables")
VERSION = "version"  # of the package that ran the row


def stored() -> dict[str, Any]:
    """The runs by experiment, each with its version, and why some experiments have none."""
    found: dict[str, Any] = {"experiments": {}, "not_stored": {}}
    for file in sorted(FOLDER.glob(f"*/{FILE}")):
        page = _read(file)
        found["experiments"] |= {row["id"]: row for row in page["experiments"]}
        found["not_stored"] |= page["not_stored"]
    return found


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


def _place(name: str) -> Path:
    """The file of an experiment: beside it, or among ours if it is not of a paper."""
    package, *rest = EXPERIMENTS[name].judge.__module__.split(".")
    return FOLDER / (rest[0] if package == __package__ else OURS) / FILE


def store(row: dict[str, Any]) -> str | None:
    """Store one row of `hedgerow reproduce --json`; return why it is refused, if it is."""
    if row["status"] != "ran" or not row["passed"]:
        return f"{row['id']} is not stored: {row['status']}, {row['message']}"
    place = _place(row["id"])
    page = _read(place)
    rows = {known["id"]: known for known in page["experiments"]}
    rows[row["id"]] = {key: row[key] for key in KEPT} | {VERSION: __version__}
    page["experiments"] = list(rows.values())
    page["not_stored"].pop(row["id"], None)
    place.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")
    return None


def main(files: list[str]) -> int:
    for file in files:
        for row in _read(Path(file))["experiments"]:
            refused = store(row)
            if refused is not None:
                sys.stderr.write(f"{refused}\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
