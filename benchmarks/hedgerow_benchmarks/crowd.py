"""What one server of thousands of clients costs: its processor time, its memory, and what it sends.

One process is `hedgerow serve`, with TLS. Another one plays all
clients over real connections of this machine alone: each has its own key, signs and seals every
upload, and checks that the answer counts it. It keeps no ledgers, which would cost more than what
is measured. The system's work is included in processor times, and bytes are those of TCP.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.messages import decode, encode
from hedgerow.core.protocol import Context
from hedgerow.deployment import chain, veil, wire
from hedgerow.deployment.http_client import MEDIA, MESSAGES
from hedgerow.deployment.http_server import allow_connections
from hedgerow.deployment.keys import public_hex
from hedgerow.deployment.manifest import Manifest, rebuild
from hedgerow.deployment.noise import PartyNoise
from hedgerow.deployment.receipts import root_of
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.deploy import EXPERTS
from hedgerow_benchmarks.measure import peak_mebibytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MICROSECONDS, MEGABYTES, SENT = 200.0, 400.0, 12.0
CLIENTS, EXCHANGES = 5000, 4
ALGORITHM = "sparse_vector"
WARM_UP = 1  # exchanges before the measurement: hellos and the first answers
TOGETHER = 32  # connections that are opened at the same time
LONGEST = 300.0  # seconds; a study that takes longer fails
RECEIVED = 128  # where TCP_INFO of Linux says how many bytes have come


@dataclass(frozen=True)
class Cost:
    """What a server of many clients costs."""

    seconds: float  # processor time of each upload
    megabytes: float  # peak memory of the process
    sent: float  # bytes to all clients for each exchange


def crowd_rows(clients: int = CLIENTS) -> Iterator[Row]:
    """Processor time, memory and bytes of a server of this many clients, against fixed limits."""
    cost, share = measured(clients, EXCHANGES), clients / CLIENTS
    for what, value, limit, unit in (
        ("server", 1e6 * cost.seconds, MICROSECONDS, "us for each upload"),
        ("memory", cost.megabytes, MEGABYTES, "MB"),
        ("sent", cost.sent / 1e6, share * SENT, "MB for each exchange"),
    ):
        name = f"crowd/m={clients}/d={EXPERTS}/{what}"
        yield Row(name, value / limit, f"{limit:g} {unit}", value, unit, "<=", 1.0)


def measured(clients: int, exchanges: int) -> Cost:
    """Play a study of many clients, with one exchange in every round."""
    keys = [_key() for _ in range(clients)]
    with TemporaryDirectory() as folder, _serving(Path(folder), keys, exchanges) as server:
        shown = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        port = int(shown["url"].rpartition(":")[2])
        allow_connections(2 * clients)
        play = _play(keys, Path(folder) / "tls.pem", port, exchanges, server.pid)
        used, received = asyncio.run(asyncio.wait_for(play, LONGEST))
        peak = peak_mebibytes(server.pid) * 2**20 / 1e6
    return Cost(used / (clients * exchanges), peak, received / exchanges)


@contextmanager
def _serving(folder: Path, keys: list[Ed25519PrivateKey], exchanges: int) -> Iterator[Any]:
    """`hedgerow serve` with TLS, for clients with these keys."""
    certify(folder)  # and `slow`, because all connect before they call
    roster = "\n".join(f'client-{i:05d} = "{public_hex(key)}"' for i, key in enumerate(keys))
    (folder / "study.toml").write_text(
        f'title = "Many clients"\n[algorithm]\nname = "{ALGORITHM}"\nevery = 1\n'
        f"[setting]\nexperts = {EXPERTS}\nhorizon = {WARM_UP + exchanges + 2}\n"
        f"[clients]\n{roster}\n[server]\nport = 0\nslow = {LONGEST}\n"
        f"folder = '{folder / 'server'}'\n"
        f"certificate = '{folder / 'tls.pem'}'\ncertificate_key = '{folder / 'tls.key'}'\n"
    )
    command = [str(Path(sys.executable).with_name("hedgerow")), "serve", "--json"]
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        [*command, str(folder / "study.toml")], stdout=pipe, stderr=quiet, text=True
    ) as server:
        try:
            yield server
        finally:
            server.kill()


def processor_seconds(process: int) -> float:
    """The processor time of a process, all threads and the system's work for them included."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _key() -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate()


