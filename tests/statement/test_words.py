"""Plain words: what an attacker can find out, without formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.contracts.neighbours import SEEDED, replays
from hedgerow.core.units import Client, Event, Person
from hedgerow.privacy.curves import GaussianDP, PureDP, Quoted
from hedgerow.records.build import algorithm_record, unit_record
from hedgerow.statement.files import rendered_statement
from hedgerow.statement.statement import OPEN
from hedgerow.statement.words.attackers import plain_words
from hedgerow.statement.words.conditions import composition_words
from hedgerow.statement.words.phrases import percent
from support.statements import SETTING, Stated, with_curve


def test_plain_words_say_how_often_an_attacker_is_right(stated: Stated) -> None:
    """At epsilon = ln 3 even odds become 3 to 1, and three of four guesses are right.

    At 5 false alarms in 100, 15 in 100 are found.

    In two rounds it is 9 to 1, and five of six guesses are right.
    """
    three = with_curve(stated("pure"), PureDP(1.0986122886681096))
    text = " ".join(plain_words(three))
    assert (
        "after seeing everything in all rounds they are never more than 3 to 1, "
        "and on average the guess is right" in text
    )
    assert "right at most 75 times in 100, instead of 50" in text
    assert "A person with more records is protected less: with 2 records at most 83.4," in text
    assert OPEN in text
    page = rendered_statement(three)["statement.md"]
    assert "| 1 record | 1.1 | 75 % | 3 % | 15 % | 30 % |" in page
    assert "| 2 records | 2.2 | 83.4 % | 9 % | 45 % | 76.7 % |" in page
    assert "close to no protection" not in text
    assert "close to no protection" in " ".join(
        plain_words(with_curve(stated("pure"), PureDP(8.0)))
    )
    assert "learns nothing" in plain_words(stated("uniform"))[1]


def test_odds_are_printed_only_if_delta_is_zero(stated: Stated) -> None:
    """With delta > 0, odds beyond e^epsilon are likelier than delta.

    They are nearly twenty times likelier at mu = 0.25 and delta = 1e-6.
    """
    curve = Quoted(GaussianDP(0.25), 1e-6)
    epsilon = curve.stated()[0]
    exceeded = float(
        ndtr(0.25 / 2 - epsilon / 0.25)
    )  # the log-odds are normal with mean mu^2 / 2 and deviation mu
    assert exceeded > 15e-6
    text = " ".join(plain_words(with_curve(stated("pure"), curve)))
    assert " to 1" not in text
    assert "probability" not in text
    assert f"right at most {percent(float(ndtr(0.25 / 2)))} times in 100" in text
    assert "2.72 to 1" in " ".join(plain_words(with_curve(stated("pure"), PureDP(1.0))))


ONE_RELEASE = {
    "permute-and-flip (exponential noise)": PhasedSelection(),
    "exponential mechanism (gumbel noise)": RandomPrefix(),
    "laplace": PhasedSelection(trust="local", report="laplace"),
    "gaussian, a share at each client": PhasedSelection(trust="distributed", delta=1e-6),
}


@pytest.mark.parametrize("law", ONE_RELEASE)
def test_what_a_run_costs_is_what_the_releases_cost_that_one_record_enters(
    stated: Stated, law: str
) -> None:
    """A run has many releases, each of the stated epsilon: an officer must not add them all up."""
    spec = ONE_RELEASE[law]
    entered, released = [], []
    for pair in replays(spec, Event(), SEEDED)[:30]:
        releases = pair.releases()
        entered.append(sum(not np.array_equal(a.value, b.value) for a, b in releases))
        released.append(len(releases))
    assert max(entered) == 1 < min(released)
    statement = stated("pure")
    made = algorithm_record("x", spec.build(SETTING), {"name": "x"}, "drawn")
    text = composition_words(replace(statement, algorithm=made))
    assert (
        "One record enters at most one release of a run, so the run costs it what that one" in text
    )
    assert [mechanism.law for mechanism in made.mechanisms] == [law]
    several = composition_words(replace(statement, algorithm=replace(made, entered=3)))
    assert (
        "A run costs one record what the releases that it enters (at most 3) cost together;"
        in several
    )
    assert "by a joint proof" in composition_words(statement)
    assert "depends on the data" in composition_words(stated("uniform"))


def test_units_have_a_formula() -> None:
    person = Person(4, 4)
    assert "at most 4 loss vectors" in unit_record(person).formula
    assert unit_record(person).parameters == {"records": 4, "clients": 4, "apart": 1}
    assert "all other clients" in unit_record(Client()).formula


def test_a_claim_is_stated_also_where_nothing_is_proven(stated: Stated) -> None:
    published, nobody = stated("published"), stated("hedge")
    claimed = [
        replace(g, claimed=published.claimed, claim_holds=False)
        for g in nobody.algorithm.guarantees
    ]
    text = plain_words(replace(nobody, algorithm=replace(nobody.algorithm, guarantees=claimed)))[-1]
    sentence = (
        "the paper claims epsilon = 1, delta = 0; "
        "proven here is NO GUARANTEE: THE CLAIM IS NOT SUPPORTED"
    )
    assert sentence in text
