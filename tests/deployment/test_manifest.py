"""Manifests: one form, rebuilt and compared to the last bit before anybody joins."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import nextafter
from pathlib import Path
from typing import Any

import pytest

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.deployment import manifest as manifests
from hedgerow.deployment import wire
from hedgerow.deployment.account import Account
from hedgerow.deployment.client import StudyClient, fetch_manifest
from hedgerow.deployment.keys import load_or_make, public_hex
from hedgerow.deployment.manifest import Manifest, ManifestRefused, canonical, rebuild
from hedgerow.deployment.server import BOX, KEY, StudyServer
from hedgerow.deployment.server_ledger import public_keys
from support.keys import NOBODY

ROSTER = {"a": "11" * 32, "b": "22" * 32}
SERVER = "00" * 32


def made(**changes: Any) -> Manifest:
    return Manifest.make(
        **{
            "title": "Wards",
            "algorithm": "sparse_vector",
            "choices": {"epsilon": "0.5", "every": 2},
            "experts": 4,
            "horizon": 20,
            "roster": ROSTER,
            **NOBODY,
            **changes,
        }
    )


def altered(manifest: Manifest, *path: str | int, value: Any) -> Manifest:
    """The manifest with one entry changed."""
    table = json.loads(manifest.to_bytes())
    place = table
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return Manifest.read(canonical(table))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("setting", {}),
        ("setting", {"experts": 4}),
        ("algorithm", 5),
        ("protocol", 2.0),
        ("protocol", True),
        ("version", None),
    ],
)
def test_entries_of_another_type_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ManifestRefused, match="not a manifest of this version"):
        altered(made(), name, value=value)


def last_bit(text: str) -> str:
    """The next float above one in hex."""
    return nextafter(float.fromhex(text), float("inf")).hex()


@pytest.mark.long
def test_every_algorithm_is_rebuilt_or_refused() -> None:
    """All registered algorithms: deployable, or refused by name."""
    outcomes = {True: 0, False: 0}
    for name in ALGORITHMS:
        try:
            manifest = made(algorithm=name, choices={})
        except (Unsupported, InvalidValue) as refusal:
            kind = ALGORITHMS[name].__name__
            outcomes[False] += name in str(refusal) or kind in str(refusal)
            continue
        outcomes[True] += 1
        assert rebuild(Manifest.read(manifest.to_bytes())).name == name
    assert outcomes[True] >= 15
    assert sum(outcomes.values()) == len(list(ALGORITHMS))


@pytest.mark.parametrize(
    ("algorithm", "choices", "reason"),
    [
        ("hedge", {}, "hedge protects nobody"),
        (
            "phased_selection",
            {"trust": "distributed", "delta": "1e-6"},
            "needs helpers and the number of colluding clients",
        ),
        ("limited_updates", {"delta": 0.0}, "limited_updates needs EuclideanNoise"),
    ],
)
def test_refused_by_name(algorithm: str, choices: dict[str, Any], reason: str) -> None:
    with pytest.raises(HedgerowError, match=reason):
        made(algorithm=algorithm, choices=choices)


def test_the_last_bit_of_a_scale_is_refused_by_name() -> None:
    manifest = made()
    rebuild(manifest)
    tried = 0
    for number, mechanism in enumerate(manifest.resolved["mechanisms"]):
        for name, value in mechanism.items():
            if isinstance(value, str) and value.startswith("0x"):
                wrong = altered(
                    manifest, "resolved", "mechanisms", number, name, value=last_bit(value)
                )
                with pytest.raises(ManifestRefused, match=rf"mechanisms\.{number}\.{name}"):
                    rebuild(wrong)
                tried += 1
    assert tried >= 3


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("choices", "epsilon"), nextafter(0.5, 1.0), "= "),
        (("choices", "every"), 3, "= "),
        (("setting", "experts"), 5, "setting"),
        (("roster",), {**ROSTER, "c": "33" * 32}, "setting"),
        (("resolved", "trust"), "local", "trust"),
        (("resolved", "fingerprint"), "00" * 32, "fingerprint"),
        (("resolved", "guarantees", 1, "assumes"), [], "guarantees.1.assumes"),
        (("resolved", "parameters", "switches"), "1", "parameters.switches"),
        (("resolved", "more"), 1, "more"),
        (("resolved", "more"), "nothing", "more"),
        (("resolved", "more"), "missing", "more"),
        (("features",), ["absent clients"], "= "),
        (("protocol",), 1, "protocol 1"),
        (("algorithm",), "potential", "= "),
        (("algorithm",), "no_such", "no_such"),
    ],
)
def test_any_other_entry_is_refused_by_name(path: Any, value: Any, named: str) -> None:
    with pytest.raises(ManifestRefused, match=re.escape(named)):
        rebuild(altered(made(), *path, value=value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("roster",), {"a": "11" * 32, "b": "11" * 32}),
        (("roster",), {"a": "1"}),
        (("roster",), {"../a": "11" * 32}),
        (("roster",), {}),
        (("title",), "two\nlines"),
        (("title",), " "),
        (("features",), ["telepathy"]),
        (("seed",), -1),
        (("seed",), True),
        (("closing",), "perhaps"),
        (("server",), "x"),
        (("sealing",), {}),
        (("sealing", "suite"), "HPKE base, X25519"),
        (("sealing", "server"), "00" * 32),
        (("choices",), [1]),
        (("setting", "extra"), 1),
        (("extra",), 1),
    ],
)
def test_what_is_not_a_manifest(path: Any, value: Any) -> None:
    with pytest.raises((ManifestRefused, HedgerowError)):
        altered(made(), *path, value=value)


def test_one_form_only() -> None:
    data = made().to_bytes()
    for other in (data + b" ", data.replace(b":", b": ", 1), b"[]", b"\xff", b"", b"{", b"null"):
        with pytest.raises(ManifestRefused):
            Manifest.read(other)
    with pytest.raises(ManifestRefused, match="longer"):
        Manifest.read(bytes(manifests.LONGEST + 1))


def test_budgets_are_decimals_rounded_down() -> None:
    for given in ("0.1", 0.1):
        choice = made(choices={"epsilon": given}).choices["epsilon"]
        assert choice == nextafter(0.1, 0.0)
    assert made(choices={"epsilon": "0.5"}).choices["epsilon"] == 0.5
    with pytest.raises(HedgerowError, match="decimal"):
        made(choices={"epsilon": "a lot"})


def test_a_seed_says_that_nothing_is_private() -> None:
    assert made().private
    assert "not private" in made(seed=3).words()[-1]
    assert made(seed=3).digest != made().digest


def test_features_change_the_certificate() -> None:
    plain, absent = made(), made(features=("absent clients",))
    assert plain.resolved["fingerprint"] != absent.resolved["fingerprint"]
    assert "PUBLIC_PRESENCE" in absent.resolved["guarantees"][1]["assumes"]
    asleep = made(features=("sleeping experts",))
    assert "PUBLIC_SLEEP" in asleep.resolved["guarantees"][1]["assumes"]
    with pytest.raises(Unsupported, match="absent clients"):
        made(algorithm="private_hedge", choices={}, features=("absent clients",))


# Joining


class Fixed:
    """A server that always sends the same manifest."""

    def __init__(self, signature: bytes, data: bytes) -> None:
        self.reply = wire.pack_manifest(signature, data)

    def call(self, request: bytes) -> bytes | None:
        assert request == wire.MANIFEST
        return self.reply


@pytest.fixture
def parties(place: Path) -> tuple[Any, Account, Manifest]:
    """The server's key, an account, and a manifest between them."""
    key = load_or_make(place / "server" / KEY)
    account = Account.make(place / "data", name="Ward 3", unit="event", epsilon="1")
    manifest = made(
        **public_keys(place / "server"), roster={"ward": account.public_key, "other": "22" * 32}
    )
    return key, account, manifest


