"""The public size of a game, and what a play costs in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import MOST_EXACT, MOST_LOSSES
from hedgerow.core.losses import Family, Linear, require_family
from hedgerow.core.validate import at_least

LOSSES = Linear()


@dataclass(frozen=True, repr=False)
class Setting:
    """The number of clients, experts and rounds of a game, and its losses; all of it is public.

    Parameters
    ----------
    clients
        The number of clients, at least 1.
    experts
        The number of experts, at least 1. Where points are played, the number of coordinates.
    horizon
        The number of rounds, at least 1. None: it is not known; algorithms that do not need it
        run for as long as they are used.
    deciders
        The number of deciders: players that are not clients. None: every client plays.
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
    horizon: int | None
    deciders: int | None = None
    family: Family = LOSSES

    def __post_init__(self) -> None:
        require_family(self.family)
        at_least("clients", self.clients, 1)
        at_least("experts", self.experts, 1)
        if self.horizon is not None:
            at_least("horizon", self.horizon, 1)
            losses = max(self.clients, self.players) * self.horizon
            if not losses <= MOST_LOSSES:
                raise InvalidValue(
                    f"Expected clients * horizon={losses!r} <= {MOST_LOSSES} (64-bit sums)."
                )
        if self.deciders is not None:
            at_least("deciders", self.deciders, 1)

    def __repr__(self) -> str:
        family = "" if self.family == LOSSES else f", family={self.family}"
        return (
            f"Setting(clients={self.clients}, experts={self.experts}, horizon={self.horizon}, "
            f"deciders={self.deciders}{family})"
        )

    @property
    def players(self) -> int:
        """The number of players: the deciders, or the clients if there are no deciders."""
        return self.clients if self.deciders is None else self.deciders

    @property
    def numbers(self) -> int:
        """The largest number of values in one round: records of all players, or of all clients."""
        return max(self.clients, self.players) * self.family.record_width(self.experts)

    @property
    def rounds(self) -> int:
        """The horizon; raises if the game has none."""
        if self.horizon is None:
            raise InvalidValue("This game has no horizon. Give the number of rounds.")
        return self.horizon

    def over(self, played: int) -> bool:
        """Whether a game is over after this many rounds."""
        return self.horizon is not None and played >= self.horizon

    def until_next(self, played: int, wait: int | None) -> int | None:
        """The rounds until the next exchange, if `wait` were asked for; None: none comes.

        >>> setting = Setting(clients=2, experts=3, horizon=10)
        >>> setting.until_next(played=4, wait=5), setting.until_next(played=4, wait=6)
        (5, None)
        """
        return None if wait is None or self.over(played + wait) else wait

    def require_exact_sums(self, rounds: int) -> None:
        """Raise if a sum of records over these rounds may be too large for secure noise.

        The rule uses public values only, so that a refusal says nothing about the records.
        """
        if not self.family.linear:
            return
        most = self.clients * rounds * max(1.0, *map(abs, self.family.bounds))
        if not most < MOST_EXACT:
            raise InvalidValue(
                f"Expected clients * rounds * largest record={most!r} < {MOST_EXACT} for secure "
                "noise (exact sums)."
            )

    def admits(self, game: Setting) -> bool:
        """Whether an algorithm built for this setting can play a game: a horizon may be open."""
        return self == (game if self.horizon is not None else replace(game, horizon=None))
