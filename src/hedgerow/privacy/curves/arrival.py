"""Guarantees that depend on when a record arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least

_EPSILONS = (0.0, *(2.0**power for power in range(-12, 9)))
_DELTAS = (0.0, *(10.0**-power for power in range(1, 16)))


@dataclass(frozen=True)
class ByArrival:
    """A curve for every arrival time, and one uniform curve that holds for all of them.

    delta(epsilon) = uniform.delta(epsilon) >= at(t).delta(epsilon) for every t. If the arrival time
    is not given, the uniform curve applies.

    >>> from hedgerow.privacy.curves import GaussianDP
    >>> curve = ByArrival(lambda time: GaussianDP(1 / (1 + time) ** 0.5), GaussianDP(1.0))
    >>> curve.epsilon(1e-5) == GaussianDP(1.0).epsilon(1e-5), curve.arriving(3)
    (True, GaussianDP(mu=0.5))
    """

    at: Callable[[int], PrivacyCurve]
    uniform: PrivacyCurve

    def arriving(self, time: int) -> PrivacyCurve:
        """The curve of a record that arrives at this time.

        The curve is compared with the uniform one at many points. It is refused if it lies above.
        """
        at_least("time", time, 0)
        curve = self.at(time)
        for epsilon in _EPSILONS:
            here, bound = curve.delta(epsilon), self.uniform.delta(epsilon)
            if not here <= bound * (1 + 1e-9):
                raise InvalidValue(
                    f"Expected delta={here!r} of arrival time={time} at epsilon={epsilon} "
                    f"<= {bound!r}, the uniform delta."
                )
        for delta in _DELTAS:
            here, bound = curve.epsilon(delta), self.uniform.epsilon(delta)
            if not here <= bound * (1 + 1e-9):
                raise InvalidValue(
                    f"Expected epsilon={here!r} of arrival time={time} at delta={delta} "
                    f"<= {bound!r}, the uniform epsilon."
                )
        return curve

    def delta(self, epsilon: float) -> float:
        return self.uniform.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        return self.uniform.epsilon(delta)

    def stated(self) -> tuple[float, float]:
        return self.uniform.stated()

    def words(self) -> str:
        return f"{self.uniform.words()}, whatever the arrival time"
