"""A study in turns, as Flower plays it; and one under Flower itself where it is installed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.cli.client import verify as client_verify
from hedgerow.deployment.account import FILE, Account
from hedgerow.deployment.client import Distrusted
from hedgerow.deployment.flower import Place, Turn, answer_turn, take_turn
from hedgerow.deployment.manifest import Manifest, rebuild
from hedgerow.deployment.record import read_deployment
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.server_ledger import public_keys
from hedgerow.engines.loop import Engine
from support.paths import ROOT

ROUNDS, CLIENTS, EXPERTS = 16, 2, 3


def drawn() -> np.ndarray:
    rng = np.random.default_rng(4)
    return np.round(rng.random((ROUNDS, CLIENTS, EXPERTS)) * 2**20) / 2**20


def prepared(
    place: Path, seed: int | None = 5, rounds: int = ROUNDS
) -> tuple[Manifest, list[Place]]:
    """Keys, accounts and a server's folder; the places of all clients."""
    names = [f"c{i}" for i in range(CLIENTS)]
    accounts = [Account.make(place / name, name=name, unit="event", epsilon="10") for name in names]
    manifest = Manifest.make(
        title="Under Flower",
        algorithm="phased_selection",
        experts=EXPERTS,
        horizon=rounds,
        **public_keys(place / "server"),
        roster={name: a.public_key for name, a in zip(names, accounts, strict=True)},
        seed=seed,
    )
    StudyServer.create(place / "server", manifest).close()
    study = manifest.digest.hex()
    return manifest, [
        Place(place / name, manifest.server, study, seed is not None) for name in names
    ]


def application(losses: np.ndarray, client: int) -> Callable[[int, np.ndarray], Any]:
    return lambda number, play: losses[number, client]


def turns(place: Path, places: list[Place], losses: np.ndarray, most: int = 60) -> int:
    """Play in turns, each with a new process as far as the engine knows; return their number."""
    server = StudyServer(place / "server")
    last = [Turn((), b"", over=False) for _ in places]
    replies: dict[int, dict[bytes, bytes]] = {i: {} for i in range(CLIENTS)}
    made = 0
    while not server.over:
        made += 1
        assert made < most
        last = [
            take_turn(one, replies[i], last[i].challenge, application(losses, i))
            for i, one in enumerate(places)
        ]
        replies = answer_turn(server, {i: turn.requests for i, turn in enumerate(last)})
    server.close()
    return made


def reference(manifest: Manifest, losses: np.ndarray) -> np.ndarray:
    from hedgerow.core.block import Block, check
    from hedgerow.core.noise import SeededNoise
    from hedgerow.core.transcript import Everything
    from hedgerow.deployment.manifest import rebuild

    algorithm, sink = rebuild(manifest), Everything()
    engine = Engine.in_process(algorithm, SeededNoise(manifest.seed or 0))
    block = check(Block(losses, losses), algorithm.setting, 0, len(losses))
    engine.advance(engine.start(), block, [sink])
    return sink.all_plays()


def plays(places: list[Place]) -> np.ndarray:
    from hedgerow.deployment.client import StudyClient
    from hedgerow.deployment.flower import TurnLink

    found = []
    for one in places:
        client = StudyClient(one.ledger, TurnLink({}))
        found.append(np.stack(client.plays()))
        client.check()
        client.close()
    return np.stack(found, axis=1)


def test_turns_give_the_game_of_one_process(place: Path) -> None:
    """Log-many turns: the manifest, two before the first round, 4 exchanges, the end."""
    manifest, places = prepared(place)
    losses = drawn()
    made = turns(place, places, losses)
    assert np.array_equal(plays(places), reference(manifest, losses))
    assert made == 3 + 4 + 1


def test_secure_noise_is_charged_once(place: Path) -> None:
    _, places = prepared(place, seed=None)
    turns(place, places, drawn())
    for one in places:
        assert len(Account(one.account).charges()) == 1


def test_the_ledger_lies_under_its_account(place: Path) -> None:
    """Outside it, an account from a backup accepted a second study of the whole budget."""
    manifest, places = prepared(place, seed=None)
    another = replace(manifest, title="Another study of the same budget")
    backups = [(one.account / FILE).read_bytes() for one in places]
    turns(place, places, drawn())
    for one, backup in zip(places, backups, strict=True):
        assert one.ledger.parent.parent == one.account
        for file in one.account.glob(f"{FILE}*"):
            file.unlink()
        (one.account / FILE).write_bytes(backup)
        restored = Account(one.account)
        for work in (
            restored.check,
            lambda account=restored: account.quote(rebuild(manifest)),
            lambda account=restored: account.charge(another, rebuild(manifest), bytes(16)),
        ):
            with pytest.raises(hr.InvalidValue, match="an old copy"):
                work()


