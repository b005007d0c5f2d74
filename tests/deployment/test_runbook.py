"""Every step of docs/runbook.md, the manifest for Kubernetes, and what the container installs."""

from __future__ import annotations

import re
import shutil
import sqlite3
from importlib.metadata import distribution
from pathlib import Path

import kubernetes_validate
import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment.application import TOKEN, kept_token
from hedgerow.deployment.config import from_table, server_options
from hedgerow.deployment.database import LedgerFailed, file_system
from hedgerow.deployment.helper_ledger import make_helper
from hedgerow.deployment.manifest import ManifestRefused
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.wire import Refused
from hedgerow.studies.config import read_toml
from support.command import Command
from support.deployed import play_until
from support.keys import NOBODY
from support.masked import World
from support.paths import ROOT
from support.simulated import SimulatedStudy, small_study

HORIZON = 12
LOSSES = np.random.default_rng(0).integers(0, 17, (HORIZON, 2, 3)) / 16


@pytest.fixture
def study(place: Path, built_once: None) -> SimulatedStudy:
    """A private study in its middle."""
    found = small_study(place / "a", clients=2, experts=3, horizon=HORIZON, seed=None)
    play_until(found, LOSSES, 5)
    return found


def stopped(study: SimulatedStudy) -> Path:
    """The server stops in order; its ledger is one file."""
    study.close()
    for who in ("server", 0, 1):
        study.kill(who)  # so that it is opened again when it is needed
    folder = study.place("server")
    assert not list(folder.glob("*-wal"))
    return folder


def test_move_a_server(study: SimulatedStudy, place: Path) -> None:
    moved = place / "b"
    shutil.move(stopped(study), moved / "server")
    for client, name in enumerate(study.manifest.clients):
        shutil.move(study.account(client).folder, moved / f"data-{name}")
    again = SimulatedStudy(moved, study.manifest)
    again.play(LOSSES)
    assert again.running_server().over
    again.close()


def test_a_replica_that_is_behind_is_found_out(study: SimulatedStudy, place: Path) -> None:
    folder = stopped(study)
    replica = shutil.copytree(folder, place / "replica")
    play_until(study, LOSSES, 8)
    folder = stopped(study)
    shutil.rmtree(folder)
    shutil.copytree(replica, folder)
    with pytest.raises(Refused, match="a restored copy"):
        play_until(study, LOSSES, 10)
    assert file_system(Path("/proc")) == "proc"  # how network file systems are recognised


def test_a_backup_is_a_record(study: SimulatedStudy, place: Path, hedgerow: Command) -> None:
    stopped(study)
    copy = Path(shutil.copytree(study.account(0).folder, place / "copy" / "north"))
    play_until(study, LOSSES, 8)
    assert hedgerow("client", "verify", "--home", str(copy.parent)).code == 0
    (ledger,) = (copy / "studies").iterdir()
    assert hedgerow("statement", str(ledger), "--out", str(place / "out")).code == 0
    stopped(study)
    shutil.rmtree(study.place(0))
    shutil.copytree(ledger, study.place(0))
    with pytest.raises(InvalidValue, match="older than what the account knows"):
        study.learner(0)


def test_a_copy_after_a_stop_goes_on(study: SimulatedStudy, place: Path) -> None:
    folder = stopped(study)
    copy = shutil.copytree(folder, place / "copy")
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    study.play(LOSSES)
    assert study.running_server().over


