"""Privacy statements: every number is the certificate's, simulations and missing guarantees are loud, bad input is named."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from matplotlib.text import Text
from scipy.special import ndtr

import conftest
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.audits.case import WHOLE
from hedgerow.audits.cases.sparse_vector import cases
from hedgerow.audits.registry import AUDITS
from hedgerow.contracts.neighbours import neighbours
from hedgerow.contracts.neighbours import record as ledger
from hedgerow.core.certificate import Observer, Person, PrivacyCurve, Site
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import SeededNoise
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.groups import group
from hedgerow.privacy.curves import ApproximateDP, BoundedRange, GaussianDP, LaplaceDP, PureDP, Quoted, ZeroConcentratedDP, trade_off
from hedgerow.privacy.curves.pure import rounded_up
from hedgerow.privacy.secure import SecureNoise
from hedgerow.records.provenance import hash_of, secure_noise
from hedgerow.records.schema import Attack, UnitRecord, _curve, algorithm_record, read_record, record_of
from hedgerow.statement.audit import Audit, AuditedCase
from hedgerow.statement.details import OPEN, Details, read_details
from hedgerow.statement.document import document
from hedgerow.statement.exposure import exposure, of_records, outline
from hedgerow.statement.files import FILES, rendered, write
from hedgerow.statement.picture import draw
from hedgerow.statement.registry import record, to_yaml
from hedgerow.statement.statement import Statement, chosen, folder_names
from hedgerow.statement.words import audit_words, collusion_words, composition_words, formula, is_loud, percent, plain_words
from hedgerow.studies.config import load
from hedgerow.studies.run import STAMP, run_study
from hedgerow.studies.storage.folder import write_study
from support.command import Answer, Command
from support.paths import EXAMPLES

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
name = "sparse_vector"
label = "published"
calibration = "published"
[[algorithms]]
name = "uniform"
[[algorithms]]
name = "hedge"
"""
SETTING = Setting(clients=3, experts=4, horizon=30)
SPECS = {
    "pure": SparseVector(epsilon=0.5),
    "approximate": SparseVector(delta=1e-5),
    "published": SparseVector(calibration="published"),
}

ONE_RELEASE = {
    "permute-and-flip (exponential noise)": PhasedSelection(),
    "exponential mechanism (gumbel noise)": RandomPrefix(),
    "laplace": PhasedSelection(trust="local", report="laplace"),
    "gaussian, a share at each site": PhasedSelection(trust="distributed", delta=1e-6),
}

# The registry's fields and values, as its schema lists them.
SCHEMA: dict[str, dict[str, Any]] = {
    "basic": {
        "name": str,
        "data_curators": list,
        "intended_use": str,
        "data_product_type": str,
        "data_product_region": str,
        "description": str,
        "publication_date": str,
        "data_product_sector": str,
    },
    "dp_variant": {
        "variant_name": ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
        "data_domain": str,
        "unprotected_quantities": str,
    },
    "privacy_loss": {
        "privacy_unit": str,
        "privacy_unit_details": str,
        "privacy_parameters": {"epsilon", "delta", "rho"},
        "privacy_parameters_details": str,
    },
    "deployment_model": {
        "model_name": ("Local", "Central", "Shuffle", "Federated", "Varies"),
        "model_name_details": str,
        "actors": str,
        "release_type": ("One release", "Many releases"),
        "release_type_details": str,
        "data_source_type": ("Static", "Dynamic"),
        "access_type": ("Interactive", "Non-interactive"),
        "access_type_details": str,
    },
    "accounting": {"post_processing": str, "composition": str},
    "implementation": {"preprocessing_and_hyperparameter_tuning": str, "mechanisms": str, "justification": str},
    "administrative": {"sources": str, "notes": str, "registry_authors": list},
}


def _run(folder: Path, study: str, final: Path) -> Path:
    folder.mkdir()
    (folder.parent / "study.toml").write_text(study)
    write_study(run_study(load(folder.parent / "study.toml"), workers=1), folder, final)
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with every kind of certificate."""
    folder = tmp_path_factory.mktemp("statement") / "run"
    return _run(folder, STUDY, folder)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the usual study, to be copied."""
    return _run(tmp_path_factory.mktemp("usual") / "results", conftest.STUDY, Path("results"))


@pytest.fixture
def stated(run: Path) -> Callable[..., Statement]:
    def make(label: str, details: Details | None = None) -> Statement:
        (algorithm,) = chosen(read_record(run), label)
        return Statement(read_record(run), algorithm, details or Details(), None, TODAY)

    return make


def _with(statement: Statement, curve: PrivacyCurve) -> Statement:
    """The same with another curve for everybody."""
    guarantees = [replace(g, curve=_curve(curve), reason=None) for g in statement.algorithm.guarantees]
    return replace(statement, algorithm=replace(statement.algorithm, guarantees=guarantees))


# numbers


