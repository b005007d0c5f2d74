"""What an audit shows, and the exact epsilon of transcripts whose likelihoods are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, between
from hedgerow.privacy.search import closest


@dataclass(frozen=True)
class Finding:
    """The result of an audit method.

    Parameters
    ----------
    epsilon
        What is shown at `delta`: a lower bound on the loss, without sampling error. None: every
        transcript is impossible in both worlds.
    delta
        The delta at which epsilon is shown.
    seen
        Whether the observer sees what was judged. If not, epsilon is about an observer that sees
        more.
    wrong
        How real runs differ from the stated laws, on which epsilon rests; None if they do not.
    """

    epsilon: float | None
    delta: float
    seen: bool = True
    wrong: str | None = None


def exact_epsilon(pairs: Sequence[tuple[float, float]], delta: float = 0.0) -> float | None:
    """Return the largest epsilon that these transcripts show at a delta.

    `pairs` are the exact log-likelihoods of different transcripts in the two worlds. With delta = 0
    the result is the largest |ln P - ln Q|. With delta > 0 it is the largest epsilon for which
    sum (P - e^epsilon Q)_+ reaches delta, in one of the directions; 0 if none does. Transcripts
    that are left out only make it smaller.
    """
    at_least("transcripts", len(pairs), 1)
    between("delta", delta, 0.0, 1.0)
    logs = np.array(pairs, float)
    if np.isnan(logs).any():
        raise InvalidValue("Expected log-likelihoods to be numbers, got nan.")
    possible = logs[(logs > -inf).any(axis=1)]
    if not len(possible):
        return None
    if delta == 0:
        return float(np.abs(possible[:, 0] - possible[:, 1]).max())
    return max(_shown(possible, delta), _shown(possible[:, ::-1], delta))


def _shown(logs: Array, delta: float) -> float:
    def reached(epsilon: float) -> bool:
        apart = np.minimum(epsilon + logs[:, 1] - logs[:, 0], 0.0)  # Q may be 0: -inf
        return float((np.exp(logs[:, 0]) * -np.expm1(apart)).sum()) >= delta

    logs = logs[logs[:, 0] > -inf]
    if not len(logs) or not reached(0.0):
        return 0.0
    largest = float((logs[:, 0] - logs[:, 1]).max())
    high = 1e3 if largest == inf else largest
    return inf if reached(1e3) else closest(reached, 0.0, high, 1e-12)
