"""The live pages in Chromium: they refresh themselves, fit, and can be used without script or mouse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser import Watched, chromium, watched
from support.waiting import PATIENCE

pytestmark = pytest.mark.long
LOSSES = [0.9, 0.1, 0.5]
CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const c = rgb(getComputedStyle(n).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(back(node))].sort((x, y) => x - y);
    const ratio = (b + 0.05) / (a + 0.05);
    if (ratio < 4.5) bad.push(node.textContent.slice(0, 40) + " " + ratio.toFixed(2));
  }
  return bad;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=1000 * PATIENCE)
    with chromium() as found:
        yield found


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path) as found:
        yield found


def visit(browser: Browser, url: str, width: int = 1280, **options: Any) -> tuple[Page, list[str]]:
    """A page, and everything that goes wrong in it."""
    context = browser.new_context(viewport={"width": width, "height": 800}, **options)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.goto(url)
    return page, wrong


def test_the_page_of_a_study_is_live(browser: Browser, study: Watched) -> None:
    study.play(1, LOSSES)
    page, wrong = visit(browser, study.url)
    expect(page.get_by_role("status")).to_have_text("This page is live.")
    before = page.locator("#now").inner_text()
    page.get_by_role("link", name="the whole certificate").focus()
    study.play(9, LOSSES)
    expect(page.locator("#now")).not_to_have_text(before)
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "the whole certificate"  # news do not take the focus away
    row = page.get_by_role("row").filter(has_text="client-001")
    expect(row).to_contain_text("present")
    study.play(study.learners[0].client.remaining or 0, LOSSES, clients=[0])
    study.learners[0].client.advance()  # its upload waits for the other client
    expect(row).to_contain_text("late")
    expect(page.locator("#state")).to_contain_text("client-001 is late")
    study.stop()
    expect(page.get_by_role("status")).to_contain_text("No connection")
    assert not [text for text in wrong if "Failed to load" not in text and "ERR_" not in text]


def test_a_server_stops_while_pages_are_open(browser: Browser, study: Watched) -> None:
    visit(browser, study.url)
    study.server.server.config.timeout_graceful_shutdown = 10 * int(PATIENCE)
    study.stop()  # within less: the streams end by themselves


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_can_be_read(
    browser: Browser, study: Watched, width: int, scheme: str
) -> None:
    study.play(5, LOSSES)
    for url in (study.url, f"{study.url}/certificate", study.page(0)):
        page, wrong = visit(browser, url, width, color_scheme=scheme)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), url
        assert page.evaluate(CONTRAST) == []
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        expect(page.get_by_role("main")).to_be_visible()
        assert page.get_by_role("table").count() >= 1
        assert page.get_by_role("rowheader").count() >= 1
        assert not wrong
        page.evaluate("document.querySelector('h1').style.color = '#888'")
        page.evaluate("document.body.style.background = '#999'")
        assert page.evaluate(CONTRAST) != []  # the check can fail
        page.context.close()


def test_keys_reach_everything(browser: Browser, study: Watched) -> None:
    page, _ = visit(browser, study.url, 400)
    seen = []
    for _ in range(8):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "[document.activeElement.textContent.slice(0, 30),"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        seen.append(found)
    names = [name for name, _ in seen]
    assert names[0] == "Skip to the contents"
    assert "the whole certificate" in names
    assert "the manifest" in names
    assert all(outline == "solid" for name, outline in seen if name in ("the manifest", names[0]))


def test_without_script(browser: Browser, study: Watched) -> None:
    study.play(4, LOSSES)
    page, _ = visit(browser, study.url, java_script_enabled=False)
    expect(page.get_by_role("status")).to_contain_text("Reload it to see the current state")
    expect(page.get_by_role("row").filter(has_text="client-000")).to_contain_text("present")
    expect(page.locator("#now")).to_contain_text("of 30")
    page.get_by_role("link", name="the whole certificate").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Certificate")
    expect(page.get_by_text("epsilon = 1, delta = 0").first).to_be_visible()
    own, _ = visit(browser, study.page(1), java_script_enabled=False)
    expect(own.get_by_text("epsilon = 1 of 10")).to_be_visible()


def test_the_page_of_a_client_is_live(browser: Browser, study: Watched) -> None:
    study.play(2, LOSSES)
    page, wrong = visit(browser, study.page(0))
    expect(page.get_by_role("status")).to_have_text("This page is live.")
    expect(page.locator("#now")).to_contain_text("2 of 30")
    study.play(4, LOSSES)
    expect(page.locator("#now")).to_contain_text("6 of 30")
    expect(page.locator("#account")).to_contain_text("epsilon = 1 of 10")
    assert page.get_by_text("stays here", exact=True).count() == 3
    assert not wrong
