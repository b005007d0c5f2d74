"""Audit cases for private combination: one target, far below or far above all forecasts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.algorithms.mixture.games import FAMILY
from hedgerow.audits.case import AuditCase
from hedgerow.audits.cases.releases import release_cases
from hedgerow.core.replay import Replay

if TYPE_CHECKING:
    from hedgerow.algorithms.mixture.private_mixture import PrivateMixture


def cases(spec: PrivateMixture) -> tuple[AuditCase, ...]:
    """The null case, one target on either side, half the noise, and a target answered twice.

    A client that takes the same target again, as another round, tosses another coin for it.
    """
    low, high = (_game(target, 1) for target in (-15.0, 15.0))
    whole = release_cases(spec.build(low.setting), low, high)
    again = replace(
        whole[1],
        name="all releases, a target that is answered in two rounds",
        first=_game(-15.0, 2),
        second=_game(15.0, 2),
        expected="violated",
    )
    return *whole, again


def _game(target: float, times: int) -> Replay:
    """Three forecasts, and one target in some rounds; it is 0 in the others."""
    records = np.zeros((4, 1, 4))
    records[..., :3] = (-1.0, 0.0, 1.0)
    records[:times, 0, -1] = target
    return Replay(records, FAMILY)
