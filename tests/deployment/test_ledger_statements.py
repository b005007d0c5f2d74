"""Statements from the ledgers of a deployment: what they say, and when they are refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from hedgerow.core.errors import HedgerowError
from hedgerow.deployment.account import Account
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.database import LedgerInUse
from hedgerow.deployment.home import Home
from hedgerow.deployment.keys import load_or_make
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.manifest import Manifest
from hedgerow.deployment.record import is_deployment, read_deployment
from hedgerow.deployment.releases import Releases
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.server_ledger import public_keys
from hedgerow.records.schema import STAMP
from hedgerow.statement.files import rendered_statement, statement_document
from hedgerow.statement.statement import Details, Statement
from hedgerow.statement.words.attackers import plain_words
from hedgerow.statement.words.conditions import ledger_words, only_here
from hedgerow.studies.storage.digest import write_digest
from support.command import Command
from support.deployed import Direct

TODAY = date(2026, 11, 15)


@dataclass(frozen=True)
class Place:
    """Two data sets in one home; `studies` are folders of servers, by title."""

    home: Home
    servers: Path

    def hold(self, title: str, epsilon: str, seed: int | None = None, who: str = "ns") -> Path:
        """Hold a study of a few rounds with both data sets; return the folder of its server."""
        folder = self.servers / title.replace(" ", "-")
        names = {"n": "north", "s": "south"}
        accounts = {name: self.home.account(name) for name in names.values()}
        manifest = Manifest.make(
            title=title,
            algorithm="sparse_vector",
            choices={"epsilon": epsilon},
            experts=3,
            horizon=6,
            **public_keys(folder),
            roster={name: account.public_key for name, account in accounts.items()},
            seed=seed,
        )
        server = StudyServer.create(folder, manifest)
        learners = [
            ClientLearner(
                StudyClient.join(
                    accounts[names[one]],
                    Direct(server),
                    server_key=manifest.server,
                    seeded=seed is not None,
                )
            )
            for one in who
        ]
        for learner in learners:  # say hello, and thereby join
            learner.client.advance()
            learner.client.advance()
        while len(who) == 2 and any(learner.round < 4 for learner in learners):
            for learner in learners:
                if learner.client.advance() and learner.round < 4:
                    learner.observe(learner.round, [0.5, 0.25, 1.0])
        for learner in learners:
            learner.close()
        server.close()
        return folder

    def studies(self, name: str) -> list[Path]:
        return sorted(self.home.place(name).glob("studies/*"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two private studies with the same data sets, made once; copied before anything is changed."""
    root = tmp_path_factory.mktemp("deployed")
    home = Home(root / "home")
    for name in ("north", "south"):
        Account.make(home.place(name), name=name, unit="event", epsilon="2.0")
    place = Place(home, root / "servers")
    place.hold("First study", "0.5")
    place.hold("Second study", "1")
    return place


@pytest.fixture
def copied(kept: Place, tmp_path: Path) -> Place:
    """A copy that may be changed."""
    shutil.copytree(kept.servers.parent, tmp_path / "copy")
    return Place(Home(tmp_path / "copy" / "home"), tmp_path / "copy" / "servers")


def stated(folder: Path) -> Statement:
    found = read_deployment(folder)
    return Statement(
        found.record, found.record.algorithms[0], Details(), None, TODAY, ledger=found.ledger
    )


def of_second(kept: Place) -> Path:
    (found,) = [
        folder
        for folder in kept.studies("north")
        if read_deployment(folder).record.title == "Second study"
    ]
    return found


def test_the_statement_of_a_client(kept: Place) -> None:
    statement = stated(of_second(kept))
    assert statement.stamp is None
    assert statement.run.noise.secure
    assert statement.run.played == 4
    files = rendered_statement(statement)
    assert all(STAMP not in text for text in files.values())
    page = " ".join(files["statement.md"].split())
    assert (
        "A budget ledger is kept for the data set 'north': epsilon = 1.5 of 2 is spent, by 2 studies"
        in page
    )
    assert "none is kept" not in page
    for text in ("First study", "Second study", "epsilon = 0.5", "nothing is released twice"):
        assert text in page
    assert "cannot be saved" not in page
    assert only_here(statement).startswith("These data are used only in studies that are charged")
    assert only_here(statement) in page
    account = kept.home.account("north")
    assert account.public_key in page
    assert statement.ledger is not None
    assert statement.ledger.head in page
    assert account.check().hex() in page
    assert "A budget ledger is kept" in files["registry.yaml"]
    assert (
        "All studies on these data together, about one record of one client in one round: "
        "epsilon = 1.5, delta = 0." in page
    )  # 4.5 times as likely: the odds of the account, not those of this study
    assert "never more than 4.49 to 1" in page
    assert "never more than 2.72 to 1" in page
    for text in ("cannot be recalled", "could not be detected afterwards", "we trust the operator"):
        assert text in page


