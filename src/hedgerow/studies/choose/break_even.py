"""From how many clients on does sharing beat learning alone? From proven bounds, without playing.

Sharing is phased selection, whose bound holds if losses follow one law. Proven in
`proofs/phased_selection.md#break-even`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.shared.noisy_reports import Trust
from hedgerow.core.setting import MOST_LOSSES, Setting
from hedgerow.environments.hard.lower_bounds import coin_regret


@dataclass(frozen=True)
class BreakEven:
    """The least numbers of clients with which sharing pays; None: none that can be played.

    From `private` clients on, the bound of sharing is below that of a client alone that spends the
    same budget on its plays, by the same theorem. From `open` clients on, it is below what every
    learner alone, private or not, regrets on fair coins.
    """

    private: int | None
    open: int | None

    def words(self) -> str:
        """The numbers in a sentence.

        >>> BreakEven(43, None).words().partition("beats ")[2].partition(",")[0]
        'learning alone with this privacy from 43 clients on'
        """
        private, open_ = (
            "never" if clients is None else f"from {clients:,} clients on"
            for clients in (self.private, self.open)
        )
        return (
            "By proven bounds, if losses follow one law, sharing beats learning alone with this "
            f"privacy {private}, and learning alone without privacy {open_}."
        )


def break_even(experts: int, horizon: int, sharing: Sequence[PhasedSelection]) -> BreakEven:
    """The numbers of clients from which the best of some ways of sharing pays.

    >>> break_even(100, 1024, allowed(1.0))
    BreakEven(private=43, open=6604)
    """

    def bound(spec: PhasedSelection, clients: int = 1) -> float:
        return spec.build(Setting(clients, experts, horizon)).regret_at_most

    def first_below(level: float) -> int | None:
        return least(
            lambda clients: any(bound(spec, clients) < level for spec in sharing),
            MOST_LOSSES // horizon,
        )

    alone = bound(PhasedSelection(sharing[0].epsilon))
    return BreakEven(first_below(alone), first_below(coin_regret(experts, horizon)))


def allowed(epsilon: float, delta: float = 0.0, trust: Trust = "local") -> list[PhasedSelection]:
    """Phased selection with every trust that asks for no more than this one."""
    by_trust = {
        "central": [PhasedSelection(epsilon)],
        "distributed": [PhasedSelection(epsilon, delta, trust="distributed")] if delta else [],
        "local": [PhasedSelection(epsilon, delta, trust="local")],
    }
    trusts = list(by_trust)
    return [spec for name in trusts[trusts.index(trust) :] for spec in by_trust[name]]


def least(pays: Callable[[int], bool], most: int) -> int | None:
    """The least number from 2 to about `most` with a condition that stays true once it is.

    >>> least(lambda clients: clients >= 300, 1000), least(lambda clients: clients >= 300, 200)
    (300, None)
    """
    high = 2
    while not pays(high):
        high *= 2
        if high > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
