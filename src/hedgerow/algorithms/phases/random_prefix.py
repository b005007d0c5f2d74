"""Random prefix: phased selection in which only a random first part of each block counts.

The number of rounds that count is drawn before the block, without looking at data, from the second
half of 1, ..., rounds. Assume that rounds are independent and follow one distribution, that
clients are independent within a round, and that the best expert leads by a gap. Then the regret
stays below a number that does not depend on the horizon: the drift of one choice is the starting
point of the next one, and all drifts together are at most ln(d). The algorithm is from Cesari and
Colomboni 2026.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, sqrt
from operator import attrgetter

import numpy as np

from hedgerow.algorithms.phases.blocks import (
    ANNOUNCED,
    BlockClient,
    Blocks,
    BlockServer,
    NextBlock,
    Spans,
    later_blocks,
)
from hedgerow.algorithms.shared.following import followed
from hedgerow.core.certificate import Channel, Proof, trusted_server
from hedgerow.core.errors import InvalidValue
from hedgerow.core.limits import Allowed, Broadcasts, UpTo
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import check_budget
from hedgerow.privacy.mechanisms import ExponentialMechanism


@dataclass(frozen=True)
class LaterHalf:
    """Draws the number of rounds that count uniformly from the second half of 1, ..., rounds."""

    @property
    def allowed(self) -> Allowed:
        return UpTo(Blocks())

    def draw(self, rounds: int, noise: Noise) -> int:
        return rounds // 2 + 1 + noise.index(rounds - rounds // 2, "prefix")

    def log_probability(self, rounds: int, counted: int) -> float:
        return -log(rounds - rounds // 2) if rounds // 2 < counted <= rounds else -np.inf


@dataclass(frozen=True)
class RandomPrefix(AlgorithmSpec):
    """Choose one expert per block of 1, 2, 4, ... rounds, from a random prefix of the last block.

    The server chooses with the exponential mechanism, which the regret bound needs. Use it if
    rounds are independent and follow one distribution, clients are independent within a round
    (their distributions may differ), and one expert leads by a gap. `gap_regret` in this module
    bounds the regret for a known gap, for every horizon. The `regret_bound` of the algorithm
    assumes no gap and grows like sqrt(T).

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with exactly epsilon and delta = 0. The server is trusted: it
    receives exact sums of losses. Proof: `proofs/random_prefix.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> algorithm = hr.RandomPrefix().build(hr.Setting(clients=10, experts=100, horizon=2**14))
    >>> print(algorithm.certificate.peer.curve.words())
    epsilon = 1, delta = 0 (bounded range)

    References
    ----------
    Cesari and Colomboni 2026 (one client).
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_budget(self.epsilon)

    def resolve(self, setting: Setting) -> Algorithm:
        selection = ExponentialMechanism("selection", self.epsilon)
        client, server = (
            BlockClient(setting.experts),
            BlockServer(setting.experts, selection, LaterHalf()),
        )
        return followed(
            name="random_prefix",
            setting=setting,
            client=client,
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=selection.curve,
                proof=Proof("random_prefix.md", "privacy"),
                channels={"LossSums.losses": Channel.UPLOADS, **ANNOUNCED},
                mechanisms=(selection,),
                composition="sum",
                entered=1,
            ),
            broadcasts=Broadcasts(NextBlock, server.broadcasts),
            regret_bound=RegretBound(
                gap_regret(setting, self.epsilon, 0.0),
                "stochastic",
                Proof("random_prefix.md", "regret"),
            ),
            advance=Spans(client, server).advance,
            common_rounds=attrgetter("counted"),
        )

    def audit_variants(self) -> tuple[RandomPrefix, ...]:
        """A variant whose tiny games come close to the certificate."""
        return (replace(self, epsilon=12.0),)


# Regret if rounds are independent with one distribution, and clients are independent in a round:
# `proofs/random_prefix.md#regret`.


def gap_regret(setting: Setting, epsilon: float, gap: float) -> float:
    """Bounds the expected regret per client if the best expert leads every other by at least `gap`.

    The gap is that of the expected losses; 0 means that no gap is known.

    >>> short, long = (Setting(clients=10, experts=100, horizon=2**k) for k in (20, 36))
    >>> round(gap_regret(short, 1.0, 0.1)), round(gap_regret(long, 1.0, 0.1))
    (162, 162)
    """
    clients, experts, horizon = setting.clients, setting.experts, setting.rounds
    if not 0 <= gap <= 1:
        raise InvalidValue(f"Expected gap={gap!r} in [0, 1].")
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
    """An upper bound on the mean of 1 / sqrt(N), where N is the number of rounds that count.

    >>> round(mean_root(8), 4), round(sum(n**-0.5 for n in (5, 6, 7, 8)) / 4, 4)
    (0.3971, 0.3967)
    """
    half = rounds // 2
    return 2 * (sqrt(rounds + 0.5) - sqrt(half + 0.5)) / (rounds - half)


def overrated(rate: float, experts: int, gap: float) -> float:
    """Bounds how much better than its true mean another expert may look.

    It bounds the integral over x > 0 of min(1, (d - 1) exp(-rate (gap + x)^2)).
    """
    others = log(experts - 1) if experts > 2 else 0.0
    even = sqrt(others / rate)  # where the bound on the probability is 1
    start = max(gap, even)
    tail = exp(others - rate * start**2) * (
        min(1 / (2 * rate * start), sqrt(np.pi / rate) / 2) if start > 0 else sqrt(np.pi / rate) / 2
    )
    return max(0.0, even - gap) + tail