def test_the_document_has_the_ledger(kept: Place) -> None:
    found = json.loads(json.dumps(statement_document(stated(of_second(kept)))))["ledger"]
    assert found["party"] == "north"
    assert found["unsigned"] == ["south"]
    assert sorted(found["signed"]) == ["north", "server"]
    assert [charge["title"] for charge in found["account"]["charges"]] == [
        "First study",
        "Second study",
    ]
    assert found["account"]["budget"] == {"epsilon": "2.0"}
    assert (found["sealed"], found["tls"]) == (True, None)
    statement = stated(of_second(kept))
    account = statement.ledger.account if statement.ledger else None
    assert statement.ledger is not None
    assert account is not None
    one = replace(statement.ledger, account=replace(account, charges=account.charges[:1]))
    assert (
        "Nothing else was charged to the account 'north'"
        in plain_words(replace(statement, ledger=one))[-1]
    )


def test_the_statement_of_a_server(kept: Place) -> None:
    statement = stated(kept.servers / "First-study")
    assert statement.stamp is None
    ledger = statement.ledger
    assert ledger is not None
    assert list(ledger.signed) == ["server", "north", "south"]
    assert ledger.signed["south"] == kept.home.account("south").public_key
    assert not ledger.unsigned
    words = " ".join(ledger_words(statement))
    assert "each client charges the study to the account of its data set" in words
    assert "the others wait for it" in words
    refused = replace(statement, ledger=replace(ledger, refused=["south"], closing="drop"))
    assert "REFUSED" in " ".join(ledger_words(refused))
    assert "never counted" in " ".join(ledger_words(refused))


def test_who_has_not_signed_is_named(copied: Place) -> None:
    folder = copied.hold("Third study", "0.25", who="n")
    assert "Not signed yet: south." in ledger_words(stated(folder))


def test_noise_from_a_seed_is_stamped(copied: Place) -> None:
    folder = copied.hold("A try", "1", seed=3)
    statement = stated(folder)
    assert statement.stamp == STAMP
    assert plain_words(statement)[0].startswith(STAMP)
    (own,) = [f for f in copied.studies("south") if stated(f).run.title == "A try"]
    words = ledger_words(stated(own))[0]
    assert "epsilon = 1.5 of 2 is spent; this study is not private and was not charged" in words


def _change(file: Path, *statements: str) -> None:
    database = sqlite3.connect(file)
    for trigger in ("log_stays", "log_keeps"):
        database.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for statement in statements:
        assert database.execute(statement).rowcount > 0, statement
    database.commit()
    database.close()


