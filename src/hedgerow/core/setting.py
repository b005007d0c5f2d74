"""The public frame of a game."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.core.lattice import MOST_LOSSES
from hedgerow.core.validate import at_least, expect


@dataclass(frozen=True)
class Setting:
    """How many clients, experts and rounds there are; deciders only where they are not the clients."""

    clients: int
    experts: int
    horizon: int
    deciders: int | None = None

    def __post_init__(self) -> None:
        at_least("clients", self.clients, 1)
        at_least("experts", self.experts, 1)
        at_least("horizon", self.horizon, 1)
        losses = max(self.clients, self.players) * self.horizon
        expect(
            losses <= MOST_LOSSES, "clients * horizon", losses, f"<= {MOST_LOSSES} (64-bit sums)"
        )
        if self.deciders is not None:
            at_least("deciders", self.deciders, 1)

    @property
    def players(self) -> int:
        """How many play: the deciders, where they are not the clients."""
        return self.clients if self.deciders is None else self.deciders
