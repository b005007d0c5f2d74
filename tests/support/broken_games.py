"""Versions of the algorithms without experts that each break one contract."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.block import Side
from hedgerow.core.certificate import Channel, Observer
from hedgerow.core.games import Games
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Algorithm, Context, RunState, Trace
from hedgerow.core.replay import Replay
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything, Plays
from hedgerow.core.units import Client, Person, Unit
from hedgerow.engines.loop import Engine
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.mechanisms import GaussianNoise, KNorm
from support import points, population, silo
from support.followers import Decider, Leader, Told
from support.planted import certified, claiming, promising, shortcut
from support.points import Correlated
from support.population import Population
from support.silo import Silo

MOVES, SITE = Person(2, 2), Client()


@dataclass(frozen=True)
class PaysForOneStay(Silo):
    """Promises a patient with two stays what holds for one."""

    about: Unit = MOVES

    def curve(self) -> GaussianDP:
        return GaussianDP(self.mu)


@dataclass(frozen=True)
class SecretSide(Silo):
    """Calls the beds that are still free public."""

    def games(self) -> Games:
        def recorded(stream: silo.Stream) -> Replay:
            side = np.stack([stream.beds, stream.beds - stream.taken], axis=-1)
            game = stream.game()
            return Replay(game.records, reports=game.reports, side=side)

        return replace(super().games(), recorded=recorded)


@dataclass(frozen=True)
class PeekingDecider(Silo):
    """Its fast path sends patients to the emptiest hospital of the day, which is still secret."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = super().resolve(setting)

        def advance(run: RunState, block: Any, source: NoiseSource) -> tuple[RunState, Trace]:
            after = replace(run, round=run.round + block.rounds)
            return after, Trace(block.losses.argmin(axis=2), block.rounds)

        return shortcut(honest, advance=advance)


@dataclass(frozen=True)
class KnowsTheEnd(Silo):
    """Needs no horizon, it says, but exchanges less often where it knows one."""

    def resolve(self, setting: Setting) -> Algorithm:
        every = 1 if setting.horizon is None else 2
        server = silo.Adding(setting.experts, every)
        built = super().resolve(setting)
        return replace(built, server=server, broadcasts=replace(built.broadcasts, limits={}))


@dataclass(frozen=True)
class HidesStart(Silo):
    """Does not declare its start noise."""

    def resolve(self, setting: Setting) -> Algorithm:
        return claiming(super().resolve(setting), free_noise=frozenset())


@dataclass(frozen=True)
class CallsAllNoiseFree(Silo):
    """Declares the noise that protects as noise that does not."""

    def resolve(self, setting: Setting) -> Algorithm:
        return claiming(super().resolve(setting), free_noise=frozenset({"start", "report"}))


@dataclass(frozen=True)
class FreelyHiding(silo.Hospital):
    """Hides every other patient with noise beside the mechanism."""

    def upload(
        self, state: silo.HospitalState, noise: Noise
    ) -> tuple[silo.Report, silo.HospitalState]:
        honest, after = super().upload(state, noise)
        free = state.taken + noise.draw("gaussian", "start", (1,), scale=self.noise.scale)
        return silo.Report(honest.share + free / state.beds), after


@dataclass(frozen=True)
class FreeNoiseProtects(Silo):
    """Relies on noise that it declares as free."""

    def resolve(self, setting: Setting) -> Algorithm:
        return replace(super().resolve(setting), client=FreelyHiding(self.noise()))


@dataclass(frozen=True)
class TellingCoins(points.Correlating):
    """Adds a coin to its point, whose law depends on the gradients."""

    method: str = "index"

    def coin(self, gradient: np.ndarray, noise: Noise) -> float:
        secret = bool(gradient.sum() < 0)
        if self.method == "index":
            return noise.index(2 if secret else 10**6, "start")
        if self.method == "choose":
            return noise.choose("gumbel", gradient - gradient.min(), 1e6, "start")
        if self.method == "flip":
            return noise.flip(max(0.0, float(gradient.sum())), 1e6, "start")
        return float(noise.draw(self.method, "start", (), scale=1e-3 if secret else 1.0))

    def aggregate(
        self, state: points.ServerState, uploads: points.Gradient, noise: Noise
    ) -> tuple[points.Point, points.ServerState]:
        honest, after = super().aggregate(state, uploads, noise)
        moved = 1e-9 * self.coin(uploads.gradient, noise) * np.eye(self.width)[0]
        return points.Point(1, self.place(honest.point + moved)), after


