"""The `hedgerow` command."""

from __future__ import annotations

import os
import sys

import click
import typer

from hedgerow.cli.bench import bench
from hedgerow.cli.certify import certify
from hedgerow.cli.contracts import contracts
from hedgerow.cli.demo import demo
from hedgerow.cli.listing import list_things
from hedgerow.cli.output import ERR
from hedgerow.cli.reproduce import reproduce
from hedgerow.cli.run import run
from hedgerow.core.errors import HedgerowError

app = typer.Typer(
    name="hedgerow",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Private federated prediction from experts: simulate, compare, certify, reproduce.",
    epilog="Start with [bold]hedgerow demo[/bold]. Exit codes: 0 passed, 1 a check failed, 2 usage, input or missing data, 130 Ctrl-C.",
)
for name, command in (
    ("demo", demo),
    ("list", list_things),
    ("run", run),
    ("certify", certify),
    ("reproduce", reproduce),
    ("bench", bench),
    ("contracts", contracts),
):
    app.command(name)(command)


def main() -> None:
    """Entry point: turns every foreseen error into one line and an exit code."""
    debug = "--debug" in sys.argv
    sys.exit(_guarded(debug))


def _guarded(debug: bool) -> int:
    try:
        result = app(standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        ERR.print("Interrupted; nothing was written.")
        return 130
    except click.ClickException as error:
        ERR.print(f"Error: {error.format_message()}", markup=False, soft_wrap=True)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except HedgerowError as error:
        if debug:
            raise
        ERR.print(f"Error: {error}", markup=False, soft_wrap=True)
        return 2


if __name__ == "__main__":
    main()
