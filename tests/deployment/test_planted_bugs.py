"""Bugs in secure sums, each planted in a copy of the package: a test of an attack must fail.

The first ones are always tried; all of them in the long form.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hedgerow

VEIL, WIRE, HELPER, SUMS, SERVER = "veil.py", "wire.py", "helper.py", "sums.py", "server.py"
MASKS, MANIFEST, CLIENT = "masks.py", "manifest.py", "client.py"
BUGS: list[tuple[str, str, str, str]] = [
    ("seal not bound to its client", VEIL, '"<qII", exchange, client', '"<qII", exchange, 0 * client'),
    ("one seed for all helpers", MASKS, "seed = veil.fresh_seed()", 'seed = b"s" * 32'),
    ("the set is not committed", HELPER, 'row = (message.exchange, found)', "row = (-1, found)"),
    ("the sum leaves without a commit", HELPER, "        if known is None:\n            with self._database", "        if False:\n            with self._database"),
    ("the last exchange is forgotten", HELPER, "            self.exchange = message.exchange\n", "            pass\n"),
    ("a second set is opened", HELPER, "known is not None and bytes(known[0]) != found", "False"),
    ("small sets are opened", HELPER, "message.count < self.manifest.least", "message.count < 1"),
    ("a client may be twice in a set", HELPER, "one.client <= found[-1].client", "False"),
    ("no signature of clients", WIRE, "if not signed_by(keys[client], signature, text):", "if False:"),
    ("seal not compared with its hash", WIRE, "if hash_of(seal) != hashes", "if False and hash_of(seal) != hashes"),
    ("anybody announces a set", HELPER, "if not wire.signed(task, self.study, self.manifest.server):", "if False:"),
    ("the server keeps uploads", SERVER, 'certificate.trust == "local":\n            self._keep', 'certificate.trust != "central":\n            self._keep'),
    ("seeds repeat", VEIL, "return secrets.token_bytes(FRESH)", "return bytes(range(FRESH))"),
    ("seal not bound to its exchange", VEIL, '"<qII", exchange, client', '"<qII", 0 * exchange, client'),
    ("seal not bound to its study", VEIL, 'b"hedgerow seed 1\\n" + study', 'b"hedgerow seed 1\\n" + bytes(32)'),
    ("seal not bound to its helper", VEIL, "exchange, client, helper)", "exchange, client, 0 * helper)"),
    ("another generator", VEIL, "modes.CTR(bytes(16))", "modes.CTR(seed[:16])"),
    ("half of the key", VEIL, "algorithms.AES(seed)", "algorithms.AES(seed[:16])"),
    ("body is not sealed", MASKS, "server.seal(exchange, hidden.tobytes())", "bytes(veil.SALTED) + hidden.tobytes() + bytes(16)"),
    ("body not bound to its exchange", VEIL, 'b"hedgerow body 1\\n" + study + struct.pack("<qI", exchange, client)', 'b"hedgerow body 1\\n" + study + struct.pack("<qI", 0, client)'),
    ("secret not bound to its client", VEIL, 'b"hedgerow open 1\\n" + study + struct.pack("<I", client)', 'b"hedgerow open 1\\n" + study + struct.pack("<I", 0)'),
    ("secret not bound to its helper", VEIL, 'struct.pack("<I", helper)', 'struct.pack("<I", 0)'),
    ("secret not bound to its study", VEIL, 'b"hedgerow open 1\\n" + study', 'b"hedgerow open 1\\n" + bytes(32)'),
    ("salt does not depend on the text", VEIL, "fresh_seed() + info + text", "fresh_seed() + info"),
    ("salt is not in the key", VEIL, 'b"key\\n" + salt + info', 'b"key\\n" + info'),
    ("secret of another session", VEIL, "if name != found:", "if not secret:"),
    ("no mask is added", MASKS, "hidden += veil.mask(seed, len(words))", "pass"),
    ("signature does not cover the seals", WIRE, 'signed = b"".join(map(hash_of, parts(signed, _seals(body))))', "signed = parts(signed, _seals(body))[-1]"),
    ("signature does not cover the study", WIRE, 'return b"hedgerow 2\\n" + study + fixed', 'return b"hedgerow 2\\n" + fixed[9:]'),
    ("signature does not cover the kind", WIRE, 'return b"hedgerow 2\\n" + study + fixed', 'return b"hedgerow 2\\n" + study + fixed[1:]'),
    ("a ledger of another study", HELPER, 'if kept.get("manifest", manifest.to_bytes()) != manifest.to_bytes():', "if False:"),
    ("tickets of other exchanges", HELPER, "if one.exchange != message.exchange:", "if False:"),
    ("different answers", HELPER, "if found and one.seen != found[0].seen:", "if False:"),
    ("tasks of other helpers", HELPER, "message.helper != self.index or", ""),
    ("exchanges go back", HELPER, "known is None and message.exchange <= self.exchange", "False"),
    ("nonsense seals stop a helper", MASKS, "except veil.NotOpened:\n        return None", "except ZeroDivisionError:\n        return None"),
    ("nonsense seals are not named", HELPER, "damaged.append(one.client)", "pass"),
    ("part for another set is counted", SUMS, "if part.task != wire.hash_of(task):", "if False:"),
    ("anybody may send a part", SUMS, "if not known or not wire.signed(data, study, self._signing[message.helper]):", "if False:"),
    ("sum is opened without all parts", SERVER, "helped = self._sums is None or not self._sums.missing", "helped = True"),
    ("seals are not counted", SUMS, "message.seals != len(self._signing) or", ""),
    ("width is not checked", SUMS, "or len(found) != self._masked.width:\n            refuse(Code.VALUE, \"The upload", "and False:\n            refuse(Code.VALUE, \"The upload"),
    ("two parties may have one key", MANIFEST, "        if times > 1:", "        if times > 99:"),
    ("nobody may collude", MANIFEST, "not 1 <= colluding < least", "not 0 <= colluding <= least"),
    ("honest is free", MANIFEST, 'if "honest" in manifest.choices:', "if False:"),
    ("sums without some clients, and all wait", MANIFEST, 'if manifest.closing == "wait" and least < clients:', "if False:"),
    ("a smaller set is enough", HELPER, "message.count < self.manifest.least", "message.count < self.manifest.least - 1"),
    ("clients left out count as honest", MANIFEST, "manifest.least - manifest.colluding", "len(manifest.roster) - manifest.colluding"),
    ("exchanges close below least", SERVER, "self._needed, True, least)", "self._needed, True)"),
    ("a late upload enters a set", SERVER, "and self._is_open(entered) and not self._is_set", "and self._is_open(entered)"),
    ("the set is not in the ledger", SERVER, 'self.chain.add("set", self._set_body)', "pass"),
    ("variance of clients left out", MASKS, "np.asarray(value * clients)", "np.asarray(value * algorithm.setting.clients)"),
    ("distributed without helpers", MANIFEST, '(certificate.trust == "distributed") is not helped', 'helped and certificate.trust != "distributed"'),
    ("sealing keys are not tried", MANIFEST, "for name, keys in manifest.helpers.items():\n            veil.check_public", "for name, keys in ():\n            veil.check_public"),
    ("a client needs no helper that it knows", CLIENT, "if manifest.helpers and not known:", "if False:"),
    ("other keys of a helper", CLIENT, 'if manifest.helpers.get(keys.name) != {"sign": keys.sign, "seal": keys.seal}:', "if False:"),
    ("a helper needs no roster", HELPER, "if dict(roster) != dict(manifest.roster):", "if False:"),
    ("the key of a helper stays", HELPER, "missing_ok=True)", "missing_ok=True) if False else None"),
    ("ghost clients", WIRE, "if client >= len(keys) or seals != helpers:", "client %= len(keys)\n        if seals != helpers:"),
]  # fmt: skip
FEW = 6


@pytest.mark.parametrize(("name", "file", "old", "new"), BUGS)
def test_a_bug_can_be_planted(name: str, file: str, old: str, new: str) -> None:
    text = Path(hedgerow.__file__).with_name("deployment").joinpath(file).read_text("utf-8")
    assert old in text, f"{file} has changed; plant this bug again: {name}"
    assert old != new


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        pytest.param(*bug, marks=() if at < FEW else pytest.mark.long, id=bug[0])
        for at, bug in enumerate(BUGS)
    ],
)
def test_a_planted_bug_is_caught(name: str, file: str, old: str, new: str, tmp_path: Path) -> None:
    found = attacked(file, old, new, tmp_path)
    assert found.returncode == 1, f"{name} was not caught: {found.stdout[-2000:]}"
    assert "FAILED" in found.stdout


@pytest.mark.long
def test_without_a_bug_no_attack_test_fails(tmp_path: Path) -> None:
    """The control: the copy alone makes nothing fail."""
    assert attacked(VEIL, "import secrets", "import secrets", tmp_path).returncode == 0


def attacked(file: str, old: str, new: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """What the tests of attacks say about a copy of the package with this change."""
    copy = shutil.copytree(Path(hedgerow.__file__).parent, tmp_path / "hedgerow")
    place = copy / "deployment" / file
    text = place.read_text(encoding="utf-8")
    place.write_text(text.replace(old, new, 1), encoding="utf-8")
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-c", "/dev/null", f"--rootdir={here}", "--import-mode=importlib", "-W", "ignore"]
    command += ["-m", "not long", str(here / "test_veil.py"), str(here / "test_secure_sums.py")]
    places = [str(tmp_path), str(here.parent), *sys.path]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            "PYTHONPATH": ":".join(p for p in places if p),
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
        },
        check=False,
    )
