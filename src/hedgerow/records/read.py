"""From a folder back to the record that was written there; anything missing, broken or of another version is named."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from hedgerow.core.errors import InvalidValue
from hedgerow.records.schema import FILE, FORMAT, RunRecord
from hedgerow.version import __version__


def check_format(file: Path, known: str) -> None:
    """Another version's file is named as such, before anything in it is found wrong."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        return  # not a record at all: whoever validates it says where
    if isinstance(found, dict) and found.get("format") != known:
        rule = f"to be {known!r}, which hedgerow {__version__} reads"
        raise InvalidValue(
            f"Expected format={found.get('format')!r} in {file} {rule}: run it again, or use the version that wrote it."
        )


def read_record(run: Path) -> RunRecord:
    """The record of a run folder."""
    if run.is_file():
        raise InvalidValue(
            f"Expected a run folder, {run} is a file: give the folder, {run.parent}."
        )
    if not run.is_dir():
        raise InvalidValue(f"Expected a run folder at {run}, there is none.")
    file = run / FILE
    if not file.is_file():
        if not (run / "config.toml").is_file():
            inside = sorted(str(found.parent) for found in run.glob(f"*/{FILE}"))
            hint = f"; it holds the runs {', '.join(inside)}" if inside else ""
            raise InvalidValue(
                f"Expected {run} to be a run folder, as `hedgerow run` or `record_deployment` writes it: it has no {FILE}{hint}."
            )
        raise InvalidValue(
            f"Expected a certificate in {file}, there is none: the run is incomplete or older than statements. Run it again."
        )
    try:
        check_format(file, FORMAT)
        record = TypeAdapter(RunRecord).validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        told = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise InvalidValue(
            f"Expected {file} as `hedgerow run` writes it; {where}: {told}."
        ) from error
    for algorithm in record.algorithms:
        if not algorithm.guarantees:
            raise InvalidValue(
                f"Expected a certificate for {algorithm.label!r} in {file}, it has no guarantee for anybody."
            )
    if not record.algorithms:
        raise InvalidValue(f"Expected a certificate in {file}, it names no algorithm.")
    return record
