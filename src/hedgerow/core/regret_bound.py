"""What is proven about regret: how much, against whom, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hedgerow.core.certificate import Proof
from hedgerow.core.validate import expect

# losses are drawn anew in every round from one law, independently at every client; fixed in advance; or chosen by somebody who sees
# the past plays
Adversary = Literal["stochastic", "oblivious", "adaptive"]
ADVERSARIES: tuple[Adversary, ...] = get_args(Adversary)  # from the weakest to the strongest


@dataclass(frozen=True)
class RegretBound:
    """Expected regret per client, against the best expert in hindsight, is at most `value` for every adversary up to `covers`.

    Nothing has a default: a bound that does not say whom it covers, and where that is proven, says nothing.
    """

    value: float
    covers: Adversary
    proof: Proof

    def __post_init__(self) -> None:
        expect(self.value >= 0, "value", self.value, ">= 0")
        expect(self.covers in ADVERSARIES, "covers", self.covers, f"in {ADVERSARIES}")
