"""Benchmarks of online SGD: the engine against a bare loop in JAX that trains the same model.

The bare loop calls one compiled function in every round. It draws the same amount of noise,
correlates it by the same few buffers, and computes the loss of the round. It checks nothing, keeps
no state of the learners and has no messages. The search for the best point is not counted: it is
done once, after the game.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hedgerow.algorithms.learning.models import convolutional
from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.algorithms.learning.rounds import charge
from hedgerow.core.batch import Batch
from hedgerow.core.convex import Logistic
from hedgerow.core.extras import need_jax
from hedgerow.core.lattice import Array
from hedgerow.core.model import Model
from hedgerow.core.replay import Replay
from hedgerow.engines.simulate import simulate
from hedgerow.evaluation.benchmark import Benchmark, Row
from hedgerow.evaluation.recorder import Recorder
from hedgerow.running_sums.buffered import BufferedToeplitz
from hedgerow_benchmarks.measure import in_turn

LOOP = "a bare compiled loop over rounds"
SCAN = "one lax.scan over all rounds"


def logistic(rounds: int, clients: int, size: int, width: int) -> Replay:
    """Random examples for logistic regression."""
    rng = np.random.default_rng(0)
    records = rng.normal(size=(rounds, clients, size, width + 1))
    records[..., :-1] /= np.linalg.norm(records[..., :-1], axis=-1, keepdims=True)
    records[..., -1] = np.where(records[..., 0] + 0.1 * records[..., -1] > 0, 1.0, -1.0)
    family = Batch(Logistic(radius=50.0), size)
    return Replay(records.reshape(rounds, clients, -1), family)


def images(rounds: int, clients: int, size: int, model: Model) -> Replay:
    """Random images for a network."""
    rng = np.random.default_rng(0)
    records = rng.random((rounds, clients, size, 785))
    records[..., -1] = rng.integers(0, 10, (rounds, clients, size))
    return Replay(records.reshape(rounds, clients, -1), Batch(model, size))


def engine(game: Replay, step: float) -> Callable[[], object]:
    """Return a whole game: checks, protocol, noise, training, and the losses of all rounds."""
    algorithm = OnlineSGD(step=step).build(game.setting)

    def work() -> object:
        recorder = Recorder(game.setting)
        simulate(algorithm, game, 1, sinks=[recorder])
        return recorder

    return work


class BareLoop:
    """The same training without a protocol."""

    def __init__(self, game: Replay, step: float) -> None:
        jax, setting, family = need_jax(), game.setting, game.setting.family
        assert isinstance(family, Batch)
        jnp, self.jax, self.clients = jax.numpy, jax, setting.clients
        shape = (setting.rounds, setting.clients * family.size, -1)
        self.examples = game.records.reshape(shape).astype(np.float32)
        built = OnlineSGD(step=step).build(setting)
        server: Any = built.server
        self.scale = built.certificate.mechanisms[0].noise_scale() or 0.0
        factors = BufferedToeplitz.optimised(setting.rounds)
        ratios, weights = (x.astype(np.float32) for x in _decoding(factors))
        loss, clip = charge(family.of, setting.experts), built.parameters["clip"]
        self.first, rate = server.first.astype(np.float32), np.float32(server.rate)
        buffers = np.zeros((len(ratios), setting.experts), np.float32)
        self.start = (np.zeros_like(self.first), buffers)

        def one(point: Any, record: Any) -> Any:
            value, found = jax.value_and_grad(loss)(point, record)
            return value, found * jnp.minimum(1.0, clip / jnp.linalg.norm(found))

        def round_(state: Any, given: Any) -> Any:
            (summed, memory), (noise, examples) = state, given
            point = self.first - rate * (summed + weights @ memory)
            losses, found = jax.vmap(one, (None, 0))(point, examples)
            memory = ratios[:, None] * memory + noise
            return (summed + found.sum(axis=0), memory), losses.mean()

        self.round, self.scan = jax.jit(round_), jax.jit(lambda *x: jax.lax.scan(round_, *x))
        self.rng = np.random.default_rng(1)

    def noise(self) -> Array:
        drawn = self.rng.standard_normal((self.clients, len(self.first)))
        return (self.scale * drawn.sum(axis=0)).astype(np.float32)

    def loop(self) -> list[float]:
        state, losses = self.start, []
        for examples in self.examples:
            state, loss = self.round(state, (self.noise(), examples))
            losses.append(loss)
        return self.jax.device_get(losses)

    def at_once(self) -> Array:
        noise = np.stack([self.noise() for _ in self.examples])
        return np.asarray(self.scan(self.start, (noise, self.examples))[1])


def _decoding(factors: BufferedToeplitz) -> tuple[Array, Array]:
    decoder: Any = factors.decoder
    ratios = np.array(decoder.ratios)
    return ratios, np.array(decoder.weights) / ratios


def learning_rows() -> Iterator[Row]:
    """A round of the engine against the bare loop, for logistic regression and two networks.

    The larger one is that of Zhang et al. 2024.
    """
    small, large = convolutional(filters=(8, 8), layers=()), convolutional()
    games = (
        ("learning/logistic/n=20/tau=5/d=100", logistic(1024, 20, 5, 100), 1.0),
        ("learning/network/n=10/tau=5/d=2674", images(128, 10, 5, small), 0.1),
        ("learning/network/n=10/tau=5/d=63242", images(25, 10, 5, large), 0.1),
    )
    for name, game, step in games:
        ours, bare = engine(game, step), BareLoop(game, step)
        for theirs, against, most in ((bare.loop, LOOP, 1.2), (bare.at_once, SCAN, None)):
            ratio, taken = in_turn(ours, theirs, repeats=3)
            each = taken / game.setting.rounds * 1e6
            yield Row(name, ratio, against, each, "us per round", "<=" if most else None, most)


LEARNING = Benchmark(learning_rows)
