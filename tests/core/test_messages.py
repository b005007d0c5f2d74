"""The codec: every message and state comes back as it was sent, and anything damaged is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, make_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.block import check
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.layout import Buffer, Flag, Matrix, Vector, layout
from hedgerow.core.losses import Linear
from hedgerow.core.messages import (
    VERSION,
    Broadcast,
    InvalidMessage,
    decode,
    encode,
    field_names,
    scalars,
)
from hedgerow.core.noise import SeededNoise
from hedgerow.engines.simulate import make_engine
from hedgerow.environments.recorded.losses import RecordedArray
from support.damage import Letter, damaged, letters, message
from support.played import seen_in

quick = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def _game(name: str) -> tuple[Any, Environment]:
    """The game of an algorithm: losses of experts, or its own where it plays no experts."""
    spec = ALGORITHMS[name]()
    environment: Environment = RecordedArray(np.random.default_rng(4).random((60, 3, 4)))
    if Linear not in spec.traits.families:
        games = spec.games()
        environment = games.recorded(games.stream(np.random.default_rng(4), games.setting))
    return spec.build(environment.setting), environment


def _records(name: str) -> list[Any]:
    """Messages of both directions, and states in the middle of a game, one client at a time and all
    at once.
    """
    algorithm, environment = _game(name)
    kept = seen_in(algorithm, environment)
    found = [message for _, uploads, broadcast in kept.messages for message in (uploads, broadcast)]
    block, _ = environment.block(environment.start(0), 7, None)
    checked = check(block, environment.setting, 0, 7)
    for engine in ("vectorised", "in_process"):
        run = make_engine(engine, algorithm, SeededNoise(0), fused=False)
        after = run.advance(run.start(), checked, [])
        found += [
            *(after.clients if isinstance(after.clients, tuple) else (after.clients,)),
            after.server,
        ]
    return found


def _assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    for f in fields(one):
        a, b = getattr(one, f.name), getattr(other, f.name)
        assert isinstance(a, np.ndarray) == isinstance(b, np.ndarray)
        assert (a is None) == (b is None)
        if a is not None:
            assert np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
            assert np.asarray(a).dtype.kind == np.asarray(b).dtype.kind


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_messages_and_states_of_every_algorithm_survive_the_wire(name: str) -> None:
    records = _records(name)
    assert len(records) >= 6
    for record in records:
        _assert_same(record, decode(type(record), encode(record), stacked=True))


simple = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats())
dtypes = st.sampled_from(["?", "<i8", ">i4", "u1", "<f8", ">f8", "<f4"])
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))


@quick
@given(st.lists(simple | arrays, max_size=5))
def test_any_flat_record_survives_the_wire(values: list[Any]) -> None:
    kind = make_dataclass("Random", [(f"field{i}", Any) for i in range(len(values))], frozen=True)
    record = kind(*values)
    _assert_same(record, decode(kind, encode(record)))
    assert scalars(record) == sum(np.size(value) for value in values)


@dataclass(frozen=True)
class Pair(Broadcast):
    weights: np.ndarray
    share: float


PAIR = Pair(3, np.arange(6.0).reshape(2, 3), 0.25)


def test_none_rounds_take_the_room_of_a_number() -> None:
    silent, counted = encode(Broadcast(None)), encode(Broadcast(7))
    assert decode(Broadcast, silent).rounds is None
    assert len(silent) == len(counted)
    assert field_names(Pair) == ("Pair.rounds", "Pair.weights", "Pair.share")


def test_every_truncation_is_refused() -> None:
    data = encode(PAIR)
    for length in range(len(data)):
        with pytest.raises(InvalidValue):
            decode(Pair, data[:length])
    with pytest.raises(InvalidValue, match=f"of {len(data)} bytes, got {len(data) + 1}"):
        decode(Pair, data + b"\0")


def test_every_altered_header_byte_is_refused_or_read_but_never_crashes() -> None:
    data = encode(PAIR)
    for position in range(len(data) - 64):
        for new in (0, ord("9"), ord("-"), ord("["), ord("x"), 255):
            altered = data[:position] + bytes([new]) + data[position + 1 :]
            try:
                decode(Pair, altered)
            except InvalidValue:
                continue


def _with_header(header: object) -> bytes:
    head = json.dumps(header, separators=(",", ":")).encode()
    return b"HR" + bytes([VERSION]) + len(head).to_bytes(4, "little") + head + bytes(8)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"XX" + encode(PAIR)[2:], "do not start with"),
        (b"HR\x02" + encode(PAIR)[3:], f"version {VERSION}, got 2"),
        (encode(Broadcast(3)), "got Broadcast"),
        (_with_header(["Pair", [["rounds", "=<i8", []]]]), r"got Pair\['rounds'\]"),
        (_with_header(["Pair", 5]), "The header of this Pair message is damaged"),
    ],
)
def test_altered_messages_say_what_is_wrong(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        decode(Pair, data)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("<f8", [-1]),
        ("<f8", [-1, -1]),
        ("<f8", [1e400]),
        ("<f8", [0, 2**70]),
        ("=<f8", [1, 1, 0]),
        ("<x8", []),
        ("O", []),
        ("<M8[s]", []),
    ],
)
def test_impossible_layouts_are_refused(kind: str, shape: list[Any]) -> None:
    with pytest.raises(InvalidValue):
        decode(Broadcast, _with_header(["Broadcast", [["rounds", kind, shape]]]))


def test_text_cannot_be_sent() -> None:
    with pytest.raises(InvalidValue, match=r"Broadcast\.rounds to be a number"):
        encode(Broadcast("seven"))  # pyright: ignore[reportArgumentType]


# What a class declares is all that its messages may hold


@dataclass(frozen=True)
class Letters(Broadcast):
    """One field of each kind."""

    open: bool
    share: float
    limit: float | None
    point: Vector
    rows: Matrix
    awake: Flag
    kept: Buffer


FULL = Letters(
    3, True, 0.25, None, np.ones(3), np.ones((2, 2)), np.array(True), Buffer(np.ones((2, 3)))
)


def _replaced(field: str, tag: str, shape: list[int], body: bytes) -> bytes:
    """`FULL`, with another value in one field."""
    sent = Letter.read(encode(FULL))
    return message(sent.name, [
        (name, tag, shape, body) if name == field else (name, *others)
        for name, *others in sent.fields
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("field", "tag", "shape", "body", "reason"),
    [
        ("point", "~<i8", [], bytes(8), "array of float64 with 1 axis, got None"),
        ("point", "=<f8", [], bytes(8), "with 1 axis, got =<f8 with 0 axes"),
        ("point", "<f8", [1, 3], bytes(24), "with 1 axis, got <f8 with 2 axes"),
        ("point", "<f8", [], bytes(8), "got <f8 with 0 axes"),
        ("point", "<f4", [3], bytes(12), "got <f4"),
        ("point", "<i8", [3], bytes(24), "got <i8"),
        ("point", "+<f8", [1, 3], bytes(24), "got [+]<f8"),
        ("point", "<f8", [1], np.array([np.nan]).tobytes(), "Letters.point to be finite"),
        ("share", "=<f8", [], np.array(-np.inf).tobytes(), "Letters.share to be finite"),
        ("share", "=<i8", [], bytes(8), "Letters.share to be a Python float, got =<i8"),
        ("rounds", "=|b1", [], bytes(1), "Letters.rounds to be a Python int or None"),
        ("rounds", "<i8", [1], bytes(8), "Letters.rounds to be a Python int or None"),
        ("open", "=<i8", [], bytes(8), "Letters.open to be a Python bool"),
        ("open", "=|b1", [], b"\2", "bytes of Letters.open"),
        ("awake", "|b1", [], b"\xff", "bytes of Letters.awake"),
        ("limit", "~<i8", [], b"\1" * 8, "bytes of Letters.limit"),
        ("kept", "+<f4", [1, 3], bytes(12), "Letters.kept to be a buffer"),
        ("kept", "+<f8", [3], bytes(24), "kept to be numeric"),
        ("rows", "<f8", [1] * 70, bytes(8), "with 2 axes, got <f8 with 70 axes"),
    ],
)
def test_what_is_not_declared_is_refused(
    field: str, tag: str, shape: list[int], body: bytes, reason: str
) -> None:
    assert encode(decode(Letters, encode(FULL))) == encode(FULL)
    with pytest.raises(InvalidMessage, match=reason):
        decode(Letters, _replaced(field, tag, shape, body))


@pytest.mark.parametrize(
    "head",
    [
        '["Broadcast",[["rounds","=<i8",[]]]]'.encode("utf-16"),
        '["Broadcast",[["rounds","=<i8",[]]]]'.encode("utf-8-sig"),
        b'["Broadcast", [["rounds","=<i8",[]]]]',
        b'["Broadcast",[["rounds","~<i8",[0.0]]]]',
        b'["Broadcast",[["rounds","=<i8",{}]]]',
        b"[" * 100_000,
        b"[" * 8_000,
        b'["Broadcast",[["rounds","=<i8",' + b"[" * 100_000 + b"]" * 100_000 + b"]]]",
        b'["Broadcast",[["rounds","<i8",[' + b"9" * 6000 + b"]]]]",
        b'["Broadcast",[["rounds","<i8",[' + b",".join([b"9" * 4000] * 3) + b"]]]]",
        b'["Broadcast",[["rounds","<i8",[0' + b",1000000" * 20 + b"]]]]",
        b'["Broadcast",[["rounds","<i8",[' + b",".join([b"1"] * 70) + b"]]]]",
    ],
)
@pytest.mark.parametrize("kind", [Broadcast, make_dataclass("Broadcast", [("rounds", Any)])])
def test_a_hostile_header_raises_the_error_of_the_codec(head: bytes, kind: type[Any]) -> None:
    start = b"HR" + bytes([VERSION]) + len(head).to_bytes(4, "little")
    with pytest.raises(InvalidMessage):
        decode(kind, start + head + bytes(8))


def test_what_is_not_declared_is_not_sent_either() -> None:
    for value, reason in (
        (np.array([np.nan]), "Letters.point to be finite"),
        (None, "got None"),
        (np.ones(3, np.float32), "array of float64"),
        (np.ones((1, 1, 3)), "3 axes"),
        (1.0, "got =<f8"),
    ):
        with pytest.raises(InvalidMessage, match=reason):
            encode(replace(FULL, point=value))


@pytest.mark.parametrize(
    "value", [np.zeros(2, np.longdouble), np.longdouble(1), np.zeros((1,) * 33)]
)
def test_what_no_peer_would_read_is_not_sent(value: Any) -> None:
    """Also where nothing is declared: the sender learns of it, not the receiver."""
    with pytest.raises(InvalidMessage, match=r"Loose\.value to be numeric, of at most 64 bits"):
        encode(Loose(value))


@dataclass(frozen=True)
class Loose:
    value: Any


@dataclass(frozen=True)
class Spoken:
    text: str


def test_a_class_must_declare_what_can_be_sent() -> None:
    with pytest.raises(InvalidValue, match=r"Spoken\.text to be declared as a number"):
        decode(Spoken, encode(FULL))


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_message_and_state_declares_its_fields(name: str) -> None:
    """No array without dtype and rank."""
    algorithm, _ = _game(name)
    roles = (algorithm.client, algorithm.server, algorithm.decider)
    states = [type(role).state for role in roles if role is not None]
    for kind in (algorithm.uploads.kind, algorithm.broadcasts.kind, *states):
        for field, forms in layout(kind) if kind is not type(None) else ():
            for form in forms:
                assert form.tag, f"{kind.__name__}.{field}: declare its dtype (core.layout)"
                ranked = form.rank is not None or form.words == "a buffer"
                assert ranked, f"{kind.__name__}.{field}: declare its rank (core.layout)"


# Fuzzing: bytes are refused with the error of the codec, or they are what `encode` writes


def _read_or_refuse(kind: type[Any], data: bytes) -> bool:
    """Whether the bytes are read; then they must be the encoding of what was read."""
    try:
        record = decode(kind, data)
    except InvalidMessage:
        return False
    assert encode(record) == data
    return True


tags = st.sampled_from(["<f8", "=<f8", "~<i8", "=<i8", "<i8", "=|b1", "|b1", "+<f8", "<f4", ">f8"])
shapes = st.lists(st.integers(0, 3) | st.sampled_from([-1, 2**31, 2**70]), max_size=4)
bodies = st.binary(max_size=16) | st.sampled_from(
    [bytes(8), bytes(24), np.array([np.nan, 1.0]).tobytes(), np.ones(3).tobytes()]
)
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


@settings(quick, max_examples=150)
@given(
    st.sampled_from([f.name for f in fields(Letters)]),
    tags | odd,
    shapes | odd,
    bodies,
    st.sampled_from(["Letters", "Broadcast"]) | odd,
)
def test_fields_with_anything_in_them_are_read_or_refused(
    field: str, tag: Any, shape: Any, body: bytes, name: Any
) -> None:
    sent = Letter.read(encode(FULL))
    altered = [
        (known, tag, shape, body) if known == field else (known, *others)
        for known, *others in sent.fields
    ]
    for called in ("Letters", name):
        _read_or_refuse(Letters, message(called, altered))


def _fuzz(messages: int, seed: int, sent: list[tuple[type[Any], bytes]]) -> tuple[int, int]:
    """How many damaged messages are read, and how many are refused."""
    generator = np.random.default_rng(seed)
    read = sum(_read_or_refuse(*damaged(sent, generator)) for _ in range(messages))
    return read, messages - read


@settings(quick, max_examples=40)
@given(st.integers(0, 2**32))
def test_thousands_of_damaged_messages_are_read_or_refused(seed: int) -> None:
    sent: list[tuple[type[Any], bytes]] = [(Letters, encode(FULL)), (Pair, encode(PAIR))]
    read, refused = _fuzz(80, seed, sent)
    assert read + refused == 80
    assert refused > 20


@pytest.mark.long
def test_a_million_damaged_messages_are_read_or_refused() -> None:
    """Messages and states of all algorithms, with one to three changes that know the format."""
    sent = [(type(r), encode(r)) for name in ALGORITHMS for r in letters(_records(name))]
    read, refused = _fuzz(1_000_000, 0, sent)
    assert read > 10_000  # changes of values: the property is checked on them, too
    assert refused > 500_000
