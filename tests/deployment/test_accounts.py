"""Accounts: one budget for all studies on a data set, exact, charged once, and final."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.protocol import Algorithm
from hedgerow.deployment.account import CHARGED, EVENT, FILE, Account, _worst
from hedgerow.deployment.chain import check_lines
from hedgerow.deployment.client import StudyClient, fetch_manifest
from hedgerow.deployment.database import hooked
from hedgerow.deployment.manifest import Manifest, build, canonical, rebuild
from hedgerow.deployment.server import StudyServer
from hedgerow.deployment.server_ledger import public_keys
from hedgerow.deployment.simulated import SimulatedLink
from hedgerow.privacy.budget import Budget, amount
from hedgerow.privacy.curves import ApproximateDP, PureDP
from hedgerow.privacy.odometer import BudgetSpent, Filter
from support.deployed import Direct
from support.keys import NOBODY
from support.simulated import small_study

LEDGER = b"one ledger......"


def study(number: int = 0, **changes: Any) -> Manifest:
    """A study that costs 1/10, unless its choices say otherwise; numbers make it another one."""
    return replace(_made(json.dumps(changes)), title=f"Study {number}")


@lru_cache
def _made(changes: str) -> Manifest:
    return Manifest.make(
        **{
            "title": "Study",
            "algorithm": "random_prefix",
            "choices": {"epsilon": "0.1"},
            "experts": 3,
            "horizon": 8,
            "roster": {"a": "11" * 32},
            **NOBODY,
            **json.loads(changes),
        }
    )


@lru_cache
def _built(data: bytes) -> Algorithm:
    return rebuild(Manifest.read(data))


def charge(account: Account, manifest: Manifest, ledger: bytes = LEDGER) -> str:
    built = _built(replace(manifest, title="Study").to_bytes())
    return account.charge(manifest, built, ledger)


@pytest.mark.parametrize("algorithm", ["random_prefix", "sparse_vector", "shrinking_dartboard"])
def test_ten_tenths_fit_and_no_more(place: Path, algorithm: str) -> None:
    """As floats, nine of ten fitted: the float 0.1 is more than 1/10."""
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="1.0")
    for number in range(10):
        charge(account, study(number, algorithm=algorithm))
    assert amount(account.filter.odometer.units) <= 1
    with pytest.raises(BudgetSpent):
        charge(account, study(10, algorithm=algorithm))
    assert len(account.charges()) == 10


@pytest.mark.parametrize(("budget", "each", "fit"), [("0.3", "0.1", 3), ("0.7", "0.1", 7)])
def test_decimals_that_are_no_floats(place: Path, budget: str, each: str, fit: int) -> None:
    account = Account.make(place / "a", name="Ward", unit="event", epsilon=budget)
    for number in range(fit):
        charge(account, study(number, choices={"epsilon": each}))
    with pytest.raises(BudgetSpent):
        charge(account, study(fit, choices={"epsilon": each}))
    assert amount(account.filter.odometer.units) <= Fraction(budget)


def test_a_hair_too_much_is_refused(place: Path) -> None:
    """The budget is the decimal, not the next float above it."""
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="0.1")
    float_above = Manifest.read(
        study().to_bytes().replace(b"0.09999999999999999", b"0.1")  # 0.1 as a float: more than 1/10
    )
    with pytest.raises(BudgetSpent, match="rounded down"):
        account.quote(build(float_above))
    charge(account, study())


def test_a_hair_too_much_delta_is_refused(place: Path) -> None:
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="1", delta="0.001")
    exact = study(algorithm="shrinking_dartboard", choices={"epsilon": "0.5", "delta": "0.001"})
    above = exact.to_bytes().replace(b'"delta":0.0009999999999999998', b'"delta":0.001')
    with pytest.raises(BudgetSpent, match="rounded down"):
        account.quote(build(Manifest.read(above)))  # 0.001 as a float: more than 1/1000
    charge(account, exact)


def test_once_per_study_and_one_ledger(place: Path) -> None:
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="1")
    words = charge(account, study())
    spent = account.filter.odometer.units
    assert charge(account, study()) == words  # after a crash, with the same ledger
    assert account.filter.odometer.units == spent
    with pytest.raises(InvalidValue, match="another ledger"):
        charge(account, study(), b"second ledger...")
    assert account.paid(study(), LEDGER)
    assert not account.paid(study(), b"second ledger...")
    assert not account.paid(study(1), LEDGER)


def test_accounts_outlive_studies(place: Path) -> None:
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="0.25")
    charge(account, study(0))
    charge(account, study(1))
    again = Account(place / "a")
    with pytest.raises(BudgetSpent, match=r"of 0.25 is spent. Nothing was charged"):
        charge(again, study(2))
    assert [each.title for each in again.charges()] == ["Study 0", "Study 1"]
    assert again.spent_words() == "epsilon = 0.2 of 0.25"
    head = again.check()
    assert check_lines(iter(again.export())) == head


def test_seeded_studies_are_free(place: Path) -> None:
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="0.05")
    assert "not private" in charge(account, study(seed=1))
    assert account.charges() == []
    assert account.paid(study(seed=1), LEDGER)


def test_the_worst_observer_is_charged(place: Path) -> None:
    """With local trust the server sees the reports, and its guarantee is the one that counts."""
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="1", delta="0.001")
    local = study(
        algorithm="phased_selection",
        choices={"epsilon": "0.5", "trust": "local", "report": "laplace"},
    )
    assert charge(account, local).startswith("server")
    central = study(algorithm="phased_selection", choices={"epsilon": "0.25"})
    assert not charge(account, central).startswith("server")


def test_other_currencies(place: Path) -> None:
    """Many Gaussian studies need less in their own currency."""
    gaussian = {"algorithm": "walk_leader", "choices": {"mu": "0.2"}}
    counted = {}
    for currency in ("pure", "gaussian"):
        account = Account.make(
            place / currency,
            name="Ward",
            unit="event",
            epsilon="2",
            delta="1e-4",
            currency=currency,
        )
        number = 0
        try:
            for number in range(40):
                charge(account, study(number, **gaussian))
        except BudgetSpent:
            pass
        counted[currency] = number
    assert counted["gaussian"] > counted["pure"] > 0
    Account.make(place / "mu", name="Ward", unit="event", mu="1.5")
    Account.make(place / "rho", name="Ward", unit="event", rho="0.2")


@pytest.mark.parametrize(
    "budget",
    [{}, {"epsilon": "1", "mu": "1"}, {"epsilon": "-1"}, {"epsilon": "many"}, {"epsilon": "nan"}],
)
def test_budgets_that_are_none(place: Path, budget: dict[str, Any]) -> None:
    with pytest.raises(HedgerowError):
        Account.make(place / "a", name="Ward", unit="event", **budget)
    with pytest.raises(InvalidValue, match="no account"):
        Account(place / "a")


def test_a_budget_is_set_once(place: Path) -> None:
    Account.make(place / "a", name="Ward", unit="event", epsilon="1")
    with pytest.raises(InvalidValue, match="set once"):
        Account.make(place / "a", name="Ward", unit="event", epsilon="5")


def test_an_edited_account_is_found(place: Path) -> None:
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="1")
    fresh = account.filter.to_bytes()
    charge(account, study())
    account.check()
    raw = sqlite3.connect(place / "a" / FILE)
    raw.execute("UPDATE account SET filter = ?", (fresh,))
    raw.commit()
    raw.close()
    with pytest.raises(InvalidValue, match="does not agree"):
        account.check()


def test_a_study_that_does_not_fit_computes_nothing(place: Path) -> None:
    """No noise, no state, no ledger entry: the refusal comes first."""
    account = Account.make(place / "data", name="Ward", unit="event", epsilon="0.05")
    manifest = study(**public_keys(place / "server"), roster={"a": account.public_key})
    server = StudyServer.create(place / "server", manifest)

    with pytest.raises(BudgetSpent):
        StudyClient.join(account, Direct(server), server_key=manifest.server)
    assert server.joined == set()
    with pytest.raises(HedgerowError, match="not joined"):
        StudyClient(account.study(manifest.digest), Direct(server))
    server.close()


def test_epsilon_and_delta_are_charged_for_the_worst_observer_of_each() -> None:
    """One observer costs more of epsilon, another one more of delta."""
    peer, server = PureDP(0.5), ApproximateDP(0.25, 1e-6)
    found: Any = [SimpleNamespace(curve=curve) for curve in (peer, server)]
    budget = {"epsilon": "2", "delta": "2e-6"}
    spent = Filter(Budget(2.0, 2e-6), "pure")
    for _ in range(2):
        _, spent = _worst(spent, found, "both", budget)
    assert float(amount(spent.odometer.units)) == 1.0
    assert spent.odometer.delta == pytest.approx(2e-6, rel=1e-12)
    with pytest.raises(BudgetSpent):
        _worst(spent, found, "both", budget)


def test_a_ledger_needs_its_charge(place: Path) -> None:
    """An account that does not know the charge, such as one from a backup, does not open it."""
    account = Account.make(place / "data", name="Ward", unit="event", epsilon="1")
    shutil.copytree(place / "data", place / "backup")
    manifest = study(**public_keys(place / "server"), roster={"a": account.public_key})
    server = StudyServer.create(place / "server", manifest)

    StudyClient.join(account, Direct(server), server_key=manifest.server).close()
    folder = account.study(manifest.digest)
    StudyClient(folder, Direct(server)).close()
    older = Account(place / "backup")
    assert older.public_key == account.public_key
    stranger = Account.make(place / "other", name="Other", unit="event", epsilon="1")
    for other, text in ((older, "its charge is missing"), (stranger, "its key")):
        moved = shutil.copytree(folder, other.study(manifest.digest))
        (moved / CHARGED).unlink()  # somebody hides that it was charged
        with pytest.raises(InvalidValue, match=text):
            StudyClient(moved, Direct(server))
    outside = shutil.copytree(folder, place / "outside")
    with pytest.raises(InvalidValue, match="not inside the folder of its data set"):
        StudyClient(outside, Direct(server))
    server.close()


def test_a_study_without_a_horizon_is_charged(place: Path) -> None:
    choices: Any = {"algorithm": "watched_selection", "choices": {"epsilon": "0.5"}}
    study = small_study(place, clients=1, experts=3, horizon=None, seed=None, **choices)
    (charge,) = study.learner(0).client.account.charges()
    assert charge.study == study.learner(0).client.manifest.digest


def test_a_study_is_marked_as_charged_before_it_is_joined(place: Path) -> None:
    """Killed in between, it could be played without the mark that shows an old account."""
    account = Account.make(place / "data", name="Ward", unit="event", epsilon="1")
    backup = (account.folder / FILE).read_bytes()
    manifest = study(**public_keys(place / "server"), roster={"a": account.public_key})
    server = StudyServer.create(place / "server", manifest)

    def die(name: str) -> None:
        if name == "client join committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), hooked(die):
        StudyClient.join(account, Direct(server), server_key=manifest.server)
    StudyClient(account.study(manifest.digest), Direct(server)).close()  # it can be played
    (account.folder / FILE).write_bytes(backup)
    with pytest.raises(InvalidValue, match="it is an old copy"):
        Account(account.folder).check()
    server.close()


def test_an_account_from_a_backup_is_refused(place: Path, built_once: None) -> None:
    """It would spend again what later studies have spent."""
    study = small_study(place, clients=1, experts=3, horizon=4, seed=None)
    account = study.account(0)
    backup = (account.folder / FILE).read_bytes()
    folder = account.folder / "studies" / study.manifest.digest.hex()[:16]
    link = SimulatedLink(study)
    client = StudyClient.join(account, link, server_key=study.manifest.server)
    client.close()
    account.check()
    for file in account.folder.glob(f"{FILE}*"):
        file.unlink()
    (account.folder / FILE).write_bytes(backup)
    restored, algorithm = Account(account.folder), rebuild(study.manifest)
    for work in (
        restored.check,
        lambda: restored.quote(algorithm),
        lambda: restored.charge(study.manifest, algorithm, bytes(16)),
        lambda: StudyClient(folder, link),
    ):
        with pytest.raises(InvalidValue, match=r"lacks the charge of the study .* an old copy"):
            work()
    assert not restored.charges()
    study.close()


def test_the_key_of_another_party_is_refused(place: Path, built_once: None) -> None:
    """Both are in the roster, so only the account knows whose key this is."""
    study = small_study(place, clients=2, experts=3, horizon=4)
    study.learner(0)
    study.kill(0)
    mine, other = study.account(0), study.account(1)
    file = mine.folder / "key.pem"
    shutil.copy(other.folder / "key.pem", file)
    for work in (mine.check, lambda: study.learner(0)):
        with pytest.raises(InvalidValue, match="is not the one with which the account was made"):
            work()
    file.unlink()
    with pytest.raises(InvalidValue, match=r"key\.pem is missing"):
        mine.check()
    assert not file.exists()
    study.close()


def test_an_auditor_can_read_an_exported_log(place: Path) -> None:
    """What a person reads is what the hashes cover."""
    account = Account.make(place / "a", name="Ward", unit="event", epsilon="1")
    account.charge(study(), rebuild(study()), LEDGER)
    lines = account.export()
    assert json.loads(lines[0])["content"]["epsilon"] == "1"
    assert json.loads(lines[1])["content"]["title"] == "Study 0"
    assert check_lines(iter(lines)) == account.check()
    for old, new in (
        ("Study 0", "Study 9"),
        ('"title": "Study 0", ', ""),
        ('{"n": 1,', '{"n": 1, "content": {"title": "Study 9"},'),
    ):
        changed = lines[1].replace(old, new)
        assert changed != lines[1]
        with pytest.raises(InvalidValue, match=r"the content of entry 1|not an entry"):
            check_lines(iter([lines[0], changed]))


@pytest.mark.parametrize("key", ["abc", "--yes"])
def test_a_key_that_cannot_be_one_is_refused_before_the_server_is_called(key: str) -> None:
    class Silent:
        def call(self, request: bytes) -> bytes | None:
            raise AssertionError("the server was called")

    with pytest.raises(InvalidValue, match="64 hex digits"):
        fetch_manifest(Silent(), key)


SMALL: dict[str, Any] = {
    "algorithm": "tree_leader",
    "choices": {"epsilon": "0.5", "unit": "part:1e-06"},
}
OWN = {"epsilon": "0.5", "padding": False}
BATCH: dict[str, Any] = {
    "algorithm": "online_sgd",
    "choices": {"epsilon": "0.5"},
    "family": "Batch(of=Logistic(), size=4)",
}


def account_for(place: Path, unit: str = EVENT) -> Account:
    return Account.make(place / "a", name="Ward", epsilon="2", delta="0.001", unit=unit)


@pytest.mark.parametrize(
    ("changes", "text", "fits"),
    [
        (SMALL, r"at most 1e-06 in the l2 norm \(declared, not checked\)", "part:1e-06"),
        (
            {**SMALL, "choices": {**OWN, "unit": "part:1e-06" + ";1.0" * 7}},
            "a declared number for each round, from 1e-06 to 1,",
            "part:1e-06",
        ),
        (BATCH, "one of the 4 examples of one client in one round", "event:4"),
    ],
)
def test_a_study_that_protects_less_is_refused(
    place: Path, changes: dict[str, Any], text: str, fits: str
) -> None:
    """It was charged as if it protected a whole loss vector; its number was shown nowhere."""
    account, manifest = account_for(place), study(**changes)
    for work in (lambda: account.quote(rebuild(manifest)), lambda: charge(account, manifest)):
        with pytest.raises(InvalidValue, match=text) as refusal:
            work()
        assert "another unit: one record of one client in one round." in str(refusal.value)
        assert (f"--unit '{fits}" in str(refusal.value)) != (changes is BATCH)
    assert not account.charges()
    made_for_it = Account.make(place / "b", name="Ward", epsilon="2", delta="0.001", unit=fits)
    assert charge(made_for_it, manifest)
    assert made_for_it.check()


def test_a_part_account_takes_no_smaller_part_and_no_event(place: Path) -> None:
    account = account_for(place, "part:0.001")
    assert charge(account, study(**{**SMALL, "choices": {"epsilon": "0.5", "unit": "part:0.001"}}))
    for weaker in (study(**SMALL), study(choices={"epsilon": "0.1"})):
        with pytest.raises(InvalidValue, match=r"by at most 0\.001 in the l2 norm"):
            charge(account, weaker)


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "walk_leader", "choices": {"mu": "0.2", "unit": "person:3"}},
        {"algorithm": "tree_leader", "choices": {"epsilon": "0.5"}, "family": "Gains()"},
        {"algorithm": "online_sgd", "choices": {"epsilon": "0.5"}, "family": "Logistic()"},
    ],
    ids=["a person", "gains", "examples"],
)
def test_studies_that_protect_a_whole_record_add_up(place: Path, changes: dict[str, Any]) -> None:
    """A record is all that a client reports in a round, whatever a study calls it."""
    account = account_for(place)
    assert charge(account, study(**changes))
    assert charge(account, study())


@pytest.mark.parametrize(
    ("unit", "feature", "public"),
    [
        ("event", "sleeping experts", "sleeping experts"),
        ("person:2", "absent clients", "absences"),
        ("client", "absent clients", "absences"),
        ("window:2", "sleeping experts", "sleeping experts"),
    ],
)
def test_what_a_game_shows_is_not_protected(
    place: Path, unit: str, feature: str, public: str
) -> None:
    """The unit has the same name, but who comes, or which experts sleep, is in no broadcast's noise."""
    shows = study(features=[feature], choices={"epsilon": "0.1", "unit": unit})
    account = Account.make(place / "whole", name="Ward", unit=unit, epsilon="1")
    with pytest.raises(InvalidValue, match=f"{public} are public.*--unit '{unit},public={public}'"):
        charge(account, shows)
    charge(account, study(choices={"epsilon": "0.1", "unit": unit}))
    text = f"{unit},public=forecasts and {public}"
    charge(Account.make(place / "rest", name="Ward", unit=text, epsilon="1"), shows)


