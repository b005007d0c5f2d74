"""Structured logs: one JSON object in each line, and nothing that a study protects.

A line holds an event from the code and facts that the code names: counts, codes, names of clients.
Errors are logged by type and place. Their texts are not, because a text may quote a value.
"""

from __future__ import annotations

import errno
import json
import logging
import sqlite3
import ssl
import sys
import traceback
from datetime import UTC, datetime
from typing import TextIO

from hedgerow.core.text import one_line

Fact = str | int | float | bool | None
LOGGER = logging.getLogger("hedgerow.deployment")
LONGEST = 200  # characters of one fact
OTHERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON.

    >>> record = logging.makeLogRecord({"msg": "joined", "levelno": 20, "levelname": "INFO"})
    >>> record.facts = {"client": "north", "exchange": 3}
    >>> JsonLines().format(record)
    '{"time": "...", "level": "info", "event": "joined", "client": "north", "exchange": 3}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line, without the text of an error."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Fact] = {
            "time": moment,
            "level": record.levelname.lower(),
            "event": _short(record.getMessage()),
        }
        for name, fact in getattr(record, "facts", {}).items():
            line[name] = _short(fact) if isinstance(fact, str) else fact
        if record.exc_info and record.exc_info[1] is not None:
            line |= place_of(record.exc_info[1])
        return json.dumps(line)


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def place_of(error: BaseException) -> dict[str, Fact]:
    """What kind of error it is, where it was raised and the system's word for it; not its text.

    A full disk is SQLITE_FULL or ENOSPC; a key of another certificate, KEY_VALUES_MISMATCH.

    >>> try:
    ...     raise ValueError("a secret")
    ... except ValueError as error:
    ...     place_of(error)["error"]
    'ValueError'
    """
    steps = traceback.extract_tb(error.__traceback__)
    where = f"{steps[-1].filename.rpartition('/')[2]}:{steps[-1].lineno}" if steps else "unknown"
    found: dict[str, Fact] = {"error": type(error).__name__, "at": where}
    cause = error.__cause__ or error
    if isinstance(cause, sqlite3.Error):
        found["because"] = getattr(cause, "sqlite_errorname", "SQLITE_ERROR")
    elif isinstance(cause, ssl.SSLError):  # its errno is none of the system's
        found["because"] = cause.reason or "SSLError"
    elif isinstance(cause, OSError) and cause.errno is not None:
        found["because"] = errno.errorcode.get(cause.errno, "OSError")
    return found


def start_logs(level: str = "info", stream: TextIO | None = None) -> None:
    """Send all logs of this process to a stream, by default standard error."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    for name in (LOGGER.name, *OTHERS):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name in (LOGGER.name, "uvicorn", "asyncio") else []
        logger.propagate = name.startswith("uvicorn.")
        logger.setLevel(level.upper() if name == LOGGER.name else logging.WARNING)


def log(event: str, level: int = logging.INFO, **facts: Fact) -> None:
    """Write one event with its facts. Never pass a value that a study protects."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"facts": facts})


def log_error(event: str, error: BaseException, **facts: Fact) -> None:
    """Write one event with the type and place of an error, without its text."""
    log(event, logging.ERROR, **facts, **place_of(error))
