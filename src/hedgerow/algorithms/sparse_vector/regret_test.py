"""A sparse-vector server that tests the regret of a run in later epochs, not its loss.

When an epoch is over, the best expert loses, too. Then the loss of an expert says little: if all
experts lose the same, there is nothing to learn, and a threshold that grows with such losses keeps
a bad expert for too long. So from a public epoch on the test asks how much more the expert of the
run has lost than the best one in the run. One record moves this difference by up to 2, and by
different amounts in different queries, so the noise is four times as large for the same budget
(`proofs/sparse_vector.md#test-of-the-regret`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import log

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.sparse_vector.recency import RecencySelector, RecencyState
from hedgerow.algorithms.sparse_vector.selector import SelectorState
from hedgerow.core.lattice import Array, Units, from_units, round_to_lattice, to_units
from hedgerow.core.rounding import round_up
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms import AboveThreshold, AdditiveNoise, Comparison

MEANINGS = {
    "threshold_scale": "scale of the noise on the threshold, in a test of the loss",
    "query_scale": "scale of the noise on each comparison, in a test of the loss",
    "regret_from_epoch": "epochs before an expert is judged by its regret, not by its loss",
    "regret_threshold": "what is allowed of regret, summed over clients, when these tests begin",
    "regret_threshold_scale": "scale of the noise on the threshold, in a test of the regret",
    "regret_query_scale": "scale of the noise on each comparison, in a test of the regret",
}
LOUDER = 4.0
"""The noise of a test of the regret, as a multiple of that of a test of the loss."""


@dataclass(frozen=True)
class RegretTest(AboveThreshold):
    """The sparse vector technique for regrets: one datum may move each query differently, by 2."""

    sensitivity: float = 2.0

    @property
    def threshold_noise(self) -> AdditiveNoise:
        return replace(super().threshold_noise, purpose="regret threshold")

    @property
    def comparison(self) -> Comparison:
        return replace(super().comparison, purpose="regret query")

    @property
    def curve(self) -> PureDP:
        """Proof: `proofs/sparse_vector.md#test-of-the-regret`."""
        rates = 1 / Fraction(self.threshold_scale) + 1 / Fraction(self.query_scale)
        return PureDP(round_up(Fraction(self.sensitivity) * rates))


@lru_cache(maxsize=256)
def louder(sparse: AboveThreshold) -> RegretTest:
    """The test of the regret at the cost of the given test of the loss."""
    return RegretTest(sparse.law, LOUDER * sparse.threshold_scale, LOUDER * sparse.query_scale)


def louder_margin(margin: float, sparse: AboveThreshold, experts: int, exchanges: int) -> float:
    """The margin of a test of the regret in the place of that of a test of the loss.

    What is reserved for noise grows as the noise does, the rest stays.

    >>> quiet, loud = (AboveThreshold("exponential", scale, scale) for scale in (0.1, 10.0))
    >>> [round(louder_margin(10.0, test, 100, 512), 1) for test in (quiet, loud)]
    [13.6, 40.0]
    """
    reserved = min(margin, (1 + log(experts * max(1, exchanges))) * sparse.query_scale)
    return float(round_to_lattice(margin + (LOUDER - 1) * reserved))


@dataclass(frozen=True)
class RegretSelector(RecencySelector):
    """The server.

    `since` is the first epoch, not 0, whose runs are tested by their regret, and `regret_threshold`
    the margin of these tests.
    """

    since: int
    regret_threshold: float

    def by_regret(self, switches: int) -> bool:
        """Whether the run that begins after `switches` draws is tested by its regret."""
        return self.weights.place(switches)[0] >= self.since

    def shown(self) -> dict[str, float | str]:
        test = louder(self.sparse)
        return {
            **super().shown(),
            "regret_from_epoch": self.since,
            "regret_threshold": self.regret_threshold,
            "regret_threshold_scale": test.threshold_scale,
            "regret_query_scale": test.query_scale,
        }

    def test(self, switches: int) -> AboveThreshold:
        return louder(self.sparse) if self.by_regret(switches) else self.sparse

    def all_tests(self) -> tuple[AboveThreshold, ...]:
        return self.sparse, louder(self.sparse)

    def query(self, state: SelectorState) -> float:
        if not self.by_regret(state.switches):
            return super().query(state)
        assert isinstance(state, RecencyState)
        lost = state.totals - state.begun
        return float(from_units(lost[state.expert] - lost.min()))

    def queries(
        self, state: SelectorState, losses: Array, earlier: Units, due: npt.NDArray[np.int64]
    ) -> Array:
        if not self.by_regret(state.switches):
            return super().queries(state, losses, earlier, due)
        assert isinstance(state, RecencyState)
        sums = np.zeros((int(due[-1]) + 1, self.experts))
        np.cumsum(losses[: due[-1]].sum(axis=1), axis=0, out=sums[1:])
        lost = to_units(sums[due]) + (earlier - state.begun)
        return from_units(lost[:, state.expert] - lost.min(axis=1))
