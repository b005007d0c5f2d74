"""Random prefix: phased selection whose choices look at a random first part of the last block (Cesari and Colomboni 2026).

How many rounds of a block count is drawn beforehand, without looking at data, from the second half of its rounds. On losses that are
drawn anew in every round, independently at every client, with a best expert that leads by a gap, regret then stays below a number that
does not depend on the horizon: the drift of one choice is what the next one starts from, and all drifts together are at most ln(d).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, sqrt
from operator import attrgetter

import numpy as np

from hedgerow.algorithms.phases.blocks import (
    ANNOUNCED,
    BlockClient,
    BlockServer,
    NextBlock,
    Spans,
    later_blocks,
)
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.core.certificate import Certificate, Channel, Proof, trusted_server
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import check_budget, expect
from hedgerow.privacy.mechanisms import ExponentialMechanism


@dataclass(frozen=True)
class LaterHalf:
    """The number of rounds that count is uniform on the second half of 1, ..., rounds."""

    def draw(self, rounds: int, noise: Noise) -> int:
        return rounds // 2 + 1 + noise.index(rounds - rounds // 2, "prefix")

    def log_probability(self, rounds: int, counted: int) -> float:
        return -log(rounds - rounds // 2) if rounds // 2 < counted <= rounds else -np.inf


@dataclass(frozen=True)
class RandomPrefix(AlgorithmSpec):
    """One choice for each of the blocks 1, 2, 4, ..., by the exponential mechanism on a random prefix of the block before.

    Exactly `epsilon`-DP towards everybody but the server, which gets exact sums. The regret bound needs the exponential mechanism.
    `gap_regret` gives it for a known gap, whatever the horizon; `regret_bound` of the algorithm needs no gap, and grows like sqrt(T).

    >>> from hedgerow.core.setting import Setting
    >>> algorithm = RandomPrefix(epsilon=1.0).build(Setting(clients=10, experts=100, horizon=2**14))
    >>> print(algorithm.certificate.guarantees[1].curve.words())
    epsilon = 1, delta = 0 (bounded range)
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_budget(self.epsilon)

    def build(self, setting: Setting) -> Algorithm:
        selection = ExponentialMechanism("selection", self.epsilon)
        client, server = (
            BlockClient(setting.experts),
            BlockServer(setting.experts, selection, LaterHalf()),
        )
        return Algorithm(
            name="random_prefix",
            setting=setting,
            client=client,
            server=server,
            certificate=self._certificate(setting, selection),
            upload=LossSums,
            broadcast=NextBlock,
            advance=Spans(client, server).advance,
            common_play=attrgetter("expert"),
            common_rounds=attrgetter("counted"),
            log_likelihood=server.log_likelihood,
            regret_bound=RegretBound(
                gap_regret(setting, self.epsilon, 0.0),
                "stochastic",
                Proof("random_prefix.md", "regret"),
            ),
        )

    def audit_variants(self) -> tuple[RandomPrefix, ...]:
        """A loud version whose tiny games come close to the certificate."""
        return (replace(self, epsilon=12.0),)

    def _certificate(self, setting: Setting, selection: ExponentialMechanism) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=selection.curve,
            proof=Proof("random_prefix.md", "privacy"),
            channels={"LossSums.losses": Channel.UPLOADS, **ANNOUNCED},
            mechanisms=(selection,),
            composition="sum",
            entered=1,
        )


# Regret on losses that are drawn anew in every round, independently at every client: `proofs/random_prefix.md#regret`.


def gap_regret(setting: Setting, epsilon: float, gap: float) -> float:
    """Mean regret of a client where the best expert leads every other by `gap` or more in expectation (0: no gap is known).

    >>> short, long = (Setting(clients=10, experts=100, horizon=2**k) for k in (20, 36))
    >>> round(gap_regret(short, 1.0, 0.1)), round(gap_regret(long, 1.0, 0.1))
    (162, 162)
    """
    clients, experts, horizon = setting.clients, setting.experts, setting.horizon
    expect(0 <= gap <= 1, "gap", gap, "in [0, 1]")
    if experts == 1:
        return 0.0
    entropy = log(experts)
    hindsight = min(
        horizon * overrated(clients * horizon / 2, experts, gap),
        sqrt(horizon * entropy / (2 * clients)),
    )

    def bound(factor: int) -> float:
        total = 1.0 + 8 * factor * entropy / (clients * epsilon) + hindsight
        for before, rounds in later_blocks(horizon):
            doubt = factor * sqrt(entropy / (2 * clients)) * mean_root(before)
            if factor == 2:
                doubt = min(doubt, overrated(clients * (before // 2 + 1) / 8, experts, gap))
            total += (4 if before == 1 else rounds) * doubt
        return total

    return min(float(horizon), bound(1), bound(2))


def mean_root(rounds: int) -> float:
    """The mean of 1 / sqrt(N) over the numbers N of rounds that may count, bounded.

    >>> round(mean_root(8), 4), round(sum(n**-0.5 for n in (5, 6, 7, 8)) / 4, 4)
    (0.3971, 0.3967)
    """
    half = rounds // 2
    return 2 * (sqrt(rounds + 0.5) - sqrt(half + 0.5)) / (rounds - half)


def overrated(rate: float, experts: int, gap: float) -> float:
    """The integral over x > 0 of min(1, (d - 1) exp(-rate (gap + x)^2)), bounded: how much better than it is an expert may look."""
    others = log(experts - 1) if experts > 2 else 0.0
    even = sqrt(others / rate)  # where the bound on the probability passes 1
    start = max(gap, even)
    tail = exp(others - rate * start**2) * (
        min(1 / (2 * rate * start), sqrt(np.pi / rate) / 2) if start > 0 else sqrt(np.pi / rate) / 2
    )
    return max(0.0, even - gap) + tail
