"""Read the record in a run folder. Errors name what is missing, broken or of another version."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from hedgerow.core.errors import InvalidValue
from hedgerow.records.schema import FILE, FORMAT, RunRecord
from hedgerow.version import __version__


def check_format(file: Path, known: str) -> None:
    """Raise if another version wrote the file. This comes before its content is checked."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        return  # not JSON: the validation that follows says where
    if isinstance(found, dict) and found.get("format") != known:
        rule = f"to be {known!r}, which hedgerow {__version__} reads"
        raise InvalidValue(
            f"Expected format={found.get('format')!r} in {file} {rule}. "
            "Run it again, or use the version that wrote it."
        )


def read_record(run: Path) -> RunRecord:
    """Read the record of a run folder."""
    if run.is_file():
        raise InvalidValue(f"{run} is a file, not a run folder. Give the folder {run.parent}.")
    if not run.is_dir():
        raise InvalidValue(f"There is no run folder at {run}. Check the path.")
    file = run / FILE
    if not file.is_file():
        if not (run / "config.toml").is_file():
            inside = sorted(str(found.parent) for found in run.glob(f"*/{FILE}"))
            hint = (
                f"Choose one of the runs in it: {', '.join(inside)}."
                if inside
                else "Give a folder that `hedgerow run` or `record_deployment` wrote."
            )
            raise InvalidValue(f"{run} is not a run folder: it has no {FILE}. {hint}")
        raise InvalidValue(
            f"There is no certificate at {file}: the run is incomplete or older than statements. "
            "Run it again."
        )
    try:
        check_format(file, FORMAT)
        record = TypeAdapter(RunRecord).validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        text = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise InvalidValue(
            f"{file} is not as `hedgerow run` writes it: {where}: {text}. Run it again."
        ) from error
    for algorithm in record.algorithms:
        if not algorithm.guarantees:
            raise InvalidValue(
                f"{file} has no certificate for {algorithm.label!r}: its guarantees are missing. "
                "Run it again."
            )
    if not record.algorithms:
        raise InvalidValue(f"{file} has no certificate: it names no algorithm. Run it again.")
    return record
