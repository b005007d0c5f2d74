"""The registry of claims: quotations, verdicts and places that exist."""

from __future__ import annotations

from typing import get_args

import pytest

from hedgerow.core.certificate import Proof
from hedgerow.experiments.experiment import Holds
from hedgerow.experiments.registry import EXPERIMENTS
from hedgerow_papers import counterexamples
from hedgerow_papers.claims import Claim, page, papers
from hedgerow_papers.stored import stored

CLAIMS = {
    f"{name}.{key}": claim
    for name, paper in papers().items()
    for key, claim in paper.claims.items()
}
OWN = {"cesari2026-horizon", "near-realizable"}  # their papers are not among the five


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_can_be_followed(name: str) -> None:
    claim = CLAIMS[name]
    assert claim.holds in get_args(Holds)
    assert claim.truth or claim.holds == "as printed"
    assert claim.proof or claim.experiment or claim.command
    if claim.proof:
        assert Proof(*claim.proof.split("#")).read()
    if claim.experiment:
        assert claim.experiment in EXPERIMENTS
    if "counterexamples" in claim.command:
        assert hasattr(counterexamples, claim.command.rsplit(".", 1)[1])


@pytest.mark.parametrize("name", [n for n in EXPERIMENTS if n.split("-")[0] in papers()])
def test_an_experiment_of_a_paper_quotes_its_claim(name: str) -> None:
    (claim,) = judged_by(name)
    assert EXPERIMENTS[name].claim == claim.quote
    row = stored()["experiments"].get(name)
    if row is not None and row["holds"] is not None:
        assert row["holds"] == claim.holds


def judged_by(name: str) -> list[Claim]:
    """The claims whose quotation an experiment has."""
    return [claim for claim in CLAIMS.values() if EXPERIMENTS[name].claim == claim.quote]


def test_the_page_has_every_claim() -> None:
    text = page()
    for claim in CLAIMS.values():
        assert f"> {claim.quote}\n" in text
        assert claim.truth in text
