"""Algorithms of kinds the package has none of yet, which keep every contract: Gaussian noise, and
noise drawn by clients.

Everybody follows the expert whose noisy losses, since the last exchange or since the start, are
smallest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np

from hedgerow.core.certificate import (
    Certificate,
    Channel,
    PrivacyCurve,
    Proof,
    trusted_server,
)
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Units, from_units, to_units
from hedgerow.core.limits import Between, Broadcasts, Numbers, Uploads
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context
from hedgerow.core.setting import Setting
from hedgerow.privacy.composition.fixed_plan import fixed_plan
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms import AdditiveNoise, GaussianNoise, KNorm
from support.followers import guarantees

Law = Literal["laplace", "k-norm", "gaussian"]


@dataclass(frozen=True)
class Report(Upload):
    losses: np.ndarray


@dataclass(frozen=True)
class Sums(Broadcast):
    losses: np.ndarray


@dataclass(frozen=True)
class ClientState:
    heard: np.ndarray
    losses: Units


@dataclass(frozen=True)
class ServerState:
    exchanges: int


@dataclass(frozen=True)
class Reporter:
    """Sends its losses, with noise where it has a mechanism; `forgets` what it has sent."""

    state: ClassVar[type[Any]] = ClientState

    experts: int
    mechanism: Any
    forgets: bool

    def start(self, noise: Noise) -> ClientState:
        shape = (*noise.batch, self.experts)
        return ClientState(np.zeros(shape), np.zeros(shape, np.int64))

    def receive(self, state: ClientState, broadcast: Sums) -> ClientState:
        losses = np.zeros_like(state.losses) if self.forgets else state.losses
        return ClientState(np.broadcast_to(broadcast.losses, state.losses.shape), losses)

    def play(
        self, state: ClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        return np.argmin(state.heard, axis=-1), state

    def observe(self, state: ClientState, reports: np.ndarray, noise: Noise) -> ClientState:
        return replace(state, losses=state.losses + to_units(reports))

    def upload(self, state: ClientState, noise: Noise) -> tuple[Report, ClientState]:
        losses = from_units(state.losses)
        return Report(
            losses if self.mechanism is None else noise.release(self.mechanism, losses)
        ), state


@dataclass(frozen=True)
class Passing:
    """Sends back the sum of the reports, with noise where it has a mechanism."""

    state: ClassVar[type[Any]] = ServerState

    experts: int
    every: int
    mechanism: Any

    def open(self, noise: Noise) -> tuple[Sums, ServerState]:
        return Sums(self.every, np.zeros(self.experts)), ServerState(0)

    def aggregate(
        self, state: ServerState, uploads: Report, noise: Noise
    ) -> tuple[Sums, ServerState]:
        losses = (
            uploads.losses
            if self.mechanism is None
            else noise.release(self.mechanism, uploads.losses)
        )
        return Sums(self.every, losses), ServerState(state.exchanges + 1)


@dataclass(frozen=True)
class PassingTwice(Passing):
    """Two releases of the same sums by different laws; their mean goes back."""

    other: Any = None

    def aggregate(
        self, state: ServerState, uploads: Report, noise: Noise
    ) -> tuple[Sums, ServerState]:
        losses = noise.release(self.mechanism, uploads.losses) + noise.release(
            self.other, uploads.losses
        )
        return Sums(self.every, losses / 2), ServerState(state.exchanges + 1)


CHANNELS = {
    "Report.losses": Channel.UPLOADS,
    "Sums.rounds": Channel.TIMING,
    "Sums.losses": Channel.BROADCASTS,
}


@dataclass(frozen=True)
class NoisySums(AlgorithmSpec):
    """One release costs `cost` (epsilon or mu); a datum is in one of them, or with `forgets=False`
    in all that follow it.
    """

    law: Law = "k-norm"
    noise_of: Literal["clients", "server"] = "clients"
    cost: float = 1.0
    every: int = 1
    forgets: bool = True

    def mechanism(self, experts: int) -> Any:
        if self.law == "laplace":
            return AdditiveNoise("report", "laplace", experts / self.cost, float(experts))
        if self.law == "k-norm":
            return KNorm("report", 1 / self.cost, 1.0)
        return GaussianNoise("report", sqrt(experts) / self.cost, sqrt(experts))

    def curve(self, mechanism: Any, setting: Setting) -> PrivacyCurve:
        releases = 1 if self.forgets else max(1, (setting.rounds - 1) // self.every)
        if not isinstance(mechanism.curve, GaussianDP):
            return pure_sum([mechanism.curve] * releases)
        return GaussianDP(sqrt(releases) * mechanism.curve.mu)

    def resolve(self, setting: Setting) -> Algorithm:
        if not self.every <= setting.rounds:
            raise InvalidValue(f"Expected every={self.every!r} <= horizon={setting.rounds}.")
        mechanism = self.mechanism(setting.experts)
        at_clients = self.noise_of == "clients"
        curve = self.curve(mechanism, setting)
        return Algorithm(
            name="noisy_sums",
            setting=setting,
            client=Reporter(setting.experts, mechanism if at_clients else None, self.forgets),
            server=Passing(setting.experts, self.every, None if at_clients else mechanism),
            certificate=self._local(curve, mechanism)
            if at_clients
            else self._central(setting, curve, mechanism),
            uploads=Uploads(Report),
            broadcasts=Broadcasts(
                Sums,
                {
                    "rounds": Between(self.every, self.every),
                    "losses": Numbers.noisy(setting.experts, setting.clients),
                },
            ),
        )

    @property
    def _proof(self) -> Proof:
        if self.forgets:
            return Proof("composition.md", "disjoint-pieces")
        return (
            Proof("odometer.md", "gaussian-filter")
            if self.law == "gaussian"
            else Proof("composition.md", "pure-sum")
        )

    def _local(self, curve: PrivacyCurve, mechanism: Any) -> Certificate:
        promised = guarantees(curve, self._proof)
        return Certificate("local", "certified", promised, CHANNELS, (mechanism,), "sum")

    def _central(self, setting: Setting, curve: PrivacyCurve, mechanism: Any) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=curve,
            proof=self._proof,
            channels=CHANNELS,
            mechanisms=(mechanism,),
            composition="sum",
        )


@dataclass(frozen=True)
class TwoLaws(AlgorithmSpec):
    """K-norm and Gaussian noise side by side: a plan that only privacy-loss distributions compose
    sharply.
    """

    cost: float = 0.5

    def resolve(self, setting: Setting) -> Algorithm:
        first, second = (NoisySums(law, "server", self.cost) for law in ("k-norm", "gaussian"))
        built, mechanisms = (
            first.build(setting),
            (first.mechanism(setting.experts), second.mechanism(setting.experts)),
        )
        curve = fixed_plan([(mechanism.curve, 1) for mechanism in mechanisms])
        certificate = trusted_server(
            setting=setting,
            curve=curve,
            proof=Proof("composition.md", "fixed-plans"),
            channels=CHANNELS,
            mechanisms=mechanisms,
            composition="sum",
        )
        return replace(
            built, server=PassingTwice(setting.experts, 1, *mechanisms), certificate=certificate
        )


HONEST: dict[str, AlgorithmSpec] = {
    "Laplace noise of every client": NoisySums("laplace", every=3),
    "K-norm noise of every client": NoisySums("k-norm"),
    "K-norm noise of every client, all losses again and again": NoisySums(
        "k-norm", every=4, forgets=False
    ),
    "Gaussian noise of every client": NoisySums("gaussian", cost=0.5),
    "Gaussian noise of the server": NoisySums("gaussian", "server", cost=0.5, every=2),
    "Gaussian noise of the server, all losses again and again": NoisySums(
        "gaussian", "server", cost=0.1, forgets=False
    ),
    "noise of two laws": TwoLaws(),
}
