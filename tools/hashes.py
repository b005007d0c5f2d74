"""Write deploy/requirements.txt: what the container installs, with the hash of every file.

The versions are those of requirements.txt. Run it after they have changed:

    .venv/bin/python tools/hashes.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
WRITTEN = ROOT / "deploy" / "requirements.txt"
MACHINES = ("x86_64", "aarch64")
BUILD = "setuptools"  # builds the package itself


def needed(name: str, extras: frozenset[str] = frozenset(), skip: str = "") -> set[str]:
    """A distribution and all that it needs with these extras."""
    found, queue = set[str](), [(name, extras)]
    seen = set[tuple[str, frozenset[str]]]()
    while queue:
        one = queue.pop()
        if one in seen:
            continue
        seen.add(one)
        found.add(canonicalize_name(one[0]))
        for text in distribution(one[0]).requires or []:
            wanted = Requirement(text)
            marker = wanted.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in ("", *one[1])):
                queue.append((wanted.name, frozenset(wanted.extras)))
    return found - {skip}


def pinned() -> dict[str, str]:
    """The line of each distribution in requirements.txt."""
    lines = (ROOT / "requirements.txt").read_text().split()
    return {canonicalize_name(line.partition("==")[0]): line for line in lines if "==" in line}


def hashes(lines: list[str]) -> dict[str, set[str]]:
    """The hashes of the files that pip would take, by distribution."""
    found: dict[str, set[str]] = {}
    for machine in MACHINES:
        kinds = [f"--platform=manylinux_{v}_{machine}" for v in ("2_17", "2_27", "2_28")]
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--quiet"]
        command += ["--ignore-installed", "--only-binary=:all:", "--python-version=3.11"]
        command += [*kinds, f"--platform=manylinux2014_{machine}", "--report=-"]
        with tempfile.TemporaryDirectory() as folder:
            reported = subprocess.run(
                [*command, f"--target={folder}", *lines], check=True, capture_output=True, text=True
            )
        for one in json.loads(reported.stdout)["install"]:
            name = canonicalize_name(one["metadata"]["name"])
            found.setdefault(name, set()).add(one["download_info"]["archive_info"]["hash"])
    return found


def main() -> None:
    """Write the file."""
    pins = pinned()
    lines = [
        pins[name] for name in sorted(needed("hedgerow", frozenset({"deploy"})) - {"hedgerow"})
    ]
    lines.append(pins[BUILD])
    found = hashes(lines)
    shown = []
    for line in sorted(lines):
        own = sorted(found[canonicalize_name(line.partition("==")[0])])
        shown.append(" \\\n".join([line, *(f"    --hash={one.replace('=', ':')}" for one in own)]))
    WRITTEN.write_text("# Written by tools/hashes.py\n" + "\n".join(shown) + "\n")


if __name__ == "__main__":
    main()