def refused(place: Path, account: Account, key: Any, manifest: Manifest, pinned: str) -> str:
    link = Fixed(key.sign(manifest.signed_text), manifest.to_bytes())
    with pytest.raises(HedgerowError) as refusal:
        StudyClient.join(account, link, server_key=pinned)
    assert account.charges() == []
    return str(refusal.value)


def test_nothing_is_charged_for_a_wrong_manifest(place: Path, parties: Any) -> None:
    key, account, manifest = parties
    other = load_or_make(place / "other.pem")
    pinned = manifest.server
    assert "not from" in refused(place, account, key, manifest, public_hex(other))
    assert "not signed" in refused(place, account, other, manifest, pinned)
    scale = altered(
        manifest,
        *("resolved", "mechanisms", 0, "scale"),
        value=last_bit(manifest.resolved["mechanisms"][0]["scale"]),
    )
    assert "mechanisms.0.scale" in refused(place, account, key, scale, pinned)
    protocol = altered(manifest, "protocol", value=9)
    assert "protocol 9" in refused(place, account, key, protocol, pinned)
    stranger = made(server=pinned)
    assert "is not listed in the study" in refused(place, account, key, stranger, pinned)
    big = made(server=pinned, roster=manifest.roster, choices={"epsilon": "1.1"})
    assert "epsilon" in refused(place, account, key, big, pinned)
    seeded = made(server=pinned, roster=manifest.roster, seed=1)
    assert "the noise comes from a seed" in refused(place, account, key, seeded, pinned)
    assert not list(account.folder.glob("studies/*/charged"))


