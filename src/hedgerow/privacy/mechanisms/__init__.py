"""Mechanisms: the only code that draws noise which protects. One object draws the release and states its cost.

Each mechanism that `noise.release` takes has a `purpose` (the name of its noise stream), a `scale`, a `sensitivity` (how far the
value may move between neighbouring inputs), `sample`, `distance` (in which the sensitivity is measured), `uniformise` (maps an
output to a number that is uniform on [0, 1] exactly when the sampler follows its law), `probe` (a value whose output says much
about the amount of noise), `outcomes` (all possible outputs, or None where there are infinitely many) and `scaled` (the same with
other noise). `exact` is True where secure noise has an exact sampler for it. Its `curve` is the sharpest guarantee of one release
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

__all__ = ["AboveThreshold", "AdditiveNoise", "Coin", "Comparison", "ExponentialMechanism", "GaussianNoise", "KNorm", "Law", "NoisyMax"]
