"""The laws of additive noise at unit scale, in logarithms."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from hedgerow.core.validate import expect

Law = Literal["laplace", "exponential"]
Values = npt.NDArray[np.float64]


def check_law(law: str) -> None:
    """Refuse a law for which the stated guarantees are not proven."""
    expect(law in get_args(Law), "law", law, f"to be one of {get_args(Law)}")


def log_survival(law: Law, x: npt.ArrayLike) -> Values:
    """ln Pr(noise > x) at unit scale."""
    x = np.asarray(x, float)
    tail = -np.abs(x)
    if law == "exponential":
        return np.where(x >= 0, tail, 0.0)
    return np.where(x >= 0, tail - np.log(2), np.log1p(-0.5 * np.exp(tail)))


def log_cdf(law: Law, x: npt.ArrayLike) -> Values:
    """ln Pr(noise <= x) at unit scale."""
    x = np.asarray(x, float)
    if law == "exponential":
        positive_part = np.maximum(x, 0.0)
        with np.errstate(divide="ignore"):
            near, far = (
                np.log(-np.expm1(-positive_part)),
                np.log1p(-np.exp(-positive_part - (positive_part == 0))),
            )
        return np.where(x > 0, np.where(positive_part < 0.7, near, far), -np.inf)
    return log_survival(law, -x)


def log_density(law: Law, x: Values) -> Values:
    """ln of the density at unit scale."""
    if law == "exponential":
        return np.where(x >= 0, -np.maximum(x, 0), -np.inf)
    return -np.abs(x) - np.log(2)