def test_a_flipped_byte_of_a_signed_manifest(place: Path, parties: Any) -> None:
    key, _, manifest = parties
    data, signature = manifest.to_bytes(), key.sign(manifest.signed_text)
    fetch_manifest(Fixed(signature, data), manifest.server)
    for at in range(0, len(data), 211):
        wrong = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(HedgerowError):
            fetch_manifest(Fixed(signature, wrong), manifest.server)


def test_somebody_may_say_no(place: Path, parties: Any) -> None:
    key, account, manifest = parties
    link = Fixed(key.sign(manifest.signed_text), manifest.to_bytes())
    shown: list[Any] = []

    def no(*what: Any) -> bool:
        shown.extend(what)
        return False

    with pytest.raises(InvalidValue, match="Nothing was charged"):
        StudyClient.join(account, link, server_key=manifest.server, agree=no)
    assert account.charges() == []
    assert shown[0] == manifest
    assert shown[2].curve.stated() == (0.5, 0.0)


def test_a_server_has_one_study_and_its_key(place: Path, parties: Any) -> None:
    _, account, manifest = parties
    StudyServer.create(place / "server", manifest).close()
    with pytest.raises(InvalidValue, match="already holds a study"):
        StudyServer.create(place / "server", manifest)
    with pytest.raises(InvalidValue, match="not the server's that the study names"):
        StudyServer.create(place / "elsewhere", manifest)
    assert account.public_key in manifest.roster.values()
    box = place / "server" / BOX
    right = box.read_bytes()
    box.unlink()
    with pytest.raises(InvalidValue, match=r"server.box is not the server's"):
        StudyServer(place / "server")
    box.write_bytes(right[:-1])
    with pytest.raises(InvalidValue, match="not a key for opening: it has 95 bytes"):
        StudyServer(place / "server")
    box.write_bytes(right)
    (place / "server" / KEY).unlink()
    load_or_make(place / "server" / KEY)
    with pytest.raises(InvalidValue, match=r"server.pem is not the server's"):
        StudyServer(place / "server")


def test_other_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same choices, but a server that draws another scale."""
    manifest = made()
    real = manifests.private_algorithm

    def weaker(*arguments: Any) -> Any:
        built: Any = real(*arguments)
        first, *rest = built.certificate.mechanisms
        half = replace(first, scale=first.scale / 2)
        return replace(built, certificate=replace(built.certificate, mechanisms=(half, *rest)))

    monkeypatch.setattr(manifests, "private_algorithm", weaker)
    with pytest.raises(ManifestRefused, match=r"mechanisms\.0\.scale"):
        rebuild(manifest)


def test_a_manifest_that_no_client_could_read_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "LONGEST", 1000)
    with pytest.raises(InvalidValue, match=r"of 1 clients has \d+ bytes; at most 1000 are allowed"):
        Manifest.make(
            title="Wards",
            algorithm="sparse_vector",
            experts=3,
            horizon=10,
            roster={"a": "11" * 32},
            **NOBODY,
        )
