"""Pieces of sentences: numbers and lists, the game, observers and what they are guaranteed."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.certificate import PRESENCE_STAYS
from hedgerow.core.rounding import rounded_up
from hedgerow.records.schema import STAMP, AlgorithmRecord, CurveRecord, GuaranteeRecord
from hedgerow.statement.statement import Statement

WEAK = "close to no protection"
LOUD = (
    "NO GUARANTEE",
    "NOT SECURE",
    "THE CLAIM IS NOT",
    "NOT EVERY VERDICT",
    "NO OTHER GAME",
    WEAK,
    STAMP,
)
WORTHLESS = 0.99  # an even bet that can be won this often leaves nothing to protect
CERTAIN = 0.999  # above this share no exact number is printed


def is_loud(text: str) -> bool:
    """Whether a text is a warning, which every format prints in bold or in red.

    >>> is_loud("NO GUARANTEE against the server.")
    True
    """
    return any(mark in text for mark in LOUD)


def listed(items: Sequence[str], last: str = "and") -> str:
    """The items as a list in words.

    >>> listed(["the server", "another client", "the public"])
    'the server, another client and the public'
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def percent(share: float) -> str:
    """A share in 100, rounded up.

    >>> percent(0.7311), percent(0.9999)
    ('73.2', '> 99.9')
    """
    return f"{ceil(share * 1000 - 1e-9) / 10:g}" if share <= CERTAIN else "> 99.9"


def at_most(share: float) -> str:
    """A share in 100 as an upper bound, in words.

    >>> at_most(0.7311)
    'at most 73.2'
    """
    return f"at most {percent(share)}" if share <= CERTAIN else "over 99.9"


def counted(number: int, thing: str, several: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "round"), counted(2, "round"), counted(2, "study", "studies")
    ('1 round', '2 rounds', '2 studies')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {several or f'{thing}s'}"


def quoted(epsilon: float, delta: float) -> str:
    """Both numbers of a guarantee, rounded up."""
    return f"epsilon = {rounded_up(epsilon)}, delta = {rounded_up(delta)}"


COMMON = {"every": "rounds between exchanges"}


def meanings(algorithm: str) -> dict[str, str]:
    """What parameters mean if their names do not say it; an algorithm lists its own in `traits`."""
    return {**COMMON, **(ALGORITHMS[algorithm].traits.meanings if algorithm in ALGORITHMS else {})}


def number(value: Any) -> str:
    """A value as text; a float has six significant digits.

    >>> number(1 / 3), number(3)
    ('0.333333', '3')
    """
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def pairs(values: Mapping[str, Any], algorithm: str) -> str:
    """The parameters of a registered algorithm, with meanings where the names do not say them."""
    known = meanings(algorithm)
    notes = {key: f" ({known[key]})" if key in known else "" for key in values}
    return ", ".join(f"{key} = {number(value)}{notes[key]}" for key, value in values.items())


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


OBSERVERS = {"server": "the server", "peer": "another client", "public": "the public"}
DEFINITION = (
    "Pr[view(D) in S] <= e^epsilon Pr[view(D') in S] + delta for all D ~ D' and all S, "
    "where view(D) is all that an observer sees"
)
SAME = {  # what neighbours share, by assumption
    "PUBLIC_REPORTERS": "the same clients report",
    "PUBLIC_SIDE": "the side information is the same",
}


def observer_words(guarantee: GuaranteeRecord) -> str:
    """The observer of a guarantee, inside a sentence."""
    return OBSERVERS.get(guarantee.observer, guarantee.observer)


def curve_words(curve: CurveRecord) -> str:
    """The curve's parameters and, if they are not (epsilon, delta), the converted pair."""
    both = quoted(curve.epsilon, curve.delta)
    return curve.words if curve.words.startswith(both) else f"{curve.words}; converted: {both}"


def guarantee_words(guarantee: GuaranteeRecord) -> str:
    """The numbers of a guarantee, for one run and for all runs together, or why there is none."""
    if guarantee.curve is None:
        return f"NO GUARANTEE: {guarantee.reason}"
    text, total = curve_words(guarantee.curve), guarantee.total
    return (
        text
        if total is None
        else f"{text}; all {total.runs} runs: {quoted(total.epsilon, total.delta)}"
    )


def claim_words(statement: Statement) -> str:
    """The claim of the paper, next to what is proven."""
    claimed = statement.claimed
    assert claimed is not None
    holds = all(g.claim_holds is not False for g in statement.algorithm.guarantees)
    verdict = "the claim holds" if holds else "THE CLAIM IS NOT SUPPORTED by the proof cited here"
    true = [curve_words(curve) for curve, _ in statement.protecting]
    proven = listed(true) if true else "NO GUARANTEE"
    return (
        f"Published constants: the paper claims {curve_words(claimed)}; "
        f"proven here is {proven}: {verdict}."
    )


def neighbours(guarantee: GuaranteeRecord) -> str:
    """When two streams of records are neighbours, in words and as a formula."""
    same = ["the same clients take part"] if PRESENCE_STAYS in guarantee.adjacency else []
    same += [text for name, text in SAME.items() if name in guarantee.assumes]
    return f"{guarantee.adjacency}. {guarantee.unit.formula}" + "".join(f", and {x}" for x in same)
