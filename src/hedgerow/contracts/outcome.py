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


def same(first: Any, second: Any, tolerance: float = 0.0) -> bool:
    """Whether two values are equal: arrays, numbers, dataclasses, tuples, lists.

    Bit for bit, or with floats that differ by at most `tolerance`.
    """
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        one, other = np.asarray(first), np.asarray(second)
        floats = one.dtype.kind == "f"
        if tolerance and floats and other.dtype.kind == "f" and one.shape == other.shape:
            return np.allclose(one, other, rtol=0.0, atol=tolerance, equal_nan=True)
        return np.array_equal(one, other, equal_nan=floats)
    if hasattr(first, "__dataclass_fields__"):
        return type(first) is type(second) and all(
            same(getattr(first, f.name), getattr(second, f.name), tolerance) for f in fields(first)
        )
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(
            same(a, b, tolerance) for a, b in zip(first, second, strict=True)
        )
    if tolerance and isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= tolerance or first == second
    return bool(first == second)
