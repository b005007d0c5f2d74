"""Sparse vector for an unknown and possibly large best loss L*.

After Algorithm 5 of Asi et al. 2023. A run (the time between two draws) ends when its expert has
lost more than a threshold, up to noise, as in `sparse_vector`, with weights by recency. If all
draws of an epoch are used up, the best expert loses, too. Then a longer memory is worth more than a
fast alarm: the next epoch has twice the draws and half the weights, and its runs are tested by
their regret (`regret_test.py`).

The printed algorithm tests the potential, the mean of exp(-rate * S(x)) over the experts x with
losses S(x). This costs privacy in every later run, because all later runs start from weights that
depend on the record. And a run may never end although its expert loses in every round
(`proofs/potential.md#printed-test`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import floor
from typing import Any, ClassVar

from hedgerow.algorithms.sparse_vector.columns import (
    STEP,
    Column,
    Columns,
    Weights,
    enlarged,
    split,
)
from hedgerow.algorithms.sparse_vector.plan import Plan, planned
from hedgerow.algorithms.sparse_vector.recency import RecencySelector, recency_certificate
from hedgerow.algorithms.sparse_vector.regret_test import MEANINGS, RegretSelector, louder_margin
from hedgerow.algorithms.sparse_vector.sparse_vector import SHARED, SparseVector
from hedgerow.core.certificate import Proof
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow.privacy.mechanisms import NoisyMax

GROWTH = 2.0
"""The factor on the threshold from epoch to epoch, as in `proofs/potential.md#switches`."""
MOST_DRAWS = 4096
"""In an epoch; longer ones would hardly ever end."""


@dataclass(frozen=True)
class Growing(RegretSelector):
    """The certified server. `threshold` is that of the first epoch, `most` the largest one."""

    most: float
    growth: float = GROWTH

    def limit(self, switches: int) -> float:
        epoch, _ = self.weights.place(switches)
        first, times = (
            (self.regret_threshold, epoch - self.since)
            if epoch >= self.since
            else (self.threshold, epoch)
        )
        grown = min(first * self.growth ** min(times, 100), self.most)
        return max(self.threshold, float(round_to_lattice(grown)))


def grown(
    weights: Weights, budget: tuple[float, float], front: float, sizes: list[int], losses: int
) -> Weights:
    """The weights with further epochs: each has half the front share of the one before."""
    epsilon, delta = budget
    later = tuple(
        further(
            weights,
            epsilon=epsilon,
            delta=delta,
            switches=draws,
            front=front / 2**epoch,
            losses=losses,
        )
        for epoch, draws in enumerate(sizes[1:], start=1)
    )
    return replace(weights, later=later)


def further(
    weights: Weights,
    *,
    epsilon: float,
    delta: float,
    switches: int,
    front: float,
    losses: int,
) -> Columns:
    """The columns of a later epoch with other draws and another front share, at the same rate.

    With delta > 0 a run may have the weights of a run with more draws to come, which cost more.

    >>> from hedgerow.algorithms.sparse_vector.columns import weigh
    >>> weights = weigh(
    ...     epsilon=1.0, delta=0.0, test=0.5, switches=2, front=0.5, untested=True, losses=100
    ... )
    >>> after = further(
    ...     weights, epsilon=1.0, delta=0.0, switches=4, front=0.25, losses=100
    ... )
    >>> len(after), {round(column.pure(weights.rate), 3) for column in after}
    (4, {Fraction(1, 1)})
    """
    test = weights.columns[0].test
    units = floor((Fraction(epsilon) - Fraction(test)) / (2 * Fraction(weights.rate)))
    if delta == 0:
        return tuple(split(units, front, after, test) for after in reversed(range(switches)))
    found = list[Column]()
    while left := switches - len(found):
        column = split(units, front, left - 1, test)
        column = enlarged(column, epsilon, delta, weights.rate, losses)
        runs = range(left, floor(STEP * left), -1)
        found += [replace(column, after=after - 1) for after in runs]
    return tuple(found)


def epoch_sizes(first: int, threshold: float, exchanges: int, most: float) -> list[int]:
    """The draws of the epochs that are built: each has twice those of the one before.

    Hardly any game needs more: it ends when its exchanges or its losses (`most` in all) are used
    up, and in an epoch at least about its draws times its threshold are lost.

    >>> epoch_sizes(10, threshold=15.0, exchanges=511, most=5120.0)
    [10, 20, 40, 80]
    """
    sizes, lost = [first], first * threshold
    while sum(sizes) < exchanges and lost < most and 2 * sizes[-1] <= MOST_DRAWS:
        sizes.append(2 * sizes[-1])
        lost += sizes[-1] * threshold * GROWTH ** (len(sizes) - 1)
    return sizes


@dataclass(frozen=True)
class Potential(AlgorithmSpec):
    """Sparse vector for an unknown best loss that may be large.

    A run ends when its expert has lost more than a threshold, up to noise. The next expert is drawn
    by weighted losses, recent ones weigh more, and after `switches` draws a new epoch begins on new
    losses only. Each epoch has twice the draws of the one before, at half the weights: it costs the
    same, and if the best expert loses often, the memory grows. The first epoch is that of
    `SparseVector` for a best loss of 0. Later, a run ends by its regret: how much more its expert
    has lost than the best one in the run. What all experts lose alike then does not matter.

    No bound on the regret is proven; `ProvenPotential` has one if an expert never loses.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). 0 (default) gives pure differential privacy.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon. A multiple of it is taken
        where more exchanges would bring nothing.
    plan
        What experts may choose themselves about the first epoch, as for `SparseVector`; `front`
        halves from epoch to epoch. With draw="exponential" and front=0 the loss is proven to have
        no factor log d on that of the best expert (`proofs/potential.md#switches`). None (default):
        chosen from public values.
    early
        Whether there are also exchanges in the first `every` rounds, each twice as late as the one
        before. True (default).

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proof: `proofs/potential.md#whole-algorithm`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> print(Potential(epsilon=1.0).build(setting).certificate.peer.curve.words())
    epsilon = 1, delta = 0

    References
    ----------
    Asi et al. 2023, Algorithm 5.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
        meanings={
            **SparseVector.traits.meanings,
            **MEANINGS,
            "switches": "changes of expert in the first epoch; each later one has twice as many",
        },
    )

    name: ClassVar[str] = "potential"
    known: ClassVar[type[SparseVector]] = SparseVector
    since: ClassVar[int] = 1  # the first epoch with tests of the regret

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    early: bool = True
    plan: Plan | None = None

    def __post_init__(self) -> None:
        self._first_epoch()  # checks the parameters, which both share

    def _first_epoch(self) -> SparseVector:
        """`known` with the same parameters and a best loss of 0."""
        return self.known(**{name: getattr(self, name) for name in SHARED})

    def audit_variants(self) -> tuple[Potential, ...]:
        """Variants whose tiny games have several epochs and come close to the certificate."""
        return (
            planned(self, {"switches": 2, "threshold": 1.0}, epsilon=24.0, every=1),
            planned(self, {"switches": 1, "threshold": 0.5}, epsilon=3.0, every=1),
        )

    def resolve(self, setting: Setting) -> Algorithm:
        known = self._first_epoch().build(setting)
        alike = known.server
        assert isinstance(alike, RecencySelector)
        shared: dict[str, Any] = {part.name: getattr(alike, part.name) for part in fields(alike)}
        losses = setting.clients * setting.rounds
        front = float(known.parameters["front"])
        exchanges = alike.schedule.count(setting.rounds)
        sizes = epoch_sizes(alike.switches, alike.threshold, exchanges, float(losses))
        margin = louder_margin(alike.threshold, alike.sparse, setting.experts, exchanges)
        weights = grown(alike.weights, (self.epsilon, alike.delta), front, sizes, losses)
        draw = "permute-and-flip" if isinstance(alike.selection, NoisyMax) else "exponential"
        shared |= {"weights": weights, "selection": weights.selection(draw)}
        server = Growing(**shared, since=self.since, regret_threshold=margin, most=float(losses))
        proof = Proof("potential.md", "whole-algorithm")
        return replace(
            known,
            name=self.name,
            server=server,
            certificate=recency_certificate(setting, server, proof, proof, self.known.calibration),
            claims=replace(
                known.claims,
                regret_bound=self.proven_bound(setting, server),
                log_likelihood=server.log_likelihood,
            ),
            shortcuts=replace(known.shortcuts, advance=server.advance),
            parameters={**known.parameters, **server.shown()},
        )

    def proven_bound(self, setting: Setting, server: Growing) -> BoundWithGoodExpert | None:
        """The proven bound on the regret, if there is one."""
        return None
