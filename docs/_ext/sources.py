"""Pages that are made from the package when the documentation is built: proofs, the API, the
experiments, the algorithms, notebooks.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import algorithm_pages
import notebooks
from sphinx.application import Sphinx

import hedgerow
from hedgerow import privacy, proofs
from hedgerow.core.registry import EXPERIMENTS
from hedgerow_papers.claims import page as claims_page
from hedgerow_papers.experiments.experiment import claim_words
from hedgerow_papers.stored import stored

PACKAGE = Path(hedgerow.__file__).parent
ROOMS = {
    "algorithms": "Algorithms",
    "environments": "Environments",
    "studies": "Run and compare",
    "running_sums": "Running sums",
    "engines": "Play",
    "core": "Certificates, settings, loss families, errors",
    "privacy": "Privacy",
    "audits": "Audits",
}
GALLERY = Path(__file__).parent.parent / "gallery"
MOST_CHECKS = 30  # of an experiment that are shown at once
HIDDEN = "traits"  # what classes say to the package, not to its users


def exports() -> dict[str, list[str]]:
    """The public names by room, as `__init__.pyi` lists them."""
    rooms: dict[str, list[str]] = {}
    for line in ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8")).body:
        if (
            isinstance(line, ast.ImportFrom)
            and line.module is not None
            and line.module != "version"
        ):
            names = [alias.name for alias in line.names]
            rooms.setdefault(line.module.partition(".")[0], []).extend(names)
    return rooms


def _entry(where: str, name: str, thing: Any) -> str:
    again = (
        "\n   :no-index:" if where != "hedgerow" and getattr(hedgerow, name, None) is thing else ""
    )
    if isinstance(thing, type):
        options = (
            f"\n   :members:\n   :exclude-members: {HIDDEN}"
            if not issubclass(thing, Exception)
            else ""
        )
        return f".. autoclass:: {where}.{name}{options}{again}\n"
    return (
        f".. autofunction:: {where}.{name}{again}\n"
        if callable(thing)
        else f".. autodata:: {where}.{name}\n   :no-value:\n"
    )


def _block(entries: list[str]) -> str:
    return "```{eval-rst}\n" + "\n".join(entries) + "```\n"


def api_pages() -> dict[str, str]:
    """One page for each room, and one for `hedgerow.privacy`."""
    pages = {}
    rooms = exports()
    for room in sorted(
        rooms, key=lambda room: list(ROOMS).index(room) if room in ROOMS else len(ROOMS)
    ):
        title = ROOMS.get(room, room.capitalize())
        names = sorted(rooms[room], key=lambda name: (name.isupper(), name))
        text = f"# {title}\n\nUse these names from the package: `import hedgerow as hr`, then `hr.{names[0]}`.\n\n"
        pages[f"{room}.md"] = text + _block(
            [_entry("hedgerow", name, getattr(hedgerow, name)) for name in names]
        )
    names = sorted(privacy.__all__)
    text = "# The privacy core\n\n`hedgerow.privacy` works without the rest of the package: curves, mechanisms, calibration, odometer.\n\nEvery curve has `delta(epsilon)` and `epsilon(delta)`, the smallest values with which the guarantee holds; `stated()`, the pair (epsilon, delta) that is quoted; and `words()`, the same as text.\n\n"
    pages["privacy_core.md"] = text + _block(
        [_entry("hedgerow.privacy", name, getattr(privacy, name)) for name in names]
    )
    return pages


PROOF_FOLDERS = r"(src/hedgerow|papers/hedgerow_papers)/proofs/"


def beside_each_other(text: str) -> str:
    """The text of a proof with links to the proofs that are beside it in the built pages."""
    return re.sub(rf"\]\((\.\./)+{PROOF_FOLDERS}", "](", text)


def proof_pages() -> dict[str, str]:
    """The proofs of the package and of the papers; the pages are beside each other."""
    return {f"{name}.md": beside_each_other(proofs.read(name)) for name in proofs.names()}


def experiment_pages() -> dict[str, str]:
    """One section for each experiment: title, claim, command, and what a stored run obtained."""
    table = stored()
    results = table["experiments"]
    lines = [
        "# All experiments",
        "",
        "This page lists every experiment: what was published and how to run it.",
        "",
    ]
    if results:
        missing = "; ".join(f"[{id}](#{id})" for id in table["not_stored"])
        lines += [
            "Verdicts and numbers come from stored runs; each says which version ran it."
            + (f" Not stored: {missing}." if missing else ""),
            "",
        ]
    for id, experiment in EXPERIMENTS.items():
        lines += [
            f"## {id}",
            "",
            f"{experiment.title}.",
            "",
            f"**Claim.** {experiment.claim[:1].upper()}{experiment.claim[1:]}.",
            "",
        ]
        if id in results:
            lines += _result(results[id])
        elif id in table["not_stored"]:
            lines += [f"**No stored run.** {table['not_stored'][id]}", ""]
        lines += ["```text", f"hedgerow reproduce {id}", "```", ""]
    return {
        "experiments.md": "\n".join(lines),
        "claims.md": claims_page(),
        "gallery.md": gallery_page(),
        "algorithms.md": algorithm_pages.table(),
    }


def gallery_page() -> str:
    """All experiments with their pictures and verdicts."""
    results = stored()["experiments"]
    lines = [
        "# Gallery",
        "",
        "This page shows the picture of every experiment; a click leads to its claim and its numbers.",
        "",
        "Pictures that say so are of the quick form, which has fewer seeds. Verdicts are those of the stored full runs. `hedgerow gallery` draws them all again.",
        "",
        "::::{container} gallery",
    ]
    for id, experiment in EXPERIMENTS.items():
        row = results.get(id)
        verdict = "no stored run" if row is None else f"the claim {'is ' * (row['holds'] is None)}{claim_words(row['holds'])}"
        lines += [
            ":::{container} exhibit",
            f"**{experiment.title}**",
            "",
            *_picture(id, experiment.title),
            "",
            f"`{id}`: {verdict}.",
            ":::",
        ]
    return "\n".join([*lines, "::::", ""])


def _picture(id: str, title: str) -> list[str]:
    """The stored picture of an experiment, if there is one yet."""
    if not (GALLERY / f"{id}.png").is_file():
        return [f"[No picture is stored yet.](experiments.md#{id})"]
    return [f"[![{title}](../gallery/{id}.png)](experiments.md#{id})"]


def _result(row: dict[str, Any]) -> list[str]:
    lines = [
        f"**The claim:** {claim_words(row['holds'])}. **Our expectations:** {'all hold' if row['passed'] else 'not all hold'}. Stored by version {row['version']}.",
        "",
    ]
    lines += [f"*{row['message'][:1].upper()}{row['message'][1:]}.*", ""] if row["message"] else []
    table = ["| what | published | obtained | expected | holds |", "|---|---:|---:|---:|---|"]
    for check in row["checks"]:
        numbers = [
            "" if value is None else f"{value:.4g}"
            for value in (check["published"], check["obtained"])
        ]
        expected = f"{check['op'].replace('<=', '≤').replace('>=', '≥')} {check['limit']:.4g}"
        name = check["name"].replace("|", "\\|").replace("*", "\\*")
        table.append(
            f"| {name} | {numbers[0]} | {numbers[1]} | {expected} | {'yes' if check['passed'] else 'no'} |"
        )
    if len(row["checks"]) > MOST_CHECKS:
        table = [
            f"<details><summary>all {len(row['checks'])} checks</summary>",
            "",
            *table,
            "",
            "</details>",
        ]
    return [*lines, *table, ""]


def write(folder: Path, pages: dict[str, str]) -> None:
    """Only what has changed, so that a second build is quick; pages that are no longer made go
    away.
    """
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.is_file() and file.name not in pages:
            file.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def make(app: Sphinx) -> None:
    home = Path(app.srcdir)
    write(home / "proofs", proof_pages())
    write(home / "api", api_pages())
    write(home / "made", experiment_pages())
    write(home / "made" / "notebooks", notebooks.notebooks(home))
    measured = json.loads((home / "choose.json").read_text(encoding="utf-8"))
    write(home / "algorithms", algorithm_pages.pages(measured))


def proofs_of_this_build(app: Sphinx, page: str, source: list[str]) -> None:
    """Pages link to the proofs where they are in the repository; the built pages have them beside
    themselves.
    """
    del app
    source[0] = notebooks.with_link(page, source[0])
    source[0] = re.sub(rf"\]\(\.\./{PROOF_FOLDERS}", "](proofs/", source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", make)
    app.connect("source-read", proofs_of_this_build)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
