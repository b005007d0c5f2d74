"""Private combination of forecasts: weights are learned from one randomised bit for each target.

Forecasters combine, they do not pick. Forecasts are public, and what came true is secret. For the
absolute error the secret part of a gradient is one bit: was the combination too high? It is sent by
randomised response. Each target enters one bit, so nothing adds up over rounds, nobody is trusted,
and no horizon is needed. Proofs: `proofs/private_mixture.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hedgerow.algorithms.mixture.games import combination_games
from hedgerow.algorithms.mixture.home import AtHome
from hedgerow.algorithms.mixture.roles import Answer, Answering, Learning, Weights
from hedgerow.algorithms.shared.noisy_reports import noisy_reports
from hedgerow.core.certificate import Channel, Proof, not_private, with_private_plays
from hedgerow.core.combination import Combination, PublicForecasts, QuantileCombination
from hedgerow.core.domain import Simplex
from hedgerow.core.environment import Feature
from hedgerow.core.games import Games
from hedgerow.core.limits import ANY_CLOSING, Allowed, Between, Broadcasts, Points, Range, Uploads
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.validate import check_budget
from hedgerow.privacy.mechanisms import RandomisedResponse

PROOF = "private_mixture.md"
PUBLIC = {
    "Answer.forecasts": Channel.UPLOADS,
    "Answer.middle": Channel.UPLOADS,
    "Weights.rounds": Channel.TIMING,
    "Weights.point": Channel.BROADCASTS,
}
SUPPORTS = frozenset({Feature.ABSENT_CLIENTS, Feature.LATE_REPORTS})
FAMILIES = (Combination, QuantileCombination)


@dataclass(frozen=True)
class PrivateMixture(AlgorithmSpec):
    r"""Combine public forecasts with weights learned from one randomised bit for each target.

    After each round a client says whether the combination was too high; the answer is turned with
    chance $1/(1 + e^\varepsilon)$. Weights are exponential in noisy sums of gradients, shrunk
    towards the plain average as far as these may be noise.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    at_home
        True: every client mixes the public combination with its own learner, and keeps what it
        plays at home. That costs no privacy, and no observer sees plays. False (default): clients
        play the public combination, and anybody may see it.

    Guarantee
    ---------
    One target of one client in one round is protected with epsilon and delta = 0, from every
    observer together: the server, even if it lies, all other clients and the public. Forecasts are
    not protected. There is no horizon. Proof: `proofs/private_mixture.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=53, experts=12, horizon=None, family=hr.Combination())
    >>> algorithm = hr.PrivateMixture(epsilon=1.0).build(setting)
    >>> algorithm.certificate.server.curve.stated(), algorithm.certificate.trust
    ((1.0, 0.0), 'local')
    >>> algorithm.certificate.public.unit.words()
    'one target of one client in one round (forecasts are public)'

    References
    ----------
    Warner 1965 (randomised response); Wintenberger 2017 and Gaillard et al. (mixtures of
    forecasters); James and Stein 1961 (shrinkage).
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"at home": {"at_home": True}},
        anytime=True,
        families=FAMILIES,
        family=Combination(),
        meanings={
            "turned": "chance that an answer is turned",
            "gain": "what an answer is multiplied by, so that it is right on average",
        },
    )

    epsilon: float = 1.0
    at_home: bool = False

    def __post_init__(self) -> None:
        check_budget(self.epsilon, 0.0)

    def resolve(self, setting: Setting) -> Algorithm:
        response = RandomisedResponse("answer", self.epsilon)
        certificate = noisy_reports(
            setting=setting,
            reporting=response,
            report="Answer.sign",
            announced=PUBLIC,
            curve=response.curve,
            proof=Proof(PROOF, "privacy"),
            composition="sum",
            entered=1,
            separate=True,
        )
        family = _family(setting)
        gain = response.gain
        # a rounded slope has a variance of up to 1 by itself, and a wider moment bound
        spare = gain**2 - (1.0 if family.jumps else 0.0)
        variance = 2 * gain / self.epsilon if family.jumps else gain**2
        exact = Learning.exact(family, setting.experts)
        client: Answering = Answering(setting.experts, family, response)
        if self.at_home:
            certificate = with_private_plays(certificate)
            client = AtHome(setting.experts, family, response)
        return Algorithm(
            name="private_mixture",
            setting=setting,
            client=client,
            server=replace(exact, gain=gain, spare=spare, variance=variance),
            certificate=certificate,
            uploads=Uploads(Answer, _ranges(setting), combine="each", closing=ANY_CLOSING),
            broadcasts=Broadcasts(Weights, _broadcasts(setting)),
            plays="point",
            supports=SUPPORTS,
            claims=Claims(free_noise=frozenset({"level", "rounding"})),
            parameters={"turned": response.turned, "gain": gain},
        )

    def games(self) -> Games:
        """Return games of combinations: neighbours differ in one target."""
        return combination_games()


@dataclass(frozen=True)
class Mixture(AlgorithmSpec):
    """Combine public forecasts as `PrivateMixture` does, but with exact answers. Not private.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=53, experts=12, horizon=None, family=hr.Combination())
    >>> hr.Mixture().build(setting).certificate.trust
    'none'
    """

    traits: ClassVar[SpecTraits] = SpecTraits(anytime=True, families=FAMILIES, family=Combination())

    def resolve(self, setting: Setting) -> Algorithm:
        reason = "clients send the server exact slopes, which show on which side a target lies"
        channels = {"Answer.sign": Channel.UPLOADS, **PUBLIC}
        return Algorithm(
            name="mixture",
            setting=setting,
            client=Answering(setting.experts, _family(setting)),
            server=Learning.exact(_family(setting), setting.experts),
            certificate=not_private(reason, channels, setting.family.record),
            uploads=Uploads(Answer, _ranges(setting), combine="each"),
            broadcasts=Broadcasts(Weights, _broadcasts(setting)),
            plays="point",
            supports=SUPPORTS,
            claims=Claims(free_noise=frozenset({"level"})),
        )

    def games(self) -> Games:
        """Return games of combinations."""
        return combination_games()


def _family(setting: Setting) -> PublicForecasts:
    assert isinstance(setting.family, PublicForecasts)
    return setting.family


def _broadcasts(setting: Setting) -> dict[str, Allowed]:
    """What an honest server sends: one round, and weights."""
    return {"rounds": Between(1, 1), "point": Points(Simplex(), setting.experts)}


def _ranges(setting: Setting) -> dict[str, Range]:
    """Where honest answers lie: forecasts minus their mean are no longer than before."""
    family = _family(setting)
    longest, middles = 2 * family.longest, [(low + high) / 2 for low, high in family.slopes]

    def within(width: int | None, low: float, high: float) -> Range:
        return Range(width, low, high, per_round=False, exact=False)

    return {
        "sign": within(None, -1.0, 1.0),
        "forecasts": within(setting.experts, -longest, longest),
        "middle": within(None, min(middles), max(middles)),
    }
