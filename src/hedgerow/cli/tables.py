"""The tables of the command line: text is aligned left, numbers right."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from hedgerow.evaluation.summary import cells, printed_columns
from hedgerow.studies.study import Study

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
    table = Table(title=title, title_justify="left", title_style="bold")
    if caption:
        table.caption, table.caption_justify, table.caption_style = caption, "left", ""
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right")
    for heading in more_texts:
        table.add_column(heading, overflow="fold")
    return table


def summary(study: Study) -> Table:
    """The summary table of a study, with the same columns as a printed study."""
    rows = study.summary()
    meanings = study.meanings()
    columns = printed_columns(rows, meanings)
    explained = {"regret_bound", "regret_error", *meanings}
    caption = "\n".join(
        f"{column.heading}: {column.meaning}" for column in columns if column.name in explained
    )
    table = new_table(
        [""], [column.heading for column in columns], title=study.config.title, caption=caption
    )
    for row in rows:
        table.add_row(row.label, *cells(row, columns))
    return table


def comparators(study: Study) -> Table | None:
    """The losses of algorithms and comparators, with one column for each stream.

    None if there are no comparators.
    """
    streams = study.streams()
    table = new_table(
        [""], [f"loss ({name})" if name else "loss" for name in streams], title="comparators"
    )
    for part in ("algorithms", "comparators"):
        paid = [getattr(stream, part) for stream in streams.values()]
        for label in dict.fromkeys(label for losses in paid for label in losses):
            table.add_row(label, *(str(losses.get(label, "")) for losses in paid))
        table.add_section()
    return table if any(stream.comparators for stream in streams.values()) else None
