"""The codec: every message and state comes back as it was sent, and anything damaged is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, make_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.block import Block, check
from hedgerow.core.errors import InvalidValue
from hedgerow.core.messages import VERSION, Broadcast, decode, encode, field_names, scalars
from hedgerow.core.noise import SeededNoise
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import make_engine, simulate
from hedgerow.environments.recorded.losses import RecordedArray

quick = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def _game(name: str) -> tuple[Any, RecordedArray]:
    environment = RecordedArray(np.random.default_rng(4).random((60, 3, 4)))
    return ALGORITHMS[name]().build(environment.setting), environment


def _records(name: str) -> list[Any]:
    """Messages of both directions, and states in the middle of a game, one client at a time and all
    at once.
    """
    algorithm, environment = _game(name)
    kept = Everything()
    simulate(algorithm, environment, 0, sinks=[kept])
    found = [message for _, uploads, broadcast in kept.messages for message in (uploads, broadcast)]
    checked = check(Block.of(environment.losses[:7]), environment.setting, 0, 7)
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
        _assert_same(record, decode(type(record), encode(record)))


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
    head = json.dumps(header).encode()
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
