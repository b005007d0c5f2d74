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
from math import exp, expm1, log
from typing import ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.sparse_vector.plan import Plan, planned
from hedgerow.algorithms.sparse_vector.proved import (
    REL,
    STEP,
    EpochRuns,
    Game,
    chance_of_end,
    epochs_bound,
)
from hedgerow.algorithms.sparse_vector.recency import RecencySelector, recency_certificate
from hedgerow.algorithms.sparse_vector.regret_test import MEANINGS, RegretSelector, louder_margin
from hedgerow.algorithms.sparse_vector.sparse_vector import SHARED, SparseVector
from hedgerow.core.certificate import Proof
from hedgerow.core.lattice import UNITS_PER_LOSS, round_to_lattice
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow.core.validate import between, expect, one_of
from hedgerow.privacy.mechanisms import ExponentialMechanism

Calibration = Literal["certified", "proved"]
LEAST = 2.0**-20  # the smallest guess above 0: one step of the lattice
MOST_GUESSES = 16  # that the regret bound follows; what comes later is given up


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


def first_large(first: float, most: float, large: float) -> int:
    """The first epoch, not 0, whose guess is at least `large`, or cannot grow.

    >>> [first_large(3.0, 20.0, large) for large in (0.0, 5.0, 100.0)]
    [1, 2, 4]
    """
    epoch = 1
    while guessed(epoch, first, most) < min(large, most):
        epoch += 1
    return epoch


def false_alarm(sparse_epsilon: float, reserve: float) -> float:
    """Bounds the probability that query noise exceeds the threshold noise by more than `reserve`.

    Both are exponential, perhaps rounded down to the lattice (`proofs/doubling.md#lattice`).

    >>> false_alarm(1.0, 0.0) > 0.5 > false_alarm(1.0, 0.01)
    True
    """
    return exp(sparse_epsilon * (STEP - reserve)) / 2


def wrong_doubling(
    *,
    experts: int,
    exchanges: int,
    switches: int,
    margin: float,
    sparse_epsilon: float,
    selection_epsilon: float,
) -> float:
    """Bounds the probability that an epoch ends although some expert loses no more than its guess.

    The bound is the minimum over `part`, the share of the margin that is reserved for query noise:
    `proofs/doubling.md#soundness`. `selection_epsilon` is the smallest weight of a run's losses. It
    holds for real noise and for noise on the lattice.

    >>> bound = wrong_doubling(
    ...     experts=100,
    ...     exchanges=512,
    ...     switches=16,
    ...     margin=60.0,
    ...     sparse_epsilon=0.5,
    ...     selection_epsilon=0.5,
    ... )
    >>> bound < 0.01
    True
    """
    least = 1.0
    for part in np.linspace(0.0, 1.0, 101)[:-1]:
        alarms = exchanges * false_alarm(sparse_epsilon, part * margin)
        lost = -expm1(-selection_epsilon * (1 - part) * margin / 2)
        unlucky = exp(min(0.0, log(experts) + (switches - 1) * log(1 - lost / 2)))
        least = min(least, (alarms + unlucky) * (1 + REL))
    return least


