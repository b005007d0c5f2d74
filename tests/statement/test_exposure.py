"""Exposure: attacks on one record and on several, never understated."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.errors import InvalidValue
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.groups import group
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    ZeroConcentratedDP,
    trade_off,
)
from hedgerow.records.build import curve_record
from hedgerow.records.schema import Attack
from hedgerow.statement.exposure import exposure, exposure_outline, of_records
from hedgerow.statement.files import rendered_statement, statement_document
from hedgerow.statement.picture import draw_statement
from hedgerow.statement.registry import registry_yaml
from hedgerow.statement.statement import OPEN, Details
from hedgerow.statement.words.attackers import plain_words
from hedgerow.statement.words.phrases import is_loud, percent
from support.statements import Pages, Stated, with_curve


@pytest.mark.parametrize(
    "curve",
    [PureDP(2.0), ApproximateDP(1.0, 1e-3), GaussianDP(3.0), BoundedRange(2.0), LaplaceDP(1.0)],
)
def test_the_picture_never_understates_an_attack(stated: Stated, curve: PrivacyCurve) -> None:
    """The drawn line is on or above the true curve everywhere, by less than the eye can see."""
    record = curve_record(curve)
    assert record is not None
    alarms = np.linspace(0, 1, 2001)
    possible = 1 - trade_off(curve, alarms)

    def above(corners: list[Attack]) -> np.ndarray:
        return (
            np.interp(alarms, [a.false_alarms for a in corners], [a.detections for a in corners])
            - possible
        )

    assert above(record.outline).min() > -1e-12
    assert above(record.outline).max() < 0.003
    if isinstance(curve, GaussianDP):
        assert above(record.attacks).min() < -0.1  # chords through some of its points would not do
    if isinstance(curve, PureDP | ApproximateDP):
        grown = exposure_outline(record, None, 3)
        several = alarms
        for _ in range(3):
            several = 1 - trade_off(curve, several)
        assert np.interp(
            alarms, [a.false_alarms for a in grown], [a.detections for a in grown]
        ) == pytest.approx(several, abs=1e-9)
    drawn = draw_statement(with_curve(stated("pure"), curve)).axes[0].get_lines()[1].get_xydata()
    assert np.asarray(drawn) == pytest.approx(
        100 * np.array([(a.false_alarms, a.detections) for a in record.outline])
    )


@cache
def _dartboard() -> PrivacyCurve:
    spec = ShrinkingDartboard(epsilon=1.0, delta=1e-6)
    return (
        spec.build(Setting(clients=10, experts=50, horizon=2000))
        .certificate.guarantee(Observer.PUBLIC)
        .curve
    )


def _attained(probabilities: np.ndarray, alarms: float) -> float:
    """How often the best test of the first law against the last finds the truth."""
    null, other = probabilities[0], probabilities[-1]
    order = np.argsort(null / other)
    return float(np.interp(alarms, np.cumsum([0, *null[order]]), np.cumsum([0, *other[order]])))


@pytest.mark.parametrize("records", [2, 5, 10])
@pytest.mark.parametrize(
    "curve",
    [
        PureDP(1.0),
        GaussianDP(0.3),
        LaplaceDP(0.5),
        ApproximateDP(0.5, 1e-4),
        ZeroConcentratedDP(0.02),
        "dart",
    ],
)
def test_no_attack_on_several_records_beats_what_is_stated(
    curve: PrivacyCurve | str, records: int
) -> None:
    """Never below what the repeated curve implies; close to it; never above the grouped curve."""
    one = _dartboard() if isinstance(curve, str) else curve
    record = curve_record(one)
    assert record is not None
    shown, grown, alarms = (
        exposure(record, None, records),
        group(one, records),
        np.array([0.01, 0.05, 0.1]),
    )
    possible = np.append(
        alarms, 1 - shown.even_guess
    )  # where as many truths are missed as there are false alarms
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
    record = curve_record(PureDP(1.0))
    assert record is not None
    shown = exposure(record, None, records)
    assert shown.even_guess == pytest.approx(
        (1 + np.abs(powers[0] - powers[-1]).sum() / 2) / 2, abs=1e-9 if records == 2 else 0.02
    )
    for alarms, found in zip((0.01, 0.05, 0.1), shown.found, strict=True):
        assert _attained(powers, alarms) <= found + 1e-12
        assert _attained(powers, alarms) == pytest.approx(found, abs=0.02)


def test_a_person_with_several_records_in_a_dartboard_gets_the_numbers_of_the_whole_curve(
    stated: Stated,
) -> None:
    """The quoted point alone says 88.1, 99.4 and over 99.9 for 2, 5 and 10 records."""
    statement = with_curve(stated("pure"), _dartboard())
    text = " ".join(plain_words(statement))
    assert "right at most 54.5 times in 100" in text
    assert (
        " A person with more records is protected less: with 2 records at most 59, "
        "with 5 records at most 71.4 and with 10 records at most 87.2 times in 100 "
        f"(records that one person may have: {OPEN})." in text
    )
    page = rendered_statement(statement)
    for file in ("statement.md", "statement.html"):
        assert "87.2 %" in page[file]
    assert text.split(" A person with more")[1] in " ".join(
        json.loads(page["statement.json"])["plain_words"]
    )


def test_a_delta_that_grew_beyond_one_is_read_off_the_outline() -> None:
    record = curve_record(_dartboard())
    assert record is not None
    point, exact = (
        of_records(record, None, 20),
        group(ApproximateDP(record.epsilon, record.delta), 20),
    )
    assert exact.stated()[1] == 1.0
    assert 0.3 < point.delta < 0.4
    assert point.epsilon == pytest.approx(20 * record.epsilon)
    assert (
        of_records(record, None, 2).delta
        == group(ApproximateDP(record.epsilon, record.delta), 2).stated()[1]
    )


def test_persons_with_several_records(stated: Stated, pages: Pages) -> None:
    statement = stated("pure", Details(records_per_client=3, clients_per_person=2))
    six = statement.of_records(6)
    assert six is not None
    assert six.epsilon == pytest.approx(3.0)
    page = rendered_statement(statement)["statement.md"]
    assert (
        "at most 3 records at one client: epsilon = 1.5, delta = 0 (per client); "
        "at up to 2 clients: epsilon = 3, delta = 0 (across clients)." in page
    )
    assert statement_document(statement)["person"]["across_sites"]["epsilon"] == pytest.approx(3.0)
    text = plain_words(statement)[1]
    assert text.startswith(
        "A person may have 6 records (3 at each of 2 clients), each for one round: "
        "epsilon = 3, delta = 0. "
    )
    assert (
        f"right at most {percent(1 - np.exp(-1.5) / 2)} times in 100" in text
    )  # six steps of epsilon = 1/2, with the middle at 1/2
    fewer = percent(1 - np.exp(-0.5) / (1 + np.exp(0.5)))  # three, with the kink in the middle
    assert (
        "A person with fewer records is protected more: "
        f"with 1 record at most 62.3 and with 3 records at most {fewer} times in 100." in text
    )
    labels = [line.get_label() for line in draw_statement(statement).axes[0].get_lines()]
    assert "the same, 6 records\nepsilon = 3, delta = 0" in labels
    assert "for one loss vector" in registry_yaml(statement)
    assert "at up to 2 clients: epsilon = 3" in registry_yaml(statement)
    assert [line.split(" | ")[0] for line in page.splitlines() if " records | " in line] == [
        "| 3 records",
        "| 6 records",
    ]
    assert OPEN in pages("pure")["statement.md"].split("## What is protected")[1].split("##")[0]


def test_a_person_with_too_many_records_is_a_warning(stated: Stated) -> None:
    statement = stated("pure", Details(records_per_client=20, clients_per_person=2))
    text = plain_words(statement)[1]
    assert (
        "40 records (20 at each of 2 clients), each for one round: "
        "epsilon = 20, delta = 0, close to no protection." in text
    )
    assert "the guess may be right over 99.9 times in 100" in text
    assert is_loud(text)
    files = rendered_statement(statement)
    assert f'<p class="loud">{text[:40]}' in files["statement.html"]
    assert "| 40 records | 20 | > 99.9 % |" in files["statement.md"]
    assert "100 %" not in files["statement.md"]
    assert "e^20" not in files["statement.md"]


def test_how_often_one_person_may_be_there_needs_both_numbers(stated: Stated) -> None:
    """With an open number of clients no most is named; a single client needs no number."""
    half = stated("pure", Details(records_per_client=3))
    text = plain_words(half)[1]
    assert text.startswith(
        f"A person may have 3 records at one client (at how many clients: {OPEN}), "
        "each for one round: epsilon = 1.5"
    )
    assert half.most is None
    assert statement_document(half)["person"]["across_sites"] is None
    assert f"clients one person may be at: {OPEN}" in rendered_statement(half)["statement.md"]
    alone = replace(
        half, algorithm=replace(half.algorithm, setting={**half.algorithm.setting, "clients": 1})
    )
    assert alone.most == 3
    assert plain_words(alone)[1].startswith(
        "A person may have 3 records, each for one round: epsilon = 1.5, delta = 0. "
    )


def test_nobody_is_in_more_rounds_than_there_are(stated: Stated) -> None:
    with pytest.raises(
        InvalidValue, match="Expected records_per_client=31 <= the 30 rounds of the run"
    ):
        stated("pure", Details(records_per_client=31))
