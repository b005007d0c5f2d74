"""The public size of a game."""

from __future__ import annotations

from dataclasses import dataclass, field

from hedgerow.core.lattice import MOST_LOSSES
from hedgerow.core.losses import Family, Linear
from hedgerow.core.validate import at_least, expect


@dataclass(frozen=True)
class Setting:
    """The number of clients, experts and rounds of a game; all of it is public.

    Parameters
    ----------
    clients
        The number of clients, at least 1.
    experts
        The number of experts, at least 1.
    horizon
        The number of rounds, at least 1.
    deciders
        The number of players, if they are not the clients. None: every client plays.
    family
        The loss family: what a play costs. Default: losses of experts in [0, 1].

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> setting.players
    10
    >>> hr.FollowTheLeader().build(setting).name
    'follow_the_leader'
    """

    clients: int
    experts: int
    horizon: int
    deciders: int | None = None
    family: Family = field(default=Linear(), repr=False)

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
        """The number of players: the deciders, or the clients if there are no deciders."""
        return self.clients if self.deciders is None else self.deciders
