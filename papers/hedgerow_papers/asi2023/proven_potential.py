"""Potential with a proven bound on its regret if one expert never loses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.certificate import Proof
from hedgerow.core.protocol import SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow_papers.asi2023.certified_potential import Growing, Potential
from hedgerow_papers.asi2023.proven_bounds import EpochRuns, Game, epochs_bound, runs_of
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector


@dataclass(frozen=True)
class ProvenPotential(Potential):
    """Potential with a proven bound on its regret if one expert never loses.

    Its first epoch is that of `ProvenSparseVector`. Parameters and guarantee are those
    of `Potential`; `front` and `draw` of the plan must be None.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> 10 < ProvenPotential(epsilon=10.0).build(setting).regret_at_most < 11
    True
    """

    traits: ClassVar[SpecTraits] = replace(Potential.traits, forms={})
    name: ClassVar[str] = "proven_potential"
    known: ClassVar[type[SparseVector]] = ProvenSparseVector
    since: ClassVar[int] = 2  # the bound follows the epochs before

    def proven_bound(self, setting: Setting, server: Growing) -> BoundWithGoodExpert:
        """All that follows the second epoch is given up: hardly any game gets there."""
        draws = (0, len(server.weights.columns))
        epochs = tuple(
            EpochRuns(0.0, runs_of(server, columns, used))
            for used, columns in zip(
                draws, (server.weights.columns, *server.weights.later[:1]), strict=False
            )
        )
        value = epochs_bound(Game.of(setting, server.schedule), epochs)
        proof = Proof("sparse_vector_regret.md", "epochs-that-differ")
        return BoundWithGoodExpert(value, "oblivious", proof, 0.0)
