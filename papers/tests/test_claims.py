"""The registry of claims: quotations, verdicts and places that exist."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from hedgerow.core.certificate import Proof
from hedgerow.core.registry import EXPERIMENTS
from hedgerow_papers import counterexamples
from hedgerow_papers.claims import COLUMNS, _cell, page, papers
from hedgerow_papers.experiments.experiment import Holds
from hedgerow_papers.stored import stored

CLAIMS = {
    f"{name}.{key}": claim
    for name, paper in papers().items()
    for key, claim in paper.claims.items()
}
OWN = {"cesari2026-horizon", "certified-vs-published", "distance-to-lower-bound"}  # not of the five


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_can_be_followed(name: str) -> None:
    claim = CLAIMS[name]
    assert claim.holds in (*get_args(Holds), "not judged")
    assert claim.truth or claim.holds == "as printed"
    assert claim.proof or claim.experiment or claim.command
    if claim.proof:
        assert Proof(*claim.proof.split("#")).read()
    if claim.experiment:
        assert claim.experiment in EXPERIMENTS
    if "counterexamples" in claim.command:
        assert counterexamples.main([claim.command.rsplit(" ", 1)[1]]) == 0


@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) - OWN))
def test_an_experiment_with_a_verdict_quotes_its_claim(name: str) -> None:
    row = stored()["experiments"].get(name)
    quoted = [claim for claim in CLAIMS.values() if EXPERIMENTS[name].claim == claim.quote]
    if name.split("-", maxsplit=1)[0] in papers() or (row is not None and row["holds"]):
        (claim,) = quoted
        assert claim.experiment == name
    for claim in quoted:
        assert row is None or (row["holds"] or "not judged") == claim.holds


def test_the_page_is_one_table_with_every_claim() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(papers()) + len(CLAIMS)
    for line in rows:
        assert len(re.split(r"(?<!\\)\|", line)) == len(COLUMNS) + 2
    for claim in CLAIMS.values():
        (row,) = (line for line in rows if f"“{_cell(claim.quote)}”" in line)
        assert _cell(claim.truth) in row
        assert _cell(claim.command) in row


def test_every_counterexample_is_that_of_a_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert counterexamples.main(["?"]) == 2
    known = capsys.readouterr().err.partition("Known: ")[2].strip(".\n").split(", ")
    shown = [c.command.rsplit(" ", 1)[1] for c in CLAIMS.values() if "counter" in c.command]
    assert sorted(shown) == known
    assert counterexamples.main([]) == 0  # without names, all
    printed = capsys.readouterr().out
    assert all(getattr(counterexamples, name).__doc__.splitlines()[0] in printed for name in known)
