"""Pictures say what they show: nothing is cut off in silence, every experiment's carries its stamp,
and siblings are found.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from hedgerow.core.errors import MissingData
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.evaluation.plots.canvas import COLOURS, plain
from hedgerow.evaluation.plots.dots import Row, plot_dots
from hedgerow.evaluation.plots.over_time import Line, plot_regret_over_time
from hedgerow.evaluation.recorder import RunResult, with_switches
from hedgerow.evaluation.statistics import Estimate
from hedgerow.records.schema import STAMP
from hedgerow.studies.study import Study
from hedgerow_papers.experiments.pictures import footer, pictures, sibling
from hedgerow_papers.lines import plot_regret_against
from hedgerow_papers.log_axis import CUT, Bar, draw_bars, set_span, span
from hedgerow_papers.panels import plot_bars
from support.made_up import made_up


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every figure that is saved from now on."""
    figures, save = [], Figure.savefig

    def keep(self: Figure, *args: Any, **kwargs: Any) -> None:
        save(self, *args, **kwargs)
        figures.append(self)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def _run(label: str, seed: int, end: float, horizon: int) -> RunResult:
    at = np.linspace(horizon / 8, horizon, 8).round().astype(int)
    curve = (end + seed) * at / horizon
    return RunResult(label, seed, at, curve, curve, end, 0.0, 0, 0, 0, 0, 0)


def _said(figure: Figure) -> str:
    return " ".join(figure.get_supxlabel().split())


MANY = {
    "one panel": [f"algorithm number {i}" for i in range(8)],
    "families": [f"{name}/T={i}" for name in "abcdefghijk" for i in range(3)],
    "one large family": [f"the algorithm/m={i}" for i in range(20)],
    "long names": [f"{'a very long name ' * 5}that costs {i} $ and ${i}$" for i in range(9)],
    "no families": [f"algorithm number {i}" for i in range(31)],
}


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(x, id=n, marks=pytest.mark.long if n == "families" else ())
        for n, x in MANY.items()
    ],
)
def test_all_names_are_inside_the_picture_apart_and_tied_to_their_curve(
    labels: list[str], drawn: list[Figure], tmp_path: Path
) -> None:
    lengths = {label: 2**20 // (1 + i % 3) for i, label in enumerate(labels)}
    results = [
        _run(label, seed, 1990.0 + i, lengths[label])
        for i, label in enumerate(labels)
        for seed in range(2)
    ]
    plot_regret_over_time(results, tmp_path / "a.png", "A title", "a note")
    (figure,) = drawn
    figure.draw_without_rendering()
    ends_of = {
        axes: [child for child in axes.get_children() if isinstance(child, Annotation)]
        for axes in figure.axes
    }
    for text in (*figure.texts, *(end for ends in ends_of.values() for end in ends)):
        box = Text.get_window_extent(text)
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, text.get_text()
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1, text.get_text()
        assert "e+" not in text.get_text()
    named = 0
    for axes, ends in ends_of.items():
        assert axes.xaxis.get_offset_text().get_text() == ""
        boxes = sorted((Text.get_window_extent(end) for end in ends), key=lambda box: box.y0)
        assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))
        curves = [line for line in axes.get_lines() if len(np.atleast_1d(line.get_xdata())) > 1]
        assert {end.xy for end in ends} == {
            (float(np.asarray(c.get_xdata())[-1]), float(np.asarray(c.get_ydata())[-1]))
            for c in curves
        }
        assert len({line.get_color() for line in curves}) == len(curves) <= 8
        for end in ends:
            early = bool(end.xy[0] < axes.get_xlim()[1])
            assert (
                (end.arrow_patch is None)
                == early
                == (f" by round {end.xy[0]:,.0f}" in end.get_text())
            )
        named += len(ends)
    assert named == len(labels)


def test_a_band_ends_where_no_regret_can_be() -> None:
    rounds = np.array([2, 4])
    runs = [
        replace(_run("a", seed, 0.0, 4), rounds=rounds, regret=np.array(regret))
        for seed, regret in enumerate([(2.0, 4.0), (0.0, -1.0)])
    ]
    low, high = Line.of(runs).band
    assert high.tolist() == [0, 2, 4]
    assert low.tolist() == [0, -2, -4]
    assert Line.of(runs).top == (1.5, 4.0)


def test_the_same_number_beside_the_curve_and_on_the_axis() -> None:
    assert [plain(value) for value in (0.0, 0.5, 42.0, 99.99, 1990.0, 2000.0, -1500.0)] == [
        "0", "0.5", "42", "100", "1,990", "2,000", "-1,500",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bars", "cut"),
    [
        ([Bar(1.0, 8.0, 10.0, 12.0), Bar(2.0, 15.0, 20.0, 25.0)], set()),
        ([Bar(1.0, -5.0, 10.0, 25.0)], {"v"}),
        ([Bar(1.0, 0.001, 10.0, 1e5)], {"v", "^"}),
        ([Bar(1.0, 9.0, 10.0, 11.0), Bar(2.0, -3.0, -1.0, 12.0)], {"v"}),
        ([Bar(1.0, float("nan"), 10.0, float("nan"))], set()),
    ],
)
def test_a_bar_ends_where_its_interval_does_or_in_an_arrow(bars: list[Bar], cut: set[str]) -> None:
    axes, limits = Figure().add_subplot(), span(bars)
    set_span(axes, limits)
    _, told = draw_bars(axes, bars, limits, colour="black")
    arrows = [line for line in axes.get_lines() if line.get_marker() in ("v", "^")]
    assert told == bool(cut)
    assert {str(line.get_marker()) for line in arrows} == cut
    assert all(np.asarray(line.get_ydata())[0] in limits for line in arrows)
    caps = {
        float(np.asarray(line.get_ydata())[0])
        for line in axes.get_lines()
        if line.get_marker() == "_"
    }
    assert caps == {
        end for bar in bars for end in (bar.low, bar.high) if limits.low <= end <= limits.high
    }