FIRST, ACCOUNT, SERVER = "study.db", "data.db", "server.db"
CHANGES: dict[str, tuple[str, str, str]] = {
    "an entry of the log": (FIRST, "UPDATE log SET body = x'00' WHERE n = 2", "log was changed"),
    "the last entry is gone": (
        FIRST,
        "DELETE FROM log WHERE n >= (SELECT max(n) - 1 FROM log)",
        "older than what the account knows of it",
    ),
    "a release is gone": (FIRST, "DELETE FROM outbox WHERE exchange = 1", "do not agree"),
    "a charge": (ACCOUNT, "DELETE FROM charge WHERE title = 'First study'", "lacks the charge"),
    "the log of the account": (
        ACCOUNT,
        "UPDATE log SET body = CAST(replace(body, '0.5', '0.1') AS BLOB) WHERE n = 1",
        "log was changed",
    ),
    "an entry that is no bytes": (
        ACCOUNT,
        "UPDATE log SET body = 'text' WHERE n = 1",
        "log was changed",
    ),
    "the signature of the manifest": (
        FIRST,
        "UPDATE kv SET value = zeroblob(64) WHERE name = 'signature'",
        "not signed",
    ),
    "the log of the server": (SERVER, "UPDATE log SET kind = 'x' WHERE n = 3", "log was changed"),
    "an upload at the server": (SERVER, "DELETE FROM upload WHERE client = 1", "does not agree"),
    "a join at the server": (
        SERVER,
        "UPDATE joined SET message = zeroblob(77) WHERE client = 1",
        "signature of south",
    ),
    "the server's signature": (
        SERVER,
        "UPDATE kv SET value = zeroblob(64) WHERE name = 'signature'",
        "not signed by the server",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_ledger_gets_no_statement(copied: Place, what: str) -> None:
    file, statement, words = CHANGES[what]
    folder = copied.servers / "Second-study" if file == SERVER else of_second(copied)
    read_deployment(folder)
    _change(folder.parent.parent / file if file == ACCOUNT else folder / file, statement)
    with pytest.raises(HedgerowError, match=words):
        read_deployment(folder)


def _kept(file: Path) -> list[tuple[str, bytes]]:
    database = sqlite3.connect(file)
    try:
        return database.execute("SELECT name, value FROM kv").fetchall()
    finally:
        database.close()


def test_a_log_of_another_study_is_refused(copied: Place) -> None:
    """Everything but the log is swapped for that of another study on the same data."""
    first, second = copied.studies("north")
    database = sqlite3.connect(second / FIRST)
    for name, value in _kept(first / FIRST):
        database.execute("UPDATE kv SET value = ? WHERE name = ?", (value, name))
    database.commit()
    database.close()
    with pytest.raises(HedgerowError, match=r"is that of the study .* which has its own folder"):
        read_deployment(second)
    shutil.rmtree(first)
    second.rename(first)
    with pytest.raises(HedgerowError, match="older than what the account knows of it"):
        read_deployment(first)
    for one in (first.parent.parent / "releases").iterdir():  # somebody makes the counter fit
        one.unlink()
    Releases.make(first.parent.parent, bytes.fromhex(first.name))
    with pytest.raises(HedgerowError, match="does not begin with the study"):
        read_deployment(first)


def test_a_ledger_in_use_is_refused(copied: Place) -> None:
    folder = copied.servers / "First-study"
    server = StudyServer(folder)
    with pytest.raises(LedgerInUse):
        read_deployment(folder)
    server.close()


def test_folders_that_are_no_study(copied: Place, tmp_path: Path) -> None:
    assert not is_deployment(tmp_path)
    data = copied.home.place("north")
    assert is_deployment(data)
    with pytest.raises(HedgerowError, match="Choose one of its studies: "):
        read_deployment(data)
    alone = tmp_path / "alone"
    shutil.copytree(of_second(copied), alone)
    with pytest.raises(HedgerowError, match="not inside the folder of its data set"):
        read_deployment(alone)


def test_the_command(hedgerow: Command, copied: Place) -> None:
    folder = of_second(copied)
    done = hedgerow("statement", str(folder))
    assert done.code == 0, done.err
    assert "A budget ledger is kept for the data set 'north'" in " ".join(done.out.split())
    assert (folder / "statement" / "sparse_vector" / "statement.html").is_file()
    checked = hedgerow("verify", str(folder))  # the account's key has signed the statement
    assert (checked.code, "signed by " in checked.out, "head " in checked.out) == (0, True, True)
    page = folder / "statement" / "sparse_vector" / "statement.md"
    page.write_text(page.read_text(encoding="utf-8").replace("epsilon = 1", "epsilon = 0.1"))
    edited = hedgerow("verify", str(folder))
    assert (edited.code, "statement.md has changed" in edited.out) == (1, True)
    stranger = folder.parent / "stranger.pem"
    load_or_make(stranger)
    write_digest(page.parent, stranger)
    forged = hedgerow("verify", str(folder))
    assert (forged.code, "signed by another key" in forged.out) == (1, True)
    write_digest(page.parent)
    forged = hedgerow("verify", str(folder))
    assert (forged.code, "a signature was expected" in forged.out) == (1, True)
    listed = hedgerow("statement", str(folder), "--json").document()
    assert listed["statements"][0]["stamp"] is None
    _change(folder / FIRST, "UPDATE log SET body = x'00' WHERE n = 2")
    for command in ("statement", "verify"):
        refused = hedgerow(command, str(folder))
        assert (refused.code, "log was changed" in refused.err) == (2, True)


def test_the_folder_of_all_statements(hedgerow: Command, copied: Place) -> None:
    """What no longer reads as a statement is named, not passed over."""
    folder = of_second(copied)
    assert hedgerow("statement", str(folder)).code == 0
    places = (folder, folder / "statement")
    for place in places:
        kept = hedgerow("verify", str(place))
        assert (kept.code, "ok: " in kept.out, "head " in kept.out) == (0, True, True), kept.err
    (folder / "statement" / "sparse_vector" / "statement.json").write_text("{}")
    for place in places:
        changed = hedgerow("verify", str(place))
        assert (changed.code, "is not a statement" in changed.out) == (1, True), changed.err


@pytest.mark.parametrize("part", ["odds", "account", "head", "later"])
def test_a_statement_is_compared_with_its_ledger(
    hedgerow: Command, copied: Place, part: str
) -> None:
    """Also one that a holder of the key has written and signed; an earlier one stays true."""
    folder = of_second(copied)
    assert hedgerow("statement", str(folder)).code == 0
    stated_in = folder / "statement" / "sparse_vector"
    lies = {
        "odds": ("2.72 to 1", "2 to 1", "statement.md"),
        "account": (
            '"spent": "epsilon = 1.5 of 2"',
            '"spent": "epsilon = 1 of 2"',
            "statement.json",
        ),
        "head": (read_deployment(folder).ledger.head, "00" * 32, "statement.json"),
    }
    if part == "later":  # the account pays for another study
        copied.hold("Third study", "0.25")
    else:
        before, after, name = lies[part]
        text = (stated_in / name).read_text(encoding="utf-8")
        assert before in text
        (stated_in / name).write_text(text.replace(before, after), encoding="utf-8")
        write_digest(stated_in, copied.home.place("north") / "key.pem")
    for target in (folder, stated_in):
        checked = hedgerow("verify", str(target))
        assert checked.code == (part != "later"), checked.out + checked.err
        assert ("differs: " in checked.out) == (part != "later")
