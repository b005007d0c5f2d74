"""The filtered value on a lattice, as secure noise needs it, and what the rounding costs.

Secure noise is added to multiples of 2^-20. A filtered value is no such multiple, so it is rounded,
and the floating-point errors of the filter come on top. Both move the values of neighbouring inputs
apart; the sensitivity is raised by the most that they can add
(`proofs/correlated_noise.md#on-the-lattice`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, inf, nextafter, sqrt

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import UNITS_PER_LOSS, Array
from hedgerow.core.validate import at_least, positive
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.filters import FilterState

MOST_DIGITS = 20
SHARE = 1e-3  # of the sensitivity: what rounding may cost where digits are chosen


@dataclass(frozen=True)
class LatticeEncoder:
    """An encoder whose output is on the lattice 2^-20, with the sensitivity that then holds.

    Parameters
    ----------
    factorisation
        The factorisation A = B C.
    width
        How many numbers a vector has: its last axis. Axes in front are clients with vectors of
        their own.
    largest
        A public bound on the size of each number in a vector, >= 2^-20; larger ones are refused.
    digits
        The output is 2^digits times the filtered value: the rounding is as much finer. The noise
        must be scaled by 2^digits too, and the decoded sums divided by it. Default: 0.
    rounds
        How many rounds there are at most; needed if the factorisation has no horizon.

    Examples
    --------
    >>> from hedgerow.running_sums import BufferedToeplitz, Tree
    >>> blt = BufferedToeplitz.optimised(rounds=1000)
    >>> LatticeEncoder(blt, width=100, largest=1.0).sensitivity() / blt.sensitivity() < 1.0002
    True
    >>> tree = Tree(rounds=1000, method="naive")  # whole numbers: nothing is rounded
    >>> LatticeEncoder(tree, width=100, largest=1.0).sensitivity() == tree.sensitivity()
    True
    """

    factorisation: Factorisation
    width: int
    largest: float
    digits: int = 0
    rounds: int | None = None

    def __post_init__(self) -> None:
        at_least("width", self.width, 1)
        at_least("digits", self.digits, 0)
        positive("largest", self.largest)
        if not self.largest >= 2.0**-20:
            raise InvalidValue(f"Expected largest={self.largest!r} >= 2^-20, one step.")
        self.factorisation.count(self.rounds)
        sums = self.factorisation.row_sum(self.rounds)
        peak = 2 * self.largest * sums * UNITS_PER_LOSS * 2.0**self.digits
        if peak >= 2.0**53 and not self.digits:
            raise InvalidValue(
                f"Sums up to {self.largest * sums:.3g} are too large for exact numbers. "
                "Choose fewer clients or rounds, or a smaller clip."
            )
        if not peak < 2.0**53:
            raise InvalidValue(
                f"Expected digits={self.digits!r} to be fewer: values would exceed 2^53 steps."
            )

    @classmethod
    def fine_enough(
        cls,
        factorisation: Factorisation,
        width: int,
        largest: float,
        change: float,
        rounds: int | None = None,
    ) -> LatticeEncoder:
        """Return an encoder with enough digits for rounding to cost a thousandth, if possible.

        One vector changes by at most `change`. More digits help only while steps, not
        floating-point errors, are most of the cost.
        """
        best = cls(factorisation, width, largest, rounds=rounds)
        enough = SHARE * change * factorisation.sensitivity()
        while best.digits < MOST_DIGITS and (cost := best.rounding() / best.scale) > enough:
            try:
                finer = replace(best, digits=best.digits + 1)
            except InvalidValue:  # values would need more than 53 bits
                break
            if finer.rounding() / finer.scale > 0.75 * cost:
                break
            best = finer
        return best

    @property
    def scale(self) -> float:
        """What the output is multiplied by: 2^digits."""
        return 2.0**self.digits

    def start(self, shape: tuple[int, ...]) -> FilterState:
        """Return the state before the first round, for vectors (*clients, width)."""
        if shape[-1:] != (self.width,):
            raise InvalidValue(f"Expected shape={shape!r} to end with width={self.width}.")
        return self.factorisation.encoder.start(shape)

    def step(
        self, state: FilterState, vector: npt.ArrayLike, *, in_place: bool = False
    ) -> tuple[Array, FilterState]:
        """Return the filtered vector times `scale`, on the lattice, and the next state.

        With `in_place`, the given state is used up, as in `Filter.step`.
        """
        given, count = np.asarray(vector, float), self.factorisation.count(self.rounds)
        if state.round >= count:
            raise InvalidValue(f"Expected at most rounds={count} vectors, got one more.")
        if not (np.abs(given) <= self.largest).all():
            raise InvalidValue(f"Expected a vector of numbers of size <= {self.largest!r}.")
        whole = self.factorisation.whole
        if whole and (given * UNITS_PER_LOSS % 1 != 0).any():
            raise InvalidValue("Expected a vector on the lattice 2^-20 (round_to_lattice).")
        filtered, after = self.factorisation.encoder.step(state, given, in_place=in_place)
        if whole:
            return filtered * self.scale, after
        steps = np.rint(filtered.astype(float) * (UNITS_PER_LOSS * self.scale))
        return steps / UNITS_PER_LOSS, after

    def step_clients(
        self, count: int | npt.NDArray[np.int64], memory: Array, vectors: Array
    ) -> tuple[Array, Array]:
        """Filter the vectors (*clients, width) of one round.

        `count` is the number of rounds before, of all clients or of each; all must be equal. The
        memory has its clients first: (*clients, buffers, width), as client states do. Returns the
        filtered vectors and the next memory.

        A number above `largest` is cut, not refused: whether a client refuses must not depend on
        its records. Cutting moves no two vectors apart.
        """
        counts = np.asarray(count)
        if (counts != counts.flat[0]).any():
            raise InvalidValue("Expected all clients to be in the same round of the filter.")
        rows = np.ascontiguousarray(np.moveaxis(memory, -2, 0))
        most = floor(self.largest * UNITS_PER_LOSS) / UNITS_PER_LOSS  # on the lattice
        inside = np.clip(vectors, -most, most)
        filtered, after = self.step(FilterState(int(counts.flat[0]), rows), inside)
        return filtered, np.ascontiguousarray(np.moveaxis(after.memory, 0, -2))

    def rounding(self) -> float:
        """Return the most that rounding adds to the l2 distance of two outputs, over all rounds."""
        if self.factorisation.whole:
            return 0.0
        encoder, step = self.factorisation.encoder, 1 / (UNITS_PER_LOSS * self.scale)
        unit = 2.0**-53 if encoder.precision == "float64" else 2.0**-24
        share = self.factorisation.roundings(self.rounds) * unit
        if not share < 0.5:
            raise InvalidValue(
                f"Expected rounds={self.factorisation.rounds!r} to be fewer in this precision."
            )
        error = share / (1 - share) * self.largest * self.factorisation.row_sum(self.rounds)
        count = self.factorisation.count(self.rounds)
        each = 2 * error * (1 + 2.0**-20) + step
        return self.scale * each * sqrt(self.width * count) * (1 + 2.0**-40)

    def sensitivity(
        self, change: float = 1.0, records: int = 1, together: int = 1, apart: int = 1
    ) -> float:
        """Return the largest l2 change of all outputs together.

        One person has at most `records`, each of which changes one vector by at most `change`: at
        most `together` change the same vector, and vectors that they change are at least `apart`
        rounds apart (`proofs/correlated_noise.md#records`).
        """
        positive("change", change)
        one = self.factorisation.sensitivity()
        most = min(records, together)
        times, rest = divmod(records, most)
        try:
            found = self.factorisation.sensitivity(times, apart) if times > 1 else one
        except Unsupported:  # too many patterns to find the worst of them
            found = times * one
        plain = found if most == 1 else (most * found + rest * one) * (1 + 2.0**-50)
        if self.factorisation.whole and self.scale * change == 1:
            return plain
        return nextafter(self.scale * change * plain * (1 + 2.0**-50) + self.rounding(), inf)


def memory_of_clients(encoder: LatticeEncoder | None, shape: tuple[int, ...]) -> Array:
    """Return the memory of `step_clients` before the first round, for vectors of this shape.

    It is empty without an encoder.
    """
    memory = np.zeros((0, *shape)) if encoder is None else encoder.start(shape).memory
    return np.moveaxis(memory, 0, -2).copy()
