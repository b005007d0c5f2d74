"""Fill in the parts of README.md and docs/ that come from running code, and list what is registered
in `__init__.pyi`; `--check` fails when they are out of date.

Three kinds of blocks, each ended by `<!-- end -->` (in README.md by `<!-- end:NAME -->`):

* `<!-- run:python -->` holds what the Python block above it prints.
* `<!-- run:hedgerow ... -->` holds what this command prints. A line `[...]` stands for lines left
  out after `--lines N`.
* `<!-- run:NAME -->` holds what the function NAME below makes.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from hedgerow import proofs
from hedgerow.algorithms.registry import ALGORITHMS, variants
from hedgerow.contracts.suite import CONTRACTS
from hedgerow.core.certificate import Guarantee, Proof
from hedgerow.core.errors import HedgerowError
from hedgerow.core.setting import Setting
from hedgerow.deployment.manifest import check_deployable
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow_papers.experiments.experiment import TextTable
from hedgerow_papers.stored import stored

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
STUB = ROOT / "src" / "hedgerow" / "__init__.pyi"
SETTING = Setting(clients=10, experts=100, horizon=512)
BLOCK = re.compile(r"(<!-- run:([^\n]+?) -->\n)(.*?)(<!-- end(?::\w+)? -->)", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def documents() -> list[Path]:
    """README.md, the pages without those that are made by the build, and the list of names."""
    return [README, *sorted((ROOT / "docs").glob("*.md")), STUB]


def stub(text: str) -> str:
    """The public names of the package, with every registered algorithm and environment."""
    lines = set(text.splitlines())
    for registry in (ALGORITHMS, ENVIRONMENTS):
        for name in registry.built_in:
            module, thing = registry[name].__module__, registry[name].__name__
            lines.add(f"from {module.removeprefix('hedgerow')} import {thing} as {thing}")
    return "\n".join(sorted(lines)) + "\n"


def python(code: str) -> str:
    """What a piece of Python prints, in an empty folder."""
    output, home = io.StringIO(), os.getcwd()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(output):
        os.chdir(folder)
        try:
            exec(compile(code, "example", "exec"), {})
        finally:
            os.chdir(home)
    return _text(output.getvalue())


@lru_cache
def command(line: str) -> str:
    """What a command prints on standard output, in an empty folder;

    `--lines N` keeps the first N lines.
    """
    line, _, count = line.partition(" --lines ")
    words = [sys.executable, "-m", *shlex.split(line)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            words,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "100"},
        )
    if done.returncode:
        raise RuntimeError(f"{line}: {done.stderr}")
    lines = done.stdout.rstrip().splitlines()
    if count and len(lines) > int(count):
        lines = [*lines[: int(count)], "[...]"]
    return _text("\n".join(lines))


def _text(printed: str) -> str:
    return (
        "```text\n" + "\n".join(line.rstrip() for line in printed.rstrip().splitlines()) + "\n```"
    )


SOME = (
    "sparse_vector",
    "phased_selection",
    "phased_selection, local",
    "private_mixture",
)


def guarantees(document: Path) -> str:
    """One row for each algorithm, trust and calibration: what the server and everybody else may
    learn.
    """
    return _guarantees(document, tuple(variants()))


def some_guarantees(document: Path) -> str:
    """The rows that the README shows."""
    return _guarantees(document, SOME)


def _link(proof: Proof, document: Path) -> str:
    file = str(proofs.found()[proof.file.removesuffix(".md")])
    return f"{Path(os.path.relpath(file, document.parent)).as_posix()}#{proof.anchor}"


def _guarantees(document: Path, names: Sequence[str]) -> str:
    columns = (
        "algorithm",
        "trust",
        "calibration",
        "to the server",
        "to other clients and the public",
        "claimed",
        "proof",
    )
    rows = []
    for name in names:
        spec = variants()[name]
        algorithm = spec.build(replace(SETTING, family=spec.traits.family or SETTING.family))
        certificate = algorithm.certificate
        server, peer, public = certificate.server, certificate.peer, certificate.public
        assert peer.curve == public.curve, (
            f"{algorithm.name}: one column for two different guarantees"
        )
        claimed = "" if peer.claimed is None else peer.claimed.words()
        proof = "" if peer.proof is None else f"[proof]({_link(peer.proof, document)})"
        row = [
            algorithm.name,
            certificate.trust,
            certificate.calibration,
            _short(server),
            _short(peer),
            claimed,
            proof,
        ]
        if row in rows:  # another form with the same guarantee
            row[0] += f" ({name.partition(', ')[2]})"
        rows.append(row)
    kept = [
        i
        for i in range(len(columns))
        if names is not SOME or columns[i] not in ("calibration", "claimed")
    ]
    lines = [
        [columns[i] for i in kept],
        ["---"] * len(kept),
        *([row[i] for i in kept] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _short(guarantee: Guarantee) -> str:
    return guarantee.curve.words() if guarantee.protects else "no guarantee"


def statement(document: Path) -> str:
    """What `hedgerow statement` prints for the example deployment."""
    example = ROOT / "src" / "hedgerow" / "examples" / "deployment.py"
    printed = ""
    with tempfile.TemporaryDirectory() as folder:
        for words in ([str(example), "live"], ["-m", "hedgerow", "statement", "live"]):
            printed = subprocess.run(
                [sys.executable, *words], cwd=folder, check=True, capture_output=True, text=True
            ).stdout
    return _text("$ hedgerow statement live\n" + printed)


def not_deployable(document: Path) -> str:
    """The algorithms that a deployment refuses, by reason."""
    found: dict[str, list[str]] = {}
    for name, spec in variants().items():
        try:
            check_deployable(
                spec.build(replace(SETTING, family=spec.traits.family or SETTING.family))
            )
        except HedgerowError as refusal:
            reason = (
                str(refusal).partition(" cannot be deployed: ")[2] or str(refusal).partition(" ")[2]
            )
            found.setdefault(reason.rstrip("."), []).append(f"`{name}`")
    return "\n".join(f"* {', '.join(names)}: {reason}." for reason, names in found.items())


def contracts(document: Path) -> str:
    """What every algorithm must keep, one row for each contract."""
    rows = [(name, (check.__doc__ or "").splitlines()[0]) for name, check in CONTRACTS.items()]
    lines = [("contract", "what holds"), ("---", "---"), *rows]
    return "\n".join(f"| {name} | {holds} |" for name, holds in lines)


def stored_tables(name: str, document: Path) -> str:
    """The tables of a stored run of an experiment."""
    found = [
        TextTable(t["title"], tuple(t["columns"]), tuple(map(tuple, t["rows"])))
        for t in stored()["experiments"][name]["tables"]
    ]
    heading = (f"{t.title[:1].upper()}{t.title[1:]}:\n\n{t.markdown()}" for t in found)
    return "\n\n".join(heading)


MADE: dict[str, Callable[[Path], str]] = {
    "guarantees": guarantees,
    "some_guarantees": some_guarantees,
    "statement": statement,
    "contracts": contracts,
    "not_deployable": not_deployable,
    "hospitals": partial(stored_tables, "jacobsen2025-table1"),
    "figure3": partial(stored_tables, "zhang2024-figure3"),
    "figure4": partial(stored_tables, "zhang2024-figure4"),
    "gao_table1": partial(stored_tables, "gao2024-table1"),
    "asi_table1": partial(stored_tables, "asi2023-table1"),
    "asi_figure1": partial(stored_tables, "asi2023-figure1"),
    "event_trigger": partial(stored_tables, "gao2024-event-trigger"),
}


def filled(text: str, document: Path = README) -> str:
    """The document with all its blocks current."""
    if document == STUB:
        return stub(text)

    def current(found: re.Match[str]) -> str:
        start, name, _, end = found.groups()
        if name.startswith("hedgerow "):
            made = command(name)
        elif name in ("python", "example"):
            above = PYTHON.findall(text[: found.start()])
            assert above, "no Python block above"
            made = python(above[-1])
        else:
            made = MADE[name](document)
        return f"{start}{made}\n{end}"

    return BLOCK.sub(current, text)


def main() -> int:
    stale = []
    for file in documents():
        old = file.read_text(encoding="utf-8")
        new = filled(old, file)
        if new != old:
            stale.append(file)
            if "--check" not in sys.argv:
                file.write_text(new, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
