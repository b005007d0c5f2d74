"""The protocol carries what is coming: several exchanges at one time step, deciders that are not
the reporters, adaptive
adversaries, and learners that play points against convex losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.contracts.agreement import same, survives
from hedgerow.contracts.outcome import BrokenContract
from hedgerow.core.block import Block
from hedgerow.core.certificate import Channel, not_private
from hedgerow.core.convex import SquaredError
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.limits import Broadcasts, Uploads
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, Context
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Everything
from hedgerow.engines.loop import EXCHANGES_AT_ONCE
from hedgerow.engines.simulate import simulate
from hedgerow.environments.hard.adaptive import PlayChasing
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import Recorder

CHANNELS = {
    "Value.value": Channel.UPLOADS,
    "Number.value": Channel.BROADCASTS,
    "Number.rounds": Channel.TIMING,
}
CERTIFICATE = not_private("a test fixture", CHANNELS)


@dataclass(frozen=True)
class Value(Upload):
    value: np.ndarray


@dataclass(frozen=True)
class Number(Broadcast):
    value: np.ndarray


@dataclass(frozen=True)
class Vector:
    value: np.ndarray


def _run(
    algorithm: Algorithm, environment: Any, seed: int = 0, **options: Any
) -> tuple[np.ndarray, list[Any], Any]:
    everything = Everything()
    counters = simulate(algorithm, environment, seed, sinks=[everything], **options)
    return everything.all_plays(), everything.messages, counters


def _same_everywhere(
    algorithm: Algorithm, environment: Any, **options: Any
) -> tuple[np.ndarray, list[Any], Any]:
    """The run, after checking that engines and blocks agree, and that all states can be saved."""
    plays, messages, counters = _run(algorithm, environment, **options)
    for engine, block in (("in_process", None), ("vectorised", 1), ("in_process", 3)):
        other = _run(algorithm, environment, engine=engine, block_rounds=block, **options)
        assert np.array_equal(plays, other[0])
        assert same(messages, other[1])
        assert counters == other[2]
    survives(algorithm, environment)
    return plays, messages, counters


# Several exchanges at one time step: a power iteration of three exchanges before each phase of five
# rounds.


@dataclass(frozen=True)
class Phased:
    """A client that answers with its last report plus what it was told: so every exchange depends
    on the one before.
    """

    state: ClassVar[type[Any]] = Vector

    experts: int

    def start(self, noise: Noise) -> Vector:
        return Vector(np.zeros((*noise.batch, self.experts)))

    def receive(self, state: Vector, broadcast: Number) -> Vector:
        return Vector(state.value + broadcast.value)

    def play(self, state: Vector, context: Context, noise: Noise) -> tuple[np.ndarray, Vector]:
        return np.argmin(state.value, axis=-1), state

    def observe(self, state: Vector, reports: np.ndarray, noise: Noise) -> Vector:
        return Vector(reports)

    def upload(self, state: Vector, noise: Noise) -> tuple[Value, Vector]:
        return Value(state.value), state


@dataclass(frozen=True)
class Count:
    exchanges: int


@dataclass(frozen=True)
class ThreeTimes:
    state: ClassVar[type[Any]] = Count

    experts: int
    stuck: bool = False

    def open(self, noise: Noise) -> tuple[Number, Count]:
        return Number(5, np.zeros(self.experts)), Count(0)

    def aggregate(self, state: Count, uploads: Value, noise: Noise) -> tuple[Number, Count]:
        made = state.exchanges + 1
        last = made % 3 == 0 and not self.stuck
        return Number(5 if last else 0, uploads.value), Count(made)


def _phased(setting: Setting, stuck: bool = False) -> Algorithm:
    return Algorithm(
        "phased",
        setting,
        Phased(setting.experts),
        ThreeTimes(setting.experts, stuck),
        CERTIFICATE,
        uploads=Uploads(Value),
        broadcasts=Broadcasts(Number),
    )


def test_several_exchanges_at_one_time_step() -> None:
    environment = RecordedArray(np.random.default_rng(0).random((17, 3, 4)))
    _, messages, counters = _same_everywhere(_phased(environment.setting), environment)
    assert [when for when, _, _ in messages] == [5, 5, 5, 10, 10, 10, 15, 15, 15]
    assert [broadcast.rounds for _, _, broadcast in messages] == [0, 0, 5] * 3
    assert counters.exchanged == 9
    first, second = messages[0][1].value, messages[1][1].value
    assert np.array_equal(
        second, first + first.sum(axis=0)
    )  # the second upload answers the first broadcast


def test_an_algorithm_that_never_plays_is_stopped() -> None:
    environment = RecordedArray(np.zeros((6, 1, 2)))
    with pytest.raises(
        InvalidValue, match=f"requested {EXCHANGES_AT_ONCE + 1} exchanges without playing a round"
    ):
        simulate(_phased(environment.setting, stuck=True), environment, 0)


# A silo: each of four clients owns one coordinate and only reports; two deciders are charged and
# see broadcasts only.


@dataclass(frozen=True)
class Reporter:
    """Reports its own column; never plays."""

    state: ClassVar[type[Any]] = Vector

    def start(self, noise: Noise) -> Vector:
        return Vector(np.zeros((*noise.batch, 1)))

    def receive(self, state: Vector, broadcast: Number) -> Vector:
        return Vector(np.zeros_like(state.value))

    def play(self, state: Vector, context: Context, noise: Noise) -> tuple[np.ndarray, Vector]:
        raise AssertionError("a reporter was asked to play")

    def observe(self, state: Vector, reports: np.ndarray, noise: Noise) -> Vector:
        return Vector(state.value + reports)

    def upload(self, state: Vector, noise: Noise) -> tuple[Value, Vector]:
        return Value(state.value), state


@dataclass(frozen=True)
class Listener:
    """Plays the best expert of the last broadcast."""

    state: ClassVar[type[Any]] = Vector

    experts: int

    def start(self, noise: Noise) -> Vector:
        return Vector(np.zeros((*noise.batch, self.experts)))

    def receive(self, state: Vector, broadcast: Number) -> Vector:
        return Vector(np.broadcast_to(broadcast.value, state.value.shape))

    def play(self, state: Vector, context: Context, noise: Noise) -> tuple[np.ndarray, Vector]:
        return np.argmin(state.value, axis=-1), state


@dataclass(frozen=True)
class Columns:
    """Each upload is one expert's loss: the server needs them one by one, not their sum."""

    state: ClassVar[type[Any]] = Vector

    experts: int

    def open(self, noise: Noise) -> tuple[Number, Vector]:
        zeros = np.zeros(self.experts)
        return Number(2, zeros), Vector(zeros)

    def aggregate(self, state: Vector, uploads: Value, noise: Noise) -> tuple[Number, Vector]:
        totals = state.value + uploads.value[:, 0]
        return Number(2, totals), Vector(totals)


