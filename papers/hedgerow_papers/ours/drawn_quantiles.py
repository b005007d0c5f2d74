"""The game of `combination-losses`: drawn targets, and models that forecast their quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from scipy.special import ndtri

from hedgerow.core.block import Block
from hedgerow.core.combination import Combination, QuantileCombination
from hedgerow.core.convex import AbsoluteError, Huber, Pinball
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Family
from hedgerow.core.measure import Measure
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Plays
from hedgerow.core.validate import one_of
from hedgerow.environments.drawn.examples import CHUNK, Chunked
from hedgerow.environments.drawn.generated import generator

Loss = Literal["absolute", "pinball", "squared", "wis"]
LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)  # of the weighted interval score
QUANTILE, THRESHOLD = 0.9, 2.0  # of the pinball loss and of the squared one
NORM = TARGET = 64.0
_PLAN, _CHUNK = 1, 2


class PlainLoss(Measure):
    """What equal weights would pay, mean over players, added up over rounds."""

    name: ClassVar[str] = "plain"
    meaning: ClassVar[str] = "loss of equal weights, mean over players"

    def __init__(self, family: Family, models: int) -> None:
        super().__init__()
        self.family, self.equal = family, np.full(models, 1.0 / models)

    def amounts(self, block: Block, plays: np.ndarray | Plays) -> Array:
        return self.family.value(block.losses, self.equal).mean(axis=1)


@dataclass(frozen=True, kw_only=True)
class DrawnQuantiles(Chunked):
    """Models forecast quantiles of normal targets; each has its bias, its error and its spread.

    A target is normal with deviation 1 around what is known in advance. The forecast of a model is
    a normal law around that, plus its bias and a fresh error; its deviation is too small or too
    large. For "absolute" and "squared" models forecast the median, for "pinball" one quantile, for
    "wis" seven, which are combined with the same weights.

    Parameters
    ----------
    loss
        "absolute" (default), "pinball", "squared" (cut off, as Huber) or "wis".
    clients, models, horizon
        The size of the game.
    """

    loss: Loss = "absolute"
    clients: int = 50
    models: int = 10
    horizon: int = 100

    def __post_init__(self) -> None:
        one_of(self, loss=get_args(Loss))

    @property
    def setting(self) -> Setting:
        return Setting(self.clients, self.models, self.horizon, family=self._family)

    @property
    def _family(self) -> Combination | QuantileCombination:
        if self.loss == "wis":
            return QuantileCombination(LEVELS, feature_norm=NORM, target=TARGET)
        if self.loss == "pinball":
            return Combination(Pinball(NORM, target=TARGET, quantile=QUANTILE))
        if self.loss == "squared":
            return Combination(Huber(NORM, target=TARGET, threshold=THRESHOLD))
        return Combination(AbsoluteError(NORM, target=TARGET))

    def measures(self) -> tuple[Measure, ...]:
        return (PlainLoss(self._family, self.models),)

    def chunk(self, seed: int, index: int) -> Array:
        plan, rng = generator(seed, _PLAN), generator(seed, _CHUNK, index)
        bias = plan.normal(0.0, 0.7, self.models)
        error, spread = plan.uniform(0.1, 1.5, self.models), plan.uniform(0.4, 2.0, self.models)
        shape = (CHUNK, self.clients)
        target = rng.standard_normal((*shape, 1))
        centre = bias + error * rng.standard_normal((*shape, self.models))
        levels = {"pinball": (QUANTILE,), "wis": LEVELS}.get(self.loss, (0.5,))
        quantiles = [centre + spread * ndtri(level) for level in levels]
        return self._family.clip(np.concatenate([*quantiles, target], axis=-1)).records
