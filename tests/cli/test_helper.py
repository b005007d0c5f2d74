"""`hedgerow helper`: keys, a study that is joined and played by processes, and its errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedgerow.cli import helper
from hedgerow.core.errors import InvalidValue
from hedgerow.deployment.helper_ledger import FILE, KEY
from hedgerow.deployment.home import keep_route
from hedgerow.deployment.http_client import Route
from support.command import Command

STUDY = """
title = "Shared"
seeds = 1
[environment]
name = "bernoulli"
clients = 3
experts = 2
horizon = 5
[[algorithms]]
name = "walk_leader"
label = "shared"
trust = "distributed"
epsilon = 5.0
honest = 1
"""


def test_keys_are_made_once_and_errors_say_what_to_do(hedgerow: Command, tmp_path: Path) -> None:
    folder = tmp_path / "north"
    made = hedgerow("helper", "init", str(folder), "--name", "north", "--json")
    found = json.loads(made.out)
    assert made.code == 0
    assert set(json.loads(Path(found["file"]).read_text())) == {"name", "sign", "seal"}
    assert (folder / "helper.box").stat().st_mode & 0o077 == 0
    again = hedgerow("helper", "init", str(folder), "--name", "north")
    for answer, text in (
        (again, "already has the keys of a helper"),
        (hedgerow("helper", "init", str(tmp_path / "x"), "--name", "a b"), "letters, digits"),
        (hedgerow("helper", "run", str(tmp_path / "nothing")), "hedgerow helper init"),
        (hedgerow("helper", "run", str(folder)), "give --url, --server-key and --roster"),
        (hedgerow("helper", "verify", str(folder)), "has not joined a study"),
        (hedgerow("helper", "verify", str(tmp_path / "nothing")), "hedgerow helper init"),
    ):
        assert answer.code == 2
        assert text in " ".join(answer.err.split())


def test_a_helper_that_has_joined_takes_a_new_address_or_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, seen = Route("https://old:1", proxy=""), list[Route]()
    keep_route(tmp_path, old)
    for file in (KEY, FILE):
        (tmp_path / file).touch()

    def link(route: Route) -> None:
        seen.append(route)
        raise InvalidValue("seen")

    monkeypatch.setattr("hedgerow.deployment.http_client.HttpLink", link)
    monkeypatch.setattr("hedgerow.deployment.logs.start_logs", lambda level: None)
    cases: list[dict[str, Any]] = [{}, {"url": "https://new:2"}, {"ca": tmp_path / "ca.pem"}]
    for changed in cases:
        with pytest.raises(InvalidValue, match="seen"):
            helper.run(tmp_path, **changed)
        assert seen.pop() == replace(old, **changed)


@pytest.mark.usefixtures("hedgerow")
def test_a_launched_study_has_helpers_whose_ledgers_pass(hedgerow: Command, tmp_path: Path) -> None:
    file, folder = tmp_path / "study.toml", tmp_path / "out"
    file.write_text(STUDY)
    done = hedgerow("launch", str(file), "--folder", str(folder))
    assert done.code == 0, done.err
    assert "experimental: not yet reviewed by outside cryptographers" in done.out
    assert "all 6 ledgers pass" in done.out
    for name in ("helper-1", "helper-2"):
        shown = json.loads(hedgerow("helper", "verify", str(folder / name), "--json").out)
        assert (shown["opened"], shown["over"]) == (4, True)
        assert not (folder / name / "helper.box").exists()
    page = hedgerow("statement", str(folder / "server"), "--out", str(tmp_path / "s"))
    assert page.code == 0, page.err
    text = next((tmp_path / "s").rglob("*.md")).read_text()
    for words in (
        "EXPERIMENTAL: NOT YET REVIEWED BY OUTSIDE CRYPTOGRAPHERS",
        "at least one of helper-1 and helper-2 does not work with the server",
        "A client can falsify sums, and nobody can notice",
        "Nobody can drop out",
    ):
        assert words in " ".join(text.split())
    refused = hedgerow("launch", str(file), "--seed", "1")
    assert "Leave out the seed" in " ".join(refused.err.split())