@dataclass(frozen=True)
class Silo(Environment):
    """Two deciders charged by the same vector, whose coordinates belong to four clients."""

    vectors: np.ndarray

    @property
    def setting(self) -> Setting:
        return Setting(clients=4, experts=4, horizon=len(self.vectors), deciders=2)

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        part = self.vectors[state : state + rounds]
        return Block(
            np.repeat(part[:, None, :], 2, axis=1), np.ascontiguousarray(part[:, :, None])
        ), state + rounds


def test_deciders_that_are_not_the_reporters() -> None:
    vectors = round_to_lattice(np.random.default_rng(1).random((21, 4)))
    environment = Silo(vectors)
    setting = environment.setting
    algorithm = Algorithm(
        "silo",
        setting,
        Reporter(),
        Columns(4),
        CERTIFICATE,
        uploads=Uploads(Value, combine="each"),
        broadcasts=Broadcasts(Number),
        decider=Listener(4),
    )
    plays, messages, counters = _same_everywhere(algorithm, environment)
    assert plays.shape == (21, 2)
    assert messages[0][1].value.shape == (4, 1)
    for t in range(2, 21):
        assert plays[t].tolist() == [vectors[: t - t % 2].sum(axis=0).argmin()] * 2
    assert (
        counters.broadcast_scalars == (counters.exchanged + 1) * 6 * 5
    )  # six listeners, rounds and four totals
    recorder = Recorder(setting)
    result = recorder.result("silo", 0, simulate(algorithm, environment, 0, sinks=[recorder]))
    paid = vectors[np.arange(21), plays[:, 0]].sum()
    assert result.final_regret == pytest.approx(paid - vectors.sum(axis=0).min(), abs=1e-9)


def test_the_sum_of_uploads_is_claimed_only_where_it_is_taken() -> None:
    setting = Silo(np.zeros((5, 4))).setting
    name = next(name for name in CERTIFICATE.channels if name.startswith("Value."))
    claimed = replace(CERTIFICATE, channels={**CERTIFICATE.channels, name: Channel.SUM})
    given = ("silo", setting, Reporter(), Columns(4), claimed)
    rest = (Broadcasts(Number), Listener(4))
    assert Algorithm(*given, Uploads(Value), *rest).uploads.combine == "sum"
    with pytest.raises(
        InvalidValue, match=r"only the sum of Value\.value is seen, but combine='each'"
    ):
        Algorithm(*given, Uploads(Value, combine="each"), *rest)


