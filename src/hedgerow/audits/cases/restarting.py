"""Audit cases for `doubling` and others that restart: worst transcripts and planted bugs.

In the worst transcript, every exchange of two epochs ends a run of the sparse vector and draws
expert 0, which only one world favours. All draws of the first epoch reveal the datum, and none of
the second. A server that remembers the first epoch reveals twice as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.plan import planned
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.regret_test import RegretSelector
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases.parts import (
    Streams,
    favour_expert_0,
    in_every_round,
    less_selection,
    of_run,
    of_whole_and_run,
    peer_curve,
    with_server,
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
from hedgerow.core.protocol import Algorithm
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


def half_integer(spec: Any) -> Any:
    """The spec with a half-integer threshold: queries are whole numbers, so none equals it."""
    level = min(50, max(1, int(in_every_round(spec.build(SETTING)).threshold)))
    return planned(spec, {"threshold": level + 0.5})


def cases(spec: Doubling) -> tuple[AuditCase, ...]:
    """The null case, then the certificate's worst cases, then the bugs that must be caught."""
    played = replace(half_integer(replace(spec, every=1)), first_guess=0.5)  # hides little
    algorithm = played.build(SETTING)
    server = in_every_round(algorithm)
    assert isinstance(server, RegretSelector)
    return epoch_cases(algorithm, server, changes(spec, played))


def epoch_cases(
    algorithm: Algorithm, server: RegretSelector, parameters: Mapping[str, Any]
) -> tuple[AuditCase, ...]:
    """The cases of every server with weights by recency that restarts."""
    streams = two_epochs(server), many_belows_of(server, SETTING)
    curve, sparse = peer_curve(algorithm), server.sparse
    whole, answers = of_whole_and_run(algorithm, server, curve, streams, ANSWERS, parameters)
    thin = replace(server, sparse=replace(sparse, threshold_scale=CUT * sparse.threshold_scale))
    dear, less = server.weights.of(dearest(server)), less_selection(server)
    later, column = regret_streams(server), server.weights.of(first_by_regret(server))
    return (
        whole.null(),
        answers,
        answers.caught("four fifths of the threshold noise", with_server(algorithm, thin)),
        of_run(whole, "worst transcript, two epochs", server, streams[0], dear, "holds"),
        of_run(whole, "four fifths of the selection noise", less, streams[0], dear),
        *(of_run(whole, name, *planted) for name, planted in bugs(server).items()),
        of_run(whole, "worst transcript, test of the regret", server, later, column, "holds"),
    )
