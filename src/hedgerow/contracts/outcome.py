"""The outcomes of a contract (holds, not applicable, broken) and its notion of equality."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


class BrokenContract(AssertionError):
    """The algorithm does not keep the contract."""


class NotApplicable(Exception):
    """The contract does not apply to this algorithm; the text says why."""


def demand(holds: bool, text: str) -> None:
    """Raise BrokenContract with this text unless the condition holds."""
    if not holds:
        raise BrokenContract(text)


def same(first: Any, second: Any) -> bool:
    """Whether two values are equal bit for bit: arrays, numbers, dataclasses, tuples, lists."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.array_equal(
            np.asarray(first), np.asarray(second), equal_nan=np.asarray(first).dtype.kind == "f"
        )
    if hasattr(first, "__dataclass_fields__"):
        return type(first) is type(second) and all(
            same(getattr(first, f.name), getattr(second, f.name)) for f in fields(first)
        )
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(
            same(a, b) for a, b in zip(first, second, strict=True)
        )
    return bool(first == second)