@pytest.mark.parametrize("label", list(SPECS))
def test_every_guarantee_number_is_the_certificates(stated: Callable[..., Statement], label: str) -> None:
    certificate = SPECS[label].build(SETTING).certificate
    files = rendered(stated(label))
    said, registered = json.loads(files["statement.json"]), yaml.safe_load(files["registry.yaml"])
    assert [g["observer"] for g in said["guarantees"]] == [g.observer.value for g in certificate.guarantees]
    for guarantee, shown in zip(certificate.guarantees, said["guarantees"], strict=True):
        if not guarantee.protects:
            assert shown["curve"] is None
            continue
        epsilon, delta = guarantee.curve.stated()
        assert (shown["curve"]["epsilon"], shown["curve"]["delta"]) == (epsilon, delta)
        assert all(point["delta"] == guarantee.curve.delta(point["epsilon"]) for point in shown["curve"]["table"])
        for attack in shown["curve"]["attacks"]:
            assert attack["detections"] == pytest.approx(1 - float(trade_off(guarantee.curve, attack["false_alarms"])), abs=1e-12)
        words = f"epsilon = {rounded_up(epsilon)}, delta = {rounded_up(delta)}"
        assert files["statement.md"].count(words) >= 2
        assert files["statement.html"].count(words) >= 2
        assert words in registered["deployment"]["privacy_loss"]["privacy_parameters_details"]
        for point in shown["curve"]["table"]:
            shown_delta = rounded_up(point["delta"], 3)
            assert f"| {shown_delta} |" in files["statement.md"]
            assert f">{shown_delta}</td>" in files["statement.html"]
        if guarantee.claimed is not None:
            assert (shown["claimed"]["epsilon"], shown["claimed"]["delta"]) == guarantee.claimed.stated()
    peer = certificate.guarantee(Observer.PEER)
    assert registered["deployment"]["privacy_loss"]["privacy_parameters"] == {
        "epsilon": peer.curve.stated()[0],
        "delta": peer.curve.stated()[1],
    }
    for parameter, value in SPECS[label].build(SETTING).parameters.items():
        assert said["parameters"][parameter] == value
        assert f"{parameter} = {value:.6g}" in files["statement.md"] if isinstance(value, float) else True
    drawn = [(m["name"], m["scale"], m["sensitivity"]) for m in said["mechanisms"]]
    assert drawn == [(type(m).__name__, m.noise_scale(), m.sensitivity) for m in certificate.mechanisms]


def test_plain_words_say_how_often_an_attacker_is_right(stated: Callable[..., Statement]) -> None:
    """At epsilon = ln 3: even odds become 3 to 1, three of four guesses are right, and 5 false alarms let 15 in 100 be found.

    In two rounds it is 9 to 1, and five of six guesses are right.
    """
    three = _with(stated("pure"), PureDP(1.0986122886681096))
    told = " ".join(plain_words(three))
    assert "after seeing everything in all rounds they are never more than 3 to 1, and on average the guess is right" in told
    assert "right at most 75 times in 100, instead of 50" in told
    assert "in 2 rounds at most 83.4," in told
    assert OPEN in told
    page = rendered(three)["statement.md"]
    assert "| 1 round | 1.1 | 75 % | 3 % | 15 % | 30 % |" in page
    assert "| 2 rounds | 2.2 | 83.4 % | 9 % | 45 % | 76.7 % |" in page
    assert "close to no protection" not in told
    assert "close to no protection" in " ".join(plain_words(_with(stated("pure"), PureDP(8.0))))
    assert "learns nothing" in plain_words(stated("uniform"))[1]


def test_a_budget_that_is_not_spent_is_told_beside_what_is_needed(stated: Callable[..., Statement]) -> None:
    spent, little = stated("pure"), _with(stated("pure"), PureDP(0.1006))
    asked = little.algorithm.choices["epsilon"]
    told = f"asked for at most epsilon = {asked:g}; this choice needs 0.1006."
    assert told in rendered(little)["statement.md"]
    assert "this choice needs" not in rendered(spent)["statement.md"]


def test_a_parameter_that_was_chosen_is_not_told_as_derived(stated: Callable[..., Statement]) -> None:
    statement = stated("pure")
    both = replace(statement.algorithm, choices={**statement.algorithm.choices, "draws": 5}, parameters={"draws": 5, "rate": 0.25})
    page = rendered(replace(statement, algorithm=both))["statement.md"]
    assert page.count("draws = 5") == 1
    assert "Derived: rate = 0.25" in page


def test_odds_are_told_only_where_delta_is_zero(stated: Callable[..., Statement]) -> None:
    """With delta > 0 odds beyond e^epsilon are likelier than delta: nearly twenty times at mu = 0.25 and delta = 1e-6."""
    curve = Quoted(GaussianDP(0.25), 1e-6)
    epsilon = curve.stated()[0]
    exceeded = float(ndtr(0.25 / 2 - epsilon / 0.25))  # the log-odds are normal with mean mu^2 / 2 and deviation mu
    assert exceeded > 15e-6
    told = " ".join(plain_words(_with(stated("pure"), curve)))
    assert " to 1" not in told
    assert "probability" not in told
    assert f"right at most {percent(float(ndtr(0.25 / 2)))} times in 100" in told
    assert "2.72 to 1" in " ".join(plain_words(_with(stated("pure"), PureDP(1.0))))


@pytest.mark.parametrize("curve", [PureDP(2.0), ApproximateDP(1.0, 1e-3), GaussianDP(3.0), BoundedRange(2.0), LaplaceDP(1.0)])
def test_the_picture_never_understates_an_attack(stated: Callable[..., Statement], curve: PrivacyCurve) -> None:
    """What is drawn lies on or above the true curve, also between the points, and no higher than the eye can see."""
    record = _curve(curve)
    assert record is not None
    alarms = np.linspace(0, 1, 2001)
    possible = 1 - trade_off(curve, alarms)

    def above(corners: list[Attack]) -> np.ndarray:
        return np.interp(alarms, [a.false_alarms for a in corners], [a.detections for a in corners]) - possible

    assert above(record.outline).min() > -1e-12
    assert above(record.outline).max() < 0.003
    if isinstance(curve, GaussianDP):
        assert above(record.attacks).min() < -0.1  # chords through some of its points would not do
    if isinstance(curve, PureDP | ApproximateDP):
        grown = outline(record, None, 3)
        several = alarms
        for _ in range(3):
            several = 1 - trade_off(curve, several)
        assert np.interp(alarms, [a.false_alarms for a in grown], [a.detections for a in grown]) == pytest.approx(several, abs=1e-9)
    drawn = draw(_with(stated("pure"), curve)).axes[0].get_lines()[1].get_xydata()
    assert np.asarray(drawn) == pytest.approx(100 * np.array([(a.false_alarms, a.detections) for a in record.outline]))


@cache
def _dartboard() -> PrivacyCurve:
    spec = ShrinkingDartboard(epsilon=1.0, delta=1e-6)
    return spec.build(Setting(clients=10, experts=50, horizon=2000)).certificate.guarantee(Observer.PUBLIC).curve


