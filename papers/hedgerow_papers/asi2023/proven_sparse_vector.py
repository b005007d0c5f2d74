"""Sparse vector with the plan that minimises a proven bound on its regret."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.sparse_vector.plan import Constants
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.certificate import Proof
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.core.protocol import SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow_papers.asi2023.proven_bounds import Game, proved_plan, regret_bound, runs_of


@dataclass(frozen=True)
class ProvenSparseVector(SparseVector):
    """Sparse vector with the plan that minimises a proven bound on its regret.

    The bound is for streams on which the best expert loses at most `best_loss`, given beforehand
    (`proofs/sparse_vector_regret.md`). It is larger than what `SparseVector` was measured to lose,
    and so is the regret. Parameters and guarantee are those of `SparseVector`; `front` and `draw`
    of the plan must be None.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> 10.0 < ProvenSparseVector(epsilon=10.0).build(setting).regret_at_most < 10.2
    True
    """

    traits: ClassVar[SpecTraits] = replace(SparseVector.traits, forms={})
    name: ClassVar[str] = "proven_sparse_vector"
    calibration: ClassVar[str] = "proved"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("front", "draw"):
            value = None if self.plan is None else getattr(self.plan, name)
            if value is not None:
                raise InvalidValue(
                    f"Expected {name}={value!r} to be None: the bound is proven for one choice."
                )

    def chosen(self, setting: Setting) -> Constants:
        return proved_plan(
            setting,
            epsilon=self.epsilon,
            delta=self.delta,
            schedule=Schedule.of(self.every, self.early),
            best_loss=self._rounded_best(setting),
        )

    def server(self, setting: Setting, constants: Constants) -> RecencySelector:
        # so that the best expert keeps its full weight (`proofs/sparse_vector_regret.md#setting`)
        most = setting.clients * self._rounded_best(setting)
        floor = ceil(most * UNITS_PER_LOSS) / UNITS_PER_LOSS
        return replace(super().server(setting, constants), floor=floor)

    def _rounded_best(self, setting: Setting) -> float:
        """The largest loss per client of the best expert after rounding to the lattice."""
        if self.best_loss == 0:
            return 0.0
        return self.best_loss + setting.rounds / (2 * UNITS_PER_LOSS)

    def proven_bound(self, setting: Setting, server: RecencySelector) -> BoundWithGoodExpert:
        tested = runs_of(server, server.weights.columns, 0)
        # the floor is rounded up, and the threshold is counted from it
        game = Game.of(setting, server.schedule, server.floor / setting.clients)
        proof = Proof("sparse_vector_regret.md", "theorem")
        return BoundWithGoodExpert(regret_bound(game, tested), "oblivious", proof, self.best_loss)
