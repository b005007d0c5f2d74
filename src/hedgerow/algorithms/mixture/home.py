"""Personal play: a client mixes the public combination with its own learner, at home.

Its own learner knows its targets exactly. What comes out must stay at the client: the answers that
it sends are about the public combination, so the mixture costs no privacy
(`proofs/private_mixture.md#privacy`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from hedgerow.core.lattice import Array

PRIOR = np.array([0.7, 0.3])  # of the public combination and the own one
BOLDNESS = 2.0


@dataclass(frozen=True)
class HomeMixture:
    """How much a client trusts the public combination and its own one; for any number of clients.

    Weights are exponential in what each of the two has lost so far, at twice the rate sqrt(ln 2 /
    V), where V adds up the squares of the differences of their losses. Every method returns a new
    object. Losses count, not slopes at the mixed forecast: where the target lies between the two
    forecasts, their losses differ less than they do, and a small V makes it quick to leave one that
    is worse.

    Parameters
    ----------
    lost
        What each of the two has lost (..., 2).
    energy
        The sum V (...).

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> home = hr.HomeMixture.start()
    >>> for _ in range(20):  # the public combination is 3 too high, the own one is right
    ...     home = home.learn(losses=np.array([3.0, 0.0]))
    >>> home.shares.round(2).tolist()
    [0.0, 1.0]
    """

    lost: Array
    energy: Array

    @classmethod
    def start(cls, *clients: int) -> HomeMixture:
        """Return the mixture before the first round: 0.7 for the public combination."""
        return cls(np.zeros((*clients, 2)), np.zeros(clients))

    @property
    def shares(self) -> Array:
        """The shares (..., 2) of the public combination and of the own one."""
        known = self.energy > 0
        rate = np.sqrt(log(2) / np.where(known, self.energy, 1.0)) * known
        logits = np.log(PRIOR) - BOLDNESS * rate[..., None] * self.lost
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    def mixed(self, forecasts: Array) -> Array:
        """Return the forecast (...) to use, given the public and the own one (..., 2)."""
        return np.einsum("...k,...k->...", self.shares, forecasts)

    def learn(self, losses: Array) -> HomeMixture:
        """Return the mixture after a target, given the losses (..., 2) of the two forecasts."""
        apart = losses[..., 0] - losses[..., 1]
        return HomeMixture(self.lost + losses, np.asarray(self.energy + apart**2))
