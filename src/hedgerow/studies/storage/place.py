"""Whether something new can be written at a place. It is asked before anything is computed."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp

from hedgerow.core.errors import InvalidValue


def check_new(out: Path, option: str = "--out ") -> None:
    """Raise unless a new file or folder can be made at `out`.

    Refused are a place that is taken, also by a link that leads nowhere, a file where a folder must
    be, and a folder that cannot be written to.

    Parameters
    ----------
    out
        The place.
    option
        What comes before the place in errors.
    """
    named = f"{option}{out}"
    if out.is_symlink() and not out.exists():
        raise InvalidValue(
            f"{named} is a link to {os.readlink(out)}, which does not exist. "
            "Choose another place or delete the link."
        )
    if out.exists():
        raise InvalidValue(f"{named} already exists. Choose another place or delete it.")
    check_writable(out.parent, named)


def check_writable(folder: Path, named: str) -> None:
    """Raise unless a folder can be written to, or made; `named` is what errors call it."""
    place = folder.absolute()
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        what = "a link that leads nowhere" if place.is_symlink() else "a file"
        raise InvalidValue(f"Cannot write to {named}: {place} is {what}.")
    try:
        Path(mkdtemp(prefix=".hedgerow-", dir=place)).rmdir()
    except OSError as error:
        raise InvalidValue(f"Cannot write to {named}: {place}: {error.strerror}.") from error
