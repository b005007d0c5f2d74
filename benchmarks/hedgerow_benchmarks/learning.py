"""Benchmarks of online SGD: the engine against the best that can be done without a protocol.

That is one `lax.scan` over all rounds, which draws as much noise as the sum of the clients has
where it trains, correlates it by the same few buffers, and computes the loss of each round. A CPU
draws the noise before the scan, which is faster there. Where a loss has one score, gradients are
clipped by slope and length of the features and added up by one product. It checks nothing and keeps
nothing. Where jax-privacy is installed, its step for the same network and
noise is compared too. The search for the best point is not counted: it is done once, at the end.

`hedgerow_benchmarks.accelerator` measures the same games on an accelerator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
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
from hedgerow.evaluation.recorder import Recorder
from hedgerow.running_sums.buffered import BufferedToeplitz
from hedgerow_benchmarks.benchmark import Benchmark, Row
from hedgerow_benchmarks.measure import in_turn

SCAN = "one lax.scan with the noise drawn in it"
PEER = "the step of jax-privacy"


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


class BareScan:
    """The same training without a protocol; noise is drawn where it trains."""

    def __init__(self, game: Replay, step: float) -> None:
        jax, setting, family = need_jax(), game.setting, game.setting.family
        assert isinstance(family, Batch)
        jnp, shape = jax.numpy, (setting.rounds, setting.clients * family.size, -1)
        self.examples = jax.device_put(game.records.reshape(shape).astype(np.float32))
        built = OnlineSGD(step=step).build(setting)
        server: Any = built.server
        scale = (built.certificate.mechanisms[0].noise_scale() or 0.0) * setting.clients**0.5
        ratios, weights = (
            x.astype(np.float32) for x in _decoding(BufferedToeplitz.optimised(setting.rounds))
        )
        loss, clip = charge(family.of, setting.experts), built.parameters["clip"]
        ahead, width = jax.default_backend() == "cpu", setting.experts
        first, rate = server.first.astype(np.float32), np.float32(server.rate)
        buffers = np.zeros((len(ratios), setting.experts), np.float32)
        self.start = (np.zeros_like(first), buffers)

        def one(point: Any, record: Any) -> Any:
            value, found = jax.value_and_grad(loss)(point, record)
            return value, found * jnp.minimum(1.0, clip / jnp.linalg.norm(found))

        def formed(point: Any, examples: Any) -> Any:
            losses, found = jax.vmap(one, (None, 0))(point, examples)
            return losses, found.sum(axis=0)

        def product(point: Any, examples: Any) -> Any:  # for logistic regression
            features, labels = examples[:, :width], examples[:, width]
            margins = -labels * (features @ point)
            losses = jnp.logaddexp(0.0, margins)
            slopes = -labels * jnp.exp(margins - losses)
            lengths = jnp.abs(slopes) * jnp.sqrt((features * features).sum(axis=1))
            return losses, slopes * jnp.minimum(1.0, clip / lengths) @ features

        find = product if type(family.of) is Logistic else formed

        def drawn(at: Any) -> Any:
            return jax.random.normal(jax.random.fold_in(jax.random.key(0), at), first.shape)

        def round_(state: Any, given: Any) -> Any:
            (summed, memory), (at, examples) = state, given
            noise = scale * (at if ahead else drawn(at))
            point = first - rate * (summed + weights @ memory)
            losses, found = find(point, examples)
            memory = ratios[:, None] * memory + noise
            return (summed + found, memory), losses.mean()

        def all_of(start: Any, rounds: Any, examples: Any) -> Any:
            at = jax.vmap(drawn)(rounds) if ahead else rounds
            return jax.lax.scan(round_, start, (at, examples))[1]

        self.scan = jax.jit(all_of)
        self.rounds = np.arange(setting.rounds)

    def __call__(self) -> Array:
        return np.asarray(self.scan(self.start, self.rounds, self.examples))


class Peer:
    """The step of jax-privacy for a network: clipped gradients, BLT noise and plain SGD.

    `loop` calls the compiled step in every round, `scan` has all rounds in one. It protects with
    central noise, and clips without a lattice.
    """

    def __init__(self, game: Replay, step: float) -> None:
        jax, model = need_jax(), game.setting.family.of  # pyright: ignore
        peer, optax = import_module("jax_privacy"), import_module("optax")
        blt = import_module("jax_privacy.matrix_factorization.buffered_toeplitz")
        factors = BufferedToeplitz.optimised(game.setting.rounds)
        rows = game.records.reshape(game.setting.rounds, -1, model.record_width(0))
        rows = rows.astype(np.float32)
        features = jax.device_put(rows[..., :-1].reshape(*rows.shape[:2], *model.features))
        self.given = features, jax.device_put(rows[..., -1].astype(np.int32))

        def loss(params: Any, one: Any, label: Any) -> Any:
            return model.loss(params, (one[0], label[0]))

        gradient = peer.clipped_grad(
            loss, l2_clip_norm=1.0, batch_argnums=(1, 2), keep_batch_dim=True, return_values=True
        )
        built = blt.BufferedToeplitz.build(
            np.asarray(factors.poles), np.asarray(factors.weights), dtype=np.float32
        )
        noise = peer.noise_addition.matrix_factorization_privatizer(
            built.inverse_as_streaming_matrix(),
            stddev=1.0,
            prng_key=jax.random.key(0),
            dtype=np.float32,
        )
        sgd = optax.sgd(step / rows.shape[1])

        def one(state: Any, given: Any) -> Any:
            params, noisy, moved = state
            found, aux = gradient(params, *given)
            found, noisy = noise.update(found, noisy)
            update, moved = sgd.update(found, moved)
            params = jax.tree.map(lambda a, b: (a + b).astype(np.float32), params, update)
            return (params, noisy, moved), aux.values.mean()

        params = jax.tree.map(jax.numpy.asarray, model.params)
        self.start = params, noise.init(params), sgd.init(params)
        self.step, self.all = jax.jit(one), jax.jit(lambda *x: jax.lax.scan(one, *x)[1])

    def loop(self) -> Array:
        state, losses = self.start, []
        for given in zip(*self.given, strict=True):
            state, loss = self.step(state, given)
            losses.append(loss)
        return np.array(losses)

    def scan(self) -> Array:
        return np.asarray(self.all(self.start, self.given))


def peer(game: Replay, step: float) -> Peer | None:
    """jax-privacy, where it is installed and the model is a network."""
    if find_spec("jax_privacy") is None or not isinstance(game.setting.family.of, Model):  # pyright: ignore
        return None
    return Peer(game, step)


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
        ours, others = engine(game, step), [(BareScan(game, step), SCAN, 1.5)]
        theirs = peer(game, step)
        if theirs is not None:
            others += [(theirs.loop, PEER, None), (theirs.scan, f"{PEER}, in one scan", None)]
        for against, what, most in others:
            ratio, taken = in_turn(ours, against, repeats=3)
            each = taken / game.setting.rounds * 1e6
            yield Row(name, ratio, what, each, "us per round", "<=" if most else None, most)


LEARNING = Benchmark(learning_rows)
