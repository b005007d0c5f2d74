"""A statement as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Any

from hedgerow.statement.statement import Statement
from hedgerow.statement.words import plain_words

FORMAT = "hedgerow privacy statement 1"


def _point(statement: Statement, records: int) -> dict[str, float] | None:
    point = statement.of_records(records)
    return None if point is None else asdict(point)


def document(statement: Statement) -> dict[str, Any]:
    """The statement as plain values, with the unrounded numbers of the certificate."""
    run, details = statement.run, statement.details
    persons = None
    if (
        statement.by_person
        and details.records_per_site is not None
        and statement.all_runs is not None
    ):
        persons = {
            "records_per_site": details.records_per_site,
            "sites_per_person": details.sites_per_person,
            "at_one_site": _point(statement, details.records_per_site),
            "across_sites": None if statement.most is None else _point(statement, statement.most),
        }
    return {
        "format": FORMAT,
        "stamp": statement.stamp,
        "title": statement.title,
        "written": str(statement.written),
        "expires": None if details.expires is None else str(details.expires),
        "plain_words": plain_words(statement),
        "run": {
            "folder": run.run,
            "title": run.title,
            "written": run.written,
            "played": run.played,
        },
        **asdict(statement.algorithm),
        "person": persons,
        "noise": asdict(run.noise),
        "versions": run.versions,
        "code": asdict(run.code),
        "ledger": None,
        "audit": None
        if statement.audit is None
        else {**asdict(statement.audit), "passed": statement.audit.passed},
        "details": {
            key: str(value) if isinstance(value, date) else value
            for key, value in asdict(details).items()
        },
        "open": list(details.open),
    }
