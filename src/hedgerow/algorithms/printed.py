"""What papers print about algorithms: bounds of regret and communication; they certify nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, singledispatch
from importlib.metadata import entry_points

from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting


@dataclass(frozen=True)
class Printed:
    """What a theorem says: its formula, the value, and where it is printed.

    Where the theorem hides a constant, the value is for the constant 1.
    """

    formula: str
    value: float
    source: str
    hidden_constant: bool = True


@singledispatch
def printed_regret(spec: AlgorithmSpec, setting: Setting) -> Printed | None:
    """The printed regret bound of the algorithm that an algorithm here is after.

    It is for the printed algorithm with its own constants, per client. None: nothing is printed.
    """
    return None


@singledispatch
def printed_numbers(spec: AlgorithmSpec, setting: Setting) -> Printed | None:
    """The printed communication cost of an algorithm of a paper, or of its kind; None: none."""
    return None


@cache
def load() -> None:
    """Import what plugins register here: the modules of the entry points `hedgerow.printed`."""
    for point in entry_points(group="hedgerow.printed"):
        point.load()
