"""Fine-tune a pretrained Equinox model on streams of clients: only small adapters are trained.

    pip install "hedgerow[learning]" equinox
    python examples/adapters.py

A small network is first trained on public data of one kind. Its weights then stay as they are, and
what clients train together, privately, is a low-rank correction of each layer (an adapter): a fifth
of the weights, so less noise. Data are made here. This is a simulation; for real data see
docs/learning.md.
"""

import sys

import jax
import numpy as np

import hedgerow as hr

try:
    import equinox as eqx
except ImportError:
    sys.exit("This example needs Equinox: pip install equinox")

FEATURES, HIDDEN, CLASSES, RANK = 20, 64, 4, 2
rng = np.random.default_rng(0)
centres = rng.normal(size=(CLASSES, FEATURES))
axes, upper = np.linalg.qr(np.eye(FEATURES) + 0.4 * rng.normal(size=(FEATURES, FEATURES)))
turn = axes * np.sign(np.diag(upper))


def drawn(count, turned):  # clients see the public problem in other coordinates
    labels = rng.integers(0, CLASSES, count)
    rows = centres[labels] + rng.normal(size=(count, FEATURES))
    return (rows @ turn if turned else rows) / 6, labels.astype(float)


def error(scores, label):
    return jax.nn.logsumexp(scores) - scores[label]


# 1. public: plain gradient descent
rows, labels = drawn(2000, turned=False)
kinds = labels.astype(int)


@eqx.filter_jit
@eqx.filter_grad
def slope(network):
    return jax.vmap(lambda x, y: error(network(x), y))(rows, kinds).mean()


network = eqx.nn.MLP(
    FEATURES, CLASSES, HIDDEN, 1, jax.nn.tanh, use_bias=False, key=jax.random.key(0)
)
for _ in range(300):
    network = eqx.apply_updates(network, jax.tree.map(lambda g: -g, slope(network)))


# 2. private: adapters on the streams of ten clients; they begin as no correction at all
def matrices(network):
    return [layer.weight for layer in network.layers]


def adapted(adapters, features):
    corrected = [w + a @ b for w, (a, b) in zip(matrices(network), adapters, strict=True)]
    return eqx.tree_at(matrices, network, corrected)(features)


def loss(adapters, pair):
    features, label = pair
    return error(adapted(adapters, features), label)


adapters = [
    (np.zeros((out, RANK), np.float32), np.float32(rng.normal(size=(RANK, into)) / np.sqrt(into)))
    for out, into in (w.shape for w in matrices(network))
]
model = hr.Model(loss, adapters, features=(FEATURES,), classes=CLASSES, scores=adapted)
test = drawn(1000, turned=True)
game = hr.ClientData([drawn(1000, turned=True) for _ in range(10)], model, examples=5, test=test)
private = hr.OnlineSGD(epsilon=2.0, delta=1e-5, step=1.0, average=0.95)
study = hr.run(game, {"adapters, private": private}, seeds=1)
before = model.right(np.column_stack(test), model.start).mean()
after = study["adapters, private"].results[0].figures["test accuracy"][-1]
print(f"{model.weights} of {sum(w.size for w in matrices(network))} weights are trained")
print(f"test accuracy: pretrained {before:.2f}, with private adapters {after:.2f}")
print(study["adapters, private"].certificate.server.words())
