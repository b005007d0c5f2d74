"""Certificates of games beyond experts with losses, as records; no algorithm is behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.core.certificate import (
    DEFAULT_VIEWS,
    IDEAL_REALS,
    PUBLIC_PARAMETERS,
    PUBLIC_REPORTERS,
    PUBLIC_SIDE,
    Assumption,
    Certificate,
    Channel,
    Composition,
    Guarantee,
    NoGuarantee,
    Observer,
    Proof,
    no_carry_over,
)
from hedgerow.core.convex import SquaredError
from hedgerow.core.losses import Family, Gains, Linear
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.protocol import Algorithm
from hedgerow.core.record import of_own_expert
from hedgerow.core.setting import Setting
from hedgerow.core.units import Client, Event, Person, Unit
from hedgerow.privacy.curves import GaussianDP, Quoted
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.records.build import algorithm_record
from hedgerow.records.schema import AlgorithmRecord

LINEAR, EVENT = Linear(), Event()
MU = 0.5
CURVE = Quoted(GaussianDP(MU), 1e-6)


@dataclass(frozen=True)
class Made:
    """A certificate to be made; the horizon None is that of a game without a last round."""

    clients: int = 5
    horizon: int | None = 100
    deciders: int | None = None
    family: Family = LINEAR
    plays: Literal["expert", "point"] = "expert"
    about: Unit = EVENT
    trust: Literal["central", "local"] = "local"
    composition: Composition = "sum"
    separate: bool = False
    further: frozenset[Assumption] = frozenset()
    own_expert: bool = False

    @property
    def certificate(self) -> Certificate:
        record = self.family.record
        unit = replace(self.about, record=of_own_expert(record) if self.own_expert else record)
        assumes = {IDEAL_REALS, PUBLIC_PARAMETERS, no_carry_over(unit.record), *self.further}
        proof = Proof("mechanisms.md", "shifts" if self.composition == "shifts" else "gaussian")
        raw = NoGuarantee("clients send the server exact values")
        guarantees = tuple(
            Guarantee(observer, view, unit, unit.adjacency(), raw)
            if self.trust == "central" and observer is Observer.SERVER
            else Guarantee(
                observer,
                view,
                unit,
                unit.adjacency(),
                CURVE,
                proof,
                self.clients - 1,
                self.horizon,
                assumes=frozenset(assumes),
            )
            for observer, view in DEFAULT_VIEWS.items()
        )
        mechanisms: tuple[Mechanism, ...] = (GaussianNoise("report", 2.0, 1.0),)
        channels = {"Broadcast.rounds": Channel.TIMING}
        entered = 1 if self.composition == "sum" else None
        return Certificate(
            self.trust,
            "certified",
            guarantees,
            channels,
            mechanisms,
            self.composition,
            entered=entered,
            separate=self.separate,
        )

    @property
    def algorithm(self) -> Algorithm:
        setting = Setting(self.clients, 3, self.horizon, self.deciders, self.family)
        built = Uniform().build(replace(setting, family=LINEAR, horizon=100, deciders=None))
        return replace(
            built,
            name="made_up",
            setting=setting,
            certificate=self.certificate,
            decider=None if self.deciders is None else built.client,
            plays=self.plays,
        )

    def record(self, runs: int = 1) -> AlgorithmRecord:
        data = "drawn" if runs == 1 else "recorded"
        return algorithm_record("made_up", self.algorithm, {"name": "made_up"}, data, runs)


MADE = {
    "silo": Made(
        horizon=None,
        deciders=1,
        family=Gains(-1.0, 1.0),
        separate=True,
        further=frozenset({PUBLIC_SIDE}),
        own_expert=True,
    ),
    "gains": Made(family=Gains(-1.0, 1.0)),
    "learner": Made(family=SquaredError(), plays="point", composition="shifts"),
    "population": Made(clients=1000, separate=True, further=frozenset({PUBLIC_REPORTERS})),
    "persons": Made(family=SquaredError(), plays="point", about=Person(2, 2)),
    "sites": Made(family=SquaredError(), plays="point", about=Client(), trust="central"),
}
