"""The printed sparse-vector algorithm with constants that spend the whole budget.

Its certificate is tight, so a bug that costs privacy shows. Its server is `Selector` itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, log2

from hedgerow.core.setting import Setting
from hedgerow.privacy.mechanisms import AboveThreshold
from hedgerow_papers.gao2024.fed_svt import FedSVT, affordable

SHARE = 0.4  # of the budget, for the test


@dataclass(frozen=True)
class Stopping(FedSVT):
    """Stops after `switches` draws; spends its budget to the last bit."""

    def constants(self, setting: Setting) -> tuple[int, float, float, AboveThreshold]:
        scale = 1 / (SHARE * self.epsilon)
        sparse = AboveThreshold("exponential", scale, scale)
        switches = self.switches or max(1, ceil(log2(setting.experts)))
        eta = affordable(self.epsilon, self.delta, switches, sparse)
        threshold = setting.clients * self.best_loss + scale * log(setting.rounds) / 2
        return switches, eta, threshold, sparse
