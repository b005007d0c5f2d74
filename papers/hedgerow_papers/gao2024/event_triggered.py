"""The event-triggered design that Gao, Huang and Yang 2024 reject (section B.1), to measure why.

Every client compares its own loss in the current run with its own threshold, privately, and
signals when it is above. Any signal makes the server draw a new expert. With `signals=False` the
server compares the loss of all clients with one threshold, as Fed-SVT does, and nothing else is
different. It is not offered as an algorithm: it has no regime in which it wins.

The messages of the simulation carry sums in every round. In a deployment, silent clients would send
nothing, so the experiment counts signals and draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.shared.following import CHANNELS, CurrentExpert, Follower
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.certificate import Proof, trusted_server
from hedgerow.core.lattice import Array, Units, from_units, round_to_lattice, to_units
from hedgerow.core.layout import UnitVector, Vector
from hedgerow.core.limits import Broadcasts, Uploads
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Shortcuts, SpecTraits
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget, positive
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism
from hedgerow_papers.gao2024.fed_svt import affordable, cost

SHARE = 0.4  # of the budget for all tests; the draws have the rest


@dataclass(frozen=True)
class SignalState:
    """What the server and the tests of the clients remember.

    `totals` are the losses of all clients, and `origin` those when the epoch began. `runs` are the
    losses in the current run, and `thresholds` the noisy thresholds: one for each test.
    """

    totals: UnitVector
    origin: UnitVector
    runs: UnitVector
    thresholds: Vector
    expert: int
    switches: int


@dataclass(frozen=True)
class SignalServer:
    """Draws a new expert when a test is above; after `switches` draws it forgets all losses.

    There are `tests` tests: one for each client, or one for all together.
    """

    state: ClassVar[type[Any]] = SignalState

    experts: int
    tests: int
    switches: int
    threshold: float
    sparse: AboveThreshold
    selection: ExponentialMechanism

    def open(self, noise: Noise) -> tuple[CurrentExpert, SignalState]:
        first, zero = noise.index(self.experts, "first expert"), np.zeros(self.experts, np.int64)
        silent = np.zeros(self.tests, np.int64)
        state = SignalState(zero, zero, silent, self._thresholds(noise), first, 0)
        return CurrentExpert(1, first, 0), state

    def aggregate(
        self, state: SignalState, uploads: LossSums, noise: Noise
    ) -> tuple[CurrentExpert, SignalState]:
        state = self._observed(state, uploads.losses)
        queries = zip(from_units(state.runs), state.thresholds, strict=True)
        signals = [self.sparse.above(float(q), float(limit), noise) for q, limit in queries]
        if any(signals):
            expert = noise.release(self.selection, from_units(state.totals - state.origin))
            state = self._next_run(state, expert, self._thresholds(noise))
        return CurrentExpert(1, state.expert, state.switches), state

    def _thresholds(self, noise: Noise) -> Array:
        return np.array([self.sparse.begin(self.threshold, noise) for _ in range(self.tests)])

    def _observed(self, state: SignalState, losses: Units) -> SignalState:
        own = losses[:, state.expert]
        runs = state.runs + (own if self.tests > 1 else own.sum())
        return replace(state, totals=state.totals + losses.sum(axis=0), runs=runs)

    def _next_run(self, state: SignalState, expert: int, thresholds: Array) -> SignalState:
        used = state.switches + 1
        origin = state.totals if used % self.switches == 0 else state.origin
        silent = np.zeros_like(state.runs)
        return SignalState(state.totals, origin, silent, thresholds, expert, used)

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        """Exact log-probability of the broadcasts; the noise of all thresholds is integrated out.

        A run ends at an exchange with the probability that all tests were below before it, less
        that that they are also below at it.
        """
        zero, silent = np.zeros(self.experts, np.int64), np.zeros(self.tests, np.int64)
        blank = np.zeros(self.tests)
        state = SignalState(zero, zero, silent, blank, broadcasts[0].expert, 0)
        result, queries = -log(self.experts), list[Array]()
        for losses, sent in zip(to_units(reports), broadcasts[1:], strict=False):
            state = self._observed(state, losses)
            queries.append(from_units(state.runs))
            if sent.switches == state.switches:
                if sent.expert != state.expert:
                    return -np.inf
                continue
            if sent.switches != state.switches + 1:
                return -np.inf
            before, after = self._below(queries[:-1]), self._below(queries)
            if not after < before:
                return -np.inf
            result += before + float(np.log(-np.expm1(after - before)))
            scores = from_units(state.totals - state.origin)
            result += self.selection.log_probability(scores, sent.expert)
            state, queries = self._next_run(state, sent.expert, blank), []
        return float(result + self._below(queries))

    def _below(self, queries: list[Array]) -> float:
        """The log-probability that all tests are below in these exchanges."""
        return sum(
            self.sparse.log_probability([row[i] for row in queries], self.threshold, ended=False)
            for i in range(self.tests)
        )


@dataclass(frozen=True)
class EventTriggered(AlgorithmSpec):
    """Draw a new expert when a client signals that the current one has lost too much at it.

    Parameters
    ----------
    epsilon
        The privacy budget. Default 1.
    signals
        Whether every client tests its own loss (default), or the server that of all clients.
    switches
        Draws after which losses are forgotten, at least 1. Default 10.
    factor
        The threshold in multiples of ln(number of noisy comparisons) / (epsilon of the tests), at
        which false alarms become rare. Default 1.

    Guarantee
    ---------
    One loss vector of one client in one round, with epsilon, from the public and from other
    clients; the server is trusted. Proof: `proofs/sparse_vector.md#signals-of-clients`.

    Examples
    --------
    >>> setting = Setting(clients=8, experts=100, horizon=512)
    >>> each, total = (EventTriggered(signals=s).build(setting) for s in (True, False))
    >>> print(each.certificate.peer.curve.words())
    epsilon = 1, delta = 0
    >>> [round(a.parameters["threshold"], 1) for a in (each, total)]  # of a client, and of all
    [20.8, 15.6]
    """

    traits: ClassVar[SpecTraits] = SpecTraits(interval=None)

    epsilon: float = 1.0
    signals: bool = True
    switches: int = 10
    factor: float = 1.0

    def __post_init__(self) -> None:
        check_budget(self.epsilon, 0.0)
        at_least("switches", self.switches, 1)
        positive("factor", self.factor)

    def audit_variants(self) -> tuple[EventTriggered, ...]:
        """Variants whose tiny games come close to the certificate."""
        first = replace(self, epsilon=24.0, switches=2, factor=1.0)
        return first, replace(first, epsilon=3.0, factor=0.2)

    def resolve(self, setting: Setting) -> Algorithm:
        scale = 1 / (SHARE * self.epsilon)
        sparse = AboveThreshold("exponential", scale, scale)
        eta = affordable(self.epsilon, 0.0, self.switches, sparse)
        tests = setting.clients if self.signals else 1
        threshold = self.factor * log(max(2, tests * (setting.rounds - 1))) * scale
        server = SignalServer(
            setting.experts,
            tests,
            self.switches,
            float(round_to_lattice(threshold)),
            sparse,
            ExponentialMechanism("selection", eta),
        )
        return Algorithm(
            name="event_triggered",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=cost(self.switches, sparse, eta, 0.0),
                proof=Proof("sparse_vector.md", "signals-of-clients"),
                channels=CHANNELS,
                mechanisms=(sparse.threshold_noise, sparse.comparison, server.selection),
            ),
            uploads=Uploads(LossSums, combine="each"),
            broadcasts=Broadcasts(CurrentExpert),
            shortcuts=Shortcuts(common_play=attrgetter("expert")),
            claims=Claims(log_likelihood=server.log_likelihood),
            parameters={"threshold": server.threshold, "switches": self.switches},
        )
