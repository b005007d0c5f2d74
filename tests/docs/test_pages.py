"""The documentation without building it: pages are listed, links resolve, outputs are current, the
chart follows from the table.
"""

from __future__ import annotations

import json
import re
import runpy
from math import nan
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

import hedgerow as hr
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.cli.app import COMMANDS
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.evaluation.statistics import Estimate
from hedgerow.proofs import anchor_of
from hedgerow.studies.choose.candidates import (
    KINDS,
    TALKS,
    TRUSTS,
    chooser_candidates,
    chooser_streams,
)
from hedgerow_papers.choose_chart import Row, choices, document
from support.paths import PROOFS, ROOT
from support.settings import setting_for

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
MADE_BY_THE_BUILD = ("api/", "proofs/", "made/", "algorithms/")


def toctree(text: str) -> list[str]:
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    return [
        line.strip()
        for block in blocks
        for line in block.splitlines()
        if line.strip() and not line.startswith(":")
    ]


def anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {anchor_of(heading) for heading in headings}


def test_every_page_is_in_one_toctree() -> None:
    listed = [entry for page in PAGES for entry in toctree(page.read_text(encoding="utf-8"))]
    own = [entry for entry in listed if not entry.startswith(MADE_BY_THE_BUILD)]
    assert sorted(own) == sorted(page.stem for page in PAGES if page.stem != "index")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve_in_the_repository(page: Path) -> None:
    whole = page.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", whole, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        if path.startswith(MADE_BY_THE_BUILD):
            listed = {entry for one in PAGES for entry in toctree(one.read_text(encoding="utf-8"))}
            assert path.removesuffix(".md") in listed, f"{page.name} links to {target}"
            continue
        file = page if not path else page.parent / path
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_what_it_is_for(page: Path) -> None:
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert lines[0].startswith("# ")
    assert re.match(r"(This (page|part|table)|Hedgerow) ", lines[1]) or page.name == "tried.md", (
        lines[1]
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_outputs_are_current(page: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "documents.py"))
    text = page.read_text(encoding="utf-8")
    assert tool["filled"](text, page) == text, "run `make documents`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_real_commands(page: Path) -> None:
    shown = re.findall(r"(?:^|`)hedgerow (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for name in shown if name not in COMMANDS} == set()


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return json.loads((DOCS / "choose.json").read_text(encoding="utf-8"))


def rows_of(table: dict[str, Any]) -> list[Row]:
    """The stored measurements, in the order of today's candidates; KeyError where one is missing."""
    stored = {row["label"]: row for row in table["rows"]}

    def estimate(cell: dict[str, float | None]) -> Estimate:
        mean, half = (nan if x is None else x for x in (cell["mean"], cell["half_width"]))
        return Estimate(mean, half, table["seeds"])

    return [
        Row(
            candidate,
            {name: estimate(cell) for name, cell in stored[candidate.label]["regret"].items()},
            stored[candidate.label]["bound"],
        )
        for candidate in chooser_candidates()
    ]


def test_the_stored_choices_follow_from_the_stored_measurements(table: dict[str, Any]) -> None:
    today = json.loads(json.dumps(document(rows_of(table), table["seeds"])))
    assert today == table, "run `python -m hedgerow_papers.choose_chart > docs/choose.json`"


def test_every_algorithm_is_measured() -> None:
    """Every algorithm that chooses experts. Votes protect whole clients. Hedge is AdaHedge there."""
    elsewhere = {
        "hedge",
        "repeated_votes",
        "vote_selection",
    }
    built_in = {
        name
        for name, kind in ALGORITHMS.items()
        if kind.__module__.startswith("hedgerow.")
        and kind().build(setting_for(kind, 2, 2, 8)).plays == "expert"
    }
    assert {candidate.name for candidate in chooser_candidates()} == built_in - elsewhere


def test_the_readme_advises_what_the_chart_names(table: dict[str, Any]) -> None:
    """Talking in every round: what was best with a trusted server, and with less trust."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Which algorithm?")[2]
    lines = text.partition("\n\n`hedgerow choose`")[0].replace("\n  ", " ").splitlines()
    best = {
        (choice.kind, choice.trust): {label.partition(",")[0] for label in choice.approximate}
        for choice in choices(rows_of(table))
        if choice.talk == TALKS[0]
    }
    (line,) = (line for line in lines if "one law" in line)
    assert set(re.findall(r"`(\w+)`", line)) & best["law", "central"], line
    for trust in ("distributed", "local"):
        assert hr.ALGORITHMS.name_of(hr.Private(trust=trust)) in best["fixed", trust]


def test_the_chart_names_algorithms_that_fit(
    table: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every leaf is a registered algorithm, private, and needs no more trust and talk than its
    branch has.
    """
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    html = runpy.run_path(str(DOCS / "_ext" / "chooser.py"))["chart"](table)
    leaves = re.findall(r'data-algorithm="(\w+)"', html)
    assert leaves
    assert set(leaves) <= set(ALGORITHMS)
    by_label = {candidate.label: candidate for candidate in chooser_candidates()}
    for choice in choices(rows_of(table)):
        for label in (*choice.pure, *choice.approximate):
            found = by_label[label]
            assert found.private
            assert found.trust is not None
            assert TRUSTS.index(found.trust) >= TRUSTS.index(choice.trust)
            assert TALKS.index(found.talk) >= TALKS.index(choice.talk)
        assert all(by_label[label].delta == 0 for label in choice.pure)


def test_kinds_hold_only_streams_that_fit_them() -> None:
    found = {
        kind.id: {chooser_streams()[name].traits.adversary for name in kind.streams}
        for kind in KINDS
    }
    assert found["law"] == {"stochastic"}
    assert "adaptive" not in found["never"] | found["rarely"] | found["fixed"]
    assert found["reacting"] == {"adaptive"}


@pytest.mark.parametrize("proof", PROOFS.values(), ids=lambda proof: proof.name)
def test_formulas_of_proofs_become_mathml(proof: Path) -> None:
    mathml = runpy.run_path(str(DOCS / "_ext" / "mathml.py"))["mathml"]
    text = re.sub(r"```.*?```", "", proof.read_text(encoding="utf-8"), flags=re.DOTALL)
    for formula in re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL):
        assert mathml(formula, "block").startswith("<math")
    for formula in set(
        re.findall(r"\$([^$]+)\$", re.sub(r"\$\$.+?\$\$", "", text, flags=re.DOTALL))
    ):
        assert mathml(formula, "inline").startswith("<math")


