"""The pages of a study and of a client: what they show and to whom, and that they can be read."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.deployment.application import Application, Port
from hedgerow.deployment.config import ServerOptions
from hedgerow.deployment.desk import Desk
from hedgerow.deployment.pages.certificate import certificate_page
from hedgerow.deployment.pages.html import HERE, SAFE, element, escape, page, policy
from hedgerow.deployment.pages.live import live_page, news
from hedgerow.deployment.pages.own import client_page, client_pages
from hedgerow.deployment.pages.study import SHOWN, parts, state_of, study_page
from hedgerow.deployment.serving import limits_of
from support.served import served
from support.simulated import SimulatedStudy, small_study

MARKED = 0.7310585975646973  # a loss that is easy to find


@pytest.fixture
def played(place: Path, built_once: None) -> Iterator[SimulatedStudy]:
    """Two clients with secure noise; one has played a round more than the other."""
    study = small_study(place, clients=2, experts=3, horizon=12, seed=None)
    for _ in range(4):
        for client in (0, 1):
            learner = study.learner(client)
            while not learner.client.advance():
                study.learner(1 - client).client.advance()
            learner.predict()
            learner.observe(learner.round, [MARKED, MARKED / 2, 0.25])
    yield study
    study.close()


@pytest.fixture
def pages(played: SimulatedStudy) -> dict[str, str]:
    """All pages of the study by name."""
    server = played.running_server()
    return {
        "study": study_page(server.public()).decode(),
        "certificate": certificate_page(server.manifest, server.algorithm).decode(),
        "own": client_page(played.learner(0).client).decode(),
    }


class Outline(HTMLParser):
    """Elements with their attributes, and the text between them; open elements must be closed."""

    VOID = ("meta", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("name", ["study", "certificate", "own"])
def test_pages_can_be_read_by_everyone(pages: dict[str, str], name: str) -> None:
    outline = Outline(pages[name])
    assert outline.of("html")[0]["lang"] == "en"
    for landmark in ("header", "main", "footer", "h1", "title"):
        assert len(outline.of(landmark)) == 1, landmark
    ids = [a["id"] for _, a in outline.elements if "id" in a]
    assert not [found for found, count in Counter(ids).items() if count > 1]
    assert len(outline.of("section")) >= 5
    for section in outline.of("section"):
        assert section["aria-labelledby"] in ids
    assert all(cell.get("scope") in ("col", "row") for cell in outline.of("th"))
    assert len(outline.of("caption")) == len(outline.of("table"))
    assert all(bar.get("aria-label") for tag in ("progress", "meter") for bar in outline.of(tag))
    assert all(
        "style" not in a and not any(k.startswith("on") for k in a) for _, a in outline.elements
    )
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', pages[name])  # nothing from elsewhere


def test_the_essentials_need_no_script(pages: dict[str, str], played: SimulatedStudy) -> None:
    public, text = played.running_server().public(), Outline(pages["study"]).text
    for name in played.manifest.clients:
        assert name in text
    assert f"{public['round']} of 12" in text
    for fact in (public["title"], public["head"], public["clients"][0]["head"], "epsilon = 1"):
        assert fact in text, fact
    own = Outline(pages["own"]).text
    assert "epsilon = 1 of 10" in own
    assert "4 of 12" in own
    assert played.learner(0).client.chain.head.hex() in own


def raw_forms(played: SimulatedStudy) -> set[str]:
    """How losses, and what the client keeps of them, could be written."""
    held = played.learner(0).client.state
    sums = np.asarray(held.losses).tolist()
    assert any(sums), "the client holds nothing: choose another round"
    shown = {f"{value / 2**20:.6g}" for value in sums} | {str(int(value)) for value in sums}
    return {form for form in shown if len(form) > 4} | {f"{MARKED:.6g}"[:6]}


def test_raw_values_are_shown_at_the_client_only(
    pages: dict[str, str], played: SimulatedStudy
) -> None:
    own = Outline(pages["own"]).text
    forms = raw_forms(played)
    assert any(form in own for form in forms)
    assert own.index("Raw values stays here") < min(own.find(f) for f in forms if f in own)
    public = played.running_server().public()
    elsewhere = [pages["study"], pages["certificate"], json.dumps(public), str(parts(public))]
    for text in elsewhere:
        assert not [form for form in forms if form in Outline(text).text]
    assert "10 of 10" not in pages["study"]
    assert "spent" not in Outline(pages["study"]).text


def test_text_of_others_is_not_obeyed(played: SimulatedStudy) -> None:
    public = played.running_server().public()
    evil = "<script>alert(1)</script>\x1b"
    public |= {"title": evil, "trouble": evil, "stuck": evil, "certificate": [evil]}
    public["clients"][0]["name"] = '"><img src=x onerror=alert(1)>'
    text = study_page(public).decode()
    outline = Outline(text)
    assert len(outline.of("script")) == 1
    assert not outline.of("img")
    assert "\x1b" not in text
    assert evil.replace("\x1b", "␛") in outline.text
    assert element("a", "x", title='"<') == '<a title="&quot;&lt;">x</a>'
    assert escape("'") == "&#x27;"


def test_the_policy_allows_what_the_page_brings(pages: dict[str, str]) -> None:
    for tag in ("style", "script"):
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", pages["study"], re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy()
    assert "unsafe" not in policy()
    assert b"<script>" not in page("t", "h", "m", "f")


def client(**states: bool) -> dict[str, Any]:
    names = ("joined", "present", "late", "done", "forked")
    head = "ab" * 32 if states.get("joined") else None
    return {"name": "n", "entries": 3, "head": head, **{n: states.get(n, False) for n in names}}


def test_states_of_clients() -> None:
    assert state_of(client()) == "expected"
    assert state_of(client(joined=True)) == "joined"
    assert state_of(client(joined=True, present=True)) == "present"
    assert state_of(client(joined=True, present=True, late=True)) == "late"
    assert state_of(client(joined=True, present=True, done=True)) == "done"
    assert state_of(client(joined=True, done=True, forked=True)) == "forked"


def public_of(clients: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "title": "T", "study": "ab" * 32, "algorithm": "a", "private": True, "closing": "wait",
        "clients": clients, "exchange": 3, "round": 5, "horizon": 9, "play": 2,
        "next_upload_after_rounds": 1, "switches_left": 4, "over": False, "trouble": None,
        "stuck": None, "helpers": {},
        "entries": 7, "head": "cd" * 32, "certificate": ["public: epsilon = 1; assumes X"],
    }  # fmt: skip
    return given | changes


def test_the_page_begins_with_what_is_followed() -> None:
    changes = [(0, "north"), (2, "<south>"), (4, "north")]
    page = study_page(public_of([client(joined=True)], followed=changes)).decode()
    assert "<strong>north</strong> is followed now, since round 4." in page
    assert page.index("What is followed") < page.index(">Now<") < page.index("<details>")
    strip, *swatches = page.count("<rect"), page.count('class="swatch"')
    assert (strip, swatches) == (4 + 3, [3])
    assert "&lt;south&gt;" in page
    assert ">2 changes<" in page
    many = [(t, f"expert {t % 7}") for t in range(40)]
    over = study_page(
        public_of([client()], followed=many, round=40, horizon=None, over=True)
    ).decode()
    assert "expert 4</strong> was followed to the end, since round 39." in over
    assert "39 changes; the last 10 are shown" in over


def test_what_was_followed_is_counted_from_the_answers(played: SimulatedStudy) -> None:
    server = played.running_server()
    changes = server.public()["followed"]
    plays = played.plays()[:, 0]
    for (start, name), end in zip(
        changes, [*(at for at, _ in changes[1:]), len(plays)], strict=True
    ):
        assert {f"expert {play}" for play in plays[start:end]} == {name}
    assert server.public()["followed"] == changes  # asked again, nothing is counted twice


def test_many_clients_do_not_fill_the_page() -> None:
    crowd = [client(joined=True, present=True) for _ in range(999)]
    found = parts(public_of([*crowd, {**client(joined=True, late=True), "name": "slow"}]))[
        "clients"
    ]
    assert found.count("<tr") == SHOWN + 1
    assert "slow" in found.split("<tr")[2]  # those that matter come first
    assert "1000 clients: 1 late, 999 present; the first 100 are shown" in found
    assert len(found) < 50_000


def test_what_an_operator_must_know() -> None:
    here, late = client(joined=True, present=True), client(joined=True, present=True, late=True)
    both = [{**here, "name": "north"}, {**late, "name": "south"}]
    assert "Exchange 4 is open; south is late." in parts(public_of(both))["state"]
    sums = public_of([here], helpers={"h0": False, "h1": True})
    assert "All clients have uploaded; exchange 4 needs the helper h1." in parts(sums)["state"]
    missing = [{**client(), "name": name} for name in "abcdef"]
    assert "Waiting for a, b, c and 3 others to join." in parts(public_of(missing))["state"]
    assert "The study is over" in parts(public_of([here], over=True))["state"]
    assert "not private" in parts(public_of([here], private=False))["state"].lower()
    assert "Trouble: two of them." in parts(public_of([here], trouble="two of them"))["state"]
    stuck = parts(public_of([here], stuck="a hello is awaited from a"))["state"]
    assert "No exchange is answered now: a hello is awaited from a." in stuck
    now = parts(public_of([here], play=None, horizon=None, next_upload_after_rounds=None))["now"]
    assert "differs between clients" in now
    assert "no further one" in now
    assert "progress" not in now
    assert "a point" in parts(public_of([here], play="a point"))["now"]


def test_news_are_what_has_changed(place: Path, built_once: None) -> None:
    async def look() -> list[dict[str, str]]:
        study = small_study(place, clients=1, experts=3, horizon=6)
        server = study.running_server()
        desk = Desk(lambda: server, limits_of(server, ServerOptions()))
        await desk.start()
        stream, found = news(desk, pause=0.25, beat=600.0), []
        found.append(json.loads((await anext(stream)).removeprefix("data: ")))
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        assert (await desk.manifest()).status == 200  # a batch: something may have changed
        quiet = await waiting
        assert quiet == ": still here\n\n"
        server.joined.add(0)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.05)
        await desk.manifest()
        found.append(json.loads((await waiting).removeprefix("data: ")))
        desk.stop()
        assert [text async for text in stream] == []
        await desk.close()
        return found

    first, second = asyncio.run(look())
    assert set(first) == {"state", "followed", "now", "clients", "chain"}
    assert set(second) == {"state", "clients"}
    assert "joined" in second["clients"]


def test_a_client_page_is_for_its_machine(played: SimulatedStudy) -> None:
    learner = played.learner(0)
    port = Port(Application(learner), 0)
    port.pages |= client_pages(learner.client)
    threading.Thread(target=port.serve_forever, args=(0.02,), daemon=True).start()

    def get(path: str, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port.server_port)
        connection.request(
            "GET", path, headers={"Cookie": f"{port.cookie}={port.token}", **headers}
        )
        reply = connection.getresponse()
        try:
            return reply.status, reply.read().decode() or reply.headers["Set-Cookie"]
        finally:
            connection.close()

    try:
        assert get("/")[0] == 200
        status, text = get("/parts")
        assert status == 200
        assert set(json.loads(text)) == {"account", "now", "rounds", "releases", "held"}
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            for path in ("/", "/parts"):
                status, text = get(path, **headers)
                assert status == 403
                assert "epsilon" not in text
        for path in ("/", "/parts"):
            assert get(path, Cookie="")[0] == 401
            assert get(path, Cookie=f"{port.cookie}={'x' * 32}")[0] == 401
        status, kept = get(f"/?token={port.token}", Cookie="")
        assert (status, kept.partition(";")[0]) == (303, f"{port.cookie}={port.token}")
        assert get("/?token=wrong")[0] == 401
        learner.close()
        assert "The client has stopped" in json.loads(get("/parts")[1])["now"]
    finally:
        port.shutdown()
        port.server_close()


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_in_light_and_dark() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") < 4.5  # the limit of WCAG AA can fail
    style = (HERE / "style.css").read_text()
    schemes = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in style.split("@media")[:2]
    ]
    assert all(len(colours) == 10 for colours in schemes)
    for colours in schemes:
        for text in ("text", "quiet", "accent", "warn", "loud"):
            for back in ("back", "soft"):
                assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
        for text in ("warn", "loud"):
            assert contrast(colours[text], colours[f"{text}-back"]) >= 4.5


def test_every_page_comes_with_safe_headers(tmp_path: Path) -> None:
    with served(tmp_path, parts=(live_page,)) as one:
        for path in ("/", "/certificate", "/manifest.json", "/healthz", "/readyz", "/metrics"):
            status, headers, _ = one.ask("GET", path)
            assert status == 200
            assert {name: headers[name] for name in SAFE} == SAFE
            if path in ("/", "/certificate"):
                assert headers["Content-Security-Policy"] == f"{policy()}; frame-ancestors 'none'"


def test_an_algorithm_without_a_count_of_switches_shows_none() -> None:
    shown = study_page(public_of([client(joined=True)]))
    assert b"Switches left" in shown
    assert b"Switches left" not in study_page(public_of([client(joined=True)], switches_left=None))
