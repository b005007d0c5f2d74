"""The words of a game: who plays what, what a record is, and how long it lasts."""

from __future__ import annotations

import ast
import re
from math import ceil, floor
from typing import Any

from hedgerow.records.schema import AlgorithmRecord
from hedgerow.statement.words.phrases import counted


def player(algorithm: AlgorithmRecord) -> str:
    """The role that plays."""
    return "client" if algorithm.deciders is None else "decider"


def follows(algorithm: AlgorithmRecord) -> str:
    """What a player does with an expert or a point."""
    return "follow" if algorithm.plays == "expert" else "use"


def option(algorithm: AlgorithmRecord) -> str:
    """What a game of experts has several of, and what a point consists of."""
    return "expert" if "experts" in algorithm.setting else "coordinate"


def in_rounds(algorithm: AlgorithmRecord) -> str:
    """How many rounds a game has."""
    horizon = algorithm.horizon
    return "in any number of rounds" if horizon is None else f"in {counted(horizon, 'round')}"


def shown_setting(algorithm: AlgorithmRecord) -> dict[str, Any]:
    """The size of the game and its family, to print; a game without a last round says so."""
    shown = {name: "none" if v is None else v for name, v in algorithm.setting.items()}
    family = {"family": family_words(shown["family"])} if "family" in shown else {}
    return shown | family


def family_words(text: str) -> str:
    """A loss family in words, from the text that it prints as.

    >>> family_words("Combination(of=AbsoluteError(feature_norm=8.0, target=16.0))")
    'combination of absolute error (feature norm 8, target 16)'
    """
    try:
        return _in_words(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return text


def _in_words(node: ast.expr) -> str:
    if not isinstance(node, ast.Call):
        return re.sub(r"\.0\b", "", ast.unparse(node))
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", ast.unparse(node.func)).lower()
    of = [_in_words(part) for part in node.args]
    of += [_in_words(part.value) for part in node.keywords if part.arg == "of"]
    others = [
        f"{str(part.arg).replace('_', ' ')} {_in_words(part.value)}"
        for part in node.keywords
        if part.arg != "of"
    ]
    return " of ".join([name, *of]) + (f" ({', '.join(others)})" if others else "")


def in_range(bounds: tuple[float, float]) -> str:
    """The range of a loss or gain, rounded outward to six decimals.

    >>> in_range((2.06e-9, 20.0))
    'in [0, 20]'
    """
    low, high = floor(bounds[0] * 1e6) / 1e6, ceil(bounds[1] * 1e6) / 1e6
    return f"in [{low:g}, {high:g}]"


def vocabulary(algorithm: AlgorithmRecord) -> str:
    """The words that a statement uses."""
    who, record, silo = player(algorithm), algorithm.record, algorithm.deciders is not None
    experts = algorithm.plays == "expert"
    length = " up to the horizon" if algorithm.horizon else " (there is no last round)"
    texts = [
        "client (a site: hospital, bank, phone)",
        "decider, a player that reports nothing (clients report and do not play)" if silo else "",
        f"expert, a model or rule that a {who} may follow"
        if experts
        else f"point, the numbers of a model that a {who} may use",
        f"{record.name}, {record.meaning.format(option=option(algorithm))}",
        "switch, a change of expert" if experts else "",
        "uploads, what clients send to the server",
        f"broadcasts, what it sends {'to clients and deciders' if silo else 'back'}",
        f"plays, which {algorithm.plays} each {who} {follows(algorithm)}s",
        "timing, when the clients talk",
        f"game, all rounds{length}",
    ]
    return f"Words: {'; '.join(filter(None, texts))}."
