"""The page about a run: what it says, and how it looks in a browser, wide and narrow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

import hedgerow as hr
from support.command import Command
from support.paths import EXAMPLES

HOSTILE = '<script>alert("x")</script>'
CUT = """() => [...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.className + ' ' + e.tagName)"""
SMALL = """() => [...document.querySelectorAll('body *')].filter(e =>
  e.innerText && parseFloat(getComputedStyle(e).fontSize) < 12).length"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of three runs: names and gaps, new data in every seed, and points."""
    from hedgerow.cli.view import view_of
    from hedgerow.studies.config import load_study
    from hedgerow.studies.run import run_study
    from hedgerow.studies.storage.folder import write_study

    root = tmp_path_factory.mktemp("runs")
    for name in ("stations", "study", "points"):
        study = run_study(load_study(EXAMPLES / f"{name}.toml", ["seeds=2"]), workers=1)
        (root / name).mkdir()
        write_study(study, root / name, root / name, picture=False)
        (root / f"{name}.html").write_text(view_of(root / name))
    return root


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_or_small_in_a_browser(pages: Path, width: int) -> None:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium")
        page = browser.new_page(viewport={"width": width, "height": 900})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("stations", "study", "points"):
            page.goto((pages / f"{name}.html").as_uri())
            assert page.evaluate(CUT) == []
            assert page.evaluate(SMALL) == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert len(asked) == 3  # nothing is loaded
        browser.close()


def test_the_page_answers_by_name(pages: Path) -> None:
    text = (pages / "stations.html").read_text()
    for part in (
        "follows north 100 % at the end",
        "plain average",
        "Larch",
        "gain over alone",
        "2.72 times likelier",
        "hedgerow run",
        "hedgerow verify",
        "<polyline",
    ):
        assert part in text
    assert "No regret was measured" not in text


def test_names_are_text_and_a_notebook_shows_the_same() -> None:
    losses = np.random.default_rng(0).random((20, 2, 2))
    game = hr.RecordedArray(losses, experts=(HOSTILE, "b"), clients=("north", "south"))
    study = hr.run(game, {"a": hr.Hedge()}, seeds=1, title=HOSTILE)
    shown = study._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "north" in shown


def test_view_writes_a_page_for_each_run_and_one_that_lists_them(
    hedgerow: Command, pages: Path, tmp_path: Path
) -> None:
    found = hedgerow("view", str(pages / "stations"), "--out", str(tmp_path / "x.html"))
    assert (found.code, (tmp_path / "x.html").exists()) == (0, True)
    assert hedgerow("view", str(pages)).code == 0
    listed = (pages / "view.html").read_text()
    assert 'href="stations.html"' in listed
    for wrong, why in ((tmp_path / "no", "There is no folder"), (tmp_path, "no finished run")):
        found = hedgerow("view", str(wrong))
        assert found.code != 0
        assert why in found.err


def test_a_damaged_run_is_refused(hedgerow: Command, pages: Path, tmp_path: Path) -> None:
    broken: Any = tmp_path / "broken"
    shutil.copytree(pages / "study", broken)
    (broken / "curves.parquet").write_bytes(b"no table")
    found = hedgerow("view", str(broken))
    assert "Cannot read the run folder" in found.err
