"""The privacy core: budgets, curves, mechanisms, composition, odometer, calibration, audits, secure noise."""

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
from hedgerow.privacy.composition.groups import appearances, group
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
    "SecureNoise",
    "ZeroConcentratedDP",
    "appearances",
    "cost",
    "fixed_plan",
    "gaussian_scale",
    "group",
    "laplace_scale",
    "largest_range",
    "largest_rate",
    "least_noise",
    "pure_sum",
    "trade_off",
]
