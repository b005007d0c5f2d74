"""Messages between clients and server as bytes: pack, unpack, sign, check.

A message is one byte that says its kind, eight bytes that name the study, fixed fields, a payload
where there is one, and an Ed25519 signature over all of it and the whole digest of the study. A
payload is signed by its hash, so that a few bytes (`seal_of`) prove what was signed. That of an
upload is signed by the hashes of its parts, so that each helper can check its own part. All other
bytes are refused with a `Refusal`: a code and a short public text, never a value.

| request | reply |
|---|---|
| `ManifestRequest` | `ManifestReply` |
| `Join`: the client signs the study | `Welcome` |
| `Hello`: how far the client is | `Welcome`: how far the server is, and what it has of the client |
| `Ask`: for an answer that exists or will | `Answered`: it, and those after it |
| `Upload` | `Answered`, once the exchange is complete |
| `Done`: the client has played its last round | `Farewell` |
| `Fetch`: a helper is ready for its next exchange | `Task`, or `Over` after the last exchange |
| `Part`: the sum of a helper's masks | as to `Fetch` |
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, TypeVar

from hedgerow.core.errors import HedgerowError
from hedgerow.core.text import one_line
from hedgerow.deployment.keys import SIGNATURE, sign, signed_by
from hedgerow.deployment.receipts import SIZE as ROOT
from hedgerow.deployment.veil import SEALED_SEED

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

TAG = 8
"""The first bytes of the digest of the study, in every message."""
LONGEST = 2**24
"""The most bytes of any message."""
AT_ONCE = 2**20
"""The bytes of answers after which a reply to a client that is behind ends."""
MOST = 2**62
"""All numbers in messages are below it."""
NOTHING = bytes(32)
SEAL = 32 + SIGNATURE
"""The bytes of `seal_of`."""
UNSEALED = bytes(SEAL)
"""In the hello of a client that has seen no answer."""
BOOT = 16
"""The bytes that a server draws when it starts; a hello repeats them."""
UNKNOWN = bytes(BOOT)
"""In the hello of a client that does not know them yet."""
NONE = -1
"""The exchange of a party that has seen or sent nothing yet."""


class Code(IntEnum):
    """Why a request is refused."""

    FORM = 1
    """The bytes are not a message of this protocol."""
    STUDY = 2
    """The message is about another study."""
    SIGNATURE = 3
    """The message is not signed by the client that it names."""
    NOT_JOINED = 4
    """The client has not signed the study. Send `Join`."""
    HELLO = 5
    """The server has started again and wants to compare ledgers first. Send `Hello`, with the
    bytes that this refusal holds."""
    OLD_CLIENT = 6
    """The client's ledger is older than what the server has of it: a restored copy."""
    OLD_SERVER = 7
    """The server's ledger is older than what the client has seen: a restored copy."""
    FORK = 8
    """The client has signed two different messages for one release."""
    EXCHANGE = 9
    """The message is for an exchange that is not open."""
    VALUE = 10
    """The payload is not one that the algorithm can send."""
    SIZE = 11
    """The message is too long."""
    BUSY = 12
    """Too many requests; try again later."""
    STOPPED = 13
    """The server has stopped."""
    OUT = 14
    """The client was taken out of the study."""


TRY_AGAIN = frozenset({Code.BUSY, Code.STOPPED})
"""Refusals after which the same request may succeed later."""


class Refused(HedgerowError):
    """The other side refuses a message, or its message is refused here.

    `boot` is what the server drew when it started, if the code is HELLO.
    """

    def __init__(self, code: Code, text: str, boot: bytes = UNKNOWN) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.boot = boot


@dataclass(frozen=True)
class Message:
    """Base class: fixed fields in the order of `form`, then the payload if there is one."""

    kind: ClassVar[bytes]
    form: ClassVar[struct.Struct]


@dataclass(frozen=True)
class Join(Message):
    """A client signs the study."""

    kind: ClassVar[bytes] = b"J"
    form: ClassVar[struct.Struct] = struct.Struct("<I")
    client: int


