"""Nothing that a study protects leaves the client: a whole study with marked values, and a search of
every log, metric, page, error, message and database outside the client.
"""

from __future__ import annotations

import io
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.core.errors import HedgerowError
from hedgerow.core.messages import encode
from hedgerow.deployment import veil, wire
from hedgerow.deployment.application import Application, replied
from hedgerow.deployment.http_client import MESSAGES, HttpLink
from hedgerow.deployment.keys import load_or_make
from hedgerow.deployment.logs import log_error, start_logs
from support.served import play, served
from support.simulated import small_study

MARKED = np.array([[654321, 765432, 543217], [876543, 456781, 987651]]) / 2**20  # on the lattice


def form(value: float) -> re.Pattern[bytes]:
    """How a value could be written: decimals, a float, whole units. Inside a key, which is as long
    as a hundred numbers, any six digits occur at times.
    """
    units = round(value * 2**20)
    texts = {repr(value)[:8], f"{value:.6f}"[:8], value.hex()[2:-4]}
    whole = [*(text.encode() for text in texts), struct.pack("<d", value), struct.pack("<q", units)]
    number = b"(?<![0-9a-f])%d(?![0-9a-f])" % units
    return re.compile(b"|".join([number, *map(re.escape, whole)]))


def found_in(data: bytes, values: np.ndarray = MARKED) -> list[float]:
    """The marked values that occur in some bytes."""
    return [float(v) for v in values.flat if form(float(v)).search(data)]


class Recording:
    """A link that keeps all bytes that leave a client."""

    def __init__(self, link: HttpLink) -> None:
        self._link = link
        self.sent: list[bytes] = []

    def call(self, request: bytes) -> bytes | None:
        self.sent.append(request)
        return self._link.call(request)


def test_the_search_finds_what_is_there() -> None:
    for value in MARKED.flat:
        for hay in (f"loss {value}", f"{value:.7f}", f"units {round(value * 2**20)}"):
            assert found_in(hay.encode()) == [value]
        assert found_in(b"x" + np.array([0.0, value]).tobytes()) == [value]
        assert found_in(b"x" + np.array([3, value * 2**20], np.int64).tobytes()) == [value]
    assert found_in(b"nothing here" + bytes(300)) == []
    assert found_in(b"key 9c654321f0") == []


@pytest.mark.parametrize("trust", ["central", "local"])
def test_a_study_with_marked_values(trust: str, tmp_path: Path) -> None:
    log = io.StringIO()
    start_logs("debug", log)
    study: dict[str, Any] = (
        {"algorithm": "phased_selection", "choices": {"trust": "local", "report": "laplace"}}
        if trust == "local"
        else {"algorithm": "tree_leader"}
    )
    losses = np.stack([MARKED] * 4)  # a phase of one round has the values themselves as its sums
    said: list[bytes] = []
    with served(tmp_path, horizon=4, seed=None, **study) as one:
        links = [Recording(one.link()) for _ in range(2)]
        learners = [one.learner(i, link) for i, link in enumerate(links)]
        said += _provoked(learners[0])
        play(learners, losses)
        upload = next(data for data in links[0].sent if data[:1] == wire.Upload.kind)
        said.append(one.ask("POST", MESSAGES, upload[:-70] + bytes(70))[2])
        forged = wire.Upload(0, 99, bytes(32), 0, bytes(32), bytes(16), 0, upload[120:-64])
        key = learners[0].client.account.key
        said.append(one.ask("POST", MESSAGES, wire.pack(forged, one.study.study, key))[2])
        for path in ("/metrics", "/healthz", "/readyz", "/v1/messages", "/nothing"):
            said.append(one.ask("GET", path)[2])
        said.append(repr(one.study.public()).encode())
        said += [one.study.answer(k) or b"" for k in range(one.study.exchange + 1)]
        state = learners[0].client.folder / "study.db"
        inside = state.read_bytes() + state.with_name("study.db-wal").read_bytes()
        for learner in learners:
            learner.close()
    try:
        raise HedgerowError(f"a text with {MARKED[0, 0]}")
    except HedgerowError as error:
        log_error("an error", error)
    said.append(log.getvalue().encode())
    assert b'"event": "an error"' in said[-1]
    said += [file.read_bytes() for file in (tmp_path / "server").iterdir()]
    assert [found_in(part) for part in said if found_in(part)] == []
    sent = found_in(b"".join(data for link in links for data in link.sent))
    assert found_in(inside), "the client's own ledger holds its sums: the search has power"
    assert sent == []  # sealed to the server
    box = veil.load_or_make(tmp_path / "server" / "server.box")
    opened = [
        veil.Sessions(box, one.study.study).open(message.exchange, message.client, message.payload)
        for link in links
        for data in link.sent
        if data[:1] == wire.Upload.kind
        for message in [wire.unpack(data, one.study.study, wire.Upload)]
    ]
    # by design: with central trust the server gets exact sums
    assert bool(found_in(b"".join(opened))) == (trust == "central")


