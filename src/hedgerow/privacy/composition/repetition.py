"""The joint guarantee of several runs on the same data."""

from __future__ import annotations

from hedgerow.core.certificate import NoGuarantee, PrivacyCurve
from hedgerow.core.validate import at_least
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange
from hedgerow.privacy.composition.groups import appearances
from hedgerow.privacy.composition.steps import pure_sum
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    ByArrival,
    GaussianDP,
    LaplaceDP,
    PureDP,
    Quoted,
    ZeroConcentratedDP,
)


def repeated(curve: PrivacyCurve, runs: int) -> PrivacyCurve:
    """The curve of several runs on the same data.

    Each run has fresh noise, and has this curve whatever the earlier runs released. Exact for pure
    (the sum, `proofs/composition.md#pure-sum`), bounded-range, Gaussian and zero-concentrated
    guarantees (`groups.appearances`, where a run is a report). For every other curve the quoted
    (epsilon, delta) is added.

    >>> repeated(PureDP(0.5), 3), repeated(GaussianDP(0.5), 4)
    (PureDP(bound=1.5), GaussianDP(mu=1.0))
    >>> repeated(ApproximateDP(0.5, 2.0**-20), 4)
    ApproximateDP(at_epsilon=2.0, at_delta=3.814697265625e-06)
    """
    at_least("runs", runs, 1)
    if runs == 1 or isinstance(curve, NoGuarantee):
        return curve
    match curve:
        case PureDP() | LaplaceDP():
            total = pure_sum([curve] * runs)
        case AdaptiveBoundedRange(width, steps):
            total = AdaptiveBoundedRange(width, steps * runs)
        case GaussianDP() | ZeroConcentratedDP() | BoundedRange():
            total = appearances(curve, runs, separate_reports=True)
        case ByArrival():
            total = repeated(curve.uniform, runs)
        case Quoted(
            curve=AdaptiveBoundedRange() | BoundedRange() | GaussianDP() | ZeroConcentratedDP()
        ):
            total = Quoted(repeated(curve.curve, runs), curve.at_delta)
        case _:
            total = appearances(ApproximateDP(*curve.stated()), runs, separate_reports=True)
    return total