@dataclass(frozen=True)
class Hello(Message):
    """How far a client is: the last answer that it has seen, and the head of its log.

    `seal` proves that the server signed this answer: a client cannot name one that does not exist.
    `nonce` is fresh, so that an old reply cannot be shown again. `boot` is what the server drew
    when it started, so that an old hello cannot be shown to a later process.
    """

    kind: ClassVar[bytes] = b"H"
    form: ClassVar[struct.Struct] = struct.Struct(f"<Iq{SEAL}sQ32s16s16s")
    client: int
    exchange: int
    seal: bytes
    count: int
    head: bytes
    nonce: bytes
    boot: bytes


@dataclass(frozen=True)
class Welcome(Message):
    """How far the server is, and the last upload and the last head that it has of the client."""

    kind: ClassVar[bytes] = b"W"
    form: ClassVar[struct.Struct] = struct.Struct("<Iqq32sQ32s16s")
    client: int
    exchange: int
    uploaded: int
    hash: bytes
    count: int
    head: bytes
    nonce: bytes


@dataclass(frozen=True)
class Ask(Message):
    """A client asks for the answer of an exchange; 0 is the opening broadcast."""

    kind: ClassVar[bytes] = b"A"
    form: ClassVar[struct.Struct] = struct.Struct("<Iq")
    client: int
    exchange: int


@dataclass(frozen=True)
class Upload(Message):
    """One release of a client.

    `seen` is the hash of the last answer that the client has seen, `head` that of its log before
    the release. `salt` is fresh, so that a receipt tells nobody anything about the payload. `seals`
    is how many helpers there are.
    """

    kind: ClassVar[bytes] = b"U"
    form: ClassVar[struct.Struct] = struct.Struct("<Iq32sQ32s16sH")
    client: int
    exchange: int
    seen: bytes
    count: int
    head: bytes
    salt: bytes
    seals: int
    payload: bytes  # a sealed seed for each helper, then the sealed body

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The sealed seeds, then the sealed body."""
        return parts(self.payload, self.seals)


@dataclass(frozen=True)
class Answer(Message):
    """The broadcast of one exchange, and the root of the receipts of all uploads it counts."""

    kind: ClassVar[bytes] = b"B"
    form: ClassVar[struct.Struct] = struct.Struct("<qI")
    exchange: int
    clients: int
    payload: bytes  # the root, then the broadcast

    @property
    def root(self) -> bytes:
        """The root of the receipts (`Receipts`)."""
        return self.payload[:ROOT]

    @property
    def broadcast(self) -> bytes:
        """The encoded broadcast."""
        return self.payload[ROOT:]


@dataclass(frozen=True)
class Done(Message):
    """A client has played its last round; its rounds and the final head of its log."""

    kind: ClassVar[bytes] = b"D"
    form: ClassVar[struct.Struct] = struct.Struct("<IQQ32s")
    client: int
    round: int
    count: int
    head: bytes


@dataclass(frozen=True)
class Farewell(Message):
    """The server has noted that a client is done; with the head of the server's log."""

    kind: ClassVar[bytes] = b"F"
    form: ClassVar[struct.Struct] = struct.Struct("<IQ32s")
    client: int
    count: int
    head: bytes


@dataclass(frozen=True)
class Fetch(Message):
    """A helper has opened the exchanges up to this one, and asks for its next task."""

    kind: ClassVar[bytes] = b"G"
    form: ClassVar[struct.Struct] = struct.Struct("<Iq")
    helper: int
    exchange: int


@dataclass(frozen=True)
class Task(Message):
    """The tickets of all clients that an exchange counts, for one helper."""

    kind: ClassVar[bytes] = b"T"
    form: ClassVar[struct.Struct] = struct.Struct("<IqI")
    helper: int
    exchange: int
    count: int
    payload: bytes