def _provoked(learner: Any) -> list[bytes]:
    """The replies to requests that are wrong in many ways, with marked values in them."""
    application = Application(learner)
    application({"do": "predict"})
    value = float(MARKED[0, 0])
    requests = [
        f'{{"do": "observe", "round": 0, "losses": [{value}, 0.5, {value + 7}]}}',
        f'{{"do": "observe", "round": 0, "losses": [{value}, 0.5]}}',
        f'{{"do": "observe", "round": 0, "losses": [{value}, "{value}", 1]}}',
        f'{{"do": "observe", "round": 0, "losses": {{"a": {value}}}}}',
        f'{{"do": "observe", "round": 7, "losses": [{value}, 0.5, 0.5]}}',
        f'{{"do": "observe", "round": {value}, "losses": [{value}, 0.5, 0.5]}}',
        f'{{"do": "observe", "round": 0, "losses": [{value}, 0.5, 0.5], "absent": true}}',
        f'{{"do": "observe", "losses": [{value}, 0.5, 0.5]',
        f'{{"do": "observe", "round": 0, "losses": [{value}, NaN, 0.5]}}',
        f"[{value}]",
        f'"{value}"',
    ]
    found = []
    for request in requests:
        status, reply = replied(application, request)
        assert status >= 400, request
        found.append(repr(reply).encode())
    return found


def test_the_encoded_upload_of_central_trust_is_found() -> None:
    from hedgerow.algorithms.shared.totals import LossSums

    units = np.round(MARKED[0] * 2**20).astype(np.int64)
    assert len(found_in(encode(LossSums(units)))) == 3


HOLDERS = {
    "nothing secret": "",
    "secure noise": "from hedgerow import SecureNoise; SecureNoise()",
    "a key that is made": "from hedgerow.deployment.keys import load_or_make; load_or_make(place)",
    "a key that is read": "from hedgerow.studies.storage.keys import read_private;"
    "read_private(place)",
    "a server": "from hedgerow.deployment.server import StudyServer;"
    "StudyServer(place.parent / 'study' / 'server')",
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_process_with_secrets_leaves_no_core_dump(holder: str, tmp_path: Path) -> None:
    """Neither do the processes that it starts; also without systemd."""
    small_study(tmp_path / "study", clients=1, experts=2, horizon=2).running_server().close()
    if "read" in holder:
        load_or_make(tmp_path / "key.pem")
    text = f"""
import ctypes, pathlib, resource, sys
place = pathlib.Path({str(tmp_path / "key.pem")!r})
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
{HOLDERS[holder]}
linux = sys.platform.startswith("linux")
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if linux else 0  # PR_GET_DUMPABLE
print(resource.getrlimit(resource.RLIMIT_CORE) == (0, 0), dumpable)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    expected = f"{hard == 0} 1" if holder == "nothing secret" else "True 0"
    assert done.stdout.strip() == expected