@dataclass(frozen=True)
class Doubling(AlgorithmSpec):
    """Sparse vector for an unknown best loss: guess it, and double the guess when it fails.

    Use it when some expert is rarely wrong but no bound on its loss is known. All parameters are
    chosen from public values, as `SparseVector` chooses them for a best loss of 0. So both play
    alike until the first guess (0) fails.

    With `calibration="proved"` the expected regret is bounded for *every* loss of the best expert:
    `regret_at_most`. The bound that a certificate shows is for an expert that never loses.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). 0 (default) gives pure differential privacy.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon. The certified calibration
        takes a multiple of it where more exchanges would bring nothing.
    first_guess
        The first guess above 0 of the best expert's loss, summed over clients: at least 2^-20 and
        at most clients * horizon. None (default): the threshold; with calibration="proved" at least
        clients * every.
    early
        Whether there are also exchanges in the first `every` rounds. Default: yes.
    plan
        What experts may choose themselves, as for `SparseVector`: `threshold` is what an expert may
        lose beyond the guess, `switches` the draws for each guess. With draw="exponential" and
        front=0 the parameters state how likely a right guess is doubled. None (default): chosen
        from public values.
    calibration
        "certified" (default), or "proved": the constants of `SparseVector(calibration="proved")`.
        Then the regret and the chance that a right guess is doubled have proven bounds, and `front`
        and `draw` of the plan must be None.

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
    >>> proved = hr.Doubling(epsilon=10.0, calibration="proved")
    >>> 10 < proved.build(algorithm.setting).regret_at_most < 11
    True
    >>> 30 < proved.regret_at_most(algorithm.setting, best_loss=1.0) < 45
    True

    References
    ----------
    Asi et al. 2023, Algorithm 2, with another test.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"proved": {"calibration": "proved"}, "approximate": {"delta": 1e-6}},
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
            "wrong_doubling_at_most": (
                "bound on the probability that a correct guess is doubled; does not affect privacy"
            ),
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    first_guess: float | None = None
    early: bool = True
    plan: Plan | None = None
    calibration: Calibration = "certified"

    def __post_init__(self) -> None:
        one_of(self, calibration=get_args(Calibration))
        self._same_budget()  # checks the parameters that both share
        if self.first_guess is not None:
            expect(self.first_guess >= LEAST, "first_guess", self.first_guess, ">= 2^-20")

    def _same_budget(self) -> SparseVector:
        """`SparseVector` with the same parameters and a best loss of 0."""
        return SparseVector(**{name: getattr(self, name) for name in SHARED})

    def audit_variants(self) -> tuple[Doubling, ...]:
        """Variants whose tiny games have several guesses and come close to the certificate."""
        return (
            planned(
                self, {"switches": 2, "threshold": 1.0}, epsilon=24.0, every=1, first_guess=1.0
            ),
            planned(self, {"switches": 1, "threshold": 0.5}, epsilon=3.0, every=1, first_guess=1.0),
        )

    def regret_at_most(self, setting: Setting, best_loss: float) -> float:
        """The proven bound on the expected regret per client if one expert loses little.

        Needs `calibration="proved"`. Proof: `proofs/sparse_vector_regret.md#epochs-that-differ`.

        Parameters
        ----------
        setting
            The size of the game.
        best_loss
            What the best expert may lose per client, in [0, horizon]. It is not used to play.
        """
        rule = "to be 'proved': only then is a bound proven"
        expect(self.calibration == "proved", "calibration", self.calibration, rule)
        between("best_loss", best_loss, 0.0, float(setting.rounds))
        server = self.build(setting).server
        assert isinstance(server, Guesser)
        return _regret_at_most(server, setting, best_loss)

    def resolve(self, setting: Setting) -> Algorithm:
        known = self._same_budget().build(setting)
        alike, most = known.server, float(setting.clients * setting.rounds)
        assert isinstance(alike, RecencySelector)
        margin = louder_margin(
            alike.threshold, alike.sparse, setting.experts, alike.schedule.count(setting.rounds)
        )
        proved = self.calibration == "proved"
        first = self.first_guess
        if first is None:
            first = max(alike.threshold, float(setting.clients * self.every) if proved else LEAST)
            first = min(first, most)
        between("first_guess", first, LEAST, most)
        first = float(round_to_lattice(first))
        shared = {part.name: getattr(alike, part.name) for part in fields(alike)}
        since = first_large(first, most, margin) if proved else 1
        server = Guesser(
            **shared, since=since, regret_threshold=margin, first_guess=first, most=most
        )
        return replace(
            known,
            name="doubling",
            server=server,
            certificate=recency_certificate(
                setting,
                server,
                Proof("doubling.md", "whole-algorithm"),
                Proof("doubling.md", "approximate-dp"),
                self.calibration,
            ),
            regret_bound=None
            if self.calibration == "certified"
            else _regret_bound(server, setting),
            advance=server.advance,
            log_likelihood=server.log_likelihood,
            switches_left=None,  # a new epoch begins when they are used up
            parameters={
                **known.parameters,
                **server.shown(),
                "first_guess": first,
                **self._soundness(server, setting),
            },
        )

    def _soundness(self, server: Guesser, setting: Setting) -> dict[str, float]:
        """The bound on wrong doublings, where it is proven."""
        even = all(run.own == run.later for run in server.weights.columns[:-1])
        if not even or not isinstance(server.selection, ExponentialMechanism):
            return {}
        game = Game.of(setting, server.schedule)

        def ends(used: int) -> float:
            runs = server.runs(server.weights.columns, used)
            simple = wrong_doubling(
                experts=setting.experts,
                exchanges=game.exchanges,
                switches=server.switches,
                margin=runs.margin,
                sparse_epsilon=runs.sparse_epsilon,
                selection_epsilon=min(runs.weights),
            )
            return min(simple, chance_of_end(game, runs))

        wrong = max(ends(0), ends(server.since * server.switches))  # each has its own test
        return {"wrong_doubling_at_most": wrong} if wrong < 1 else {}


def _regret_at_most(server: Guesser, setting: Setting, best_loss: float) -> float:
    rounded = best_loss + setting.rounds / (2 * UNITS_PER_LOSS) if best_loss else 0.0
    begins = [epoch * server.switches for epoch in range(MOST_GUESSES)]
    columns = server.weights.columns
    epochs = tuple(EpochRuns(server.guess(used), server.runs(columns, used)) for used in begins)
    return epochs_bound(Game.of(setting, server.schedule, rounded), epochs)


def _regret_bound(server: Guesser, setting: Setting) -> BoundWithGoodExpert:
    value = _regret_at_most(server, setting, 0.0)
    proof = Proof("sparse_vector_regret.md", "epochs-that-differ")
    return BoundWithGoodExpert(value, "oblivious", proof, 0.0)
