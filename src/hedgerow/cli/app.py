"""All commands, and how their errors are told."""

from __future__ import annotations

import os
import sys
import traceback

import typer

from hedgerow.cli.audit import audit
from hedgerow.cli.bench import bench
from hedgerow.cli.certify import certify
from hedgerow.cli.choose import choose
from hedgerow.cli.compare import compare
from hedgerow.cli.contracts import contracts
from hedgerow.cli.demo import demo
from hedgerow.cli.gallery import gallery
from hedgerow.cli.listing import list_things
from hedgerow.cli.main import INTERRUPTED, STOPPED
from hedgerow.cli.output import ERR
from hedgerow.cli.reproduce import reproduce
from hedgerow.cli.run import run
from hedgerow.cli.statement import statement
from hedgerow.core.errors import HedgerowError
from hedgerow.studies.storage.unfinished import Interrupted

# Typer carries its own copy of click, or uses the installed one; this is the base of its errors either way.
CommandLineError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="hedgerow",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Private federated prediction from experts: simulate, compare, certify, audit, state, reproduce.",
    epilog="Start with [bold]hedgerow demo[/bold]. Exit codes: 0 passed, 1 a check failed, 2 usage, input or missing data, 130 Ctrl-C.",
)
for name, command in (
    ("demo", demo),
    ("list", list_things),
    ("run", run),
    ("compare", compare),
    ("certify", certify),
    ("choose", choose),
    ("reproduce", reproduce),
    ("gallery", gallery),
    ("bench", bench),
    ("contracts", contracts),
    ("audit", audit),
    ("statement", statement),
):
    app.command(name)(command)


def guarded(debug: bool) -> int:
    """The exit code of the command, with every foreseen error told in one line."""
    try:
        result = app(standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Interrupted as stopped:
        ERR.print(str(stopped), markup=False, soft_wrap=True)
        return INTERRUPTED
    except (HedgerowError, CommandLineError) as error:
        if debug:
            ERR.print(traceback.format_exc(), markup=False, soft_wrap=True)
        text = error.format_message() if hasattr(error, "format_message") else str(error)  # pyright: ignore[reportAttributeAccessIssue]
        if text:  # without any argument the help has already been shown
            ERR.print(f"Error: {' '.join(text.split())}{_set_instead(error)}", markup=False, soft_wrap=True)
        _print_notes(error)
        code = 2
    except Exception as error:  # a bug, ours or a plugin's
        if debug:
            ERR.print(traceback.format_exc(), markup=False, soft_wrap=True)
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename}:{where.lineno}"
        ERR.print(f"Error: {type(error).__name__}: {error} (at {place}; --debug shows the traceback)", markup=False, soft_wrap=True)
        _print_notes(error)
        code = 2
    if code == INTERRUPTED:
        ERR.print(STOPPED)
    return code


def _set_instead(error: Exception) -> str:
    """Parameters of algorithms are no options of their own: where one was tried, how it is written."""
    context = getattr(error, "ctx", None)
    if not hasattr(error, "option_name") or context is None or not any("--set" in option.opts for option in context.command.params):
        return ""
    return ". Parameters are changed by --set KEY=VALUE."


def _print_notes(error: Exception) -> None:
    """What was added to an error on its way here, such as what is safe."""
    for note in getattr(error, "__notes__", ()):
        ERR.print(note, markup=False, soft_wrap=True)
