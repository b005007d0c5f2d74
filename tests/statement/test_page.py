"""The page: what it must say, what must be loud, and how it is printed."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from matplotlib.text import Text

from hedgerow.core.rounding import rounded_up
from hedgerow.core.units import Client
from hedgerow.records.build import unit_record
from hedgerow.records.schema import STAMP
from hedgerow.statement.files import rendered_statement, statement_document
from hedgerow.statement.picture import draw_statement
from hedgerow.statement.statement import Details, read_details
from support.command import Command
from support.statements import EXAMPLE, TODAY, Pages, Stated


@pytest.mark.parametrize("label", ["pure", "approximate", "published", "uniform", "hedge"])
def test_a_simulation_is_stamped_everywhere(pages: Pages, label: str) -> None:
    files = pages(label)
    assert files["statement.md"].count(STAMP) >= 2
    assert f'<p class="stamp">{STAMP}</p>' in files["statement.html"]
    assert json.loads(files["statement.json"])["stamp"] == STAMP
    assert files["registry.yaml"].startswith(f"# {STAMP}\n")
    registered = yaml.safe_load(files["registry.yaml"])["deployment"]
    assert STAMP in registered["basic"]["description"]
    assert STAMP in registered["administrative"]["notes"]


def test_an_observer_without_guarantee_is_a_warning(pages: Pages) -> None:
    files = pages("pure")
    assert "**NO GUARANTEE against the server" in files["statement.md"]
    assert '<p class="loud">NO GUARANTEE against the server' in files["statement.html"]
    assert re.search(r'<td class="loud"[^>]*>NO GUARANTEE', files["statement.html"])
    assert (
        "NO GUARANTEE"
        in yaml.safe_load(files["registry.yaml"])["deployment"]["deployment_model"]["actors"]
    )
    nobody = pages("hedge")
    assert "assume that an attack always succeeds" in nobody["statement.md"]
    assert (
        yaml.safe_load(nobody["registry.yaml"])["deployment"]["privacy_loss"]["privacy_parameters"]
        == {}
    )


def test_a_published_calibration_states_claim_and_truth_side_by_side(
    stated: Stated, pages: Pages
) -> None:
    statement = stated("published")
    files = rendered_statement(statement)
    assert (
        "| observer | sees | claimed by the paper | proven here | proof |" in files["statement.md"]
    )
    assert "| epsilon = 1, delta = 0 | epsilon = 0.75, delta = 0 |" in files["statement.md"]
    sentence = (
        "the paper claims epsilon = 1, delta = 0; "
        "proven here is epsilon = 0.75, delta = 0: the claim holds"
    )
    assert all(sentence in files[name] for name in ("statement.md", "statement.html"))
    assert sentence in " ".join(
        yaml.safe_load(files["registry.yaml"])["deployment"]["privacy_loss"][
            "privacy_parameters_details"
        ].split()
    )
    guarantees = [replace(g, claim_holds=False) for g in statement.algorithm.guarantees]
    refuted = replace(statement, algorithm=replace(statement.algorithm, guarantees=guarantees))
    assert "**Published constants" in rendered_statement(refuted)["statement.md"]
    assert "THE CLAIM IS NOT SUPPORTED" in rendered_statement(refuted)["statement.md"]
    assert "claimed" not in pages("pure")["statement.md"]


def test_nothing_is_promised_where_nothing_is_guaranteed(pages: Pages) -> None:
    page, guarded = pages("hedge")["statement.md"], pages("pure")["statement.md"]
    for text in ("Floating point", "cover all of them", "Guarantee: Pr", "exact integers"):
        assert text not in page
        assert (text in guarded) == (text != "exact integers")


def test_observers_may_have_different_units(stated: Stated) -> None:
    statement = stated("pure")
    whole = unit_record(Client())
    first, *others = statement.algorithm.guarantees
    mixed = replace(
        statement,
        algorithm=replace(statement.algorithm, guarantees=[replace(first, unit=whole), *others]),
    )
    page = rendered_statement(mixed)["statement.md"]
    assert "Unit: one loss vector of one client in one round; all the data of one client." in page
    assert page.count("Neighbours: ") == 2


def test_the_page_says_for_whom_and_what_is_open(stated: Stated, pages: Pages) -> None:
    full = rendered_statement(stated("pure", read_details(EXAMPLE, TODAY)))
    purpose = full["statement.md"].split("## For whom and for what")[1].split("##")[0]
    for text in (
        "Hospital network (example)",
        "Use: Choose, every day",
        "European Union",
        "Why this epsilon: The review board set epsilon",
    ):
        assert text in purpose
    for text in (
        "Security: Sums of losses",
        "Before the noise: Losses lie",
        "Sources: Internal report",
        "Published: 2026-12-01",
    ):
        assert text in purpose
    assert "Still open:" not in full["statement.md"]
    bare = pages("pure")
    assert "For whom and for what" not in bare["statement.md"]
    signing = bare["statement.md"].split("## Sign-off")[1]
    assert "**Still open: intended use, records per client, clients per person, " in signing
    assert "server trusted by, expires, 11 details of the registry record.**" in signing
    assert '<p class="loud">Still open: intended use' in bare["statement.html"]
    for files in (full, bare):
        assert (
            "the time a computation takes"
            in files["statement.md"].split("## Not protected")[1].split("##")[0]
        )


def test_another_name_does_not_hide_the_title_of_the_run(stated: Stated, pages: Pages) -> None:
    assert (
        "as 'Four ways'"
        in rendered_statement(stated("pure", Details(name="Other")))["statement.md"]
    )
    assert "as 'Four ways'" not in pages("pure")["statement.md"]
    assert "name" not in tomllib.loads(EXAMPLE.read_text())


def test_the_page_explains_its_words(stated: Stated, pages: Pages) -> None:
    files = pages("approximate")
    page = files["statement.md"]
    for word in (
        "client (a site: hospital, bank, phone);",
        "expert, a model",
        "loss vector, how badly",
        "switch, a change",
        "plays, which",
        "false alarm: it answers B but A is true",
        "game, all rounds up to the horizon.",
    ):
        assert word in page
    assert "no readmissions, no retraining on it (NO_CARRY_OVER)" in page
    assert "coins" not in page
    strip = page.split("One record in one run: delta at other values of epsilon.")[1].split("##")[0]
    registered = yaml.safe_load(files["registry.yaml"])["deployment"]["privacy_loss"][
        "privacy_parameters_details"
    ]
    for point in statement_document(stated("approximate"))["guarantees"][1]["curve"]["table"]:
        rounded = rounded_up(point["delta"], 3)
        assert f"| {rounded} |" in strip
        assert f"{rounded} at {rounded_up(point['epsilon'], 3)}" in registered


def test_sections_with_nothing_to_say_vanish(pages: Pages) -> None:
    page = pages("hedge")["statement.md"]
    assert "## Holds only if" in pages("pure")["statement.md"]
    assert "## Holds only if" not in page
    assert not re.search(r"## [^\n]+\n\n(##|\Z)", page)


def test_nothing_is_printed_smaller_than_eight_points(stated: Stated, pages: Pages) -> None:
    files = pages("published")
    sizes = [
        float(size)
        for size in re.findall(r"(?:font|font-size): ([\d.]+)pt", files["statement.html"])
    ]
    assert len(sizes) >= 4
    assert min(sizes) >= 8
    figure = draw_statement(stated("published"))
    assert all(float(text.get_fontsize()) >= 8 for text in figure.findobj(Text) if text.get_text())
    assert figure.get_size_inches()[0] * 25.4 <= 194  # it is not shrunk in print
    assert figure.get_size_inches()[1] * 25.4 <= 52


def test_everything_the_page_must_say(stated: Stated) -> None:
    statement = stated("pure", read_details(EXAMPLE, TODAY))
    page = rendered_statement(statement)["statement.md"]
    code = statement.run.code
    expected = (
        *(
            "one loss vector of one client in one round",
            "replace one loss vector",
            "D ~ D'",
            "e^epsilon",
            "even if up to 2 other clients add",
        ),
        *(
            "the server follows the protocol and discloses nothing but its broadcasts "
            "(TRUSTED_SERVER)",
            "proofs/sparse_vector.md#weights-by-recency",
            "Horizon: 30 rounds",
        ),
        *(
            "After round 30 nothing more is learned or released; the last plays may stay in use "
            "at no further cost. A new game needs a new statement.",
            "When the budget is spent: after ",
            "with a second one like this the sum is epsilon = 1, delta = 0.",
        ),
        *(
            "numpy ",
            "dp-accounting ",
            "python ",
            "hedgerow ",
            "public seeds (seed 0)",
            code.sha256,
            "not audited",
            "expires 2027-12-01",
        ),
        *(
            "| role | name | date | signature |",
            "Principal investigator",
            "NoisyMax",
            "drops out",
            "trade-off.svg",
        ),
    )
    assert [text for text in expected if text not in page] == []


def test_the_page_to_print_needs_nothing_else(stated: Stated) -> None:
    page = rendered_statement(stated("pure", Details(name="<script>alert(1)</script> & more")))[
        "statement.html"
    ]
    assert page.count("<svg") == 1
    assert "size: A4" in page
    assert not re.search(r"<script|<link|<img|@import|url\(http|(src|href)=\"http", page)
    assert "&lt;script&gt;" in page


def test_rendering_is_repeatable(stated: Stated, pages: Pages) -> None:
    assert pages("approximate") == rendered_statement(stated("approximate"))


def test_a_game_with_absent_clients_says_that_presence_shows(
    hedgerow: Command, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(
        'title = "absent"\nseeds = 1\n[environment]\nname = "absent"\n'
        'of = {name = "bernoulli", clients = 2, experts = 3, horizon = 8}\n'
        '[[algorithms]]\nname = "sparse_vector"\nepsilon = 1.0\n'
    )
    assert hedgerow("run", "study.toml", "--out", "absent").code == 0
    assert hedgerow("statement", "absent").code == 0
    page = next((tmp_path / "absent" / "statement").rglob("statement.md")).read_text()
    assert "given that the client had a case in that round" in page
    assert "a missing play shows it" in page
    assert "and the same clients take part" in page
    assert page.count("Neighbours:") == 1
    assert (
        "Observers see that it has no case in a round; "
        "this must not depend on the protected record." in page
    )
