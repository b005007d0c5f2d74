"""Correlated noise for private running sums: factorisations A = B C, and their streams."""

from hedgerow.algorithms.correlated.banded import Banded
from hedgerow.algorithms.correlated.buffered import BufferedToeplitz
from hedgerow.algorithms.correlated.continual_sum import ContinualSum
from hedgerow.algorithms.correlated.dense import Dense
from hedgerow.algorithms.correlated.epochs import Epochs
from hedgerow.algorithms.correlated.factorisation import Errors, Factorisation
from hedgerow.algorithms.correlated.filters import Filter, FilterState
from hedgerow.algorithms.correlated.kinds import Kind, factorise
from hedgerow.algorithms.correlated.lattice import LatticeEncoder
from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.correlated.toeplitz import Independent, ToeplitzRoot
from hedgerow.algorithms.correlated.tree import Tree

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
    "RunningLeader",
    "ToeplitzRoot",
    "Tree",
    "factorise",
]
