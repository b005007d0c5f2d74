"""Fed-SVT under exact attack: its certificate is all but attained and never passed, and every planted bug is caught."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.algorithms.experts.hedge import Hedge
from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.core.errors import InvalidValue
from hedgerow.experiments.audit import AuditRow, cases_of, examine

FIELDS = {
    *("algorithm", "calibration", "trust", "case", "observer", "delta", "certified_epsilon", "audited_epsilon"),
    *("confidence", "ratio", "verdict", "expected", "passed"),
    *("claim", "parameters", "method", "runs"),
}


EXACT = "exact ratio"


def rows_of(spec: SparseVector, sampled: bool = False) -> list[AuditRow]:
    return [AuditRow(case, examine(case)) for case in cases_of("sparse_vector", spec) if sampled or case.method == EXACT]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.5, 10.0])
@pytest.mark.parametrize("calibration", ["certified", "published"])
def test_every_exact_verdict_is_the_expected_one(epsilon: float, calibration: Any, delta: float) -> None:
    rows = rows_of(SparseVector(epsilon=epsilon, delta=delta, calibration=calibration, best_loss=3.0))
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    assert rows[0].finding.epsilon == 0.0
    assert {row.verdict for row in rows} == {"holds", "violated"}
    worst = next(row for row in rows if row.case.name == "worst transcript")
    assert worst.finding.epsilon is not None
    assert 1.0 <= worst.certified / worst.finding.epsilon <= 1.3


def test_sampled_verdicts_of_the_approximate_version() -> None:
    """Read at delta = 1e-3, the certificate is at most 1.3 times what is shown, and half the noise is caught."""
    rows = {row.case.name: row for row in rows_of(SparseVector(epsilon=1.0, delta=1e-6), sampled=True) if row.case.method != EXACT}
    assert all(row.passed for row in rows.values()), [row.to_dict() for row in rows.values() if not row.passed]
    shown = rows["forced switches"]
    assert shown.case.delta == 1e-3
    assert shown.finding.epsilon is not None
    assert 1.0 <= shown.certified / shown.finding.epsilon <= 1.3
    assert rows["null, sampled"].finding.epsilon == rows["null, from outside"].finding.epsilon == 0.0
    assert {row.case.method for row in rows.values()} == {"glass box", "black box"}


@pytest.mark.long
@pytest.mark.parametrize("calibration", ["certified", "published"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-6), (0.5, 1e-5), (4.0, 1e-6), (10.0, 1e-9), (1.0, 0.0)])
def test_every_sampled_verdict_is_the_expected_one(epsilon: float, delta: float, calibration: Any) -> None:
    rows = rows_of(SparseVector(epsilon=epsilon, delta=delta, calibration=calibration), sampled=True)
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]


def test_too_few_runs_are_inconclusive() -> None:
    for case in cases_of("sparse_vector", SparseVector(delta=1e-6)):
        if case.method != EXACT:
            row = AuditRow(case, examine(replace(case, runs=20)))
            assert (row.verdict, row.to_dict()["audited_epsilon"], row.to_dict()["ratio"]) == ("inconclusive", None, None)


def test_rows_are_plain_values() -> None:
    rows = [row.to_dict() for row in rows_of(SparseVector())]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert all(set(row) - {"reason"} == FIELDS for row in rows)


def test_an_algorithm_without_cases_is_refused() -> None:
    with pytest.raises(InvalidValue, match="'hedge' has none"):
        cases_of("hedge", Hedge())