def test_the_axis_is_not_as_wide_as_the_widest_bar() -> None:
    limits = span([Bar(1.0, 1e-3, 1.0, 1e4), Bar(2.0, 1e-3, 10.0, 1e4)])
    assert 0.2 < limits.low < 1.0
    assert 10.0 < limits.high < 50.0


def test_a_cut_bar_is_told_below_the_picture(drawn: list[Figure], tmp_path: Path) -> None:
    for half in (1.0, 30.0):
        points = {"ours": {1.0: Estimate(10.0, half, 3), 10.0: Estimate(5.0, 0.5, 3)}}
        plot_regret_against(points, tmp_path / "a.png", "A title", "clients", note="a note")
        plot_bars(
            {"m=1": {"ours": points["ours"][1.0]}},
            tmp_path / "b.png",
            "A title",
            "regret",
            "a note",
        )
    assert [_said(figure) for figure in drawn] == [
        "a note",
        "a note",
        f"a note; {CUT}",
        f"a note; {CUT}",
    ]


def test_dots_show_every_name_and_number_and_a_line_to_compare(
    drawn: list[Figure], tmp_path: Path
) -> None:
    rows = [
        Row("alone", Estimate(16.32, nan, 1), COLOURS[1]),
        Row("together", Estimate(15.94, 0.5, 9), COLOURS[0], bold=True),
    ]
    plot_dots(rows, tmp_path / "a.png", "A title", "error, %", "a note", mark="alone")
    (axes,) = drawn[0].axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["alone", "together"]
    assert {text.get_text() for text in axes.texts} == {"16.3", "15.9"}
    dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [set(np.asarray(line.get_xdata())) for line in dashed] == [{16.32}]
    low, high = axes.get_xlim()
    assert low < 15.44
    assert high > 16.44
    assert _said(drawn[0]) == "a note"


# Experiments


MEASURED = ("dynamic regret", "test accuracy", "test loss", "plain")  # by experiments


def _curves(study: Study) -> Study:
    """Made-up results as curves over the whole horizon."""
    horizons = {
        entry.label: study.config.environment_of(entry).setting.rounds
        for entry in study.config.algorithms
    }

    best = {with_switches(changes): 0.0 for changes in study.config.comparator_switches}

    def stretched(run: RunResult) -> RunResult:
        horizon = horizons[run.label]
        powers = [*(2**k for k in range(21) if 2**k <= horizon), horizon]
        at = np.unique(powers if horizon > 100 else range(1, horizon + 1))
        figures = {name: curve[-1] * at / horizon for name, curve in run.figures.items()}
        figures |= dict.fromkeys(MEASURED, 0.5 + 0 * at)
        return replace(
            run,
            rounds=at,
            regret=run.final_regret * at / horizon,
            comparators={**run.comparators, **best},
            figures=figures,
        )

    return replace(study, results=[stretched(run) for run in study.results])


# curves of certificates; bands of one standard deviation
WITHOUT_INTERVALS = ("jacobsen2025-figure1", "zhang2024-figure3", "zhang2024-figure4")


SLOW_TO_PLAY = (
    "asi2023-pure-approximate",
    "asi2023-rates",
    "jacobsen2025-figure1",
    "zhang2024-figure4",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(x, marks=pytest.mark.long if x in SLOW_TO_PLAY else ())
        for x in EXPERIMENTS
        if x not in ("combination", "combination-losses")  # drawn in test_combination.py
    ],
)
def test_every_picture_of_an_experiment_says_what_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    experiment, drawn = EXPERIMENTS[name], list[Figure]()

    def lay_out(self: Figure, path: Path, **_: Any) -> None:
        self.draw_without_rendering()
        drawn.append(self)
        path.touch()

    monkeypatch.setattr(Figure, "savefig", lay_out)
    try:
        configs = experiment.studies(True)
    except MissingData as missing:
        pytest.skip(str(missing))
    done = {
        key: _curves(made_up(config, lambda _, setting: 0.1 * setting.rounds**0.5))
        for key, config in configs.items()
    }
    seeds = max(config.seeds for config in configs.values())
    experiment.draw(done, tmp_path / f"{name}.png")
    assert len(drawn) == len(pictures(tmp_path, name))
    for figure in drawn:
        for words in (
            STAMP,
            "quick",
            *(() if name in WITHOUT_INTERVALS else ("95 %", f"{seeds}")),
        ):
            assert words in _said(figure)


def test_the_footer_counts_seeds_where_they_differ() -> None:
    def studies(quick: bool) -> dict[str, Any]:
        return {
            name: replace(config, seeds=3 if quick else seeds)
            for (name, config), seeds in zip(configs.items(), (4, 9), strict=True)
        }

    configs = EXPERIMENTS["gao2024-lowerbounds"].studies(True)

    def said(quick: bool) -> str:
        return footer(
            {name: Study(config, {}, [], []) for name, config in studies(quick).items()},
            studies,
            "bars",
        )

    assert said(False) == f"means over 4 (common coins), 9 (hidden expert) seeds; bars; {STAMP}"
    assert said(True).startswith(f"means over 3 seeds; bars; {STAMP}; quick")


def test_the_main_picture_comes_first(tmp_path: Path) -> None:
    main = tmp_path / "z.png"
    for file in (
        sibling(main, "b"),
        sibling(main, "a"),
        main,
        tmp_path / "zebra.png",
        tmp_path / "z.txt",
    ):
        file.touch()
    assert [file.name for file in pictures(tmp_path, "z")] == ["z.png", "z-a.png", "z-b.png"]
