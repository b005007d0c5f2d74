"""All commands by name, and how their errors are reported. Commands are imported on demand."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from hedgerow.cli.main import INTERRUPTED, STOPPED
from hedgerow.cli.output import ERR, aside
from hedgerow.core.errors import HedgerowError, Interrupted, InvalidValue
from hedgerow.version import __version__

# The base class of Typer's errors, whether Typer uses its own copy of click or the installed one.
CommandLineError: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

NOT_A_NUMBER = re.compile(r"Invalid value for '([^']+)'.*: Input should be a valid (\w+),.*")

# Function (or the folder of the plugin that brings it) and summary of each command. The summary
# repeats the first line of the function's docstring (a test compares them), so that `hedgerow
# --help` need not import the commands.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": (
        "demo:demo",
        "US states combine flu forecasts, with privacy.",
    ),
    "list": ("listing:list_things", "List the algorithms, environments and experiments."),
    "examples": ("examples:examples", "Copy the example studies, plugins and data into a folder."),
    "run": ("run:run", "Run a study from a TOML file and write a run folder."),
    "combine": ("combine:combine", "Combine forecasts from a file, privately and otherwise."),
    "compare": ("compare:compare", "Compare finished runs: regrets and what else differs."),
    "runs": ("runs:runs", "List the runs in a folder, the latest first."),
    "view": ("view:view", "Write a page about a run: who followed what."),
    "certify": ("certify:certify", "Print the certificate: what each observer can learn."),
    "choose": ("choose:choose", "Rank the private algorithms for your setting."),
    "proof": ("proof:proof", "Print the proof that a certificate cites."),
    "reproduce": ("./papers", "Reproduce published figures and judge each claim."),
    "gallery": ("./papers", "Make one page with all experiments and their verdicts."),
    "bench": ("./benchmarks", "Measure speed and memory as ratios."),
    "contracts": ("contracts:contracts", "Check an algorithm against the contracts."),
    "audit": ("audit:audit", "Attack an algorithm and check its certificate."),
    "statement": ("statement:statement", "Write a privacy statement for each algorithm of a run."),
    "verify": (
        "verify:verify",
        "Check that a run, statement or ledger is as written.",
    ),
    "serve": ("serve:serve", "Serve a study to clients in other organisations."),
    "people": ("people:people", "Count the people behind a file, to say what to protect."),
    "client": ("client:CLIENT", "Take part in a study, within the budget of a data set."),
    "helper": ("helper:HELPER", "Open the sums of a study, and nothing else (experimental)."),
    "launch": ("launch:launch", "Try a deployment: server and clients on this machine."),
}


def _without_types(options: list[Any]) -> list[Any]:
    """The options; help shows no type beside a switch, which takes no value."""
    for option in options:
        if isinstance(option, TyperOption) and option.is_flag:
            option.metavar = ""
    return options


def _refuse_unknown(args: list[str], known: Iterable[str]) -> None:
    if args and not args[0].startswith("-") and args[0] not in known:
        from hedgerow.core.validate import nearest  # imports numpy, which help does not need

        raise InvalidValue(f"Unknown command {args[0]!r}; {nearest(args[0], known)}")


class Command(TyperCommand):
    """A command with plain switches."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands with plain switches."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        _refuse_unknown(args, self.commands)
        return super().resolve_command(ctx, args)


class Commands(TyperGroup):
    """A group of commands that are imported on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        _refuse_unknown(args, COMMANDS)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if command is None or name is None else load_command(name), rest


def load_command(name: str) -> Any:
    """Import a command, with its options, or a group of commands."""
    where = COMMANDS[name][0]
    found = _of_plugin(name, where) if where.startswith("./") else _in_package(where)
    several: dict[str, Any] = found if isinstance(found, dict) else {name: found}
    made = typer.Typer(
        cls=Group, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )
    for single, command in several.items():
        if single:
            made.command(single, cls=Command, help=_paragraphs(command))(command)
    if several is found:
        made.callback(help=_paragraphs(found[""]))(found[""])
    return typer.main.get_command(made)


def _in_package(where: str) -> Any:
    module, _, function = where.partition(":")
    return getattr(import_module(f"hedgerow.cli.{module}"), function)


def _of_plugin(name: str, folder: str) -> Any:
    """The function of a command that an installed plugin brings."""
    from importlib.metadata import entry_points

    for point in entry_points(group="hedgerow.commands", name=name):
        return point.load()
    raise InvalidValue(
        f"`hedgerow {name}` is in a plugin that is not installed: run `pip install {folder}` in a "
        "checkout of Hedgerow."
    )


def _paragraphs(command: Any) -> str:
    """The docstring of a command, one line for each paragraph; `[server]` is text, not markup."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    text = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    return re.sub(r"\[(?=[a-z#/@])", r"\\[", text)


def command_group() -> TyperGroup:
    """All commands with their summaries, not yet imported."""
    return Commands(
        name="hedgerow",
        commands={
            name: TyperCommand(name, help=summary, rich_markup_mode=None)
            for name, (_, summary) in COMMANDS.items()
        },
        rich_markup_mode=None,  # plain help needs no more of rich
        help="Private federated prediction with experts: simulate, certify, audit, reproduce.",
        epilog="Start with `hedgerow demo`. Exit codes: 0 success, 1 a check failed, "
        "2 wrong usage, invalid input or missing data, 70 the disk failed, 130 Ctrl-C.",
    )


def guarded(debug: bool) -> int:
    """Run the command and return its exit code; every foreseen error is printed in one line."""
    try:
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"hedgerow {__version__}\n")
            return 0
        result = command_group()(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Interrupted as stopped:
        aside(str(stopped))
        return INTERRUPTED
    except (HedgerowError, CommandLineError) as error:
        if debug:
            aside(traceback.format_exc())
        message = getattr(error, "format_message", error.__str__)
        text = NOT_A_NUMBER.sub(r"Expected \1 to be a valid \2.", " ".join(message().split()))
        aside(f"Error: {text}{_what_next(error, text)}")
        _print_notes(error)
        code = 2
    except Exception as error:  # a bug, here or in a plugin
        if debug:
            aside(traceback.format_exc())
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename}:{where.lineno}"
        aside(f"Error: {type(error).__name__}: {error} (at {place}; --debug shows the traceback)")
        _print_notes(error)
        code = 2
    if code == INTERRUPTED:
        ERR.print(STOPPED)
    return code


def _what_next(error: Exception, text: str) -> str:
    """After wrong usage: how to set a parameter, if it was given as an option; otherwise help."""
    context = getattr(error, "ctx", None)
    if context is None:
        return ""
    if hasattr(error, "option_name") and any("--set" in p.opts for p in context.command.params):
        return ". Change a parameter with --set KEY=VALUE."
    stop = "" if text.endswith((".", "?")) else "."
    return f"{stop} See `{context.command_path} --help`."


def _print_notes(error: Exception) -> None:
    """Print the notes of an error, such as which results are saved."""
    for note in getattr(error, "__notes__", ()):
        aside(note)