def _attained(probabilities: np.ndarray, alarms: float) -> float:
    """How often the best test of the first law against the last finds the truth."""
    null, other = probabilities[0], probabilities[-1]
    order = np.argsort(null / other)
    return float(np.interp(alarms, np.cumsum([0, *null[order]]), np.cumsum([0, *other[order]])))


@pytest.mark.parametrize("records", [2, 5, 10])
@pytest.mark.parametrize(
    "curve", [PureDP(1.0), GaussianDP(0.3), LaplaceDP(0.5), ApproximateDP(0.5, 1e-4), ZeroConcentratedDP(0.02), "dart"]
)
def test_no_attack_on_several_records_beats_what_is_stated(curve: PrivacyCurve | str, records: int) -> None:
    """Never below what follows from the curve, repeated; close above it; and never above the grouped curve."""
    one = _dartboard() if isinstance(curve, str) else curve
    record = _curve(one)
    assert record is not None
    shown, grown, alarms = exposure(record, None, records), group(one, records), np.array([0.01, 0.05, 0.1])
    possible = np.append(alarms, 1 - shown.even_guess)  # where as many truths are missed as there are false alarms
    for _ in range(records):
        possible = 1 - trade_off(one, possible)
    possible, bet = possible[:-1], (possible[-1] + shown.even_guess) / 2
    assert (possible - 1e-9 <= np.array(shown.found)).all()
    assert (np.array(shown.found) <= possible + 0.005).all()
    assert (np.array(shown.found) <= 1 - trade_off(grown, alarms) + 0.005).all()
    assert bet - 1e-9 <= shown.even_guess <= min(bet, (1 + grown.delta(0.0)) / 2) + 0.005


@pytest.mark.parametrize("records", [2, 4])
def test_geometric_noise_attains_what_is_stated_for_several_records(records: int) -> None:
    """Truncated geometric noise on a count of `records` is pure, and as bad as pure can be."""
    ratio, places = np.exp(-1.0), np.arange(records + 1)
    powers = ratio ** np.abs(places[:, None] - places[None, :]) / (1 + ratio)
    powers[:, 1:-1] *= 1 - ratio
    assert powers.sum(axis=1) == pytest.approx(1.0)
    record = _curve(PureDP(1.0))
    assert record is not None
    shown = exposure(record, None, records)
    assert shown.even_guess == pytest.approx((1 + np.abs(powers[0] - powers[-1]).sum() / 2) / 2, abs=1e-9 if records == 2 else 0.02)
    for alarms, found in zip((0.01, 0.05, 0.1), shown.found, strict=True):
        assert _attained(powers, alarms) <= found + 1e-12
        assert _attained(powers, alarms) == pytest.approx(found, abs=0.02)


def test_people_with_several_records_in_a_dartboard_are_told_what_the_whole_curve_says(stated: Callable[..., Statement]) -> None:
    """The quoted point alone says 88.1, 99.4 and over 99.9 for 2, 5 and 10 rounds."""
    statement = _with(stated("pure"), _dartboard())
    told = " ".join(plain_words(statement))
    assert "right at most 54.5 times in 100" in told
    assert "in 2 rounds at most 59, in 5 rounds at most 71.4 and in 10 rounds at most 87.2 times in 100" in told
    page = rendered(statement)
    for file in ("statement.md", "statement.html"):
        assert "87.2 %" in page[file]
    assert told.split(" Whoever")[1] in " ".join(json.loads(page["statement.json"])["plain_words"])


def test_a_delta_that_grew_beyond_one_is_read_off_the_outline() -> None:
    record = _curve(_dartboard())
    assert record is not None
    point, exact = of_records(record, None, 20), group(ApproximateDP(record.epsilon, record.delta), 20)
    assert exact.stated()[1] == 1.0
    assert 0.3 < point.delta < 0.4
    assert point.epsilon == pytest.approx(20 * record.epsilon)
    assert of_records(record, None, 2).delta == group(ApproximateDP(record.epsilon, record.delta), 2).stated()[1]


@pytest.mark.parametrize(
    ("curve", "variant", "rho"),
    [
        (PureDP(1.0), "Pure DP", None),
        (ApproximateDP(1.0, 1e-6), "Approximate DP", None),
        (ZeroConcentratedDP(0.1), "Zero-concentrated DP", 0.1),
        (GaussianDP(0.5), "Custom", None),
    ],
)
def test_other_curves_keep_their_own_parameters_and_are_converted(
    stated: Callable[..., Statement], curve: PrivacyCurve, variant: str, rho: float | None
) -> None:
    statement = _with(stated("pure"), curve)
    registered = record(statement)["deployment"]
    assert registered["dp_variant"]["variant_name"] == variant
    assert registered["privacy_loss"]["privacy_parameters"].get("rho") == rho
    page = rendered(statement)["statement.md"]
    assert curve.words() in page
    assert f"epsilon = {rounded_up(curve.stated()[0])}, delta = {rounded_up(curve.stated()[1])}" in page


@pytest.mark.parametrize("law", ONE_RELEASE)
def test_what_a_run_costs_is_what_the_releases_cost_that_one_record_enters(stated: Callable[..., Statement], law: str) -> None:
    """A run has many releases, each of the stated epsilon: an officer must not add them all up."""
    spec = ONE_RELEASE[law]
    entered, released = [], []
    for trial, losses, neighbour in neighbours(30):
        algorithm = spec.build(Setting(losses.shape[1], losses.shape[2], losses.shape[0]))
        first = ledger(algorithm, losses, SeededNoise(trial))
        second = ledger(algorithm, neighbour, SeededNoise(trial), first)
        pairs = list(zip(first.releases, second.releases, strict=True))
        entered.append(sum(not np.array_equal(a.value, b.value) for a, b in pairs))
        released.append(len(pairs))
    assert max(entered) == 1 < min(released)
    statement = stated("pure")
    made = algorithm_record("x", spec.build(SETTING), {"name": "x"}, "drawn")
    told = composition_words(replace(statement, algorithm=made))
    assert "One record enters at most one release of a run" in told
    assert [mechanism.law for mechanism in made.mechanisms] == [law]
    several = composition_words(replace(statement, algorithm=replace(made, entered=3)))
    assert "what those releases cost together that the record enters, at most 3;" in several
    assert "by a joint proof" in composition_words(statement)
    assert "depends on the data" in composition_words(stated("uniform"))


