"""Privacy curves: delta as a function of epsilon.

A curve holds for every event and both directions of a neighbouring pair. `delta(epsilon)` takes any
real epsilon. `epsilon(delta)` is the least epsilon >= 0 with that delta. The conversions are proven
in `proofs/mechanisms.md#curves`, those of `PureDP` in
`proofs/composition.md#randomised-response-curve`.
"""

from hedgerow.privacy.curves.concentrated import ZeroConcentratedDP
from hedgerow.privacy.curves.gaussian import GaussianDP
from hedgerow.privacy.curves.pure import ApproximateDP, BoundedRange, LaplaceDP, PureDP, promise
from hedgerow.privacy.curves.trade_off import trade_off
from hedgerow.privacy.curves.wrapped import Quoted, WithFailure

__all__ = [
    "ApproximateDP",
    "BoundedRange",
    "GaussianDP",
    "LaplaceDP",
    "PureDP",
    "Quoted",
    "WithFailure",
    "ZeroConcentratedDP",
    "promise",
    "trade_off",
]
