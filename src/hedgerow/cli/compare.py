"""`hedgerow compare A B ...`."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hedgerow.cli.options import Debug, Json
from hedgerow.cli.output import OUT, print_json
from hedgerow.cli.tables import new_table
from hedgerow.core.errors import InvalidValue
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.compare import Comparison, Difference, compare_runs
from hedgerow.studies.storage.finished import read_run
from hedgerow.studies.storage.identity import shown

DEFAULT = Path("comparison.png")


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Two or more run folders; the others are compared with the first.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.png", help="The picture; must not exist. Default: a new comparison.png here.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare finished runs: differences and what explains them.

    Compare finished runs: regret of every label, the difference from the first run with its interval, and what differs.

    Example: hedgerow compare runs/before runs/after --out difference.png

    Where a label saw the same losses in both runs the difference is taken seed by seed (paired), otherwise as between
    independent samples (Welch). Intervals hold 95 % each.
    """
    picture = _free(out)
    comparison = compare_runs([read_run(folder) for folder in folders])
    _draw(comparison, picture)
    if json:
        print_json({**comparison.to_dict(), "picture": str(picture)})
        return
    for letter, name in comparison.names.items():
        OUT.print(f"{letter} = {name}", markup=False, soft_wrap=True)
    OUT.print(_table(comparison))
    for note in comparison.notes:
        OUT.print(f"Note: {note}", markup=False)
    _show_changes(comparison)
    OUT.print(f"Picture: {picture}", markup=False, soft_wrap=True)


def _free(out: Path | None) -> Path:
    if out is None:
        return next(p for n in count(1) if not (p := DEFAULT if n == 1 else DEFAULT.with_stem(f"{DEFAULT.stem}-{n}")).exists())
    if out.suffix != ".png":
        raise InvalidValue(f"Expected --out {out} to end in .png.")
    if out.exists():
        raise InvalidValue(f"Expected --out {out} to be new, it exists.")
    return out


def _draw(comparison: Comparison, picture: Path) -> None:
    """The picture appears when it is complete."""
    from hedgerow.evaluation.plots.comparison import plot_comparison

    regrets: dict[str, dict[str, Estimate]] = {}
    differences: dict[str, dict[str, Estimate]] = {}
    for row in comparison.rows:
        regrets.setdefault(row.label, {})[row.run] = row.regret
        away = differences.setdefault(row.label, {})
        if row.difference is not None:
            away[row.run] = row.difference.estimate
    draft = picture.with_name(f".{picture.name}.draft")
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        plot_comparison(comparison.names, regrets, differences, draft)
        draft.replace(picture)
    except OSError as error:
        raise InvalidValue(f"Cannot write to {picture}: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            draft.unlink()


def _table(comparison: Comparison) -> Table:
    numbers = ("regret", "seeds", "difference from A", "times A")
    table = new_table(("label", "run"), numbers, ("interval",), title="Regret, and its difference from A")
    last = None
    for row in comparison.rows:
        if last not in (None, row.label):
            table.add_section()
        regret = str(row.regret) if isfinite(row.regret.mean) else "no comparator"
        table.add_row("" if last == row.label else row.label, row.run, regret, str(row.regret.count), *_difference(row.difference))
        last = row.label
    return table


def _difference(difference: Difference | None) -> tuple[str, str, str]:
    if difference is None or not isfinite(difference.mean):
        return "-", "-", "-"
    ratio = "-" if difference.ratio is None else f"{difference.ratio:.3g}"
    seeds = f"{difference.seeds} seed{'s' if difference.seeds > 1 else ''}"
    how = f"paired, {seeds}" if difference.method == "paired" else "Welch"
    interval = how if isfinite(difference.half_width) else f"{how}: none, one seed"
    return difference.estimate.words(sign=True), ratio, interval


def _show_changes(comparison: Comparison) -> None:
    if not comparison.changes:
        OUT.print("Nothing differs in configuration, privacy, code and versions.")
        return
    OUT.print("What differs:")
    for name, values in comparison.changes.items():
        told = "; ".join(f"{letter} {_value(value)}" for letter, value in zip(comparison.names, values, strict=True))
        OUT.print(f"  {name}: {told}", markup=False, soft_wrap=True)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(value)
