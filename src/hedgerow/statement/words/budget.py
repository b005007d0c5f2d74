"""How long a guarantee lasts, and how the costs of several releases and runs add up."""

from __future__ import annotations

from hedgerow.records.schema import AlgorithmRecord
from hedgerow.statement.exposure import Point
from hedgerow.statement.statement import Statement
from hedgerow.statement.words.guarantees import observer_words
from hedgerow.statement.words.phrases import listed, quoted


def horizon_words(statement: Statement) -> list[str]:
    """How long the guarantee lasts, what comes then, and when the budget is spent."""
    rounds, guaranteed = statement.algorithm.setting["horizon"], bool(statement.protecting)
    texts = [
        f"Horizon: {rounds} rounds"
        + ("; the stated numbers cover all of them together. " if guaranteed else ". ")
        + f"After round {rounds} the game is over; "
        "a new game, or more rounds, needs its own statement.",
    ]
    if statement.algorithm.when_spent:
        spent = statement.algorithm.when_spent
        texts.append(f"When the budget is spent: {spent}; nothing further is charged.")
    elif guaranteed:
        texts.append(
            "When the budget is spent: the stated numbers cover every release up to the horizon; "
            "no release goes beyond them."
        )
    if statement.algorithm.data == "real" and guaranteed:
        texts.append(
            "If the process dies, the game is over too, because it cannot be saved; "
            "the stated numbers cover what was released. "
            "A new learner on later rounds is a new game: "
            "for a person in both games, the numbers of both add up."
        )
    return texts


def composition_words(statement: Statement) -> str:
    """What the releases of a run, and several runs on the same data, cost together."""
    one, together = statement.one_run, statement.all_runs
    if one is None or together is None:
        return "Nothing is guaranteed, so there is nothing to compose."
    text, single = f"{_within_a_run(statement.algorithm)} ", quoted(one.epsilon, one.delta)
    if not statement.repeats:
        twice = quoted(2 * one.epsilon, min(1.0, 2 * one.delta))
        text += f"Runs on the same data add up: with a second one like this the sum is {twice}."
    else:
        text += (
            f"The {statement.algorithm.runs} runs, one for each seed, count as runs on the same "
            f"data: one costs {single}, all together {quoted(together.epsilon, together.delta)}."
        )
    return text + _beside(statement)


def _within_a_run(algorithm: AlgorithmRecord) -> str:
    """Why a run costs no more than is stated, no matter how many releases it has."""
    if not algorithm.mechanisms:
        return "Nothing that is released depends on the data."
    if algorithm.composition == "joint":
        return "All releases of a run are accounted for together, by a joint proof."
    if algorithm.entered == 1:
        return (
            "One record enters at most one release of a run, "
            "so the run costs it what that one release costs."
        )
    most = "" if algorithm.entered is None else f" (at most {algorithm.entered})"
    return (
        f"A run costs one record what the releases that it enters{most} cost together; "
        "the others cost it nothing."
    )


def _beside(statement: Statement) -> str:
    """What the other algorithms of a study add for an observer that sees their runs too."""
    if not statement.also:
        return ""
    labels = listed([f"{algorithm.label!r}" for algorithm in statement.also])
    by: dict[str, list[str]] = {}
    for guarantee in statement.algorithm.guarantees:
        points = [
            _against(algorithm, guarantee.observer)
            for algorithm in (statement.algorithm, *statement.also)
        ]
        known = [point for point in points if point is not None]
        summed = quoted(sum(p.epsilon for p in known), min(1.0, sum(p.delta for p in known)))
        by.setdefault(summed if len(known) == len(points) else "NO GUARANTEE", []).append(
            observer_words(guarantee)
        )
    together = "; ".join(f"for {listed(who)}: {numbers}" for numbers, who in by.items())
    return f" The study also ran {labels} on the same data; together, {together}."


def _against(algorithm: AlgorithmRecord, observer: str) -> Point | None:
    """What an algorithm guarantees against one observer, all runs together."""
    return next((g.total or g.curve for g in algorithm.guarantees if g.observer == observer), None)
