"""Sparse vector with a test of the potential (Asi et al. 2023, Algorithm 5), as printed.

After `switches` draws it forgets all losses: an *epoch* ends. Queries and scores use the losses of
one epoch only, and the draws that end an epoch are broadcast. So one loss vector matters in one
epoch only, and any number of epochs costs as much privacy as one (`proofs/doubling.md#epochs`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, log, sqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.printed import Printed, printed_numbers, printed_regret
from hedgerow.algorithms.shared.following import CHANNELS, CurrentExpert, current_expert, followed
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import check_interval
from hedgerow.algorithms.sparse_vector.selector import Selector, SelectorState
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.certificate import PrivacyCurve, Proof, trusted_server
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import (
    UNITS_PER_LOSS,
    Array,
    Units,
    from_units,
    round_to_lattice,
    to_units,
)
from hedgerow.core.layout import UnitVector
from hedgerow.core.limits import Broadcasts
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.rounding import round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget
from hedgerow.privacy.composition.bounded_range import WIDEST, BoundedRangeSequence
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.curves import PureDP, Quoted, promise
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism
from hedgerow_papers.printed_bounds import fed_svt_numbers, potential_bound

SLACK = 2.0**-18
"""Bounds how much rounding (lattice and floating point) adds to the change of a potential."""
SLOWEST = 2.0**-24
"""The smallest rate for which `SLACK` is large enough."""


@dataclass(frozen=True)
class EpochState(SelectorState):
    """The state of a sparse-vector server, plus the totals when the epoch began (`origin`)."""

    origin: UnitVector


@dataclass(frozen=True)
class PotentialTest(Selector):
    """The server: a run ends when the potential has fallen far enough since the run began.

    Far enough is a fall of its logarithm by rate * threshold, up to noise. In states and broadcasts
    `switches` counts all draws since the start.
    """

    state: ClassVar[type[Any]] = EpochState

    def spent(self, state: SelectorState) -> bool:
        return False

    def beginning(self, expert: int) -> EpochState:
        zero = np.zeros(self.experts, np.int64)
        return EpochState(zero, expert, 0, np.inf, 0, 0, zero)

    def scores(self, state: SelectorState) -> Array:
        """Scores of the experts at the end of a run: the losses of the epoch."""
        assert isinstance(state, EpochState)
        return from_units(state.totals - state.origin)

    def next_run(self, state: SelectorState, expert: int, noisy_threshold: float) -> EpochState:
        assert isinstance(state, EpochState)
        used = state.switches + 1
        origin = state.totals if used % self.switches == 0 else state.origin
        return replace(
            state,
            expert=expert,
            base=int(self.potential(state.totals - origin)),
            noisy_threshold=noisy_threshold,
            switches=used,
            origin=origin,
        )

    def potential(self, sums: Units) -> Units:
        """-ln(mean of exp(-rate * sum)) / rate, in lattice units.

        If all experts had this loss, the potential would be the same.
        """
        least = sums.min(axis=-1, keepdims=True)
        rate = self.selection.rate
        more = -np.log(np.exp(-rate * from_units(sums - least)).mean(axis=-1)) / rate
        return least[..., 0] + np.rint(more * UNITS_PER_LOSS).astype(np.int64)

    def query(self, state: SelectorState) -> float:
        assert isinstance(state, EpochState)
        return float(from_units(int(self.potential(state.totals - state.origin)) - state.base))

    def queries(
        self, state: SelectorState, losses: Array, earlier: Units, due: npt.NDArray[np.int64]
    ) -> Array:
        assert isinstance(state, EpochState)
        sums = np.zeros((int(due[-1]) + 1, self.experts))
        np.cumsum(losses[: due[-1]].sum(axis=1), axis=0, out=sums[1:])
        return from_units(
            self.potential(to_units(sums[due]) + (earlier - state.origin)) - state.base
        )


def printed_cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """The cost of the printed test: `proofs/potential.md#printed-cost`.

    It counts the run in which the record is observed, the later runs (their queries move twice as
    far), and one selection after each run.
    """
    answers = 1 / Fraction(sparse.threshold_scale) + 2 / Fraction(sparse.query_scale)
    own, later = (round_up(answers * (moved + Fraction(SLACK))) for moved in (1, 2))
    runs = [own] + [later] * (switches - 1)
    pure = pure_sum([*map(PureDP, runs), *[PureDP(selection_epsilon)] * switches])
    if delta == 0 or 2 * max(runs) > WIDEST or selection_epsilon > WIDEST:
        return pure
    composed = Quoted(
        BoundedRangeSequence(tuple(r for run in runs for r in (2 * run, selection_epsilon))), delta
    )
    # With few large costs the pure sum is smaller: delta gains less than bounded range loses.
    return min(pure, composed, key=lambda curve: curve.stated()[0])


@dataclass(frozen=True)
class AsiPotential(AlgorithmSpec):
    """Sparse vector with the printed test of the potential. `Potential` is better: use it.

    The certificate states what is proven and what the paper claims.

    Parameters
    ----------
    epsilon
        The claimed budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). Default 0.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon.
    switches
        Draws of an expert in an epoch, at least 1. None (default): the printed value.
    threshold
        What the potential may fall by in a run, as a loss, >= 0. None (default): the printed value.
    rate
        The learning rate (eta in the paper), in [2^-24, 1000]. None (default): the printed value.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proof: `proofs/potential.md#printed-cost`.

    Examples
    --------
    >>> built = AsiPotential(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(built.certificate.peer.curve.words())
    epsilon = 1.906, delta = 0

    References
    ----------
    Asi et al. 2023, Algorithm 5. `proofs/potential.md` states which reading of the printed
    constants is used.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
        meanings={
            **SparseVector.traits.meanings,
            "switches": "changes of expert in each epoch",
            "threshold": "loss, summed over clients, by which the potential may fall in a run",
            "rate": "learning rate",
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    switches: int | None = None
    threshold: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("every", self.every, 1)
        if self.switches is not None:
            at_least("switches", self.switches, 1)
        if self.threshold is not None and not 0 <= self.threshold < np.inf:
            raise InvalidValue(f"Expected threshold={self.threshold!r} >= 0 and finite.")
        if self.rate is not None:
            between("rate", self.rate, SLOWEST, 1e3)

    def audit_variants(self) -> tuple[AsiPotential, ...]:
        """Variants whose tiny games have several epochs and come close to the certificate."""
        first = replace(self, epsilon=12.0, every=1, rate=12.0, threshold=0.5)
        return (replace(first, switches=1), replace(first, epsilon=3.0, rate=2.0, switches=2))

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        server = self.server(setting)
        curve = printed_cost(server.switches, server.sparse, server.selection.epsilon, self.delta)
        return followed(
            name="asi2023_potential",
            setting=setting,
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=curve,
                claimed=promise(self.epsilon, self.delta) if self.rate is None else None,
                proof=Proof("potential.md", "printed-cost"),
                calibration="published",
                channels=CHANNELS,
                mechanisms=(
                    server.sparse.threshold_noise,
                    server.sparse.comparison,
                    server.selection,
                ),
            ),
            broadcasts=Broadcasts(CurrentExpert, current_expert(server.schedule, setting)),
            parameters={**server.shown(), **server.schedule.shown(setting)},
        )

    def server(self, setting: Setting) -> PotentialTest:
        """The server with the printed constants.

        K = 2 ln d, eps0 = eps / K (with delta > 0: eps / sqrt(K ln(1/delta))),
        eta = eps0 / (56 ln T), and the logarithm of the potential falls by 2.
        """
        switches = self.switches or max(1, ceil(2 * log(setting.experts)))
        each = self.epsilon / (
            switches if self.delta == 0 else sqrt(switches * log(1 / self.delta))
        )
        rate = each / (56 * log(max(2, setting.rounds))) if self.rate is None else self.rate
        if not rate >= SLOWEST:
            raise InvalidValue(f"Expected rate={rate!r} >= {SLOWEST}.")
        threshold = float(round_to_lattice(2 / rate if self.threshold is None else self.threshold))
        sparse = AboveThreshold("laplace", 2 / each, 4 / each, 2 + SLACK)
        selection = ExponentialMechanism("selection", 2 * rate)
        schedule = Schedule(self.every)
        return PotentialTest(setting.experts, schedule, switches, threshold, 0.0, sparse, selection)


@printed_numbers.register
def _(spec: AsiPotential, setting: Setting) -> Printed | None:
    return fed_svt_numbers(setting, spec.every)


@printed_regret.register
def _(spec: AsiPotential, setting: Setting) -> Printed | None:
    return potential_bound(setting, spec.epsilon, spec.delta)
