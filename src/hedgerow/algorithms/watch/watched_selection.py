"""Watched selection: phased selection whose runs end early when a test finds a better expert.

As long as one expert stays the best, runs become longer and longer, as in `phased_selection`. When
the best expert changes, the losses before the change say nothing about what follows. So a private
test watches the run: at every exchange it asks, for the last step, the last 2, 4, 8, ... steps and
the whole run, of one expert after the other whether it would have lost much less. The first "yes"
ends the run, and this expert is followed. As the answer names the expert, nothing else is spent on
the choice; and as answers "no" cost little, a run without a "yes" has most of its budget left for
its planned choice (`proofs/watched_selection.md#privacy`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import log, sqrt
from typing import ClassVar

from hedgerow.algorithms.shared.following import followed
from hedgerow.algorithms.sparse_vector.regret_test import RegretTest
from hedgerow.algorithms.watch.server import CHANNELS, ProvenRegret, Run, RunServer, Watched
from hedgerow.core.certificate import Proof, trusted_server
from hedgerow.core.lattice import MOST_EXACT, UNITS_PER_LOSS, round_to_lattice
from hedgerow.core.limits import LONGEST_BATCH, Broadcasts
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.rounding import round_down, round_up
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.mechanisms import NoisyMax

ANSWER = Fraction(4, 5)
"""The share of the budget for a "yes" or for a planned choice; the rest hides the threshold."""
SPREAD = 0.2
"""How far a leader may be ahead by chance, in standard deviations or so."""
LONGER = 2
"""After an alarm the next run is planned this many windows long; a run is tested if this many
thresholds can be lost in it."""
HALVED = -1
"""The threshold is never halved more than once."""
LOOKS = 8
"""A run has at least this many exchanges, if losses are large enough to see."""
EVERY = 8
"""The rounds between two exchanges by default; half as many where a round may hold a threshold."""


@dataclass(frozen=True)
class WatchedSelection(AlgorithmSpec):
    """Follow an expert in runs of growing length, and end a run when another would be much better.

    Use it if you do not know how losses come about, or if the best expert may change. It is rarely
    far from the best algorithm for a stream, and rarely the best: if losses follow one law all the
    time, `PhasedSelection` loses a little less. Runs have 1, 2, 4, ... rounds. Long ones are tested
    every few rounds, in windows of many lengths. An alarm begins a run of two windows. An alarm was
    of no use if the next one has a window that reaches back to it, or if a planned choice returns
    to the expert that it left; then the threshold is doubled. After any other alarm it is halved
    again.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    every
        The rounds between two exchanges of a long tested run, >= 1. Default: 8, or 4 if all clients
        together can lose more than the threshold in a round. Short runs have more exchanges; where
        losses say less than the noise hides, there are fewer.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with exactly epsilon and delta = 0. The server is trusted: it
    receives exact sums of losses. Proof: `proofs/watched_selection.md#privacy`. No bound on the
    regret is proven in advance. One that holds for any losses is known after the game; tables show
    it as "proven for this run" (`proofs/watched_selection.md#regret`).

    Examples
    --------
    >>> import hedgerow as hr
    >>> algorithm = hr.WatchedSelection().build(hr.Setting(clients=10, experts=100, horizon=None))
    >>> print(algorithm.certificate.peer.curve.words())
    epsilon = 1, delta = 0
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        anytime=True,
        meanings={
            "threshold_scale": "scale of the noise on the threshold of a run",
            "query_scale": "scale of the noise on each comparison with the threshold",
            "selection_epsilon": "epsilon of the choice after a tested run",
        },
    )

    epsilon: float = 1.0
    every: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon)
        if self.every is not None:
            at_least("every", self.every, 1)

    def resolve(self, setting: Setting) -> Algorithm:
        budget = Fraction(self.epsilon)
        answer = ANSWER * budget
        test = RegretTest("exponential", round_up(2 / (budget - answer)), round_up(2 / answer))
        threshold = 2 / Fraction(test.threshold_scale)
        rest = round_down(budget - threshold)
        choices = (
            NoisyMax("selection", "exponential", self.epsilon),
            NoisyMax("selection after a test", "exponential", rest),
        )
        plan = DyadicWindows(
            setting.clients, setting.experts, test.threshold_scale, test.query_scale, self.every
        )
        server = RunServer(setting, plan, choices[0], test, choices[1])
        most = max(self.epsilon, test.curve.bound, round_up(threshold + Fraction(rest)))
        return followed(
            name="watched_selection",
            setting=setting,
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=PureDP(most),
                proof=Proof("watched_selection.md", "privacy"),
                channels=CHANNELS,
                mechanisms=(test.threshold_noise, test.comparison, *choices),
            ),
            broadcasts=Broadcasts(Watched, server.broadcasts),
            measures=lambda: (ProvenRegret(server),),
            parameters={
                "threshold_scale": test.threshold_scale,
                "query_scale": test.query_scale,
                "selection_epsilon": rest,
            },
        )

    def audit_variants(self) -> tuple[WatchedSelection, ...]:
        """Variants whose tiny games have tested runs and come close to the certificate."""
        return replace(self, epsilon=60.0, every=1), replace(self, epsilon=3.0, every=1)


