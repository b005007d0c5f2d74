"""Doubling with proven bounds: on its regret, and on the chance that a right guess is doubled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hedgerow.algorithms.sparse_vector.doubling import Doubling, Guesser, guessed
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.certificate import Proof
from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.core.protocol import Algorithm, SpecTraits
from hedgerow.core.regret_bound import BoundWithGoodExpert
from hedgerow.core.setting import Setting
from hedgerow.core.validate import between
from hedgerow.privacy.mechanisms import ExponentialMechanism
from hedgerow_papers.asi2023.proven_bounds import (
    EpochRuns,
    Game,
    chance_of_end,
    epochs_bound,
    runs_of,
)
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector

MOST_GUESSES = 16  # that the regret bound follows; what comes later is given up


@dataclass(frozen=True)
class ProvenDoubling(Doubling):
    """Doubling with a bound on its expected regret for *every* loss of the best expert.

    `regret_at_most` computes it; the bound that a certificate shows is for an expert that never
    loses. The parameters also state how likely a right guess is doubled. The constants are those of
    `ProvenSparseVector`. Parameters and guarantee are those of `Doubling`, but the first guess
    above 0 is at least clients * every if it is not given, and `front` and `draw` of the plan must
    be None.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting, spec = hr.Setting(10, 100, 512), ProvenDoubling(epsilon=10.0)
    >>> 10 < spec.build(setting).regret_at_most < 11
    True
    >>> 30 < spec.regret_at_most(setting, best_loss=1.0) < 45
    True
    """

    traits: ClassVar[SpecTraits] = replace(
        Doubling.traits,
        forms={},
        meanings={
            **Doubling.traits.meanings,
            "wrong_doubling_at_most": (
                "bound on the probability that a correct guess is doubled; does not affect privacy"
            ),
        },
    )
    name: ClassVar[str] = "proven_doubling"
    known: ClassVar[type[SparseVector]] = ProvenSparseVector

    def regret_at_most(self, setting: Setting, best_loss: float) -> float:
        """The proven bound on the expected regret per client if one expert loses little.

        Proof: `proofs/sparse_vector_regret.md#epochs-that-differ`.

        Parameters
        ----------
        setting
            The size of the game.
        best_loss
            What the best expert may lose per client, in [0, horizon]. It is not used to play.
        """
        between("best_loss", best_loss, 0.0, float(setting.rounds))
        server = self.build(setting).server
        assert isinstance(server, Guesser)
        return _regret_at_most(server, setting, best_loss)

    def resolve(self, setting: Setting) -> Algorithm:
        built = super().resolve(setting)
        assert isinstance(built.server, Guesser)
        return replace(built, parameters={**built.parameters, **soundness(built.server, setting)})

    def least_guess(self, setting: Setting) -> float:
        return float(setting.clients * self.every)

    def since(self, first: float, most: float, margin: float) -> int:
        return first_large(first, most, margin)

    def proven_bound(self, setting: Setting, server: Guesser) -> BoundWithGoodExpert:
        value = _regret_at_most(server, setting, 0.0)
        proof = Proof("sparse_vector_regret.md", "epochs-that-differ")
        return BoundWithGoodExpert(value, "oblivious", proof, 0.0)


def first_large(first: float, most: float, large: float) -> int:
    """The first epoch, not 0, whose guess is at least `large`, or cannot grow.

    >>> [first_large(3.0, 20.0, large) for large in (0.0, 5.0, 100.0)]
    [1, 2, 4]
    """
    epoch = 1
    while guessed(epoch, first, most) < min(large, most):
        epoch += 1
    return epoch


def soundness(server: Guesser, setting: Setting) -> dict[str, float]:
    """The bound on wrong doublings, where it is proven."""
    even = all(run.own == run.later for run in server.weights.columns[:-1])
    if not even or not isinstance(server.selection, ExponentialMechanism):
        return {}
    game = Game.of(setting, server.schedule)

    def ends(used: int) -> float:
        return chance_of_end(game, runs_of(server, server.weights.columns, used))

    wrong = max(ends(0), ends(server.since * server.switches))  # each has its own test
    return {"wrong_doubling_at_most": wrong} if wrong < 1 else {}


def _regret_at_most(server: Guesser, setting: Setting, best_loss: float) -> float:
    rounded = best_loss + setting.rounds / (2 * UNITS_PER_LOSS) if best_loss else 0.0
    begins = [epoch * server.switches for epoch in range(MOST_GUESSES)]
    columns = server.weights.columns
    epochs = tuple(EpochRuns(server.guess(used), runs_of(server, columns, used)) for used in begins)
    return epochs_bound(Game.of(setting, server.schedule, rounded), epochs)
