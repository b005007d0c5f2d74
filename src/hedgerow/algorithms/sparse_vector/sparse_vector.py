"""Fed-SVT: keep an expert until a noisy test finds its loss too high, then draw another privately.

At public exchanges the clients send the sums of their losses. The server tests q + noise > L +
noise, where q is the total loss of the current expert since it was drawn and L is the threshold. If
the test is positive, the server draws a new expert by its weighted losses.

In the printed algorithm (Gao et al. 2024, Algorithms 4 and 5; with one client Asi et al. 2023) all
losses since the start have the same weight, and after `switches` draws the last expert is kept.
Here recent losses weigh more, and after `switches` draws a new epoch begins on new losses. A loss
vector pays only for the draws that it enters, so this costs no more privacy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from operator import attrgetter
from typing import ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert, Follower, current_expert
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import LossSums, check_interval, sums_of_losses
from hedgerow.algorithms.sparse_vector.plan import Constants, Plan, planned, rule
from hedgerow.algorithms.sparse_vector.proved import Game, proved_plan, regret_bound
from hedgerow.algorithms.sparse_vector.recency import (
    RecencySelector,
    build_server,
    recency_certificate,
)
from hedgerow.core.certificate import Proof
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.core.protocol import ANY_CLOSING, Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget, expect, one_of, parameters

Calibration = Literal["certified", "proved"]
SHARED = ("epsilon", "delta", "every", "calibration", "early", "plan")
"""The parameters that `Doubling` and `Potential` take over; their best loss begins at 0."""


@dataclass(frozen=True)
class SparseVector(AlgorithmSpec):
    r"""Keep an expert until a noisy test finds its loss too high, then draw a new one privately.

    Use it when some expert is rarely or never wrong and a bound on its loss is known. A new expert
    is drawn when $q + \mathrm{noise} > L + \mathrm{noise}$, where $q$ is the loss of the current
    expert since it was drawn, summed over all clients. Experts with small weighted losses are
    likely: recent losses weigh more, and after `switches` draws only new losses count.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). 0 (default) gives pure differential privacy.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon. The certified calibration
        takes a multiple of it where more exchanges would bring nothing.
    best_loss
        The total loss L* of the best expert per client, >= 0 (default 0). It must be known
        beforehand; a value computed from the data is not covered by the guarantee. The certified
        calibration raises the threshold by it, but by less than m L*.
    calibration
        "certified" (default) spends the budget by the tight proof, with weights by recency. It
        chooses all other parameters from public values; no bound on its regret is proven. "proved"
        minimises a proven regret bound for streams on which the best expert loses at most
        `best_loss` (`proofs/sparse_vector_regret.md`). With both, if the best expert loses more
        than `best_loss`, a larger epsilon may even raise the regret: use `Doubling`.
    early
        Whether there are also exchanges in the first `every` rounds, each about twice as late as
        the one before. True (default).
    plan
        What experts may choose themselves: `Plan(switches, threshold, front, draw)` of
        `hedgerow.algorithms.sparse_vector.plan`, in a study file a table. None (default): the
        calibration chooses.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proofs: `proofs/sparse_vector.md#weights-by-recency` for
    delta = 0, `proofs/sparse_vector.md#columns-with-delta` for delta > 0.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> algorithm = hr.SparseVector(epsilon=1.0, every=30).build(setting)
    >>> print(algorithm.certificate.peer.curve.words(), algorithm.parameters["exchanges"])
    epsilon = 1, delta = 0 22
    >>> proved = hr.SparseVector(epsilon=10.0, calibration="proved").build(setting)
    >>> 10.0 < proved.regret_at_most < 10.2
    True

    References
    ----------
    Gao et al. 2024, Algorithms 4 and 5. Asi et al. 2023, "Near-optimal algorithms for private
    online optimization in the realizable regime", Algorithm 1 (one client).
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={
            "proved": {"calibration": "proved"},
            "approximate": {"delta": 1e-6},
        },
        meanings={
            "best_loss": "largest total loss of the best expert per client",
            "switches": "largest number of changes of expert, in each epoch if it restarts",
            "selection_epsilon": "largest epsilon of a private choice of an expert",
            "threshold": "loss, summed over clients, at which a new expert is chosen",
            "threshold_scale": "scale of the noise on the threshold",
            "query_scale": "scale of the noise on each comparison with the threshold",
            "noise_law": "distribution of both noises",
            "front": "share of a run's budget for the choice at its end",
            "draw": "how the next expert is drawn",
            **MEANINGS,
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    best_loss: float = 0.0
    calibration: Calibration = "certified"
    early: bool = True
    plan: Plan | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("every", self.every, 1)
        expect(0 <= self.best_loss < np.inf, "best_loss", self.best_loss, ">= 0 and finite")
        one_of(self, calibration=get_args(Calibration))
        known = self.plan is None or isinstance(self.plan, Plan)
        expect(known, "plan", self.plan, "to be a Plan or None")
        if self.calibration != "certified" and self.plan is not None:
            rule = f"to be None with calibration={self.calibration!r}"
            for name in ("front", "draw"):
                expect(getattr(self.plan, name) is None, name, getattr(self.plan, name), rule)

    def audit_variants(self) -> tuple[SparseVector, ...]:
        """Variants whose tiny games have several runs and come close to the certificate."""
        return (
            planned(self, {"switches": 2, "threshold": 1.0}, epsilon=24.0, every=1, best_loss=0.0),
            planned(self, {"switches": 3, "threshold": 0.5}, epsilon=36.0, every=1, best_loss=0.5),
            planned(self, {"switches": 2, "threshold": 0.5}, epsilon=3.0, every=1, best_loss=0.0),
        )

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        between("best_loss", self.best_loss, 0.0, float(setting.rounds))
        server = self._server(setting)
        pure, approximate = (
            Proof("sparse_vector.md", anchor)
            for anchor in ("weights-by-recency", "columns-with-delta")
        )
        return Algorithm(
            name="sparse_vector",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=recency_certificate(setting, server, pure, approximate, self.calibration),
            upload=LossSums,
            broadcast=CurrentExpert,
            broadcasts=current_expert(server.schedule, setting),
            supports=MASKS_AND_DELAYS,
            advance=server.advance,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            regret_bound=self._regret_bound(setting, server),
            ranges=sums_of_losses(setting),
            closing=ANY_CLOSING,
            parameters={
                **server.shown(),
                "front": self._constants(setting).front,
                **server.schedule.shown(setting),
            },
        )

    def _constants(self, setting: Setting) -> Constants:
        """What the calibration chooses, and the plan of the user."""
        budget = {"epsilon": self.epsilon, "delta": self.delta, "best_loss": self.best_loss}
        if self.calibration == "proved":
            budget["best_loss"] = self._rounded_best(setting)
            found = proved_plan(setting, schedule=Schedule.of(self.every, self.early), **budget)
        else:
            found = rule(setting, every=self.every, early=self.early, **budget)
        given = {} if self.plan is None else parameters(self.plan)
        return replace(found, **{name: value for name, value in given.items() if value is not None})

    def _server(self, setting: Setting) -> RecencySelector:
        server = build_server(setting, self._constants(setting), self.epsilon, self.delta)
        if self.calibration == "certified":
            return server
        # so that the best expert keeps its full weight (`proofs/sparse_vector_regret.md#setting`)
        most = setting.clients * self._rounded_best(setting)
        return replace(server, floor=ceil(most * UNITS_PER_LOSS) / UNITS_PER_LOSS)

    def _rounded_best(self, setting: Setting) -> float:
        """The largest loss per client of the best expert after rounding to the lattice."""
        if self.best_loss == 0:
            return 0.0
        return self.best_loss + setting.rounds / (2 * UNITS_PER_LOSS)

    def _regret_bound(
        self, setting: Setting, server: RecencySelector
    ) -> BoundWithGoodExpert | None:
        """The proven bound; None outside its conditions."""
        if self.calibration != "proved":
            return None
        tested = server.runs(server.weights.columns, 0)
        # the floor is rounded up, and the threshold is counted from it
        game = Game.of(setting, server.schedule, server.floor / setting.clients)
        value = regret_bound(game, tested)
        proof = Proof("sparse_vector_regret.md", "theorem")
        return BoundWithGoodExpert(value, "oblivious", proof, self.best_loss)
