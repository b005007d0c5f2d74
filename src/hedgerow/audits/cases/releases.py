"""Audit cases by replayed releases, for any algorithm and any two streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from math import isfinite
from typing import Any

from hedgerow.audits.case import WHOLE, AuditCase, Data, Verdict
from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.protocol import Algorithm


def release_cases(
    algorithm: Algorithm,
    first: Data,
    second: Data,
    *,
    delta: float | None = None,
    runs: int = 1000,
    observer: Observer = Observer.SERVER,
    broken: Algorithm | None = None,
    parameters: Mapping[str, Any] | None = None,
    of: str = "",
) -> tuple[AuditCase, ...]:
    """A null case, the whole certificate on the worst pair, and half the noise, to be caught.

    Parameters
    ----------
    algorithm
        The algorithm, built for the setting of the streams.
    first, second
        The neighbouring streams on which most is shown: arrays or environments.
    delta
        The delta at which curves are compared. None: 0 for a pure claim, otherwise a delta at
        which a thousand runs show much (`readable_delta`).
    runs
        The number of runs in each world, of a millisecond or two each.
    observer
        The attacker. It must see the releases, or half the noise cannot be caught.
    broken
        The algorithm with half of the noise. None: every mechanism that is a field of the client
        (of the server, if the client has none) has half of its noise.
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
     ('all releases, half the noise', 'violated')]
    """
    certified = algorithm.certificate.guarantee(observer).curve
    read_at = readable_delta(certified) if delta is None else delta

    def case(name: str, audited: Algorithm, other: Data, expected: Verdict) -> AuditCase:
        return AuditCase(
            name + of,
            WHOLE,
            audited,
            certified,
            first,
            other,
            method="replayed releases",
            runs=runs,
            delta=read_at,
            observer=observer,
            expected=expected,
            parameters={} if parameters is None else parameters,
        )

    half = less_noise(algorithm, 0.5) if broken is None else broken
    return (
        case("null: the same releases twice", algorithm, first, "holds"),
        case("all releases", algorithm, second, "holds"),
        case("all releases, half the noise", half, second, "violated"),
    )


def readable_delta(curve: PrivacyCurve) -> float:
    """0 if the curve is pure, otherwise a quarter of the way from its quoted delta to that at 0.

    A quarter is scale-free: the same number of runs then shows as much of a small mu as of a large.

    >>> from hedgerow.privacy.curves import GaussianDP, PureDP
    >>> readable_delta(PureDP(1.0)), readable_delta(GaussianDP(1.0))
    (0.0, 0.096)
    """
    if isfinite(curve.epsilon(0.0)):
        return 0.0
    low, high = curve.delta(curve.stated()[0]), curve.delta(0.0)
    return float(f"{low + (high - low) / 4:.2g}")


def less_noise(algorithm: Algorithm, factor: float) -> Algorithm:
    """The algorithm with `factor` times the noise of its client, or of its server if it has none.

    The certificate stays the same. Fast paths and likelihoods are left out.
    """
    for role in ("client", "server"):
        player: Any = getattr(algorithm, role)
        kind = type(player)
        scaled = {
            part.name: mechanism.scaled(factor)
            for part in (fields(kind) if is_dataclass(kind) else ())
            if isinstance(mechanism := getattr(player, part.name), Mechanism)
        }
        if scaled:
            changed: dict[str, Any] = {role: replace(player, **scaled)}
            return replace(algorithm, advance=None, log_likelihood=None, **changed)
    raise InvalidValue(
        f"No field of the client or the server of {algorithm.name} is a mechanism."
        " Pass broken=, the algorithm with half of its noise."
    )