@dataclass(frozen=True)
class Part(Message):
    """The sum of a helper's masks, sealed to the server, and the clients whose seals are damaged.

    `task` is the hash of the task that it answers.
    """

    kind: ClassVar[bytes] = b"P"
    form: ClassVar[struct.Struct] = struct.Struct("<Iq32sI")
    helper: int
    exchange: int
    task: bytes
    count: int
    payload: bytes  # the numbers of the clients, then the sealed sum

    @property
    def damaged(self) -> tuple[int, ...]:
        """The clients whose seals do not open."""
        return struct.unpack_from(f"<{self.count}I", self.payload)


@dataclass(frozen=True)
class Over(Message):
    """No exchange comes any more: a helper may erase its key."""

    kind: ClassVar[bytes] = b"O"
    form: ClassVar[struct.Struct] = struct.Struct("<q")
    exchange: int


KINDS: dict[bytes, type[Message]] = {
    kind.kind: kind
    for kind in (
        *(Join, Hello, Welcome, Ask, Upload, Answer, Done, Farewell),
        *(Fetch, Task, Part, Over),
    )
}
REQUESTS = frozenset({Join, Hello, Ask, Upload, Done, Fetch, Part})
MANIFEST = b"M"
"""The request for the manifest; the reply is `b"M"`, the server's signature and the manifest, and
after a new line the changes of its roster (`Change`), if there are any."""
REFUSAL = b"E"
ANSWERED = b"S"
_SIZES = struct.Struct("<IH")
Kind = TypeVar("Kind", bound=Message)


def refuse(code: Code, text: str) -> NoReturn:
    """Raise a refusal."""
    raise Refused(code, text)


