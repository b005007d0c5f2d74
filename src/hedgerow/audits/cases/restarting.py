"""Audit cases for `doubling` and `potential`, which restart: worst transcripts and planted bugs.

In the worst transcript, every exchange of two epochs ends a run of the sparse vector and draws
expert 0, which only one world favours. All draws of the first epoch reveal the datum, and none of
the second. A server that remembers the first epoch reveals twice as much.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.plan import planned
from hedgerow.algorithms.sparse_vector.potential import Growing, Potential
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.regret_test import RegretSelector
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases.parts import (
    ExactCases,
    Streams,
    favour_expert_0,
    in_every_round,
    less_selection,
    peer_curve,
    with_curve,
)
from hedgerow.audits.cases.recency import (
    bugs,
    dearest,
    first_by_regret,
    many_belows_of,
    regret_streams,
    worst_streams,
)
from hedgerow.audits.drawn import CUT
from hedgerow.core.setting import Setting

SETTING = Setting(clients=1, experts=100, horizon=512)
ANSWERS = "answers of one run alone"


def two_epochs(server: Selector) -> Streams:
    """Two epochs, all of whose exchanges draw expert 0; with weights by recency the dearest run."""
    if isinstance(server, RecencySelector):
        return worst_streams(server, dearest(server))
    draws = 2 * server.switches
    sent = (CurrentExpert(1, 1, 0), *(CurrentExpert(1, 0, k) for k in range(1, draws + 1)))
    return *favour_expert_0(SETTING, draws), (sent,)


def _too_fast(server: Growing) -> Growing:
    """The bug: the second epoch has twice the draws, but their later weights are not halved."""
    (second,) = server.weights.later
    fast = tuple(replace(column, later=2 * column.later) for column in second)
    return replace(server, weights=replace(server.weights, later=(fast,)))


def half_integer(spec: Any) -> Any:
    """The spec with a half-integer threshold: queries are whole numbers, so none equals it."""
    level = min(50, max(1, int(in_every_round(spec.build(SETTING)).threshold)))
    return planned(spec, {"threshold": level + 0.5})


def cases(spec: Doubling | Potential) -> tuple[AuditCase, ...]:
    """The null case, then the certificate's worst cases, then the bugs that must be caught."""
    played = half_integer(replace(spec, every=1))
    if isinstance(played, Doubling):
        played = replace(played, first_guess=0.5)  # a small guess hides little
    algorithm = played.build(SETTING)
    server = in_every_round(algorithm)
    sparse, certified = server.sparse, peer_curve(algorithm)
    if isinstance(server, Growing):  # two sizes of epochs are enough, and short games reach them
        weights = replace(server.weights, later=server.weights.later[:1])
        server, certified = replace(server, weights=weights), weights.cost(server.delta)
        algorithm = with_curve(algorithm, certified)
    made = ExactCases(
        algorithm,
        certified,
        two_epochs(server),
        sparse.curve,
        many_belows_of(server, SETTING),
        ANSWERS,
        changes(spec, played),
    )

    thin = replace(server, sparse=replace(sparse, threshold_scale=CUT * sparse.threshold_scale))
    found = (
        made.null(server),
        made.answers("many belows", server, "holds"),
        made.answers("four fifths of the threshold noise", thin, "violated"),
    )
    assert isinstance(server, RecencySelector)
    dear = server.weights.of(dearest(server))
    less = less_selection(server)
    found = (
        *found,
        made.of_run("worst transcript, two epochs", server, made.worst, dear, "holds"),
        made.of_run("four fifths of the selection noise", less, made.worst, dear),
        *(made.of_run(name, *planted) for name, planted in bugs(server).items()),
    )
    if not isinstance(server, RegretSelector):
        return found
    later, column = regret_streams(server), server.weights.of(first_by_regret(server))
    found = (
        *found,
        made.of_run("worst transcript, test of the regret", server, later, column, "holds"),
    )
    if not (isinstance(server, Growing) and server.weights.later):
        return found
    fast = _too_fast(server)
    return *found, made.of_run("later epochs at the first rate", fast, later, column)
