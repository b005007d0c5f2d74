"""Audit cases for the printed dartboard, whose epsilon is a claim, and for potentials."""

from __future__ import annotations

from dataclasses import replace

from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases import dartboard as board
from hedgerow.audits.cases.parts import (
    in_every_round,
    less_selection,
    of_run,
    of_whole_and_run,
    peer_curve,
    with_curve,
    with_server,
)
from hedgerow.audits.cases.recency import first_by_regret, many_belows_of, regret_streams
from hedgerow.audits.cases.restarting import SETTING, epoch_cases, half_integer, two_epochs
from hedgerow.audits.drawn import CUT
from hedgerow.privacy.curves import PureDP
from hedgerow_papers.asi2023.certified_potential import Growing, Potential
from hedgerow_papers.asi2023.dartboard import AsiDartboard
from hedgerow_papers.asi2023.potential import SLACK, AsiPotential

RATE = 1.0  # printed draws are far below the test: here they cost more than its answers
THRESHOLD = "threshold noise of one run alone"


def dartboard(spec: AsiDartboard) -> tuple[AuditCase, ...]:
    """Those of the dartboard; its epsilon decides nothing where the constants are given."""
    return board.cases(spec, loud=spec.epsilon)


def potential(spec: AsiPotential) -> tuple[AuditCase, ...]:
    """The null case, the certificate's worst cases, and bugs that must be caught."""
    played = half_integer(replace(spec, every=1, rate=max(RATE, spec.rate or 0.0)))
    algorithm = played.build(SETTING)
    server = in_every_round(algorithm)
    sparse = server.sparse
    streams = two_epochs(server), many_belows_of(server, SETTING)
    curve, given = peer_curve(algorithm), changes(spec, played)
    whole, answers = of_whole_and_run(algorithm, server, curve, streams, THRESHOLD, given)
    answers = replace(answers, certified=PureDP((1 + SLACK) / sparse.threshold_scale))
    thin = replace(server, sparse=replace(sparse, threshold_scale=CUT * sparse.threshold_scale))
    less = with_server(algorithm, less_selection(server))
    return (
        whole.null(),
        answers,
        answers.caught("four fifths of the threshold noise", with_server(algorithm, thin)),
        replace(whole, name="worst transcript, two epochs"),
        whole.caught("four fifths of the selection noise", less),
    )


def growing(spec: Potential) -> tuple[AuditCase, ...]:
    """Those of all servers that restart, and later epochs that pay too little.

    Two sizes of epochs are enough, and short games reach them.
    """
    played = half_integer(replace(spec, every=1))
    algorithm = played.build(SETTING)
    server = in_every_round(algorithm)
    assert isinstance(server, Growing)
    weights = replace(server.weights, later=server.weights.later[:1])
    server = replace(server, weights=weights)
    algorithm = with_curve(algorithm, weights.cost(server.delta))
    found = epoch_cases(algorithm, server, changes(spec, played))
    if not server.weights.later:
        return found
    later, column = regret_streams(server), server.weights.of(first_by_regret(server))
    fast, name = _too_fast(server), "later epochs at the first rate"
    return *found, of_run(found[0], name, fast, later, column)


def _too_fast(server: Growing) -> Growing:
    """The bug: the second epoch has twice the draws, but their later weights are not halved."""
    (second,) = server.weights.later
    fast = tuple(replace(column, later=2 * column.later) for column in second)
    return replace(server, weights=replace(server.weights, later=(fast,)))
