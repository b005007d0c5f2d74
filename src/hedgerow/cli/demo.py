"""`hedgerow demo`: real flu forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from hedgerow.cli import flu_story as flu
from hedgerow.cli.options import Debug, Json, Out
from hedgerow.cli.output import OUT, print_indented, print_json, progress_bar, say
from hedgerow.cli.tables import new_table, table_from_cells
from hedgerow.core.certificate import Observer
from hedgerow.core.protocol import Algorithm
from hedgerow.environments.recorded.forecast_table import ForecastTable
from hedgerow.evaluation.summary import estimate_json
from hedgerow.records.schema import STAMP
from hedgerow.studies.combine import AT_HOME, PRIVATE, Combined, combine
from hedgerow.studies.run import run_study
from hedgerow.studies.storage.folder import fresh_folder, study_document, write_study
from hedgerow.studies.study import Study

SEEDS, PASSES = 20, 3
ALONE = {flu.PHASED: flu.TOGETHER[flu.PHASED]}
PICTURE, WEIGHTS, COMBINATIONS = "flusight.png", "weights.png", "combined.png"
FIRST_WEEKS = 4
COMBINED = "Average error of combined forecasts, in % of the peak so far"
CARE = (
    "Brackets are 95 % intervals over blocks of weeks. On these weeks the private combination is "
    "better than the plain average and than states that learn alone; where brackets contain 0, "
    "other weeks may show something else. It is not significantly better than the best single "
    "model, which is known in hindsight only."
)
NOTE = f"{flu.READING}; {flu.SOURCE}; simulated noise; more seeds: hedgerow reproduce flusight"
PUBLIC = (
    "In reality these numbers are public. The demo treats each state's errors as secret, as they "
    "would be if states did not publish their admissions."
)


def demo(out: Out = None, json: Json = False, debug: Debug = False) -> None:
    """US states combine flu forecasts, with privacy.

    Every week, each state uses a weighted average of the models of CDC FluSight, and answers one
    private bit: was it too high?

    The demo compares this with what is usually done, for models chosen in hindsight and in advance.
    Then each state follows one of 12 models instead. It prints what each observer can learn, and
    writes a run folder with pictures.
    """
    combined = {title: combine(table, cut_off=1.0, seeds=SEEDS) for title, table in _tables()}
    configs = flu.story(SEEDS, PASSES, together=flu.TOGETHER, alone=ALONE)
    with fresh_folder(out, "demo") as folder:
        with progress_bar("demo") as update:
            done = {
                name: run_study(
                    config, progress=lambda count, total: update("choosing forecasts", count, total)
                )
                for name, config in configs.items()
            }
        record = write_study(done["together"], folder.path, folder.final)
        flu.picture(done, folder.path / PICTURE, NOTE)
        next(iter(combined.values())).plot(folder.path / WEIGHTS)
        _draw(combined, folder.path / COMBINATIONS)
    if json:
        errors = {line.name: estimate_json(line.value) for line in flu.outcomes(done)}
        shown = {title: found.to_dict() for title, found in combined.items()}
        document = study_document(done["together"], record)
        print_json({**document, "average_error_percent": errors, "combined": shown})
        return
    for title, found in combined.items():
        OUT.print(table_from_cells(f"{COMBINED}: {title}", found.cells()))
    OUT.print(CARE, markup=False)
    OUT.print("\nWhat each observer can learn about one week's admissions of one state:")
    for guarantee in next(iter(combined.values())).certificate.guarantees:
        print_indented(f"{guarantee.words()}")
    OUT.print("\nChoosing one model instead of combining:")
    OUT.print(_table(done))
    private, own = (
        flu.percent(done[study], label).mean
        for study, label in (("together", flu.PHASED), ("alone-open", flu.OPEN))
    )
    better = "better" if private < own else "worse"
    OUT.print(
        f"Together and private is {better} than alone without privacy: "
        f"it closes {flu.gained(private):.0%} of the gap between a random model and the best "
        f"one; learning alone closes {flu.gained(own):.0%}.",
        markup=False,
    )
    OUT.print(PUBLIC)
    OUT.print("\nWhat each observer can learn about one week's losses of one state:")
    for guarantee in done["together"].algorithms[flu.PHASED].certificate.guarantees:
        print_indented(f"{guarantee.words()}")
    OUT.print(f"\n{STAMP}; {flu.SOURCE}", markup=False)
    for name in (COMBINATIONS, WEIGHTS, PICTURE):
        say(f"Picture: {folder.final / name}")


def _tables() -> Iterator[tuple[str, ForecastTable]]:
    """The published choice of models, and one that was possible in advance."""
    hindsight = flu.STATES.combination
    early = flu.SLEEPING.combination.complete_at_first(FIRST_WEEKS)
    yield f"{len(hindsight.models)} models, complete in hindsight", hindsight
    yield f"{len(early.models)} models, complete in the first {FIRST_WEEKS} weeks", early


def _draw(combined: dict[str, Combined], path: Path) -> None:
    """Draw what every way saves over the plain average, for both choices of models."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from hedgerow.evaluation.plots.canvas import COLOURS, footnote, head, tidy

    figure = Figure(figsize=(6.4, 5.0), layout="constrained")
    head(figure, "Flu forecasts: what combining saves")
    axes, shape = figure.subplots(), {}
    for at, (title, found) in enumerate(combined.items()):
        ways, face = found.ways[1:], None if at == 0 else "white"  # the first is the plain average
        for row, way in enumerate(ways):
            place = row + 0.34 * at - 0.17
            colour = COLOURS[0] if way.name in (PRIVATE, AT_HOME) else COLOURS[6]
            axes.plot([way.low, way.high], [place, place], color=colour, linewidth=2)
            axes.plot(way.gain, place, "o", color=colour, markerfacecolor=face)
        axes.set_yticks(range(len(ways)), [way.name.replace(", ", ",\n", 1) for way in ways])
        label = f"{title} (plain average {found.ways[0].loss.mean:.2f} %)"
        shape[label] = {"marker": "o", "markerfacecolor": face, "color": COLOURS[6]}
    axes.axvline(0.0, color=COLOURS[1], linewidth=1, linestyle="--")
    axes.set_xlabel("points of error less than the plain average; right is better")
    axes.invert_yaxis()
    tidy(axes)
    handles = [Line2D([], [], label=label, **style) for label, style in shape.items()]
    above = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "frameon": False, "fontsize": 9}
    axes.legend(handles=handles, **above)
    footnote(figure, f"epsilon = 1; 95 % intervals over blocks of weeks; {flu.SOURCE}; {STAMP}")
    figure.savefig(path, dpi=150)


def _table(done: dict[str, Study]) -> Table:
    """A table for first-time readers: average errors, with the epsilon."""
    table = new_table(
        [""],
        ("average error, %", "gap closed", "epsilon", "delta"),
        title=flu.TITLE,
    )
    for line in flu.outcomes(done):
        gained = f"{flu.gained(line.value.mean):.0%}"
        table.add_row(line.name, str(line.value), gained, *_budget(line.algorithm))
    return table


def _budget(algorithm: Algorithm | None) -> tuple[str, str]:
    """What everybody may learn from the plays; nothing is learned without an algorithm."""
    if algorithm is None:
        return "-", "-"
    guarantee = algorithm.certificate.guarantee(Observer.PUBLIC)
    if not guarantee.protects:
        return "none", "none"
    epsilon, delta = guarantee.curve.stated()
    return f"{epsilon:.3g}", f"{delta:g}"
