"""`hedgerow list`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Annotated, Any

import typer

from hedgerow.algorithms.registry import ALGORITHMS, supporting
from hedgerow.cli.options import Debug, Json, Plugins, apply_options
from hedgerow.cli.output import OUT, print_indented, print_json
from hedgerow.cli.tables import new_table
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.core.validate import nearest
from hedgerow.environments.registry import ENVIRONMENTS

KINDS = {"algorithms": ALGORITHMS, "environments": ENVIRONMENTS, "experiments": EXPERIMENTS}

PRINTED = "for comparison, from papers"
NOT_PRIVATE = "for comparison, without privacy"
BRIEF = (NOT_PRIVATE, PRINTED)  # headings under which only names are listed
POINTS = "points instead of experts; models (online_sgd)"
# Headings of the short list, by the package of a class or the start of an experiment's ID. Another
# package is headed by the first line of its docstring.
GROUPS: dict[str, dict[str, str]] = {
    "algorithms": {
        "sparse_vector": "one expert is never wrong, or rarely (doubling)",
        "phases": "losses follow one law; whole clients (repeated_votes, vote_selection)",
        "dartboard": "losses are fixed in advance, or react (private_hedge)",
        "correlated": "private running sums; the server need not be trusted",
        "walks": "no trusted server and no horizon",
        "watch": "the best expert changes",
        "mixture": "public forecasts are combined, targets are secret",
        "gradient": POINTS,
        "learning": POINTS,
        "baselines": NOT_PRIVATE,
        "hedgerow_papers": PRINTED,
    },
    "environments": {
        "recorded": "recorded data",
        "drawn": "drawn at random",
        "hard": "with lower bounds",
        "wrappers": "around another environment",
        "hedgerow_papers": "games of the papers",
    },
    "experiments": {
        "asi2023": "Asi et al. 2023",
        "cesari2026": "Cesari and Colomboni 2026",
        "gao2024": "Gao et al. 2024",
        "jacobsen2025": "Jacobsen and Fawaz 2025",
        "zhang2024": "Zhang et al. 2024",
    },
}
OTHERS = "others"


def _summary(thing: Any) -> str:
    return (
        (thing.__doc__ or "").strip().partition("\n")[0] if isinstance(thing, type) else thing.title
    )


def _own_heading(thing: Any) -> str:
    """What the package of a class says of itself, as a heading."""
    package = thing.__module__.rpartition(".")[0] if isinstance(thing, type) else ""
    about = (import_module(package).__doc__ or "") if package else ""
    return about.strip().partition("\n")[0].rstrip(".") or OTHERS


def grouped(kind: str) -> dict[str, list[str]]:
    """The names of a kind by heading, in the order of the headings."""
    headings = GROUPS[kind]
    found: dict[str, list[str]] = {heading: [] for heading in headings.values()}
    for name, thing in KINDS[kind].items():
        package, *rooms = thing.__module__.split(".") if isinstance(thing, type) else [""]
        place = rooms[1] if package == "hedgerow" else package or name.split("-")[0]
        found.setdefault(headings.get(place) or _own_heading(thing), []).append(name)
    return {heading: names for heading, names in found.items() if names}


def _show_short() -> None:
    for kind in KINDS:
        OUT.print(f"[bold]{kind}[/bold]")
        for heading, names in grouped(kind).items():
            if kind == "algorithms" and heading not in BRIEF:
                print_indented(f"{heading}:")
                for name in names:
                    summary = _summary(ALGORITHMS[name])
                    print_indented(f"{name:<20} {summary}", indent=4, hanging=21)
            else:
                print_indented(f"{heading}: {', '.join(names)}", hanging=2)
        OUT.print()
    if (missing := EXPERIMENTS.what_to_install()) is not None:
        print_indented(missing, indent=0)
    print_indented(
        "Details: `hedgerow list algorithms`, `hedgerow list NAME`. "
        "`hedgerow choose` ranks algorithms for your setting.",
        indent=0,
    )


def _describe(name: str, kind: Any) -> dict[str, Any]:
    parameters = {}
    if is_dataclass(kind):
        for f in fields(kind):
            if f.init:
                default = None if f.default is MISSING else f.default
                plain = default is None or isinstance(default, str | int | float | tuple)
                parameters[f.name] = default if plain else repr(default)
    return {"name": name, "summary": _summary(kind), "parameters": parameters}


def _document(kinds: Iterable[str], name: str | None) -> dict[str, list[dict[str, Any]]]:
    """All that is known of these kinds, or of the things with this name."""
    able_to = {f: supporting(f, plugins=True) for f in Feature} if "algorithms" in kinds else {}
    rows: dict[str, list[dict[str, Any]]] = {}
    for kind in kinds:
        rows[kind] = []
        for key, thing in KINDS[kind].items():
            if name not in (None, key):
                continue
            if kind == "experiments":
                rows[kind].append({"id": key, "summary": thing.title, "claim": thing.claim})
                continue
            rows[kind].append(_describe(key, thing))
            if kind == "algorithms":
                rows[kind][-1] |= {
                    "supports": [feature.value for feature, able in able_to.items() if key in able],
                    "families": [family.__name__ for family in thing.traits.families],
                    "anytime": thing.traits.anytime,
                }
    return rows


def list_things(
    what: Annotated[
        str | None,
        typer.Argument(
            help="algorithms, environments, experiments, or one name.", metavar="[WHAT]"
        ),
    ] = None,
    json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """List the algorithms, environments and experiments.

    `hedgerow list algorithms` (or environments) shows every parameter with its default, and which
    games each algorithm supports. `hedgerow list experiments` shows the claims.
    `hedgerow list sparse_vector` describes one algorithm and what its parameters mean; the name of
    an environment or experiment works too. With --json everything is shown.
    """
    apply_options(plugin)
    if what is None and not json:
        _show_short()
        return
    name = None if what is None or what in KINDS else what
    kinds = [kind for kind in KINDS if what in (None, kind) or name in KINDS[kind]]
    if not kinds:
        names = [*KINDS, *(name for things in KINDS.values() for name in things)]
        hint = nearest(str(what), names, "`hedgerow list` shows all names.")
        text = f"Nothing is called {what!r}; {hint}"
        raise InvalidValue(" ".join(filter(None, (text, EXPERIMENTS.what_to_install()))))
    document = _document(kinds, name)
    if json:
        print_json(document)
    elif name is not None:
        for kind in kinds:
            _show_one(kind, document[kind][0])
    elif what == "experiments":
        table = new_table(("id", "what it reproduces", "claim"), title="experiments")
        for row in document["experiments"]:
            table.add_row(row["id"], row["summary"], row["claim"])
        missing = EXPERIMENTS.what_to_install()
        OUT.print(missing or table)
    else:
        _show_all(kinds[0], document[kinds[0]])


def _show_one(kind: str, row: dict[str, Any]) -> None:
    if kind == "experiments":
        OUT.print(f"[bold]{row['id']}[/bold], an experiment\n")
        print_indented(f"{row['summary']}.")
        print_indented(f"Claim: {row['claim']}.")
        OUT.print(f"\nRun it with `hedgerow reproduce {row['id']}`.\n", markup=False)
        return
    thing = KINDS[kind][row["name"]]
    OUT.print(f"[bold]{row['name']}[/bold], an {kind[:-1]} (in Python: {thing.__name__})\n")
    for line in (inspect.getdoc(thing) or "").splitlines():
        print_indented(line.strip(), indent=2 + len(line) - len(line.lstrip()))
        if not line:
            OUT.print()
    given = ", ".join(f"{k}={v}" for k, v in row["parameters"].items()) or "none"
    OUT.print()
    print_indented(f"Parameters and defaults: {given}.")
    if kind == "algorithms":
        print_indented(f"Supports: {', '.join(row['supports']) or 'no gaps, no delays'}.")
        families = ("losses of experts" if f == "Linear" else f for f in row["families"])
        print_indented(f"Plays: {', '.join(families)}.")
        print_indented(f"Needs a horizon: {'no' if row['anytime'] else 'yes'}.")
        OUT.print(f"\nNext: `hedgerow certify {row['name']}`.", markup=False)
    OUT.print()


def _show_all(kind: str, rows: list[dict[str, Any]]) -> None:
    table = new_table(("name", "what it is", "parameters"), title=kind)
    for row in rows:
        given = ", ".join(f"{k}={v}" for k, v in row["parameters"].items())
        table.add_row(row["name"], row["summary"], given)
    OUT.print(table)
    if kind == "algorithms":
        able = {
            f.value: tuple(r["name"] for r in rows if f.value in r["supports"]) for f in Feature
        }
        for names in dict.fromkeys(able.values()):
            games = ", ".join(game for game, those in able.items() if those == names)
            shown = ", ".join(names) or "none by default"
            OUT.print(f"algorithms that support {games}: {shown}", markup=False)
        anytime = ", ".join(row["name"] for row in rows if row["anytime"])
        OUT.print(f"algorithms that need no horizon: {anytime}", markup=False)
        for family in sorted({name for row in rows for name in row["families"]} - {"Linear"}):
            names = ", ".join(row["name"] for row in rows if family in row["families"])
            OUT.print(f"algorithms that play {family}: {names}", markup=False)
