"""Studies that released versions have finished are checked and stated by this one."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.manifest import Manifest, ManifestRefused, promised, rebuild
from hedgerow.deployment.record import read_deployment
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.server_ledger import ServerLedger
from support.command import Command
from support.simulated import SimulatedStudy, small_study

ARCHIVES = sorted((Path(__file__).parent / "released").glob("*.tar.gz"))
STUDIES = ("central", "fold", "local")


@pytest.fixture(params=[f"{a.name.removesuffix('.tar.gz')} {s}" for a in ARCHIVES for s in STUDIES])
def released(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of one study of one version."""
    version, study = request.param.split()
    with tarfile.open(Path(__file__).parent / "released" / f"{version}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / study


def clients(released: Path) -> list[Path]:
    return sorted((released / "home").glob("*/studies/*"))


def test_verify_finds_every_ledger_in_order(released: Path, hedgerow: Command) -> None:
    done = hedgerow("client", "verify", "--home", str(released / "home"), "--json")
    rows = done.document()["ledgers"]
    assert done.code == 0, rows
    assert [row["ok"] for row in rows] == [True] * 4  # two accounts, two studies


def test_a_statement_of_every_party(released: Path, tmp_path: Path, hedgerow: Command) -> None:
    found = [read_deployment(place) for place in (released / "server", *clients(released))]
    server, *parties = found
    assert sorted(server.ledger.signed) == ["client-000", "client-001", "server"]
    assert [party.ledger.party for party in parties] == ["client-000", "client-001"]
    assert {one.ledger.exchanges for one in found} == {server.ledger.exchanges}
    assert {one.record.played for one in parties} == {12}
    for place in (released / "server", clients(released)[0]):
        out = tmp_path / place.name
        assert hedgerow("statement", str(place), "--out", str(out)).code == 0
        (page,) = out.rglob("*.html")
        assert "epsilon = 1" in page.read_text("utf-8")


@pytest.mark.parametrize("who", ["server", "client"])
def test_what_was_changed_since_is_found(released: Path, who: str) -> None:
    place = released / "server" if who == "server" else clients(released)[0]
    file = place / ("server.db" if who == "server" else "study.db")
    database = sqlite3.connect(file)
    table = "upload" if who == "server" else "outbox"
    database.execute(f"UPDATE {table} SET hash = zeroblob(32) WHERE exchange = 1")
    database.commit()
    database.close()
    with pytest.raises(InvalidValue, match=r"not agree with .* log"):
        read_deployment(place)


def test_a_signature_of_a_client_is_checked(released: Path) -> None:
    database = sqlite3.connect(released / "server/server.db")
    (message,) = database.execute("SELECT message FROM joined WHERE client = 1").fetchone()
    other = message[:-1] + bytes([message[-1] ^ 1])
    database.execute("UPDATE joined SET message = ? WHERE client = 1", (other,))
    database.commit()
    database.close()
    with pytest.raises(InvalidValue, match=r"signature of client-001 .* is wrong"):
        read_deployment(released / "server")


def test_another_protocol_is_read_and_not_played(released: Path) -> None:
    ledger = ServerLedger(released / "server")
    protocol = ledger.manifest.protocol
    ledger.close()
    if protocol == Manifest.protocol:
        pytest.skip("this version plays it")
    words = rf"protocol {protocol},.*: use version 0\.3\.0 of the package"
    with pytest.raises(ManifestRefused, match=words):
        StudyServer(released / "server")
    with pytest.raises(ManifestRefused, match=words):
        StudyClient(clients(released)[0], None)  # type: ignore[arg-type]


def test_another_version_with_the_same_bits_goes_on(tmp_path: Path) -> None:
    """The manifest is of another version than the server and the clients that play it."""
    made = small_study(tmp_path, clients=2, experts=3, horizon=8)
    study = SimulatedStudy(tmp_path, replace(made.manifest, version="0.2.9"))
    losses = np.random.default_rng(1).integers(0, 16, (8, 2, 3)) / 16
    study.play(losses)
    assert study.violations(losses) == []
    study.close()
    found = read_deployment(study.place(0))
    assert found.record.played == 8


def test_another_version_with_other_bits_is_named(tmp_path: Path) -> None:
    study = small_study(tmp_path, clients=1, experts=3, horizon=8)
    other = {**study.manifest.resolved, "fingerprint": "00" * 32}
    with pytest.raises(ManifestRefused, match=r"fingerprint .* it is of version 0\.2\.9, which"):
        rebuild(replace(study.manifest, version="0.2.9", resolved=other))
    assert promised(replace(study.manifest, version="0.2.9", resolved=other)).name
    looser = json.loads(json.dumps(study.manifest.resolved))
    looser["guarantees"][-1]["stated"][0] = "0x1.0p+1"
    with pytest.raises(ManifestRefused, match=r"guarantees\.\d\.stated\.0 = "):
        promised(replace(study.manifest, version="0.2.9", resolved=looser))
