"""The page as it is printed and seen: two pages, no raw markup, and nothing cut off in Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path

import pytest

from hedgerow.statement.files import rendered_statement
from hedgerow.statement.page import escaped, marked
from hedgerow.statement.statement import Details, Statement, read_details
from support.certificates import MADE
from support.statements import EXAMPLE, TODAY, Pages, Stated, stated_game

LABELS = ("pure", "approximate", "published", "uniform", "hedge")
CALCULATES = ("Definitions", "The whole guarantee", "Parameters and mechanisms", "Where it comes")
CONDITIONS = ("Holds only if", "Trust and collusion", "Not protected", "Audit")


def test_conditions_and_numbers_are_on_the_second_page(pages: Pages) -> None:
    files = pages("pure")
    for first, second in (
        files["statement.md"].split("*Further pages: conditions, and for readers who calculate*"),
        files["statement.html"].split('<div class="second">'),
    ):
        for heading in (*CONDITIONS, *CALCULATES):
            assert heading in second
            assert f"## {heading}" not in first
            assert f"<h2>{heading}" not in first
        for text in ("In plain words", "Unit: one loss vector", "sees", "false alarm", "Sign-off"):
            assert text in first
        assert "NoisyMax" in second
        assert "D ~ D" in second
    assert ".second { break-before: page;" in files["statement.html"]


def test_names_between_backticks_are_code() -> None:
    assert marked("see `a<b` & `c`") == "see <code>a&lt;b</code> &amp; <code>c</code>"
    assert marked("one ` alone") == "one ` alone"
    assert escaped("see `a_b` * [x] `c|d`") == "see `a_b` \\* \\[x\\] `c\\|d`"
    assert escaped("one ` alone") == "one \\` alone"


@pytest.mark.parametrize("label", LABELS)
def test_no_backtick_is_printed(pages: Pages, label: str) -> None:
    page = re.sub(
        r"<style>.*?</style>|<svg.*?</svg>", "", pages(label)["statement.html"], flags=re.S
    )
    assert "`" not in page
    assert "\\`" not in pages(label)["statement.md"]


def test_an_algorithm_that_is_not_audited_names_the_command(stated: Stated) -> None:
    statement = stated("pure")
    page = rendered_statement(statement)["statement.html"]
    command = f"hedgerow statement {statement.run.run} --audit"
    assert f"not audited. To attack the algorithm and state the result: <code>{command}" in page


def test_a_table_says_records_where_it_means_them(pages: Pages) -> None:
    page = pages("pure")["statement.md"]
    assert "| person with | epsilon |" in page
    assert "| 10 records | 5 |" in page
    assert "person in" not in page


# In the browser


def _statements(stated: Stated) -> Iterator[tuple[str, Statement]]:
    full = read_details(EXAMPLE, TODAY)
    for label in LABELS:
        yield label, stated(label)
        yield f"{label} with details", stated(label, full)
    long = Details(name="W" * 90, intended_use="x" * 300, notes="n" * 200)
    yield "long words", stated("published", long)
    for name, made in MADE.items():
        yield name, stated_game(made)


HARNESS = """<!DOCTYPE html><meta charset="utf-8"><body><script>
const found = {};
function over(frame) {
  const page = frame.contentDocument, wide = page.documentElement.clientWidth, bad = [];
  for (const node of page.querySelectorAll("body, body *:not(svg *)")) {
    const box = node.getBoundingClientRect(), style = frame.contentWindow.getComputedStyle(node);
    if (style.display === "none" || box.width === 0) continue;
    const inside = style.display !== "inline" && node.scrollWidth > node.clientWidth + 1
      && node.tagName !== "svg" && node.tagName !== "TR" && node.tagName !== "TBODY";
    if (inside || box.right > wide + 1 || box.left < -1)
      bad.push(node.tagName + ": " + node.textContent.slice(0, 60));
  }
  if (page.documentElement.scrollWidth > wide) bad.push("page");
  return bad;
}
window.onload = () => {
  for (const frame of document.querySelectorAll("iframe")) found[frame.title] = over(frame);
  document.title = "checked";
  document.body.textContent = JSON.stringify(found);
};
</script>
FRAMES
</body>"""
WIDTHS = {"A4": 733, "wide": 900, "narrow": 400}  # 194 mm are 733 pixels


def _on_paper(page: str) -> str:
    """The page with the rules for print: those for screens are taken out."""
    paper = re.sub(r"@media screen[^{]*{", "@media not all {", page)
    assert "@media screen" not in paper
    return paper


def _checked(pages: dict[str, str], tmp_path: Path) -> dict[str, list[str]]:
    """What overflows in each page, as Chromium lays it out."""
    frames = "".join(
        f'<iframe title="{escape(name)} {kind}" width="{width}" height="900" frameborder="0" '
        f'srcdoc="{escape(_on_paper(page) if kind == "A4" else page)}"></iframe>'
        for name, page in pages.items()
        for kind, width in WIDTHS.items()
    )
    file = tmp_path / "pages.html"
    file.write_text(HARNESS.replace("FRAMES", frames), encoding="utf-8")
    browser = shutil.which("chromium")
    assert browser is not None, "install the distribution package chromium"
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'user'}",
    )
    done = subprocess.run(
        [browser, *options, "--window-size=1000,2000", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    assert "<title>checked</title>" in done.stdout, done.stderr[-500:]
    body = re.search(r"<body>(.*)</body>", done.stdout, re.S)
    assert body is not None
    return json.loads(unescape(body.group(1)))


@pytest.mark.long
def test_nothing_overflows_on_paper_or_on_a_telephone(stated: Stated, tmp_path: Path) -> None:
    pages = {name: rendered_statement(s)["statement.html"] for name, s in _statements(stated)}
    assert len(pages) > 15
    found = _checked(pages, tmp_path)
    assert len(found) == len(WIDTHS) * len(pages)
    assert {name: bad for name, bad in found.items() if bad} == {}


@pytest.mark.long
def test_what_overflows_is_found(pages: Pages, tmp_path: Path) -> None:
    page = pages("pure")["statement.html"]
    broken = page.replace("overflow-wrap: anywhere", "").replace(
        "</body>", f"<p>{'x' * 300}</p></body>"
    )
    found = _checked({"broken": broken, "right": page}, tmp_path)
    for kind in WIDTHS:
        assert any(line.startswith("P: xxx") for line in found[f"broken {kind}"])
        assert found[f"right {kind}"] == []
