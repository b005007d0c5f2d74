"""Seals open for one key and one purpose, and the library computes what the standards say."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import veil
from hedgerow.deployment.manifest import ManifestRefused, rebuild
from hedgerow.deployment.veil import NotOpened, Opener, seal
from support.simulated import small_study


@pytest.fixture
def box(tmp_path: Path) -> Opener:
    return veil.load_or_make(tmp_path / "server.box")


def test_a_seal_opens_for_one_key_and_one_purpose(tmp_path: Path, box: Opener) -> None:
    other, info = veil.load_or_make(tmp_path / "other.box"), veil.share_info(bytes(32), 3, 1)
    sealed = seal(box.public, b"text", info)
    assert box.open(sealed, info) == b"text"
    assert seal(box.public, b"text", info) != sealed
    for key, data, purpose in (
        (other, sealed, info),
        (box, sealed, veil.share_info(bytes(32), 3, 0)),
        (box, sealed, veil.share_info(bytes(32), 4, 1)),
        (box, sealed, veil.share_info(bytes([1] * 32), 3, 1)),
        (box, sealed[:-1], info),
        (box, sealed + b"x", info),
        (box, b"", info),
    ):
        with pytest.raises(NotOpened):
            key.open(data, purpose)
    for at in range(len(sealed)):
        wrong = bytearray(sealed)
        wrong[at] ^= 1 << at % 8
        with pytest.raises(NotOpened):
            box.open(bytes(wrong), info)


STUDY = bytes([7] * 32)


def test_the_seal_of_a_session_opens_for_one_purpose(tmp_path: Path, box: Opener) -> None:
    """In any order, also after seals of another session, and by a server that has just started."""
    one, two = (veil.Session(box.public, STUDY, 3) for _ in range(2))
    opening = veil.Sessions(box, STUDY)
    for exchange, session in ((4, one), (5, one), (4, two), (9, one), (2, two)):
        sealed = session.seal(exchange, b"text")
        assert session.seal(exchange, b"text") != sealed
        assert opening.open(exchange, 3, sealed) == b"text"
        assert veil.Sessions(box, STUDY).open(exchange, 3, sealed) == b"text"
    sealed = one.seal(4, b"text")
    other = veil.load_or_make(tmp_path / "other.box")
    for sessions, exchange, client, data in (
        (veil.Sessions(other, STUDY), 4, 3, sealed),
        (veil.Sessions(box, bytes(32)), 4, 3, sealed),
        (opening, 5, 3, sealed),
        (opening, 4, 2, sealed),
        (veil.Sessions(box, STUDY, 0), 4, 3, sealed),
        (opening, 4, 3, sealed[:-1]),
        (opening, 4, 3, sealed + b"x"),
        (opening, 4, 3, two.seal(4, b"text")[: veil.OPENING] + sealed[veil.OPENING :]),
        (opening, 4, 3, b""),
    ):
        with pytest.raises(NotOpened):
            sessions.open(exchange, client, data)
    for at in range(len(sealed)):
        wrong = bytearray(sealed)
        wrong[at] ^= 1 << at % 8
        with pytest.raises(NotOpened):
            opening.open(4, 3, bytes(wrong))
    assert opening.open(4, 3, sealed) == b"text"


def test_two_texts_have_two_keys_even_if_the_randomness_repeats(
    box: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was copied may draw the same bytes: neither key nor stream is used twice."""
    monkeypatch.setattr(veil, "fresh_seed", lambda: bytes(32))
    session = veil.Session(box.public, STUDY, 3)
    sealed = [session.seal(exchange, text) for exchange in (1, 2) for text in (b"0000", b"0001")]
    salts = {one[veil.OPENING : veil.SALTED] for one in sealed}
    streams = {
        bytes(a ^ b for a, b in zip(one[veil.SALTED :], text, strict=False))
        for one, text in zip(sealed, (b"0000", b"0001") * 2, strict=True)
    }
    assert len(salts) == len(streams) == 4