def test_a_conversion_that_says_nothing_is_left_out_and_one_other_site_is_one(stated: Callable[..., Statement]) -> None:
    page = rendered(_with(stated("pure"), LaplaceDP(1.0)))["statement.md"]
    assert "epsilon = 1, delta = 0 (Laplace)" in page
    assert "converted" not in page
    assert "Bounded range:" not in page
    assert "Bounded range:" in rendered(_with(stated("pure"), BoundedRange(1.0)))["statement.md"]
    assert "converted" in rendered(_with(stated("pure"), GaussianDP(0.5)))["statement.md"]
    statement = stated("pure")
    pair = [replace(g, colluding=1) for g in statement.algorithm.guarantees]
    told = collusion_words(replace(statement, algorithm=replace(statement.algorithm, guarantees=pair)))
    assert "also if 1 other site adds its data and its own" in told


def test_persons_with_several_records(stated: Callable[..., Statement]) -> None:
    statement = stated("pure", Details(records_per_site=3, sites_per_person=2))
    six = statement.of_records(6)
    assert six is not None
    assert six.epsilon == pytest.approx(3.0)
    page = rendered(statement)["statement.md"]
    assert "at most 3 records at one site: epsilon = 1.5, delta = 0 (per site); at up to 2 sites: epsilon = 3, delta = 0" in page
    assert document(statement)["person"]["across_sites"]["epsilon"] == pytest.approx(3.0)
    told = plain_words(statement)[1]
    assert told.startswith("A person may have 6 records (3 at each of 2 sites), one for every round: epsilon = 3, delta = 0. ")
    assert f"right at most {percent(1 - np.exp(-1.5) / 2)} times in 100" in told  # six steps of epsilon = 1/2, with the middle at 1/2
    fewer = percent(1 - np.exp(-0.5) / (1 + np.exp(0.5)))  # three, with the kink in the middle
    assert f"For somebody with fewer: in 1 round at most 62.3 and in 3 rounds at most {fewer} times in 100." in told
    labels = [line.get_label() for line in draw(statement).axes[0].get_lines()]
    assert "the same, 6 records\nepsilon = 3, delta = 0" in labels
    assert "for one loss vector" in to_yaml(statement)
    assert "at up to 2 sites: epsilon = 3" in to_yaml(statement)
    assert [line.split(" | ")[0] for line in page.splitlines() if " rounds | " in line] == ["| 3 rounds", "| 6 rounds"]
    assert OPEN in rendered(stated("pure"))["statement.md"].split("## What is protected")[1].split("##")[0]


def test_a_person_with_too_many_records_is_told_loudly(stated: Callable[..., Statement]) -> None:
    statement = stated("pure", Details(records_per_site=20, sites_per_person=2))
    told = plain_words(statement)[1]
    assert "40 records (20 at each of 2 sites), one for every round: epsilon = 20, delta = 0, close to no protection." in told
    assert "the guess may be right over 99.9 times in 100" in told
    assert is_loud(told)
    files = rendered(statement)
    assert f'<p class="loud">{told[:40]}' in files["statement.html"]
    assert "| 40 rounds | 20 | > 99.9 % |" in files["statement.md"]
    assert "100 %" not in files["statement.md"]
    assert "e^20" not in files["statement.md"]


def test_how_often_one_person_may_be_there_needs_both_numbers(stated: Callable[..., Statement]) -> None:
    """With an open number of sites nothing is called the most; a single site needs no number of sites."""
    half = stated("pure", Details(records_per_site=3))
    told = plain_words(half)[1]
    assert told.startswith(f"A person may have 3 records at one site (at how many sites: {OPEN}), one for every round: epsilon = 1.5")
    assert half.most is None
    assert document(half)["person"]["across_sites"] is None
    assert f"sites one person may be at: {OPEN}" in rendered(half)["statement.md"]
    alone = replace(half, algorithm=replace(half.algorithm, setting={**half.algorithm.setting, "clients": 1}))
    assert alone.most == 3
    assert plain_words(alone)[1].startswith("A person may have 3 records, one for every round: epsilon = 1.5, delta = 0. ")


def test_nobody_is_in_more_rounds_than_there_are(stated: Callable[..., Statement]) -> None:
    with pytest.raises(InvalidValue, match="Expected records_per_site=31 <= the 30 rounds of the run"):
        stated("pure", Details(records_per_site=31))


