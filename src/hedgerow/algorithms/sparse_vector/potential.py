"""Sparse vector for an unknown and possibly large best loss L*: no factor log d multiplies L*.

The algorithm follows Algorithm 5 of Asi et al. 2023. The weights are exp(-rate * S(x)), where S(x)
is the loss of expert x since the epoch began, summed over clients. The potential is their mean.
Every switch lowers it by a share. In an epoch its logarithm can fall by at most ln(d) plus rate
times the best expert's loss, which bounds the number of switches.

There are two tests that end a run (the time between two switches):

* Printed: the potential itself has fallen far enough, up to noise. This costs privacy in every
  later run, because all later runs start from weights that depend on the record. And a run may
  never end although its expert loses in every round (`proofs/potential.md#printed-test`).
* Certified: the expert of the run has lost more than a constant, up to noise. The potential falls
  by as much on average (`proofs/potential.md#switches`), and one record matters in the test of one
  run.
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
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import LossSums, check_interval, sums_of_losses
from hedgerow.algorithms.sparse_vector.growing import Epoch, Growing, largest_cost, later_epochs
from hedgerow.algorithms.sparse_vector.proved import EpochRuns, Game, Runs, epochs_bound
from hedgerow.algorithms.sparse_vector.restarting import EpochState, Restarting
from hedgerow.algorithms.sparse_vector.selector import ServerState, affordable
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
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
from hedgerow.core.protocol import ANY_CLOSING, Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.rounding import round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget, expect
from hedgerow.privacy.calibrate import surrogate_mu
from hedgerow.privacy.composition.bounded_range import WIDEST, BoundedRangeSequence
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.curves import PureDP, Quoted, promise
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism

SLACK = 2.0**-18
"""Bounds how much rounding (lattice and floating point) adds to the change of a potential."""
SLOWEST = 2.0**-24
"""The smallest rate for which `SLACK` is large enough."""
FALLS = tuple(np.linspace(1.0, 4.0, 25).tolist())
SHARES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class PotentialTest(Restarting):
    """The printed server: a run ends when the potential has fallen far enough since the run began.

    Far enough is a fall of its logarithm by rate * threshold, up to noise.
    """

    def potential(self, sums: Units) -> Units:
        """-ln(mean of exp(-rate * sum)) / rate, in lattice units.

        If all experts had this loss, the potential would be the same.
        """
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
        self, state: ServerState, losses: Array, earlier: Units, due: npt.NDArray[np.int64]
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
class Plan:
    """The first epoch: its draws, the loss that a run may have, and the budget of the test.

    `fall` is what the logarithm of a weight loses at least in a run that ends without bad noise.
    """

    switches: int
    threshold: float
    sparse_epsilon: float
    fall: float


def plan(
    *, clients: int, experts: int, horizon: int, every: int, epsilon: float, delta: float
) -> Plan:
    """The plan with the smallest proven cost of the first epoch, on a grid, from public values.

    It has twice the draws that the potential of d experts allows, so in a full epoch the best
    expert loses, too. Proof: `proofs/potential.md#switches`.
    """
    best, least, exchanges = None, inf, Schedule.soon(every).count(horizon) + 1
    for share in SHARES:
        sparse = share * epsilon
        allowance = log(max(2, exchanges)) / sparse  # A' in the proof
        normal = 2 * surrogate_mu(epsilon, delta, sparse) if delta > 0 else 0.0
        for fall in FALLS:
            switches = 1 + ceil(2 * log(experts) / (1 - fall / expm1(fall)))
            selection = max((epsilon - sparse) / switches, normal / sqrt(switches))
            threshold = allowance + 2 * fall / selection
            price = switches * (threshold + 1 / sparse + clients * every)
            if price < least:
                best, least = Plan(switches, threshold, sparse, fall), price
    assert best is not None
    return best


def regret_bound(server: Growing, setting: Setting) -> BoundWithGoodExpert | None:
    """The proven bound if one expert never loses; None where it says nothing.

    All that follows the second epoch is given up: hardly any game gets there.
    """
    first = Epoch(server.switches, server.threshold, server.drawing(0))
    test = 1 / server.sparse.query_scale
    epochs = tuple(
        EpochRuns(0.0, Runs(test, epoch.threshold, (epoch.selection.epsilon,) * epoch.draws))
        for epoch in (first, *server.later[:1])
    )
    value = epochs_bound(Game.of(setting, server.schedule), epochs)
    proof = Proof("sparse_vector_regret.md", "epochs-that-differ")
    vacuous = value >= setting.rounds
    return None if vacuous else BoundWithGoodExpert(value, "oblivious", proof, 0.0)


@dataclass(frozen=True)
class Potential(AlgorithmSpec):
    r"""Sparse vector for an unknown best loss that may be large.

    A run ends when its expert has lost more than a threshold, up to noise. The next expert $x$ is
    drawn with probability proportional to $\exp(-\eta S(x) / 2)$, where $S(x)$ is its loss since
    the epoch began, summed over clients. After `switches` draws a new epoch begins on new losses
    only. Each epoch has twice the draws of the one before, at half the rate: it costs the same, and
    if the best expert loses often, the memory grows. The proven loss has no factor log d on the
    best expert's loss (`proofs/potential.md#switches`). If one expert never loses, a bound on the
    expected regret is stated where it says something.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). 0 (default) gives pure differential privacy.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon.
    test
        What ends a run. "expert" (default): the loss of its expert, with constants that spend the
        budget by the tight proof. "potential": the printed test with the printed constants; the
        certificate states what is proven and what the paper claims.
    switches
        Draws of an expert in the first epoch, at least 1. None (default): chosen from public
        values.
    threshold
        The loss, summed over clients, that a run of the first epoch may have, >= 0; it grows as the
        rate falls. None (default): chosen from public values. The certificate always follows the
        values that are used.
    rate
        The learning rate of the printed algorithm (eta in the paper), in [2^-24, 1000]. Only with
        test="potential". None (default): the printed value.
    early
        Whether there are also exchanges in the first `every` rounds, each twice as late as the one
        before. None (default): yes, but not with test="potential".

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proofs: `proofs/potential.md#whole-algorithm` for test="expert",
    `proofs/potential.md#printed-cost` for test="potential".

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> print(hr.Potential(epsilon=1.0).build(setting).certificate.peer.curve.words())
    epsilon = 1, delta = 0
    >>> printed = hr.Potential(epsilon=1.0, test="potential").build(setting)
    >>> print(printed.certificate.peer.curve.words())
    epsilon = 1.906, delta = 0

    References
    ----------
    Asi et al. 2023, Algorithm 5. `proofs/potential.md` states which reading of the printed
    constants is used.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"published": {"test": "potential"}, "approximate": {"delta": 1e-6}},
        meanings={
            **SparseVector.traits.meanings,
            "switches": "changes of expert in the first epoch; each later one has twice as many",
            "test": "what is compared with the threshold: the expert's loss or the potential",
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
    early: bool | None = None

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
            expect(self.printed, "rate", self.rate, 'to be None unless test="potential"')
            between("rate", self.rate, SLOWEST, 1e3)
        expect(not (self.printed and self.early), "early", self.early, "with test='expert' only")

    @property
    def printed(self) -> bool:
        """Whether the printed test and constants are used."""
        return self.test == "potential"

    def audit_variants(self) -> tuple[Potential, ...]:
        """Variants whose tiny games have several epochs and come close to the certificate."""
        if self.printed:
            first = replace(self, epsilon=12.0, every=1, rate=12.0, threshold=0.5)
            return (replace(first, switches=1), replace(first, epsilon=3.0, rate=2.0, switches=2))
        first = replace(self, epsilon=24.0, every=1, threshold=1.0, switches=2)
        return (first, replace(first, epsilon=3.0, switches=1, threshold=0.5))

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        server = self._printed(setting) if self.printed else self._certified(setting)
        later = server.later if isinstance(server, Growing) else ()
        anchor = "printed-cost" if self.printed else "whole-algorithm"
        return Algorithm(
            name="potential",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=self._cost(server),
                claimed=(
                    promise(self.epsilon, self.delta)
                    if self.printed and self.rate is None
                    else None
                ),
                proof=Proof("potential.md", anchor),
                calibration="published" if self.printed else "certified",
                channels=CHANNELS,
                mechanisms=(
                    server.sparse.threshold_noise,
                    server.sparse.comparison,
                    server.selection,
                    *(epoch.selection for epoch in later),
                ),
            ),
            upload=LossSums,
            broadcast=CurrentExpert,
            supports=MASKS_AND_DELAYS,
            advance=server.advance,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            regret_bound=regret_bound(server, setting) if isinstance(server, Growing) else None,
            ranges=sums_of_losses(setting),
            closing=ANY_CLOSING,
            parameters={**server.shown(), **server.schedule.shown(setting)},
        )

    def _cost(self, server: Restarting) -> PrivacyCurve:
        if isinstance(server, Growing):
            return largest_cost(server, self.delta)
        return printed_cost(server.switches, server.sparse, server.selection.epsilon, self.delta)

    def _certified(self, setting: Setting) -> Growing:
        chosen = plan(
            clients=setting.clients,
            experts=setting.experts,
            horizon=setting.rounds,
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
        schedule = Schedule.of(self.every, self.early is not False)
        first = Epoch(switches, threshold, selection)
        exchanges = schedule.count(setting.rounds)
        later = later_epochs(self.epsilon, self.delta, sparse, first, chosen.fall, exchanges)
        return Growing(
            setting.experts, schedule, switches, threshold, 0.0, sparse, selection, later
        )

    def _printed(self, setting: Setting) -> Restarting:
        """The printed constants.

        K = 2 ln d, eps0 = eps / K (with delta > 0: eps / sqrt(K ln(1/delta))),
        eta = eps0 / (56 ln T), and the logarithm of the potential falls by 2.
        """
        switches = self.switches or max(1, ceil(2 * log(setting.experts)))
        each = self.epsilon / (
            switches if self.delta == 0 else sqrt(switches * log(1 / self.delta))
        )
        rate = each / (56 * log(max(2, setting.rounds))) if self.rate is None else self.rate
        expect(rate >= SLOWEST, "rate", rate, f">= {SLOWEST}")
        threshold = float(round_to_lattice(2 / rate if self.threshold is None else self.threshold))
        sparse = AboveThreshold("laplace", 2 / each, 4 / each, 2 + SLACK)
        selection = ExponentialMechanism("selection", 2 * rate)
        schedule = Schedule(self.every)
        return PotentialTest(setting.experts, schedule, switches, threshold, 0.0, sparse, selection)