@pytest.mark.parametrize("who", ["server", 1])
def test_a_full_disk_is_freed(
    study: SimulatedStudy, who: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    party = study.running_server() if who == "server" else study.learner(1).client
    monkeypatch.setattr(party._database, "begin", full)  # until the ledger is opened again
    with pytest.raises(LedgerFailed, match="full"):
        study.play(LOSSES)
    assert party._database.failed
    study.kill(who)
    study.play(LOSSES)
    assert study.running_server().over


def test_a_new_token(tmp_path: Path) -> None:
    first = kept_token(tmp_path)
    (tmp_path / TOKEN).unlink()
    assert kept_token(tmp_path) != first


def test_another_signing_key_is_refused(study: SimulatedStudy, place: Path) -> None:
    folder = stopped(study)
    other = small_study(place / "other", clients=1, experts=3, horizon=4)
    other.running_server().close()
    shutil.copy(other.place("server") / "server.pem", folder / "server.pem")
    with pytest.raises(InvalidValue, match=r"server.pem is not the server's"):
        StudyServer(folder)


def test_end_a_study(study: SimulatedStudy, place: Path, hedgerow: Command) -> None:
    spent = study.account(0).spent_words()
    folder = stopped(study)
    for kept in (folder, study.place(0), study.place(1)):
        assert hedgerow("statement", str(kept), "--out", str(place / kept.name)).code == 0
    assert study.account(0).spent_words() == spent != "epsilon = 0 of 10"


@pytest.mark.parametrize("closing", ["wait", "fold", "drop"])
@pytest.mark.parametrize("anchor", [True, False])
def test_lose_a_client(place: Path, built_once: None, closing: str, anchor: bool) -> None:
    study = small_study(place, clients=2, experts=3, horizon=HORIZON, closing=closing)
    play_until(study, LOSSES, 4)
    stopped(study)
    if not anchor:
        (place / "server.anchor").unlink(missing_ok=True)
    server, learner = study.running_server(), study.learner(0)
    before = server.exchange

    def go_on() -> bool:
        """Whether an exchange is answered without client 1, which is lost."""
        for _ in range(20):
            if learner.over or study.running_server().exchange > before:
                break
            if learner.client.advance():
                learner.predict()
                learner.observe(learner.round, LOSSES[learner.round, 0])
            if server.may_close:
                server.close_exchange()
        return study.running_server().exchange > before

    assert go_on() is (closing != "wait" and anchor)
    if closing != "wait" and not anchor:
        assert server.vouch()
        assert go_on()
    study.close()


def test_lose_a_helper(place: Path) -> None:
    w = World(place)
    w.study.kill("h0")
    folder = w.study._places["h0"]
    old = shutil.copytree(folder, place / "backup")  # before it joined
    data = w.collect(1)
    for name in w.names * 2:
        w.study.help(name)
    assert w.server.exchange == 1
    w.study.restore("h0", old)
    assert w.finish() == []  # an old copy opens what comes, and the numbers are the same
    assert w.upload(data[0]).exchange == 1
    w.close()


def test_a_lost_helper_cannot_be_replaced(place: Path) -> None:
    w = World(place)
    w.collect(1)
    w.study.kill("h0")
    folder = w.study._places["h0"]
    shutil.rmtree(folder)
    make_helper(folder, "h0")
    with pytest.raises(ManifestRefused, match="only a new study can name it"):
        w.helper(0)
    for _ in ("its task", "its sum"):
        w.study.help("h1")
    assert (w.server.exchange, w.server.awaited) == (0, ["h0"])
    w.close()


def test_the_manifest_for_kubernetes(tmp_path: Path) -> None:
    parts = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()))
    for part in parts:
        kubernetes_validate.validate(part, "1.33", strict=True)
    broken = {**parts[-1], "spec": {**parts[-1]["spec"], "replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.33", strict=True)
    found = {part["kind"]: part for part in parts}
    assert found["StatefulSet"]["spec"]["replicas"] == 1
    (tmp_path / "study.toml").write_text(found["ConfigMap"]["data"]["study.toml"])
    table = read_toml(tmp_path / "study.toml")
    config = from_table(table, environ={})
    assert server_options(table["server"], environ={}).operations == "0.0.0.0:9420"
    assert config.manifest(NOBODY).algorithm == "sparse_vector"
    (container,) = found["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/study", "/anchor", "/config", "/tls"} <= mounts


def test_the_container_installs_what_is_tested_by_its_hashes() -> None:
    """tools/hashes.py writes the file again if this fails."""
    text = (ROOT / "deploy/requirements.txt").read_text()
    found = re.findall(
        r"^(\S+==\S+)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE
    )
    assert len(found) == text.count("==") > 20
    lines = {line for line, _ in found}
    assert lines <= set((ROOT / "requirements.txt").read_text().split())
    names = {canonicalize_name(line.partition("==")[0]) for line in lines}
    assert "setuptools" in names  # the image is built without another index
    extras = {"deploy", "runs", "secure"}
    for name in ("hedgerow", *names):
        for wanted in map(Requirement, distribution(name).requires or []):
            marker = wanted.marker
            if marker is None or (
                name == "hedgerow" and any(marker.evaluate({"extra": extra}) for extra in extras)
            ):
                assert canonicalize_name(wanted.name) in names | {"hedgerow"}
