"""Fill in the parts of README.md that come from running code; `--check` fails when they are out of date.

A block `<!-- run:NAME -->` is followed by a fenced output that this script writes: `example` runs the Python block above it,
`guarantees` prints the guarantee table.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

from hedgerow.algorithms.registry import variants
from hedgerow.core.setting import Setting

README = Path(__file__).parent.parent / "README.md"
SETTING = Setting(clients=10, experts=100, horizon=512)


def example(text: str) -> str:
    """The output of the first Python block."""
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None, "README.md has no Python block"
    output, home = io.StringIO(), os.getcwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(output):
        os.chdir(folder)
        try:
            exec(compile(found.group(1), "README.md", "exec"), {})
        finally:
            os.chdir(home)
    return f"```text\n{output.getvalue().rstrip()}\n```"


def guarantees(text: str) -> str:
    """One row for each algorithm, trust, calibration and observer, at epsilon = 1."""
    del text
    columns = ("algorithm", "trust", "calibration", "observer", "sees", "guarantee for one event", "claimed", "proof")
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for spec in variants().values():
        algorithm = spec.build(SETTING)
        certificate = algorithm.certificate
        for g in certificate.guarantees:
            sees = ", ".join(sorted(channel.value for channel in g.view))
            claimed = "" if g.claimed is None else g.claimed.words()
            proof = "" if g.proof is None else f"[proof](proofs/{g.proof.file}#{g.proof.anchor})"
            guarantee = f"{g.observer.value} | {sees} | {g.curve.words()} | {claimed} | {proof}"
            rows.append(f"| {algorithm.name} | {certificate.trust} | {certificate.calibration} | {guarantee} |")
    return "\n".join(rows)


def filled(text: str) -> str:
    for name, make in (("example", example), ("guarantees", guarantees)):
        pattern = re.compile(rf"(<!-- run:{name} -->\n).*?(<!-- end:{name} -->)", re.DOTALL)
        assert pattern.search(text), f"README.md has no block {name}"
        made = make(text)
        text = pattern.sub(lambda m, made=made: f"{m.group(1)}{made}\n{m.group(2)}", text)
    return text


def main() -> int:
    old = README.read_text(encoding="utf-8")
    new = filled(old)
    if "--check" in sys.argv:
        return 0 if new == old else 1
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
