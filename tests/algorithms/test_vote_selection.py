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
from hedgerow.audits.cases.votes import Loud, OfRecords, Uncut
from hedgerow.contracts.suite import CONTRACTS, examine
from hedgerow.contracts.suite import examine as contract
from hedgerow.core.people import with_people
from hedgerow.core.protocol import Algorithm
from hedgerow.core.unit_text import parse_unit
from hedgerow.deployment.manifest import check_deployable
from hedgerow.privacy import NoisyMax
from support.attacked import attacked

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
    rows = attacked("vote_selection", spec)
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


PEOPLE = (
    hr.VoteSelection(unit="person", people=4),
    hr.VoteSelection(unit="person@2", people=4, choices=(3, 9, 15)),
)


@pytest.mark.parametrize("spec", PEOPLE, ids=["one client", "two clients"])
def test_a_person_has_one_vote_at_each_client(spec: hr.VoteSelection) -> None:
    """Contracts hold, and attacks reach the certificate; a vote for each record is caught."""
    found = {name: examine(name, spec) for name in CONTRACTS}
    assert {name for name, one in found.items() if one.status == "broken"} == set()
    for name in ("sensitivities hold", "ledger composes", "nothing raw in a view", "resumable"):
        assert found[name].status == "holds"
    rows = attacked("vote_selection", spec)
    assert 0.99 <= (rows[1].finding.epsilon or 0.0) <= 1.0 + 1e-9
    assert rows[-1].case.name == "a person counted once for each record"


@pytest.mark.parametrize("kind", ["often", "blind"])
def test_contracts_catch_people_who_are_counted_wrongly(kind: str) -> None:
    """Once for each record; or once, where the person is at two clients."""

    @dataclass(frozen=True)
    class Wrong(hr.VoteSelection):
        def resolve(self, setting: hr.Setting) -> Algorithm:
            built: Any = super().resolve(setting)
            if kind == "often":
                often = OfRecords(built.client.experts, self.scores, self.people or 1)
                return replace(built, client=often)
            once = tuple(replace(one, sensitivity=1.0) for one in built.server.selections)
            certificate = replace(built.certificate, mechanisms=once)
            server = replace(built.server, selections=once)
            return replace(built, server=server, certificate=certificate)

    right = PEOPLE[kind == "blind"]
    wrong = Wrong(unit=right.unit, people=4, choices=(15,))
    assert examine("sensitivities hold", wrong).status == "broken"


@pytest.mark.parametrize("scores", ["studentised", "clip", "vote"])
def test_no_person_is_told_from_any_other(scores: Any) -> None:
    """All that one person may report in three rounds, or not come at all, beside other people."""
    setting = hr.Setting(2, 2, 4)
    spec = hr.VoteSelection(2.0, scores, (1, 2, 3), unit="person@2", people=2)
    built = spec.build(setting)
    sent = all_transcripts(
        hr.VoteSelection(2.0, scores, (1, 2, 3)).build(setting), np.zeros((4, 2, 2))
    )
    likelihood, rng, worst = built.claims.log_likelihood, np.random.default_rng(4), 0.0
    assert likelihood is not None
    states = [(-1, 0.0, 0.0), *((0, a, b) for a in (0.0, 1.0) for b in (0.0, 1.0))]
    for _ in range(4):
        others, table = rng.integers(0, 2, (4, 2, 2)).astype(float), []
        free = rng.random((4, 2)) < 0.8
        for own in product(states, repeat=3):
            who, losses = np.where(free, -1, 1), others.copy()
            for at, (state, *given) in enumerate(own):
                who[at, free[at]], losses[at, free[at]] = state, given
            table.append([likelihood(list(one), with_people(losses, who)) for one in sent])
        chances = np.array(table)
        assert np.allclose(np.exp(chances).sum(axis=1), 1.0)
        worst = max(worst, float((chances.max(axis=0) - chances.min(axis=0)).max()))
    assert 1.2 <= worst <= 2.0 * (1 + 1e-9)


