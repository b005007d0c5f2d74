"""examples/service.py and examples/serve.toml: two clients play a study; one dies on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hedgerow.deployment.http_server import listen
from hedgerow.deployment.server import StudyServer
from support.paths import EXAMPLES
from support.waiting import PATIENCE

ROUNDS = 6


def command(home: Path, *arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "hedgerow", *arguments, "--json"],
        env={**os.environ, "HEDGEROW_CLIENT_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def service(home: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, EXAMPLES / "service.py", name],
        env={**os.environ, "HEDGEROW_CLIENT_HOME": str(home)},
        start_new_session=True,
    )


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read().decode()


@pytest.mark.long
def test_the_example_service_plays_a_study(tmp_path: Path) -> None:
    home, names = tmp_path / "home", ("north", "south")
    text = (EXAMPLES / "serve.toml").read_text(encoding="utf-8")
    for name in names:
        made = command(home, "client", "init", "--data", name, "--budget", "2", "--unit", "event")
        text = re.sub(rf'^{name} = "\w+"', f'{name} = "{made["public_key"]}"', text, flags=re.M)
    text = text.replace("horizon = 60 ", f"horizon = {ROUNDS} ")
    (tmp_path / "serve.toml").write_text(text, encoding="utf-8")
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    listening.close()
    server = subprocess.Popen(
        [sys.executable, "-m", "hedgerow", "serve", tmp_path / "serve.toml", "--json"],
        env={**os.environ, "HEDGEROW_SERVER_PORT": str(port)},
        stdout=subprocess.PIPE,
        text=True,
    )
    started = []
    try:
        assert server.stdout is not None
        shown = ""
        while not shown.endswith("\n}\n"):
            line = server.stdout.readline()
            assert line, shown
            shown += line
        found = json.loads(shown)
        for name in names:
            key = ("--server-key", found["server_key"], "--yes")
            command(home, "client", "join", found["url"], "--data", name, *key)
        first = service(home, "north")
        started.append(first)
        while "hedgerow_waiting 1" not in read(f"{found['url']}/metrics"):
            time.sleep(0.1)
        os.killpg(first.pid, signal.SIGKILL)  # while its client waits for the other one
        first.wait(PATIENCE)
        both = [service(home, name) for name in names]
        started += both
        assert [one.wait(PATIENCE) for one in both] == [0, 0]
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
    finally:
        for one in started:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
        if server.poll() is None:
            server.kill()
            server.wait()
        assert server.stdout is not None
        server.stdout.close()
    study = StudyServer(tmp_path / "server")
    study.check()
    assert study.over
    assert set(study.signatures()) == set(names)
    study.close()
