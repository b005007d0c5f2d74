"""Experts that are charged to the potential, not to the best expert's loss: no factor log d on an L* that nobody need know.

After Algorithm 5 of Asi et al. 2023. Weights are exp(-rate S(x)), S the losses of all clients since the epoch began, and the
potential is their mean; every switch takes a share of it, and the best expert's loss gives back little. In print a run
ends when the potential itself has noisily fallen far enough. That costs privacy in every later run, because all of them start
from weights that know the datum, and a run may never end although its expert loses in every round
(`proofs/potential.md#printed-test`). Certified, a run ends when its own expert has noisily lost more than a constant: the
potential falls by as much on average (`proofs/potential.md#switches`), and one datum matters in the answers of one run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, expm1, inf, log, sqrt
from operator import attrgetter
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.shared.following import CHANNELS, CurrentExpert, Follower
from hedgerow.algorithms.shared.totals import LossSums, check_interval
from hedgerow.algorithms.sparse_vector.restarting import EpochState, Restarting
from hedgerow.algorithms.sparse_vector.sparse_vector import (
    ServerState,
    SparseVector,
    affordable,
    cost,
)
from hedgerow.core.block import Block
from hedgerow.core.certificate import PrivacyCurve, Proof, trusted_server
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import (
    UNITS_PER_LOSS,
    Array,
    Units,
    from_units,
    round_to_lattice,
    to_units,
)
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.rounding import round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget, expect
from hedgerow.privacy.calibrate import surrogate_mu
from hedgerow.privacy.composition.bounded_range import WIDEST, BoundedRangeSequence
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.curves import ApproximateDP, PureDP, Quoted
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism

SLACK = 2.0**-18
"""What rounding to the lattice and floating point may add to the move of a potential."""
SLOWEST = 2.0**-24
"""The smallest rate for which that much is enough."""
FALLS = tuple(np.linspace(1.0, 4.0, 25).tolist())
SHARES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class PotentialTest(Restarting):
    """The server as printed: a run ends when the potential has fallen by rate * threshold, noisily, since the run began."""

    def potential(self, sums: Units) -> Units:
        """-ln(mean of exp(-rate * sum)) / rate, in lattice units: the loss of one expert that counts for all of them."""
        least = sums.min(axis=-1, keepdims=True)
        rate = self.selection.rate
        more = -np.log(np.exp(-rate * from_units(sums - least)).mean(axis=-1)) / rate
        return least[..., 0] + np.rint(more * UNITS_PER_LOSS).astype(np.int64)

    def base(self, totals: Units, origin: Units, expert: int) -> int:
        del expert
        return int(self.potential(totals - origin))

    def query(self, state: ServerState) -> float:
        assert isinstance(state, EpochState)
        return float(from_units(int(self.potential(state.totals - state.origin)) - state.base))

    def queries(
        self, state: ServerState, block: Block, earlier: Units, due: npt.NDArray[np.int64]
    ) -> Array:
        assert isinstance(state, EpochState)
        sums = np.zeros((block.rounds + 1, self.experts))
        np.cumsum(block.losses.sum(axis=1), axis=0, out=sums[1:])
        return from_units(
            self.potential(to_units(sums[due]) + (earlier - state.origin)) - state.base
        )


def printed_cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """The datum's own run, later ones that it moves twice as far, a selection after each: `proofs/potential.md#printed-cost`."""
    answers = 1 / Fraction(sparse.threshold_scale) + 2 / Fraction(sparse.query_scale)
    own, later = (round_up(answers * (moved + Fraction(SLACK))) for moved in (1, 2))
    runs = [own] + [later] * (switches - 1)
    pure = pure_sum([*map(PureDP, runs), *[PureDP(selection_epsilon)] * switches])
    if delta == 0 or 2 * max(runs) > WIDEST or selection_epsilon > WIDEST:
        return pure
    composed = Quoted(
        BoundedRangeSequence(tuple(r for run in runs for r in (2 * run, selection_epsilon))), delta
    )
    return min(
        pure, composed, key=lambda curve: curve.stated()[0]
    )  # few large costs: delta buys less than the bounded range loses


@dataclass(frozen=True)
class Plan:
    """Draws in an epoch, what a run may lose, and the sparse-vector part of the budget."""

    switches: int
    threshold: float
    sparse_epsilon: float


def plan(
    *, clients: int, experts: int, horizon: int, every: int, epsilon: float, delta: float
) -> Plan:
    """The least proven cost of an epoch on a grid, from public values: `proofs/potential.md#switches`.

    An epoch has twice the draws that the potential of d experts lasts for, so a full one costs the best expert, too.
    """
    best, least = None, inf
    for share in SHARES:
        sparse = share * epsilon
        quiet = log(max(2.0, horizon / every)) / sparse
        normal = 2 * surrogate_mu(epsilon, delta, sparse) if delta > 0 else 0.0
        for fall in FALLS:
            switches = 1 + ceil(2 * log(experts) / (1 - fall / expm1(fall)))
            selection = max((epsilon - sparse) / switches, normal / sqrt(switches))
            threshold = quiet + 2 * fall / selection
            price = switches * (threshold + 1 / sparse + clients * every)
            if price < least:
                best, least = Plan(switches, threshold, sparse), price
    assert best is not None
    return best


