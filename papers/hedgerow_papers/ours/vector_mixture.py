"""Combination of forecasts in vector mode: Gaussian noise on running sums of whole gradients.

`private_mixture` hides one bit for each target, and trusts nobody. Where many clients trust a
server, or a server that sees sums only, whole gradients can be summed instead: centred, clipped,
with noise that is correlated over rounds. It loses on the flu data (`docs/tried.md`), so it is here
for comparison, and no page recommends it. Proof: `proofs/vector_mixture.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar, get_args

import numpy as np

from hedgerow.algorithms.correlated.decoding import DecodingServer, DecodingState, sums_certificate
from hedgerow.algorithms.gradient.clipped import finite
from hedgerow.algorithms.gradient.noisy_ftrl import (
    ANNOUNCED,
    Following,
    FTRLClientState,
    Gradients,
    Leader,
)
from hedgerow.algorithms.mixture.games import combination_games
from hedgerow.algorithms.mixture.private_mixture import FAMILIES
from hedgerow.algorithms.mixture.roles import shrunk_weights
from hedgerow.algorithms.shared.noisy_reports import Trust, check_honest, gaussian_noise
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.certificate import Proof
from hedgerow.core.combination import Combination
from hedgerow.core.domain import Simplex
from hedgerow.core.errors import InvalidValue
from hedgerow.core.games import Games
from hedgerow.core.lattice import Array, clip_to_lattice
from hedgerow.core.limits import ANY_CLOSING, WAIT_ONLY, Broadcasts, Planned, Points, Range, Uploads
from hedgerow.core.noise import Noise
from hedgerow.core.protecting import with_own_pattern
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit
from hedgerow.core.validate import check_budget, gaussian_delta, one_of, positive
from hedgerow.privacy.budget import Budget
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.kinds import Kind, check_kind, factorise
from hedgerow.running_sums.lattice import LatticeEncoder

PROOF = Proof("vector_mixture.md", "privacy")
EACH_ROUND = Schedule(1)


def centred(gradients: Array) -> Array:
    """Gradients minus their mean, which moves no weights; zeros for those that are not finite.

    >>> centred(np.array([[3.0, 1.0], [np.inf, 0.0]])).tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """
    found = finite(gradients)
    with np.errstate(over="ignore", invalid="ignore"):  # then they count as not finite
        return finite(found - found.mean(axis=-1, keepdims=True))


class Summing(Following):
    """Plays the weights of the server and adds up gradients that are centred, then clipped."""

    def observe_many(self, state: FTRLClientState, reports: Array, noise: Noise) -> FTRLClientState:
        gradients = centred(self.family.gradient(reports, state.point))
        added = clip_to_lattice(gradients, self.clip).sum(axis=0)  # exact, in any order
        return replace(state, gradients=state.gradients + added)


@dataclass(frozen=True, kw_only=True)
class Weighing(DecodingServer):
    """Weighs forecasters by the decoded sums, shrunk as far as these may be noise.

    `largest` is how long a coordinate of the sum of one round is if nobody is clipped less than all
    others, and `deviations` are those of the noise of the decoded sums, after each exchange.
    """

    largest: float
    deviations: tuple[float, ...]

    def open(self, noise: Noise) -> tuple[Leader, DecodingState]:
        return Leader(EACH_ROUND.wait(0), Simplex().centre(self.width)), self.start()

    def aggregate(
        self, state: DecodingState, uploads: Gradients, noise: Noise
    ) -> tuple[Leader, DecodingState]:
        sums, after = self.running_sums(state, uploads.gradients, noise)
        squares = np.full(self.width, self.largest**2 * after.exchanges)
        left = 1 - 1 / self.width  # of the variance of the noise, once it is centred
        hidden = np.full(self.width, left * self.deviations[state.exchanges] ** 2)
        point = shrunk_weights(sums - sums.mean(), squares, hidden)
        return Leader(EACH_ROUND.wait(after.exchanges), point), after


@dataclass(frozen=True)
class VectorMixture(AlgorithmSpec):
    r"""Combine public forecasts with weights learned from private running sums of gradients.

    In every round a client adds the gradient of its charge at the weights that are played, centred
    and clipped. The sums of all clients are filtered, released with Gaussian noise and decoded.
    Weights are exponential in the decoded sums, shrunk towards the plain average as far as these
    may be noise.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in (0, 1). Default 1e-6: Gaussian noise needs one.
    trust
        "central" (default): the server receives exact sums, filters them and adds the noise.
        "distributed": every client filters its gradients and adds a share of the noise, and the
        server sees only the sum of all uploads. "local": every client filters its gradients and
        adds all the noise that protects it.
    clip
        The longest centred gradient, in [2^-20, 2^30]; longer ones are shortened. Default 0.125,
        the best of three on the flu data, in hindsight.
    factorisation
        Which noise: "dense" (default), or another name as for `hr.NoisyFTRL`.
    honest
        The number of clients whose shares of noise must be enough. None (default): clients - 1.
        Only with trust="distributed".

    Guarantee
    ---------
    One target of one client in one round is protected with (epsilon, delta), although its gradient
    enters all later releases. "central": from the public and from other clients, even if all of
    them collude; the server is trusted. "distributed": from every observer, the server included, if
    only the sum of the uploads is visible and `honest` clients keep their shares secret. "local":
    from every observer, even if all other clients collude. Proof:
    `proofs/vector_mixture.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> from hedgerow_papers.ours.vector_mixture import VectorMixture
    >>> setting = hr.Setting(clients=53, experts=12, horizon=56, family=hr.Combination())
    >>> for trust in ("central", "distributed", "local"):
    ...     built = VectorMixture(trust=trust).build(setting)
    ...     print(trust, round(built.parameters["deviation"], 1))
    central 2.4
    distributed 2.4
    local 17.4
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"distributed": {"trust": "distributed"}, "local": {"trust": "local"}},
        families=FAMILIES,
        family=Combination(),
        meanings={
            "clip": "longest centred gradient; longer ones are shortened",
            "factorisation": "how the noise of the running sums is correlated",
            "deviation": "largest standard deviation of the noise of a running sum",
            "honest": "number of clients whose shares of noise are enough",
        },
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    trust: Trust = "central"
    clip: float = 0.125
    factorisation: Kind | Factorisation = "dense"
    honest: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        gaussian_delta(self.delta)
        one_of(self, trust=get_args(Trust))
        check_honest(self.trust, self.honest)
        check_kind(self.factorisation)
        positive("clip", self.clip)
        if not 2.0**-20 <= self.clip <= 2.0**30:
            raise InvalidValue(f"Expected clip={self.clip!r} in [2^-20, 2^30]: use other units.")

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        return with_own_pattern(self, unit, setting)

    def resolve(self, setting: Setting) -> Algorithm:
        check_honest(self.trust, self.honest, setting)
        width, clients, central = setting.experts, setting.clients, self.trust == "central"
        factors = factorise(self.factorisation, EACH_ROUND.count(setting.rounds) + 1)
        encoder = LatticeEncoder(factors, width, self.clip * (clients if central else 1))
        # one target moves one gradient by at most 2 clip; the sensitivity is that of all releases
        # together, so the curve of the mechanism is that of the whole game
        budget, pattern = Budget(self.epsilon, self.delta), self.pattern(setting)
        moved = encoder.sensitivity(2 * self.clip, *pattern)
        mechanism = gaussian_noise(self.trust, "gradients", budget, moved, clients, self.honest)
        deviations = (
            mechanism.scale * (1.0 if central else sqrt(clients)) * factors.error_by_round()
        )
        client = Summing(width, setting.family, self.clip)
        server = Weighing(
            width,
            EACH_ROUND,
            factors,
            largest=clients * self.clip / sqrt(width),
            deviations=tuple(deviations.tolist()),
        )
        if central:
            server = replace(server, encoder=encoder, releasing=mechanism)
        else:
            client = replace(client, encoder=encoder, reporting=mechanism)
        reach = Range(width, -self.clip, self.clip)
        return Algorithm(
            name="vector_mixture",
            setting=setting,
            client=client,
            server=server,
            certificate=sums_certificate(
                setting=setting,
                mechanism=mechanism,
                central=central,
                delta=self.delta,
                upload="Gradients.gradients",
                announced=ANNOUNCED,
                proof=PROOF,
                sent="sums of gradients",
            ),
            uploads=Uploads(
                Gradients,
                {"gradients": reach if central else Range.noisy(width)},
                closing=ANY_CLOSING if central and pattern[0] == 1 else WAIT_ONLY,
            ),
            broadcasts=Broadcasts(
                Leader, {"rounds": Planned(EACH_ROUND), "point": Points(Simplex(), width)}
            ),
            plays="point",
            parameters={"deviation": float(deviations.max())},
        )

    def games(self) -> Games:
        """Return games of combinations: neighbours differ in one target."""
        return combination_games()
