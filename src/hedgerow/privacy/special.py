"""Special functions of SciPy, loaded at the first call.

SciPy takes 14 MiB. A client of a deployment whose guarantees and noise need none of these
functions does without it.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _special() -> Any:
    import scipy.special

    return scipy.special


def erf(x: Any) -> Any:
    """The error function."""
    return _special().erf(x)


def erfc(x: Any) -> Any:
    """1 - erf(x)."""
    return _special().erfc(x)


def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x)."""
    return _special().erfcx(x)


def ndtr(x: Any) -> Any:
    """The distribution function of the normal law.

    >>> float(ndtr(0.0))
    0.5
    """
    return _special().ndtr(x)


def ndtri(p: Any) -> Any:
    """The quantile of the normal law."""
    return _special().ndtri(p)


def gammainc(a: Any, x: Any) -> Any:
    """The distribution function of the gamma law with shape a."""
    return _special().gammainc(a, x)


def gammaincinv(a: Any, p: Any) -> Any:
    """The quantile of the gamma law with shape a."""
    return _special().gammaincinv(a, p)


def gammainccinv(a: Any, p: Any) -> Any:
    """The point above which the gamma law with shape a has probability p."""
    return _special().gammainccinv(a, p)
