"""Statements of games beyond experts with losses: the words follow from the certificate."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hedgerow.core.certificate import Certificate, PrivacyCurve
from hedgerow.core.convex import CrossEntropy, Logistic, SquaredError
from hedgerow.core.errors import InvalidValue
from hedgerow.core.losses import Gains
from hedgerow.core.rounding import rounded_up
from hedgerow.core.units import Client, Event, Person
from hedgerow.privacy import PureDP, of_records
from hedgerow.privacy.composition.groups import of_one_person
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    Quoted,
    ZeroConcentratedDP,
    trade_off,
)
from hedgerow.records.build import algorithm_record, curve_of, curve_record
from hedgerow.records.schema import FILE, read_record, record_to_json
from hedgerow.statement.exposure import SHOWN_ALARMS, exposure
from hedgerow.statement.files import rendered_statement
from hedgerow.statement.statement import Details
from hedgerow.statement.words.conditions import horizon_words, recorded_words
from hedgerow.statement.words.phrases import percent
from hedgerow.studies.study import budget_notes
from support.certificates import CURVE, MADE, MU, Made
from support.command import Command
from support.statements import stated_game

POINTS = [name for name, made in MADE.items() if made.plays == "point"]
TEXTS = ("statement.md", "statement.html", "registry.yaml", "statement.json")


@cache
def _files(name: str) -> dict[str, str]:
    return rendered_statement(stated_game(MADE[name]))


def _page(name: str) -> str:
    return _files(name)["statement.md"].replace("\\", "")


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("file", TEXTS)
def test_a_game_of_points_has_no_experts_and_no_loss_vectors(name: str, file: str) -> None:
    text = _files(name)[file].lower()
    for word in ("expert", "loss vector", "follow the", "follows;", "switch, a change"):
        assert word not in text.replace("what follows holds", "")
    assert "with everyone in it" not in text
    assert "coordinates" in text


SENTENCES = {
    "silo": (
        "Unit: one gain of one client in one round. One record is what one client reports",
        "replace one gain g_(i,t) in [-1,1] of one client in one round. D ~ D' if, for "
        "some client i and round t, g_(j,s) = g'_(j,s) for all (j,s) other than (i,t), "
        "and the side information is the same; gains in [-1, 1].",
        "k of them cost sqrt(k) times mu = 0.5.",
        "decider, a player that reports nothing (clients report and do not play)",
        "expert, a model or rule that a decider may follow",
        "gain, how well the expert of one client did in one round",
        "broadcasts, what it sends to clients and deciders; "
        "plays, which expert each decider follows; ",
        "game, all rounds (there is no last round).",
        "Horizon: none; the game has no last round. "
        "The stated numbers hold for any number of rounds.",
        "The budget is never exceeded: the stated numbers cover every release, "
        "however long the game lasts.",
        "A decider sees no more than another client does.",
        "the side information of each client and round: public",
        "the numbers of clients, deciders, experts and rounds, and all parameters: public",
        "gains, and regret or tables computed from them: raw data to be kept secret",
        "Setting: clients = 5, experts = 3, horizon = none, deciders = 1, family = gains (low ",
    ),
    "gains": (
        "Unit: one gain vector of one client in one round. One record is what one client reports",
        "replace one gain vector g_(i,t) in [-1,1]^d of one client in one round.",
        "gain vector, how well each expert did at one client in one round",
        "gains in [-1, 1].",
    ),
    "learner": (
        "Unit: one example of one client in one round. One record is one such example: ",
        "replace one example z_(i,t) (features of norm at most 1, target in [-1,1]) of one client "
        "in one round. D ~ D' if, for some client i and round t, z_(j,s) = z'_(j,s) for all (j,s) "
        "other than (i,t); losses in [0, 2].",
        "point, the numbers of a model that a client may use; "
        "example, features and a target at one client in one round; uploads, what clients send",
        "plays, which point each client uses;",
        "All releases of a run together are one Gaussian vector, and one record changes only its mean. "
        "The cost is the length of that change divided by the scale of the noise.",
        "examples, and losses, regret or tables computed from them: raw data to be kept secret",
        "what is true of many records (which point is good): learned on purpose",
        "influences later rounds only through what is published: no readmissions",
        "A person with k records gets k times epsilon (and a larger delta).",
        "Setting: clients = 5, coordinates = 3, horizon = 100, family = squared error (feature norm 1",
    ),
    "population": (
        "a person whose data are in one round at one client, "
        "given that the client reported in that round.",
        "for all (j,s) other than (i,t), and the same clients report; losses in [0, 1].",
        "which clients report in which round: public",
        "losses, and regret or tables computed from them: raw data to be kept secret",
        "One record enters at most one release of a run, so the run costs it what",
    ),
    "persons": (
        "Unit: one person with at most 2 records across clients. "
        "A person with more records is not covered.",
        "replace at most 2 examples z_(i,t) (features of norm at most 1, target in [-1,1]), "
        "all of one person, of any clients. "
        "D ~ D' if they differ in at most 2 examples, all of one person; losses in [0, 2].",
        "which of two things is true of one person with at most 2 records across clients.",
        "| one person | 2.26 | 1e-6 |",
        "One person in one run: delta at other values of epsilon.",
        "The data of one person enter at most one release of a run, "
        "so the run costs this person what",
    ),
    "sites": (
        "Unit: all the data of one client. "
        "It covers every person whose records are all at one client.",
        "replace all examples z_(i,t) (features of norm at most 1, target in [-1,1]) of one "
        "client. D ~ D' if, for some client i, z_(j,s) = z'_(j,s) for all other clients j and all "
        "rounds s; losses in [0, 2].",
        "An attack answers A or B about a client;",
        "| one client | 2.26 | 1e-6 |",
        "NO GUARANTEE against the server: clients send the server exact values.",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_what_a_statement_says(name: str) -> None:
    page = _page(name)
    assert [text for text in SENTENCES[name] if text not in page] == []


@pytest.mark.parametrize("name", MADE)
def test_a_statement_leaves_out_what_there_is_none_of(name: str) -> None:
    """These algorithms have no choices, and their code is one file."""
    page = _page(name)
    assert "Setting: clients = " in page
    assert "Chosen" not in page
    assert "(1 file)" in page


def test_the_registry_record_names_the_data() -> None:
    domains = {
        "silo": "streams of gains of 3 experts at 5 clients in any number of rounds, "
        "each gain in [-1, 1]",
        "learner": "streams of examples, with points of 3 coordinates, at 5 clients in 100 rounds, "
        "each loss in [0, 2]",
        "population": "streams of losses of 3 experts at 1000 clients in 100 rounds, "
        "each loss in [0, 1]",
    }
    for name, text in domains.items():
        assert f"data_domain: {text}\n" in _files(name)["registry.yaml"]
    assert "post_processing: Deciders follow what" in _files("silo")["registry.yaml"]
    assert "post_processing: Clients use what" in _files("learner")["registry.yaml"]


@pytest.mark.parametrize(("separate", "factor"), [(True, 2.0), (False, 4.0)])
def test_records_cost_by_the_mechanism(separate: bool, factor: float) -> None:
    """Four records: sqrt(4) mu if they enter separate releases, 4 mu if they enter one."""
    certificate: Certificate = replace(MADE["population"], separate=separate).certificate
    assert of_records(certificate, certificate.public, 4) == Quoted(GaussianDP(factor * MU), 1e-6)
    assert of_records(certificate, certificate.public, 1) == CURVE
    persons = MADE["persons"].certificate
    with pytest.raises(InvalidValue, match="Expected k=2 to be 1: the unit is one person with at"):
        of_records(persons, persons.public, 2)


@pytest.mark.parametrize("records", [2, 5, 10])
@pytest.mark.parametrize("runs", [1, 3])
def test_the_table_of_separate_records_is_that_of_the_whole_curve(records: int, runs: int) -> None:
    whole = Quoted(GaussianDP((records * runs) ** 0.5 * MU), 1e-6)
    statement = stated_game(MADE["population"], runs=runs)
    point = statement.of_records(records)
    assert point is not None
    assert (point.epsilon, point.delta) == pytest.approx(whole.stated(), rel=1e-12)
    found = [percent(1 - float(trade_off(whole, alarms))) for alarms in SHOWN_ALARMS]
    bet = percent((1 + whole.delta(0.0)) / 2)
    row = f"| {records} records | {rounded_up(whole.stated()[0], 3)} | 1e-6 | {bet} % |"
    page = rendered_statement(statement)["statement.md"]
    assert f"{row} {' | '.join(f'{share} %' for share in found)} |" in page
    together = f"with {records} records at most {bet}"
    assert together in page
    alone = stated_game(replace(MADE["population"], separate=False), runs=runs).of_records(records)
    assert alone is not None
    assert alone.epsilon > point.epsilon
    assert (
        "sqrt(k)"
        not in rendered_statement(stated_game(replace(MADE["population"], separate=False)))[
            "statement.md"
        ]
    )


SEPARATE = [
    PureDP(0.5),
    LaplaceDP(0.5),
    BoundedRange(0.25),
    GaussianDP(0.3),
    ZeroConcentratedDP(0.02),
    ApproximateDP(0.5, 1e-4),
    Quoted(GaussianDP(0.3), 1e-5),
]


@pytest.mark.parametrize("curve", SEPARATE)
def test_no_attack_on_separate_records_beats_what_is_stated(curve: PrivacyCurve) -> None:
    record = curve_record(curve)
    assert record is not None
    assert curve_of(record) == curve
    whole = of_one_person(curve, 4, separate_reports=True)
    shown = exposure(record, None, 4, separate=True)
    assert shown.even_guess == (1 + whole.delta(0.0)) / 2
    assert shown.found == pytest.approx(1 - trade_off(whole, SHOWN_ALARMS), abs=1e-9)
    assert whole.delta(shown.epsilon) <= shown.delta * (1 + 1e-12)
    assert (shown.delta == 0) == (record.delta == 0)


def test_a_curve_that_is_not_read_back_costs_what_a_group_costs() -> None:
    """A changed number, or a kind that another package brings, is never taken for the curve."""
    record = curve_record(CURVE)
    assert record is not None
    for changed in (
        replace(record, kind="Custom"),
        replace(record, epsilon=2 * record.epsilon),
        replace(record, parameters={**record.parameters, "curve": {"kind": "Custom"}}),
    ):
        assert curve_of(changed) is None
        assert exposure(changed, None, 2, separate=True) == exposure(changed, None, 2)


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    for made in MADE.values():
        run = stated_game(made).run
        (tmp_path / FILE).write_text(json.dumps(record_to_json(run), allow_nan=False))
        assert read_record(tmp_path) == run


def test_a_game_without_a_last_round_is_never_over() -> None:
    statement = stated_game(MADE["silo"])
    played = [replace(statement, run=replace(statement.run, played=n)) for n in (0, 7)]
    assert recorded_words(played[0]) == "recorded on 2026-11-16, before the first round"
    assert recorded_words(played[1]) == "recorded on 2026-11-16, after round 7"
    many = stated_game(MADE["silo"], Details(records_per_client=10**6, clients_per_person=5))
    assert "A person may have 5000000 records" in rendered_statement(many)["statement.md"]
    for text in ("game is over", "None", "up to the horizon"):
        assert text not in _page("silo")
    limited = [replace(g, horizon=60) for g in statement.algorithm.guarantees]
    stopped = replace(statement, algorithm=replace(statement.algorithm, guarantees=limited))
    assert horizon_words(stopped)[0].startswith("Horizon: 60 rounds; the stated numbers cover all")


def test_persons_beyond_the_unit_are_refused() -> None:
    wide, narrow = MADE["persons"], replace(MADE["persons"], about=Person(2))
    stated_game(wide, Details(records_per_client=1, clients_per_person=2))
    with pytest.raises(InvalidValue, match="Expected records of one person=4 to be covered"):
        stated_game(wide, Details(records_per_client=2, clients_per_person=2))
    with pytest.raises(InvalidValue, match="Expected clients_per_person=2 to be covered"):
        stated_game(narrow, Details(records_per_client=1, clients_per_person=2))
    page = rendered_statement(stated_game(narrow))["statement.md"]
    assert "A person with more records, or at several clients, is not covered." in page


def test_a_certificate_about_other_records_is_refused() -> None:
    """A statement must not call an example a loss vector."""
    for name in ("silo", "gains", "learner"):
        wrong = replace(MADE[name].algorithm, certificate=Made().certificate)
        with pytest.raises(
            InvalidValue, match="is about a record called 'loss vector', but in this game"
        ):
            algorithm_record("wrong", wrong, {"name": "wrong"}, "drawn")


def test_units_speak_of_their_records() -> None:
    gains, points = Gains(-1.0, 1.0).record, SquaredError().record
    assert Event(record=gains).words() == "one gain vector of one client in one round"
    assert Person(1).words() == "one person with one record"
    assert Person(1).formula() == (
        "D ~ D' if they differ in at most 1 loss vector, all of one person"
    )
    assert "z_(j,s) = z'_(j,s) for all other clients" in Client(record=points).formula()
    assert Gains(0.0, (1.0, 40.0)).record.placed == "g_(i,t) with every gain in its declared range"
    assert Logistic(2.0).record.placed == "z_(i,t) (features of norm at most 2, label -1 or 1)"
    assert CrossEntropy().record.placed == "p_(i,t) in the simplex"
    assert MADE["silo"].certificate.public.bounds == (-1.0, 1.0)
    assert "later gains depend" in str(MADE["silo"].certificate.public.assumes)
    assert "later examples depend" in str(MADE["learner"].certificate.public.assumes)


def test_notes_about_experts_are_for_experts() -> None:
    assert budget_notes(MADE["learner"].algorithm) == []
    many = replace(MADE["learner"], clients=10**6).algorithm
    assert "delta = 1e-06 is large for 100000000 examples:" in budget_notes(many)[0]


def test_certify_takes_a_game_without_a_horizon(hedgerow: Command) -> None:
    refused = hedgerow("certify", "sparse_vector", "--set", "horizon=none")
    assert refused.code == 2
    assert "SparseVector needs a horizon." in refused.err
