"""The gallery: every experiment on one page that needs nothing else, fresh results reused, failures
shown beside the others.
"""

from __future__ import annotations

import re
from base64 import b64decode
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hedgerow.core.errors import MissingData
from hedgerow.core.registry import EXPERIMENTS
from hedgerow_papers.experiments import reproduce as reproduce_module
from support.command import PLUGIN, Command

INSTALLED = EXPERIMENTS.installed()
NASTY = """
from dataclasses import replace
hedgerow.EXPERIMENTS.add("nasty", replace(hedgerow.EXPERIMENTS["good"], id="nasty", title="<b>5 < 6 & \\"so on\\"</b>", claim="a < b"))
"""

SIBLINGS = """
from hedgerow_papers.experiments.pictures import sibling
def several(done, path):
    for target in (sibling(path, "one"), path, sibling(path, "more")):
        done["only"].plot(target, title=target.stem)
hedgerow.EXPERIMENTS.add("several", Experiment("several", "title of several", "claim", studies, judge_by(1e9), several))
"""


@pytest.mark.parametrize("name", INSTALLED)
def test_every_study_of_an_experiment_can_be_a_folder(name: str) -> None:
    for quick in (False, True):
        with suppress(MissingData):
            for study in EXPERIMENTS[name].studies(quick):
                assert Path(study).name == study


def test_a_study_that_cannot_be_a_folder_is_refused_before_it_is_played(tmp_path: Path) -> None:
    known = EXPERIMENTS["gao2024-figure1"]
    bad = replace(known, studies=lambda quick: {"a/b": None})
    outcome = reproduce_module.reproduce(bad, quick=True, out=tmp_path / "out", workers=1)
    assert outcome.status == "error"
    assert outcome.message == "Expected study='a/b' to be the name of one folder."


