"""Mechanisms: the only code that draws protective noise.

One object draws the release and states its cost. Each is a `Mechanism`, whose interface is in
`hedgerow.core.mechanism`. Its `curve` is the sharpest guarantee of one release that is proven here.
A `Comparison` has no curve: its cost is part of its `AboveThreshold`, which is a sequence of
releases with one `curve` for all its answers.

Every one has a `log_density` of one release. Private choices also have `probabilities` and
`log_probability`; coins and sparse-vector sequences have `log_probability`.
"""

from hedgerow.privacy.mechanisms.additive import (
    AdditiveNoise,
    EuclideanNoise,
    GaussianNoise,
    KNorm,
    Law,
)
from hedgerow.privacy.mechanisms.coin import Coin
from hedgerow.privacy.mechanisms.response import RandomisedResponse
from hedgerow.privacy.mechanisms.selection import ExponentialMechanism, NoisyMax
from hedgerow.privacy.mechanisms.sparse import AboveThreshold, Comparison

__all__ = [
    "AboveThreshold",
    "AdditiveNoise",
    "Coin",
    "Comparison",
    "EuclideanNoise",
    "ExponentialMechanism",
    "GaussianNoise",
    "KNorm",
    "Law",
    "NoisyMax",
    "RandomisedResponse",
]
