"""Other libraries, where they are installed: none is a dependency."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np

from hedgerow.core.lattice import Array


def jax_privacy() -> Callable[[int, int], Array] | None:
    """Return the optimiser of buffered Toeplitz factors of jax-privacy; None if it is missing.

    The optimiser takes rounds and buffers, and returns the first column of C.
    """
    try:
        buffered = import_module("jax_privacy.matrix_factorization.buffered_toeplitz")
        import_module("jax").config.update("jax_enable_x64", True)
    except ImportError:
        return None

    def optimise(rounds: int, buffers: int) -> Array:
        found = buffered.optimize(n=rounds, min_buffers=buffers, max_buffers=buffers)
        return np.asarray(found.toeplitz_coefs(rounds), float)

    return optimise
