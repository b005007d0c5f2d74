"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.core.errors import InvalidValue
from hedgerow.core.registry import load_plugins
from hedgerow.core.validate import at_least
from hedgerow.environments.recorded.data import CHOSEN

Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document on standard output and nothing else."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder for the results; must not exist. Default: a new one under runs/."
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", metavar="FILE.py", help="Load your own algorithms, environments or experiments."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Look for data files in this folder first.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one value; may be repeated."),
]
PublicKey = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="PUBLIC.pem", help="The Ed25519 public key that must have signed."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Number of processes. Default: all cores if that is faster."),
]

Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="NAME,NAME",
        help="The columns with forecasts. Default: all that have no other role.",
    ),
]


def apply_options(
    plugins: list[str] | None = None, data: Path | None = None, workers: int | None = None
) -> None:
    """Apply the shared options."""
    if workers is not None:
        at_least("workers", workers, 1)
    if data is not None:
        if not data.is_dir():
            raise InvalidValue(f"Expected --data {data} to be a folder.")
        os.environ[CHOSEN] = str(data.resolve())
    load_plugins(plugins or [])


@contextmanager
def columns_by_option() -> Iterator[None]:
    """Errors about the columns of a file say which option names them."""
    from hedgerow.environments.recorded.table import ColumnError

    try:
        yield
    except ColumnError as error:
        raise InvalidValue(f"{error.text} {error.option}".rstrip()) from None
