"""`hedgerow launch FILE.toml`."""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.options import Data, Debug, Json, Plugins, Settings, apply_options
from hedgerow.cli.output import OUT, aside, print_json, progress_bar, say

if TYPE_CHECKING:
    from hedgerow.deployment.launching import Launch


def launch(
    file: Annotated[
        Path,
        typer.Argument(help="A study in TOML, as for `hedgerow run`: environment, algorithms."),
    ],
    clients: Annotated[
        int | None, typer.Option("--clients", help="Number of clients. Default: as in the study.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--algorithm", metavar="LABEL", help="Default: the first that can be deployed."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Noise from a seed: the same plays every time, not private."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Keep keys, ledgers and logs in this new folder."),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of the server. 0: any free one.")] = 0,
    settings: Settings = None,
    json: Json = False,
    plugin: Plugins = None,
    data: Data = None,
    debug: Debug = False,
) -> int:
    """Try a deployment: server and clients on this machine.

    Example: hedgerow launch examples/study.toml --clients 5

    The server and each client are processes that talk over HTTP and keep ledgers, as they would in
    different organisations. With trust = "distributed" there are two helpers, and `honest` says how
    many clients do not work with the server. The printed address shows the live page of the study
    while it runs, and at a terminal until you press Enter. The losses come from the study's
    environment. At the end all ledgers are checked. With --seed the plays are compared with those
    of the simulation; exit code 1: they differ.
    """
    apply_options(plugin, data)
    from hedgerow.core.errors import Interrupted, InvalidValue
    from hedgerow.deployment.launching import launch as launch_study
    from hedgerow.deployment.manifest import EXPERIMENTAL
    from hedgerow.studies.config import load_study
    from hedgerow.studies.storage.place import check_new

    given = [*(settings or []), *([] if clients is None else [f"environment.clients={clients}"])]
    study = load_study(file, given)
    if folder is not None:
        if folder.exists():
            raise InvalidValue(f"{folder} already exists. Name a new --folder.")
        check_new(folder, "")
        folder.mkdir(parents=True)

    place = TemporaryDirectory(prefix="hedgerow-") if folder is None else nullcontext(str(folder))
    try:
        with place as where, ExitStack() as bar:
            update = bar.enter_context(progress_bar("starting"))

            def progress(description: str, done: int, total: int) -> None:
                update(description, done, total)

            def started(whole: Launch) -> None:
                nonlocal update
                bar.close()
                if not json:
                    line = f"{whole.manifest.title}: live page at {whole.url}"
                    say(line)
                    if whole.manifest.helpers:
                        text = f"helpers {', '.join(whole.manifest.helpers)}; {EXPERIMENTAL}"
                        say(text)
                update = bar.enter_context(progress_bar("playing"))

            def ended() -> None:
                bar.close()
                if not json and sys.stdin.isatty() and OUT.is_terminal:
                    with suppress(EOFError, KeyboardInterrupt):
                        input("The study is over. Its page stays until you press Enter. ")

            done = launch_study(Path(where), study, label, seed, port, progress, started, ended)
    except KeyboardInterrupt as stop:
        kept = "Nothing was kept" if folder is None else f"Keys, ledgers and logs are in {folder}"
        raise Interrupted(f"Interrupted. {kept}.") from stop
    if json:
        print_json(asdict(done))
        return 1 if done.same is False else 0
    noise = "secure noise" if done.private else "seeded noise: not private"
    rate = done.exchanges / done.seconds
    for line in (
        f"{done.rounds} rounds, {done.exchanges} exchanges in {done.seconds:.1f} s "
        f"({rate:.0f} exchanges/s), {noise}",
        f"regret {done.regret:.2f} for each client, on average",
        f"spent by each client: {next(iter(done.spent.values()))} (accounts of a try)",
        f"all {len(done.heads)} ledgers pass their check; head of the server's log "
        f"{done.heads['server']}",
    ):
        say(line)
    if done.same is not None:
        verdict = "are those of" if done.same else "DIFFER from"
        OUT.print(f"the plays {verdict} the simulation", markup=False)
    if folder is not None:
        aside(f"kept in {folder}")
    return 1 if done.same is False else 0
