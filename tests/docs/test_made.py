"""Pages that the build makes: algorithms, gallery, notebooks."""

from __future__ import annotations

import io
import json
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.registry import EXPERIMENTS
from support.paths import ROOT

DOCS = ROOT / "docs"
LARGEST = 100_000  # bytes of a picture of the gallery
QUICK = ("quickstart", "running_sums")


def made(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "_ext" / f"{name}.py"))


def test_the_gallery_has_a_picture_of_every_experiment() -> None:
    """Run `python tools/gallery.py ID` for one that is missing."""
    files = {file.stem: file for file in (DOCS / "gallery").glob("*.png")}
    assert sorted(files) == EXPERIMENTS.installed()
    assert {name: f.stat().st_size for name, f in files.items() if f.stat().st_size > LARGEST} == {}


def test_every_algorithm_has_a_page_with_all_its_parts() -> None:
    """A picture, the guarantee, the bound, the parameters, and the experiments that exist."""
    tool = made("algorithm_pages")
    measured = json.loads((DOCS / "choose.json").read_text(encoding="utf-8"))
    pages, whole = tool["pages"](measured), tool["table"]()
    built_in = set(ALGORITHMS.built_in)
    assert built_in <= {name.removesuffix(".md") for name in pages}
    without_picture = set()
    for file, text in pages.items():
        name = file.removesuffix(".md")
        assert f"(../algorithms/{file})" in whole
        assert re.search(r"^\.\. autoclass:: \S+$", text, re.MULTILINE), name
        assert "| default |" in text
        assert tool["summary"](name) in text
        assert set(re.findall(r"experiments\.md#([\w-]+)", text)) <= set(EXPERIMENTS)
        if "<svg" not in text and ".png" not in text:
            without_picture.add(name)
    whole_clients = {"vote_selection", "repeated_votes"}  # no experiment plays for them
    assert without_picture & built_in <= whole_clients
    assert "[60.6](../proofs/phased_selection.md#regret), losses drawn from one law" in whole


def test_a_notebook_has_the_code_of_its_page_and_no_outputs() -> None:
    tool = made("notebooks")
    assert set(tool["TUTORIALS"]) <= {page.stem for page in DOCS.glob("*.md")}
    for file, text in tool["notebooks"](DOCS).items():
        page = (DOCS / file.replace(".ipynb", ".md")).read_text(encoding="utf-8")
        book = json.loads(text)
        code = ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
        assert code == [
            block.strip("\n") for block in re.findall(r"```python\n(.*?)```", page, re.S)
        ]
        assert code
        assert not any(cell.get("outputs") for cell in book["cells"])
        assert (book["nbformat"], len({cell["id"] for cell in book["cells"]})) == (
            4,
            len(book["cells"]),
        )
        words = "".join("".join(c["source"]) for c in book["cells"] if c["cell_type"] != "code")
        assert "<!-- run" not in words
        assert "{literalinclude}" not in words


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.long)
        for name in made("notebooks")["TUTORIALS"]
    ],
)
def test_a_notebook_prints_what_its_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells run one after the other in one process, as a reader runs them."""
    monkeypatch.chdir(tmp_path)
    book = json.loads(made("notebooks")["notebooks"](DOCS)[f"{name}.ipynb"])
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    space: dict[str, Any] = {}
    printed = []
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            out = io.StringIO()
            with redirect_stdout(out):
                exec(compile("".join(cell["source"]), name, "exec"), space)
            printed.append(out.getvalue())
    shown = re.findall(r"<!-- run:python -->\n```text\n(.*?)```", page, re.DOTALL)

    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in text.rstrip().splitlines()]

    outputs = [lines(text) for text in printed if text.strip()]
    assert all(lines(text) in outputs for text in shown)
    assert shown
