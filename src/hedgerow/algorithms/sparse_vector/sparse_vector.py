"""Fed-SVT: keep an expert until a noisy test finds its loss too high, then draw another privately.

Every `every` rounds the clients send the sums of their losses. The server tests q + noise > L +
noise, where q is the total loss of the current expert since it was drawn and L is the threshold. If
the test is positive, the server draws a new expert with probability proportional to
exp(-eta * max(S(x), m L*) / 2), where S(x) is the loss of expert x since the start, summed over all
m clients. After `switches` draws the last expert is kept and no more messages are sent.

The algorithm is that of Gao et al. 2024 (Algorithms 4 and 5). With one client it is the
single-player Sparse-Vector algorithm of Asi et al. 2023. A *run* is the time between two draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log, log2, nextafter, sqrt
from operator import attrgetter
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.shared.following import CHANNELS, ClientState, CurrentExpert, Follower
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.algorithms.sparse_vector.tuning import choose
from hedgerow.core.block import Block
from hedgerow.core.certificate import Certificate, PrivacyCurve, Proof, trusted_server
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import Array, Units, from_units, round_to_lattice, to_units
from hedgerow.core.layout import Extended, UnitVector
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, RunState, SpecTraits, Trace
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget, expect
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import largest_range
from hedgerow.privacy.composition.bounded_range import WIDEST, AdaptiveBoundedRange
from hedgerow.privacy.composition.steps import AfterPureStep, pure_sum
from hedgerow.privacy.curves import ApproximateDP, PureDP, Quoted
from hedgerow.privacy.mechanisms import AboveThreshold, ExponentialMechanism


@dataclass(frozen=True)
class ServerState:
    """What the server remembers between exchanges.

    `totals` are the losses of all clients so far, `expert` is the expert of the current run, `base`
    is its total loss when the run began, and `switches` counts the draws so far.
    """

    totals: UnitVector
    expert: int
    base: int
    noisy_threshold: Extended
    switches: int


@dataclass(frozen=True)
class Selector:
    """The server: one sparse-vector query per exchange, one selection after each "above"."""

    state: ClassVar[type[Any]] = ServerState

    experts: int
    every: int
    switches: int
    threshold: float
    floor: float
    sparse: AboveThreshold
    selection: ExponentialMechanism

    def open(self, noise: Noise) -> tuple[CurrentExpert, ServerState]:
        first = noise.index(self.experts, "first expert")
        state = ServerState(
            np.zeros(self.experts, np.int64), first, 0, self.sparse.begin(self.threshold, noise), 0
        )
        return self.message(state), state

    def spent(self, state: ServerState) -> bool:
        return state.switches >= self.switches

    def switches_left(self, state: ServerState) -> int | None:
        """The draws that are still allowed."""
        return self.switches - state.switches

    def message(self, state: ServerState) -> CurrentExpert:
        return CurrentExpert(
            None if self.spent(state) else self.every, state.expert, state.switches
        )

    def query(self, state: ServerState) -> float:
        """The loss of the current expert in this run, over all clients."""
        return float(from_units(int(state.totals[state.expert]) - state.base))

    def queries(
        self, state: ServerState, block: Block, earlier: Units, due: npt.NDArray[np.int64]
    ) -> Array:
        """`query` before each round in `due`, as long as the run lasts.

        `earlier` are the totals before the block.
        """
        column = np.zeros(block.rounds + 1)
        np.cumsum(np.einsum("ri->r", block.losses[:, :, state.expert]), out=column[1:])
        return from_units(to_units(column[due]) + (int(earlier[state.expert]) - state.base))

    def scores(self, totals: Units) -> Array:
        """Scores for the selection: total losses, but at least m L*."""
        return np.maximum(from_units(totals), self.floor)

    def switch(self, state: ServerState, noise: Noise) -> ServerState:
        """Draws the next expert and begins its run."""
        expert = noise.release(self.selection, self.scores(state.totals))
        used = state.switches + 1
        fresh = self.sparse.begin(self.threshold, noise) if used < self.switches else np.inf
        return ServerState(state.totals, expert, int(state.totals[expert]), fresh, used)

    def aggregate(
        self, state: ServerState, uploads: LossSums, noise: Noise
    ) -> tuple[CurrentExpert, ServerState]:
        state = replace(state, totals=state.totals + uploads.losses)
        if self.sparse.above(self.query(state), state.noisy_threshold, noise):
            state = self.switch(state, noise)
        return self.message(state), state

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        """Plays many exchanges at once: between two draws only the current expert's column matters.

        `pending` are the losses since the last upload; `boundaries` are the rounds of the block
        before which an exchange is due.
        """
        noise = source.server()
        rounds, clients = block.losses.shape[:2]
        state: ServerState = run.server
        pending = run.clients.losses.sum(axis=0)
        start_totals = state.totals + pending
        plays = np.full(rounds, state.expert, np.int64)
        boundaries = (
            np.arange(rounds, rounds)
            if run.remaining is None
            else np.arange(run.remaining, rounds, self.every)
        )
        drawn = self.sparse.draw_queries(len(boundaries), noise)
        done = 0
        while done < len(boundaries) and not self.spent(state):
            due = boundaries[done:]
            queries = self.queries(state, block, start_totals, due)
            first = self.sparse.first_above(queries, state.noisy_threshold, drawn[done:])
            if first is None:
                done = len(boundaries)
                break
            done += first + 1
            at = int(due[first])
            state = self.switch(
                replace(state, totals=start_totals + block.totals_before(at)), noise
            )
            plays[at:] = state.expert
        if done:
            last = int(boundaries[done - 1])
            tail = to_units(block.losses[last:].sum(axis=0))
            totals = start_totals + block.own_totals.sum(axis=0) - tail.sum(axis=0)
            state = replace(state, totals=totals)
            sums = tail
            remaining = None if self.spent(state) else self.every - (rounds - last)
        else:
            sums = run.clients.losses + block.own_totals
            remaining = None if run.remaining is None else run.remaining - rounds
        after = RunState(
            run.round + rounds,
            ClientState(np.full(clients, state.expert), sums),
            None,
            state,
            remaining,
        )
        return after, Trace(np.broadcast_to(plays[:, None], (rounds, clients)), done)

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        """Exact log-probability of the broadcasts; the threshold noise is integrated out."""
        totals = to_units(reports.sum(axis=1))
        expert, used, base, queries = broadcasts[0].expert, 0, 0, list[float]()
        result = -log(self.experts)
        for number, sent in enumerate(broadcasts[1:], start=1):
            seen = totals[: number * self.every].sum(axis=0)
            queries.append(float(from_units(int(seen[expert]) - base)))
            if sent.switches == used:
                if sent.expert != expert:
                    return -np.inf
                continue
            if sent.switches != used + 1:
                return -np.inf
            result += self.sparse.log_probability(queries, self.threshold, ended=True)
            result += self.selection.log_probability(self.scores(seen), sent.expert)
            expert, used, base, queries = sent.expert, sent.switches, int(seen[sent.expert]), []
        return result + self.sparse.log_probability(queries, self.threshold, ended=False)


def total_cost(switches: int, sparse: AboveThreshold, selection_epsilon: float) -> PureDP:
    """Pure cost: the sparse-vector part once, plus one selection per switch.

    Proof: `proofs/sparse_vector.md#whole-algorithm`.
    """
    return pure_sum([sparse.curve, *[PureDP(selection_epsilon)] * switches])


def approximate_cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """Approximate cost: the sparse-vector part, then adaptive selections of bounded range.

    Proof: `proofs/sparse_vector.md#approximate-dp`.
    """
    if selection_epsilon > WIDEST:  # not in the recursion's tables, and it would gain nothing
        return total_cost(switches, sparse, selection_epsilon)
    return Quoted(
        AfterPureStep(AdaptiveBoundedRange(selection_epsilon, switches), sparse.curve.bound), delta
    )


def cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """The privacy cost of the whole game: pure if delta = 0."""
    if delta == 0:
        return total_cost(switches, sparse, selection_epsilon)
    return approximate_cost(switches, sparse, selection_epsilon, delta)


def affordable(epsilon: float, delta: float, switches: int, sparse: AboveThreshold) -> float:
    """The largest epsilon per selection that the budget allows after the sparse-vector part."""
    eta = (epsilon - sparse.curve.bound) / switches
    if delta > 0 and eta < WIDEST:
        eta = largest_range(
            switches, Budget(epsilon, delta), pure=sparse.curve.bound, tolerance=5e-4
        )
    while cost(switches, sparse, eta, delta).delta(epsilon) > delta:  # one last bit, if any
        eta = nextafter(eta, 0.0)
    return eta


@dataclass(frozen=True)
class SparseVector(AlgorithmSpec):
    r"""Keep an expert until a noisy test finds its loss too high, then draw a new one privately.

    Use it when some expert is rarely or never wrong and a bound on its loss is known. A new expert
    is drawn when $q + \mathrm{noise} > L + \mathrm{noise}$, where $q$ is the loss of the current
    expert since it was drawn, with probability proportional to $\exp(-\eta \max(S(x), m L^*) / 2)$,
    where $S(x)$ is the loss of expert $x$ since the start; both are sums over all $m$ clients.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). 0 (default) gives pure differential privacy.
    every
        Rounds between two exchanges (N): from 1 (default) to the horizon.
    best_loss
        The total loss L* of the best expert per client, >= 0 (default 0). It must be known
        beforehand; a value computed from the data is not covered by the guarantee.
    calibration
        "certified" (default) spends the budget by the tight proof. It chooses all other parameters
        from public values, to minimise the worst expected regret over a fixed family of streams.
        "published" uses the constants printed in the paper; the certificate states their true cost.
    rho
        The failure probability in the published constants, in (0, 1/2). It does not affect privacy.
    switches
        The largest number of draws (kappa), at least 1. None (default): the calibration chooses.
    threshold
        The threshold L, >= 0, on the loss summed over clients. None (default): the calibration
        chooses. The certificate always follows the values that are used.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with the certified (epsilon, delta). The server is trusted: it
    receives exact sums of losses. Proofs: `proofs/sparse_vector.md#whole-algorithm` for delta = 0,
    `proofs/sparse_vector.md#approximate-dp` for delta > 0.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=512)
    >>> published = hr.SparseVector(epsilon=1.0, calibration="published").build(setting)
    >>> print(published.certificate.peer.curve.words())
    epsilon = 0.75, delta = 0

    References
    ----------
    Gao et al. 2024, Algorithms 4 and 5. Asi et al. 2023 (one client).
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={
            "published": {"calibration": "published"},
            "approximate": {"delta": 1e-6},
            "approximate, published": {"delta": 1e-6, "calibration": "published"},
        },
        meanings={
            "best_loss": "largest total loss of the best expert per client",
            "rho": "probability of missing the published accuracy; does not affect privacy",
            "switches": "largest number of changes of expert",
            "selection_epsilon": "epsilon of each private choice of an expert",
            "threshold": "loss, summed over clients, at which a new expert is chosen",
            "threshold_scale": "scale of the noise on the threshold",
            "query_scale": "scale of the noise on each comparison with the threshold",
            "noise_law": "distribution of both noises",
        },
    )

    epsilon: float = 1.0
    delta: float = 0.0
    every: int = 1
    best_loss: float = 0.0
    calibration: Literal["certified", "published"] = "certified"
    rho: float = 0.05
    switches: int | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("every", self.every, 1)
        expect(0 <= self.best_loss < np.inf, "best_loss", self.best_loss, ">= 0 and finite")
        options = ("certified", "published")
        expect(self.calibration in options, "calibration", self.calibration, f"in {options}")
        expect(0 < self.rho < 0.5, "rho", self.rho, "in (0, 1/2)")
        if self.switches is not None:
            at_least("switches", self.switches, 1)
        if self.threshold is not None:
            expect(0 <= self.threshold < np.inf, "threshold", self.threshold, ">= 0 and finite")

    def audit_variants(self) -> tuple[SparseVector, ...]:
        """Variants whose tiny games have several runs and come close to the certificate."""
        return (
            replace(self, epsilon=24.0, switches=2, threshold=1.0, every=1, best_loss=0.0),
            replace(self, epsilon=36.0, switches=3, threshold=0.5, every=1, best_loss=0.5),
            replace(self, epsilon=3.0, switches=2, threshold=0.5, every=1, best_loss=0.0),
        )

    def resolve(self, setting: Setting) -> Algorithm:
        clients, experts, horizon = setting.clients, setting.experts, setting.rounds
        expect(self.every <= horizon, "every", self.every, f"<= horizon={horizon}")
        between("best_loss", self.best_loss, 0.0, float(horizon))
        switches, eta, threshold, sparse = self._parameters(clients, experts, horizon)
        threshold, floor = (
            float(round_to_lattice(threshold)),
            float(round_to_lattice(clients * self.best_loss)),
        )
        selection = ExponentialMechanism("selection", eta)
        server = Selector(experts, self.every, switches, threshold, floor, sparse, selection)
        parameters = {
            "switches": switches,
            "selection_epsilon": eta,
            "threshold": threshold,
            "threshold_scale": sparse.threshold_scale,
            "query_scale": sparse.query_scale,
            "noise_law": sparse.law,
        }
        return Algorithm(
            name="sparse_vector",
            setting=setting,
            client=Follower(experts),
            server=server,
            certificate=self._certificate(setting, switches, sparse, selection),
            upload=LossSums,
            broadcast=CurrentExpert,
            supports=MASKS_AND_DELAYS,
            advance=server.advance,
            common_play=attrgetter("expert"),
            log_likelihood=server.log_likelihood,
            switches_left=server.switches_left,
            parameters=parameters,
        )

    def _parameters(
        self, clients: int, experts: int, horizon: int
    ) -> tuple[int, float, float, AboveThreshold]:
        if self.calibration == "published":
            switches = self.switches or ceil(3 * ceil(log2(experts)) + 24 * log(1 / self.rho))
            pure = self.delta == 0
            eta = (
                self.epsilon / (2 * switches)
                if pure
                else self.epsilon / sqrt(switches * log(1 / self.delta))
            )
            wait = 8 * log(2 * (horizon / self.every) ** 2 / self.rho) / self.epsilon
            printed = clients * self.best_loss + wait + 4 / eta
            threshold = printed if self.threshold is None else self.threshold
            return (
                switches,
                eta,
                threshold,
                AboveThreshold("laplace", 4 / self.epsilon, 8 / self.epsilon),
            )
        chosen = choose(
            clients=clients,
            experts=experts,
            horizon=horizon,
            every=self.every,
            best_loss=self.best_loss,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        scale = 1 / chosen.sparse_epsilon
        sparse = AboveThreshold("exponential", scale, scale)
        switches = self.switches or chosen.switches
        eta = affordable(self.epsilon, self.delta, switches, sparse)
        return switches, eta, chosen.threshold if self.threshold is None else self.threshold, sparse

    def _claim(self) -> PrivacyCurve:
        return PureDP(self.epsilon) if self.delta == 0 else ApproximateDP(self.epsilon, self.delta)

    def _certificate(
        self,
        setting: Setting,
        switches: int,
        sparse: AboveThreshold,
        selection: ExponentialMechanism,
    ) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=cost(switches, sparse, selection.epsilon, self.delta),
            claimed=self._claim() if self.calibration == "published" else None,
            proof=Proof(
                "sparse_vector.md", "whole-algorithm" if self.delta == 0 else "approximate-dp"
            ),
            calibration=self.calibration,
            channels=CHANNELS,
            mechanisms=(sparse.threshold_noise, sparse.comparison, selection),
            when_spent=(
                f"after {switches} changes of expert the clients keep the last one, "
                "and no more messages are sent"
            ),
        )
