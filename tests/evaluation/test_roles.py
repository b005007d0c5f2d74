"""Colours by role, the same in all panels; output that repeats and cuts off nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import hedgerow as hr
from hedgerow.cli.run import guarantees
from hedgerow.cli.tables import new_table
from hedgerow.evaluation.plots.canvas import PALETTES, Role, coloured, legend, role_of
from hedgerow.evaluation.plots.comparison import plot_comparison
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.gao2024.fed_svt import FedSVT
from support.command import Command
from support.made_up import made_up

GAME = hr.Bernoulli(clients=2, experts=3, horizon=20)
SPECS: dict[str, Any] = {
    "own": hr.SparseVector(epsilon=2.0),
    "printed": FedSVT(epsilon=2.0),
    "open": hr.Hedge(),
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that would have been written."""
    kept: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: kept.append(self))
    return kept


def test_every_role_has_its_own_colours() -> None:
    roles = [role_of(spec.build(GAME.setting).certificate) for spec in SPECS.values()]
    assert roles == ["private", "printed constants", "not private"]
    shades = [shade for palette in PALETTES.values() for shade in palette]
    assert len(set(shades)) == len(shades) == 24
    names: list[tuple[Role, str]] = [("private", "a"), ("private", "b"), ("not private", "a")]
    found = coloured([*names, *names])
    assert len(set(found.values())) == 3
    assert all(shade in PALETTES[role] for (role, _), shade in found.items())
    assert legend(["private", "private"]) == ""
    assert legend(["not private", "private"]) == "green and blue: private, grey: not private"


def test_a_name_has_one_colour_in_all_panels(drawn: list[Figure]) -> None:
    """Nine labels in three panels; roles are mixed in every panel."""
    entries = tuple(
        Entry(f"{family}/{name}", spec) for family in "abc" for name, spec in SPECS.items()
    )
    study = made_up(StudyConfig("x", GAME, entries, seeds=2), lambda *_: 3.0, (1, 20), seeds=2)
    study.plot("unused.png")
    (figure,) = drawn
    panels = [axes for axes in figure.axes if axes.get_title(loc="left") in set("abc")]
    assert len(panels) == 3
    seen = [
        {str(line.get_label()): to_hex(line.get_color()) for line in axes.lines} for axes in panels
    ]
    for panel in seen:
        assert panel["own"] == PALETTES["private"][0]
        assert panel["printed"] == PALETTES["printed constants"][0]
        assert panel["open"] == PALETTES["not private"][0]
    assert "red and brown: printed constants" in str(figure.get_supxlabel()).replace("\n", " ")


def test_algorithms_that_share_a_guarantee_share_its_lines(
    hedgerow: Command, tmp_path: Path
) -> None:
    rows = "".join(
        f'[[algorithms]]\nname = "sparse_vector"\nlabel = "every {n}"\nevery = {n}\n'
        for n in (1, 2, 3)
    )
    game = '[environment]\nname = "bernoulli"\nclients = 2\nexperts = 3\nhorizon = 12\n'
    open_ = '[[algorithms]]\nname = "hedge"\n[[algorithms]]\nname = "uniform"\n'
    (tmp_path / "study.toml").write_text(f"seeds = 1\n{game}{rows}{open_}")
    out = hedgerow("run", "study.toml", "--out", "results").out
    assert out.count("every 1; every 2; every 3:") == 1
    words = hr.SparseVector().build(hr.Setting(2, 3, 12)).certificate.peer.words()
    assert " ".join(out.split()).count(" ".join(words.split())) == 1
    assert "hedge:\n  no guarantee against any observer" in out
    stated = hedgerow("statement", "results").out
    assert "/every-1\nresults/statement/every-2\nresults/statement/every-3\n  simulation" in stated
    assert stated.count("NO GUARANTEE against the server: clients send") == 1
    assert stated.count("\n  audit: ") == 3  # sparse_vector, hedge, uniform


def test_groups_of_guarantees_keep_what_differs() -> None:
    entries = tuple(Entry(label, spec) for label, spec in SPECS.items())
    same = Entry("same", SPECS["own"])
    study = made_up(StudyConfig("x", GAME, (*entries, same), seeds=2), lambda *_: 3.0, seeds=2)
    labels = [found for found, _ in guarantees(study)]
    assert labels == [["own", "same"], ["printed"], ["open"]]


def test_nothing_is_cut_off_in_a_narrow_table(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    table = new_table(("name",), ("a long heading", "number"))
    table.add_row("a name that is long", "1,234,567.89 ± 0.12", "12345678901234567890")
    Console(width=30).print(table)
    out = capsys.readouterr().out
    assert "…" not in out
    assert out.replace("│", " ").count("0.12") == 1


def test_the_picture_of_a_comparison_has_whole_names(drawn: list[Figure], tmp_path: Path) -> None:
    name = "runs/" + "a-very-long-name-" * 12
    values = {"x": {"A": Estimate(1.0, 0.1, 3), "B": Estimate(2.0, 0.1, 3)}}
    plot_comparison({"A": name, "B": "b"}, values, {"x": {}}, tmp_path / "x.png")
    texts = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert name in texts[0].replace("\n", "").replace("A = ", "")