@pytest.mark.parametrize(("helper", "kind"), [(None, b"body"), (0, b"seed"), (5, b"seed")])
def test_the_key_of_a_text_is_what_the_proof_says(
    box: Opener, helper: int | None, kind: bytes
) -> None:
    """Opened here from the secret alone, with other code than the package's."""
    sealed = veil.Session(box.public, STUDY, 3, helper).seal(9, b"text")
    start, salt, rest = sealed[:1168], sealed[1168:1200], sealed[1200:]
    to = (3).to_bytes(4, "little") + (b"" if helper is None else helper.to_bytes(4, "little"))
    secret = box.open(start, b"hedgerow open 1\n" + STUDY + to)
    info = b"hedgerow " + kind + b" 1\n" + STUDY + (9).to_bytes(8, "little") + to
    key = hmac.digest(secret, b"key\n" + salt + info, "sha256")
    assert AESGCM(key).decrypt(bytes(12), rest, None) == b"text"


def test_each_hello_begins_another_session(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", clients=1, experts=2, horizon=3)
    learner = study.learner(0)
    learner.predict()
    client = learner.client

    def opening() -> bytes:
        upload, _ = client.algorithm.client.upload(client._game.state, client._mine)
        return client._sealed(upload, 1)[0][: veil.OPENING]

    first = opening()
    assert opening() == first
    client._hello()
    assert opening() != first
    study.close()


def test_the_file_is_for_its_owner_and_stays(tmp_path: Path, box: Opener) -> None:
    file = tmp_path / "server.box"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert veil.load_or_make(file).public == box.public
    assert box.public not in repr(file.read_bytes().hex())


@pytest.mark.parametrize("point", [bytes(32), (1).to_bytes(32, "little")])
def test_a_key_of_low_order_is_refused(tmp_path: Path, box: Opener, point: bytes) -> None:
    """It can be read, and fails only when something is sealed to it."""
    bad = box.public[: 2 * veil.LATTICE] + point.hex()
    with pytest.raises(InvalidValue, match="Nothing can be sealed to the key of x"):
        veil.check_public("x", bad)
    study = small_study(tmp_path / "study", clients=1, experts=2, horizon=3)
    object.__setattr__(study.manifest, "sealing", {"suite": veil.SUITE, "server": bad})
    with pytest.raises(ManifestRefused, match="Nothing can be sealed to the key of the server"):
        rebuild(study.manifest)


# Code of our own, from the texts: X-Wing (the KEM), RFC 9180 (the key schedule).


def _extract(salt: bytes, text: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), text, "sha256")


def _expand(key: bytes, info: bytes, size: int) -> bytes:
    found, last, count = b"", b"", 1
    while len(found) < size:
        last = hmac.digest(key, last + info + bytes([count]), "sha256")
        found, count = found + last, count + 1
    return found[:size]


def opened(
    sealed: bytes,
    lattice: MLKEM768PrivateKey,
    curve: X25519PrivateKey,
    info: bytes,
    label: bytes = b"\\.//^\\",
    kem: int = 0x647A,
) -> bytes:
    """What was sealed, computed from the two private keys without the library's HPKE."""
    first, point, rest = sealed[:1088], sealed[1088:1120], sealed[1120:]
    one = lattice.decapsulate(first)
    two = curve.exchange(X25519PublicKey.from_public_bytes(point))
    own = curve.public_key().public_bytes_raw()
    shared = hashlib.sha3_256(one + two + point + own + label).digest()
    suite = b"HPKE" + kem.to_bytes(2, "big") + b"\0\1" + b"\0\2"

    def extract(salt: bytes, name: bytes, text: bytes) -> bytes:
        return _extract(salt, b"HPKE-v1" + suite + name + text)

    context = b"\0" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    secret = extract(shared, b"secret", b"")

    def expand(name: bytes, size: int) -> bytes:
        text = size.to_bytes(2, "big") + b"HPKE-v1" + suite + name + context
        return _expand(secret, text, size)

    return AESGCM(expand(b"key", 32)).decrypt(expand(b"base_nonce", 12), rest, b"")


def test_other_code_opens_what_the_library_seals(tmp_path: Path, box: Opener) -> None:
    data = (tmp_path / "server.box").read_bytes()
    lattice = MLKEM768PrivateKey.from_seed_bytes(data[: veil.SEED])
    curve = X25519PrivateKey.from_private_bytes(data[veil.SEED :])
    for number in range(20):
        text, info = os.urandom(32), veil.share_info(os.urandom(32), number, number)
        sealed = seal(box.public, text, info)
        assert opened(sealed, lattice, curve, info) == text
        for label, kem in ((b"X-Wing", 0x647A), (b"\\.//^\\", 0x0020)):
            with pytest.raises(InvalidTag):
                opened(sealed, lattice, curve, info, label, kem)
