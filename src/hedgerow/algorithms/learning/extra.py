"""JAX, imported when a model is first used: the rest of the package works without it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hedgerow.core.extras import needs


def need_jax() -> Any:
    """Return the module jax, or say how to install it.

    >>> need_jax().__name__
    'jax'
    """
    with needs("learning"):
        return import_module("jax")
