"""Fed-SVT: stay with an expert until its loss is noisily too high, then draw a new one privately (Gao et al. 2024, Alg. 4, 5).

Every `every` rounds the clients send the sums of their losses. The server compares the total loss q of the current expert,
since it was chosen, with a threshold: q + noise > L + noise. If so it draws a new expert with probability proportional to
exp(-eta * max(S(x), m L*) / 2), S the total losses of all clients since the start. After `switches` draws the last expert is
kept and nothing is sent any more. One client alone is the single-player Sparse-Vector algorithm of Asi et al. 2023.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log, log2, nextafter, sqrt
from operator import attrgetter
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.shared.following import CHANNELS, ClientState, CurrentExpert, Follower
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.algorithms.sparse_vector.tuning import choose
from hedgerow.core.block import Block
from hedgerow.core.certificate import Certificate, PrivacyCurve, Proof, trusted_server
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import Array, Units, from_units, round_to_lattice, to_units
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
    """Total losses of all clients, the run's expert, its loss when the run began, its noisy threshold, switches used."""

    totals: Units
    expert: int
    base: int
    noisy_threshold: float
    switches: int


@dataclass(frozen=True)
class Selector:
    """The server: one sparse-vector query at every exchange, one private selection after each "above"."""

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

    def message(self, state: ServerState) -> CurrentExpert:
        return CurrentExpert(
            None if self.spent(state) else self.every, state.expert, state.switches
        )

    def query(self, state: ServerState) -> float:
        return float(from_units(int(state.totals[state.expert]) - state.base))

    def queries(
        self, state: ServerState, block: Block, earlier: Units, due: npt.NDArray[np.int64]
    ) -> Array:
        """`query` before each of the rounds `due` of a block, while the run lasts; `earlier` are the totals before the block."""
        column = np.zeros(block.rounds + 1)
        np.cumsum(np.einsum("ri->r", block.losses[:, :, state.expert]), out=column[1:])
        return from_units(to_units(column[due]) + (int(earlier[state.expert]) - state.base))

    def scores(self, totals: Units) -> Array:
        return np.maximum(from_units(totals), self.floor)

    def switch(self, state: ServerState, noise: Noise) -> ServerState:
        """Draw the next expert and begin its run."""
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
        """Many exchanges at once: between two switches only the current expert's column matters.

        `pending` is what the clients have gathered since their last upload; `boundaries` are the rounds of the block before
        which an exchange is due.
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
        """Exact log-probability of the broadcasts: threshold noise integrated out, one run after the other."""
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
    """The sparse-vector part once, and one selection for each switch: `proofs/sparse_vector.md#whole-algorithm`."""
    return pure_sum([sparse.curve, *[PureDP(selection_epsilon)] * switches])


def approximate_cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """The sparse-vector part, then adaptive selections of bounded range: `proofs/sparse_vector.md#approximate-dp`."""
    if (
        selection_epsilon > WIDEST
    ):  # beyond the recursion's tables, where it would gain nothing anyway
        return total_cost(switches, sparse, selection_epsilon)
    return Quoted(
        AfterPureStep(AdaptiveBoundedRange(selection_epsilon, switches), sparse.curve.bound), delta
    )


def cost(
    switches: int, sparse: AboveThreshold, selection_epsilon: float, delta: float
) -> PrivacyCurve:
    """What a run of the algorithm costs; delta = 0 asks for pure privacy."""
    if delta == 0:
        return total_cost(switches, sparse, selection_epsilon)
    return approximate_cost(switches, sparse, selection_epsilon, delta)


def affordable(epsilon: float, delta: float, switches: int, sparse: AboveThreshold) -> float:
    """The largest epsilon of a selection that the budget leaves, beside the sparse-vector part."""
    eta = (epsilon - sparse.curve.bound) / switches
    if delta > 0 and eta < WIDEST:
        eta = largest_range(
            switches, Budget(epsilon, delta), pure=sparse.curve.bound, tolerance=5e-4
        )
    while cost(switches, sparse, eta, delta).delta(epsilon) > delta:  # a last bit, if any
        eta = nextafter(eta, 0.0)
    return eta


@dataclass(frozen=True)
class SparseVector(AlgorithmSpec):
    """Private federated experts for streams with a low-loss expert.

    `epsilon` and `delta` are the budget (delta = 0: pure), `every` the rounds between exchanges (N), `best_loss` the loss L* of
    the best expert per client, known beforehand (a value computed from the data would not be covered).

    `calibration="certified"` (default) spends the budget by the tight proof and chooses everything else from public values to
    minimise the worst expected regret over a fixed family of streams; `"published"` uses the printed constants with failure
    probability `rho`, and its certificate says what they really cost. `switches` (kappa) and `threshold` (L)
    replace what the calibration would choose; the certificate follows.

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = SparseVector(epsilon=1.0, calibration="published").build(Setting(clients=10, experts=100, horizon=512))
    >>> print(algorithm.certificate.guarantees[1].curve.words())
    epsilon = 0.75, delta = 0
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={
            "published": {"calibration": "published"},
            "approximate": {"delta": 1e-6},
            "approximate, published": {"delta": 1e-6, "calibration": "published"},
        },
        meanings={
            "best_loss": "the best expert's loss per site, at most",
            "rho": "chance of missing the published accuracy; not about privacy",
            "switches": "changes of expert allowed",
            "selection_epsilon": "epsilon of each choice of an expert",
            "threshold": "loss at which a new expert is chosen",
            "threshold_scale": "noise on the threshold",
            "query_scale": "noise on each comparison with it",
            "noise_law": "law of that noise",
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
        """Loud versions whose tiny games, with several runs in them, come close to the certificate."""
        return (
            replace(self, epsilon=24.0, switches=2, threshold=1.0, every=1, best_loss=0.0),
            replace(self, epsilon=36.0, switches=3, threshold=0.5, every=1, best_loss=0.5),
            replace(self, epsilon=3.0, switches=2, threshold=0.5, every=1, best_loss=0.0),
        )

    def build(self, setting: Setting) -> Algorithm:
        clients, experts, horizon = setting.clients, setting.experts, setting.horizon
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
            when_spent=f"after {switches} switches of expert the sites keep the last one, and nothing is sent any more",
        )
