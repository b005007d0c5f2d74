"""A statement as plain values, for JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Any

from hedgerow.statement.statement import Quote, Statement, of_records
from hedgerow.statement.words import plain_words

FORMAT = "hedgerow privacy statement 1"


def _point(point: Quote, records: int) -> dict[str, float]:
    epsilon, delta = of_records(point, records)
    return {"epsilon": epsilon, "delta": delta}


def document(statement: Statement) -> dict[str, Any]:
    """The statement as plain values; numbers are those of the certificate, unrounded."""
    run, details = statement.run, statement.details
    persons, point = None, statement.all_runs
    if statement.by_person and details.records_per_site is not None and point is not None:
        persons = {
            "records_per_site": details.records_per_site,
            "sites_per_person": details.sites_per_person,
            "at_one_site": _point(point, details.records_per_site),
            "across_sites": None if statement.most is None else _point(point, statement.most),
        }
    return {
        "format": FORMAT,
        "stamp": statement.stamp,
        "title": statement.title,
        "written": str(statement.written),
        "expires": None if details.expires is None else str(details.expires),
        "plain_words": plain_words(statement),
        "run": {"folder": run.run, "title": run.title, "written": run.written, "played": run.played},
        **asdict(statement.algorithm),
        "person": persons,
        "noise": asdict(run.noise),
        "versions": run.versions,
        "code": asdict(run.code),
        "ledger": None,
        "audit": None if statement.audit is None else {**asdict(statement.audit), "passed": statement.audit.passed},
        "details": {key: str(value) if isinstance(value, date) else value for key, value in asdict(details).items()},
        "open": list(details.open),
    }
