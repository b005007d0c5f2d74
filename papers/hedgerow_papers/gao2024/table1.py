"""Gao, Huang, Yang 2024, Table 1: every row with its printed rate, our bound, regret and numbers.

The printed table compares orders of regret and of communication. Here each row is played: with the
printed constants, and with certified ones, for one client (SING) and for ten (FED). Rates have
every hidden constant 1. Bounds come from the algorithms (those of the sparse vector are for
`ProvenSparseVector`; the certified constants have none), epsilon from the certificates, numbers
from the messages, lower bounds from `environments.hard.lower_bounds`.

Stochastic losses are those of Figure 1 (linear reading), realizable ones those of Figure 2, and
oblivious ones Bernoulli losses with one better expert. The printed communication of Fed-SVT,
m^2 d T epsilon, is m d T / N for N = 1 / (m epsilon), less than one round here: N is 1.

On stochastic losses the printed noise costs d epsilon / 4 for an upload. Uploads that are really
epsilon-DP need much more noise. There one client is its own curator: it hides what it plays, and
has no server to hide from. Ten clients gain nothing here (`trust-break-even` says from how many on
they do), so this row of the table does not hold at the privacy that it claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt
from pathlib import Path
from typing import Any

from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.printed import printed_numbers
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.environment import Environment
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.validate import parameters
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.hard.lower_bounds import coin_regret, hidden_expert_regret
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow_papers.asi2023.dartboard import AsiDartboard
from hedgerow_papers.asi2023.proven_sparse_vector import ProvenSparseVector
from hedgerow_papers.asi2023.sparse_vector import AsiSparseVector
from hedgerow_papers.claims import printed_claim
from hedgerow_papers.experiments.experiment import (
    Check,
    Experiment,
    Studies,
    TextTable,
    Verdict,
    judged,
    spent,
)
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe
from hedgerow_papers.gao2024.fed_svt import FedSVT
from hedgerow_papers.gao2024.frank_wolfe import FedDPOPEStoch
from hedgerow_papers.gao2024.gaussian_softmax import GaussianSoftmax
from hedgerow_papers.played_tables import bound_checks, draw_table, proven, rounds

EPSILON, DELTA = 1.0, 1e-6
EXPERTS, HORIZON, TEN, QUICK = 100, 2048, 10, 512
STOCHASTIC, REALIZABLE, OBLIVIOUS = "stochastic", "realizable", "oblivious"
PRINTED, CERTIFIED = "printed", "certified"


@dataclass(frozen=True)
class Row:
    """One algorithm of the printed table, and how it is played with either kind of constants."""

    adversary: str
    name: str
    clients: int
    delta: float
    specs: Mapping[str, AlgorithmSpec]

    @property
    def key(self) -> str:
        privacy = "pure" if self.delta == 0 else "approximate"
        return f"{self.name}, {privacy}, {'FED' if self.clients > 1 else 'SING'}"

    def rate(self, horizon: int) -> float:
        """The printed regret with constant 1."""
        m, entropy, phases = self.clients, log(EXPERTS), log(horizon)
        if self.adversary == STOCHASTIC:
            return sqrt(horizon * entropy / m) + entropy * phases / (sqrt(m) * EPSILON)
        if self.adversary == REALIZABLE:
            drawn = entropy ** (2.0 if self.delta == 0 else 1.5)
            return (phases * entropy + drawn) / (m * EPSILON)
        if self.delta == 0:
            return sqrt(horizon) * entropy / EPSILON
        return sqrt(horizon * entropy) + horizon ** (1 / 3) * entropy / EPSILON


def _rows() -> tuple[Row, ...]:
    found = []
    for m, name in ((1, "Limited Updates"), (TEN, "Fed-DP-OPE-Stoch")):
        both = {
            PRINTED: FedDPOPEStoch(epsilon=EPSILON, trees=1, batches="corollary"),
            CERTIFIED: FrankWolfe(EPSILON, trust="central" if m == 1 else "local", trees=1),
        }
        found.append(Row(STOCHASTIC, name, m, 0.0, both))
    for delta in (0.0, DELTA):
        for m, name in ((1, "Sparse-Vector"), (TEN, "Fed-SVT")):
            printed = AsiSparseVector if m == 1 else FedSVT
            both = {
                PRINTED: printed(EPSILON, delta),
                CERTIFIED: SparseVector(EPSILON, delta),
            }
            found.append(Row(REALIZABLE, name, m, delta, both))
    for delta in (0.0, DELTA):
        both = {
            PRINTED: AsiDartboard(EPSILON, delta, every=1),
            CERTIFIED: ShrinkingDartboard(EPSILON, delta),
        }
        found.append(Row(OBLIVIOUS, "Private SD", 1, delta, both))
    return tuple(found)


ROWS = _rows()


def label(row: Row, constants: str) -> str:
    return f"{row.key}/{constants}"


def _stream(adversary: str, clients: int, horizon: int) -> Environment:
    game: dict[str, Any] = {"clients": clients, "experts": EXPERTS, "horizon": horizon}
    if adversary == STOCHASTIC:
        return GaussianSoftmax(**game)
    if adversary == REALIZABLE:
        return Realizable(**game, mean=0.5, law="uniform")
    return Bernoulli(**game, mean=0.5, gap=0.3)


def studies(quick: bool) -> dict[str, StudyConfig]:
    horizon, made = QUICK if quick else HORIZON, {}
    for adversary in (STOCHASTIC, REALIZABLE, OBLIVIOUS):
        entries = tuple(
            Entry(label(row, constants), spec, _stream(adversary, row.clients, horizon))
            for row in ROWS
            if row.adversary == adversary
            for constants, spec in row.specs.items()
        )
        title = f"Table 1, {adversary} losses, epsilon = {EPSILON:g}, d = {EXPERTS}, T = {horizon}"
        first = _stream(adversary, TEN, horizon)
        made[adversary] = StudyConfig(title, first, entries, seeds=3 if quick else 12)
    return made


def judge(done: Studies) -> Verdict:
    claimed, expected, ours = [], [], []
    for adversary, delta in ((STOCHASTIC, 0.0), (REALIZABLE, 0.0), (REALIZABLE, DELTA)):
        alone, together = (r for r in ROWS if (r.adversary, r.delta) == (adversary, delta))
        for constants, checks in ((PRINTED, claimed), (CERTIFIED, expected)):
            one, each = (
                done[adversary].regrets(label(row, constants)) for row in (alone, together)
            )
            name = f"{adversary}/{together.key}/{constants}/below {alone.name}, lower end"
            low = Estimate.of(one - each).low  # a seed has the same law for one client and for ten
            if constants == CERTIFIED:
                ours.append(low > 0)
            gains = (adversary, constants) != (STOCHASTIC, CERTIFIED)
            checks.append(Check(name, low, ">=" if gains else "<=", 0.0))
    expected += bound_checks(done)
    for row in ROWS:
        name = label(row, CERTIFIED)
        cost = spent(done[row.adversary].algorithms[name])
        expected.append(Check(f"{row.adversary}/{name}/epsilon", cost, "<=", EPSILON))
    costs = {row.key: spent(done[row.adversary].algorithms[label(row, PRINTED)]) for row in ROWS}
    worst = max(costs, key=lambda key: costs[key])
    certified = [done[STOCHASTIC].regret(label(row, CERTIFIED)) for row in ROWS[:2]]
    note = (
        f"the printed constants really cost up to epsilon = {costs[worst]:.3g} ({worst}) where"
        f" {EPSILON:g} is claimed; with noise that really gives every upload {EPSILON:g}, each of"
        f" {TEN} clients has regret {certified[1]}, and one client {certified[0]}"
    )
    as_printed = all(check.passed for check in claimed) and costs[worst] <= EPSILON
    holds = judged(as_printed, all(ours))
    return Verdict(holds, (*claimed, *expected), note, (table(done),))


def table(done: Studies) -> TextTable:
    """The printed table, with computed and measured numbers instead of orders."""
    horizon, rows = rounds(done), []
    for row in ROWS:
        study, names = done[row.adversary], [label(row, c) for c in (PRINTED, CERTIFIED)]
        summary = {line.label: line for line in study.summary()}
        spec, setting = row.specs[CERTIFIED], study.algorithms[names[1]].setting
        bound, sent = study.regret_bounds()[names[1]], summary[names[1]]
        if isinstance(spec, SparseVector):
            bound = ProvenSparseVector(**parameters(spec)).build(setting).regret_at_most
        count = printed_numbers(spec, setting)
        theirs = (
            "-" if count is None or row.clients == 1 else f"{count.formula} = {count.value:,.0f}"
        )
        rows.append(
            (
                row.adversary,
                row.key,
                f"{row.rate(horizon):,.0f}",
                proven(bound, horizon),
                *(str(study.regret(name)) for name in names),
                f"{spent(study.algorithms[names[0]]):.3g}",
                "-" if row.clients == 1 else f"{sent.numbers_sent.mean:,.0f}",
                theirs,
            )
        )
    setting = Setting(TEN, EXPERTS, horizon)
    hidden, coins = hidden_expert_regret(setting, EPSILON), coin_regret(EXPERTS, horizon)
    for adversary, name, rate, value in (
        (REALIZABLE, "lower bound, FED", log(EXPERTS) / (TEN * EPSILON), hidden),
        (OBLIVIOUS, "lower bound, FED", min(log(EXPERTS) / EPSILON, horizon), coins),
    ):
        least = f"at least {value:.3g}"
        rows.append((adversary, name, f"{rate:.3g}", least, "-", "-", "-", "-", "-"))
    columns = ("losses", "algorithm", "printed rate", "proven here", "regret, printed constants")
    more = ("regret, certified", "true epsilon, printed", "numbers sent", "printed numbers")
    title = f"Table 1 at m = {TEN}, d = {EXPERTS}, T = {horizon}, epsilon = {EPSILON:g}"
    return TextTable(title, (*columns, *more), tuple(rows))


def draw(done: Studies, path: Path) -> None:
    groups = {
        f"{row.adversary}: {row.key}": {
            f"{constants} constants": done[row.adversary].regret(label(row, constants))
            for constants in row.specs
        }
        for row in ROWS
    }
    size = f"epsilon = {EPSILON:g}, d = {EXPERTS}, m = 1 or {TEN}"
    draw_table(groups, path, "Table 1, measured", size, done, studies)


EXPERIMENT = Experiment(
    id="gao2024-table1",
    title="Regret and communication of all algorithms (Gao et al. 2024, Table 1)",
    claim=printed_claim("gao2024", "speedup"),
    studies=studies,
    judge=judge,
    draw=draw,
)
