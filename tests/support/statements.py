"""A study with every kind of certificate, and statements made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.setting import Setting
from hedgerow.records.build import curve_record
from hedgerow.records.provenance import Code, seeded_noise
from hedgerow.records.schema import FORMAT, STAMP, RunRecord
from hedgerow.statement.statement import Details, Statement
from hedgerow_papers.gao2024.fed_svt import FedSVT
from support.certificates import Made
from support.command import Answer
from support.paths import EXAMPLES

Stated = Callable[..., Statement]
Pages = Callable[[str], dict[str, str]]

TODAY = date(2026, 11, 15)
EXAMPLE = EXAMPLES / "statement_details.toml"
STUDY = """
title = "Four ways"
seeds = 1
[environment]
name = "realizable"
clients = 3
experts = 4
horizon = 30
[[algorithms]]
name = "sparse_vector"
label = "pure"
epsilon = 0.5
[[algorithms]]
name = "sparse_vector"
label = "approximate"
delta = 1e-5
[[algorithms]]
name = "gao2024_fed_svt"
label = "published"
[[algorithms]]
name = "uniform"
[[algorithms]]
name = "hedge"
"""
SETTING = Setting(clients=3, experts=4, horizon=30)
SPECS = {
    "pure": SparseVector(epsilon=0.5),
    "approximate": SparseVector(delta=1e-5),
    "published": FedSVT(),
}


def with_curve(statement: Statement, curve: PrivacyCurve) -> Statement:
    """The same with another curve for everybody."""
    guarantees = [
        replace(g, curve=curve_record(curve), reason=None) for g in statement.algorithm.guarantees
    ]
    return replace(statement, algorithm=replace(statement.algorithm, guarantees=guarantees))


def refused(answer: Answer, message: str) -> None:
    assert answer.code == 2
    assert message in answer.err
    (line,) = answer.err.strip().splitlines()
    assert line.startswith("Error: ")
    assert answer.out == ""


def stated_game(made: Made, details: Details | None = None, runs: int = 1) -> Statement:
    """A statement of a certificate that was made by hand."""
    algorithm = made.record(runs)
    run = RunRecord(
        format=FORMAT,
        title="Made up",
        run="results",
        written="2026-11-16T10:00:00+00:00",
        played=None,
        stamp=STAMP,
        noise=seeded_noise(0, runs),
        code=Code("0" * 64, 1, None, None, {}),
        versions={"python": "3"},
        algorithms=[algorithm],
    )
    return Statement(run, algorithm, details or Details(), None, TODAY)