def test_ledgers_under_flower_are_checked_and_stated(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, places = prepared(place, seed=None)
    turns(place, places, drawn())
    assert client_verify(home=place) == 0
    shown = capsys.readouterr().out
    for one in places:
        assert f"study {manifest.digest.hex()[:16]} of {one.account.name}: ok" in shown
        stated = read_deployment(one.ledger).ledger
        assert stated.account is not None
        assert len(stated.account.charges) == 1
    assert sorted(read_deployment(place / "server").ledger.signed)[-1] == "server"
    damage(places[0].ledger)
    assert client_verify(home=place) == 1
    assert "study" in capsys.readouterr().out


def damage(ledger: Path) -> None:
    """Change one byte of a logged hash."""
    raw = sqlite3.connect(ledger / "study.db")
    raw.execute("UPDATE outbox SET hash = zeroblob(32)")
    raw.commit()
    raw.close()


def test_a_node_with_another_folder_for_the_ledger_is_told_why_not() -> None:
    with pytest.raises(hr.InvalidValue, match=r"always inside the folder of its account\. Leave"):
        Place.of({"account": "a", "ledger": "b", "server-key": "c", "study": "d"})
    with pytest.raises(hr.InvalidValue, match="64 hex digits"):
        assert Place(Path("a"), "b", "../c").ledger


def test_a_study_that_was_not_agreed_to_is_not_joined(place: Path) -> None:
    _, places = prepared(place, seed=None)
    other = Place(places[0].account, places[0].server_key, "00" * 32)
    server = StudyServer(place / "server")
    first = take_turn(other, {}, b"", application(drawn(), 0))
    replies = answer_turn(server, {0: first.requests})
    with pytest.raises(hr.InvalidValue, match=r"not joined\. Nothing was charged"):
        take_turn(other, replies[0], first.challenge, application(drawn(), 0))
    assert not Account(other.account).charges()
    server.close()


def test_a_round_that_is_not_over_waits(place: Path) -> None:
    """A client without losses sends nothing new, and goes on when they come."""
    _, (one, _) = prepared(place)
    server, known = StudyServer(place / "server"), 0
    losses = drawn()

    def so_far(number: int, play: np.ndarray) -> Any:
        return losses[number, 0] if number < known else None

    turn, replies = Turn((), b"", over=False), dict[bytes, bytes]()
    for _ in range(8):
        turn = take_turn(one, replies, turn.challenge, so_far)
        replies = answer_turn(server, {0: turn.requests})[0]
        assert not any(request[:1] == b"U" for request in turn.requests)
    known = 1
    turn = take_turn(one, replies, turn.challenge, so_far)
    while not any(request[:1] == b"U" for request in turn.requests):
        replies = answer_turn(server, {0: turn.requests})[0]
        turn = take_turn(one, replies, turn.challenge, so_far)
    server.close()


def test_an_old_welcome_is_refused(place: Path) -> None:
    """A reply to the hello of another turn opens nothing, not even if it comes under the new key."""
    _, (one, _) = prepared(place)
    server, turn = StudyServer(place / "server"), Turn((), b"", over=False)
    replies: dict[bytes, bytes] = {}
    asked, old = b"", b""
    while (asked, old[:1]) != (b"H", b"W"):
        turn = take_turn(one, replies, turn.challenge, application(drawn(), 0))
        replies = answer_turn(server, {0: turn.requests})[0]
        asked, old = turn.requests[-1][:1], list(replies.values())[-1]
    again = take_turn(one, {}, bytes(32), application(drawn(), 0))
    hello = next(request for request in again.requests if request[:1] == b"H")
    with pytest.raises(Distrusted, match="answers another hello"):
        take_turn(one, {hashlib.sha256(hello).digest(): old}, bytes(32), application(drawn(), 0))
    server.close()


def test_a_node_without_a_place_is_told_how_to_start() -> None:
    with pytest.raises(hr.InvalidValue, match="does not name 'server-key'"):
        Place.of({"account": "a", "study": "c"})


# -- Flower itself ---------------------------------------------------------------------------------

FLOWER = os.environ.get("HEDGEROW_FLOWER", sys.prefix)
"""The virtual environment with Flower."""
PATIENCE = 900.0  # seconds
NO_INSTALLS = "--disable-runtime-dependency-installation"
START = 30  # looks at a free ledger before a run is started again


def program(name: str) -> str:
    """A command of Flower, from its own environment."""
    found = shutil.which(name, path=f"{FLOWER}/bin")
    if found is None:
        pytest.skip(f"Flower is not installed in {FLOWER}: set HEDGEROW_FLOWER to an environment")
    return found


def app_files() -> dict[str, str]:
    """The files of the app, from the page that shows them."""
    text = (ROOT / "docs" / "flower.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^`([\w./]+)`.*?```\w+\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    return dict(blocks)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def started(command: list[str], log: Path, env: dict[str, str]) -> Iterator[None]:
    """A process and all that it starts, ended at the end."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True
        )
        try:
            yield
        finally:
            for how in (signal.SIGTERM, signal.SIGKILL):  # it leads its own process group
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, how)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)


def test_the_page_shows_the_app() -> None:
    files = app_files()
    assert set(files) == {"pyproject.toml", "our_study/server.py", "our_study/client.py"}
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
    assert f"flower-superlink {NO_INSTALLS}" in (ROOT / "docs" / "flower.md").read_text()


@pytest.mark.long
def test_a_study_under_flower(tmp_path: Path) -> None:
    """A SuperLink and two SuperNodes play the game of one process, bit for bit."""
    superlink, supernode, flwr = map(program, ("flower-superlink", "flower-supernode", "flwr"))
    manifest, places = prepared(tmp_path, rounds=4)
    losses, port, app = drawn()[:4], free_port(), tmp_path / "app"
    (app / "our_study").mkdir(parents=True)
    (app / "our_study" / "__init__.py").touch()
    for name, text in app_files().items():
        (app / name).write_text(text, encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    env = {
        **{k: v for k, v in os.environ.items() if k in ("HOME", "LANG", "TMPDIR")},
        **{"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"},
        **{"PYTHONPATH": str(ROOT / "src"), "PATH": f"{FLOWER}/bin:{os.environ['PATH']}"},
    }
    link = [superlink, "--insecure", "--host", "127.0.0.1", "--port", str(port)]
    with started([*link, NO_INSTALLS], tmp_path / "link.log", env):
        _wait_for(port)
        with _nodes(supernode, places, losses, port, tmp_path, env):
            run = [flwr, "run", str(app), "here", "--run-config", f'study="{tmp_path / "server"}"']
            end, free = time.monotonic() + PATIENCE, START
            while (done := _done(tmp_path / "server")) != CLIENTS and time.monotonic() < end:
                free = 0 if done is None else free + 1
                if free > START:  # nobody holds the ledger: Flower has given up, or never begun
                    subprocess.run(run, env=env, check=True, timeout=PATIENCE, capture_output=True)
                    free = 0
                time.sleep(2.0)
    found = plays(places)
    assert found.shape == (4, CLIENTS)
    assert np.array_equal(found, reference(manifest, losses))


@contextmanager
def _nodes(
    supernode: str, places: list[Place], losses: np.ndarray, port: int, out: Path, env: Any
) -> Iterator[None]:
    commands = []
    for i, place in enumerate(places):
        np.save(out / f"losses-{i}.npy", losses[:, i])
        config = (
            f'account="{place.account}" server-key="{place.server_key}" '
            f'study="{place.study}" seeded=true'
        )
        own = [supernode, "--insecure", "--superlink", f"127.0.0.1:{port}"]
        commands.append(
            [*own, "--host", "127.0.0.1", "--port", str(free_port()), "--node-config", config]
        )
    first, second = ({**env, "LOSSES": str(out / f"losses-{i}.npy")} for i in range(CLIENTS))
    with (
        started(commands[0], out / "node-0.log", first),
        started(commands[1], out / "node-1.log", second),
    ):
        yield


def _wait_for(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError("The SuperLink does not listen.")


def _done(folder: Path) -> int | None:
    """How many clients are done, by the server's ledger; None: a server holds it."""
    import sqlite3

    try:
        ledger = sqlite3.connect(f"file:{folder / 'server.db'}?mode=ro", uri=True, timeout=0.1)
        with ledger:
            (done,) = ledger.execute("SELECT count(*) FROM done").fetchone()
        ledger.close()
    except sqlite3.Error:
        return None
    return done