@dataclass(frozen=True)
class LawFromData(Correlated):
    """The law of a free coin tells the sign of a secret sum."""

    method: str = "index"

    def resolve(self, setting: Setting) -> Algorithm:
        honest = super().resolve(setting)
        server = TellingCoins(setting.experts, 0.1, self.noise(setting), self.method)
        return claiming(replace(honest, server=server), free_noise=frozenset({"start"}))


@dataclass(frozen=True)
class Flagged(silo.Report):
    flag: np.ndarray


@dataclass(frozen=True)
class SigningZeros(silo.Hospital):
    """Sends zeros, whose signs tell whether the hospital has many patients."""

    def upload(
        self, state: silo.HospitalState, noise: Noise
    ) -> tuple[silo.Report, silo.HospitalState]:
        honest, after = super().upload(state, noise)
        return Flagged(honest.share, np.where(state.taken > 4, -0.0, 0.0)), after


@dataclass(frozen=True)
class SignOfZero(Silo):
    def resolve(self, setting: Setting) -> Algorithm:
        honest = super().resolve(setting)
        others = {n: c for n, c in honest.certificate.channels.items() if n != "Report.share"}
        channels = dict.fromkeys(("Flagged.share", "Flagged.flag"), Channel.UPLOADS)
        return replace(
            honest,
            client=SigningZeros(self.noise()),
            uploads=replace(honest.uploads, kind=Flagged),
            certificate=replace(honest.certificate, channels={**channels, **others}),
        )