def test_the_largest_epsilon_and_the_largest_delta_are_quoted_together(stated: Callable[..., Statement]) -> None:
    """Two observers, one with the larger epsilon and one with the larger delta: neither number may be lost."""
    statement = stated("pure")
    server, peer, public = statement.algorithm.guarantees
    curves = (_curve(ApproximateDP(2.0, 1e-9)), _curve(ApproximateDP(1.0, 1e-3)))
    mixed = [server, *(replace(g, curve=curve) for g, curve in zip((peer, public), curves, strict=True))]
    changed = replace(statement, algorithm=replace(statement.algorithm, guarantees=mixed))
    assert record(changed)["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0, "delta": 1e-3}
    assert "a second one like this makes epsilon = 4, delta = 0.002" in rendered(changed)["statement.md"]


def test_units_have_a_formula() -> None:
    person = Person(4, may_span_sites=True)
    assert "at most 4 loss vectors" in formula(UnitRecord("Person", person.words(), {"appearances": 4, "may_span_sites": True}))
    assert "all other clients" in formula(UnitRecord("Site", Site().words(), {}))


def test_observers_may_have_units_of_their_own(stated: Callable[..., Statement]) -> None:
    statement = stated("pure")
    site = UnitRecord("Site", Site().words(), {})
    first, *others = statement.algorithm.guarantees
    mixed = replace(statement, algorithm=replace(statement.algorithm, guarantees=[replace(first, unit=site), *others]))
    page = rendered(mixed)["statement.md"]
    assert "Unit: one loss vector of one client in one round; all the data of one client." in page
    assert page.count("Neighbours: ") == 2


# what must be loud


@pytest.mark.parametrize("label", ["pure", "approximate", "published", "uniform", "hedge"])
def test_a_simulation_is_stamped_everywhere(stated: Callable[..., Statement], label: str) -> None:
    files = rendered(stated(label))
    assert files["statement.md"].count(STAMP) >= 2
    assert f'<p class="stamp">{STAMP}</p>' in files["statement.html"]
    assert json.loads(files["statement.json"])["stamp"] == STAMP
    assert files["registry.yaml"].startswith(f"# {STAMP}\n")
    registered = yaml.safe_load(files["registry.yaml"])["deployment"]
    assert STAMP in registered["basic"]["description"]
    assert STAMP in registered["administrative"]["notes"]


def test_only_secure_noise_takes_the_stamp_away(stated: Callable[..., Statement]) -> None:
    run = stated("pure").run
    with pytest.raises(InvalidValue, match="Expected the stamp"):
        replace(run, stamp=None)
    with pytest.raises(InvalidValue, match="Expected secure=True to agree with the source 'seeded'"):
        replace(run.noise, secure=True)
    with pytest.raises(InvalidValue, match="Expected secure noise only for real data"):
        replace(run, stamp=None, noise=secure_noise(SecureNoise()))
    with pytest.raises(InvalidValue, match="Expected SecureNoise for real data, got SeededNoise"):
        secure_noise(SeededNoise(0))


def test_an_observer_without_guarantee_is_told_loudly(stated: Callable[..., Statement]) -> None:
    files = rendered(stated("pure"))
    assert "**NO GUARANTEE against the server" in files["statement.md"]
    assert '<p class="loud">NO GUARANTEE against the server' in files["statement.html"]
    assert '<td class="loud">NO GUARANTEE' in files["statement.html"]
    assert "NO GUARANTEE" in yaml.safe_load(files["registry.yaml"])["deployment"]["deployment_model"]["actors"]
    nobody = rendered(stated("hedge"))
    assert "assume that an attack always succeeds" in nobody["statement.md"]
    assert yaml.safe_load(nobody["registry.yaml"])["deployment"]["privacy_loss"]["privacy_parameters"] == {}


def test_a_published_calibration_states_claim_and_truth_side_by_side(stated: Callable[..., Statement]) -> None:
    statement = stated("published")
    files = rendered(statement)
    assert "| observer | sees | claimed by the paper | truth, proven here | proof |" in files["statement.md"]
    assert "| epsilon = 1, delta = 0 | epsilon = 0.75, delta = 0 |" in files["statement.md"]
    sentence = "the paper claims epsilon = 1, delta = 0; the truth, proven here, is epsilon = 0.75, delta = 0: the claim holds"
    assert all(sentence in files[name] for name in ("statement.md", "statement.html"))
    assert sentence in " ".join(yaml.safe_load(files["registry.yaml"])["deployment"]["privacy_loss"]["privacy_parameters_details"].split())
    guarantees = [replace(g, claim_holds=False) for g in statement.algorithm.guarantees]
    refuted = replace(statement, algorithm=replace(statement.algorithm, guarantees=guarantees))
    assert "**Published constants" in rendered(refuted)["statement.md"]
    assert "THE CLAIM IS NOT SUPPORTED" in rendered(refuted)["statement.md"]
    assert "claimed" not in rendered(stated("pure"))["statement.md"]


def test_a_claim_is_stated_also_where_nothing_is_proven(stated: Callable[..., Statement]) -> None:
    published, nobody = stated("published"), stated("hedge")
    claimed = [replace(g, claimed=published.claimed, claim_holds=False) for g in nobody.algorithm.guarantees]
    told = plain_words(replace(nobody, algorithm=replace(nobody.algorithm, guarantees=claimed)))[-1]
    sentence = "the paper claims epsilon = 1, delta = 0; proven here is NO GUARANTEE: THE CLAIM IS NOT SUPPORTED"
    assert sentence in told


def test_nothing_is_promised_where_nothing_is_guaranteed(stated: Callable[..., Statement]) -> None:
    page, guarded = rendered(stated("hedge"))["statement.md"], rendered(stated("pure"))["statement.md"]
    for text in ("Floating point", "cover all of them", "Guarantee: Pr", "exact integers"):
        assert text not in page
        assert (text in guarded) == (text != "exact integers")


def test_the_page_says_for_whom_and_what_is_open(stated: Callable[..., Statement]) -> None:
    full = rendered(stated("pure", read_details(EXAMPLE, TODAY)))
    purpose = full["statement.md"].split("## For whom and for what")[1].split("##")[0]
    for text in ("Hospital network (example)", "Use: Choose, every day", "European Union", "Why this epsilon: Epsilon was set by"):
        assert text in purpose
    for text in ("Security: Sums of losses", "Before the noise: Losses lie", "Sources: Internal report", "Published: 2026-12-01"):
        assert text in purpose
    assert "Open:" not in full["statement.md"]
    bare = rendered(stated("pure"))
    assert "For whom and for what" not in bare["statement.md"]
    assert "Open: data curators, intended use, " in bare["statement.md"].split("## Sign-off")[1]
    assert '<p class="loud">Open: data curators' in bare["statement.html"]
    for files in (full, bare):
        assert "the time a computation takes" in files["statement.md"].split("## Not protected")[1].split("##")[0]


def test_a_name_of_its_own_does_not_hide_the_title_of_the_run(stated: Callable[..., Statement]) -> None:
    assert "as 'Four ways'" in rendered(stated("pure", Details(name="Other")))["statement.md"]
    assert "as 'Four ways'" not in rendered(stated("pure"))["statement.md"]
    assert "name" not in tomllib.loads(EXAMPLE.read_text())


def test_the_page_explains_its_words(stated: Callable[..., Statement]) -> None:
    files = rendered(stated("approximate"))
    page = files["statement.md"]
    for word in (
        "client, a site;",
        "expert, a model",
        "loss vector, how badly",
        "switch, a change",
        "plays, which",
        "false alarm: B is said",
    ):
        assert word in page
    assert "no readmissions, no retraining on it (NO_CARRY_OVER)" in page
    assert "coins" not in page
    strip = page.split("One record in one run, at other epsilons")[1].split("##")[0]
    registered = yaml.safe_load(files["registry.yaml"])["deployment"]["privacy_loss"]["privacy_parameters_details"]
    for point in document(stated("approximate"))["guarantees"][1]["curve"]["table"]:
        rounded = rounded_up(point["delta"], 3)
        assert f"| {rounded} |" in strip
        assert f"{rounded} at {rounded_up(point['epsilon'], 3)}" in registered


def test_sections_with_nothing_to_say_vanish(stated: Callable[..., Statement]) -> None:
    page = rendered(stated("hedge"))["statement.md"]
    assert "## Holds only if" in rendered(stated("pure"))["statement.md"]
    assert "## Holds only if" not in page
    assert not re.search(r"## [^\n]+\n\n(##|\Z)", page)


def test_nothing_is_printed_smaller_than_eight_points(stated: Callable[..., Statement]) -> None:
    files = rendered(stated("published"))
    sizes = [float(size) for size in re.findall(r"(?:font|font-size): ([\d.]+)pt", files["statement.html"])]
    assert len(sizes) >= 4
    assert min(sizes) >= 8
    figure = draw(stated("published"))
    assert all(float(text.get_fontsize()) >= 8 for text in figure.findobj(Text) if text.get_text())
    assert figure.get_size_inches()[0] * 25.4 <= 93  # a column: it is not shrunk in print


def test_everything_the_page_must_say(stated: Callable[..., Statement]) -> None:
    statement = stated("pure", read_details(EXAMPLE, TODAY))
    page = rendered(statement)["statement.md"]
    code = statement.run.code
    expected = (
        *("one loss vector of one client in one round", "replace one loss vector", "D ~ D'", "e^epsilon", "up to 2 other sites"),
        *(
            "the server follows the protocol and discloses nothing but its broadcasts (TRUSTED_SERVER)",
            "proofs/sparse_vector.md#whole-algorithm",
            "Horizon: 30 rounds",
        ),
        *("After round 30 the game is over", "When the budget is spent: after ", "a second one like this makes epsilon = 1, delta = 0"),
        *("numpy ", "dp-accounting ", "python ", "hedgerow ", "public seeds (seed 0)", code.sha256, "not audited", "expires 2027-12-01"),
        *("| role | name | date | signature |", "Principal investigator", "ExponentialMechanism", "drops out", "trade-off.svg"),
    )
    assert [text for text in expected if text not in page] == []


def test_the_page_to_print_needs_nothing_else(stated: Callable[..., Statement]) -> None:
    page = rendered(stated("pure", Details(name="<script>alert(1)</script> & more")))["statement.html"]
    assert page.count("<svg") == 1
    assert "size: A4" in page
    assert not re.search(r"<script|<link|<img|@import|url\(http|(src|href)=\"http", page)
    assert "&lt;script&gt;" in page


def test_rendering_is_repeatable(stated: Callable[..., Statement]) -> None:
    assert rendered(stated("approximate")) == rendered(stated("approximate"))


# the registry


@pytest.mark.parametrize("label", ["pure", "approximate", "published", "uniform", "hedge"])
@pytest.mark.parametrize("details", [None, EXAMPLE])
def test_the_registry_record_has_every_field(stated: Callable[..., Statement], label: str, details: Path | None) -> None:
    registered = yaml.safe_load(to_yaml(stated(label, read_details(details, TODAY))))
    assert set(registered) == {"url_slug", "status", "tier", "deployment"}
    deployment = registered["deployment"]
    assert list(deployment) == list(SCHEMA)
    for tier, fields in SCHEMA.items():
        assert set(deployment[tier]) == set(fields), tier
        for name, rule in fields.items():
            value = deployment[tier][name]
            if isinstance(rule, tuple):
                assert value in rule, name
            elif isinstance(rule, set):
                assert set(value) <= rule
                assert all(type(number) is float for number in value.values())
            else:
                assert isinstance(value, rule), name
                assert value, name
    assert registered["status"] in ("Draft", "Pending", "Changes Required", "Approved")
    assert registered["tier"] in (1, 2, 3)
    assert re.fullmatch(r"[a-z0-9-]+", registered["url_slug"])
    assert all(set(curator) == {"data_curator_name", "data_curator_type"} for curator in deployment["basic"]["data_curators"])
    assert all(isinstance(author, str) for author in deployment["administrative"]["registry_authors"])
    published = deployment["basic"]["publication_date"]
    assert published == OPEN if details is None else date.fromisoformat(published)
    assert deployment["deployment_model"]["model_name"] == "Federated"
    assert (deployment["basic"]["intended_use"] == OPEN) == (details is None)


# details


def test_the_example_leaves_nothing_open() -> None:
    assert read_details(EXAMPLE, TODAY).open == ()
    assert {"data_curators", "data_product_region", "intended_use", "expires"} <= set(Details().open)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"\nintended_us = "y"\n', "line 2: Unknown key details.intended_us; did you mean 'intended_use'?"),
        ('name = "x"\n\nrecords_per_site = "many"\n', "line 3: Expected details.records_per_site='many' to fit"),
        ("records_per_site = 0\n", "line 1: Expected records_per_site=0 to be a whole number >= 1"),
        ('data_curators = [{ name = "x" }]\n', "line 1: Expected details.data_curators"),
        ('name = "x"\nexpires = \n', "line 2"),
        ("expires = 2020-01-01\n", "line 1: Expected expires=2020-01-01 to lie after today, 2026-11-15"),
        ("expires = 2030-01-01\npublication_date = 2030-01-01\n", "line 1: Expected expires='2030-01-01' to lie after publication_date"),
        ("expires = 'soon'\n", "line 1: Expected details.expires='soon' to fit"),
    ],
)
def test_broken_details_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "details.toml"
    file.write_text(text)
    with pytest.raises(InvalidValue, match=re.escape(message)):
        read_details(file, TODAY)


