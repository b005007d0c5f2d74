"""A note says when a regret is not clearly below that of a random expert, and only then."""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.studies.study import budget_notes, study_notes
from hedgerow_papers.gao2024.fed_svt import FedSVT


def _about_guessing(study: hr.Study, label: str = "a") -> list[str]:
    return [note for note in study.notes().get(label, []) if "better than guessing" in note]


def test_an_algorithm_that_follows_the_wrong_numbers_is_found() -> None:
    """`best_loss` far too large: the threshold is never crossed, so the first expert stays."""
    game = hr.Realizable(clients=2, experts=8, horizon=256)
    study = hr.run(game, {"a": FedSVT(best_loss=200.0)}, seeds=4)
    (note,) = _about_guessing(study)
    regret, guess = study.regret("a"), hr.run(game, {"g": hr.Uniform()}, seeds=4).regret("g").mean
    assert note.startswith(("no better", "not clearly better"))
    assert f"the regret is {regret.words()}, and that of a random expert " in note
    assert float(note.rsplit(" ", 1)[1]) == pytest.approx(guess, rel=0.05)
    assert f"a: note: {note}" in str(study)
    assert note in study["a"].notes


def test_an_algorithm_that_learns_has_no_such_note_and_guessing_itself_neither() -> None:
    game = hr.Realizable(clients=2, experts=8, horizon=256)
    algorithms = {"a": hr.SparseVector(epsilon=4.0), "open": hr.Hedge(), "guess": hr.Uniform()}
    study = hr.run(game, algorithms, seeds=4)
    assert not any(_about_guessing(study, label) for label in algorithms)


@pytest.mark.parametrize(("gap", "words"), [(0.0, ["no "]), (0.3, []), (0.02, ["not clearly "])])
def test_the_words_follow_from_the_regret(gap: float, words: list[str]) -> None:
    """One expert loses `gap` less than the other; the stream tells the play what it would be."""
    losses = np.full((400, 1, 2), 0.5)
    losses[:, 0, 0] -= gap
    noise = np.random.default_rng(0).choice([-0.4, 0.4], (400, 1, 1))
    study = hr.run(losses + noise * (gap == 0.02) * np.array([1.0, -1.0]), _two(gap), seeds=3)
    found = _about_guessing(study)
    if gap == 0.0:  # all experts are equal: there is nothing to guess
        assert found == []
    else:
        assert [note.split("better")[0] for note in found] == words


def _two(gap: float) -> dict[str, hr.Hedge]:
    return {"a": hr.Hedge(rate=0.001 if gap == 0.02 else 1.0)}


@pytest.mark.long
def test_a_bound_that_promises_no_more_than_guessing_is_called_so() -> None:
    """Between the most that a guess regrets, T (1 - 1/d), and T, where it is vacuous."""
    found = {}
    for horizon in range(20, 400, 4):
        algorithm = hr.ShrinkingDartboard(epsilon=0.2).build(hr.Setting(1, 2, horizon))
        assert algorithm.claims.regret_bound is not None
        share = algorithm.claims.regret_bound.value / horizon
        said = " ".join(budget_notes(algorithm))
        found["guess" if 0.5 <= share < 1 else "none" if share < 0.5 else "vacuous"] = said
    assert "promises no more than guessing: a random expert never has more than" in found["guess"]
    assert "guessing:" not in found.get("none", "")
    assert "is vacuous here" in found.get("vacuous", "is vacuous here")


def test_sleeping_experts_are_named_where_a_bound_does_not_cover_them() -> None:
    losses = np.random.default_rng(0).random((30, 2, 3))
    losses[3, 1, 2] = np.nan
    game = hr.RecordedArray(losses, missing="absent")
    (note,) = study_notes(hr.PhasedSelection().build(game.setting).in_game(game.traits), game)
    assert "this environment has experts that sleep, for which nothing is proven" in note


@pytest.mark.parametrize(
    ("clients", "experts", "epsilon", "error"),
    [
        (2, 2, 0.69, "0.25"),  # exp(-0.69) / 2 = 0.251, and half of what a guess errs is 0.25
        (2, 2, 0.70, None),
        (2, 2, 1e-6, "0.50"),
        (4, 100, 0.01, "0.99"),
        (30, 100, 1.0, None),
        (1, 1, 1e-3, None),  # there is nothing to choose
    ],
)
def test_a_choice_that_errs_half_as_often_as_a_guess_teaches_nothing(
    clients: int, experts: int, epsilon: float, error: str | None
) -> None:
    algorithm = hr.VoteSelection(epsilon=epsilon).build(hr.Setting(clients, experts, 512))
    said = [note for note in budget_notes(algorithm) if "nothing can be learned" in note]
    text = (
        f"nothing can be learned: even if all {clients} clients prefer one expert, a choice that "
        f"protects each so well is another one with a chance of at least {error}. Take more "
        "clients, a larger epsilon or a smaller unit"
    )
    assert said == ([] if error is None else [text])
