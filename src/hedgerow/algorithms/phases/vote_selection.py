"""Vote selection: a few private choices from what whole clients, or people, prefer.

Each client sends one number in [0, 1] for each expert, made from all its data so far in any way it
likes. Whatever its data are, the sum over clients moves by at most 1, so a choice protects the
whole client. Few choices are best: the budget is that of the client and is shared by all of them.
Where people are protected, each of them has such a vote, and clients send the sums of their votes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, expm1, inf
from typing import ClassVar, get_args

from hedgerow.algorithms.phases.people_votes import PEOPLE, PeopleVoter, people_games
from hedgerow.algorithms.phases.votes import (
    FOLLOWED,
    Likelihood,
    Opinion,
    Scores,
    Voter,
    VoteServer,
    check_within_client,
    of_voters,
)
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.core.certificate import (
    FEW_CLIENTS,
    OTHER_CLIENTS,
    Certificate,
    Channel,
    Proof,
    trusted_server,
)
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.games import Games
from hedgerow.core.limits import Broadcasts, Range, Uploads
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, SpecTraits
from hedgerow.core.rounding import round_down
from hedgerow.core.setting import Setting
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Client, Event, Person, Unit
from hedgerow.core.validate import at_least, check_budget, one_of
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.mechanisms import NoisyMax


@dataclass(frozen=True)
class VoteSelection(AlgorithmSpec):
    """Protect whole clients, or people: choose an expert from what they prefer, a few times.

    At public times each client sends one score in [0, 1] for each expert, made from all its data so
    far, and the server chooses by permute-and-flip. Before the first choice all follow an expert
    that was drawn without data. Use it where the secret is all that a client holds; the loss of one
    record is protected better by `PhasedSelection`. One choice needs losses of one law: if the best
    expert of the first rounds is not the best later, the choice stays wrong.

    Parameters
    ----------
    epsilon
        The privacy budget of a whole client, in [1e-6, 1e6]. Default 1.
    scores
        "studentised" (default): how far an expert is behind the client's own leader, in standard
        errors, 1 from sqrt(2 ln(experts)) on. "clip": the same in mean losses, 1 from
        2 sqrt(ln(experts) / (2 rounds)) on. "vote": 0 for the own leader and 1 for all others.
    choices
        The rounds before which experts are chosen, rising. None (default): by clients * epsilon.
        Below 200 once, after 1/32 of the rounds; below 1000 twice; otherwise after 1, 9, 73, ...
        rounds, with more budget for later choices. People, who come rarely: once, after 1/8.
    people
        With unit="person", which is a person with any number of records: the most people at one
        client. Each has one vote. With "person@2" a person may be at two clients. None (default):
        clients vote.

    Guarantee
    ---------
    All the data of one client in all rounds are protected from the public and from other clients,
    even if all of them collude, with exactly epsilon and delta = 0. The server is trusted. That
    a client takes part is not protected. Proof: `proofs/vote_selection.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> built = hr.VoteSelection().build(hr.Setting(clients=30, experts=100, horizon=2**14))
    >>> built.parameters["choices"], built.certificate.public.curve.stated()
    ((512,), (1.0, 0.0))
    >>> print(built.certificate.public.unit.words())
    all the data of one client
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        interval=None,
        meanings={
            "scores": "how clients say what they prefer",
            "choices": "rounds before which experts are chosen",
            "people": "the most people at one client",
            "voters": "the most clients or people that vote",
            "error_at_least": "no choice that protects clients so well errs less often",
        },
        forms={
            "votes": {"scores": "vote"},
            "clip": {"scores": "clip"},
            "two choices": {"choices": (1, 2)},
            "people": {"unit": "person", "people": PEOPLE},
        },
    )

    epsilon: float = 1.0
    scores: Scores = "studentised"
    choices: tuple[int, ...] | None = None
    people: int | None = None
    unit: Unit | str | None = field(default=Client(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.epsilon)
        one_of(self, scores=get_args(Scores))
        if self.people is not None:
            at_least("people", self.people, 1)
            if self._crowd is None:
                raise InvalidValue(
                    f"Expected people={self.people} to come with unit='person' (any number of "
                    "records): only then do people vote."
                )
        if self.choices is not None:
            several = isinstance(self.choices, tuple) and len(self.choices) > 0
            if not several:
                raise InvalidValue(
                    f"Expected choices={self.choices!r} to be one or more rounds, as a tuple."
                )
            for choice in self.choices:
                at_least("choices", choice, 1)
            rising = all(a < b for a, b in pairwise(self.choices))
            if not rising:
                raise InvalidValue(f"Expected choices={self.choices!r} to be rising.")

    @property
    def _crowd(self) -> Person | None:
        """The person that is protected, if people vote."""
        unit = Event() if self.unit is None else parse_unit(self.unit)
        return unit if isinstance(unit, Person) and unit.records is None else None

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        if self._crowd is not None:
            if self.people is None:
                raise Unsupported(
                    f"unit={unit.text()!r} gives one vote to each person: say how many people a "
                    "client has at most, as in people=100."
                )
            if not self._crowd.clients <= setting.clients:
                raise InvalidValue(
                    f"Expected clients of one person={self._crowd.clients!r} <= the "
                    f"{setting.clients} clients of the game."
                )
            return self.resolve(setting)
        check_within_client(
            unit,
            setting,
            "VoteSelection",
            "PhasedSelection, or unit='person@2' with people= for a person at two clients",
        )
        return self.resolve(setting)

    def resolve(self, setting: Setting) -> Algorithm:
        times, shares = self._plan(setting)
        last = times[-1] if times else 0
        if not last < setting.rounds:
            raise InvalidValue(
                f"Expected choices={times!r} before round {setting.rounds}, the last."
            )
        crowd = self._crowd
        unit: Unit = Client() if crowd is None else crowd
        places = 1 if crowd is None else crowd.clients
        exact, whole = [Fraction(share) for share in shares], sum(map(Fraction, shares))
        selections = tuple(
            NoisyMax(
                f"choice {k}",
                "exponential",
                round_down(Fraction(self.epsilon) * share / whole),
                sensitivity=float(places),
            )
            for k, share in enumerate(exact, start=1)
        )
        voter, people = Voter(setting.experts, self.scores), frozenset[Feature]()
        if self.people is not None:
            voter = PeopleVoter(setting.experts, self.scores, self.people)
            people = frozenset({Feature.PEOPLE})
        most = float(self.people or 1)
        server = VoteServer(setting.experts, times, selections)
        return Algorithm(
            name="vote_selection",
            setting=setting,
            client=voter,
            server=server,
            certificate=self._certificate(setting, selections, unit),
            uploads=Uploads(
                Opinion, {"scores": Range(setting.experts, 0.0, most, per_round=False)}
            ),
            broadcasts=Broadcasts(CurrentExpert, server.broadcasts),
            supports=people,
            needs=people,
            claims=Claims(log_likelihood=Likelihood(voter, server)),
            parameters={
                "choices": times,
                "error_at_least": error_at_least(
                    self._voters(setting), setting.experts, self.epsilon
                ),
                **({"voters": self._voters(setting)} if people else {}),
            },
        )

    def _voters(self, setting: Setting) -> int:
        return setting.clients * (self.people or 1)

    def _plan(self, setting: Setting) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The times of the choices and their shares of the budget."""
        rounds, weight = setting.rounds, setting.clients * self.epsilon
        if self.choices is not None:
            return self.choices, (1.0,) * len(self.choices)
        if rounds == 1:
            return (), ()
        if self.people is not None or weight < 1000 or rounds < 32:
            parts = (8,) if self.people is not None else (32,) if weight < 200 else (128, 8)
            found = {min(max(8, ceil(rounds / part)), rounds // 2) for part in parts}
            return tuple(sorted(found)), (1.0,) * len(found)
        times, length = [1], 8
        while times[-1] + length < rounds:
            times, length = [*times, times[-1] + length], 8 * length
        return tuple(times), tuple(8 ** (k / 4) for k in range(len(times)))

    def _certificate(
        self, setting: Setting, selections: tuple[NoisyMax, ...], unit: Unit
    ) -> Certificate:
        many = isinstance(unit, Person) and unit.clients > 1
        several = frozenset({OTHER_CLIENTS, FEW_CLIENTS}) if many else frozenset()
        found = trusted_server(
            setting=setting,
            curve=pure_sum(selection.curve for selection in selections),
            proof=Proof("vote_selection.md", "privacy" if isinstance(unit, Client) else "people"),
            channels={"Opinion.scores": Channel.UPLOADS, **FOLLOWED},
            mechanisms=selections,
            composition="sum",
            entered=len(selections) * (unit.clients if isinstance(unit, Person) else 1),
            sent="scores of experts, each from 0 to 1, made from all their data"
            if isinstance(unit, Client)
            else "scores of experts, made from all data of each person",
            assumes=several,
        )
        return of_voters(unit, found, setting)

    def audit_variants(self) -> tuple[VoteSelection, ...]:
        """A variant whose tiny games come close to the certificate."""
        return (replace(self, epsilon=12.0),)

    def games(self) -> Games | None:
        return None if self.people is None else people_games()


def error_at_least(clients: int, experts: int, epsilon: float, delta: float = 0.0) -> float:
    """No choice that protects whole clients is right more often on every unanimous profile.

    Its largest chance of another expert than the one that all clients prefer is at least this
    (`proofs/vote_selection.md#lower-bound`); so where it is near 1, nothing can be learned.

    >>> round(error_at_least(10, 100, 1.0), 3), error_at_least(30, 100, 1.0) < 1e-5
    (0.032, True)
    """
    others, least = experts - 1, inf
    if others == 0:
        return 0.0
    best = 0.0
    for j in range(clients + 1):
        here, there = epsilon * j, epsilon * (clients - j)
        if max(here, there) > 700:
            continue
        lost = sum(delta * (expm1(at) / expm1(epsilon)) for at in (here, there))
        least = exp(here) + exp(there) / others
        best = max(best, (1 - lost) / least)
    return max(0.0, best)
