"""Learning on an accelerator, by `python -m hedgerow_benchmarks.accelerator`.

It prints JSON with the device, versions, the commit, the date and one row for each game: the engine
with a recorder, the compiled game alone, eight seeds by `vmap` (for each seed), one scan with the
noise drawn in it, and the step of jax-privacy where it is installed. Times are medians of wall
clock times after a warm-up, because a device has no processor time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import hedgerow
from hedgerow.algorithms.learning import resident
from hedgerow.algorithms.learning.models import convolutional
from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.algorithms.learning.rounds import Precision
from hedgerow.core.batch import Batch
from hedgerow.core.extras import need_jax
from hedgerow.core.model import Model
from hedgerow.core.noise import SeededNoise
from hedgerow.core.replay import Replay
from hedgerow.records.provenance import code_provenance
from hedgerow_benchmarks.learning import BareScan, engine, images, logistic, peer

SEEDS = 8


def microseconds(work: Callable[[], Any], rounds: int, repeats: int = 3) -> float:
    """The median time of a round."""
    jax, taken = need_jax(), []
    jax.block_until_ready(work())
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(work())
        taken.append(time.perf_counter() - start)
    return round(median(taken) / rounds * 1e6, 1)


class Alone:
    """The compiled game without an engine, for one seed or several."""

    def __init__(self, game: Replay, step: float, precision: Precision = "24 bits") -> None:
        jax, self.rounds, self.step = need_jax(), game.setting.rounds, step
        self.built: Any = OnlineSGD(step=step).build(game.setting).shortcuts.resident
        begun = self.built.begin([[self.built]], [SeededNoise(0)], self.rounds)
        self.form, self.table = replace(begun.form, precision=precision), begun.table
        self.numbers = jax.device_put(begun.numbers)
        records = game.records.astype(np.float32)
        shape = (self.rounds, self.form.examples, records.shape[-1] // self.form.size)
        self.examples = jax.device_put(records.reshape(shape))
        self.play = resident.compiled(self.form, True)

    def __call__(self) -> Any:
        carry = resident.opening(self.form)
        return self.play(self.numbers, self.table, carry, 0, self.rounds, self.examples)[1]

    def seeds(self) -> Callable[[], Any]:
        """Eight seeds, each with other noise and another order of the examples."""
        jax = need_jax()
        order = [np.random.default_rng(k).permutation(self.rounds) for k in range(SEEDS)]
        examples = jax.device_put(np.stack([np.asarray(self.examples)[o] for o in order]))
        begun = self.built.begin(
            [[self.built]] * SEEDS, [SeededNoise(k) for k in range(SEEDS)], self.rounds
        )
        numbers, play = jax.device_put(begun.numbers), resident.compiled(self.form, True, True)

        def work() -> Any:
            carry = resident.opening(self.form, SEEDS, 1)
            return play(numbers, begun.table, carry, 0, self.rounds, examples)[1]

        return work


def study(game: Replay, step: float) -> object:
    """A study of eight seeds, with all that it records."""
    return hedgerow.run(game, {"BLT": OnlineSGD(step=step)}, seeds=SEEDS, progress=False)


def transformer(vocabulary: int, width: int, layers: int, heads: int, length: int) -> Model:
    """A transformer that predicts the next of `length` tokens."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> Any:
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)

    block = {"q": 1, "k": 1, "v": 1, "o": 1}
    params = {
        "tokens": drawn(vocabulary, width),
        "places": drawn(length, width),
        "scores": drawn(width, vocabulary),
        "blocks": [
            {
                **{name: drawn(width, width) for name in block},
                "up": drawn(width, 4 * width),
                "down": drawn(4 * width, width),
            }
            for _ in range(layers)
        ],
    }

    def loss(params: Any, pair: Any) -> Any:
        jax = need_jax()
        jnp, tokens = jax.numpy, pair[0].astype(np.int32)
        seen, coming = tokens[:-1], tokens[1:]
        found = params["tokens"][seen] + params["places"]
        causal = jnp.tril(jnp.ones((length, length), bool))
        for own in params["blocks"]:
            x = _normed(found)
            q, k, v = (
                (x @ own[name]).reshape(length, heads, -1).swapaxes(0, 1)
                for name in ("q", "k", "v")
            )
            scores = q @ k.swapaxes(1, 2) / np.sqrt(width / heads)
            mixed = jax.nn.softmax(jnp.where(causal, scores, -1e9)) @ v
            found = found + mixed.swapaxes(0, 1).reshape(length, width) @ own["o"]
            found = found + jax.nn.gelu(_normed(found) @ own["up"]) @ own["down"]
        scores = _normed(found) @ params["scores"]
        right = jnp.take_along_axis(scores, coming[:, None], axis=1)[:, 0]
        return (jax.nn.logsumexp(scores, axis=1) - right).mean()

    return Model(loss, params, features=(length + 1,))


