"""Store runs of experiments for the docs: `hedgerow reproduce ID --json > run.json`, then

    .venv/bin/python tools/store_run.py run.json ...

replaces their rows in `docs/reproductions.json`. A run that fails one of its checks is refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reproductions.json"
KEPT = ("id", "status", "message", "reproduces", "passed", "checks", "tables")


def main(files: list[str]) -> int:
    page = json.loads(PAGE.read_text(encoding="utf-8"))
    rows = {row["id"]: row for row in page["experiments"]}
    for file in files:
        for found in json.loads(Path(file).read_text(encoding="utf-8"))["experiments"]:
            if found["status"] != "ran" or not found["passed"]:
                print(f"{found['id']} is not stored: {found['status']}, {found['message']}")
                return 1
            rows[found["id"]] = {key: found[key] for key in KEPT}
            page["not_stored"].pop(found["id"], None)
    page["experiments"] = list(rows.values())
    PAGE.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
