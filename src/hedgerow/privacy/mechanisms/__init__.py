"""Mechanisms: the only code that draws noise which protects. One object draws the release and states its cost.

Each mechanism has a `purpose` (the name of its noise stream), a `sensitivity` (how far the value handed to `release` may move
between neighbouring inputs), `sample`, `distance` (in which the sensitivity is measured), `uniformise` (maps an output to a
number that is uniform on [0, 1] exactly when the sampler follows its law), `probe` (a value whose output says much
about the amount of noise), `outcomes` (all possible outputs where there are finitely many), `scaled` (the same with other
noise) and `curve` (what one release costs; a `Comparison` is only ever paid for as part of its `AboveThreshold`).
"""

from hedgerow.privacy.mechanisms.additive import AdditiveNoise, GaussianNoise, KNorm
from hedgerow.privacy.mechanisms.laws import Law
from hedgerow.privacy.mechanisms.selection import ExponentialMechanism, NoisyMax
from hedgerow.privacy.mechanisms.sparse import AboveThreshold, Comparison

__all__ = ["AboveThreshold", "AdditiveNoise", "Comparison", "ExponentialMechanism", "GaussianNoise", "KNorm", "Law", "NoisyMax"]
