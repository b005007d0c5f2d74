"""Rules that many public parameters share; a message reads `Expected name=value rule.`"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hedgerow.core.lattice import Array


def positive(name: str, value: float) -> None:
    """Require a positive finite number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value > 0):
        raise InvalidValue(f"Expected {name}={value!r} > 0 and finite.")


def between(name: str, value: float, low: float, high: float) -> None:
    """Require low <= value <= high."""
    if not low <= value <= high:
        raise InvalidValue(f"Expected {name}={value!r} in [{low}, {high}].")


def at_least(name: str, value: int, low: int) -> None:
    """Require a whole number that is at least `low`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole and value >= low):
        raise InvalidValue(f"Expected {name}={value!r} to be a whole number >= {low}.")


def one_of(thing: object, **options: tuple[object, ...]) -> None:
    """Require that each named field of an object has one of its options.

    >>> from types import SimpleNamespace
    >>> one_of(SimpleNamespace(trust="some"), trust=("central", "local"))
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected trust='some' in ('central', 'local').
    """
    for name, allowed in options.items():
        value = getattr(thing, name)
        if value not in allowed:
            words = tuple(word for word in allowed if word is not None)
            raise InvalidValue(f"Expected {name}={value!r} in {words}.")


def numbers(what: str, values: object, gaps: bool = False) -> Array:
    """Return private values as floats; an error shows none of them, because errors are logged.

    Complex numbers and texts are refused, and so are masked values, which become NaN with `gaps`.
    """
    if type(values) is np.ndarray and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    found = None
    if gaps or not masked(values):
        with suppress(TypeError, ValueError, OverflowError):
            given = unmasked(values)
            found = np.array(given, np.float64) if given.dtype.kind in "biufO" else None
    if found is None:  # raised here, the error does not carry the one that shows a value
        none = "" if gaps else ", with none masked"
        raise InvalidValue(f"Expected {what} of plain numbers{none}.")
    return found


def masked(values: object) -> bool:
    """Whether a value is masked, also in an array inside a list: numpy would show it there."""
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.getmaskarray(values).any())
    if not isinstance(values, list | tuple):
        return False
    deeper = (list, tuple, np.ma.MaskedArray)
    return any(issubclass(kind, deeper) for kind in set(map(type, values))) and any(
        map(masked, values)
    )


def unmasked(values: Any, dtype: type | None = None) -> np.ndarray:
    """Return an array in which masked values are NaN, among numbers and among other things.

    >>> unmasked([np.ma.masked_array([0.5, 1.0], mask=[True, False]), [2, 3]]).tolist()
    [[nan, 1.0], [2.0, 3.0]]
    >>> unmasked(["rain", np.ma.masked]).tolist()
    ['rain', nan]
    """
    if not masked(values):
        return np.asarray(values, dtype)
    if isinstance(values, np.ma.MaskedArray):
        plain = values.data if values.dtype.kind in "biuf" else values.data.astype(object)
        return np.where(np.ma.getmaskarray(values), np.nan, plain)
    parts = [unmasked(value, dtype) for value in values]
    kind = None if all(part.dtype.kind in "biuf" for part in parts) else object
    return np.array([part.tolist() for part in parts], kind)


def check_budget(epsilon: float, delta: float = 0.0) -> None:
    """Require a budget in the range that algorithms accept.

    >>> check_budget(1.0, delta=1.0)
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected delta=1.0 in [0, 1).
    """
    positive("epsilon", epsilon)
    between("epsilon", epsilon, 1e-6, 1e6)
    if not 0 <= delta < 1:
        raise InvalidValue(f"Expected delta={delta!r} in [0, 1).")


def gaussian_delta(delta: float) -> None:
    """Refuse a pure budget where noise is Gaussian."""
    if not delta > 0:
        raise InvalidValue(
            f"Expected delta={delta!r} > 0, for example 1e-6: Gaussian noise has no pure guarantee."
        )


def parameters(thing: object) -> dict[str, Any]:
    """The values that a dataclass was made with, by name; any other object has none."""
    if not is_dataclass(thing) or isinstance(thing, type):
        return {}
    return {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}


def nearest(word: str, options: Iterable[str], otherwise: str | None = None) -> str:
    """Return a hint: the closest valid word, or `otherwise` if none is close (None: all words).

    >>> nearest("epsilom", ["epsilon", "every"])
    "did you mean 'epsilon'?"
    >>> nearest("rate", ["epsilon", "every"])
    'valid: epsilon, every.'
    """
    known = sorted(set(options))
    begun = [option for option in known if word and option.startswith(word)]
    close = begun[:1] if len(begun) == 1 else get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return otherwise or f"valid: {', '.join(known) or 'none'}."
