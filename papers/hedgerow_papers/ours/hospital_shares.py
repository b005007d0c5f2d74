"""Which hospital has the largest share of patients, where one authority knows all shares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.environments.recorded.losses import Recording
from hedgerow_papers.jacobsen2025.hospitals import Hospitals


@dataclass(frozen=True, kw_only=True)
class HospitalShares(Recording):
    """Hospitals of a state as experts, weeks as rounds, for one client.

    The loss of a hospital is 1 less its share of COVID-19 patients in its beds. A hospital that
    does not report has the share 0.

    Parameters
    ----------
    state
        Two letters, such as "NM" (default).
    """

    state: str = "NM"

    def __post_init__(self) -> None:
        Hospitals(state=self.state)

    @cached_property
    def losses(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        weeks = Hospitals(state=self.state)
        block, _ = weeks.block(weeks.start(0), weeks.setting.rounds, None)
        return round_to_lattice(1 - block.losses.sum(axis=1)[:, None])
