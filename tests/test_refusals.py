"""What is said to a user who gives a wrong parameter: of every algorithm, environment and command.

`pytest -s tests/test_refusals.py` prints all texts, to be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import Field, fields, replace
from typing import Any

import pytest

import hedgerow as hr
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.cli.app import COMMANDS, load_command
from hedgerow.core.errors import HedgerowError, MissingData
from hedgerow.environments.registry import ENVIRONMENTS
from support.command import Command

SETTING = hr.Setting(clients=3, experts=4, horizon=16)
NUMBERS = (-1, 0, 1.5, float("nan"), 1e-30)
TEXTS = (-1, "nonsense", ())  # Python itself refuses to compare a text with a number
NAMED = re.compile(  # Expected name=value rule, where the rule goes on as English does
    r"Expected [^=]+=('[^']*'|\([^)]*\)|\S+) "
    r"(to |not to |only |within |without |in [\[(]|<=? |>=? )"
)
STATED = re.compile(r"(?!Expected)[A-Z].* (is|are|has|have|needs?|cannot|must|does|draws)\b")
UNKNOWN = re.compile(r"Unknown \w+ .+; (did you mean .+\?|valid: .+\.)$")
ANSWER = re.compile(
    r"Error: (?!.*(Invalid value|: Expected|unable to))(-|[A-Z]|\w+ (already )?(is|has) ).*[.?]",
    re.DOTALL,
)
GAME = hr.Bernoulli(horizon=8)
NEEDED: dict[str, dict[str, Any]] = {
    "absent": {"of": GAME},
    "delayed": {"of": GAME},
    "sleeping": {"of": GAME},
    "visits": {"of": GAME},
    "recorded": {"path": "losses.csv"},
    "combined_forecasts": {"path": "losses.csv"},
    "recorded_examples": {"path": "losses.csv"},
    "forecasts": {"path": "losses.csv", "largest_error": 1.0},
}


def wrong_values(field: Field[Any]) -> tuple[Any, ...]:
    """Values of which a field refuses some: numbers or texts, as it is declared."""
    return NUMBERS if re.search(r"\b(int|float|bool)\b", str(field.type)) else TEXTS


def refusal(make: Callable[..., Any], **given: Any) -> str | None:
    """What is said; None if nothing is refused. Any other error than Hedgerow's is raised."""
    try:
        make(**given)
    except MissingData:
        return None
    except HedgerowError as error:
        return str(error)
    return None


def check(texts: set[str]) -> None:
    """Every text is a whole sentence."""
    for text in sorted(texts):
        print(text)
    poor = [
        text
        for text in texts
        if not (NAMED.match(text) or STATED.match(text) or UNKNOWN.match(text))
        or not text.endswith((".", "?"))
        or re.search(r"=(True|False|None) (True|False|None)\b", text)
    ]
    assert not poor, "\n".join(poor)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_parameter_of_an_algorithm_is_refused_in_a_sentence(name: str) -> None:
    kind = ALGORITHMS[name]
    family = kind.traits.family
    setting = SETTING if family is None else replace(SETTING, family=family)

    def build(**given: Any) -> None:
        kind(**given).build(setting)

    texts: set[str] = set()
    for field in (field for field in fields(kind) if field.init):
        found = {
            refusal(build, **{**form, field.name: wrong})
            for form in ({}, *kind.traits.forms.values())
            for wrong in wrong_values(field)
        } - {None}
        assert found or "bool" in str(field.type), f"{field.name} is never refused"
        texts |= {text for text in found if text}
    check(texts)


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_every_parameter_of_an_environment_is_refused_in_a_sentence(name: str) -> None:
    def make(**given: Any) -> None:
        _ = ENVIRONMENTS[name](**given).setting

    texts = {
        refusal(make, **{**NEEDED.get(name, {}), field.name: wrong})
        for field in fields(ENVIRONMENTS[name])
        if field.init and field.name != "path"
        for wrong in wrong_values(field)
    }
    check({text for text in texts if text})


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command with its path, or all commands of a group."""
    if not hasattr(command, "commands"):
        yield path, command
    for name, part in getattr(command, "commands", {}).items():
        yield from leaves(part, (*path, name))


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"bench", "demo", "examples", "gallery"}))
def test_every_option_of_a_command_is_refused_in_a_sentence(hedgerow: Command, name: str) -> None:
    """Arguments and all options that take a value are nonsense; so are options nobody knows."""
    texts: set[str] = set()
    for path, command in leaves(load_command(name), (name,)):
        given = ["nonsense" for p in command.params if p.param_type_name == "argument"]
        given += [
            f"{p.opts[0]}=nonsense"
            for p in command.params
            if p.param_type_name == "option" and p.required
        ]
        options = [
            f"{p.opts[-1]}=nonsense"
            for p in command.params
            if p.param_type_name == "option" and not p.is_flag
        ]
        for wrong in ("", "--nonsense", *options):
            answer = hedgerow(*path, *given, *filter(None, [wrong]))
            texts |= {answer.err.strip()} if answer.code else set()
    assert texts
    print(*sorted(texts), sep="\n")
    poor = [text for text in texts if not ANSWER.fullmatch(text)]
    assert not poor, "\n".join(poor)


def test_a_fragment_is_no_sentence() -> None:
    for text in (
        "Expected padding=False True with aim='min_regret': its bound needs equal noise.",
        "Expected calibration='certified' \"proved\" here.",
        "Expected coded=1 = 0: all columns agree.",
        "Expected early=-1 None with calibration='published'.",
        "Expected epsilon=-1 > 0 and finite",
    ):
        with pytest.raises(AssertionError):
            check({text})


def test_the_engine_of_sums_blames_what_was_given() -> None:
    game = hr.Bernoulli(clients=2, experts=3, horizon=8)
    built = hr.FollowTheLeader().build(game.setting)
    for given, what in (({"fused": False}, "fused"), ({"block_rounds": 2}, "block_rounds")):
        with pytest.raises(hr.InvalidValue, match=f"draws only sums of losses, so {what} must be"):
            hr.simulate(built, game, seed=0, engine="summed", **given)  # pyright: ignore[reportArgumentType]
