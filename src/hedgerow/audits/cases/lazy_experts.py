"""Where lazy experts leak most, and bugs that only they can have.

One datum favours expert 0 in one world and all others in the other. What is most telling: x leaves (or stays) at the first coin
after it, when the datum moves L(x) - L(y) by 2, and then expert 0 is drawn again and again, for x and for y.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.algorithms.dartboard.lazy_experts import LazyExperts, Pair, ServerState, TwoExperts
from hedgerow.algorithms.dartboard.server import steps
from hedgerow.audits.case import AuditCase
from hedgerow.audits.cases.dartboard import LEAST, Attack, Bug, exchanges, lazy_cases, with_datum
from hedgerow.audits.cases.parts import Streams, with_bug
from hedgerow.core.lattice import Array
from hedgerow.privacy.composition.random_draws import CoinThenDraws


class CuriousCompanion(Pair):
    """The coin of y looks at what y lost, as the dartboard's coin looks at x."""

    def log_likelihood(self, broadcasts: list[TwoExperts], reports: Array) -> float:
        result = super().log_likelihood(broadcasts, reports)
        exchanges = zip(broadcasts, broadcasts[1:], steps(self, reports.shape, reports.tobytes()), strict=False)
        for now, sent, (lost, _) in exchanges:
            kept = sent.refreshes == now.refreshes
            result += self.refresh.log_probability(lost[now.companion], kept) - self.refresh.log_probability(0.0, kept)
        return result


def _companion_for_ever(server: Pair) -> Pair:
    """p -> 0 in the coin of y, which sees no data."""
    return replace(server, refresh=replace(server.refresh, base=LEAST))


def _forgets_companion(cost: CoinThenDraws) -> CoinThenDraws:
    """The mistake: the companion's draws cost nothing."""
    return replace(cost, occasions=cost.occasions[:1])


def _transcript(server: Pair, expert: int, companion: int, *, stays: int = 0, kept: int = 0) -> tuple[TwoExperts, ...]:
    """Expert 0 is drawn for x and for y at every exchange, while the cap allows it; but first x stays, or y is kept, for a few."""
    state = ServerState(np.zeros(0, np.int64), expert, 0, companion, 0)
    sent = [server.message(state)]
    for exchange in range(exchanges(server)):
        if server.over(server.used(state)):
            break
        if exchange >= stays:
            state = replace(state, expert=0, switches=state.switches + 1)
        if exchange >= kept and not server.over(server.used(state)):
            state = replace(state, companion=0, refreshes=state.refreshes + 1)
        sent.append(server.message(state))
    return tuple(sent)


def _worst(server: Pair) -> Streams:
    leaving = (_transcript(server, 1, 0), _transcript(server, 1, 0, kept=1))
    staying = (_transcript(server, 0, 1, stays=1), _transcript(server, 0, 1, stays=2, kept=1))
    return with_datum(server, leaving + staying, before=1.0)


def _curious(server: Pair) -> Pair:
    return with_bug(server, CuriousCompanion)


def cases(spec: LazyExperts) -> tuple[AuditCase, ...]:
    bugs: tuple[Bug, ...] = (
        ("a companion that looks at the data", _curious, "violated"),
        ("companion hardly ever drawn (p -> 0), which tells nothing", _companion_for_ever, "holds"),
    )
    mistakes = (("a certificate that forgets the companion's draws", _forgets_companion),)
    return lazy_cases(spec, Attack(_worst, draws=2, rate=0.75, bugs=bugs, mistakes=mistakes))
