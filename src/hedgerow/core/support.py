"""Which games an algorithm supports, and what its certificate states there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from hedgerow.core.certificate import (
    PRESENCE_STAYS,
    PUBLIC_DELAYS,
    PUBLIC_PRESENCE,
    PUBLIC_SLEEP,
    with_public_mask,
)
from hedgerow.core.environment import Environment, Feature
from hedgerow.core.errors import Unsupported
from hedgerow.core.protocol import Algorithm

SHOWN_BY_THE_GAME = {
    Feature.SLEEPING_EXPERTS: (PUBLIC_SLEEP, ""),
    Feature.ABSENT_CLIENTS: (PUBLIC_PRESENCE, PRESENCE_STAYS),
    Feature.LATE_REPORTS: (PUBLIC_DELAYS, ""),
}


def require_exact_noise(algorithm: Algorithm, instead: str = "") -> None:
    """Raise unless every mechanism has an exact sampler (`exact = True`), as secure noise requires.

    `instead` names the choices that have one.
    """
    for mechanism in algorithm.certificate.mechanisms:
        if mechanism.exact is not True:
            hint = f" Choose {instead}." if instead else ""
            raise Unsupported(
                f"{algorithm.name} needs {type(mechanism).__name__}, "
                f"which has no exact sampler for secure noise.{hint}"
            )


def require_support(
    algorithm: Algorithm,
    environment: Environment,
    able: Callable[[Feature], Iterable[str]] | None = None,
) -> None:
    """Raise if the algorithm does not support a feature of the game, and name the feature.

    `able` returns the algorithms that support a feature, if the caller knows them.
    """
    for feature in sorted(
        environment.traits.features - algorithm.supports, key=lambda feature: feature.value
    ):
        others = (
            "`hedgerow list` shows which algorithms do"
            if able is None
            else f"choose one of {', '.join(able(feature))}"
        )
        raise Unsupported(f"{algorithm.name} does not support {feature.value}; {others}.")


def certified_for(algorithm: Algorithm, environment: Environment) -> Algorithm:
    """Return the algorithm with the certificate that holds in this game.

    The certificate states what the game itself reveals: which clients take part, which experts
    sleep, which reports are late. Bounds that are proven only for the plain game are removed.
    """
    require_support(algorithm, environment)
    features = environment.traits.features
    if not features and not environment.traits.sees_plays:
        return algorithm
    certificate = algorithm.certificate
    for feature, (assumption, narrower) in SHOWN_BY_THE_GAME.items():
        if feature in features:
            certificate = with_public_mask(certificate, assumption, narrower)
    plain_only = {
        name: value for name, value in algorithm.parameters.items() if not name.endswith("_at_most")
    }
    bound = None if Feature.LATE_REPORTS in features else algorithm.regret_bound
    return replace(algorithm, certificate=certificate, parameters=plain_only, regret_bound=bound)