def pack(message: Message, study: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the signed bytes of a message.

    Parameters
    ----------
    message
        The message.
    study
        The digest of the study (32 bytes).
    key
        The key of the client or of the server.

    Examples
    --------
    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> from hedgerow.deployment.keys import public_hex
    >>> key, study = Ed25519PrivateKey.generate(), bytes(32)
    >>> data = pack(Ask(client=0, exchange=3), study, key)
    >>> unpack(data, study, Ask)
    Ask(client=0, exchange=3)
    >>> signed(data, study, public_hex(key)), signed(data, bytes([1] * 32), public_hex(key))
    (True, False)
    """
    names, payload = _fields(type(message))
    values = [getattr(message, name) for name in names]
    tail = values.pop() if payload else b""
    body = message.kind + study[:TAG] + message.form.pack(*values) + tail
    return body + sign(key, _signed_text(study, body))


@cache
def _fields(kind: type[Message]) -> tuple[tuple[str, ...], bool]:
    """The names of the fields, and whether the last one is a payload."""
    names = tuple(f.name for f in fields(kind))
    return names, "payload" in names


@cache
def _numbers(kind: type[Message]) -> tuple[int, ...]:
    """Which fields hold numbers."""
    zeros = kind.form.unpack(bytes(kind.form.size))
    return tuple(at for at, value in enumerate(zeros) if isinstance(value, int))


def _signed_text(study: bytes, body: bytes) -> bytes:
    kind = KINDS.get(body[:1])
    start = len(body) if kind is None else 1 + TAG + kind.form.size
    signed = body[start:]
    if kind is Upload and len(body) >= start:
        signed = b"".join(map(hash_of, parts(signed, _seals(body))))
    return _start(study, body[:start]) + hashlib.sha256(signed).digest()


def _seals(upload: bytes) -> int:
    return Upload.form.unpack_from(upload, 1 + TAG)[-1]


def parts(payload: bytes, seals: int) -> tuple[bytes, ...]:
    """The parts of an upload's payload: sealed seeds, then the sealed body."""
    ends = range(SEALED_SEED, SEALED_SEED * seals + 1, SEALED_SEED)
    sealed = (payload[end - SEALED_SEED : end] for end in ends)
    return (*sealed, payload[SEALED_SEED * seals :])


@dataclass(frozen=True)
class Ticket:
    """What a helper gets of an upload: the signed outline, and its own sealed seed.

    The outline has the fixed fields and the hash of each part, so a helper can check the signature
    of the client without the other parts.
    """

    client: int
    exchange: int
    seen: bytes
    seal: bytes

    @staticmethod
    def size(helpers: int) -> int:
        """The bytes of a ticket."""
        return Upload.form.size + 32 * (helpers + 1) + SIGNATURE + SEALED_SEED

    @staticmethod
    def of(upload: bytes) -> tuple[bytes, ...]:
        """The ticket for each helper, from the bytes of an upload."""
        start, end = 1 + TAG + Upload.form.size, len(upload) - SIGNATURE
        *seals, body = parts(upload[start:end], _seals(upload))
        hashes = b"".join(map(hash_of, (*seals, body)))
        outline = upload[1 + TAG : start] + hashes + upload[end:]
        return tuple(outline + seal for seal in seals)

    @classmethod
    def read(
        cls, data: bytes, study: bytes, helper: int, keys: Sequence[str], helpers: int
    ) -> Ticket:
        """The ticket in these bytes; refused unless its client signed it, with this seal.

        `keys` are those of all clients of the study, and `helpers` is how many there are.
        """
        start = Upload.form.size
        hashes, end = data[start : start + 32 * (helpers + 1)], start + 32 * (helpers + 1)
        signature, seal = data[end : end + SIGNATURE], data[end + SIGNATURE :]
        fixed = Upload.form.unpack_from(data)
        client, exchange, seen, seals = int(fixed[0]), int(fixed[1]), fixed[2], int(fixed[-1])
        if client >= len(keys) or seals != helpers:
            refuse(Code.FORM, "A ticket is not that of a client of this study.")
        if hash_of(seal) != hashes[32 * helper : 32 * (helper + 1)]:
            refuse(Code.SIGNATURE, "A seal is not the one that its client signed.")
        text = (
            _start(study, Upload.kind + study[:TAG] + data[:start])
            + hashlib.sha256(hashes).digest()
        )
        if not signed_by(keys[client], signature, text):
            refuse(Code.SIGNATURE, "A ticket is not signed by its client.")
        return cls(client, exchange, seen, seal)


def _start(study: bytes, fixed: bytes) -> bytes:
    return b"hedgerow 2\n" + study + fixed


def signed(data: bytes, study: bytes, public: str, protocol: int = 2) -> bool:
    """Whether the holder of the public key signed this message for this study.

    `protocol` is that of the study: before 2 a payload was signed as it is.
    """
    body = data[:-SIGNATURE]
    text = b"hedgerow 1\n" + study + body if protocol < 2 else _signed_text(study, body)
    return signed_by(public, data[-SIGNATURE:], text)


def seal_of(answer: bytes) -> bytes:
    """The hash of the payload of an answer, and its signature: short proof that it was signed."""
    start = 1 + TAG + Answer.form.size
    return hashlib.sha256(answer[start:-SIGNATURE]).digest() + answer[-SIGNATURE:]


def sealed(exchange: int, clients: int, seal: bytes, study: bytes, public: str) -> bool:
    """Whether the server with this key signed an answer of this exchange that has this seal."""
    fixed = Answer.kind + study[:TAG] + Answer.form.pack(exchange, clients)
    return signed_by(public, seal[-SIGNATURE:], _start(study, fixed) + seal[:-SIGNATURE])


def unpack(data: bytes, study: bytes, *expected: type[Kind]) -> Kind:
    """Return the message in these bytes; the signature is checked by `signed`.

    Raises `Refused`, also if the bytes hold a refusal.
    """
    if data[:1] == REFUSAL:
        raise read_refusal(data)
    if len(data) > LONGEST:
        refuse(Code.SIZE, f"A message has at most {LONGEST} bytes.")
    kind: Any = KINDS.get(data[:1])
    if kind not in expected:
        refuse(Code.FORM, "These bytes are not a message that is expected here.")
    if data[1 : 1 + TAG] != study[:TAG]:
        refuse(Code.STUDY, "The message is about another study.")
    start = 1 + TAG + kind.form.size
    payload, end = _fields(kind)[1], len(data) - SIGNATURE
    if end < start or (end > start and not payload):
        refuse(Code.FORM, "The message has the wrong length.")
    values: list[Any] = list(kind.form.unpack_from(data, 1 + TAG))
    if payload:
        values.append(bytes(data[start:end]))
    if any(values[at] >= MOST for at in _numbers(kind)):
        refuse(Code.FORM, "The message holds a number that is too large.")
    message = kind(*values)
    if kind is Answer and len(message.payload) < ROOT:
        refuse(Code.FORM, "The answer has no root of receipts.")
    return message


def hash_of(data: bytes) -> bytes:
    """The hash by which both sides name a message; it covers the signature."""
    return hashlib.sha256(data).digest()


def pack_refusal(code: Code, text: str, boot: bytes = UNKNOWN) -> bytes:
    """The bytes of a refusal; they are not signed and hold no value.

    With the code HELLO, `boot` comes before the text.

    >>> error = read_refusal(pack_refusal(Code.SIZE, "Too long."))
    >>> error.code.name, error.text
    ('SIZE', 'Too long.')
    """
    return REFUSAL + bytes([code]) + (boot if code is Code.HELLO else b"") + text.encode()[:200]


def read_refusal(data: bytes) -> Refused:
    """The refusal in these bytes, made safe to show."""
    try:
        code = Code(data[1])
    except (IndexError, ValueError):
        code = Code.FORM
    start = 2 + (BOOT if code is Code.HELLO else 0)
    text = one_line(bytes(data[start : start + 200]).decode("utf-8", "replace"))
    return Refused(code, text, bytes(data[2:start]).ljust(BOOT, b"\0"))


class Answered(NamedTuple):
    """What a client gets: how far the server is, and answers in order, each with a path.

    The path shows what the answer counts of this client (`root_of`). Nothing here is signed but the
    answers.

    >>> reply = Answered(7, ((b"answer", b"path"), (b"next", b"")))
    >>> Answered.read(reply.pack()) == reply
    True
    """

    newest: int
    answers: tuple[tuple[bytes, bytes], ...]

    def pack(self) -> bytes:
        """The bytes of the reply."""
        rows = (_SIZES.pack(len(data), len(path)) + data + path for data, path in self.answers)
        return ANSWERED + struct.pack("<q", self.newest) + b"".join(rows)

    @classmethod
    def read(cls, data: bytes) -> Answered:
        """The reply in these bytes; raises `Refused`, also if they hold a refusal."""
        if data[:1] == REFUSAL:
            raise read_refusal(data)
        found, at = list[tuple[bytes, bytes]](), 9
        while data[:1] == ANSWERED and at + _SIZES.size <= len(data):
            answer, path = _SIZES.unpack_from(data, at)
            middle = at + _SIZES.size + answer
            found.append((data[at + _SIZES.size : middle], data[middle : middle + path]))
            at = middle + path
        if not found or at != len(data):
            refuse(Code.FORM, "The reply does not hold an answer.")
        return cls(int.from_bytes(data[1:9], "little", signed=True), tuple(found))


def pack_manifest(signature: bytes, manifest: bytes, changes: bytes = b"") -> bytes:
    """The reply to a request for the manifest."""
    return MANIFEST + signature + manifest + (b"\n" + changes if changes else b"")


def read_manifest(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The server's signature, the bytes of the manifest, and those of the changes of its roster."""
    if data[:1] == REFUSAL:
        raise read_refusal(data)
    if data[:1] != MANIFEST or len(data) < 1 + SIGNATURE:
        refuse(Code.FORM, "The reply is not a manifest.")
    manifest, _, changes = data[1 + SIGNATURE :].partition(b"\n")  # JSON without new lines
    return bytes(data[1 : 1 + SIGNATURE]), manifest, changes
