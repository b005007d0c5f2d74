"""Repeated votes in Gaussian noise: for whole clients whose best expert changes.

Each client votes for the leader of the rounds since the last choice. Whatever its data are, it
moves one vote from one expert to another, by sqrt(2) in the l2 norm, at each of R choices; so all
noisy histograms together move by sqrt(2 R) (`proofs/vote_selection.md#histograms`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, Literal

import numpy as np

from hedgerow.algorithms.correlated.decoding import sums_certificate
from hedgerow.algorithms.phases.votes import (
    FOLLOWED,
    ClientState,
    ServerState,
    Voter,
    VoteServer,
    check_within_client,
    of_voters,
)
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.shared.noisy_reports import check_honest, gaussian_noise
from hedgerow.core.certificate import Proof
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, from_units
from hedgerow.core.layout import UnitVector, Vector
from hedgerow.core.limits import Broadcasts, Range, Uploads
from hedgerow.core.messages import Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.rounding import root_up
from hedgerow.core.setting import Setting
from hedgerow.core.units import Client, Unit
from hedgerow.core.validate import at_least, check_budget, gaussian_delta, one_of
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.mechanisms import GaussianNoise


@dataclass(frozen=True)
class Votes(Upload):
    """One vote for the own leader, in lattice units."""

    votes: UnitVector


@dataclass(frozen=True)
class NoisyVotes(Upload):
    """The vote of one client with its share of noise."""

    votes: Vector


@dataclass(frozen=True)
class RecentVoter(Voter):
    """Votes for its leader of the rounds since the last choice; with `reporting` in its noise."""

    reporting: GaussianNoise | None = None

    def opinion(self, losses: Array, rounds: Any) -> np.ndarray:
        found = np.zeros(losses.shape, np.int64)
        np.put_along_axis(found, losses.argmin(axis=-1)[..., None], UNITS_PER_LOSS, axis=-1)
        return found

    def upload(self, state: ClientState, noise: Noise) -> tuple[Any, ClientState]:
        votes = self.opinion(from_units(state.losses), state.rounds)
        zeros = np.zeros_like(state.losses)
        fresh = replace(state, rounds=np.zeros_like(state.rounds), losses=zeros)
        if self.reporting is None:
            return Votes(votes), fresh
        return NoisyVotes(noise.release(self.reporting, from_units(votes))), fresh


@dataclass(frozen=True)
class HistogramServer(VoteServer):
    """Follows the expert with most votes; adds the noise unless clients have done so."""

    releasing: GaussianNoise | None = None

    def aggregate(
        self, state: ServerState, uploads: Any, noise: Noise
    ) -> tuple[CurrentExpert, ServerState]:
        votes = np.asarray(uploads.votes)
        if self.releasing is not None:
            votes = noise.release(self.releasing, from_units(votes.astype(np.int64)))
        return self.follow(state.choices + 1, int(votes.argmax()))


@dataclass(frozen=True)
class RepeatedVotes(AlgorithmSpec):
    """Protect whole clients whose best expert changes: votes every few rounds, in Gaussian noise.

    Each client votes for its leader of the rounds since the last choice, and all follow the expert
    with most votes. Before the first choice they follow an expert that was drawn without data. It
    needs many clients; if losses follow one law, `VoteSelection` loses less.

    Parameters
    ----------
    epsilon
        The privacy budget of a whole client, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in (0, 1). Default 1e-6: Gaussian noise needs one.
    trust
        "central" (default), or "distributed": each client adds a share of the noise, and only the
        sum of all votes is visible.
    every
        Rounds between two choices, at least 1. None (default): 1/64 of the rounds.
    honest
        With "distributed": how many clients keep their share secret. None (default): all but one.

    Guarantee
    ---------
    All the data of one client in all rounds are protected with (epsilon, delta) from the public and
    from other clients, even if all of them collude. With "central" the server is trusted; with
    "distributed" it learns no more, if `honest` clients keep their noise secret. That a client
    takes part is not protected. Proof: `proofs/vote_selection.md#histograms`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=100, experts=20, horizon=4096)
    >>> hr.RepeatedVotes(epsilon=3.0).build(setting).parameters["choices"]
    63
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        interval=None,
        meanings={
            "every": "rounds between two choices",
            "trust": "who adds noise to votes",
            "honest": "number of clients whose shares of noise are enough",
            "choices": "how often an expert is chosen",
            "deviation": "standard deviation of the noise of a vote, or of a share of it",
        },
        forms={"distributed": {"trust": "distributed"}},
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    trust: Literal["central", "distributed"] = "central"
    every: int | None = None
    honest: int | None = None
    unit: Unit | str | None = field(default=Client(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        gaussian_delta(self.delta)
        one_of(self, trust=("central", "distributed"))
        check_honest(self.trust, self.honest)
        if self.every is not None:
            at_least("every", self.every, 1)

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        check_within_client(unit, setting, "RepeatedVotes", "WalkLeader")
        return self.resolve(setting)

    def resolve(self, setting: Setting) -> Algorithm:
        check_honest(self.trust, self.honest, setting)
        every = ceil(setting.rounds / 64) if self.every is None else self.every
        times, central = tuple(range(every, setting.rounds, every)), self.trust == "central"
        experts, count = setting.experts, max(1, len(times))
        noise = gaussian_noise(  # its sensitivity is that of all votes together
            self.trust,
            "votes",
            Budget(self.epsilon, self.delta),
            root_up(Fraction(2 * count)),
            setting.clients,
            self.honest,
        )
        server = HistogramServer(experts, times, (), noise if central else None)
        votes = Range(experts, 0.0, 1.0, per_round=False) if central else Range.noisy(experts)
        more: dict[str, Any] = {"sent": "votes, made from all their data"} if central else {}
        of_records = sums_certificate(
            setting=setting,
            mechanism=noise,
            central=central,
            delta=self.delta,
            upload="Votes.votes" if central else "NoisyVotes.votes",
            announced=FOLLOWED,
            proof=Proof("vote_selection.md", "histograms"),
            entered=count,
            **more,
        )
        return Algorithm(
            name="repeated_votes",
            setting=setting,
            client=RecentVoter(experts, "vote", None if central else noise),
            server=server,
            certificate=of_voters(Client(), of_records, setting),
            uploads=Uploads(Votes if central else NoisyVotes, {"votes": votes}),
            broadcasts=Broadcasts(CurrentExpert, server.broadcasts),
            parameters={"choices": len(times), "deviation": noise.scale},
        )
