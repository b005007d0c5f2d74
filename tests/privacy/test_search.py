"""The search for a root takes the steps of `scipy.optimize.brentq`, to the last bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from math import atan, exp, log, log1p

import numpy as np
import pytest
from scipy.optimize import brentq

from hedgerow.core.errors import InvalidValue
from hedgerow.privacy.curves import GaussianDP, ZeroConcentratedDP
from hedgerow.privacy.search import root

FUNCTIONS: tuple[Callable[[float, float], float], ...] = (
    lambda x, c: x - c,
    lambda x, c: x**3 - c,
    lambda x, c: exp(min(x, 700.0)) - 1 - c,
    lambda x, c: atan(x - c) + 1e-3 * (x - c),
    lambda x, c: c * x * x + log1p(x) - 1,
    lambda x, c: -1.0 if x < c else 1.0,
    lambda x, c: log(x + 1e-300) - log(c),
)


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_every_bit_is_that_of_scipy(number: int) -> None:
    rng = np.random.default_rng(number)
    for _ in range(300):
        at = float(np.exp(rng.uniform(-6, 6)))
        xtol, rtol = (1e-300, 1e-15) if rng.random() < 0.5 else (1e-13, 2.0**-50)

        def function(x: float, at: float = at) -> float:
            return FUNCTIONS[number](x, at)

        found = root(function, 0.0, 1e3, xtol, rtol)
        assert found == brentq(function, 0.0, 1e3, xtol=xtol, rtol=np.float64(rtol), maxiter=1000)


def test_equal_signs_are_refused() -> None:
    with pytest.raises(InvalidValue, match="opposite signs"):
        root(lambda x: x + 1.0, 0.0, 1.0, 1e-9)


def test_a_curve_needs_no_optimiser() -> None:
    """The point of it: the optimiser of scipy takes 40 MB in every process of a deployment."""
    code = (
        "import sys; from hedgerow.privacy.curves import GaussianDP, ZeroConcentratedDP\n"
        "GaussianDP(1.0).epsilon(1e-6), ZeroConcentratedDP(0.1).epsilon(1e-6)\n"
        "ZeroConcentratedDP(0.1).delta(1.0)\n"
        "assert 'scipy.optimize' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert GaussianDP(1.0).epsilon(1e-6) > 0 < ZeroConcentratedDP(0.1).delta(1.0)
