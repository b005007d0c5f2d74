"""The contract "states survive": what it accepts, what it says, and that no change of a value slips
through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pytest

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.algorithms.shared.totals import Summing, Totals
from hedgerow.audits.registry import AUDITS
from hedgerow.contracts import reloading
from hedgerow.contracts.outcome import BrokenContract
from hedgerow.contracts.reloading import identical, reload
from hedgerow.contracts.suite import examine
from hedgerow.core.errors import InvalidValue
from hedgerow.core.messages import decode_state, encode, encode_state
from hedgerow.core.noise import Noise, SeededNoise
from support.broken import BROKEN, Tallying, WithRoles


@dataclass(frozen=True)
class Forgetful(Summing):
    """A server with no state at all: it sends the sums of the last rounds only."""

    state: ClassVar[type[Any]] = type(None)

    def open(self, noise: Noise) -> tuple[Totals, Any]:
        return super().open(noise)[0], None

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Totals, Any]:
        assert state is None
        return Totals(self.schedule.every, uploads.losses), None


@dataclass(frozen=True)
class SaysNone(Summing):
    """Declares that it has no state."""

    state: ClassVar[type[Any]] = type(None)


HONEST = {
    "no state": WithRoles(server=Forgetful),
    "a number": WithRoles(server=partial(Tallying, kind=int)),
    "a truth value": WithRoles(server=partial(Tallying, kind=bool)),
    "single precision": WithRoles(server=partial(Tallying, kind=partial(np.full, 3, dtype="f4"))),
}


@pytest.mark.parametrize("contract", ["states survive", "resumable"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_states_survive(name: str, contract: str) -> None:
    outcome = examine(contract, HONEST[name])
    assert outcome.status == "holds", outcome.detail


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "a state of another type after some rounds",
            "ChangesItsState declares SummingState but its state after aggregate is LaterState",
        ),
        ("a numpy number in a state", "TalliedState.tally .* after open: .* type int64 becomes 5"),
        ("a single-precision number in a state", "type float32 becomes 5.0 of type float"),
        (
            "a tuple in a state",
            "TalliedState.tally to be a number or a NumPy array of numbers, got tuple",
        ),
        ("an array of another byte order in a state", "array of >i8 becomes an array of int64"),
        ("a hidden attribute of a state", "SummingState.uploads would be lost"),
        ("a state that must be the same object", "the game goes on differently from saved states"),
        ("a server without a declared state", "Undeclared does not declare the type of its state"),
        ("a number where one client is alone", "CountedState.rounds of CountingLeader .* observe"),
    ],
)
def test_the_contract_says_what_is_lost(name: str, reason: str) -> None:
    contract, spec = BROKEN[name]
    outcome = examine(contract, spec)
    assert re.search(reason, outcome.detail), outcome.detail


def test_a_state_that_was_declared_as_none_must_be_none() -> None:
    outcome = examine("states survive", WithRoles(server=SaysNone))
    assert outcome.detail == ("SaysNone declares NoneType but its state after open is SummingState")


def _narrowed(kind: type[Any], data: bytes) -> Any:
    """A codec that reads arrays in single precision, or in 32 bits."""
    state = decode_state(kind, data)
    return kind(**{name: np.asarray(value, "i4") for name, value in vars(state).items()})


def _negated(kind: type[Any], data: bytes) -> Any:
    """A codec that gives every zero a sign: equal numbers, other bits."""
    state = decode_state(kind, data)
    return kind(**{name: -value for name, value in vars(state).items()})


@dataclass(frozen=True)
class Floats:
    values: np.ndarray


@dataclass(frozen=True)
class Owner:
    state: ClassVar[type[Any]] = Floats


def test_a_codec_that_narrows_or_flips_a_bit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Floats(np.zeros(3))
    assert identical(reload(Owner(), state, "start").values, state.values)
    monkeypatch.setattr(reloading, "decode_state", _negated)
    with pytest.raises(BrokenContract, match=r"Floats\.values of Owner changes"):
        reload(Owner(), state, "start")
    monkeypatch.setattr(reloading, "decode_state", _narrowed)
    outcome = examine("states survive", WithRoles())
    assert "an array of int64 becomes an array of int32" in outcome.detail


VALUES = [
    None,
    True,
    1,
    1.0,
    0.0,
    -0.0,
    float("nan"),
    np.int64(1),
    np.float64(1.0),
    np.bool_(True),
    np.array(1),
    np.array([1]),
    np.array([1.0]),
    np.array([1.0], np.float32),
    np.array([1.0, 1.0], np.float32),
    np.array([[1.0]]),
    np.array([-0.0]),
    np.array([0.0]),
]


def test_values_are_identical_only_to_themselves() -> None:
    for i, first in enumerate(VALUES):
        for j, second in enumerate(VALUES):
            assert identical(first, second) == (i == j), (first, second)


@dataclass(frozen=True)
class Cached:
    value: int

    @cached_property
    def square(self) -> int:
        return self.value**2


def test_caches_are_not_part_of_a_state() -> None:
    state = Cached(3)
    assert state.square == 9
    assert encode_state(state) == encode_state(Cached(3))
    assert decode_state(Cached, encode_state(state)) == state


def test_only_states_are_encoded() -> None:
    assert decode_state(type(None), encode_state(None)) is None
    with pytest.raises(InvalidValue, match=r"Expected Cached\['value'\], got _NoState"):
        decode_state(Cached, encode_state(None))
    with pytest.raises(InvalidValue, match="got Cached"):
        decode_state(type(None), encode_state(Cached(1)))
    with pytest.raises(InvalidValue, match="a dataclass or None as state, got tuple"):
        encode_state((1, 2))
    assert encode_state(Cached(2)) == encode(Cached(2))


@pytest.mark.parametrize(
    "name",  # proven forms search for half a second for each bug, and have the roles of the others
    [pytest.param(x, marks=pytest.mark.long if x.startswith("proven") else ()) for x in AUDITS],
)
def test_planted_bugs_of_audits_declare_their_states_too(name: str) -> None:
    """The audits play these algorithms, and a deployment could."""
    for case in AUDITS[name](ALGORITHMS[name]()):
        algorithm, source = case.algorithm, SeededNoise(0)
        reload(algorithm.server, algorithm.server.open(source.server())[1], "open")
        noise = source.everyone("client", algorithm.setting.clients)
        reload(algorithm.client, algorithm.client.start(noise), "start")
