"""Where the game of a learner stands, for monitoring."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.core.protocol import Algorithm


@dataclass(frozen=True)
class Status:
    """Where a learner stands.

    The numbers follow from public parameters and from what every client is sent. The budget is that
    of the whole game: it does not grow from round to round, and a learner never exceeds it.

    Parameters
    ----------
    algorithm
        The registered name.
    private
        Whether the learner draws secure noise. Otherwise it is a simulation.
    round, horizon
        The rounds that are finished, and the rounds of the game; None: no last round.
    over
        Whether the horizon is reached: plays are repeated, and nothing more is learned.
    exchanges
        How often clients and server have exchanged messages.
    next_exchange
        The rounds until the next exchange; None: there is none.
    switches_left
        The changes of expert that the budget still allows; None: the algorithm has no such limit.
    epsilon, delta
        The largest stated budget over the observers with a guarantee; None: nobody has one.

    Examples
    --------
    >>> import hedgerow as hr
    >>> learner = hr.Learner(hr.FollowTheLeader(), clients=2, experts=3, horizon=10)
    >>> learner.status().to_dict()["horizon"]
    10
    """

    algorithm: str
    private: bool
    round: int
    horizon: int | None
    over: bool
    exchanges: int
    next_exchange: int | None
    switches_left: int | None
    epsilon: float | None
    delta: float | None

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        private: bool,
        played: int,
        exchanges: int,
        wait: int | None,
        switches_left: int | None,
    ) -> Status:
        """Where a game stands: rounds `played`, exchanges, rounds to `wait` for the next one."""
        setting = algorithm.setting
        stated = [g.curve.stated() for g in algorithm.certificate.guarantees if g.protects]
        return cls(
            algorithm=algorithm.name,
            private=private,
            round=played,
            horizon=setting.horizon,
            over=setting.over(played),
            exchanges=exchanges,
            next_exchange=setting.until_next(played, wait),
            switches_left=switches_left,
            epsilon=max((epsilon for epsilon, _ in stated), default=None),
            delta=max((delta for _, delta in stated), default=None),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)
