"""Votes in Gaussian noise, many times: for whole clients whose best expert changes.

Each client votes for the leader of the rounds since the last choice. Whatever its data are, it
moves one vote from one expert to another, by sqrt(2) in the l2 norm, at each of R choices; so all
noisy histograms together move by sqrt(2 R) (`proofs/vote_selection.md#histograms`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hedgerow.algorithms.correlated.decoding import sums_certificate
from hedgerow.algorithms.phases.votes import ClientState, ServerState, Voter, VoteServer
from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.shared.noisy_reports import Trust, gaussian_noise
from hedgerow.core.certificate import Certificate, Channel, Proof
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, from_units
from hedgerow.core.layout import UnitVector, Vector
from hedgerow.core.messages import Upload
from hedgerow.core.noise import Noise
from hedgerow.core.rounding import root_up
from hedgerow.core.setting import Setting
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


def histogram_noise(
    budget: Budget, trust: Trust, choices: int, clients: int, honest: int | None = None
) -> GaussianNoise:
    """The noise of one histogram; its sensitivity is that of all of them together."""
    return gaussian_noise(trust, "votes", budget, root_up(Fraction(2 * choices)), clients, honest)


def histogram_certificate(
    setting: Setting, noise: GaussianNoise, trust: Trust, delta: float, choices: int
) -> Certificate:
    """The certificate of all histograms for one record; whole clients have the same curve."""
    central = trust == "central"
    more: dict[str, Any] = {"sent": "votes, made from all their data"} if central else {}
    return sums_certificate(
        setting=setting,
        mechanism=noise,
        central=central,
        delta=delta,
        upload="Votes.votes" if central else "NoisyVotes.votes",
        announced={
            "CurrentExpert.rounds": Channel.TIMING,
            "CurrentExpert.expert": Channel.BROADCASTS,
            "CurrentExpert.switches": Channel.BROADCASTS,
        },
        proof=Proof("vote_selection.md", "histograms"),
        entered=choices,
        **more,
    )
