"""Networks of Flax are models, where Flax is installed (it brings too much for our requirements)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.core.extras import need_jax

pytest.importorskip("flax")


def _linen() -> tuple[Any, Any]:
    linen: Any = import_module("flax.linen")
    network = linen.Sequential([linen.Dense(8), linen.relu, linen.Dense(2)])
    return network.init(need_jax().random.key(0), np.zeros(4, np.float32)), network.apply


def _nnx() -> tuple[Any, Any]:
    nnx: Any = import_module("flax.nnx")
    rngs = nnx.Rngs(0)
    network = nnx.Sequential(nnx.Linear(4, 8, rngs=rngs), nnx.relu, nnx.Linear(8, 2, rngs=rngs))
    graph, state = nnx.split(network)
    pure = nnx.to_pure_dict(state)

    def apply(params: Any, features: Any) -> Any:
        own = nnx.split(network)[1]
        nnx.replace_by_pure_dict(own, params)
        return nnx.merge(graph, own)(features)

    return pure, apply


@pytest.mark.parametrize("made", [_linen, _nnx])
def test_a_network_of_flax_learns(made: Any) -> None:
    params, scores = made()

    def loss(params: Any, pair: Any) -> Any:
        features, label = pair
        found = scores(params, features)
        return need_jax().nn.logsumexp(found) - found[label]

    model = hr.Model(loss, params, features=(4,), classes=2, scores=scores)
    assert model.weights == 4 * 8 + 8 + 8 * 2 + 2
    rng = np.random.default_rng(0)

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        features = rng.normal(size=(count, 4))
        return features, (features[:, 0] > features[:, 1]).astype(float)

    test = drawn(400)
    game = hr.ClientData([drawn(400) for _ in range(4)], model, examples=5, test=test)
    spec = hr.OnlineSGD(epsilon=50.0, delta=1e-3, step=0.5, average=0.9)
    study = hr.run(game, {"private": spec}, seeds=1)
    before = model.right(np.column_stack(test), model.start).mean()
    after = study["private"].results[0].figures["test accuracy"][-1]
    assert after > max(0.85, before + 0.1)
    assert "epsilon = 50" in study["private"].certificate.server.curve.words()
