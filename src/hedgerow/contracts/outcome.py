"""The outcomes of a contract (holds, not applicable, broken) and its notion of equality."""

from __future__ import annotations

from dataclasses import fields
from struct import pack
from typing import Any

import numpy as np

from hedgerow.core.layout import Buffer


class BrokenContract(AssertionError):
    """The algorithm does not keep the contract."""


class NotApplicable(Exception):
    """The contract does not apply to this algorithm; the text says why."""


def demand(holds: bool, text: str) -> None:
    """Raise BrokenContract with this text unless the condition holds."""
    if not holds:
        raise BrokenContract(text)


def same(first: Any, second: Any, tolerance: float = 0.0, *, by_value: bool = False) -> bool:
    """Whether two values are equal: arrays, buffers, numbers, dataclasses, tuples, lists.

    Bit for bit: the sign of a zero, the bits of a NaN and the types of numbers count. With
    `by_value` they do not, and with a tolerance floats may differ by it.
    """
    arrays = (np.ndarray, Buffer)
    if isinstance(first, arrays) or isinstance(second, arrays):
        one, other = (np.asarray(v.rows if isinstance(v, Buffer) else v) for v in (first, second))
        return isinstance(first, Buffer) == isinstance(second, Buffer) and (
            _same_arrays(one, other, tolerance, by_value)
        )
    if hasattr(first, "__dataclass_fields__"):
        return type(first) is type(second) and all(
            same(getattr(first, f.name), getattr(second, f.name), tolerance, by_value=by_value)
            for f in fields(first)
        )
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(
            same(a, b, tolerance, by_value=by_value) for a, b in zip(first, second, strict=True)
        )
    return _same_numbers(first, second, tolerance, by_value)


def _same_numbers(first: Any, second: Any, tolerance: float, by_value: bool) -> bool:
    """Compare numbers, and all other values that know equality."""
    if isinstance(first, float) and isinstance(second, float):
        if tolerance:
            return abs(first - second) <= tolerance or first == second
        return first == second if by_value else pack("d", first) == pack("d", second)
    alike = by_value or np.asarray(first).dtype.kind == np.asarray(second).dtype.kind
    return alike and bool(first == second)


def _same_arrays(one: np.ndarray, other: np.ndarray, tolerance: float, by_value: bool) -> bool:
    floats = one.dtype.kind == "f"
    if tolerance and floats and other.dtype.kind == "f" and one.shape == other.shape:
        return np.allclose(one, other, rtol=0.0, atol=tolerance, equal_nan=True)
    if by_value or tolerance or not floats:
        equal = np.array_equal(one, other, equal_nan=floats)
        return equal and (by_value or one.dtype.kind == other.dtype.kind)
    return (one.dtype, one.shape) == (other.dtype, other.shape) and (
        one.tobytes() == other.tobytes()
    )
