"""Numbers: every one is the certificate's, in every document."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.rounding import rounded_up
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
from hedgerow.statement.files import rendered_statement
from hedgerow.statement.registry import registry_record
from hedgerow.statement.words.conditions import collusion_words
from support.statements import SETTING, SPECS, Pages, Stated, with_curve


@pytest.mark.parametrize(
    "label",
    [pytest.param(x, marks=pytest.mark.long if x == "approximate" else ()) for x in SPECS],
)
def test_every_guarantee_number_is_the_certificates(
    stated: Stated, pages: Pages, label: str
) -> None:
    certificate = SPECS[label].build(SETTING).certificate
    files = pages(label)
    printed = json.loads(files["statement.json"])
    registered = yaml.safe_load(files["registry.yaml"])
    assert [g["observer"] for g in printed["guarantees"]] == [
        g.observer.value for g in certificate.guarantees
    ]
    for guarantee, shown in zip(certificate.guarantees, printed["guarantees"], strict=True):
        if not guarantee.protects:
            assert shown["curve"] is None
            continue
        epsilon, delta = guarantee.curve.stated()
        assert (shown["curve"]["epsilon"], shown["curve"]["delta"]) == (epsilon, delta)
        assert all(
            point["delta"] == guarantee.curve.delta(point["epsilon"])
            for point in shown["curve"]["table"]
        )
        for attack in shown["curve"]["attacks"]:
            assert attack["detections"] == pytest.approx(
                1 - float(trade_off(guarantee.curve, attack["false_alarms"])), abs=1e-12
            )
        words = f"epsilon = {rounded_up(epsilon)}, delta = {rounded_up(delta)}"
        assert files["statement.md"].count(words) >= 2
        assert files["statement.html"].count(words) >= 2
        assert words in registered["deployment"]["privacy_loss"]["privacy_parameters_details"]
        for point in shown["curve"]["table"]:
            shown_delta = rounded_up(point["delta"], 3)
            assert f"| {shown_delta} |" in files["statement.md"]
            assert f">{shown_delta}</td>" in files["statement.html"]
        if guarantee.claimed is not None:
            assert (
                shown["claimed"]["epsilon"],
                shown["claimed"]["delta"],
            ) == guarantee.claimed.stated()
    peer = certificate.guarantee(Observer.PEER)
    assert registered["deployment"]["privacy_loss"]["privacy_parameters"] == {
        "epsilon": peer.curve.stated()[0],
        "delta": peer.curve.stated()[1],
    }
    for parameter, value in SPECS[label].build(SETTING).parameters.items():
        assert printed["parameters"][parameter] == value
        assert (
            f"{parameter} = {value:.6g}" in files["statement.md"]
            if isinstance(value, float)
            else True
        )
    drawn = [(m["name"], m["scale"], m["sensitivity"]) for m in printed["mechanisms"]]
    assert drawn == [
        (type(m).__name__, m.noise_scale(), m.sensitivity) for m in certificate.mechanisms
    ]


def test_a_budget_that_is_not_spent_is_printed_with_what_is_needed(stated: Stated) -> None:
    spent, little = stated("pure"), with_curve(stated("pure"), PureDP(0.1006))
    asked = little.algorithm.choices["epsilon"]
    text = f"asked for at most epsilon = {asked:g}; this choice needs 0.1006."
    assert text in rendered_statement(little)["statement.md"]
    assert "this choice needs" not in rendered_statement(spent)["statement.md"]


def test_a_chosen_parameter_is_not_printed_as_derived(stated: Stated) -> None:
    statement = stated("pure")
    both = replace(
        statement.algorithm,
        choices={**statement.algorithm.choices, "draws": 5},
        parameters={"draws": 5, "rate": 0.25},
    )
    page = rendered_statement(replace(statement, algorithm=both))["statement.md"]
    assert page.count("draws = 5") == 1
    assert "Derived: rate = 0.25" in page


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
    stated: Stated, curve: PrivacyCurve, variant: str, rho: float | None
) -> None:
    statement = with_curve(stated("pure"), curve)
    registered = registry_record(statement)["deployment"]
    assert registered["dp_variant"]["variant_name"] == variant
    assert registered["privacy_loss"]["privacy_parameters"].get("rho") == rho
    page = rendered_statement(statement)["statement.md"]
    assert curve.words() in page
    assert (
        f"epsilon = {rounded_up(curve.stated()[0])}, delta = {rounded_up(curve.stated()[1])}"
        in page
    )


def test_a_conversion_that_says_nothing_is_left_out_and_one_other_client_is_one(
    stated: Stated,
) -> None:
    page = rendered_statement(with_curve(stated("pure"), LaplaceDP(1.0)))["statement.md"]
    assert "epsilon = 1, delta = 0 (Laplace)" in page
    assert "converted" not in page
    assert "Bounded range:" not in page
    assert (
        "Bounded range:"
        in rendered_statement(with_curve(stated("pure"), BoundedRange(1.0)))["statement.md"]
    )
    assert (
        "converted"
        in rendered_statement(with_curve(stated("pure"), GaussianDP(0.5)))["statement.md"]
    )
    statement = stated("pure")
    pair = [replace(g, colluding=1) for g in statement.algorithm.guarantees]
    text = collusion_words(
        replace(statement, algorithm=replace(statement.algorithm, guarantees=pair))
    )
    assert "even if 1 other client adds its data and its own random numbers" in text


def test_the_largest_epsilon_and_the_largest_delta_are_quoted_together(stated: Stated) -> None:
    """One observer has the larger epsilon and one the larger delta: neither number is lost."""
    statement = stated("pure")
    server, peer, public = statement.algorithm.guarantees
    curves = (curve_record(ApproximateDP(2.0, 1e-9)), curve_record(ApproximateDP(1.0, 1e-3)))
    mixed = [
        server,
        *(replace(g, curve=curve) for g, curve in zip((peer, public), curves, strict=True)),
    ]
    changed = replace(statement, algorithm=replace(statement.algorithm, guarantees=mixed))
    assert registry_record(changed)["deployment"]["privacy_loss"]["privacy_parameters"] == {
        "epsilon": 2.0,
        "delta": 1e-3,
    }
    assert (
        "with a second one like this the sum is epsilon = 4, delta = 0.002."
        in rendered_statement(changed)["statement.md"]
    )
