"""A sparse-vector server whose epochs grow: each has twice the draws, and costs the same.

With equal epochs, more budget means shorter epochs, and an expert that is best in the long run is
forgotten soon. Here the rate of the draws falls from epoch to epoch and the threshold rises, so
the memory grows with the losses of the best expert (`proofs/potential.md#switches`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from hedgerow.algorithms.sparse_vector.restarting import Restarting
from hedgerow.algorithms.sparse_vector.selector import affordable, cost
from hedgerow.core.certificate import PrivacyCurve
from hedgerow.core.lattice import round_to_lattice
from hedgerow.privacy.composition.largest import LargestOf
from hedgerow.privacy.curves import Quoted
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism

MOST_DRAWS = 4096  # in an epoch; longer ones would hardly ever end
MOST_DRAWS_WITH_DELTA = 512  # the exact composition of more draws takes seconds


@dataclass(frozen=True)
class Epoch:
    """The draws of an epoch, the loss that a run of it may have, and how the next is drawn."""

    draws: int
    threshold: float
    selection: ExponentialMechanism


@dataclass(frozen=True)
class Growing(Restarting):
    """The server. `switches`, `threshold` and `selection` are those of the first epoch.

    `later` are the further epochs; the last of them repeats.
    """

    later: tuple[Epoch, ...]

    def place(self, switches: int) -> tuple[Epoch, int]:
        """The epoch of the run that begins after `switches` draws, and its draws before that."""
        assert isinstance(self.selection, ExponentialMechanism)
        epoch = Epoch(self.switches, self.threshold, self.selection)
        for following in self.later:
            if switches < epoch.draws:
                break
            switches, epoch = switches - epoch.draws, following
        return epoch, switches % epoch.draws

    def restarts(self, switches: int) -> bool:
        return self.place(switches)[1] == 0

    def limit(self, switches: int) -> float:
        return self.place(switches)[0].threshold

    def drawing(self, switches: int) -> ExponentialMechanism:
        return self.place(switches)[0].selection


def later_epochs(
    epsilon: float, delta: float, sparse: AboveThreshold, first: Epoch, fall: float, exchanges: int
) -> tuple[Epoch, ...]:
    """The epochs after the first that a game with this number of exchanges can reach.

    Each doubles the draws and takes the largest rate that the budget allows. The threshold grows by
    as much as a weight needs to fall by the factor exp(-fall).

    >>> sparse = AboveThreshold("exponential", 2.0, 2.0)
    >>> first = Epoch(4, 10.0, ExponentialMechanism("selection", 0.125))
    >>> for epoch in later_epochs(1.0, 0.0, sparse, first, 2.0, exchanges=20):
    ...     print(epoch.draws, epoch.threshold, epoch.selection.epsilon)
    8 42.0 0.0625
    16 106.0 0.03125
    """
    most = MOST_DRAWS if delta == 0 else MOST_DRAWS_WITH_DELTA
    draws = [first.draws]
    while sum(draws) < exchanges and 2 * draws[-1] <= most:
        draws.append(2 * draws[-1])
    found = []
    for count in draws[1:]:
        eta = affordable(epsilon, delta, count, sparse)
        threshold = first.threshold + 2 * fall * (1 / eta - 1 / first.selection.epsilon)
        selection = ExponentialMechanism("selection", eta)
        found.append(Epoch(count, float(round_to_lattice(threshold)), selection))
    return tuple(found)


def largest_cost(server: Growing, delta: float) -> PrivacyCurve:
    """The cost of the dearest epoch: a record falls into one, and which is known before it matters.

    Proof: `proofs/potential.md#whole-algorithm`.
    """
    starts = accumulate((epoch.draws for epoch in server.later), initial=server.switches)
    epochs = [server.place(start)[0] for start in (0, *starts)]
    curves = dict.fromkeys(
        cost(epoch.draws, server.sparse, epoch.selection.epsilon, delta) for epoch in epochs
    )
    if delta == 0:
        return max(curves, key=lambda curve: curve.stated())
    bare = tuple(curve.curve if isinstance(curve, Quoted) else curve for curve in curves)
    return Quoted(LargestOf(bare), delta) if len(bare) > 1 else next(iter(curves))