def test_300_people_with_up_to_100_records_are_heard() -> None:
    """The wait of 1/8 of the rounds costs 389; dividing the budget among 100 records costs 3,076."""
    game = hr.Visits(
        of=hr.Bernoulli(clients=3, experts=20, horizon=2**14, gap=0.2), people=100, most=100
    )
    study = hr.run(game, {"votes": hr.VoteSelection(unit="person", people=100)}, seeds=24)
    assert study.regret("votes").mean <= 450


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"unit": "person"}, "as in people=100"),
        ({"unit": "person@31", "people": 3}, "<= the 30 clients of the game"),
        ({"unit": "person:4", "people": 3}, "come with unit='person'"),
        ({"people": 3}, "come with unit='person'"),
        ({"unit": "person", "people": 0}, "people=0"),
    ],
)
def test_people_that_cannot_vote_are_refused(choices: Any, words: str) -> None:
    with pytest.raises(hr.HedgerowError, match=words):
        hr.VoteSelection(**choices).build(hr.Setting(30, 4, 512))


def test_people_vote_in_games_of_people_only() -> None:
    built = PEOPLE[1].build(hr.Setting(3, 3, 24))
    assert built.certificate.public.unit == parse_unit("person@2")
    assert "FEW_CLIENTS" in {one.name for one in built.certificate.public.assumes}
    plain = hr.Bernoulli(clients=3, experts=3, horizon=24)
    with pytest.raises(hr.Unsupported, match="needs people behind records"):
        hr.run(plain, {"votes": PEOPLE[1]})
    with pytest.raises(hr.Unsupported, match="does not support people behind records"):
        hr.run(hr.Visits(of=plain), {"clients": hr.VoteSelection()})
    with pytest.raises(hr.Unsupported, match=r"vote in simulations only\. Choose unit='client'"):
        check_deployable(built)


HISTOGRAM = hr.RepeatedVotes(epsilon=3.0, every=4)
TRUSTS = (HISTOGRAM, replace(HISTOGRAM, trust="distributed"))


@pytest.mark.parametrize("spec", TRUSTS, ids=["central", "distributed"])
def test_histograms_keep_the_contracts_and_attacks_reach_mu(spec: hr.RepeatedVotes) -> None:
    names = ("sensitivities hold", "ledger composes", "nothing raw in a view", "states survive")
    for name in (*names, "within the budget", "same for every block", "noise follows its law"):
        found = contract(name, spec)
        assert found.status == "holds", (name, found.detail)
    rows = attacked("repeated_votes", spec)
    assert (rows[1].finding.epsilon or 0.0) > 0.95 * rows[1].certified


def test_histograms_for_one_vote_less_are_caught() -> None:
    """The bug: noise for a move of 1, where a vote that goes from one expert to another moves 2."""

    @dataclass(frozen=True)
    class Short(hr.RepeatedVotes):
        def resolve(self, setting: hr.Setting) -> Algorithm:
            built: Any = super().resolve(setting)
            less = replace(built.server.releasing, scale=built.server.releasing.scale / 2**0.5)
            return replace(built, server=replace(built.server, releasing=less))

    given: Any = {f: getattr(HISTOGRAM, f) for f in ("epsilon", "delta", "every")}
    assert contract("ledger composes", Short(**given)).status == "broken"


@pytest.mark.parametrize("spec", TRUSTS, ids=["central", "distributed"])
def test_a_best_expert_that_changes_is_followed(spec: hr.RepeatedVotes) -> None:
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
        ({"delta": 0.0}, "delta=0.0 > 0"),
        ({"trust": "local"}, "trust='local'"),
        ({"honest": 3}, "honest=3"),
        ({"every": 0}, "every=0"),
    ],
)
def test_choices_that_no_histogram_has(choices: Any, words: str) -> None:
    with pytest.raises(hr.InvalidValue, match=words):
        hr.RepeatedVotes(**choices)


def test_repeated_votes_protect_no_more_than_one_client() -> None:
    with pytest.raises(hr.Unsupported, match=r"RepeatedVotes protects .* does not cover unit="):
        hr.RepeatedVotes(unit="person:4@2").build(hr.Setting(30, 4, 512))


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
