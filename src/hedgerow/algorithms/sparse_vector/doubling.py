"""Fed-SVT for an unknown best loss: guess it, and double the guess when its switches run out.

This is the adaptive algorithm of Asi et al. 2023 (Algorithm 2), federated and with a different
test. The printed algorithm releases the loss of each new expert with noise and compares it with
the guess; while the guess is small, that comparison says "double" at once. Here the test releases
nothing: if some expert loses no more than the guess, the switches of an epoch hardly ever run out
(`proofs/doubling.md#soundness`). So when they run out, the guess was too low. The next epoch uses
new losses only, which is why all epochs together cost as much privacy as one. After the first
guess runs are tested by their regret (`regret_test.py`): what all experts lose alike then neither
ends a run nor doubles the guess.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar

from hedgerow.algorithms.sparse_vector.plan import Plan, planned
from hedgerow.algorithms.sparse_vector.recency import RecencySelector, recency_certificate
from hedgerow.algorithms.sparse_vector.regret_test import MEANINGS, RegretSelector, louder_margin
from hedgerow.algorithms.sparse_vector.sparse_vector import SHARED, SparseVector
from hedgerow.core.certificate import Proof
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import round_to_lattice
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow.core.validate import between

LEAST = 2.0**-20  # the smallest guess above 0: one step of the lattice


@dataclass(frozen=True)
class Guesser(RegretSelector):
    """The server: Fed-SVT with a guess of the best expert's loss, 0 in the first epoch.

    `threshold` is what a run may lose beyond the guess, `regret_threshold` what its regret may be
    beyond it, `first_guess` the first guess above 0, and `most` the largest guess.
    """

    first_guess: float
    most: float

    def guess(self, switches: int) -> float:
        """The guess of the best expert's loss, summed over clients, after `switches` draws."""
        epoch, _ = self.weights.place(switches)
        return guessed(epoch, self.first_guess, self.most)

    def limit(self, switches: int) -> float:
        margin = self.regret_threshold if self.by_regret(switches) else self.threshold
        return self.guess(switches) + margin

    def least(self, switches: int) -> float:
        return self.guess(switches)


def guessed(epoch: int, first: float, most: float) -> float:
    """The guess of an epoch.

    >>> [guessed(epoch, first=3.0, most=20.0) for epoch in range(6)]
    [0.0, 3.0, 6.0, 12.0, 20.0, 20.0]
    """
    return min(first * 2.0 ** min(epoch - 1, 100), most) if epoch else 0.0


@dataclass(frozen=True)
class Doubling(AlgorithmSpec):
    """Sparse vector for an unknown best loss: guess it, and double the guess when it fails.

    Use it when some expert is rarely wrong but no bound on its loss is known. All parameters are
    chosen from public values, as `SparseVector` chooses them for a best loss of 0. So both play
    alike until the first guess (0) fails.

    No bound on the regret is proven; `ProvenDoubling` in `papers/` has one.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). 0 (default) gives pure differential privacy.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon. A multiple of it is taken
        where more exchanges would bring nothing.
    first_guess
        The first guess above 0 of the best expert's loss, summed over clients: at least 2^-20 and
        at most clients * horizon. None (default): the threshold.
    early
        Whether there are also exchanges in the first `every` rounds. Default: yes.
    plan
        What experts may choose themselves, as for `SparseVector`: `threshold` is what an expert may
        lose beyond the guess, `switches` the draws for each guess. None (default): chosen from
        public values.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with (epsilon, delta). The server is trusted: it receives exact
    sums of losses. Proofs: `proofs/doubling.md#whole-algorithm` for delta = 0,
    `proofs/doubling.md#approximate-dp` for delta > 0.

    Examples
    --------
    >>> import hedgerow as hr
    >>> algorithm = hr.Doubling().build(hr.Setting(clients=10, experts=100, horizon=512))
    >>> print(algorithm.certificate.peer.curve.words())
    epsilon = 1, delta = 0
    >>> round(algorithm.parameters["first_guess"], 1)
    14.8

    References
    ----------
    Asi et al. 2023, Algorithm 2, with another test.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
        meanings={
            **SparseVector.traits.meanings,
            "switches": "largest number of changes of expert for each guess",
            "threshold": (
                "loss beyond the guess, summed over clients, at which a new expert is chosen"
            ),
            "first_guess": (
                "first guess above 0 of the best expert's loss, summed over clients; "
                "doubled when it fails"
            ),
            **MEANINGS,
            "regret_threshold": (
                "regret beyond the guess, summed over clients, at which a new expert is chosen"
            ),
        },
    )

    name: ClassVar[str] = "doubling"
    known: ClassVar[type[SparseVector]] = SparseVector

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    first_guess: float | None = None
    early: bool = True
    plan: Plan | None = None

    def __post_init__(self) -> None:
        self._same_budget()  # checks the parameters that both share
        if self.first_guess is not None and not self.first_guess >= LEAST:
            raise InvalidValue(f"Expected first_guess={self.first_guess!r} >= 2^-20.")

    def _same_budget(self) -> SparseVector:
        """`known` with the same parameters and a best loss of 0."""
        return self.known(**{name: getattr(self, name) for name in SHARED})

    def audit_variants(self) -> tuple[Doubling, ...]:
        """Variants whose tiny games have several guesses and come close to the certificate."""
        return (
            planned(
                self, {"switches": 2, "threshold": 1.0}, epsilon=24.0, every=1, first_guess=1.0
            ),
            planned(self, {"switches": 1, "threshold": 0.5}, epsilon=3.0, every=1, first_guess=1.0),
        )

    def resolve(self, setting: Setting) -> Algorithm:
        known = self._same_budget().build(setting)
        alike, most = known.server, float(setting.clients * setting.rounds)
        assert isinstance(alike, RecencySelector)
        margin = louder_margin(
            alike.threshold, alike.sparse, setting.experts, alike.schedule.count(setting.rounds)
        )
        first = self.first_guess
        if first is None:
            first = min(max(alike.threshold, self.least_guess(setting)), most)
        between("first_guess", first, LEAST, most)
        first = float(round_to_lattice(first))
        shared = {part.name: getattr(alike, part.name) for part in fields(alike)}
        server = Guesser(
            **shared,
            since=self.since(first, most, margin),
            regret_threshold=margin,
            first_guess=first,
            most=most,
        )
        return replace(
            known,
            name=self.name,
            server=server,
            certificate=recency_certificate(
                setting,
                server,
                Proof("doubling.md", "whole-algorithm"),
                Proof("doubling.md", "approximate-dp"),
                self.known.calibration,
            ),
            claims=replace(
                known.claims,
                regret_bound=self.proven_bound(setting, server),
                log_likelihood=server.log_likelihood,
            ),
            shortcuts=replace(known.shortcuts, advance=server.advance, switches_left=None),
            parameters={
                **known.parameters,
                **server.shown(),
                "first_guess": first,
            },
        )

    def least_guess(self, setting: Setting) -> float:
        """What the first guess above 0 is at least, if it is not given."""
        return LEAST

    def since(self, first: float, most: float, margin: float) -> int:
        """The first epoch, not 0, with tests of the regret."""
        return 1

    def proven_bound(self, setting: Setting, server: Guesser) -> BoundWithGoodExpert | None:
        """The proven bound on the regret, if there is one."""
        return None