@dataclass(frozen=True)
class Potential(AlgorithmSpec):
    """Private federated experts for streams with a good expert whose loss is not known and may be large.

    `epsilon` and `delta` are the budget (delta = 0: pure), `every` the rounds between exchanges (N). `test` is what ends a run:
    the loss of its own `"expert"`, with constants that spend the budget by the tight proof; or, as printed and with the printed
    constants, the `"potential"`, where the certificate says what is proven beside what is claimed. `switches` (in an epoch),
    `threshold` (what a run may lose) and, of the printed constants, `rate` (eta in print) replace what would be chosen; the
    certificate follows.

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = Potential(epsilon=1.0, test="potential").build(Setting(clients=10, experts=100, horizon=512))
    >>> print(algorithm.certificate.guarantees[1].curve.words())
    epsilon = 1.906, delta = 0
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"published": {"test": "potential"}, "approximate": {"delta": 1e-6}},
        meanings={
            **SparseVector.traits.meanings,
            "switches": "changes of expert allowed in an epoch",
            "test": "whose loss is compared with the threshold",
            "rate": "learning rate",
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    test: Literal["expert", "potential"] = "expert"
    switches: int | None = None
    threshold: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("every", self.every, 1)
        options = ("expert", "potential")
        expect(self.test in options, "test", self.test, f"in {options}")
        if self.switches is not None:
            at_least("switches", self.switches, 1)
        if self.threshold is not None:
            expect(0 <= self.threshold < np.inf, "threshold", self.threshold, ">= 0 and finite")
        if self.rate is not None:
            expect(self.printed, "rate", self.rate, 'to be None, or test="potential"')
            between("rate", self.rate, SLOWEST, 1e3)

    @property
    def printed(self) -> bool:
        return self.test == "potential"

    def audit_variants(self) -> tuple[Potential, ...]:
        """Loud versions whose tiny games, with several epochs in them, come close to the certificate."""
        if self.printed:
            loud = replace(self, epsilon=12.0, every=1, rate=12.0, threshold=0.5)
            return (replace(loud, switches=1), replace(loud, epsilon=3.0, rate=2.0, switches=2))
        loud = replace(self, epsilon=24.0, every=1, threshold=1.0, switches=2)
        return (loud, replace(loud, epsilon=3.0, switches=1, threshold=0.5))

    def build(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        server, price = (
            (self._printed(setting), printed_cost)
            if self.printed
            else (self._certified(setting), cost)
        )
        claim = PureDP(self.epsilon) if self.delta == 0 else ApproximateDP(self.epsilon, self.delta)
        anchor = "printed-cost" if self.printed else "whole-algorithm"
        return Algorithm(
            name="potential",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=price(server.switches, server.sparse, server.selection.epsilon, self.delta),
                claimed=claim if self.printed else None,
                proof=Proof("potential.md", anchor),
                calibration="published" if self.printed else "certified",
                channels=CHANNELS,
                mechanisms=(
                    server.sparse.threshold_noise,
                    server.sparse.comparison,
                    server.selection,
                ),
            ),
            upload=LossSums,
            broadcast=CurrentExpert,
            supports=MASKS_AND_DELAYS,
            advance=server.advance,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            parameters={
                "switches": server.switches,
                "selection_epsilon": server.selection.epsilon,
                "threshold": server.threshold,
                "threshold_scale": server.sparse.threshold_scale,
                "query_scale": server.sparse.query_scale,
                "noise_law": server.sparse.law,
            },
        )

    def _certified(self, setting: Setting) -> Restarting:
        chosen = plan(
            clients=setting.clients,
            experts=setting.experts,
            horizon=setting.horizon,
            every=self.every,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        sparse = AboveThreshold("exponential", 1 / chosen.sparse_epsilon, 1 / chosen.sparse_epsilon)
        switches = self.switches or chosen.switches
        threshold = float(
            round_to_lattice(chosen.threshold if self.threshold is None else self.threshold)
        )
        selection = ExponentialMechanism(
            "selection", affordable(self.epsilon, self.delta, switches, sparse)
        )
        return Restarting(setting.experts, self.every, switches, threshold, 0.0, sparse, selection)

    def _printed(self, setting: Setting) -> Restarting:
        """K = 2 ln d, eps0 = eps / K (approximate: eps / sqrt(K ln(1/delta))), eta = eps0 / (56 ln T), a fall of 2."""
        switches = self.switches or max(1, ceil(2 * log(setting.experts)))
        each = self.epsilon / (
            switches if self.delta == 0 else sqrt(switches * log(1 / self.delta))
        )
        rate = each / (56 * log(max(2, setting.horizon))) if self.rate is None else self.rate
        expect(rate >= SLOWEST, "rate", rate, f">= {SLOWEST}")
        threshold = float(round_to_lattice(2 / rate if self.threshold is None else self.threshold))
        sparse = AboveThreshold("laplace", 2 / each, 4 / each, 2 + SLACK)
        selection = ExponentialMechanism("selection", 2 * rate)
        return PotentialTest(
            setting.experts, self.every, switches, threshold, 0.0, sparse, selection
        )
