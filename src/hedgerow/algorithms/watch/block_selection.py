"""Block selection: in each block of a public length, follow a private choice from the block before.

Every loss vector enters one choice, which gets the whole budget. If the length suits the rate at
which the best expert changes, this is hard to beat, and a bound on the regret against the best
sequence of experts is proven. It is the baseline for rates of change that are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log, sqrt
from typing import ClassVar

from hedgerow.algorithms.shared.following import followed
from hedgerow.algorithms.watch.server import CHANNELS, Run, RunServer, Watched
from hedgerow.core.certificate import Proof, trusted_server
from hedgerow.core.limits import LONGEST_BATCH, Broadcasts
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, SpecTraits
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, between, check_budget
from hedgerow.privacy.mechanisms import NoisyMax


@dataclass(frozen=True)
class BlockSelection(AlgorithmSpec):
    """Choose one expert per block of equal length, from the losses of the last block.

    Use it if you know how often the best expert changes. If you do not, use `WatchedSelection`.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    changes
        How often the law of the losses may change in the game, >= 0. Default 4. The length of the
        blocks minimises the regret that is proven for this number.
    length
        The rounds of a block, from 1 to the horizon. None (default): by `changes`.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with exactly epsilon and delta = 0. The server is trusted: it
    receives exact sums of losses. Proof: `proofs/watched_selection.md#blocks`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=100, horizon=4096)
    >>> shown = [hr.BlockSelection(changes=s).build(setting).parameters for s in (1, 4, 16)]
    >>> [(each["length"], round(each["tracking_regret"])) for each in shown]
    [(62, 540), (32, 822), (15, 1381)]
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        meanings={
            "changes": "largest number of changes of the law of the losses",
            "length": "rounds of a block",
            "tracking_regret": "proven regret against the best expert of every segment",
        },
    )

    epsilon: float = 1.0
    changes: int = 4
    length: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon)
        at_least("changes", self.changes, 0)
        if self.length is not None:
            at_least("length", self.length, 1)

    def resolve(self, setting: Setting) -> Algorithm:
        if self.length is not None:
            between("length", self.length, 1, setting.rounds)
        length = self.length or best_length(setting, self.epsilon, self.changes)
        selection = NoisyMax("selection", "exponential", self.epsilon)
        server = RunServer(setting, EqualBlocks(length), selection)
        return followed(
            name="block_selection",
            setting=setting,
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=selection.curve,
                proof=Proof("watched_selection.md", "blocks"),
                channels=CHANNELS,
                mechanisms=(selection,),
                composition="sum",
                entered=1,
            ),
            broadcasts=Broadcasts(Watched, server.broadcasts),
            regret_bound=RegretBound(
                tracking_regret(setting, self.epsilon, 0, length),
                "stochastic",
                Proof("watched_selection.md", "blocks"),
            ),
            parameters={
                "length": length,
                "tracking_regret": tracking_regret(setting, self.epsilon, self.changes, length),
            },
        )

    def audit_variants(self) -> tuple[BlockSelection, ...]:
        """Variants whose tiny games come close to the certificate."""
        return replace(self, epsilon=24.0, length=1), replace(self, epsilon=3.0, length=2)


@dataclass(frozen=True)
class EqualBlocks:
    """The plan of `BlockSelection`: runs of one length, without tests."""

    opening: int

    def following(self, run: Run, expert: int, window: int) -> Run:
        step = min(self.opening, LONGEST_BATCH)
        return replace(run, begun=run.round, length=self.opening, step=step, runs=run.runs + 1)

    def threshold(self, run: Run) -> float:
        return inf

    def allowance(self, now: int, rounds: int, doublings: int) -> float:
        return 0.0


def tracking_regret(setting: Setting, epsilon: float, changes: int, length: int) -> float:
    """Bounds the mean regret per client against the best expert of every segment, in hindsight.

    The law of the losses changes at most `changes` times (`proofs/watched_selection.md#blocks`).
    """
    hindsight = (changes + 1) * setting.rounds * log(setting.experts) / (2 * setting.clients)
    return min(float(setting.rounds), _excess(setting, epsilon, changes, length) + sqrt(hindsight))


def _excess(setting: Setting, epsilon: float, changes: int, length: int) -> float:
    losses, entropy = setting.clients * length, log(setting.experts)
    doubt = sqrt(entropy / (2 * losses)) + 2 * entropy / (epsilon * losses)
    return (2 * changes + 1) * length + setting.rounds * doubt


def best_length(setting: Setting, epsilon: float, changes: int) -> int:
    """The length of blocks with the smallest proven regret; the bound has one minimum."""
    low, high = 1, setting.rounds
    while low < high:
        middle = (low + high) // 2
        rises = _excess(setting, epsilon, changes, middle) <= _excess(
            setting, epsilon, changes, middle + 1
        )
        low, high = (low, middle) if rises else (middle + 1, high)
    return low