@dataclass(frozen=True)
class DyadicWindows:
    """The plan of `WatchedSelection`: functions of what is public.

    The threshold of a run grows with the logarithm of the round in which it is planned to end, so
    no horizon is needed.
    """

    clients: int
    experts: int
    threshold_scale: float
    query_scale: float
    every: int | None
    opening: int = 1

    @cached_property
    def longest(self) -> int:
        """No run is longer, so that all sums of losses in a run are exact."""
        return max(1, MOST_EXACT // (2 * self.clients))

    def threshold(self, run: Run) -> float:
        return self._threshold(run.begun + run.length, run.step, run.doublings)

    def _threshold(self, end: int, step: int, doublings: int) -> float:
        questions = 2 * self.experts * max(end, step) / step
        return float(round_to_lattice(2.0**doublings * self.query_scale * log(questions)))

    def allowance(self, now: int, rounds: int, doublings: int) -> float:
        spread = SPREAD * sqrt(rounds * self.clients * log(1 + now / rounds))
        return round(2.0**doublings * spread * UNITS_PER_LOSS) / UNITS_PER_LOSS

    def following(self, run: Run, expert: int, window: int) -> Run:
        useless = window == run.round - run.alarmed if window else expert == run.left
        if window:
            run = replace(run, alarmed=run.round, left=run.expert)
        elif useless:
            run = replace(run, left=-1)
        if useless:
            run = replace(run, doublings=run.doublings + 1)
        elif window:
            run = replace(run, doublings=max(HALVED, run.doublings - 1))
        wanted = LONGER * window or 2 * (run.round - run.begun)
        length = max(1, min(wanted, self.longest))
        end = run.round + length
        step = self._step(end, length)
        level = self._threshold(end, step, run.doublings) + self.threshold_scale
        tested = self.experts > 1 and self.clients * length >= LONGER * level
        if tested:
            length = min(-(-length // step), self.longest // step) * step
        return replace(
            run,
            begun=run.round,
            length=length,
            step=step if tested else min(length, LONGEST_BATCH),
            tested=tested,
            runs=run.runs + 1,
        )

    def _step(self, end: int, length: int) -> int:
        """The largest power of 2 in which at most an eighth of the threshold is lost.

        It is at least `every`, or an eighth of a short run, but no longer than a run or a batch may
        be.
        """
        every, step = self.every, 1
        if every is None:
            level = self._threshold(end, EVERY, 0) + self.threshold_scale
            every = EVERY // 2 if self.clients > level else EVERY
        least = max(1, min(every, length // LOOKS))
        while 16 * self.clients * step <= (
            self._threshold(end, max(2 * step, least), 0) + self.threshold_scale
        ):
            step *= 2
        return min(max(step, least), self.longest, LONGEST_BATCH)
