"""Fed-SVT when the best expert's loss is not known: guess it, and double the guess when the switches of the guess are used up.

The adaptive algorithm of Asi et al. 2023 (Algorithm 2), federated, with another test. In print the loss of each new expert is
released with noise and compared with the guess; the comparison says "double" at once while the guess is small. Here nothing is
released for it: if some expert loses no more than the guess, the switches of an epoch hardly ever run out
(`proofs/doubling.md#soundness`), so when they do the guess was too low. The next epoch looks at fresh losses alone, and that is
why all epochs together cost as much privacy as one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, exp, expm1, log
from typing import ClassVar

import numpy as np

from hedgerow.algorithms.shared.following import CHANNELS
from hedgerow.algorithms.sparse_vector.restarting import EpochState, Restarting
from hedgerow.algorithms.sparse_vector.sparse_vector import Selector, SparseVector, cost
from hedgerow.core.certificate import Certificate, Proof, trusted_server
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.validate import between, positive


@dataclass(frozen=True)
class Guesser(Restarting):
    """The server: Fed-SVT on one guess of the best expert's loss after the other, 0 first.

    `threshold` is what a run may lose beyond the guess; `first_guess` is the first one above 0 and `most` the largest.
    """

    first_guess: float
    most: float

    def guess(self, switches: int) -> float:
        """The best expert's loss, summed over clients, as it is guessed after so many draws."""
        epoch = switches // self.switches
        return min(self.first_guess * 2.0 ** min(epoch - 1, 100), self.most) if epoch else 0.0

    def limit(self, switches: int) -> float:
        return self.guess(switches) + self.threshold

    def epoch_scores(self, state: EpochState) -> Array:
        return np.maximum(super().epoch_scores(state), self.guess(state.switches))


def wrong_doubling(
    *,
    experts: int,
    exchanges: int,
    switches: int,
    margin: float,
    sparse_epsilon: float,
    selection_epsilon: float,
) -> float:
    """A bound on the probability that an epoch ends although some expert loses no more than its guess.

    The least over `part`, the share of the margin that is left to query noise: `proofs/doubling.md#soundness`.

    >>> wrong_doubling(experts=100, exchanges=512, switches=16, margin=60.0, sparse_epsilon=0.5, selection_epsilon=0.5) < 0.01
    True
    """
    least = 1.0
    for part in np.linspace(0.0, 1.0, 101)[:-1]:
        alarms = exchanges * exp(-sparse_epsilon * part * margin) / 2
        lost = -expm1(-selection_epsilon * (1 - part) * margin / 2)
        unlucky = exp(min(0.0, log(experts) + (switches - 1) * log(1 - lost / 2)))
        least = min(least, alarms + unlucky)
    return least


@dataclass(frozen=True)
class Doubling(AlgorithmSpec):
    """Private federated experts for streams with a good expert whose loss is not known.

    `epsilon` and `delta` are the budget (delta = 0: pure), `every` the rounds between exchanges (N). Everything else is chosen
    from public values as `sparse_vector` chooses it for a best loss of 0, so the two play alike until the first guess fails;
    `switches` (for each guess) and `threshold` (what a run may lose beyond the guess) replace what is chosen. `first_guess` is
    the first guess above 0, for the sum over clients; by default what a run costs anyhow.

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = Doubling(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=512))
    >>> print(algorithm.certificate.guarantees[1].curve.words())
    epsilon = 1, delta = 0
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
        meanings={
            **SparseVector.traits.meanings,
            "switches": "changes of expert allowed for each guess",
            "threshold": "loss beyond the guess at which a new expert is chosen",
            "first_guess": "first guess above 0 of what the best expert loses at all sites together; doubled when it fails",
            "wrong_doubling_at_most": "chance that a right guess is doubled; not about privacy",
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    switches: int | None = None
    threshold: float | None = None
    first_guess: float | None = None

    def __post_init__(self) -> None:
        self._same_budget()  # checks what the two share
        if self.first_guess is not None:
            positive("first_guess", self.first_guess)

    def _same_budget(self) -> SparseVector:
        return SparseVector(
            self.epsilon, self.delta, self.every, switches=self.switches, threshold=self.threshold
        )

    def audit_variants(self) -> tuple[Doubling, ...]:
        """Loud versions whose tiny games, with several guesses in them, come close to the certificate."""
        return (
            replace(self, epsilon=24.0, switches=2, threshold=1.0, every=1, first_guess=1.0),
            replace(self, epsilon=3.0, switches=1, threshold=0.5, every=1, first_guess=1.0),
        )

    def build(self, setting: Setting) -> Algorithm:
        clients, experts, horizon = setting.clients, setting.experts, setting.horizon
        known = self._same_budget().build(setting)
        chosen, alike, most = known.parameters, known.server, float(clients * horizon)
        assert isinstance(alike, Selector)
        first = (
            min(max(alike.threshold, float(clients * self.every)), most)
            if self.first_guess is None
            else self.first_guess
        )
        between("first_guess", first, 0.0, most)
        first = float(round_to_lattice(first))
        server = Guesser(
            experts,
            self.every,
            alike.switches,
            alike.threshold,
            0.0,
            alike.sparse,
            alike.selection,
            first,
            most,
        )
        wrong = wrong_doubling(
            experts=experts,
            exchanges=ceil(horizon / self.every) - 1,
            switches=server.switches,
            margin=server.threshold,
            sparse_epsilon=1 / server.sparse.query_scale,
            selection_epsilon=server.selection.epsilon,
        )
        return replace(
            known,
            name="doubling",
            server=server,
            certificate=self._certificate(setting, server),
            advance=server.advance,
            log_likelihood=server.log_likelihood,
            parameters={**chosen, "first_guess": first, "wrong_doubling_at_most": wrong},
        )

    def _certificate(self, setting: Setting, server: Guesser) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=cost(server.switches, server.sparse, server.selection.epsilon, self.delta),
            proof=Proof("doubling.md", "whole-algorithm" if self.delta == 0 else "approximate-dp"),
            channels=CHANNELS,
            mechanisms=(server.sparse.threshold_noise, server.sparse.comparison, server.selection),
        )
