"""`hedgerow list`."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from hedgerow.algorithms.registry import ALGORITHMS, supporting
from hedgerow.cli.options import Debug, Json, Plugins, prepare
from hedgerow.cli.output import OUT, print_json
from hedgerow.cli.tables import new_table
from hedgerow.core.environment import Feature
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.experiments.registry import EXPERIMENTS


def _describe(name: str, kind: Any) -> dict[str, Any]:
    parameters = {}
    if is_dataclass(kind):
        for f in fields(kind):
            if f.init:
                parameters[f.name] = None if f.default is MISSING else f.default
    first = (kind.__doc__ or "").strip().splitlines()[0] if kind.__doc__ else ""
    return {"name": name, "summary": first, "parameters": parameters}


def list_things(json: Json = False, plugin: Plugins = None, debug: Debug = False) -> None:
    """List the algorithms, environments and experiments.

    Parameters are shown with their defaults. For algorithms, the games that they support are shown.
    """
    prepare(plugin)
    able_to = {feature: supporting(feature) for feature in Feature}
    document = {
        "algorithms": [
            {
                **_describe(name, kind),
                "supports": [feature.value for feature, able in able_to.items() if name in able],
                "families": [family.__name__ for family in kind.traits.families],
                "anytime": kind.traits.anytime,
            }
            for name, kind in ALGORITHMS.items()
        ],
        "environments": [_describe(name, kind) for name, kind in ENVIRONMENTS.items()],
        "experiments": [
            {"id": name, "summary": e.title, "claim": e.claim} for name, e in EXPERIMENTS.items()
        ],
    }
    if json:
        print_json(document)
        return
    for heading in ("algorithms", "environments"):
        table = new_table(("name", "what it is", "parameters"), title=heading)
        for row in document[heading]:
            table.add_row(
                row["name"],
                row["summary"],
                ", ".join(f"{k}={v}" for k, v in row["parameters"].items()),
            )
        OUT.print(table)
        if heading == "algorithms":
            for names in dict.fromkeys(map(tuple, able_to.values())):
                features = [
                    feature.value for feature, able in able_to.items() if tuple(able) == names
                ]
                shown = ", ".join(names) or "none by default"
                OUT.print(f"algorithms that support {', '.join(features)}: {shown}", markup=False)
            anytime = [row["name"] for row in document[heading] if row["anytime"]]
            OUT.print(f"algorithms that need no horizon: {', '.join(anytime)}", markup=False)
            for family in sorted({name for row in document[heading] for name in row["families"]}):
                if family != "Linear":
                    able = [r["name"] for r in document[heading] if family in r["families"]]
                    OUT.print(f"algorithms that play {family}: {', '.join(able)}", markup=False)
    table = new_table(("id", "what it reproduces", "claim"), title="experiments")
    for row in document["experiments"]:
        table.add_row(row["id"], row["summary"], row["claim"])
    OUT.print(table)
