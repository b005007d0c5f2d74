"""Roles whose state is saved and loaded after every step, as if the process had stopped there."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from hedgerow.contracts.outcome import BrokenContract, demand
from hedgerow.core.layout import Buffer
from hedgerow.core.messages import decode_state, encode_state


def identical(first: Any, second: Any) -> bool:
    """Whether two values of a field have the same type, dtype, shape and bits."""
    if type(first) is not type(second):
        return False
    if first is None:
        return True
    if isinstance(first, Buffer):
        first, second = first.rows, second.rows
    one, other = np.asarray(first), np.asarray(second)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def reload(role: Any, state: Any, step: str) -> Any:
    """Return the state of a role as it is loaded again; demand that nothing is lost."""
    kind, player = getattr(type(role), "state", None), type(role).__name__
    demand(
        kind is type(None) or (isinstance(kind, type) and is_dataclass(kind)),
        f"{player} does not declare the type of its state: state: ClassVar[type[Any]] = ...",
    )
    demand(
        type(state) is kind,
        f"{player} declares {getattr(kind, '__name__', kind)} but its state after {step} is"
        f" {type(state).__name__}",
    )
    loaded = decode_state(type(state), encode_state(state))
    for f in () if state is None else fields(state):
        before, after = getattr(state, f.name), getattr(loaded, f.name)
        if not identical(before, after):
            raise BrokenContract(
                f"{type(state).__name__}.{f.name} of {player} changes when it is saved after"
                f" {step}: {_words(before)} becomes {_words(after)}"
            )
    return loaded


def _words(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{value!r} of type {type(value).__name__}"


@dataclass(frozen=True)
class Reloading:
    """A client, server or decider that goes on from the loaded state after every step."""

    role: Any

    def start(self, *given: Any) -> Any:
        return reload(self.role, self.role.start(*given), "start")

    def receive(self, *given: Any) -> Any:
        return reload(self.role, self.role.receive(*given), "receive")

    def observe(self, *given: Any) -> Any:
        return reload(self.role, self.role.observe(*given), "observe")

    def play(self, *given: Any) -> tuple[Any, Any]:
        return self._paired("play", given)

    def upload(self, *given: Any) -> tuple[Any, Any]:
        return self._paired("upload", given)

    def open(self, *given: Any) -> tuple[Any, Any]:
        return self._paired("open", given)

    def aggregate(self, *given: Any) -> tuple[Any, Any]:
        return self._paired("aggregate", given)

    def _paired(self, step: str, given: tuple[Any, ...]) -> tuple[Any, Any]:
        result, state = getattr(self.role, step)(*given)
        return result, reload(self.role, state, step)
