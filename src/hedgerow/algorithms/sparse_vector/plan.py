"""What users may choose about the sparse-vector algorithm, and the rule that chooses the rest.

The rule is a formula in public values. Its constants come from a search over seven streams with a
perfect expert (Bernoulli losses of four rates, three streams on which experts fail one after the
other). Nothing about its regret is proven; the privacy of every plan is
(`proofs/sparse_vector.md#weights-by-recency`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, inf, log, sqrt
from typing import Any, Literal, get_args

from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.core.errors import InvalidValue
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, one_of

Draw = Literal["permute-and-flip", "exponential"]

SHARE = 0.4  # of the budget, for the test
LONG = 5.0  # losses before an alarm, from which chance in the data no longer matters


@dataclass(frozen=True)
class Plan:
    """What experts may choose themselves. None: chosen, from public values.

    The certificate always follows the values that are used.

    Parameters
    ----------
    switches
        The number of draws (kappa), at least 1, after which a new epoch begins.
    threshold
        The threshold L, >= 0, on the loss summed over clients.
    front
        The share of a run's budget, in [0, 1], that goes to the draw at its end alone; the rest is
        spread evenly over this and the later draws of the epoch. Not with a proven bound.
    draw
        "permute-and-flip" or "exponential" (the exponential mechanism). Permute-and-flip makes no
        use of delta; it is chosen if delta = 0. Not with a proven bound.
    """

    switches: int | None = None
    threshold: float | None = None
    front: float | None = None
    draw: Draw | None = None

    def __post_init__(self) -> None:
        if self.switches is not None:
            at_least("switches", self.switches, 1)
        if self.threshold is not None and not 0 <= self.threshold < inf:
            raise InvalidValue(f"Expected threshold={self.threshold!r} >= 0 and finite.")
        if self.front is not None:
            between("front", self.front, 0.0, 1.0)
        one_of(self, draw=(None, *get_args(Draw)))


FREE = Plan()


def planned(spec: Any, plan: Mapping[str, Any], **choices: Any) -> Any:
    """The spec with other choices; those of `plan` are in its plan, if it has one."""
    if hasattr(spec, "plan"):
        return replace(spec, plan=replace(spec.plan or FREE, **plan), **choices)
    return replace(spec, **plan, **choices)


@dataclass(frozen=True)
class Constants:
    """Everything about a sparse-vector server that is not its budget or its setting.

    * `sparse_epsilon`: the budget of a run's test. `threshold`: what a run may lose.
    * `switches`: draws in an epoch. `front`: the share of a run's budget that goes to the selection
      at its end; the rest is spread evenly over this one and the later ones of the epoch.
    * `schedule`: when messages are exchanged.
    * `untested`: the first run ends at the first exchange, without a test.
    * `draw`: how the next expert is drawn.
    """

    sparse_epsilon: float
    threshold: float
    switches: int
    front: float
    schedule: Schedule
    untested: bool
    draw: Draw


def rule(
    setting: Setting,
    *,
    epsilon: float,
    delta: float,
    every: int,
    early: bool,
    best_loss: float = 0.0,
) -> Constants:
    """The certified constants: a formula in public values.

    >>> plan = rule(Setting(10, 100, 512), epsilon=1.0, delta=0.0, every=1, early=True)
    >>> plan.switches, plan.front, round(plan.threshold, 2), plan.schedule
    (10, 0.7, 14.77, Schedule(every=1, early=()))
    >>> plan = rule(Setting(1, 100, 512), epsilon=10.0, delta=0.0, every=1, early=True)
    >>> plan.switches, plan.front, plan.threshold
    (8, 0.3, 1.75)
    """
    clients, experts, horizon = setting.clients, setting.experts, setting.rounds
    sparse = SHARE * epsilon
    longest = max(1, horizon // 8)
    pause = min(ceil(2 / (sparse * clients)), max(every, longest))
    interval = every * max(1, ceil(pause / every))
    first = min(max(ceil(2 * log(experts) / (clients * epsilon)), ceil(2 / clients)), longest)
    exchanges = log(max(2, horizon // interval))
    usual = max(0.75 * exchanges, 1.5 * log(experts) - 1)
    margin = max(usual, min(1.75 * sparse, exchanges + 1))
    front, switches = (0.7, 10) if (margin + 1) / sparse >= LONG else (0.3, 8)
    affordable = max(1.0, log(horizon * clients * sparse) - 2)
    if affordable < usual - 1:  # the game is short: there is time for a few runs only
        margin, front, switches = affordable, 0.9, 8
        first = min(ceil(1.5 * first), longest)
    schedule = Schedule.of(interval, early, first)
    level = margin / sparse
    return Constants(
        sparse,
        # an alarm of the best expert costs little, a run that may lose m L* much
        level + sqrt(level * clients * best_loss) / 2,
        switches,
        front,
        schedule,
        untested=True,
        draw="permute-and-flip" if delta == 0 else "exponential",
    )
