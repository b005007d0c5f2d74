"""Privacy accounting and noise: what a release costs, and the code that draws it.

* `budget`: the privacy budget and the exact price of a release.
* `odometer`: the running sum of a stream of releases, and a filter that keeps it within a budget.
* `calibrate`: the least noise that fits a budget, and the cost of a curve.
* `curves`: delta as a function of epsilon, for one release. Trade-off functions are in
  `curves.trade_off`, curves made of others in `curves.wrapped`.
* `composition`: curves of several releases (`steps`, `bounded_range`, `random_draws`,
  `fixed_plan`), and of several records or runs (`groups`).
  `recursion` computes the tables of `bounded_range`, and `table_cache` keeps them on disk.
* `mechanisms`: additive noise, private selection, coins, the sparse vector technique, and noise
  shared by clients.
* `secure`: exact noise for real data, from the operating system's entropy.
* `search`: bisection and a root, which the other modules share.
"""

from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import (
    cost,
    gaussian_scale,
    laplace_scale,
    largest_range,
    largest_rate,
    least_noise,
)
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange
from hedgerow.privacy.composition.fixed_plan import fixed_plan
from hedgerow.privacy.composition.groups import group, of_one_person, of_records
from hedgerow.privacy.composition.steps import AfterPureStep, PureComposition, pure_sum
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    ZeroConcentratedDP,
    trade_off,
)
from hedgerow.privacy.mechanisms import (
    AboveThreshold,
    AdditiveNoise,
    ExponentialMechanism,
    GaussianNoise,
    KNorm,
    NoisyMax,
    RandomisedResponse,
)
from hedgerow.privacy.odometer import BudgetSpent, Filter, Odometer
from hedgerow.privacy.secure import SecureNoise

__all__ = [
    "AboveThreshold",
    "AdaptiveBoundedRange",
    "AdditiveNoise",
    "AfterPureStep",
    "ApproximateDP",
    "BoundedRange",
    "Budget",
    "BudgetSpent",
    "ExponentialMechanism",
    "Filter",
    "GaussianDP",
    "GaussianNoise",
    "KNorm",
    "LaplaceDP",
    "NoisyMax",
    "Odometer",
    "PureComposition",
    "PureDP",
    "RandomisedResponse",
    "SecureNoise",
    "ZeroConcentratedDP",
    "cost",
    "fixed_plan",
    "gaussian_scale",
    "group",
    "laplace_scale",
    "largest_range",
    "largest_rate",
    "least_noise",
    "of_one_person",
    "of_records",
    "pure_sum",
    "trade_off",
]
