"""`hedgerow reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, isnan
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hedgerow.cli.options import Data, Debug, Json, Out, Plugins, Workers, apply_options
from hedgerow.cli.output import OUT, print_json, progress_bar, say
from hedgerow.cli.tables import VERDICTS, new_table
from hedgerow.core.errors import InvalidValue
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.evaluation.summary import Stream, digits
from hedgerow.studies.storage.place import check_new, check_writable
from hedgerow.studies.storage.unfinished import RUNS
from hedgerow_papers.experiments.experiment import Check, Experiment, claim_words
from hedgerow_papers.experiments.pictures import pictures
from hedgerow_papers.experiments.reproduce import Outcome, Sent
from hedgerow_papers.experiments.reproduce import reproduce as run_experiment
from hedgerow_papers.experiments.side_by_side import side_by_side

MOST_CHECKS = 40  # an experiment with more prints a selection
MOST_STREAMS = 4  # printed of a study; the files have all
MOST_SENT = 8  # lines on communication that are printed; verdict.json has all
WORDS = {**VERDICTS, None: "not judged"}


def reproduce(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Experiments; see `hedgerow list`.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All experiments, in their quick form.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds; shown, but not judged by the full limits.")
    ] = False,
    state: Annotated[
        str | None,
        typer.Option("--state", help='Only this state, such as "OH", of data on hospitals.'),
    ] = None,
    out: Out = None,
    workers: Workers = None,
    json: Json = False,
    plugin: Plugins = None,
    data: Data = None,
    debug: Debug = False,
) -> int:
    """Reproduce published figures and judge each claim.

    For each check: the published value, the obtained value, the limit and the verdict.

    Example: hedgerow reproduce gao2024-figure2

    "holds" says whether the paper's claim holds: as printed, with other constants, or not.
    "passed" says whether our own expectations were met. Exit code 0: passed, 1: a check failed, 2:
    data are missing for an experiment that you named.
    """
    apply_options(plugin, data, workers)
    if bool(ids) == all_:
        raise InvalidValue("Give either experiment IDs or --all. `hedgerow list` shows the IDs.")
    names = list(EXPERIMENTS) if all_ else list(ids or [])
    experiments = {name: _of_state(EXPERIMENTS[name], state) for name in names}
    if out is not None and len(experiments) > 1:
        raise InvalidValue(
            f"--out takes one experiment, got {len(experiments)}. Name one, or omit --out."
        )
    if out is not None:
        check_new(Path(out))
    else:
        check_writable(RUNS, f"{RUNS}/")
    found: dict[str, Outcome] = {}

    def here(name: str) -> Outcome:
        with progress_bar(name) as update:
            return run_experiment(
                experiments[name],
                quick=quick or all_,
                out=out,
                workers=workers,
                progress=lambda study, done, total: update(f"{name}: {study}", done, total),
            )

    def done(name: str, outcome: Outcome) -> None:
        found[name] = outcome
        if not json:
            _show(outcome, experiments[name].title, experiments[name].claim)

    side_by_side(names, workers, here, partial(_reproduce_in_worker, quick or all_), done)
    outcomes = [found[name] for name in names]
    if json:
        print_json({"experiments": [outcome.to_dict() for outcome in outcomes]})
    if not all_ and any(outcome.status == "no-data" for outcome in outcomes):
        return 2
    return 1 if any(outcome.passed is False for outcome in outcomes) else 0


def _of_state(experiment: Experiment, state: str | None) -> Experiment:
    if state is None:
        return experiment
    if experiment.of_state is None:
        raise InvalidValue(f"{experiment.id} has no data of states. Leave out --state.")
    return experiment.of_state(state)


def _reproduce_in_worker(quick: bool, name: str) -> Outcome:
    """The outcome of a registered experiment, in a separate process."""
    return run_experiment(EXPERIMENTS[name], quick=quick, out=None, workers=1)


def _show(outcome: Outcome, title: str, claim: str) -> None:
    OUT.print(f"[bold]{outcome.id}[/bold]  {title}")
    OUT.print(f"claim: {claim}")
    if outcome.verdict is None:
        say(f"{outcome.status}: {outcome.message}")
        return
    judged = outcome.status == "ran"
    checks = selected(outcome.verdict.checks, judged)
    left_out = len(outcome.verdict.checks) - len(checks)
    which = (
        "failed checks, and the tightest of each kind" if judged else "the tightest of each kind"
    )
    caption = f"{which}; {left_out} more in verdict.json" if left_out else ""
    table = new_table(("check",), ("published", "obtained", "", "limit", "passed"), caption=caption)
    for check in checks:
        published = "-" if check.published is None else digits(check.published)
        verdict = WORDS[check.passed if judged else None]
        table.add_row(
            check.name, published, digits(check.obtained), check.op, digits(check.limit), verdict
        )
    OUT.print(table)
    OUT.print(_comparators(outcome))
    OUT.print(_communication(outcome.sent))
    for shown in outcome.verdict.tables:
        texts = new_table(shown.columns[:1], shown.columns[1:], title=shown.title)
        for row in shown.printed():
            texts.add_row(*row)
        OUT.print(texts)
    holds = claim_words(outcome.verdict.holds if judged else None)
    passed = WORDS[outcome.passed]
    OUT.print(
        f"the paper's claim: {holds}    our expectations hold: {passed}    ({outcome.status})"
    )
    if outcome.message:
        OUT.print(f"note: {outcome.message}", markup=False)
    if outcome.folder is not None:
        say(f"results in {outcome.folder}")
        for picture in pictures(outcome.folder, outcome.id):
            say(f"picture: {picture}")


def selected(checks: Sequence[Check], judged: bool = True) -> list[Check]:
    """The checks to print: all if few, otherwise the failed ones and the tightest of each kind.

    The kind is the text after the last slash.
    """
    if len(checks) <= MOST_CHECKS:
        return list(checks)
    tightest: dict[str, int] = {}
    for i, check in enumerate(checks):
        kind = check.name.rpartition("/")[2]
        if kind not in tightest or _slack(check) < _slack(checks[tightest[kind]]):
            tightest[kind] = i
    kept = set(tightest.values())
    return [check for i, check in enumerate(checks) if i in kept or (judged and not check.passed)]


def _slack(check: Check) -> float:
    """How far a value is inside its limit, as a share of the limit; negative if it fails."""
    inside = check.limit - check.obtained if check.op == "<=" else check.obtained - check.limit
    return -inf if isnan(inside) else inside / (abs(check.limit) or 1.0)


def _comparators(outcome: Outcome) -> Table:
    """One line per stream: the losses of the algorithms, best to worst, and of the comparators."""
    lines = [
        (study, name, stream)
        for study, streams in outcome.streams.items()
        for name, stream in _shown(streams).items()
    ]
    left_out = sum(map(len, outcome.streams.values())) - len(lines)
    names = dict.fromkeys(name for _, _, stream in lines for name in stream.comparators)
    caption = f"{left_out} more in summary.json" if left_out else ""
    table = new_table(
        ("losses",),
        ("algorithms", *names),
        title="comparators: mean loss of a client",
        caption=caption,
    )
    for study, name, stream in lines:
        paid = sorted(estimate.mean for estimate in stream.algorithms.values())
        others = [
            digits(stream.comparators[n].mean) if n in stream.comparators else "" for n in names
        ]
        table.add_row(f"{study} ({name})" if name else study, _range(paid[0], paid[-1]), *others)
    return table


def _communication(sent: Sequence[Sent]) -> Table:
    """One line per algorithm: numbers and bytes of all messages, and what a theorem states."""
    half = MOST_SENT // 2
    lines = sent if len(sent) <= MOST_SENT else (*sent[:half], *sent[-half:])
    left_out = len(sent) - len(lines)
    table = new_table(
        ("algorithm",),
        ("numbers sent", "bytes sent", "theorem, constant 1"),
        title="communication: means over seeds",
        caption=f"{left_out} more in verdict.json" if left_out else "",
    )
    for line in lines:
        printed = "-" if line.printed is None else f"{line.formula} = {digits(line.printed)}"
        table.add_row(
            f"{line.study} ({line.label})", f"{line.numbers:,.0f}", f"{line.bytes:,.0f}", printed
        )
    return table


def _shown(streams: dict[str, Stream]) -> dict[str, Stream]:
    """All streams, or the first and last ones if there are many.

    An experiment may have a stream for every algorithm and horizon.
    """
    names = list(streams)
    kept = (
        names
        if len(names) <= MOST_STREAMS
        else [*names[: MOST_STREAMS // 2], *names[-(MOST_STREAMS // 2) :]]
    )
    return {name: streams[name] for name in kept}


def _range(low: float, high: float) -> str:
    """A range of numbers, or one number if both ends look the same.

    >>> _range(1.0, 2.5), _range(3.0, 3.00001)
    ('1 to 2.5', '3')
    """
    ends = digits(low), digits(high)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