def _normed(x: Any) -> Any:
    x = x - x.mean(axis=-1, keepdims=True)
    return x * need_jax().lax.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def tokens(rounds: int, model: Model, vocabulary: int) -> Replay:
    """Random tokens of ten clients with five texts each."""
    rng = np.random.default_rng(0)
    records = rng.integers(0, vocabulary, (rounds, 10, 5, model.record_width(0))).astype(float)
    return Replay(records.reshape(rounds, 10, -1), Batch(model, 5))


def rows() -> Iterator[dict[str, Any]]:
    """One row for each game."""
    games = (
        ("logistic, 100 weights", lambda: logistic(1024, 20, 5, 100), 1.0),
        ("network, 2,674", lambda: images(256, 10, 5, convolutional((8, 8), ())), 0.1),
        ("network of Zhang et al., 63,242", lambda: images(212, 10, 5, convolutional()), 0.1),
        ("network, 843,658", lambda: images(106, 10, 5, convolutional((32, 64), (512,))), 0.1),
    )
    for name, make, step in games:
        game = make()
        rounds, alone = game.setting.rounds, Alone(game, step)
        began = time.perf_counter()
        need_jax().block_until_ready(alone())
        row: dict[str, Any] = {"game": name, "compiling": round(time.perf_counter() - began, 1)}
        row["engine"] = microseconds(engine(game, step), rounds)
        row["study of eight seeds, each"] = round(
            microseconds(partial(study, game, step), rounds) / SEEDS, 1
        )
        row["game alone"] = microseconds(alone, rounds)
        row["with the device's products"] = microseconds(Alone(game, step, "device"), rounds)
        row["eight seeds, each"] = round(microseconds(alone.seeds(), rounds) / SEEDS, 1)
        row["scan"] = microseconds(BareScan(game, step), rounds)
        theirs = peer(game, step)
        if theirs is not None:
            row["jax-privacy"] = microseconds(theirs.loop, rounds)
            row["jax-privacy in a scan"] = microseconds(theirs.scan, rounds)
        yield row
    model = transformer(1024, 512, 6, 8, 128)
    game = tokens(12, model, 1024)
    row = {"game": f"transformer, {model.weights:,}"}
    row["game alone"] = microseconds(Alone(game, 0.01), 12)
    row["with the device's products"] = microseconds(Alone(game, 0.01, "device"), 12)
    yield {**row, "engine": microseconds(engine(game, 0.01), 12)}


def main() -> None:
    jax = need_jax()
    page = {
        "device": jax.devices()[0].device_kind,
        "versions": {"hedgerow": hedgerow.__version__, "jax": jax.__version__},
        "commit": code_provenance().commit,
        "date": datetime.now(UTC).date().isoformat(),
        "unit": "microseconds per round",
        "rows": [],
    }
    for row in rows():
        sys.stderr.write(f"{row}\n")
        page["rows"].append(row)
    sys.stdout.write(json.dumps(page, indent=1) + "\n")


if __name__ == "__main__":
    main()
