"""Fed-SVT: keep an expert until a noisy test finds its loss too high, then draw another privately.

At public exchanges the clients send the sums of their losses. The server tests q + noise > L +
noise, where q is the total loss of the current expert since it was drawn and L is the threshold. If
the test is positive, the server draws a new expert by its weighted losses.

* Printed (Gao et al. 2024, Algorithms 4 and 5; with one client Asi et al. 2023): all losses since
  the start have the same weight, and after `switches` draws the last expert is kept.
* Certified: recent losses weigh more, and after `switches` draws a new epoch begins on new losses.
  A loss vector pays only for the draws that it enters, so this costs no more privacy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log, log2, sqrt
from operator import attrgetter
from typing import ClassVar, Literal, get_args

import numpy as np

from hedgerow.algorithms.shared.following import CHANNELS, CurrentExpert, Follower, current_expert
from hedgerow.algorithms.shared.schedule import MEANINGS, Schedule
from hedgerow.algorithms.shared.totals import LossSums, check_interval, sums_of_losses
from hedgerow.algorithms.sparse_vector.plan import Draw, Plan, rule
from hedgerow.algorithms.sparse_vector.proved import Game, proved_plan, regret_bound
from hedgerow.algorithms.sparse_vector.recency import (
    RecencySelector,
    build_server,
    recency_certificate,
)
from hedgerow.algorithms.sparse_vector.selector import Selector, cost
from hedgerow.core.certificate import Certificate, Proof, trusted_server
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import UNITS_PER_LOSS, round_to_lattice
from hedgerow.core.protocol import ANY_CLOSING, Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget, expect, one_of
from hedgerow.privacy.curves import promise
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism

Calibration = Literal["certified", "proved", "published"]
Paper = Literal["gao2024", "asi2023"]
SHARED = (
    *("epsilon", "delta", "every", "switches", "threshold"),
    *("early", "front", "draw", "calibration"),
)
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
        than `best_loss`, a larger epsilon may even raise the regret: use `Doubling`. "published"
        uses the algorithm and the constants printed in the paper; the certificate states their true
        cost.
    paper
        Whose constants "published" uses. "gao2024": kappa = 3 ceil(log2 d) + 24 ln(1/rho) draws.
        "asi2023": 6 ceil(log2 d) + 24 ln(1/rho), and a smaller rate if delta > 0; they are printed
        for one client and are used for all clients together. None (default): "gao2024".
    rho
        The failure probability in the published constants, in (0, 1/2). It does not affect privacy.
    switches
        The number of draws (kappa), at least 1, after which a new epoch begins ("published":
        after which the last expert is kept). None (default): the calibration chooses.
    threshold
        The threshold L, >= 0, on the loss summed over clients. None (default): the calibration
        chooses. The certificate always follows the values that are used.
    early
        Whether there are also exchanges in the first `every` rounds, each about twice as late as
        the one before. None (default): yes, but not with "published".
    front
        The share of a run's budget, in [0, 1], that goes to the draw at its end alone; the rest is
        spread evenly over this and the later draws of the epoch. None (default): the calibration
        chooses. Only with "certified".
    draw
        "permute-and-flip" or "exponential" (the exponential mechanism). Permute-and-flip makes no
        use of delta. None (default): permute-and-flip if delta = 0. Only with "certified".

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proofs: `proofs/sparse_vector.md#weights-by-recency` for
    delta = 0, `proofs/sparse_vector.md#columns-with-delta` for delta > 0;
    `proofs/sparse_vector.md#whole-algorithm` and `proofs/sparse_vector.md#approximate-dp` for
    "published".

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
    >>> published = hr.SparseVector(epsilon=1.0, calibration="published").build(setting)
    >>> print(published.certificate.peer.curve.words())
    epsilon = 0.75, delta = 0
    >>> single = hr.SparseVector(calibration="published", paper="asi2023")
    >>> published.parameters["switches"], single.build(setting).parameters["switches"]
    (93, 114)

    References
    ----------
    Gao et al. 2024, Algorithms 4 and 5. Asi et al. 2023, "Near-optimal algorithms for private
    online optimization in the realizable regime", Algorithm 1 (one client).
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={
            "published": {"calibration": "published"},
            "proved": {"calibration": "proved"},
            "approximate": {"delta": 1e-6},
            "approximate, published": {"delta": 1e-6, "calibration": "published"},
        },
        meanings={
            "best_loss": "largest total loss of the best expert per client",
            "paper": "whose published constants are used",
            "rho": "probability of missing the published accuracy; does not affect privacy",
            "switches": "largest number of changes of expert, in each epoch if it restarts",
            "selection_epsilon": "largest epsilon of a private choice of an expert",
            "threshold": "loss, summed over clients, at which a new expert is chosen",
            "threshold_scale": "scale of the noise on the threshold",
            "query_scale": "scale of the noise on each comparison with the threshold",
            "noise_law": "distribution of both noises",
            "front": "share of a run's budget for the choice at its end",
            "draw": "how the next expert is drawn",
            "printed_regret_bound": (
                "regret per client that the paper claims with probability 1 - O(rho)"
            ),
            **MEANINGS,
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    best_loss: float = 0.0
    calibration: Calibration = "certified"
    rho: float = 0.05
    switches: int | None = None
    threshold: float | None = None
    early: bool | None = None
    front: float | None = None
    draw: Draw | None = None
    paper: Paper | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("every", self.every, 1)
        expect(0 <= self.best_loss < np.inf, "best_loss", self.best_loss, ">= 0 and finite")
        draws, papers = (None, *get_args(Draw)), (None, *get_args(Paper))
        one_of(self, calibration=get_args(Calibration), draw=draws, paper=papers)
        expect(0 < self.rho < 0.5, "rho", self.rho, "in (0, 1/2)")
        if self.switches is not None:
            at_least("switches", self.switches, 1)
        if self.threshold is not None:
            expect(0 <= self.threshold < np.inf, "threshold", self.threshold, ">= 0 and finite")
        if self.front is not None:
            between("front", self.front, 0.0, 1.0)
        if self.paper is not None:
            rule = 'to be None unless calibration="published"'
            expect(self.calibration == "published", "paper", self.paper, rule)
        if self.calibration != "certified":
            rule = f"to be None with calibration={self.calibration!r}"
            for name in ("early", "front", "draw") if self.stops else ("front", "draw"):
                expect(getattr(self, name) is None, name, getattr(self, name), rule)

    @property
    def stops(self) -> bool:
        """Whether this is the printed algorithm, which stops after its last draw."""
        return self.calibration == "published"

    def audit_variants(self) -> tuple[SparseVector, ...]:
        """Variants whose tiny games have several runs and come close to the certificate."""
        return (
            replace(self, epsilon=24.0, switches=2, threshold=1.0, every=1, best_loss=0.0),
            replace(self, epsilon=36.0, switches=3, threshold=0.5, every=1, best_loss=0.5),
            replace(self, epsilon=3.0, switches=2, threshold=0.5, every=1, best_loss=0.0),
        )

    def resolve(self, setting: Setting) -> Algorithm:
        check_interval(self.every, setting)
        between("best_loss", self.best_loss, 0.0, float(setting.rounds))
        server = self._stopping(setting) if self.stops else self._restarting(setting)
        kept = {} if self.stops else {"front": self._plan(setting).front}
        if self._has_printed_bound:
            kept["printed_regret_bound"] = self.printed_bound(setting)
        return Algorithm(
            name="sparse_vector",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=self._certificate(setting, server),
            upload=LossSums,
            broadcast=CurrentExpert,
            broadcasts=current_expert(server.schedule, setting),
            supports=MASKS_AND_DELAYS,
            advance=server.advance,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            switches_left=server.switches_left if self.stops else None,
            regret_bound=self._regret_bound(setting, server),
            ranges=sums_of_losses(setting),
            closing=ANY_CLOSING,
            parameters={
                **server.shown(),
                **kept,
                **server.schedule.shown(setting),
            },
        )

    def _plan(self, setting: Setting) -> Plan:
        """The calibration's plan, with what the user has chosen."""
        budget = {"epsilon": self.epsilon, "delta": self.delta, "best_loss": self.best_loss}
        early = self.early is not False
        if self.calibration == "proved":
            budget["best_loss"] = self._rounded_best(setting)
            plan = proved_plan(setting, schedule=Schedule.of(self.every, early), **budget)
        else:
            plan = rule(setting, every=self.every, early=early, **budget)
        given = {name: getattr(self, name) for name in ("switches", "threshold", "front", "draw")}
        return replace(plan, **{name: value for name, value in given.items() if value is not None})

    def _restarting(self, setting: Setting) -> RecencySelector:
        server = build_server(setting, self._plan(setting), self.epsilon, self.delta)
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

    def _regret_bound(self, setting: Setting, server: Selector) -> BoundWithGoodExpert | None:
        """The proven bound; None outside its conditions."""
        if self.calibration != "proved" or not isinstance(server, RecencySelector):
            return None
        tested = server.runs(server.weights.columns, 0)
        # the floor is rounded up, and the threshold is counted from it
        game = Game.of(setting, server.schedule, server.floor / setting.clients)
        value = regret_bound(game, tested)
        proof = Proof("sparse_vector_regret.md", "theorem")
        return BoundWithGoodExpert(value, "oblivious", proof, self.best_loss)

    def _stopping(self, setting: Setting) -> Selector:
        switches, eta, threshold, sparse = self._printed(setting)
        return Selector(
            setting.experts,
            Schedule(self.every),
            switches,
            float(round_to_lattice(threshold if self.threshold is None else self.threshold)),
            float(round_to_lattice(setting.clients * self.best_loss)),
            sparse,
            ExponentialMechanism("selection", eta),
        )

    def _printed(self, setting: Setting) -> tuple[int, float, float, AboveThreshold]:
        each, spread = (6, 32) if self.paper == "asi2023" else (3, 1)
        kappa = each * ceil(log2(setting.experts)) + 24 * log(1 / self.rho)
        switches = self.switches or ceil(kappa)
        pure = self.delta == 0
        eta = (
            self.epsilon / (2 * switches)
            if pure
            else self.epsilon / sqrt(spread * switches * log(1 / self.delta))
        )
        wait = 8 * log(2 * (setting.rounds / self.every) ** 2 / self.rho) / self.epsilon
        printed = setting.clients * self.best_loss + wait + 4 / eta
        return switches, eta, printed, AboveThreshold("laplace", 4 / self.epsilon, 8 / self.epsilon)

    @property
    def _has_printed_bound(self) -> bool:
        """Whether a paper prints a bound for these choices; Asi et al. print it without constants.

        It is for the printed numbers of draws and the printed threshold only.
        """
        by_hand = (self.switches, self.threshold) != (None, None)
        return self.calibration == "published" and self.paper != "asi2023" and not by_hand

    def printed_bound(self, setting: Setting) -> float:
        """The bound at the end of the paper's proof of Theorem 2.6, before constants are hidden.

        It is for the printed constants, whatever the calibration is, and may exceed the horizon.

        >>> round(SparseVector(epsilon=10.0).printed_bound(Setting(10, 100, 512)))
        1025
        """
        switches, eta, _, _ = replace(self, switches=None)._printed(setting)
        wait = 16 * log(2 * (setting.rounds / self.every) ** 2 / self.rho) / self.epsilon
        run = setting.clients * (self.best_loss + self.every) + wait + 4 / eta
        return switches * run / setting.clients

    def _certificate(self, setting: Setting, server: Selector) -> Certificate:
        if isinstance(server, RecencySelector):
            pure, approximate = (
                Proof("sparse_vector.md", anchor)
                for anchor in ("weights-by-recency", "columns-with-delta")
            )
            return recency_certificate(setting, server, pure, approximate, self.calibration)
        return trusted_server(
            setting=setting,
            curve=cost(server.switches, server.sparse, server.selection.epsilon, self.delta),
            claimed=promise(self.epsilon, self.delta),
            proof=Proof(
                "sparse_vector.md", "whole-algorithm" if self.delta == 0 else "approximate-dp"
            ),
            calibration=self.calibration,
            channels=CHANNELS,
            mechanisms=(server.sparse.threshold_noise, server.sparse.comparison, server.selection),
            when_spent=(
                f"after {server.switches} changes of expert the clients keep the last one, "
                "and no more messages are sent"
            ),
        )
