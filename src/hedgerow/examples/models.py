"""Fitted models of scikit-learn and river as experts: which one to follow is learned privately.

    pip install scikit-learn river
    python examples/models.py

The models are fitted on public data and learn nothing from the records that are protected. This is
a simulation; for real data give `source=hr.SecureNoise()`.
"""

# pyright: reportMissingImports=false
import sys

import numpy as np

import hedgerow as hr

try:
    from river import base, dummy, evaluate, linear_model, metrics, stats
    from sklearn.base import clone
    from sklearn.dummy import DummyRegressor
    from sklearn.linear_model import LinearRegression
except ImportError:
    sys.exit("This example needs both libraries: pip install scikit-learn river")

rng = np.random.default_rng(0)
rows = rng.random((800, 2))
target = rows @ [1.0, 2.0] + 0.1 * rng.normal(size=800)
public, protected = slice(0, 200), slice(200, 800)

# scikit-learn: two clients take turns, so 600 rows are 300 rounds
models = [
    ("mean", DummyRegressor().fit(rows[public], target[public])),
    ("line", LinearRegression().fit(rows[public], target[public])),
]
estimator = hr.ExpertEstimator(
    models, hr.PhasedSelection(epsilon=1.0), horizon=400, clients=2, largest_error=3.0
)
estimator = clone(estimator).fit(rows[protected], target[protected])
followed = estimator.predict(rows[:2]) == models[1][1].predict(rows[:2])
print(f"scikit-learn: both clients follow the line: {followed.all()}")


# river: its evaluation asks for its own base class
class Experts(hr.StreamExperts, base.Regressor):
    """One of several models, for river's evaluation."""


cases = [({"a": a, "b": b}, y) for (a, b), y in zip(rows.tolist(), target.tolist(), strict=True)]
stream = {"mean": dummy.StatisticRegressor(stats.Mean()), "line": linear_model.LinearRegression()}
for x, y in cases[public]:
    for model in stream.values():
        model.learn_one(x, y)
experts = Experts(stream, hr.PhasedSelection(epsilon=1.0), horizon=600, largest_error=3.0)
score = evaluate.progressive_val_score(cases[protected], experts, metrics.MAE())
print(f"river: {score} over {experts.round} rounds; {experts.certificate.public.curve.words()}")
