"""Fed-SVT under exact attack: its certificate is all but attained and never passed, and every planted bug is caught."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hedgerow.algorithms.experts.sparse_vector import SparseVector
from hedgerow.core.errors import InvalidValue
from hedgerow.experiments.audit import audit

FIELDS = {
    *("algorithm", "calibration", "trust", "case", "observer", "delta", "certified_epsilon", "audited_epsilon"),
    *("confidence", "ratio", "verdict", "expected", "passed"),
}


@pytest.mark.parametrize("epsilon", [0.5, 10.0])
@pytest.mark.parametrize("calibration", ["certified", "published"])
def test_every_verdict_is_the_expected_one(epsilon: float, calibration: Any) -> None:
    rows = list(audit("sparse_vector", SparseVector(epsilon=epsilon, calibration=calibration)))
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    assert rows[0].finding.epsilon == 0.0
    assert {row.verdict for row in rows} == {"holds", "violated"}
    worst = next(row for row in rows if row.case.name == "worst transcript")
    assert worst.finding.epsilon is not None
    assert 1.0 <= worst.certified / worst.finding.epsilon <= 1.3


def test_rows_are_plain_values() -> None:
    rows = [row.to_dict() for row in audit("sparse_vector", SparseVector())]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert all(set(row) - {"reason"} == FIELDS for row in rows)


def test_an_algorithm_without_cases_is_refused() -> None:
    with pytest.raises(InvalidValue, match="'hedge' has none"):
        list(audit("hedge", SparseVector()))