@dataclass(frozen=True)
class Tired(Listener):
    """Its state is another one after the first play."""

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[np.ndarray, Any]:
        return super().play(state, context, noise)[0], Value(state.value)


def test_the_state_of_a_decider_is_the_declared_one() -> None:
    environment = Silo(np.zeros((5, 4)))
    algorithm = Algorithm(
        "tired",
        environment.setting,
        Reporter(),
        Columns(4),
        CERTIFICATE,
        uploads=Uploads(Value, combine="each"),
        broadcasts=Broadcasts(Number),
        decider=Tired(4),
    )
    with pytest.raises(BrokenContract, match=r"Tired declares Vector .* after play is Value"):
        survives(algorithm, environment)


# An adaptive adversary: it sees the plays of every engine one round later, whatever the block size.


def test_adaptive_adversary_sees_every_play() -> None:
    from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader

    environment = PlayChasing(clients=3, experts=5, horizon=40)
    plays, _, _ = _same_everywhere(FollowTheLeader().build(environment.setting), environment)
    recorder = Recorder(environment.setting, points=40)
    algorithm = FollowTheLeader().build(environment.setting)
    result = recorder.result("", 0, simulate(algorithm, environment, 0, sinks=[recorder]))
    charged = (plays[1:] == plays[:-1]).mean(axis=1).sum()
    assert result.loss[-1] == pytest.approx(charged)
    assert result.switches > 0


# Points and convex losses: online gradient descent on squared errors.


@dataclass(frozen=True)
class Descent:
    """z <- z - rate * gradient of the last record; the play is the point z."""

    state: ClassVar[type[Any]] = Vector

    width: int
    family: SquaredError
    rate: float = 0.5

    def start(self, noise: Noise) -> Vector:
        return Vector(np.zeros((*noise.batch, self.width)))

    def receive(self, state: Vector, broadcast: Broadcast) -> Vector:
        return state

    def play(self, state: Vector, context: Context, noise: Noise) -> tuple[np.ndarray, Vector]:
        return state.value, state

    def observe(self, state: Vector, reports: np.ndarray, noise: Noise) -> Vector:
        return Vector(state.value - self.rate * self.family.gradient(reports, state.value))

    def upload(self, state: Vector, noise: Noise) -> tuple[Value, Vector]:
        return Value(state.value), state


@dataclass(frozen=True)
class Quiet:
    state: ClassVar[type[Any]] = Count

    def open(self, noise: Noise) -> tuple[Number, Count]:
        return Number(None, np.zeros(1)), Count(0)

    def aggregate(self, state: Count, uploads: Value, noise: Noise) -> tuple[Number, Count]:
        raise AssertionError("a quiet server was sent something")


@dataclass(frozen=True)
class Regression(Environment):
    records: np.ndarray

    @property
    def setting(self) -> Setting:
        rounds, clients, width = self.records.shape
        return Setting(clients, width - 1, rounds, family=SquaredError())

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        return Block.of(self.records[state : state + rounds]), state + rounds


def test_points_and_convex_losses() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(200, 2, 3))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    truth = np.array([0.5, -0.3, 0.1])
    environment = Regression(np.concatenate([features, features @ truth[:, None]], axis=-1))
    setting = environment.setting
    algorithm = Algorithm(
        "descent",
        setting,
        Descent(3, SquaredError()),
        Quiet(),
        CERTIFICATE,
        uploads=Uploads(Value),
        broadcasts=Broadcasts(Number),
        plays="point",
    )
    plays, _, _ = _same_everywhere(algorithm, environment)
    assert np.allclose(plays[-1], truth, atol=1e-3)
    recorder = Recorder(setting)
    result = recorder.result("", 0, simulate(algorithm, environment, 0, sinks=[recorder]))
    # the truth fits every record, so the best point pays nothing
    assert result.final_regret == pytest.approx(result.loss[-1], rel=1e-9)
    assert 0 < result.regret_error < 1e-6
    assert result.loss[-1] == pytest.approx(
        environment.family.value(environment.records, plays).sum() / 2
    )
    with pytest.raises(Unsupported, match="chooses experts"):
        simulate(replace(algorithm, plays="expert"), environment, 0)


def test_a_fast_path_serves_only_the_roles_it_was_made_for() -> None:
    algorithm = FollowTheLeader().build(Setting(2, 3, 4))
    assert algorithm.fast_path is algorithm.shortcuts.advance is not None
    roles: tuple[Any, Any] = (algorithm.client, algorithm.server)
    client, server = (replace(role) for role in roles)
    assert replace(algorithm, client=client).fast_path is None
    assert replace(algorithm, server=server).fast_path is None
    dartboard = ShrinkingDartboard().build(Setting(2, 3, 40))
    assert dartboard.fast_path is not None  # a method of the server itself
