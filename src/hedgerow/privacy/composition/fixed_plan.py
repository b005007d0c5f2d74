"""Numerical composition of plans of mixed steps that are fixed in advance.

The proof is `proofs/composition.md#fixed-plans`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, fsum, inf, isfinite, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.rounding import round_up
from hedgerow.core.validate import at_least, between
from hedgerow.privacy.curves import BoundedRange, GaussianDP, LaplaceDP, PureDP, Quoted
from hedgerow.privacy.curves.base import Composed, Symmetric

if TYPE_CHECKING:
    from hedgerow.core.certificate import PrivacyCurve

Part = PureDP | LaplaceDP | BoundedRange | GaussianDP


@dataclass(frozen=True)
class Numerical(Symmetric, Composed):
    """A plan of steps fixed in advance, composed through privacy-loss distributions.

    The distributions come from dp-accounting, with pessimistic rounding. The list of curves and
    their numbers must not depend on any answer; what each step asks may. Loss values are rounded to
    multiples of `interval` by chords of the curve, which lie above it. `slack` covers the
    arithmetic and is added to every delta (`proofs/composition.md#fixed-plans`).
    """

    parts: tuple[tuple[Part, int], ...]
    interval: float

    def composed_of(self) -> tuple[tuple[Part, int], ...]:
        return self.parts

    @property
    def slack(self) -> float:
        return 1e-12 + 4e-15 * sum(count for _, count in self.parts)

    @property
    def pure(self) -> float:
        bounds = [(part.epsilon(0.0), count) for part, count in self.parts]
        return (
            inf
            if any(bound == inf for bound, _ in bounds)
            else round_up(sum((Fraction(b) * n for b, n in bounds), Fraction(0)))
        )

    @cached_property
    def _distribution(self) -> Any:
        gaussian = sqrt(
            fsum(count * part.mu**2 for part, count in self.parts if isinstance(part, GaussianDP))
        )
        plds = [
            _bounded(part, self.interval).self_compose(count)
            for part, count in self.parts
            if not isinstance(part, GaussianDP)
        ]
        if gaussian > 0:  # adaptive Gaussian steps with fixed mu are one Gaussian step, exactly
            plds.append(_gaussian(1 / (gaussian * (1 + 1e-12)), self.interval))
        whole = plds[0]
        for each in plds[1:]:
            whole = whole.compose(each)
        return whole

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.pure:
            return 0.0
        return (
            0.0
            if epsilon == inf
            else min(
                1.0, max(0.0, float(self._distribution.get_delta_for_epsilon(epsilon))) + self.slack
            )
        )

    def epsilon(self, delta: float) -> float:
        between("delta", delta, 0.0, 1.0)
        if self.delta(0.0) <= delta:
            return 0.0
        if delta <= self.slack:
            return self.pure
        found = max(0.0, float(self._distribution.get_epsilon_for_delta(delta - self.slack)))
        nudge = 1e-12
        while found < self.pure and self.delta(found) > delta:
            found, nudge = found + nudge, 2 * nudge
        return min(found, self.pure)

    def words(self) -> str:
        steps = sum(count for _, count in self.parts)
        return f"{self._quote()} ({steps} steps, a plan fixed in advance)"


def _bounded(part: PureDP | LaplaceDP | BoundedRange, interval: float) -> Any:
    """The privacy-loss distribution of a part with bounded losses.

    It is built from the curve by chords between grid points ("connect the dots").
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as library

    bound = part.epsilon(0.0)
    rounded = np.arange(floor(-bound / interval) - 1, ceil(bound / interval) + 2)
    deltas = np.array([part.delta(float(at)) for at in rounded * interval])
    return library.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(interval, rounded, deltas)
    )


def _gaussian(deviation: float, interval: float) -> Any:
    """The privacy-loss distribution of one Gaussian step, as `from_gaussian_mechanism` gives it.

    The library computes one grid point at a time; here all of them are computed at once.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as library
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    loss = GaussianPrivacyLoss(deviation)
    ends: Any = loss.connect_dots_bounds()
    low, high = floor(ends.epsilon_lower / interval), ceil(ends.epsilon_upper / interval)
    losses = np.arange(low, high + 1) * interval
    at = -0.5 - losses * deviation**2  # where the privacy loss has these values
    deltas = loss.mu_upper_cdf(at) - np.exp(losses + loss.mu_lower_log_cdf(at))
    dots = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap
    return library.PrivacyLossDistribution(dots(interval, low, high, np.clip(deltas, 0, 1)))


def fixed_plan(
    parts: Iterable[tuple[PrivacyCurve, int]], interval: float | None = None
) -> Numerical:
    """The curve of a plan of steps that is fixed before the first answer.

    Use `PureComposition` for equal pure steps and `AdaptiveBoundedRange` for bounded-range steps
    alone: they are sharper.

    Parameters
    ----------
    parts
        Pairs (curve of one step, number of such steps). The curve is pure, Laplace, bounded-range
        or Gaussian; others are refused.
    interval
        The width of the grid of privacy losses, > 0. Default: chosen from the plan.

    Examples
    --------
    >>> from hedgerow.privacy import BoundedRange, GaussianDP, LaplaceDP, fixed_plan
    >>> plan = fixed_plan([(GaussianDP(0.1), 20), (LaplaceDP(0.05), 20), (BoundedRange(0.05), 20)])
    >>> round(plan.epsilon(1e-6), 2)
    2.32
    """
    known: list[tuple[Part, int]] = []
    for curve, count in parts:
        part = curve.curve if isinstance(curve, Quoted) else curve
        if not isinstance(part, Part):
            raise Unsupported(
                f"Expected part={part!r} to be one of PureDP, LaplaceDP, BoundedRange, GaussianDP."
            )
        if not isinstance(part, GaussianDP) and not isfinite(part.epsilon(0.0)):
            raise InvalidValue(f"Expected part={part!r} to have a finite bound.")
        at_least("count", count, 0)
        scale = part.mu if isinstance(part, GaussianDP) else part.epsilon(0.0)
        if count > 0 and scale > 0:
            known.append((part, count))
    scales = [
        (part.mu if isinstance(part, GaussianDP) else part.epsilon(0.0), count)
        for part, count in known
    ]
    if not known:
        raise InvalidValue("Expected plan=[] to have a step that costs something.")
    # losses spread over about ten standard deviations; a fast Fourier transform handles a million
    # cells in a second
    spread = sqrt(fsum(count * scale**2 for scale, count in scales))
    finest = (10 * spread + spread**2) / 2**19
    chosen = (
        max(finest, min(1e-3, min(scale for scale, _ in scales) / 64))
        if interval is None
        else interval
    )
    if not isfinite(chosen) or not chosen > 0:
        raise InvalidValue(f"Expected interval={chosen!r} > 0 and finite.")
    return Numerical(tuple(known), chosen)