@pytest.fixture
def alone(hedgerow: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command where only the plugin's experiments are registered: good, impossible, ill, needs-
    data.
    """
    monkeypatch.setattr(EXPERIMENTS, "_things", {})
    return hedgerow


class _Page(HTMLParser):
    """Elements by name, with their attributes, and whether all of them were closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words += f" {data}"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_every_experiment_is_on_the_page(alone: Command, tmp_path: Path) -> None:
    answer = alone("gallery", "--plugin", "plugin.py")
    assert answer.code == 1, answer.err
    text = (tmp_path / "gallery" / "index.html").read_text()
    page = _Page(text)
    assert page.open == []
    assert [article["id"] for article in page.all("article")] == [
        "good",
        "ill",
        "impossible",
        "needs-data",
    ]
    for text in (
        "title of good",
        "Failed: the judge is ill",
        "Not run because its data is missing",
        "https://example.org/absent",
        "u/regret",
    ):
        assert text in page.words
    for name in ("good", "impossible", "ill", "needs-data"):
        assert f"hedgerow reproduce {name} --plugin plugin.py" in page.words
    pictures = [
        b64decode(str(image["src"]).removeprefix("data:image/png;base64,"))
        for image in page.all("img")
    ]
    on_disk = [
        (next((tmp_path / "runs").glob(f"*-{name}")) / f"{name}.png").read_bytes()
        for name in ("good", "impossible")
    ]
    assert pictures == on_disk
    assert re.findall(r"(holds|does not hold|failed|no data) \(ran", answer.out) == [
        "holds",
        "failed",
        "does not hold",
        "no data",
    ]
    assert len(re.findall(r"Took \d+\.\d s", page.words)) == 4


def test_the_page_needs_nothing_else(alone: Command, tmp_path: Path) -> None:
    alone("gallery", "--plugin", "plugin.py", "--quick", "--out", "deep/page")
    text = (tmp_path / "deep" / "page" / "index.html").read_text()
    page = _Page(text)
    assert page.all("script") == page.all("link") == []
    assert all(str(image["src"]).startswith("data:") for image in page.all("img"))
    assert all(str(link["href"]).startswith("#") for link in page.all("a"))
    assert "url(" not in text
    assert "@import" not in text
    assert "@media print" in text
    assert sorted(p.name for p in (tmp_path / "deep" / "page").iterdir()) == ["index.html"]


@pytest.mark.long
def test_fresh_results_are_reused_and_stale_ones_are_not(
    alone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reused(*options: str) -> dict[str, bool]:
        rows = alone("gallery", "--plugin", "plugin.py", "--json", *options).document()[
            "experiments"
        ]
        return {row["id"]: row["reused"] for row in rows if row["status"] in ("ran", "quick")}

    assert reused("--quick") == {"good": False, "impossible": False}
    assert reused("--quick") == {"good": True, "impossible": True}
    assert alone("reproduce", "good", "--plugin", "plugin.py").code == 0
    assert reused() == {"good": True, "impossible": False}
    shown = {
        row["id"]: row for row in alone("gallery", "--quick", "--json").document()["experiments"]
    }
    assert shown["good"]["status"] == "ran", "a full result is better than a quick one"
    assert shown["good"]["command"] == "hedgerow reproduce good"
    (tmp_path / "plugin.py").write_text(PLUGIN + "\n# changed\n")
    assert reused("--quick") == {"good": False, "impossible": False}
    for file in (tmp_path / "runs").glob(f"*/{reproduce_module.ORIGIN}"):
        file.write_text(
            file.read_text().replace(reproduce_module.FORMAT, "hedgerow reproduction 9")
        )
    assert reused("--quick") == {"good": False, "impossible": False}
    for file in (tmp_path / "runs").glob(f"*/{reproduce_module.VERDICT}"):
        file.write_text("half")
    assert reused("--quick") == {"good": False, "impossible": False}


def test_texts_cannot_break_the_page(alone: Command, tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN + NASTY)
    alone("gallery", "--plugin", "plugin.py", "--quick")
    page = _Page((tmp_path / "gallery" / "index.html").read_text())
    assert '<b>5 < 6 & "so on"</b>' in page.words
    assert '<b>5 < 6 & "so on"</b>' in [image["alt"] for image in page.all("img")]
    assert page.all("b") == []


@pytest.mark.long
def test_all_pictures_of_an_experiment_are_shown_the_main_one_first(
    alone: Command, tmp_path: Path
) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN + SIBLINGS)
    for reused in (False, True):
        shown = alone("gallery", "--plugin", "plugin.py", "--quick", "--json").document()[
            "experiments"
        ]
        assert next(row["reused"] for row in shown if row["id"] == "several") is reused
        page = _Page((tmp_path / "gallery" / "index.html").read_text())
        sources = [
            str(image["src"]) for image in page.all("img") if image["alt"] == "title of several"
        ]
        folder = next((tmp_path / "runs").glob("*-several"))
        on_disk = [(folder / f"several{tail}.png").read_bytes() for tail in ("", "-more", "-one")]
        assert [
            b64decode(source.removeprefix("data:image/png;base64,")) for source in sources
        ] == on_disk
        assert len(set(on_disk)) == 3


def test_only_a_gallery_is_replaced(alone: Command, tmp_path: Path) -> None:
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery" / "index.html").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for out in ("gallery", "file"):
        assert alone("gallery", "--plugin", "plugin.py", "--out", out).code == 2
    assert not (tmp_path / "runs").exists()
    assert (tmp_path / "gallery" / "index.html").read_text() == "mine"
    alone("gallery", "--quick", "--out", "other")
    assert "Gallery: other/index.html" in alone("gallery", "--quick", "--out", "other").out


def test_ctrl_c_says_what_is_done(
    alone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = reproduce_module.run_study
    calls: list[Any] = []

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(reproduce_module, "run_study", interrupted)
    answer = alone("gallery", "--plugin", "plugin.py")
    assert answer.code == 130
    assert (
        "Interrupted in impossible: 1 of 4 experiments are done and need not run again."
        " No page was written." in answer.err
    )
    assert not (tmp_path / "gallery").exists()
    assert [p.name.split("-")[-1] for p in (tmp_path / "runs").iterdir()] == ["good"]


def test_a_gallery_without_experiments(alone: Command, tmp_path: Path) -> None:
    assert alone("gallery").code == 0
    assert "No experiment is registered" in (tmp_path / "gallery" / "index.html").read_text()
