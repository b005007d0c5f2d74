"""The algorithms and streams of `choose`, and how they are played.

A stream counts for every kind of losses that it satisfies. No parameter is tuned: besides the size
of the game, streams have the defaults of their environments, and algorithms their own defaults at
epsilon = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from hedgerow.algorithms.baselines.ada_hedge import AdaHedge
from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.correlated.running_leader import RunningLeader
from hedgerow.algorithms.correlated.window_leader import WindowLeader
from hedgerow.algorithms.dartboard.private_hedge import PrivateHedge
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.algorithms.shared.noisy_reports import Trust
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.algorithms.walks.walk_leader import WalkLeader
from hedgerow.algorithms.watch.block_selection import BlockSelection
from hedgerow.algorithms.watch.watched_selection import WatchedSelection
from hedgerow.core.environment import Environment
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import LOSSES
from hedgerow.environments.adversaries import covered
from hedgerow.environments.drawn.changing import Changing, Pattern
from hedgerow.environments.drawn.drifting import Drifting
from hedgerow.environments.drawn.realizable import Halving, NearRealizable, Realizable
from hedgerow.environments.drawn.stochastic import Bernoulli, GapLadder
from hedgerow.environments.drawn.switching import Switching
from hedgerow.environments.hard.columns import MOST_USED, ConsensusColumns
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import RunResult
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study

EPSILON, DELTA, CLIENTS, EXPERTS, HORIZON = 1.0, 1e-6, 10, 100, 1024
REACTING_HORIZON = 128  # losses that react are made round by round, which is slow
BEST_LOSS = 20.0  # what the best expert loses where it is rarely wrong
PAUSE = 32
EVERY = (1, PAUSE, ceil(HORIZON / log2(HORIZON)))  # one for each of `TALKS`

TRUSTS: tuple[Trust, ...] = ("central", "distributed", "local")  # from the most trust to the least
TALKS = (
    "every round",
    f"every {PAUSE} rounds",
    "log2(T) exchanges",
)  # from the most talk to the least
GUESSING = "uniform"
PATTERNS: tuple[Pattern, ...] = ("late", "comeback", "alternate", "camps", "one_coin")
TRACKED = ("tracked_switching", "tracked_drifting", "late")
"""Streams on which regret is measured against the best sequence of experts."""


@dataclass(frozen=True)
class Kind:
    """What somebody knows of the losses, and the streams that it does not exclude."""

    id: str
    words: str
    streams: tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """An algorithm with its parameters; `trust` is None where nothing is protected.

    `only` is the kind of losses of which somebody knows enough to give these parameters; None: any
    kind.
    """

    label: str
    name: str
    spec: AlgorithmSpec
    trust: Trust | None
    talk: str
    delta: float = 0.0
    only: str | None = None

    @property
    def private(self) -> bool:
        """Whether it may be chosen: it protects somebody, and it learns."""
        return self.trust is not None and self.name != GUESSING


def chooser_streams() -> dict[str, Environment]:
    """The streams by name; besides the size, they have the defaults of their environments."""
    game: dict[str, Any] = {"clients": CLIENTS, "experts": EXPERTS, "horizon": HORIZON}
    columns = ceil(REACTING_HORIZON / MOST_USED)
    return {
        "realizable": Realizable(**game),
        "halving": Halving(**game),
        "near_realizable": NearRealizable(**game, best_loss=BEST_LOSS),
        "bernoulli": Bernoulli(**game),
        "gap_ladder": GapLadder(**game),
        "switching": Switching(**game),
        "drifting": Drifting(**game),
        "tracked_switching": Switching(**game),
        "tracked_drifting": Drifting(**game),
        **{name: Changing(**game, pattern=name) for name in PATTERNS},
        "consensus_columns": ConsensusColumns(
            clients=1, experts=2 * columns, horizon=REACTING_HORIZON
        ),
    }


_FIXED = (
    "realizable",
    "halving",
    "near_realizable",
    "bernoulli",
    "gap_ladder",
    "switching",
    "drifting",
)
KINDS = (
    Kind("never", "one expert is never wrong", ("realizable", "halving")),
    Kind("rarely", "one expert is rarely wrong", ("realizable", "halving", "near_realizable")),
    Kind(
        "law",
        "losses follow one law, independently at every client",
        ("realizable", "bernoulli", "gap_ladder"),
    ),
    Kind("fixed", "losses are fixed in advance, and that is all we know", _FIXED),
    Kind("changing", "the best expert changes", TRACKED),
    Kind("reacting", "losses may react to what we play", ("consensus_columns",)),
)


UNKNOWN = Kind(
    "unknown",
    "nothing is known of the losses",
    (*KINDS[2].streams, *KINDS[1].streams[1:], *TRACKED, *PATTERNS[1:]),
)
"""Judged by ratios: how much more is lost than by the best algorithm for each stream."""


def chooser_candidates() -> list[Candidate]:
    """Every algorithm in the forms that are measured."""
    found: list[Candidate] = []
    pure: dict[str, Any] = {"epsilon": EPSILON}
    both: dict[str, Any] = {**pure, "delta": DELTA}

    def add(spec: AlgorithmSpec, talk: str, *more: str, only: str | None = None) -> None:
        """The label has the name, and what differs from the defaults."""
        name, delta = ALGORITHMS.name_of(spec), float(getattr(spec, "delta", 0.0))
        trust: Trust = getattr(spec, "trust", "central")
        whom = () if trust == "central" else (f"trust={trust}",)
        spends = (f"delta={delta:g}",) if delta else ()
        label = ", ".join((name, *whom, *more, *spends))
        found.append(Candidate(label, name, spec, trust, talk, delta, only))

    often = list(zip(TALKS, EVERY, strict=True))
    for budget in ({**pure, "delta": 0.0}, both):
        for talk, every in often:
            rare = () if every == 1 else (f"every={every}",)
            for kind in (SparseVector, Doubling):
                add(kind(**budget, every=every), talk, *rare)
            steps = None if every == 1 else every
            add(ShrinkingDartboard(**budget, every=steps), talk, *rare)
        add(PhasedSelection(**budget, trust="local"), TALKS[-1])
    for talk, every in often:
        rare = () if every == 1 else (f"every={every}",)
        known = SparseVector(**pure, every=every, best_loss=BEST_LOSS)
        add(known, talk, f"best_loss={BEST_LOSS:g}", *rare, only="rarely")
    for talk, every in often:
        rare = () if every == 1 else (f"every={every}",)
        add(PrivateHedge(**both, every=every), talk, *rare)
    for trust in TRUSTS:
        for talk, every in often[1:]:
            add(RunningLeader(**both, trust=trust, every=every), talk, f"every={every}")
    for talk, every in often:
        add(WindowLeader(**both, trust="distributed", every=every), talk, f"every={every}")
    for trust in ("distributed", "local"):
        add(WalkLeader(**both, trust=trust), TALKS[0])
    add(PhasedSelection(**both, trust="distributed"), TALKS[-1])
    add(PhasedSelection(**pure), TALKS[-1])
    add(WatchedSelection(**pure), TALKS[0])
    add(BlockSelection(**pure), TALKS[0])
    add(RandomPrefix(**pure), TALKS[-1])
    return [
        *found,
        Candidate(GUESSING, GUESSING, Uniform(), "local", "never"),
        Candidate("follow_the_leader", "follow_the_leader", FollowTheLeader(), None, TALKS[0]),
        Candidate("ada_hedge", "ada_hedge", AdaHedge(), None, TALKS[0]),
    ]


def same_for_all(environment: Environment, seed: int) -> Environment:
    """The losses of one seed, drawn once for all algorithms.

    Losses that react cannot be; arrays have no gaps and no points.
    """
    traits = environment.traits
    plain = traits.adversary != "adaptive" and traits.fresh and not traits.features
    if not plain or environment.setting.family != LOSSES:
        return environment
    block, _ = environment.block(environment.start(seed), environment.setting.rounds, None)
    return RecordedArray(np.asarray(block.losses))


def compared(name: str, environment: Environment) -> tuple[int, ...]:
    """How often the compared sequence of experts may change on a stream; empty: never."""
    return (environment.traits.changes,) if name in TRACKED else ()


def played(
    name: str, environment: Environment, entries: tuple[Entry, ...], seed: int
) -> list[RunResult]:
    """The results of all entries on the same losses of a stream."""
    drawn, switches = same_for_all(environment, seed), compared(name, environment)
    config = StudyConfig(
        name, drawn, entries, seeds=1, first_seed=seed, comparator_switches=switches
    )
    return run_study(config, workers=1).results


def bound_on(name: str, environment: Environment, spec: AlgorithmSpec) -> float | None:
    """The bound on the regret that is proven there; bounds are about one best expert."""
    bound = spec.build(environment.setting).in_game(environment.traits).claims.regret_bound
    if bound is None or name in TRACKED or not covered(bound, environment):
        return None
    return bound.value
