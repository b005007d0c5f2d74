"""Audits in a statement: their parameters, and unexpected verdicts."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.audits.case import WHOLE
from hedgerow.audits.cases.sparse_vector import cases
from hedgerow.audits.registry import AUDITS
from hedgerow.records.build import choices_of
from hedgerow.statement.audit import Audit, AuditedCase, audit_difference, audit_now
from hedgerow.statement.words.attackers import audit_words
from support.command import Command
from support.statements import Stated, refused


@pytest.fixture
def quick_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null, the worst transcript and one planted error."""
    monkeypatch.setitem(
        AUDITS._things,
        "sparse_vector",
        lambda spec: tuple(c for c in cases(spec) if c.name in KEPT),
    )


KEPT = ("null: the same stream twice", "worst transcript", "four fifths of the selection noise")


def test_an_audit_of_other_parameters_is_not_quoted_as_one_of_these(stated: Stated) -> None:
    """A game with a larger budget shows more than the page promises: its numbers stay off it."""

    def row(
        case: str,
        method: str,
        claim: str,
        parameters: dict[str, Any],
        certified: float,
        audited: float,
    ) -> AuditedCase:
        return AuditedCase(
            case, claim, parameters, method, 0.0, certified, audited, "holds", "holds", True
        )

    rows = [
        row("worst transcript", "exact ratio", WHOLE, {"threshold": 3.5}, 0.5, 0.49),
        row("many belows", "exact ratio", "answers alone", {"threshold": 3.5}, 0.9, 0.8),
        row(
            "one switch",
            "exact releases",
            "one selection alone",
            {"epsilon": 4.0, "switches": 1},
            2.0,
            1.489,
        ),
    ]
    statement = stated("pure")
    audit = Audit("sparse_vector", {"epsilon": 0.5}, statement.run.code.sha256, rows)
    text = audit_words(replace(statement, audit=audit))
    assert (
        "Strongest attack by exact ratio (worst transcript, played with threshold = 3.5): "
        "epsilon >= 0.49 shown, 0.5 certified there" in text
    )
    assert (
        "By exact releases, a version with other parameters (epsilon = 4, switches = 1) was attacked: "
        "it held." in text
    )
    assert "seeded noise" in text
    assert not re.search(r"1\.489|0\.8\b|2 certified|these parameters", text)


@pytest.mark.usefixtures("quick_audits")
def test_an_audit_is_stated(made: Command, tmp_path: Path) -> None:
    answer = made("statement", "results", "--audit")
    assert answer.code == 0
    page = (tmp_path / "results" / "statement" / "private" / "statement.md").read_text()
    assert re.search(
        r"^No attack got past the guarantee: 2 tried\. "
        r"1 of 1 planted errors was caught\.",
        page,
        re.M,
    )
    assert re.search(
        r"exact ratio \(worst transcript, played with threshold = [\d.]+\): epsilon >= (?:4\.\d+|5) "
        r"shown, 5 certified there, at delta = 0\.",
        page,
    )
    assert (
        "not audited" in (tmp_path / "results" / "statement" / "hedge" / "statement.md").read_text()
    )


@pytest.mark.usefixtures("quick_audits")
def test_an_audit_from_a_file_must_be_of_this_run(made: Command, tmp_path: Path) -> None:
    audit = tmp_path / "audit.json"
    audit.write_text(made("audit", "sparse_vector", "--set", "epsilon=5.0", "--json").out)
    answer = made("statement", "results", "--audit-file", "audit.json", "--json")
    audits = {row["label"]: row["audit"] for row in answer.document()["statements"]}
    assert audits["hedge"] is None
    assert audits["private"]["passed"]
    assert len(audits["private"]["rows"]) == 3
    audit.write_text(made("audit", "sparse_vector", "--set", "epsilon=2.0", "--json").out)
    refused(
        made("statement", "results", "--audit-file", "audit.json"),
        "it audited epsilon=2.0 but the run has epsilon=5.0",
    )


@pytest.mark.usefixtures("quick_audits")
def test_a_failed_audit_is_loud_and_fails(made: Command, tmp_path: Path) -> None:
    audit = made("audit", "sparse_vector", "--set", "epsilon=5.0", "--json").document()
    audit["rows"][1].update(verdict="violated", passed=False)
    audit["code"] = "0" * 64
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    answer = made("statement", "results", "--audit-file", "audit.json")
    assert answer.code == 1
    page = (tmp_path / "results" / "statement" / "private" / "statement.md").read_text()
    assert (
        "**NOT EVERY VERDICT IS AS EXPECTED: worst transcript (violated, expected holds)." in page
    )
    assert "is not that of the run" in page


def test_what_is_of_the_game_is_no_parameter_of_the_audit(
    stated: Stated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Absent clients and clients alone are choices of the game: the algorithm is audited."""
    audited: list[Any] = []
    monkeypatch.setattr(
        "hedgerow.statement.audit.audit_rows", lambda name, spec, progress: audited.append(spec)
    )
    monkeypatch.setattr(
        "hedgerow.statement.audit.audit_document",
        lambda name, spec, rows: asdict(Audit(name, choices_of(spec), "0" * 64, [])),
    )
    plain = stated("pure").algorithm
    for more in ({"absent": True}, {"alone": True}):
        algorithm = replace(plain, choices={**plain.choices, **more})
        audit = audit_now(algorithm, lambda _: None)
        assert audit is not None
        assert audited.pop() == SparseVector(epsilon=0.5)
        assert audit_difference(audit, algorithm) is None
