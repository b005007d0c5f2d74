"""`hedgerow examples`."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from shutil import copyfile
from typing import Annotated

import typer

from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import print_json, say
from hedgerow.core.errors import InvalidValue
from hedgerow.studies.storage.place import check_new


def examples(
    folder: Annotated[Path, typer.Argument(help="The folder to create; must not exist.")] = Path(
        "examples"
    ),
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Copy the example studies, plugins and data into a folder.

    Example: hedgerow examples && hedgerow run examples/study.toml
    """
    if folder.exists():
        raise InvalidValue(
            f"{folder} already exists. Name another folder: hedgerow examples FOLDER."
        )
    check_new(folder, "")
    copied: list[str] = []
    try:
        folder.mkdir(parents=True)
        for source in sorted(files("hedgerow.examples").iterdir(), key=lambda file: file.name):
            if source.is_file():
                with as_file(source) as path:
                    copyfile(path, folder / source.name)
                copied.append(str(folder / source.name))
    except OSError as error:
        raise InvalidValue(f"Cannot write to {folder}: {error.strerror}.") from error
    if json:
        print_json({"files": copied})
        return
    for name in copied:
        say(name)
