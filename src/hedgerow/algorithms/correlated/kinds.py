"""Factorisations by name, for algorithms that let the user choose one."""

from __future__ import annotations

from typing import Literal

from hedgerow.algorithms.correlated.buffered import BufferedToeplitz
from hedgerow.algorithms.correlated.factorisation import Factorisation
from hedgerow.algorithms.correlated.toeplitz import Banded, Independent, ToeplitzRoot
from hedgerow.algorithms.correlated.tree import Tree

Kind = Literal["blt", "tree", "root", "independent", "banded"]


def factorise(kind: Kind, exchanges: int, buffers: int) -> Factorisation:
    """Return the factorisation of this name for a number of exchanges.

    `buffers` is how many earlier vectors "blt" and "banded" keep.
    """
    match kind:
        case "blt":
            return BufferedToeplitz.optimised(exchanges, buffers)
        case "tree":
            return Tree(exchanges)
        case "root":
            return ToeplitzRoot(exchanges)
        case "banded":
            return Banded.optimised(exchanges, min(exchanges, buffers + 1))
        case "independent":
            return Independent(exchanges)
