"""docs/deploy.md: the commands run as printed, by three parties, and print what is shown."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.deployment.http_server import listen
from support.paths import ROOT
from support.waiting import PATIENCE

PAGE = ROOT / "docs" / "deploy.md"
SHOWN_HOME = "~/.local/share/hedgerow/client"
SHOWN_PORT = "8420"
KEYS = {"NORTH_KEY": "north", "SOUTH_KEY": "south"}


def steps(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Who runs what, and the lines that are shown below it; `study.toml` is a step of the server."""
    story = text.partition("## Two organisations")[2].partition("\n## ")[0]
    for kind, block in re.findall(r"```(console|toml)\n(.*?)```", story, re.DOTALL):
        if kind == "toml":
            yield "server", "write", block.splitlines()
            continue
        for part in re.split(r"^(?=\w+\$ )", block, flags=re.MULTILINE)[1:]:
            first, *shown = part.rstrip("\n").splitlines()
            who, _, command = first.partition("$ ")
            yield who, command, shown


class Parties:
    """Three folders with a home each, and a server that keeps running."""

    def __init__(self, root: Path, port: int) -> None:
        self.root, self.port = root, port
        self.known: dict[str, str] = {}
        self.server: subprocess.Popen[str] | None = None
        for name in ("server", "north", "south"):
            (root / name).mkdir()

    def home(self, who: str) -> str:
        return str(self.root / who / "home")

    def run(self, who: str, command: str) -> str:
        """What a command prints, with paths, ports and new names as the page shows them."""
        for name, value in self.known.items():
            command = command.replace(name, value)
        command = command.replace(SHOWN_PORT, str(self.port)).replace(SHOWN_HOME, self.home(who))
        if " join " in command:
            command += " --yes"
        python = f"{shlex.quote(sys.executable)} -m hedgerow"
        command = re.sub(r"(^|\| )hedgerow ", rf"\1{python} ", command)
        started = subprocess.Popen(
            ["bash", "-c", f"exec {command}" if " serve " in command else command],
            cwd=self.root / who,
            env={**os.environ, "HEDGEROW_CLIENT_HOME": self.home(who), "COLUMNS": "120"}
            | {"HEDGEROW_SERVER_PORT": str(self.port)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert started.stdout is not None
        if " serve " not in command:
            printed, _ = started.communicate(timeout=PATIENCE)
            assert started.returncode == 0, printed
        else:
            self.server, printed = started, ""
            while "clients join with" not in printed:
                line = started.stdout.readline()
                assert line, printed
                printed += line
            printed += started.stdout.readline()
        for name, client in KEYS.items():
            if found := re.search(rf'{client} = "(\w+)"', printed):
                self.known[name] = found[1]
        if found := re.search(r"^server key (\w+)", printed, re.MULTILINE):
            self.known["SERVER_KEY"] = found[1]
        return printed.replace(self.home(who), SHOWN_HOME).replace(str(self.port), SHOWN_PORT)

    def write(self, lines: list[str]) -> None:
        text = "\n".join(lines)
        for name, value in self.known.items():
            text = text.replace(name, value)
        (self.root / "server" / "study.toml").write_text(text)

    def stop(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGTERM)
            assert self.server.wait(PATIENCE) == 0
            assert self.server.stdout is not None
            self.server.stdout.close()


def masked(text: str) -> list[str]:
    """Lines without what differs from run to run: keys, digests, times and the expert drawn."""
    text = re.sub(r"[0-9a-f]{16,64}", "HEX", text)
    text = re.sub(r"\d{4}-\d\d-\d\d(T[\d:.+]+)?", "TIME", text)
    text = re.sub(r'"play": \d', '"play": 0', text)
    return [line.rstrip() for line in text.strip().splitlines() if "? [y/N]" not in line]


def differs(shown: list[str], printed: list[str]) -> str | None:
    """The first shown line that was not printed in its place; `[...]` stands for any lines."""
    at, free = 0, False
    for line in shown:
        if line.strip() == "[...]":
            free = True
            continue
        while free and at < len(printed) and printed[at] != line:
            at += 1
        if at >= len(printed) or printed[at] != line:
            return line
        at, free = at + 1, False
    return None if free or at == len(printed) else f"(nothing), but printed was: {printed[at]}"


def test_differences_are_seen() -> None:
    assert differs(["a", "[...]", "d"], ["a", "b", "c", "d"]) is None
    assert differs(["a"], ["b"]) == "a"
    assert differs(["a"], ["a", "b"]) is not None
    assert differs(["[...]", "x"], ["a"]) == "x"
    assert masked("key 0123456789abcdef0123 of 2026-11-16") == ["key HEX of TIME"]


def test_every_step_is_found() -> None:
    found = list(steps(PAGE.read_text(encoding="utf-8")))
    assert [who for who, _, _ in found] == [
        "north", "south", "server", "server", "north", "south", "north", "north", "north", "north",
    ]  # fmt: skip
    assert all(shown for _, _, shown in found)


@pytest.mark.long
def test_the_story_of_the_page(tmp_path: Path) -> None:
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    listening.close()
    parties, began = Parties(tmp_path, port), time.monotonic()
    try:
        for who, command, shown in steps(PAGE.read_text(encoding="utf-8")):
            if command == "write":
                parties.write(shown)
                continue
            printed = parties.run(who, command)
            wrong = differs(masked("\n".join(shown)), masked(printed))
            assert wrong is None, f"{who}$ {command}\n{wrong}\nprinted:\n{printed}"
    finally:
        parties.stop()
    assert time.monotonic() - began < 600
