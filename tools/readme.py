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
from hedgerow.core.certificate import Guarantee, Observer
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
    """One row for each algorithm, trust and calibration, at epsilon = 1: what the server may learn, and what everybody else may."""
    del text
    columns = (
        "algorithm",
        "trust",
        "calibration",
        "to the server",
        "to other sites and the public",
        "claimed",
        "proof",
    )
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for spec in variants().values():
        algorithm = spec.build(SETTING)
        certificate = algorithm.certificate
        server, peer, public = (
            certificate.guarantee(observer)
            for observer in (Observer.SERVER, Observer.PEER, Observer.PUBLIC)
        )
        assert peer.curve == public.curve, (
            f"{algorithm.name}: one column for two different guarantees"
        )
        cells = [_short(server), _short(peer), "" if peer.claimed is None else peer.claimed.words()]
        proof = (
            "" if peer.proof is None else f"[proof](proofs/{peer.proof.file}#{peer.proof.anchor})"
        )
        rows.append(
            f"| {algorithm.name} | {certificate.trust} | {certificate.calibration} | {' | '.join(cells)} | {proof} |"
        )
    return "\n".join(rows)


def _short(guarantee: Guarantee) -> str:
    return guarantee.curve.words() if guarantee.protects else "no guarantee"


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
