"""The interface of privacy curves; the curves themselves are in `hedgerow.privacy`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@runtime_checkable
class PrivacyCurve(Protocol):
    """delta as a function of epsilon, and epsilon as a function of delta."""

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta with which (epsilon, delta)-DP holds."""
        ...

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 with which (epsilon, delta)-DP holds; inf if none."""
        ...

    def stated(self) -> tuple[float, float]:
        """Return the (epsilon, delta) that is quoted for this curve."""
        ...

    def words(self) -> str:
        """Return the quoted guarantee as text."""
        ...

    def of_records(self, count: int, separate: bool, at_delta: float = 0.0) -> PrivacyCurve:
        """Return the curve of `count` records; `separate`: they enter separate releases.

        A curve that is quoted at a delta is then quoted at `at_delta`, if that is not 0.
        """
        ...


@dataclass(frozen=True)
class NoGuarantee:
    """No protection: this observer sees raw data."""

    reason: str

    def delta(self, epsilon: float) -> float:
        return 1.0

    def epsilon(self, delta: float) -> float:
        return 0.0 if delta >= 1.0 else float("inf")

    def stated(self) -> tuple[float, float]:
        return float("inf"), 1.0

    def words(self) -> str:
        return f"no guarantee ({self.reason})"

    def of_records(self, count: int, separate: bool, at_delta: float = 0.0) -> NoGuarantee:
        return self
