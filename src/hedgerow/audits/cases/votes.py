"""Audit cases for votes, once or repeated: everything of one client is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.phases.people_votes import PeopleVoter
from hedgerow.algorithms.phases.votes import Likelihood, Voter, VoteServer
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, changes
from hedgerow.audits.cases.parts import DRAWN, all_transcripts, peer_curve
from hedgerow.audits.cases.releases import quiet, release_cases
from hedgerow.core.certificate import Observer
from hedgerow.core.lattice import Array
from hedgerow.core.people import with_people
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.phases.repeated_votes import RepeatedVotes
    from hedgerow.algorithms.phases.vote_selection import VoteSelection

CLIENTS, ROUNDS, RUNS = 10, 64, 5000


@dataclass(frozen=True)
class Loud(Voter):
    """The bug: a client is counted twice, so scores reach 2."""

    def opinion(self, losses: Array, rounds: Any) -> np.ndarray:
        return 2 * super().opinion(losses, rounds)


@dataclass(frozen=True)
class Uncut(Voter):
    """The bug: scores count standard errors or losses and are not cut to 1."""

    def opinion(self, losses: Array, rounds: Any) -> np.ndarray:
        plain = super().opinion(losses, rounds)
        return plain * np.maximum(rounds, 1)[..., None]


@dataclass(frozen=True)
class OfRecords(PeopleVoter):
    """The bug: a person is counted once for each record."""

    def votes(self, rounds: np.ndarray) -> np.ndarray:
        return rounds


def cases(spec: VoteSelection) -> tuple[AuditCase, ...]:
    """All voters but one prefer expert 1, and expert 0 is chosen; that voter says how rarely."""
    algorithm = spec.build(Setting(CLIENTS, 2, ROUNDS))
    voter, server = algorithm.client, algorithm.server
    assert isinstance(voter, Voter)
    assert isinstance(server, VoteServer)
    first = np.zeros((ROUNDS, CLIENTS, 2))
    first[:, :, 0] = 1.0
    second = first.copy()
    if isinstance(voter, PeopleVoter):  # the person comes in half of all rounds, to some clients
        who = np.full((ROUNDS, CLIENTS), -1)
        places = int(server.selections[0].sensitivity)
        who[1::2, places:] = 0
        who[::2, :places], who[1::2, :places] = 0, 1 if voter.people > 1 else -1
        first[::2, :places] = (0.0, 1.0)
        first, second = with_people(first, who), with_people(second, who)
    else:
        first[:, 0] = (0.0, 1.0)
    sent = tuple(
        CurrentExpert(server.wait(k), int(k == 0), k) for k in range(len(server.times) + 1)
    )
    thin = replace(
        server,
        selections=tuple(replace(one, epsilon=1.25 * one.epsilon) for one in server.selections),
    )

    whose = "person" if isinstance(voter, PeopleVoter) else "client"
    name, curve = f"everything of one {whose}", peer_curve(algorithm)
    case = AuditCase(name, WHOLE, algorithm, curve, first, second, (sent,))

    def bug(name: str, voter: Voter, server: VoteServer) -> AuditCase:
        claims = replace(algorithm.claims, log_likelihood=Likelihood(voter, server))
        return case.caught(name, replace(algorithm, client=voter, server=server, claims=claims))

    common = (case.null(), case, bug("four fifths of the noise", voter, thin))
    if isinstance(voter, PeopleVoter):
        often = OfRecords(voter.experts, voter.scores, voter.people)
        return (*common, bug("a person counted once for each record", often, server))
    loud, uncut = (kind(voter.experts, voter.scores) for kind in (Loud, Uncut))
    return (
        *common,
        bug("a client counted twice", loud, server),
        bug("scores not cut", uncut, server),
        *_real_runs(spec),
    )


def repeated_cases(spec: RepeatedVotes) -> tuple[AuditCase, ...]:
    """One client votes for expert 0 at every choice or for expert 1; others are divided."""
    played = replace(spec, every=8)
    first = np.zeros((ROUNDS, CLIENTS, 2))
    first[:, 1::2, 0] = first[:, ::2, 1] = 1.0
    second = first.copy()
    second[:, 0] = second[:, 0, ::-1]
    algorithm = played.build(Setting(CLIENTS, 2, ROUNDS))
    given = {"observer": Observer.PEER, "claim": RELEASES, "parameters": changes(spec, played)}
    return release_cases(algorithm, first, second, **given)


def _real_runs(spec: VoteSelection) -> tuple[AuditCase, ...]:
    """A tiny game with two choices, whose real runs must follow the likelihood."""
    played = replace(spec, epsilon=4.0, choices=(2, 4))
    algorithm = played.build(Setting(CLIENTS, 2, 5))
    first = np.zeros((5, CLIENTS, 2))
    first[:, :4, 1] = first[:, 4:, 0] = 1.0
    second = first.copy()
    first[:, 0, :], second[:, 0, :] = (0.0, 1.0), (1.0, 0.0)
    sent, name = all_transcripts(algorithm, first), "all transcripts of a tiny game"
    case = AuditCase(name, WHOLE, algorithm, peer_curve(algorithm), first, second, sent)
    case = replace(case, runs=RUNS, parameters=changes(spec, played))
    server: Any = algorithm.server
    less = replace(server, selections=tuple(map(quiet, server.selections)))
    return case, case.caught(DRAWN, replace(algorithm, server=less))