def test_joining_shows_the_unit_and_what_is_declared() -> None:
    lines = study(**SMALL).words()
    (neighbours,) = [line for line in lines if line.startswith("neighbours: ")]
    assert "by at most 1e-06 in the l2 norm" in neighbours
    (declared,) = [line for line in lines if "DECLARED_PART)" in line]
    assert declared.startswith("assumed, not checked: one person moves the losses of all experts")
    assert "1e-06" in declared
    assert any("for one person with one record that moves the losses" in line for line in lines)
    absent = study(features=["absent clients"]).words()
    assert any("participation stays the same" in line for line in absent)
    assert any("(PUBLIC_PRESENCE)" in line for line in absent)


def test_the_unit_is_in_the_log_and_cannot_be_edited(place: Path) -> None:
    account = account_for(place, "part:0.001")
    assert json.loads(account.export()[0])["content"]["unit"] == "part:0.001"
    account.check()
    raw = sqlite3.connect(place / "a" / FILE)
    raw.execute("UPDATE account SET budget = replace(budget, '0.001\"', '1e-09\"')")
    raw.commit()
    raw.close()
    with pytest.raises(InvalidValue, match="does not agree with its log"):
        Account(place / "a").check()


def test_an_account_without_a_unit_counts_in_records(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accounts of version 0.3.0 have none."""

    def without(table: Any) -> bytes:
        return canonical({k: v for k, v in table.items() if k != "unit"})

    with monkeypatch.context() as patch:
        patch.setattr("hedgerow.deployment.account.canonical", without)
        account = account_for(place)
    assert "unit" not in json.loads(account.export()[0])["content"]
    assert account.unit.words() == "one record of one client in one round"
    account.check()
    charge(account, study())
    with pytest.raises(InvalidValue, match="counts in another unit"):
        charge(account, study(**SMALL))


@pytest.mark.parametrize(
    ("choices", "unit", "price"),
    [
        ({"epsilon": "0.05"}, "person:4", "epsilon = 0.2, delta = 0"),
        ({"epsilon": "0.05"}, "person:24", "epsilon = 0.4, delta = 0"),  # the game has 8 rounds
        ({"epsilon": "0.05", "unit": "person:3"}, "person:7", "epsilon = 0.15, delta = 0"),
        ({"epsilon": "0.05"}, "window:3", "epsilon = 0.15, delta = 0"),
        ({"epsilon": "0.05"}, "client", "epsilon = 0.4, delta = 0"),  # the game has 8 rounds
    ],
)
def test_a_weaker_study_is_refused_with_its_price(
    place: Path, choices: dict[str, Any], unit: str, price: str
) -> None:
    """Converted, it is charged so much, once, and the log says so."""
    manifest = study(choices=choices)
    account = account_for(place, unit)
    with pytest.raises(InvalidValue, match=f"costs {price}.*Nothing was charged. Ask the operator"):
        account.quote(rebuild(manifest))
    quoted = account.quote(rebuild(manifest), convert=True)
    assert quoted.unit == account.unit
    words = account.charge(manifest, rebuild(manifest), b"one", convert=True)
    assert price in words
    assert account.unit.words() in words
    assert account.charge(manifest, rebuild(manifest), b"one", convert=True) == words
    assert account.spent_words().startswith(price.partition(",")[0])
    assert "times what the study protects" in words
    account.check()


@pytest.mark.parametrize("unit", ["event", "person:8", "person", "window:3", "client"])
def test_a_stronger_study_costs_what_it_says(place: Path, unit: str) -> None:
    account = account_for(place, unit)
    votes = {"algorithm": "vote_selection", "choices": {"epsilon": "0.5"}}
    words = account.charge(study(**votes), rebuild(study(**votes)), b"one")
    assert "converted" not in words
    assert account.spent_words() == "epsilon = 0.5 of 2, delta = 0 of 0.001"


def test_a_study_of_targets_does_not_hide_forecasts(place: Path) -> None:
    """An account in whole records took it: the public part of a record was overlooked."""
    targets = {
        "algorithm": "private_mixture",
        "choices": {"epsilon": "0.5"},
        "family": "Combination(of=AbsoluteError(feature_norm=4.0, target=2.0))",
    }
    manifest = study(**targets)
    for unit in ("event", "person:2", "event,public=features"):
        account = Account.make(place / unit, name="Ward", epsilon="2", delta="0.001", unit=unit)
        for convert in (False, True):
            with pytest.raises(InvalidValue, match=r"forecasts are public.*is not known"):
                account.quote(rebuild(manifest), convert=convert)
    fits = Account.make(place / "f", name="W", epsilon="2", unit="person:2,public=forecasts")
    assert fits.quote(rebuild(manifest), convert=True).curve.stated()[0] <= 1.0