def certify(folder: Path) -> None:
    """Make a certificate for this machine, `tls.pem`, and its key, `tls.key`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=60))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.pem").write_bytes(made.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "tls.key").write_bytes(private)


@dataclass
class _Client:
    """One client: its key, its connection, and how far its log is said to be."""

    client: int
    key: Ed25519PrivateKey
    seen: bytes = wire.NOTHING
    count: int = 0
    boot: bytes = wire.UNKNOWN
    manifest: Manifest = field(init=False)
    payload: bytes = field(init=False)
    session: veil.Session = field(init=False)
    reader: asyncio.StreamReader = field(init=False)
    writer: asyncio.StreamWriter = field(init=False)

    async def call(self, message: wire.Message | None, data: bytes = b"") -> bytes:
        """Send a message until there is a reply."""
        if message is not None:
            data = wire.pack(message, self.manifest.digest, self.key)
        head = f"POST {MESSAGES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {MEDIA}\r\n"
        request = f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data
        while True:
            self.writer.write(request)
            answer = await self.reader.readuntil(b"\r\n\r\n")
            lines = dict(one.split(b": ") for one in answer.lower().split(b"\r\n")[1:-2])
            reply = await self.reader.readexactly(int(lines.get(b"content-length", b"0")))
            if answer[9:12] == b"200":
                return reply
            if answer[9:12] != b"204":
                raise wire.read_refusal(reply)

    async def greet(self) -> bytes:
        """Join, say hello, and return the opening broadcast."""
        study, start = self.manifest.digest, chain.START
        await self.call(wire.Join(self.client))
        for _ in range(2):  # the server refuses the first hello, and says what it drew
            hello = wire.Hello(
                self.client, wire.NONE, wire.UNSEALED, 0, start, secrets.token_bytes(16), self.boot
            )
            try:
                wire.unpack(await self.call(hello), study, wire.Welcome)
                break
            except wire.Refused as refusal:
                self.boot = refusal.boot
        ((data, _),) = wire.Answered.read(await self.call(wire.Ask(self.client, 0))).answers
        self.seen = wire.hash_of(data)
        return wire.unpack(data, study, wire.Answer).broadcast

    async def exchange(self, number: int) -> bytes:
        """Upload, and return the broadcast of the answer that counts the upload."""
        study, client = self.manifest.digest, self.client
        sealed = self.session.seal(number, self.payload)
        salt, self.count = secrets.token_bytes(16), self.count + 2
        upload = wire.Upload(
            client, number, self.seen, self.count, secrets.token_bytes(32), salt, 0, sealed
        )
        sent = wire.pack(upload, study, self.key)
        ((data, path),) = wire.Answered.read(await self.call(None, sent)).answers
        answer = wire.unpack(data, study, wire.Answer)
        if root_of(path, client, answer.clients, wire.hash_of(sent)) != answer.root:
            raise ArithmeticError("An answer does not count the upload that was sent.")
        self.seen = wire.hash_of(data)
        return answer.broadcast

    @property
    def received(self) -> int:
        """The bytes that have come over this connection."""
        connected: socket.socket = self.writer.get_extra_info("socket")
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        return int(struct.unpack_from("<Q", info, RECEIVED)[0])


def _payload(manifest: Manifest, opening: bytes) -> bytes:
    """What a client with losses of zero uploads after the opening broadcast."""
    algorithm = rebuild(manifest)
    noise, role = PartyNoise(0, b"").client(0, len(manifest.roster)), algorithm.client
    state = role.receive(role.start(noise), decode(algorithm.broadcasts.kind, opening))
    _, state = role.play(state, Context(0, None), noise)
    return encode(role.upload(role.observe(state, np.zeros(EXPERTS), noise), noise)[0])


async def _play(
    keys: list[Ed25519PrivateKey], certificate: Path, port: int, exchanges: int, server: int
) -> tuple[float, int]:
    """Play all clients; the server's processor time in the exchanges, and the bytes it sent."""
    context = ssl.create_default_context(cafile=str(certificate))
    door, clients = asyncio.Semaphore(TOGETHER), [_Client(i, key) for i, key in enumerate(keys)]

    async def enter(player: _Client) -> None:
        async with door:
            player.reader, player.writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="localhost"
            )

    await asyncio.gather(*map(enter, clients))
    manifest = Manifest.read(wire.read_manifest(await clients[0].call(None, wire.MANIFEST))[1])
    for player in clients:
        player.manifest = manifest
        public, study = manifest.sealing["server"], manifest.digest
        player.session = veil.Session(public, study, player.client)
    opening = (await asyncio.gather(*(player.greet() for player in clients)))[0]
    payload = _payload(manifest, opening)
    for player in clients:
        player.payload = payload
    before, received = 0.0, 0
    for number in range(1, WARM_UP + exchanges + 1):
        if number == WARM_UP + 1:
            before = processor_seconds(server)
            received = sum(player.received for player in clients)
        found = await asyncio.gather(*(player.exchange(number) for player in clients))
        if len(set(found)) != 1:
            raise ArithmeticError("Clients have different answers.")
    used = processor_seconds(server) - before
    received = sum(player.received for player in clients) - received
    for player in clients:
        player.writer.transport.abort()
    return used, received


def quick_crowd() -> Iterator[Row]:
    """A thousand clients."""
    return crowd_rows(1000)


CROWD = Benchmark(crowd_rows, quick_crowd)
