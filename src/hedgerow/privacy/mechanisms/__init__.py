"""Mechanisms: the only code that draws noise which protects. One object draws the release and states its cost.

Each of them is a `Mechanism` (`hedgerow.core.mechanism` says what that offers). Its `curve` is the sharpest guarantee of one release
that is proven here. A `Comparison` has none: it is paid for as part of its `AboveThreshold`, which is no single release but a run
of them, with a `curve` for all its answers.

Additive noise has a `log_density`, private choices have `probabilities` and `log_probability`, coins and runs have
`log_probability`.
"""

from hedgerow.privacy.mechanisms.additive import AdditiveNoise, GaussianNoise, KNorm
from hedgerow.privacy.mechanisms.coin import Coin
from hedgerow.privacy.mechanisms.laws import Law
from hedgerow.privacy.mechanisms.selection import ExponentialMechanism, NoisyMax
from hedgerow.privacy.mechanisms.sparse import AboveThreshold, Comparison

__all__ = [
    "AboveThreshold",
    "AdditiveNoise",
    "Coin",
    "Comparison",
    "ExponentialMechanism",
    "GaussianNoise",
    "KNorm",
    "Law",
    "NoisyMax",
]
