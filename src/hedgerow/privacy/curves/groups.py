"""Several records of one person, or of several people: only rules that are proven, in `proofs/mechanisms.md#curves`."""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1, inf, nextafter, sqrt

from hedgerow.core.certificate import NoGuarantee, PrivacyCurve
from hedgerow.core.checks import at_least
from hedgerow.core.errors import Unsupported
from hedgerow.privacy.curves.arrival import ByArrival
from hedgerow.privacy.curves.concentrated import ZeroConcentratedDP
from hedgerow.privacy.curves.gaussian import GaussianDP
from hedgerow.privacy.curves.pure import ApproximateDP, BoundedRange, PureDP

_UP = 1 + 2.0**-50  # covers the rounding of the few operations below


def _times(count: int, value: float) -> float:
    from hedgerow.privacy.composition import round_up  # composition stands on the curves

    return value if value == inf else round_up(count * Fraction(value))


def group(curve: PrivacyCurve, k: int) -> PrivacyCurve:
    """The curve between inputs that differ in k records, however the mechanism uses them.

    Pure: k epsilon. Bounded range: k range. Gaussian: k mu. Zero-concentrated: k^2 rho. Approximate: k epsilon with
    delta (e^(k epsilon) - 1) / (e^epsilon - 1). By arrival: that of the uniform curve.

    >>> group(PureDP(0.5), 3), group(ZeroConcentratedDP(0.5), 3), group(GaussianDP(0.5), 3)
    (PureDP(bound=1.5), ZeroConcentratedDP(rho=4.5), GaussianDP(mu=1.5))
    """
    at_least("k", k, 1)
    if k == 1 or isinstance(curve, NoGuarantee):
        return curve
    match curve:
        case PureDP(bound):
            grown = PureDP(_times(k, bound))
        case BoundedRange(width):
            grown = BoundedRange(_times(k, width))
        case GaussianDP(mu):
            grown = GaussianDP(_times(k, mu))
        case ZeroConcentratedDP(rho):
            grown = ZeroConcentratedDP(_times(k * k, rho))
        case ApproximateDP(epsilon, delta):
            grown = ApproximateDP(_times(k, epsilon), _group_delta(epsilon, delta, k))
        case ByArrival():
            grown = group(curve.uniform, k)
        case _:
            raise Unsupported(f"No proven rule for k={k} records under a curve of type {type(curve).__name__}.")
    return grown


def _group_delta(epsilon: float, delta: float, k: int) -> float:
    """delta (1 + e^epsilon + ... + e^((k - 1) epsilon)), at most 1, rounded up."""
    if delta == 0:
        return 0.0
    if k * epsilon > 700:
        return 1.0
    return min(1.0, _UP * delta * (k if epsilon == 0 else exp(epsilon * (k - 1)) * expm1(-k * epsilon) / expm1(-epsilon)))


def appearances(curve: PrivacyCurve, k: int, *, separate_reports: bool = False) -> PrivacyCurve:
    """The curve of a person with at most k records: `group(curve, k)`, or less where every record has a report of its own.

    Declare `separate_reports` only if each record enters one report, with fresh noise, which has this curve given all
    earlier reports, and nothing else is computed from the record. Then the reports compose: Gaussian sqrt(k) mu,
    zero-concentrated k rho, approximate (k epsilon, k delta). One report with all k records costs k mu.

    >>> appearances(GaussianDP(0.5), 4, separate_reports=True), appearances(GaussianDP(0.5), 4)
    (GaussianDP(mu=1.0), GaussianDP(mu=2.0))
    """
    at_least("k", k, 1)
    if not separate_reports or k == 1:
        return group(curve, k)
    match curve:
        case GaussianDP(mu):
            return GaussianDP(_root_times(k, mu))
        case ZeroConcentratedDP(rho):
            return ZeroConcentratedDP(_times(k, rho))
        case ApproximateDP(epsilon, delta):
            return ApproximateDP(_times(k, epsilon), min(1.0, _times(k, delta)))
        case ByArrival():
            return appearances(curve.uniform, k, separate_reports=True)
    return group(curve, k)


def _root_times(k: int, mu: float) -> float:
    """The least float whose square is at least k mu^2."""
    exact, root = k * Fraction(mu) ** 2, sqrt(k) * mu
    while Fraction(root) ** 2 < exact:
        root = nextafter(root, inf)
    while root > 0 and Fraction(nextafter(root, 0.0)) ** 2 >= exact:
        root = nextafter(root, 0.0)
    return root
