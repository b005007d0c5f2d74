"""The tables of the command line: text is aligned left, numbers right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.table import Table
from rich.text import Text

from hedgerow.core.losses import Gains
from hedgerow.core.text import one_line
from hedgerow.evaluation.recorder import OWN_BEST
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import cells, printed_columns
from hedgerow.studies.study import Study

NEGATIVE = "negative regret: better than the best single expert (or point) in hindsight"
VERDICTS = {True: "[green]yes[/green]", False: "[red]no[/red]", None: ""}


def new_table(
    texts: Sequence[str],
    numbers: Sequence[str] = (),
    more_texts: Sequence[str] = (),
    *,
    title: str | None = None,
    caption: str = "",
) -> Table:
    """An empty table with these columns, in this order; long text is folded."""
    name = None if title is None else Text(one_line(title), style="bold")
    table = Table(title=name, title_justify="left", title_style="bold")
    if caption:
        table.caption, table.caption_justify, table.caption_style = Text(caption), "left", ""
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        longest = max(map(len, heading.split()), default=0)  # no word of it is cut
        table.add_column(heading, justify="right", overflow="fold", min_width=longest)
    for heading in more_texts:
        table.add_column(heading, overflow="fold")
    return table


def table_from_cells(title: str, lines: Sequence[Sequence[str]], numbers: bool = True) -> Table:
    """A table from headings and rows of text: the first column is text, the others numbers."""
    head, *rows = lines
    table = new_table(head[:1], head[1:], title=title) if numbers else new_table(head, title=title)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def summary_table(study: Study) -> Table:
    """The summary table of a study, with the same columns as a printed study."""
    rows = study.summary()
    meanings = study.meanings()
    columns = printed_columns(rows, meanings)
    explained = {"regret_bound", "regret_error", *meanings}
    lines = [
        f"{column.heading}: {column.meaning}" for column in columns if column.name in explained
    ]
    if any(row.regret.mean < 0 for row in rows):
        lines.append(NEGATIVE)
    caption = "\n".join(lines)
    table = new_table(
        [""], [column.heading for column in columns], title=study.config.title, caption=caption
    )
    for row in rows:
        table.add_row(Text(one_line(row.label)), *cells(row, columns))
    return table


def comparators_table(study: Study) -> Table | None:
    """The losses or gains of algorithms and comparators, with one column for each stream.

    If every algorithm has its own stream, each has a row with the comparators beside it. None
    if there are no comparators.
    """
    streams = study.streams()
    games = [study.config.environment_of(entry).setting for entry in study.config.algorithms]
    gains = all(isinstance(setting.family, Gains) for setting in games)
    alone = all(setting.players == 1 for setting in games)  # its own best expert is the best one
    unit = "gain" if gains else "loss"
    if len(streams) > 1 and all(len(stream.algorithms) == 1 for stream in streams.values()):
        shown = dict.fromkeys(
            name
            for stream in streams.values()
            for name in stream.comparators
            if not (alone and name == OWN_BEST)
        )
        table = new_table([""], [unit, *shown], title="comparators")
        for stream in streams.values():
            ((label, own),) = stream.algorithms.items()
            beside = (_cell(stream.comparators.get(name), gains) for name in shown)
            table.add_row(Text(one_line(label)), _cell(own, gains), *beside)
        return table if shown else None
    table = new_table(
        [""], [f"{unit} ({name})" if name else unit for name in streams], title="comparators"
    )
    for part in ("algorithms", "comparators"):
        paid: list[dict[str, Estimate]] = [getattr(stream, part) for stream in streams.values()]
        for label in dict.fromkeys(label for losses in paid for label in losses):
            if alone and part == "comparators" and label == OWN_BEST:
                continue
            table.add_row(
                Text(one_line(label)), *(_cell(losses.get(label), gains) for losses in paid)
            )
        table.add_section()
    return table if any(stream.comparators for stream in streams.values()) else None


def _cell(loss: Estimate | None, gains: bool) -> str:
    """A loss, or minus the loss, which is a gain."""
    if loss is None:
        return ""
    return str(replace(loss, mean=0.0 - loss.mean) if gains else loss)
