"""Factorisations by name, for everything that lets the user choose one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least
from hedgerow.running_sums.buffered import BufferedToeplitz
from hedgerow.running_sums.dense import Dense
from hedgerow.running_sums.epochs import Epochs
from hedgerow.running_sums.factorisation import Factorisation
from hedgerow.running_sums.toeplitz import Banded, Independent, ToeplitzRoot
from hedgerow.running_sums.tree import Tree

Kind = Literal["independent", "banded", "naive_tree", "tree", "epochs", "blt", "root", "dense"]
BUFFERS = 4
ENDLESS: Mapping[str, Callable[[int | None], Factorisation]] = {
    "independent": Independent,
    "epochs": Epochs,
}
LIMITED: Mapping[str, Callable[[int, int], Factorisation]] = {
    "banded": lambda rounds, buffers: Banded.optimised(rounds, min(rounds, buffers + 1)),
    "naive_tree": lambda rounds, _: Tree(rounds, "naive"),
    "tree": lambda rounds, _: Tree(rounds),
    "blt": lambda rounds, buffers: BufferedToeplitz.optimised(
        rounds, min(buffers, max(1, rounds.bit_length() - 3))
    ),
    "root": lambda rounds, _: ToeplitzRoot(rounds),
    "dense": lambda rounds, _: Dense(rounds),
}


def check_kind(given: Kind | Factorisation) -> None:
    """Refuse what is neither a factorisation nor the name of one."""
    known = isinstance(given, Factorisation) or given in get_args(Kind)
    if not known:
        raise InvalidValue(
            f"Expected factorisation={given!r} to be a Factorisation or in {get_args(Kind)}."
        )


def factorise(
    kind: Kind | Factorisation, rounds: int | None, buffers: int = BUFFERS
) -> Factorisation:
    """Return the factorisation of this name.

    Parameters
    ----------
    kind
        "independent", "banded", "naive_tree", "tree" (least squares), "epochs", "blt" (buffered
        linear Toeplitz), "root" (the square root) or "dense". A factorisation is returned as it is;
        if it has a horizon, it must be `rounds`.
    rounds
        The horizon. None: only "epochs" and "independent" need none.
    buffers
        How many earlier vectors "blt" and "banded" keep. Default: 4. In less than 64 rounds "blt"
        keeps fewer: more would gain less than 1 %, and many choices would be about equally good, so
        that the choice would depend on the version of scipy.

    Examples
    --------
    >>> factorise("tree", 1000)
    Tree(rounds=1000, method='least_squares')
    >>> factorise("banded", 1000, buffers=1).bands
    (1.0, 0.9...)
    """
    check_kind(kind)
    if rounds is not None:
        at_least("rounds", rounds, 1)
    at_least("buffers", buffers, 1)
    if isinstance(kind, Factorisation):
        if None not in (rounds, kind.rounds) and rounds != kind.rounds:
            raise InvalidValue(
                f"Expected rounds={rounds!r} to be {kind.rounds}, the horizon given with the "
                f"factorisation. Make one for {rounds} rounds."
            )
        return kind
    if kind in ENDLESS:
        return ENDLESS[kind](rounds)
    if rounds is None:
        raise InvalidValue(f"Expected rounds with factorisation={kind!r}: 'epochs' needs none.")
    return LIMITED[kind](rounds, buffers)
