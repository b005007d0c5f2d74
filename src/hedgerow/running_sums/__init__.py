"""Private running sums: factorisations A = B C, their streams, and a counter of vectors."""

from hedgerow.running_sums.buffered import BufferedToeplitz
from hedgerow.running_sums.continual_sum import ContinualSum
from hedgerow.running_sums.dense import Dense
from hedgerow.running_sums.epochs import Epochs
from hedgerow.running_sums.factorisation import Errors, Factorisation
from hedgerow.running_sums.filters import Filter, FilterState
from hedgerow.running_sums.kinds import Kind, factorise
from hedgerow.running_sums.lattice import LatticeEncoder
from hedgerow.running_sums.toeplitz import Banded, Independent, ToeplitzRoot
from hedgerow.running_sums.tree import Tree

__all__ = [
    "Banded",
    "BufferedToeplitz",
    "ContinualSum",
    "Dense",
    "Epochs",
    "Errors",
    "Factorisation",
    "Filter",
    "FilterState",
    "Independent",
    "Kind",
    "LatticeEncoder",
    "ToeplitzRoot",
    "Tree",
    "factorise",
]
