"""Audit cases by exact releases, for any algorithm and any two streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from hedgerow.audits.case import WHOLE, AuditCase, Data, Verdict
from hedgerow.audits.drawn import CUT
from hedgerow.audits.replay import loss_of
from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.noise import Noise, SeededNoise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.environments.recorded.losses import RecordedArray


def release_cases(
    algorithm: Algorithm,
    first: Data,
    second: Data,
    *,
    observer: Observer = Observer.SERVER,
    claim: str = WHOLE,
    parameters: Mapping[str, Any] | None = None,
    of: str = "",
) -> tuple[AuditCase, ...]:
    """A null case, the certificate on the worst pair, and too little noise, to be caught.

    Each noise is cut by a fifth in two ways: its mechanism has the smaller scale, or it states the
    right one and draws less.

    Parameters
    ----------
    algorithm
        The algorithm, built for the setting of the streams. Its mechanisms are fields of its roles.
    first, second
        The neighbouring streams on which most is shown: arrays or environments (`worst_pair`).
    observer
        The attacker.
    claim
        What is attacked. Use `RELEASES` where the observer does not see all releases; then the
        numbers are for one that does.
    parameters
        The parameters of the game that differ from the requested ones.
    of
        Words after the name of each case, where there are several of a kind.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> from hedgerow.audits.cases.releases import release_cases
    >>> algorithm = hr.PhasedSelection(trust="local").build(hr.Setting(1, 2, 2))
    >>> first, second = np.zeros((2, 1, 2)), np.ones((2, 1, 2))
    >>> [(case.name, case.expected) for case in release_cases(algorithm, first, second)]
    [('null: the same releases twice', 'holds'),
     ('all releases', 'holds'),
     ('all releases, four fifths of the noise', 'violated'),
     ('all releases, a fifth less noise drawn than stated', 'violated')]
    """
    certified = algorithm.certificate.guarantee(observer).curve

    def case(name: str, audited: Algorithm, other: Data, expected: Verdict) -> AuditCase:
        return AuditCase(
            name + of,
            claim,
            audited,
            certified,
            first,
            other,
            method="exact releases",
            delta=stated_delta(certified),
            observer=observer,
            expected=expected,
            parameters={} if parameters is None else parameters,
        )

    found = mechanisms_of(algorithm)
    if not found:
        raise InvalidValue(
            f"No field of the client or the server of {algorithm.name} is a mechanism. Make its"
            " mechanisms fields, so that an audit can plant too little noise."
        )
    planted = list[AuditCase]()
    for role, name, mechanism in found:
        which = f" of {mechanism.purpose!r}" if len(found) > 1 else ""
        for text, bad in (
            (f"all releases, four fifths of the noise{which}", mechanism.scaled(CUT)),
            (f"all releases, a fifth less noise{which} drawn than stated", quiet(mechanism)),
        ):
            planted.append(
                case(text, with_mechanism(algorithm, role, name, bad), second, "violated")
            )
    return (
        case("null: the same releases twice", algorithm, first, "holds"),
        case("all releases", algorithm, second, "holds"),
        *planted,
    )


def stated_delta(curve: PrivacyCurve) -> float:
    """Return 0 if the curve is pure, otherwise the delta at which it is quoted.

    >>> from hedgerow.privacy.curves import GaussianDP, PureDP
    >>> stated_delta(PureDP(1.0)), stated_delta(GaussianDP(1.0))
    (0.0, 1e-06)
    """
    return 0.0 if isfinite(curve.epsilon(0.0)) else curve.stated()[1]


def mechanisms_of(algorithm: Algorithm) -> list[tuple[str, str, Mechanism]]:
    """Return the mechanisms that are fields of the client or the server: role, field, mechanism."""
    return [
        (role, part.name, mechanism)
        for role in ("client", "server")
        if is_dataclass(player := getattr(algorithm, role))
        for part in fields(player)
        if isinstance(mechanism := getattr(player, part.name), Mechanism)
    ]


def with_mechanism(algorithm: Algorithm, role: str, name: str, mechanism: Mechanism) -> Algorithm:
    """Return the algorithm with another mechanism and the same certificate.

    Fast paths and likelihoods are left out.
    """
    changed: dict[str, Any] = {role: replace(getattr(algorithm, role), **{name: mechanism})}
    return replace(
        algorithm,
        shortcuts=replace(algorithm.shortcuts, advance=None),
        claims=replace(algorithm.claims, log_likelihood=None),
        **changed,
    )


def less_noise(algorithm: Algorithm, factor: float) -> Algorithm:
    """Return the algorithm with `factor` times the noise of every mechanism."""
    for role, name, mechanism in mechanisms_of(algorithm):
        algorithm = with_mechanism(algorithm, role, name, mechanism.scaled(factor))
    return algorithm


class _Quiet:
    """The bug: draws with a fifth less noise than it states."""

    def sample(self, value: Any, noise: Noise) -> Any:
        own: Any = self
        return super(_Quiet, own.scaled(CUT)).sample(value, noise)  # pyright: ignore[reportAttributeAccessIssue]


def quiet(mechanism: Mechanism) -> Any:
    """Return the mechanism with a sampler that draws a fifth less noise than it states."""
    kind: Any = type(f"Quiet{type(mechanism).__name__}", (_Quiet, type(mechanism)), {})
    return kind(**{part.name: getattr(mechanism, part.name) for part in fields(mechanism)})  # pyright: ignore[reportArgumentType]


def worst_pair(
    algorithm: Algorithm, pairs: Iterable[tuple[Data, Data]], observer: Observer = Observer.SERVER
) -> tuple[Data, Data]:
    """Return the pair of streams of which the releases show most, at the stated delta."""
    delta = stated_delta(algorithm.certificate.guarantee(observer).curve)

    def shown(pair: tuple[Data, Data]) -> float:
        worlds = [RecordedArray(one) if isinstance(one, np.ndarray) else one for one in pair]
        played, other = worlds
        assert isinstance(played, Environment)
        assert isinstance(other, Environment)
        return loss_of(algorithm, observer, played, other, SeededNoise(0))[0].epsilon(delta)

    return max(pairs, key=shown)


def expert_pairs(setting: Setting) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield streams of losses 0 that differ in one loss vector of the first client, at extremes.

    It is in any round. It is 0 or 1 for all experts, or favours one half of them in one world and
    the other half in the other.
    """
    one_side = (np.arange(setting.experts) % 2).astype(float)
    for when in range(setting.rounds):
        for low in (np.zeros(setting.experts), one_side):
            first = np.zeros((setting.rounds, setting.clients, setting.experts))
            second = first.copy()
            first[when, 0], second[when, 0] = low, 1.0 - low
            yield first, second
