"""What only experts choose of online SGD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hedgerow.algorithms.learning.rounds import Precision, Steps
from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least, one_of, positive
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.kinds import Kind, check_kind


@dataclass(frozen=True)
class Plan:
    """Where gradients are taken, how the noise is correlated, and how the server moves.

    The certificate always follows the values that are used.

    Parameters
    ----------
    steps
        Where gradients are taken, and what is true of the loss. "start" (default): at the released
        model; the noise is the smallest, for any loss. The others take a local step after every
        example. Their noise depends on what you state about the loss: "convex" (and smooth),
        "smooth", or "clipped" (nothing; the noise is as many times larger as there are examples in
        a round).
    factorisation
        Which noise: "blt" (default, a few buffers and close to the best), "dense" (the best, for up
        to a few thousand rounds), "root", "tree", "naive_tree", "banded", "epochs", "independent",
        a `Factorisation` for all rounds, or "matched": a few buffers that are best for the average.
    buffers
        How many earlier vectors the filter of "blt", "matched" and "banded" keeps, at least 1.
        Default 4.
    local_step
        The size of a local step. None (default): `step` divided by the examples in a round, so that
        local steps add up to a step of the server.
    momentum
        The share of the last move that the server keeps, in [0, 1). Default 0.
    precision
        The bits of products in gradients. "24 bits" (default); "device": as few as the device takes
        by default, such as TF32 on a GPU, which is faster. Only for `steps` "start" and "clipped",
        where the clip alone carries the proof.

    Examples
    --------
    >>> Plan(precision="device").steps
    'start'
    >>> Plan("convex", precision="device")
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected precision='device' to be '24 bits' with
    steps='convex': the proof counts on them.
    """

    steps: Steps = "start"
    factorisation: Kind | Literal["matched"] | Factorisation = "blt"
    buffers: int = 4
    local_step: float | None = None
    momentum: float = 0.0
    precision: Precision = "24 bits"

    def __post_init__(self) -> None:
        one_of(self, steps=get_args(Steps), precision=get_args(Precision))
        if isinstance(self.factorisation, str):
            kinds = (*get_args(Kind), "matched")
            if self.factorisation not in kinds:
                raise InvalidValue(
                    f"Expected factorisation={self.factorisation!r} to be a Factorisation or in "
                    f"{kinds}."
                )
        else:
            check_kind(self.factorisation)
        at_least("buffers", self.buffers, 1)
        if self.local_step is not None:
            positive("local_step", self.local_step)
        if not 0 <= self.momentum < 1:
            raise InvalidValue(f"Expected momentum={self.momentum!r} in [0, 1).")
        proven = self.steps in ("start", "clipped") or self.precision == "24 bits"
        if not proven:
            raise InvalidValue(
                f"Expected precision={self.precision!r} to be '24 bits' with steps={self.steps!r}: "
                "the proof counts on them."
            )
