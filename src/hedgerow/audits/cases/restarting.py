"""Audit cases for `doubling` and `potential`, which restart: worst transcripts and planted bugs.

In the worst transcript, every exchange of two epochs ends a run of the sparse vector and draws
expert 0, which only one world favours. All draws of the first epoch reveal the datum, and none of
the second. A server that remembers the first epoch reveals twice as much.
"""

from __future__ import annotations

from dataclasses import replace

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.potential import Growing, Potential
from hedgerow.algorithms.sparse_vector.printed_potential import PotentialTest, printed_cost
from hedgerow.algorithms.sparse_vector.recency import RecencySelector
from hedgerow.algorithms.sparse_vector.regret_test import RegretSelector
from hedgerow.algorithms.sparse_vector.selector import Selector
from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases.parts import (
    ExactCases,
    Streams,
    favour_expert_0,
    half_selection,
    in_every_round,
    peer_curve,
    with_curve,
)
from hedgerow.audits.cases.recency import (
    bugs,
    dearest,
    many_belows_of,
    regret_streams,
    worst_streams,
)
from hedgerow.core.setting import Setting

SETTING = Setting(clients=1, experts=100, horizon=512)
ANSWERS = "answers of one run alone"


def _two_epochs(server: Selector) -> Streams:
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


def _for_audit(spec: Doubling | Potential) -> Doubling | Potential:
    """The spec that the audit plays: a half-integer threshold and, for doubling, a small guess.

    Queries are whole numbers, so none equals the threshold. A small guess hides little.
    """
    plain = replace(spec, every=1)
    level = min(50, max(1, int(in_every_round(plain.build(SETTING)).threshold)))
    played = replace(plain, threshold=level + 0.5)
    return replace(played, first_guess=0.5) if isinstance(played, Doubling) else played


def cases(spec: Doubling | Potential) -> tuple[AuditCase, ...]:
    """The null case, then the certificate's worst cases, then the bugs that must be caught."""
    played = _for_audit(spec)
    algorithm = played.build(SETTING)
    server = in_every_round(algorithm)
    sparse, certified = server.sparse, peer_curve(algorithm)
    if isinstance(server, Growing):  # two sizes of epochs are enough, and short games reach them
        weights = replace(server.weights, later=server.weights.later[:1])
        server, certified = replace(server, weights=weights), weights.cost(server.delta)
        algorithm = with_curve(algorithm, certified)
    printed = isinstance(server, PotentialTest)
    made = ExactCases(
        algorithm,
        certified,
        _two_epochs(server),
        printed_cost(1, sparse, 1e-9, 0.0) if printed else sparse.curve,
        many_belows_of(server, SETTING),
        ANSWERS,
        changes(spec, played),
    )

    # The printed threshold noise is larger than needed, so it is cut to a quarter.
    share, noisy = ("a quarter", 4) if printed else ("half", 2)
    thin = replace(server, sparse=replace(sparse, threshold_scale=sparse.threshold_scale / noisy))
    found = (
        made.null(server),
        made.whole("worst transcript, two epochs", server, "holds"),
        made.answers("many belows", server, "holds"),
        made.answers(f"{share} of the threshold noise", thin, "violated"),
    )
    if isinstance(server, RegretSelector):
        later = regret_streams(server)
        found = (*found, made.whole("worst transcript, test of the regret", server, "holds", later))
        if isinstance(server, Growing) and server.weights.later:
            fast = _too_fast(server)
            found = (
                *found,
                made.whole("later epochs at the first rate", fast, "violated", later),
            )
    if not isinstance(server, RecencySelector):  # draws cost little: bugs would not show
        return found
    return (
        *found,
        made.whole("half the selection noise", half_selection(server), "violated"),
        *(made.whole(name, bug, "violated", at) for name, (bug, at) in bugs(server).items()),
    )