@dataclass(frozen=True)
class SumClaim(Silo):
    """Says that the server sees only the sum of reports, but hands it each of them."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest = super().resolve(setting)
        channels = {**honest.certificate.channels, "Report.share": Channel.SUM}
        promised = promising(
            honest,
            lambda g: (
                replace(g, view=g.view - {Channel.UPLOADS} | {Channel.SUM})
                if g.observer is Observer.SERVER
                else g
            ),
        )
        certificate = replace(promised.certificate, channels=channels)
        claimed = replace(
            honest, certificate=certificate, uploads=replace(honest.uploads, combine="sum")
        )
        object.__setattr__(claimed.uploads, "combine", "each")  # past the check of the constructor
        return claimed


@dataclass(frozen=True)
class Overwriting(Decider):
    """Writes the news into the state that it was given."""

    def receive(self, state: Told, broadcast: Leader) -> Told:
        state.expert[...] = broadcast.expert
        return state


@dataclass(frozen=True)
class OverwritesItsState(Silo):
    def resolve(self, setting: Setting) -> Algorithm:
        return replace(super().resolve(setting), decider=Overwriting())


@dataclass(frozen=True)
class LocalStep(points.Learning):
    """Plays its own iterate: the broadcast point, moved by its raw gradient."""

    def play(
        self, state: points.ClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, points.ClientState]:
        return points.FAMILY.domain.project(state.point - 0.1 * state.gradient), state


@dataclass(frozen=True)
class PlaysItsIterate(Correlated):
    def resolve(self, setting: Setting) -> Algorithm:
        return replace(super().resolve(setting), client=LocalStep(setting.experts, points.CLIP))


@dataclass(frozen=True)
class HalfOfCorrelated(Correlated):
    """Half the noise, stated in the mechanism, for the same promise."""

    def noise(self, setting: Setting) -> GaussianNoise:
        return super().noise(setting).scaled(0.5)


@dataclass(frozen=True)
class QuietGaussian(GaussianNoise):
    """States one scale and draws with half of it."""

    def sample(self, value: Any, noise: Noise) -> Any:
        return replace(self, scale=self.scale / 2)._honest(value, noise)

    def _honest(self, value: Any, noise: Noise) -> Any:
        return super().sample(value, noise)


@dataclass(frozen=True)
class SecretlyHalf(Correlated):
    def noise(self, setting: Setting) -> GaussianNoise:
        honest = super().noise(setting)
        return QuietGaussian(honest.purpose, honest.scale, honest.sensitivity)


@dataclass(frozen=True)
class OnePerRelease(Correlated):
    """Counts one release of each record, though it enters all that follow."""

    def noise(self, setting: Setting) -> GaussianNoise:
        return GaussianNoise("gradients", 2 * points.CLIP / self.mu, 2 * points.CLIP)


@dataclass(frozen=True)
class TwoRecords(Correlated):
    """Promises a person with two records what holds for one."""

    def resolve(self, setting: Setting) -> Algorithm:
        return promising(super().resolve(setting), lambda g: replace(g, unit=Person(2)))


@dataclass(frozen=True)
class ShiftsOfAnotherLaw(Correlated):
    """Adds up shifts as if its noise were Gaussian."""

    def resolve(self, setting: Setting) -> Algorithm:
        honest, noise = super().resolve(setting), KNorm("gradients", 10.0, 2 * points.CLIP)
        assert isinstance(honest.server, points.Correlating)
        server = replace(honest.server, noise=noise)
        return certified(replace(honest, server=server), mechanisms=(noise,))


@dataclass(frozen=True)
class OneByOne(points.Correlating):
    """Releases the gradients of each round, added up over clients."""

    def aggregate(
        self, state: points.ServerState, uploads: points.Gradient, noise: Noise
    ) -> tuple[points.Point, points.ServerState]:
        released = state.released.append(noise.release(self.noise, uploads.gradient))
        point = self.place(-self.rate * released.rows.sum(axis=0))
        return points.Point(1, point), replace(state, released=released)


@dataclass(frozen=True)
class TwoInOneRound(OnePerRelease):
    """Charges sqrt(k) for the k records of a person: two of them may be in one round."""

    about: Unit = silo.EVENT
    separate: bool = False

    def resolve(self, setting: Setting) -> Algorithm:
        honest, k = super().resolve(setting), getattr(self.about, "records", 1)
        promised = {"unit": self.about, "curve": GaussianDP(self.mu * k**0.5)}
        server = OneByOne(setting.experts, 0.1, self.noise(setting))
        forged = promising(
            replace(honest, server=server), lambda g: replace(g, **promised) if g.protects else g
        )
        return certified(forged, separate=self.separate, composition="sum")


@dataclass(frozen=True)
class NeverInOneRound(TwoInOneRound):
    """Its pairs do not try two records in one round."""

    def games(self) -> Games:
        games = super().games()

        def pair(rng: np.random.Generator, unit: Unit) -> tuple[Any, Any]:
            return games.pair(rng, Person(2) if isinstance(unit, Person) else unit)

        return replace(games, pair=pair)


@dataclass(frozen=True)
class SlackSeparate(Correlated):
    """Says that records are separate, though they meet in every later release.

    The declared sensitivity leaves room for both, and the noise is as before.
    """

    def noise(self, setting: Setting) -> GaussianNoise:
        return replace(super().noise(setting), sensitivity=8 * points.CLIP)

    def resolve(self, setting: Setting) -> Algorithm:
        return certified(super().resolve(setting), separate=True)


@dataclass(frozen=True)
class Unprojected(points.Correlating):
    def place(self, moved: np.ndarray) -> np.ndarray:
        return 10 * moved


@dataclass(frozen=True)
class LeavesTheBall(Correlated):
    """Plays points outside the domain."""

    def resolve(self, setting: Setting) -> Algorithm:
        server = Unprojected(setting.experts, 0.1, self.noise(setting))
        return replace(super().resolve(setting), server=server)


@dataclass(frozen=True)
class Compiled(Correlated):
    """Has a fast path whose floats differ a little from those of the plain loop, as if compiled."""

    error: float = 1e-12

    def resolve(self, setting: Setting) -> Algorithm:
        honest = super().resolve(setting)

        def advance(run: RunState, block: Any, source: NoiseSource) -> tuple[RunState, Trace]:
            kept = Everything(wants_messages=False)
            after = Engine.vectorised(honest, source, fused=False).advance(run, block, [kept])
            plays = Plays.of(np.ascontiguousarray(kept.all_plays()) * (1 - self.error))
            return after, Trace(plays, after.round - (run.round == 0) - run.round)

        return shortcut(honest, advance=advance)

    def games(self) -> Games:
        return replace(super().games(), tolerance=1e-9)


@dataclass(frozen=True)
class Whispering(population.Client):
    """Keeps its last losses, and adds a little of them to what it sends out of turn."""

    def observe(
        self,
        state: population.ClientState,
        reports: np.ndarray,
        noise: Noise,
        side: Side | None = None,
    ) -> population.ClientState:
        after = super().observe(state, reports, noise, side)
        return replace(after, losses=np.where(after.turn, reports, state.losses))

    def idle(self, state: population.ClientState) -> np.ndarray:
        return state.losses / 1000

    def upload(
        self, state: population.ClientState, noise: Noise
    ) -> tuple[population.Report, population.ClientState]:
        noisy = noise.release(self.noise, np.where(state.turn, state.losses, 0.0))
        return population.Report(np.where(state.turn, noisy, self.idle(state))), state


@dataclass(frozen=True)
class SpeaksOutOfTurn(Population):
    """Clients that do not report send raw losses."""

    def resolve(self, setting: Setting) -> Algorithm:
        client = Whispering(setting.experts, self.noise(setting))
        return replace(super().resolve(setting), client=client)


@dataclass(frozen=True)
class OneReportPerClient(Population):
    """Promises a client that reports many times what holds for one report."""

    about: Unit = SITE

    def turns(self, setting: Setting) -> int:
        return 1


@dataclass(frozen=True)
class TellingTurns(Population):
    """Who reports depends on the losses."""

    def games(self) -> Games:
        def recorded(losses: np.ndarray) -> Replay:
            who = (np.arange(len(losses)) + (losses[:, 0] > 0.5)) % population.SETTING.clients
            turn = np.eye(population.SETTING.clients, dtype=bool)[who]
            reports = losses[:, None, :] * turn[..., None]
            return Replay(losses[:, None, :], reports=reports, reporting=turn)

        return replace(super().games(), recorded=recorded)


BROKEN_GAMES: dict[str, tuple[str, Any]] = {
    "a patient pays for one stay": ("ledger composes", PaysForOneStay()),
    "secret side information": ("public is public", SecretSide()),
    "who reports is secret": ("public is public", TellingTurns()),
    "a decider that peeks": ("causal", PeekingDecider()),
    "knows when the game ends": ("anytime", KnowsTheEnd()),
    "start noise that is not declared": ("noise follows its law", HidesStart()),
    "protective noise that is called free": ("noise follows its law", CallsAllNoiseFree()),
    "free noise that hides data": ("nothing raw in a view", FreeNoiseProtects()),
    "an index with a count from data": ("nothing raw in a view", LawFromData()),
    "a uniform coin with a scale from data": (
        "nothing raw in a view",
        LawFromData(method="uniform"),
    ),
    "free noise with a scale from data": ("nothing raw in a view", LawFromData(method="gaussian")),
    "a choice that is called free": ("noise follows its law", LawFromData(method="choose")),
    "a flip that is called free": ("noise follows its law", LawFromData(method="flip")),
    "the sign of a zero": ("nothing raw in a view", SignOfZero()),
    "a sum that is not taken": ("covers every message", SumClaim()),
    "a decider that overwrites its state": ("pure", OverwritesItsState()),
    "plays an unprotected iterate": ("nothing raw in a view", PlaysItsIterate()),
    "half the noise on correlated releases": ("ledger composes", HalfOfCorrelated()),
    "secretly half the noise on correlated releases": ("noise follows its law", SecretlyHalf()),
    "counts one of many correlated releases": ("ledger composes", OnePerRelease()),
    "two correlated records pay for one": ("ledger composes", TwoRecords()),
    "two records in one sum pay for separate ones": (
        "sensitivities hold",
        TwoInOneRound(about=MOVES),
    ),
    "sums that are called separate": ("sensitivities hold", TwoInOneRound(separate=True)),
    "never tries two records in one round": ("sensitivities hold", NeverInOneRound(about=MOVES)),
    "correlated records that are called separate": ("sensitivities hold", SlackSeparate()),
    "two correlated records pay for separate ones": ("ledger composes", SlackSeparate()),
    "shifts of noise that is not Gaussian": ("ledger composes", ShiftsOfAnotherLaw()),
    "leaves the domain": ("valid plays", LeavesTheBall()),
    "compiled, with large errors": ("same for every block", Compiled(error=1e-6)),
    "speaks out of turn": ("nothing raw in a view", SpeaksOutOfTurn()),
    "one report pays for all of a client": ("ledger composes", OneReportPerClient()),
}
