"""All audits of an algorithm, with the verdicts that they must have."""

from __future__ import annotations

from hedgerow.audits.runner import AuditRow, attack, cases_of
from hedgerow.core.protocol import AlgorithmSpec


def attacked(name: str, spec: AlgorithmSpec, *, real: bool = True) -> list[AuditRow]:
    """The audits of a specification; `real`: with those that look at real runs."""
    cases = [case for case in cases_of(name, spec) if real or not case.runs]
    rows = [AuditRow(case, attack(case)) for case in cases]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    return rows
