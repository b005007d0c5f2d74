"""Fine-tune a pretrained model on streams of clients: only small adapters are trained, privately.

    pip install "hedgerow[learning]"
    python examples/adapters.py

A small network is first trained on public data of one kind. Its weights then stay as they are, and
what clients train together is a low-rank correction of each layer (an adapter): a fifth of the
weights, so less noise. Data are made here. This is a simulation; for real data see
docs/learning.md.
"""

import jax
import jax.numpy as jnp
import numpy as np

import hedgerow as hr

FEATURES, HIDDEN, CLASSES, RANK = 20, 64, 4, 2
rng = np.random.default_rng(0)
centres = rng.normal(size=(CLASSES, FEATURES))
axes, upper = np.linalg.qr(np.eye(FEATURES) + 0.4 * rng.normal(size=(FEATURES, FEATURES)))
turn = axes * np.sign(np.diag(upper))


def drawn(count, turned):  # clients see the public problem in other coordinates
    labels = rng.integers(0, CLASSES, count)
    rows = centres[labels] + rng.normal(size=(count, FEATURES))
    return (rows @ turn if turned else rows) / 6, labels.astype(float)


def network(weights, features):
    first, second = weights
    return jnp.tanh(features @ first) @ second


def error(scores, label):
    return jax.nn.logsumexp(scores) - scores[label]


# 1. public: plain gradient descent
rows, labels = drawn(2000, turned=False)
kinds = labels.astype(int)
shapes = ((FEATURES, HIDDEN), (HIDDEN, CLASSES))
frozen = tuple(np.float32(rng.normal(size=shape) / np.sqrt(shape[0])) for shape in shapes)


def mean_error(weights):
    return jax.vmap(lambda x, y: error(network(weights, x), y))(rows, kinds).mean()


slope = jax.jit(jax.grad(mean_error))
for _ in range(300):
    frozen = tuple(np.asarray(w - g) for w, g in zip(frozen, slope(frozen), strict=True))


# 2. private: adapters on the streams of ten clients; they begin as no correction at all
def adapted(adapters, features):
    return network([w + a @ b for w, (a, b) in zip(frozen, adapters, strict=True)], features)


def loss(adapters, pair):
    features, label = pair
    return error(adapted(adapters, features), label)


adapters = [
    (np.float32(rng.normal(size=(a, RANK)) / np.sqrt(a)), np.zeros((RANK, b), np.float32))
    for a, b in shapes
]
model = hr.Model(loss, adapters, features=(FEATURES,), classes=CLASSES, scores=adapted)
test = drawn(1000, turned=True)
game = hr.ClientData([drawn(1000, turned=True) for _ in range(10)], model, examples=5, test=test)
private = hr.OnlineSGD(epsilon=2.0, delta=1e-5, step=1.0, average=0.95)
study = hr.run(game, {"adapters, private": private}, seeds=1)
before = model.right(np.column_stack(test), model.start).mean()
after = study["adapters, private"].results[0].figures["test accuracy"][-1]
print(f"{model.weights} of {sum(w.size for w in frozen)} weights are trained")
print(f"test accuracy: pretrained {before:.2f}, with private adapters {after:.2f}")
print(study["adapters, private"].certificate.server.words())
