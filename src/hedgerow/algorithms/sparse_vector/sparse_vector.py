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
from typing import ClassVar

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert, current_expert, followed
from hedgerow.algorithms.shared.schedule import MEANINGS
from hedgerow.algorithms.shared.totals import check_interval
from hedgerow.algorithms.sparse_vector.plan import Constants, Plan, planned, rule
from hedgerow.algorithms.sparse_vector.recency import (
    RecencySelector,
    build_server,
    recency_certificate,
)
from hedgerow.core.certificate import Proof
from hedgerow.core.errors import InvalidValue
from hedgerow.core.limits import Broadcasts
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget, parameters

SHARED = ("epsilon", "delta", "every", "early", "plan")
"""The parameters that algorithms built on it take over; their best loss begins at 0."""


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
        Rounds between two exchanges (N): from 1 (default) to the horizon. A multiple of it is taken
        where more exchanges would bring nothing.
    best_loss
        The total loss L* of the best expert per client, >= 0 (default 0). It must be known
        beforehand; a value computed from the data is not covered by the guarantee. It raises the
        threshold, but by less than m L*. If the best expert loses more, a larger epsilon may even
        raise the regret: use `Doubling`.
    early
        Whether there are also exchanges in the first `every` rounds, each about twice as late as
        the one before. True (default).
    plan
        What experts may choose themselves: `Plan(switches, threshold, front, draw)` of
        `hedgerow.algorithms.sparse_vector.plan`, in a study file a table. None (default): chosen
        from public values. No bound on the regret is proven; `ProvenSparseVector` in `papers/`
        has one.

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

    References
    ----------
    Gao et al. 2024, Algorithms 4 and 5. Asi et al. 2023, "Near-optimal algorithms for private
    online optimization in the realizable regime", Algorithm 1 (one client).
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"approximate": {"delta": 1e-6}},
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

    name: ClassVar[str] = "sparse_vector"
    calibration: ClassVar[str] = "certified"

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    best_loss: float = 0.0
    early: bool = True
    plan: Plan | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("every", self.every, 1)
        if not 0 <= self.best_loss < np.inf:
            raise InvalidValue(f"Expected best_loss={self.best_loss!r} >= 0 and finite.")
        known = self.plan is None or isinstance(self.plan, Plan)
        if not known:
            raise InvalidValue(f"Expected plan={self.plan!r} to be a Plan or None.")

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
        constants = self.constants(setting)
        server = self.server(setting, constants)
        pure, approximate = (
            Proof("sparse_vector.md", anchor)
            for anchor in ("weights-by-recency", "columns-with-delta")
        )
        return followed(
            name=self.name,
            setting=setting,
            server=server,
            certificate=recency_certificate(setting, server, pure, approximate, self.calibration),
            broadcasts=Broadcasts(CurrentExpert, current_expert(server.schedule, setting)),
            regret_bound=self.proven_bound(setting, server),
            parameters={
                **server.shown(),
                "front": constants.front,
                **server.schedule.shown(setting),
            },
        )

    def constants(self, setting: Setting) -> Constants:
        """The constants of the server: those that the plan does not give are chosen."""
        given = {} if self.plan is None else parameters(self.plan)
        given = {name: value for name, value in given.items() if value is not None}
        return replace(self.chosen(setting), **given)

    def chosen(self, setting: Setting) -> Constants:
        """The constants without a plan, from public values."""
        return rule(
            setting,
            epsilon=self.epsilon,
            delta=self.delta,
            every=self.every,
            early=self.early,
            best_loss=self.best_loss,
        )

    def server(self, setting: Setting, constants: Constants) -> RecencySelector:
        """The server with these constants."""
        return build_server(setting, constants, self.epsilon, self.delta)

    def proven_bound(self, setting: Setting, server: RecencySelector) -> BoundWithGoodExpert | None:
        """The proven bound on the regret, if there is one."""
        return None