def not_formulas(text: str) -> list[str]:
    """What a page shows as it is typed, though it was meant as a formula. A line of a formula that
    begins with "+ " would begin a list.
    """
    parser = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)
    shown = [
        part.content
        for token in parser.parse(text)
        for part in (token.children or ())
        if part.type == "text"
    ]
    return [part for part in shown if re.search(r"\$|\\[A-Za-z]", part)]


@pytest.mark.parametrize(
    "page",
    [*PROOFS.values(), *PAGES],
    ids=lambda page: f"{page.parent.name}-{page.name}",
)
def test_every_formula_is_shown_as_one(page: Path) -> None:
    assert not_formulas(page.read_text(encoding="utf-8")) == []


def test_a_formula_that_begins_a_list_is_found() -> None:
    assert not_formulas("The sum $a$ is at most $b\n+ c$.") == [" is at most $b", "c$."]


def test_formulas_are_refused_where_a_command_is_unknown() -> None:
    mathml = runpy.run_path(str(DOCS / "_ext" / "mathml.py"))["mathml"]
    assert "<mtable>" in mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "block")
    assert "<munder>" in mathml(r"\min_{x} f(x)", "block")
    with pytest.raises(Exception, match="not known"):
        mathml(r"\nosuchcommand x", "inline")


def test_every_experiment_is_on_its_page() -> None:
    """By its name, or by the name of its paper, as in `gao2024-...`."""
    listed = re.findall(r"`([\w.-]+)`", (DOCS / "reproductions.md").read_text(encoding="utf-8"))
    for id in EXPERIMENTS:
        paper, dash, _ = id.partition("-")
        assert id in listed or f"{paper}{dash}..." in listed, id
