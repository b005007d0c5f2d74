"""Proven regret bounds: the value, the adversaries covered and the proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hedgerow.core.certificate import Proof
from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import one_of

# losses are drawn in every round from one law, independently of other rounds and clients; fixed in
# advance; or chosen by an adversary that sees the past plays
Adversary = Literal["stochastic", "oblivious", "adaptive"]
ADVERSARIES: tuple[Adversary, ...] = get_args(Adversary)  # from the weakest to the strongest


@dataclass(frozen=True)
class RegretBound:
    """A bound on the expected regret per client, against the best expert in hindsight.

    The regret is at most `value` for every adversary up to `covers`. No field has a default,
    because a bound is meaningless without the adversaries that it covers and its proof.
    """

    value: float
    covers: Adversary
    proof: Proof

    def __post_init__(self) -> None:
        if not self.value >= 0:
            raise InvalidValue(f"Expected value={self.value!r} >= 0.")
        one_of(self, covers=ADVERSARIES)

    @property
    def best_loss(self) -> float | None:
        """What one expert may lose per client for the bound to hold; None: anything."""
        return None


@dataclass(frozen=True)
class BoundWithGoodExpert(RegretBound):
    """A bound that holds only if one expert loses at most `expert_loss` per client."""

    expert_loss: float

    @property
    def best_loss(self) -> float:
        return self.expert_loss
