"""One default: the algorithm to take if you do not know how losses come about."""

from __future__ import annotations

from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.correlated.window_leader import WindowLeader
from hedgerow.algorithms.shared.noisy_reports import Trust
from hedgerow.algorithms.watch.watched_selection import WatchedSelection
from hedgerow.core.protocol import AlgorithmSpec


def Private(  # noqa: N802
    epsilon: float = 1.0, trust: Trust = "central", delta: float = 1e-6
) -> AlgorithmSpec:
    """Return the private algorithm that is rarely far from the best one, whatever the losses are.

    The choice depends on whom the clients trust, and on no data. It had the smallest worst ratio,
    or the smallest on average, of its regret to that of the best algorithm for the stream
    (`hedgerow reproduce price-of-not-knowing`).

    * trust="central": `WatchedSelection`, which also follows a best expert that changes. It spends
      no delta.
    * trust="distributed" (the server sees only sums): `WindowLeader`, which follows changes, too.
    * trust="local" (the server sees noisy reports): `RunningLeader`. It does not follow changes.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    trust
        Whom the clients trust: "central" (default), "distributed" or "local".
    delta
        The second part of the budget without a trusted server, in (0, 1). Default 1e-6.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Private(epsilon=0.5)
    WatchedSelection(epsilon=0.5, every=None)
    >>> type(hr.Private(trust="local")).__name__
    'RunningLeader'
    """
    if trust == "central":
        return WatchedSelection(epsilon=epsilon)
    kind = WindowLeader if trust == "distributed" else RunningLeader
    return kind(epsilon=epsilon, delta=delta, trust=trust)