# files


def test_nothing_half_written(tmp_path: Path) -> None:
    out = tmp_path / "statements"
    with pytest.raises(TypeError):
        write({"a": {"statement.md": 3}}, out)  # pyright: ignore[reportArgumentType]
    assert list(tmp_path.iterdir()) == []


def test_labels_become_folders(run: Path) -> None:
    found = read_record(run)
    labels = ("a b", "a-b", "../x", "A b", "!")
    renamed = replace(found, algorithms=[replace(found.algorithms[0], label=label) for label in labels])
    assert list(folder_names(renamed).values()) == ["a-b", "a-b-2", "x", "a-b-3", "algorithm"]


def test_the_code_hash_follows_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    hashes = [hash_of(tmp_path)]
    (tmp_path / "a.py").write_text("y")
    hashes.append(hash_of(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    hashes.append(hash_of(tmp_path))
    assert len({sha256 for sha256, _ in hashes}) == 3
    assert {files for _, files in hashes} == {1}


def test_a_record_survives_its_file(run: Path) -> None:
    study = run_study(load(run.parent / "study.toml"), workers=1)
    fresh = record_of(study, run)
    assert replace(read_record(run), written=fresh.written) == fresh


# the command


@pytest.fixture
def made(hedgerow: Command, results: Path, tmp_path: Path) -> Command:
    """The command beside a finished run of the usual study, `results`."""
    shutil.copytree(results, tmp_path / "results")
    return hedgerow


def test_one_statement_for_every_algorithm(made: Command, tmp_path: Path) -> None:
    answer = made("statement", "results")
    assert answer.code == 0
    out = tmp_path / "results" / "statement"
    assert {p.name for p in out.iterdir()} == {"private", "hedge"}
    assert all({p.name for p in folder.iterdir()} == set(FILES) for folder in out.iterdir())
    assert "NO GUARANTEE" in answer.out
    assert "Open, to be filled in" in answer.out
    assert "data_curators" in answer.out
    assert "not audited" in answer.out


def test_json_is_what_the_file_holds(made: Command, tmp_path: Path) -> None:
    said = made("statement", "results", "--algorithm", "private", "--details", str(EXAMPLE), "--out", "said", "--json").document()
    (single,) = said["statements"]
    assert said["out"] == "said"
    assert {p.name for p in (tmp_path / "said").iterdir()} == {"private"}
    file = json.loads((tmp_path / "said" / "private" / "statement.json").read_text())
    assert single == {"folder": "said/private", **file}
    assert file["open"] == []
    assert file["choices"]["epsilon"] == 5.0


def test_statements_are_replaced_and_others_stay(made: Command, tmp_path: Path) -> None:
    made("statement", "results", "--algorithm", "private")
    made("statement", "results", "--algorithm", "hedge")
    out = tmp_path / "results" / "statement"
    page = out / "private" / "statement.md"
    before = page.read_text()
    assert made("statement", "results", "--details", str(EXAMPLE)).code == 0
    assert {p.name for p in out.iterdir()} == {"private", "hedge"}
    assert page.read_text() != before
    assert not [p for p in out.parent.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("foreign", ["notes.txt", "private/notes.txt", "private/statement.md"])
def test_other_peoples_files_are_never_touched(made: Command, tmp_path: Path, foreign: str) -> None:
    file = tmp_path / "mine" / foreign
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    answer = made("statement", "results", "--out", "mine")
    assert answer.code == 2
    assert "Expected --out mine to hold statements and nothing else" in answer.err
    assert [p for p in (tmp_path / "mine").rglob("*") if p.is_file()] == [file]
    assert file.read_text() == "mine"


def _spoil(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = tmp_path / "results" / "privacy.json"
    table = json.loads(file.read_text())
    change(table)
    file.write_text(json.dumps(table))


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no certificate": (
        lambda p: (p / "results" / "privacy.json").unlink(),
        "Expected a certificate in results/privacy.json, there is none",
    ),
    "no run": (
        lambda p: [f.unlink() for f in (p / "results").iterdir()],
        "Expected results to be a run folder, as `hedgerow run` or `record_deployment` writes it: it has no privacy.json.",
    ),
    "runs inside": (
        lambda p: ((p / "results").rename(p / "r"), (p / "results").mkdir(), (p / "r").rename(p / "results" / "study")),
        "it holds the runs results/study",
    ),
    "no json": (lambda p: (p / "results" / "privacy.json").write_text("{"), "Expected results/privacy.json as `hedgerow run` writes it"),
    "other format": (lambda p: _spoil(p, lambda t: t.update(format="x")), "Expected format='x'"),
    "missing key": (lambda p: _spoil(p, lambda t: t.pop("noise")), "noise: Field required"),
    "not stamped": (lambda p: _spoil(p, lambda t: t.update(stamp=None)), "Expected the stamp"),
    "called secure": (lambda p: _spoil(p, lambda t: t["noise"].update(secure=True)), "to agree with the source"),
    "called a deployment": (
        lambda p: _spoil(p, lambda t: t.update(stamp=None, noise={"source": "operating system", "secure": True, "words": ""})),
        "Expected secure noise only for real data",
    ),
    "nobody": (lambda p: _spoil(p, lambda t: t["algorithms"][0].update(guarantees=[])), "'private' in results/privacy.json"),
    "no algorithm": (lambda p: _spoil(p, lambda t: t.update(algorithms=[])), "it names no algorithm"),
}


@pytest.mark.parametrize("case", list(SPOILT))
def test_a_folder_that_is_not_a_run_is_refused(made: Command, tmp_path: Path, case: str) -> None:
    spoil, message = SPOILT[case]
    spoil(tmp_path)
    answer = made("statement", "results")
    _refused(answer, message)
    assert not answer.err.rstrip().endswith("..")
    assert not (tmp_path / "results" / "statement").exists()


def _refused(answer: Answer, message: str) -> None:
    assert answer.code == 2
    assert message in answer.err
    (line,) = answer.err.strip().splitlines()
    assert line.startswith("Error: ")
    assert answer.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["results/privacy.json"], "Expected a run folder, results/privacy.json is a file: give the folder, results."),
        (["absent"], "Expected a run folder at absent, there is none."),
        (["results", "--algorithm", "privat"], "Unknown algorithm 'privat' in results; did you mean 'private'?"),
        (["results", "--details", "absent.toml"], "Expected a TOML file with details at absent.toml"),
        (["results", "--audit-file", "absent.json"], "Expected an audit at absent.json"),
        (["results", "--audit-file", "study.toml"], "as `hedgerow audit NAME --json` writes it"),
        (["results", "--audit", "--audit-file", "x"], "and not both"),
        (["results", "--out", "study.toml"], "Expected --out study.toml to be a folder"),
    ],
)
def test_bad_arguments_are_named(made: Command, tmp_path: Path, arguments: list[str], message: str) -> None:
    _refused(made("statement", *arguments), message)
    assert not (tmp_path / "results" / "statement").exists()


