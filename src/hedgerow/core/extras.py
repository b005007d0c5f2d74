"""Libraries that only some users need: what needs them, and how to install them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from hedgerow.core.errors import NotInstalled

EXTRAS = {
    "runs": "Run folders and data files need",
    "plots": "Pictures need",
    "secure": "Secure noise and signatures need",
    "statement": "The registry record of a statement needs",
    "deploy": "A study server needs",
    "learning": "Training of models needs",
    "flower": "A study under Flower needs",
    "dask": "A Dask cluster needs",
    "ray": "A Ray cluster needs",
}
"""The optional dependencies of the package, and what needs each."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around imports of libraries of an extra: if one is missing, say how to install it.

    >>> with needs("plots"):
    ...     import no_such_library
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.NotInstalled: Pictures need the library no_such_library, which is not
    installed. Run `pip install "hedgerow[plots]"`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        raise NotInstalled(
            f"{EXTRAS[extra]} the library {library}, which is not installed. "
            f'Run `pip install "hedgerow[{extra}]"`.'
        ) from None


def need_jax() -> Any:
    """Return the module jax, or say how to install it.

    >>> need_jax().__name__
    'jax'
    """
    with needs("learning"):
        return import_module("jax")
