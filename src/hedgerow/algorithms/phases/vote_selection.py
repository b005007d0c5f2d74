"""Vote selection: a few private choices from what whole clients prefer.

Each client sends one number in [0, 1] for each expert, made from all its data so far in any way it
likes. Whatever its data are, the sum over clients moves by at most 1, so a choice protects the
whole client. Few choices are best: the budget is that of the client and is shared by all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, expm1, inf, log, sqrt
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.core.certificate import Certificate, Channel, Proof, trusted_server
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, from_units, to_units
from hedgerow.core.layout import UnitVector, Whole
from hedgerow.core.limits import Allowed, Between, Broadcasts, Planned, Range, Uploads
from hedgerow.core.messages import Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Context, SpecTraits
from hedgerow.core.rounding import round_down
from hedgerow.core.setting import Setting
from hedgerow.core.unit_order import covers
from hedgerow.core.units import Client, Unit
from hedgerow.core.validate import at_least, check_budget, one_of
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.mechanisms import NoisyMax

Scores = Literal["studentised", "clip", "vote"]


@dataclass(frozen=True)
class Opinion(Upload):
    """How little a client prefers each expert, from 0 (its own leader) to 1, in lattice units."""

    scores: UnitVector


@dataclass(frozen=True)
class ClientState:
    """The expert to follow, how many rounds were seen, and all losses so far, in lattice units."""

    expert: Whole
    rounds: Whole
    losses: UnitVector


@dataclass(frozen=True)
class Voter:
    """Follows the announced expert and says what it prefers by all its data so far."""

    state: ClassVar[type[Any]] = ClientState

    experts: int
    scores: Scores

    def start(self, noise: Noise) -> ClientState:
        zeros = np.zeros(noise.batch, np.int64)
        return ClientState(zeros, zeros, np.zeros((*noise.batch, self.experts), np.int64))

    def receive(self, state: ClientState, broadcast: CurrentExpert) -> ClientState:
        return replace(state, expert=np.full_like(state.expert, broadcast.expert))

    def play(
        self, state: ClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        return state.expert, state

    def play_many(
        self, state: ClientState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        return np.broadcast_to(state.expert, (rounds, *np.shape(state.expert))), state

    def observe(self, state: ClientState, reports: Array, noise: Noise) -> ClientState:
        rounds = np.asarray(state.rounds + 1)
        return replace(state, rounds=rounds, losses=state.losses + to_units(reports))

    def observe_many(self, state: ClientState, reports: Array, noise: Noise) -> ClientState:
        losses = state.losses + to_units(reports.sum(axis=0))
        return replace(state, rounds=np.asarray(state.rounds + len(reports)), losses=losses)

    def upload(self, state: ClientState, noise: Noise) -> tuple[Opinion, ClientState]:
        return Opinion(self.opinion(from_units(state.losses), state.rounds)), state

    def opinion(self, losses: Array, rounds: Any) -> np.ndarray:
        """The scores of clients with these losses, (clients, experts), after this many rounds.

        They are cut to [0, 1] on the lattice, whatever the losses are.
        """
        seen = np.maximum(rounds, 1)[..., None]
        mean = losses / seen
        behind = mean - mean.min(axis=-1, keepdims=True)
        if self.scores == "vote":
            found = np.ones_like(behind)
            np.put_along_axis(found, losses.argmin(axis=-1)[..., None], 0.0, axis=-1)
        elif self.scores == "clip":
            found = behind / np.minimum(1.0, 2 * np.sqrt(log(max(self.experts, 2)) / (2 * seen)))
        else:
            spread = np.clip(mean * (1 - mean), 0.0, None) + 1 / seen
            own = np.take_along_axis(spread, losses.argmin(axis=-1)[..., None], axis=-1)
            error = np.sqrt((spread + own) / seen)
            found = behind / (sqrt(2 * log(max(self.experts, 2))) * error)
        return np.rint(np.clip(found, 0.0, 1.0) * UNITS_PER_LOSS).astype(np.int64)


@dataclass(frozen=True)
class ServerState:
    """How many choices were made."""

    choices: int


@dataclass(frozen=True)
class VoteServer:
    """Chooses the expert with a small sum of scores, at a few public times."""

    state: ClassVar[type[Any]] = ServerState

    experts: int
    times: tuple[int, ...]
    selections: tuple[NoisyMax, ...]

    def wait(self, exchange: int) -> int | None:
        """The rounds from an exchange to the next; None after the last choice."""
        if exchange >= len(self.times):
            return None
        return self.times[exchange] - (self.times[exchange - 1] if exchange else 0)

    @property
    def broadcasts(self) -> dict[str, Allowed]:
        """What the server may send."""
        return {
            "rounds": Planned(self),
            "expert": Between(0, self.experts - 1),
            "switches": Between(0, len(self.times)),
        }

    def open(self, noise: Noise) -> tuple[CurrentExpert, ServerState]:
        return self._follow(0, noise.index(self.experts, "first expert"))

    def aggregate(
        self, state: ServerState, uploads: Opinion, noise: Noise
    ) -> tuple[CurrentExpert, ServerState]:
        sums = from_units(np.asarray(uploads.scores, np.int64))
        expert = noise.release(self.selections[state.choices], sums)
        return self._follow(state.choices + 1, expert)

    def _follow(self, choices: int, expert: int) -> tuple[CurrentExpert, ServerState]:
        return CurrentExpert(self.wait(choices), expert, choices), ServerState(choices)


@dataclass(frozen=True)
class Likelihood:
    """The exact log-probability of a sequence of broadcasts on given data."""

    voter: Voter
    server: VoteServer

    def __call__(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        result = -log(self.server.experts)
        for choice, (_, then) in enumerate(pairwise(broadcasts)):
            time = self.server.times[choice]
            losses = reports[:time].sum(axis=0)
            scores = from_units(self.voter.opinion(losses, np.full(len(losses), time)).sum(axis=0))
            result += self.server.selections[choice].log_probability(scores, then.expert)
        return float(result)


@dataclass(frozen=True)
class VoteSelection(AlgorithmSpec):
    """Protect whole clients: choose an expert from what they prefer, once or a few times.

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
        rounds, with more budget for later choices.

    Guarantee
    ---------
    All the data of one client in all rounds are protected from the public and from other clients,
    even if all of them collude, with exactly epsilon and delta = 0. The server is trusted. That a
    client takes part is not protected. Proof: `proofs/vote_selection.md#privacy`.

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
        meanings={
            "scores": "how clients say what they prefer",
            "choices": "rounds before which experts are chosen",
            "error_at_least": "no choice that protects clients so well errs less often",
        },
        forms={
            "votes": {"scores": "vote"},
            "clip": {"scores": "clip"},
            "two choices": {"choices": (1, 2)},
        },
    )

    epsilon: float = 1.0
    scores: Scores = "studentised"
    choices: tuple[int, ...] | None = None
    unit: Unit | str | None = field(default=Client(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.epsilon)
        one_of(self, scores=get_args(Scores))
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

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        unit.size(setting)
        if not covers(Client(), unit):
            raise Unsupported(
                f"VoteSelection protects everything of one client, which does not cover "
                f"unit={unit.text()!r}. Use another algorithm for it, such as PhasedSelection."
            )
        return self.resolve(setting)

    def resolve(self, setting: Setting) -> Algorithm:
        times, shares = self._plan(setting)
        last = times[-1] if times else 0
        if not last < setting.rounds:
            raise InvalidValue(
                f"Expected choices={times!r} before round {setting.rounds}, the last."
            )
        exact, whole = [Fraction(share) for share in shares], sum(map(Fraction, shares))
        selections = tuple(
            NoisyMax(f"choice {k}", "exponential", round_down(Fraction(self.epsilon) * s / whole))
            for k, s in enumerate(exact, start=1)
        )
        voter = Voter(setting.experts, self.scores)
        server = VoteServer(setting.experts, times, selections)
        return Algorithm(
            name="vote_selection",
            setting=setting,
            client=voter,
            server=server,
            certificate=self._certificate(setting, selections),
            uploads=Uploads(Opinion, {"scores": Range(setting.experts, 0.0, 1.0, per_round=False)}),
            broadcasts=Broadcasts(CurrentExpert, server.broadcasts),
            claims=Claims(log_likelihood=Likelihood(voter, server)),
            parameters={
                "choices": times,
                "error_at_least": error_at_least(setting.clients, setting.experts, self.epsilon),
            },
        )

    def _plan(self, setting: Setting) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """The times of the choices and their shares of the budget."""
        rounds, weight = setting.rounds, setting.clients * self.epsilon
        if self.choices is not None:
            return self.choices, (1.0,) * len(self.choices)
        if rounds == 1:
            return (), ()
        if weight < 1000 or rounds < 32:
            parts = (32,) if weight < 200 else (128, 8)
            found = {min(max(8, ceil(rounds / part)), rounds // 2) for part in parts}
            return tuple(sorted(found)), (1.0,) * len(found)
        times, length = [1], 8
        while times[-1] + length < rounds:
            times, length = [*times, times[-1] + length], 8 * length
        return tuple(times), tuple(8 ** (k / 4) for k in range(len(times)))

    def _certificate(self, setting: Setting, selections: tuple[NoisyMax, ...]) -> Certificate:
        found = trusted_server(
            setting=setting,
            curve=pure_sum(selection.curve for selection in selections),
            proof=Proof("vote_selection.md", "privacy"),
            channels={
                "Opinion.scores": Channel.UPLOADS,
                "CurrentExpert.rounds": Channel.TIMING,
                "CurrentExpert.expert": Channel.BROADCASTS,
                "CurrentExpert.switches": Channel.BROADCASTS,
            },
            mechanisms=selections,
            composition="sum",
            entered=len(selections),
            sent="scores of experts, each from 0 to 1, made from all their data",
        )
        unit = Client(record=setting.family.record)
        guarantees = (replace(g, unit=unit, adjacency=unit.adjacency()) for g in found.guarantees)
        return replace(found, guarantees=tuple(guarantees))

    def audit_variants(self) -> tuple[VoteSelection, ...]:
        """A variant whose tiny games come close to the certificate."""
        return (replace(self, epsilon=12.0),)


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