# audits


@pytest.fixture
def quick_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The null, the worst transcript and one planted error."""
    monkeypatch.setitem(AUDITS._things, "sparse_vector", lambda spec: tuple(c for c in cases(spec) if c.name in KEPT))


KEPT = ("null: the same stream twice", "worst transcript", "half the selection noise")


def test_an_audit_of_other_parameters_is_not_quoted_as_one_of_these(stated: Callable[..., Statement]) -> None:
    """A louder game shows more than the page promises: its numbers must not stand beside the promise."""

    def row(case: str, method: str, claim: str, parameters: dict[str, Any], certified: float, audited: float) -> AuditedCase:
        return AuditedCase(case, claim, parameters, method, 0.0, certified, audited, 1.0, "holds", "holds", True)

    rows = [
        row("worst transcript", "exact ratio", WHOLE, {"threshold": 3.5}, 0.5, 0.49),
        row("many belows", "exact ratio", "answers alone", {"threshold": 3.5}, 0.9, 0.8),
        row("one switch", "black box", "one selection alone", {"epsilon": 4.0, "switches": 1}, 2.0, 1.489),
    ]
    statement = stated("pure")
    audit = Audit("sparse_vector", {"epsilon": 0.5}, statement.run.code.sha256, rows)
    told = audit_words(replace(statement, audit=audit))
    assert "(worst transcript, played with threshold = 3.5): epsilon >= 0.49 shown, 0.5 certified there" in told
    assert "a version with other parameters (epsilon = 4, switches = 1) was attacked: it held" in told
    assert "seeded noise" in told
    assert not re.search(r"1\.489|0\.8\b|2 certified|these parameters", told)


@pytest.mark.usefixtures("quick_audits")
def test_an_audit_is_stated_with_its_confidence(made: Command, tmp_path: Path) -> None:
    answer = made("statement", "results", "--audit")
    assert answer.code == 0
    page = (tmp_path / "results" / "statement" / "private" / "statement.md").read_text()
    assert re.search(
        r"^No attack got past the guarantee: 2 tried, confidence [\d.]+ for each\. 1 of 1 planted errors was caught\.", page, re.M
    )
    assert re.search(
        r"exact ratio \(worst transcript, played with threshold = [\d.]+\): epsilon >= 4\.\d+ shown, 5 certified there, at delta = 0, conf",
        page,
    )
    assert "not audited" in (tmp_path / "results" / "statement" / "hedge" / "statement.md").read_text()


@pytest.mark.usefixtures("quick_audits")
def test_an_audit_from_a_file_must_be_of_this_run(made: Command, tmp_path: Path) -> None:
    audit = tmp_path / "audit.json"
    audit.write_text(made("audit", "sparse_vector", "--set", "epsilon=5.0", "--json").out)
    answer = made("statement", "results", "--audit-file", "audit.json", "--json")
    said = {row["label"]: row["audit"] for row in answer.document()["statements"]}
    assert said["hedge"] is None
    assert said["private"]["passed"]
    assert len(said["private"]["rows"]) == 3
    audit.write_text(made("audit", "sparse_vector", "--set", "epsilon=2.0", "--json").out)
    _refused(made("statement", "results", "--audit-file", "audit.json"), "it audited epsilon=2.0, the run has epsilon=5.0")


@pytest.mark.usefixtures("quick_audits")
def test_a_failed_audit_is_loud_and_fails(made: Command, tmp_path: Path) -> None:
    audit = made("audit", "sparse_vector", "--set", "epsilon=5.0", "--json").document()
    audit["rows"][1].update(verdict="violated", passed=False)
    audit["code"] = "0" * 64
    (tmp_path / "audit.json").write_text(json.dumps(audit))
    answer = made("statement", "results", "--audit-file", "audit.json")
    assert answer.code == 1
    page = (tmp_path / "results" / "statement" / "private" / "statement.md").read_text()
    assert "**NOT EVERY VERDICT AS EXPECTED: worst transcript (violated, expected holds)." in page
    assert "is not that of the run" in page


def test_a_game_with_absent_sites_says_that_presence_shows(hedgerow: Command, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        'title = "absent"\nseeds = 1\n[environment]\nname = "absent"\nof = {name = "bernoulli", clients = 2, experts = 3, horizon = 8}\n'
        '[[algorithms]]\nname = "sparse_vector"\nepsilon = 1.0\n'
    )
    assert hedgerow("run", "study.toml", "--out", "absent").code == 0
    assert hedgerow("statement", "absent").code == 0
    page = next((tmp_path / "absent" / "statement").rglob("statement.md")).read_text()
    assert "given that the site had a case in that round" in page
    assert "a missing play shows it" in page
    assert "and the same sites take part" in page
    assert page.count("Neighbours:") == 1
    assert "must not depend on the protected record" in page
