"""Vote selection: every client with every data set, attacks, the lower bound and the regret."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.phases.vote_selection import error_at_least
from hedgerow.algorithms.phases.votes import Likelihood
from hedgerow.audits.cases.parts import all_transcripts
from hedgerow.audits.cases.votes import Loud, Uncut
from hedgerow.audits.runner import AuditRow, attack, cases_of
from hedgerow.contracts.suite import examine as contract
from hedgerow.core.protocol import Algorithm
from hedgerow.privacy import NoisyMax

SETTING = hr.Setting(clients=3, experts=2, horizon=4)


@pytest.mark.parametrize("scores", ["studentised", "clip", "vote"])
def test_no_client_is_told_from_any_other_with_all_its_data(scores: Any) -> None:
    """All data of one client against all others, on every background and every transcript."""
    built = hr.VoteSelection(epsilon=2.0, scores=scores, choices=(1, 2, 3)).build(SETTING)
    vectors = [np.array(v, float) for v in product((0, 1), repeat=2)]
    own = [np.stack(rows) for rows in product(vectors, repeat=3)]
    sent, likelihood = all_transcripts(built, np.zeros((4, 3, 2))), built.claims.log_likelihood
    assert likelihood is not None
    worst = 0.0
    for others in product(vectors, repeat=2):
        table = []
        for mine in own:
            losses = np.zeros((4, 3, 2))
            losses[:, 1:] = np.stack(others)
            losses[:3, 0] = mine
            table.append([likelihood(list(one), losses) for one in sent])
        chances = np.array(table)
        assert np.allclose(np.exp(chances).sum(axis=1), 1.0)
        worst = max(worst, float((chances.max(axis=0) - chances.min(axis=0)).max()))
    assert 1.2 <= worst <= 2.0 * (1 + 1e-9)


@pytest.mark.parametrize("form", [{}, {"scores": "vote"}, {"choices": (2, 9, 40)}])
def test_attacks_reach_the_certificate_and_bugs_are_caught(form: Any) -> None:
    spec = hr.VoteSelection(**form)
    rows = [AuditRow(case, attack(case)) for case in cases_of("vote_selection", spec)]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    found = rows[1].finding.epsilon
    assert found is not None
    assert 0.99 <= found <= 1.0 + 1e-9


@dataclass(frozen=True)
class Wrong(hr.VoteSelection):
    """A voter that is counted twice, or whose scores are not cut."""

    kind: Any = Loud

    def resolve(self, setting: hr.Setting) -> Algorithm:
        built: Any = super().resolve(setting)
        voter = self.kind(built.client.experts, self.scores)
        return replace(
            built,
            client=voter,
            claims=replace(built.claims, log_likelihood=Likelihood(voter, built.server)),
        )


@pytest.mark.parametrize("kind", [Loud, Uncut])
def test_contracts_catch_scores_above_1(kind: Any) -> None:
    assert contract("sensitivities hold", hr.VoteSelection()).status == "holds"
    assert contract("sensitivities hold", Wrong(kind=kind)).status == "broken"


def test_choices_that_cost_too_much_are_caught() -> None:
    @dataclass(frozen=True)
    class Unshared(hr.VoteSelection):
        def resolve(self, setting: hr.Setting) -> Algorithm:
            built: Any = super().resolve(setting)
            whole = tuple(replace(s, epsilon=self.epsilon) for s in built.server.selections)
            return replace(built, server=replace(built.server, selections=whole))

    spec = Unshared(choices=(3, 9))
    assert contract("ledger composes", hr.VoteSelection(choices=(3, 9))).status == "holds"
    assert contract("ledger composes", spec).status == "broken"


HISTOGRAM = hr.VoteSelection(epsilon=3.0, delta=1e-6, every=4)
TRUSTS = (HISTOGRAM, replace(HISTOGRAM, trust="distributed"))


@pytest.mark.parametrize("spec", TRUSTS, ids=["central", "distributed"])
def test_histograms_keep_the_contracts_and_attacks_reach_mu(spec: hr.VoteSelection) -> None:
    names = ("sensitivities hold", "ledger composes", "nothing raw in a view", "states survive")
    for name in (*names, "within the budget", "same for every block", "noise follows its law"):
        found = contract(name, spec)
        assert found.status == "holds", (name, found.detail)
    rows = [AuditRow(case, attack(case)) for case in cases_of("vote_selection", spec)]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    assert (rows[1].finding.epsilon or 0.0) > 0.95 * rows[1].certified


def test_histograms_for_one_vote_less_are_caught() -> None:
    """The bug: noise for a move of 1, where a vote that goes from one expert to another moves 2."""

    @dataclass(frozen=True)
    class Short(hr.VoteSelection):
        def resolve(self, setting: hr.Setting) -> Algorithm:
            built: Any = super().resolve(setting)
            less = replace(built.server.releasing, scale=built.server.releasing.scale / 2**0.5)
            return replace(built, server=replace(built.server, releasing=less))

    given: Any = {f: getattr(HISTOGRAM, f) for f in ("epsilon", "delta", "every")}
    assert contract("ledger composes", Short(**given)).status == "broken"


@pytest.mark.parametrize("spec", TRUSTS, ids=["central", "distributed"])
def test_a_best_expert_that_changes_is_followed(spec: hr.VoteSelection) -> None:
    """Far less than any fixed expert, where one choice is no better than one of them."""
    game = hr.Switching(clients=100, experts=10, horizon=1024, segments=4, gap=0.4)
    found = {"votes": replace(spec, every=32), "once": hr.VoteSelection(epsilon=3.0)}
    study = hr.run(game, found, seeds=4)
    votes, once = (study.regret(name).mean for name in found)
    assert votes < -0.1 * 1024
    assert votes < once - 0.2 * 1024


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"every": 4}, "delta=0.0 > 0"),
        ({"every": 4, "delta": 1e-6, "choices": (2,)}, "no choices with every=4"),
        ({"delta": 1e-6}, "without every="),
        ({"trust": "distributed"}, "without every="),
        ({"trust": "local"}, "trust='local'"),
        ({"every": 4, "delta": 1e-6, "honest": 3}, "honest=3"),
        ({"every": 0, "delta": 1e-6}, "every=0"),
    ],
)
def test_choices_that_no_histogram_has(choices: Any, words: str) -> None:
    with pytest.raises(hr.InvalidValue, match=words):
        hr.VoteSelection(**choices)


@pytest.mark.parametrize(("clients", "epsilon"), [(2, 0.5), (10, 1.0), (20, 0.3)])
def test_nothing_errs_less_than_the_lower_bound(clients: int, epsilon: float) -> None:
    """Permute-and-flip attains it for two experts and an even number of clients."""
    choice = NoisyMax("choice", "exponential", epsilon)
    for experts in (2, 5, 100):
        scores = np.full(experts, float(clients))
        scores[0] = 0.0
        errs = 1 - float(choice.probabilities(scores)[0])
        least = error_at_least(clients, experts, epsilon)
        assert least <= errs * (1 + 1e-9)
        assert errs <= least * max(1.0, 1.2 * (experts - 1) ** 0.5)
        assert error_at_least(clients, experts, epsilon, 1e-6) <= least
    assert error_at_least(clients, 2, epsilon) == pytest.approx(exp(-epsilon * clients / 2) / 2)
    assert error_at_least(clients, 1, epsilon) == 0.0


@pytest.mark.parametrize("unit", ["event", "person:24", "window:7", "client"])
def test_a_client_covers_what_is_at_one_client(unit: str) -> None:
    built = hr.VoteSelection(unit=unit).build(hr.Setting(30, 4, 512))
    assert built.certificate.public.unit.words() == "all the data of one client"
    assert built.certificate.public.curve.stated() == (1.0, 0.0)


def test_what_a_client_does_not_cover_is_refused() -> None:
    with pytest.raises(hr.Unsupported, match="does not cover unit='person:4@2'"):
        hr.VoteSelection(unit="person:4@2").build(hr.Setting(30, 4, 512))
    with pytest.raises(hr.InvalidValue, match="before round 512, the last"):
        hr.VoteSelection(choices=(4, 512)).build(hr.Setting(30, 4, 512))


def test_the_times_follow_from_clients_times_epsilon() -> None:
    def times(clients: int, epsilon: float) -> Any:
        built = hr.VoteSelection(epsilon=epsilon).build(hr.Setting(clients, 4, 2**14))
        assert built.certificate.public.curve.stated()[0] <= epsilon
        return built.parameters["choices"]

    assert times(30, 1.0) == (512,)
    assert times(300, 1.0) == times(100, 3.0) == (128, 2048)
    assert times(1000, 1.0) == (1, 9, 73, 585, 4681)
    for horizon in (1, 2, 3, 9):
        hr.VoteSelection().build(hr.Setting(2, 2, horizon))


def test_clients_that_agree_are_heard_at_client_level() -> None:
    """Far below the regret of an expert that is drawn without data, 0.2 for each round."""
    game = hr.Bernoulli(clients=30, experts=20, horizon=2048, gap=0.2)
    study = hr.run(game, {"votes": hr.VoteSelection()}, seeds=8)
    regret = float(np.mean([result.final_regret for result in study.results]))
    assert regret < 60  # the wait of 64 rounds costs about 13
