"""Locally private learners: every client reports each round with noise, all follow the leader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np

from hedgerow.core.certificate import DEFAULT_VIEWS, Certificate, Channel, Observer, Proof
from hedgerow.core.limits import Broadcasts, Uploads
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.messages import Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, Context
from hedgerow.core.setting import Setting
from hedgerow.privacy.mechanisms import AdditiveNoise, ExponentialMechanism, GaussianNoise
from hedgerow.privacy.mechanisms.additive import GaussianShare
from support.followers import Leader, Totals, guarantees


@dataclass(frozen=True)
class Report(Upload):
    """A noisy loss vector, or the number of an expert."""

    about: Any


@dataclass(frozen=True)
class Heard:
    expert: np.ndarray
    losses: np.ndarray


@dataclass(frozen=True)
class Walker:
    """Reports each loss vector at once and plays the leader."""

    state: ClassVar[type[Any]] = Heard

    experts: int
    report: Mechanism

    def start(self, noise: Noise) -> Heard:
        return Heard(np.zeros(noise.batch, np.int64), np.zeros((*noise.batch, self.experts)))

    def receive(self, state: Heard, broadcast: Leader) -> Heard:
        return replace(state, expert=np.full_like(state.expert, broadcast.expert))

    def play(self, state: Heard, context: Context, noise: Noise) -> tuple[np.ndarray, Heard]:
        return state.expert, state

    def observe(self, state: Heard, reports: np.ndarray, noise: Noise) -> Heard:
        return replace(state, losses=reports)

    def upload(self, state: Heard, noise: Noise) -> tuple[Report, Heard]:
        return Report(noise.release(self.report, state.losses)), state


@dataclass(frozen=True)
class Follow:
    """Adds up the reports and broadcasts the leader; experts are voted for with `votes`."""

    state: ClassVar[type[Any]] = Totals

    experts: int
    votes: bool = False

    def open(self, noise: Noise) -> tuple[Leader, Totals]:
        return Leader(1, noise.index(self.experts, "start")), Totals(np.zeros(self.experts))

    def aggregate(self, state: Totals, uploads: Report, noise: Noise) -> tuple[Leader, Totals]:
        about = (
            -np.bincount(uploads.about, minlength=self.experts)
            if self.votes
            else uploads.about.reshape(-1, self.experts).sum(axis=0)  # each report, or their sum
        )
        totals = state.totals + about
        return Leader(1, int(np.argmin(totals))), Totals(totals)


Law = Literal["gaussian", "laplace", "vote", "share"]


def report(law: Law, cost: float, setting: Setting) -> Mechanism:
    """The mechanism of one report, which costs `cost` (mu or epsilon)."""
    d = setting.experts
    if law == "gaussian":
        return GaussianNoise("report", sqrt(d) / cost, sqrt(d))
    if law == "laplace":
        return AdditiveNoise("report", "laplace", d / cost, float(d))
    if law == "vote":
        return ExponentialMechanism("report", cost)
    honest = setting.clients
    return GaussianShare("report", sqrt(d / honest) / cost, sqrt(d), honest)


def local_leader(law: Law, cost: float, setting: Setting, client: Any = Walker) -> Algorithm:
    """The algorithm with its certificate: one report of one person is protected from everyone."""
    mechanism = report(law, cost, setting)
    seen = Channel.SUM if law == "share" else Channel.UPLOADS
    curve = mechanism.curve
    assert curve is not None
    views = {
        **DEFAULT_VIEWS,
        Observer.SERVER: DEFAULT_VIEWS[Observer.SERVER] - {Channel.UPLOADS} | {seen},
    }
    certificate = Certificate(
        "distributed" if law == "share" else "local",
        "certified",
        guarantees(curve, Proof("composition.md", "disjoint-pieces"), views=views),
        {
            "Report.about": seen,
            "Leader.rounds": Channel.TIMING,
            "Leader.expert": Channel.BROADCASTS,
        },
        (mechanism,),
        "sum",
        entered=1,
    )
    return Algorithm(
        "local_leader",
        setting,
        client(setting.experts, mechanism),
        Follow(setting.experts, law == "vote"),
        certificate,
        uploads=Uploads(Report, combine="sum" if law == "share" else "each"),
        broadcasts=Broadcasts(Leader),
    )


def pair(setting: Setting, changed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Streams in which the first client's loss vectors of the first `changed` rounds differ.

    All entries move, one of them up and the others down: votes then show most.
    """
    first = np.ones((setting.rounds, setting.clients, setting.experts))
    first[:, :, 0] = 0.0
    second = first.copy()
    second[:changed, 0] = 1.0 - first[:changed, 0]
    return first, second
