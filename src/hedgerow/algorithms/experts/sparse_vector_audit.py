"""Where Fed-SVT leaks most: neighbouring streams and transcripts on which its certificate is all but attained, and planted bugs.

In the worst transcript every exchange ends a run and draws expert 0, which only one world favours, so that each step is near
its own worst ratio. Many "belows" in a row are what the threshold noise is there for: without it, as in line 9 of the printed
algorithm, every one of them tells a little more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.algorithms.experts.sparse_vector import CurrentExpert, Selector, SparseVector
from hedgerow.core.audit_case import AuditCase
from hedgerow.core.certificate import Observer
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.privacy.mechanisms import AboveThreshold

SETTING = Setting(clients=1, experts=100, horizon=512)
BELOWS = 2000


@dataclass(frozen=True)
class PrintedComparison(AboveThreshold):
    """Line 9 as printed: the query is compared with L itself, not with the noisy threshold."""

    def begin(self, threshold: float, noise: object) -> float:
        del noise
        return threshold

    def log_probability(self, queries: object, threshold: float, ended: bool) -> float:
        above = np.array([self.comparison.probability(q - threshold) for q in np.asarray(queries, float)])
        with np.errstate(divide="ignore"):
            below = np.log1p(-above)
            return float(below[:-1].sum() + np.log(above[-1])) if ended else float(below.sum())


def _with(algorithm: Algorithm, server: Selector) -> Algorithm:
    return replace(algorithm, server=server, advance=server.advance, log_likelihood=server.log_likelihood)


def _worst(server: Selector) -> tuple[np.ndarray, np.ndarray, tuple[tuple[CurrentExpert, ...], ...]]:
    rounds = server.switches * server.every + 1
    first = np.zeros((rounds, SETTING.clients, SETTING.experts))
    first[1:, :, 0] = 1.0  # expert 0 is a bad choice, so drawing it is telling
    second = first.copy()
    first[0, 0], second[0, 0] = 1.0, 0.0
    first[0, 0, 0], second[0, 0, 0] = 0.0, 1.0
    runs = range(1, server.switches + 1)
    sent = (CurrentExpert(server.every, 1, 0), *(CurrentExpert(None if k == server.switches else server.every, 0, k) for k in runs))
    return first, second, (sent,)


def _quiet(server: Selector) -> tuple[np.ndarray, np.ndarray, tuple[tuple[CurrentExpert, ...], ...]]:
    """No switch in `BELOWS` queries that stand right at the threshold, all moved by one datum."""
    every, level = server.every, int(server.threshold)
    first = np.zeros((level + BELOWS * every + 1, SETTING.clients, SETTING.experts))
    first[1 : level + 1] = 1.0
    second = first.copy()
    second[0, 0] = 1.0
    exchanges = (len(first) - 1) // every
    return first, second, (tuple(CurrentExpert(every, 0, 0) for _ in range(exchanges + 1)),)


def cases(spec: SparseVector) -> tuple[AuditCase, ...]:
    """The null first, then the certificate's worst cases, then what must be caught."""
    algorithm = spec.build(SETTING)
    server = algorithm.server
    assert isinstance(server, Selector)
    certified = algorithm.certificate.guarantee(Observer.PEER).curve
    worst, quiet = _worst(server), _quiet(server)
    sparse = server.sparse
    half_threshold = replace(server, sparse=replace(sparse, threshold_scale=sparse.threshold_scale / 2))
    half_query = replace(server, sparse=replace(sparse, query_scale=sparse.query_scale / 2))
    half_selection = replace(server, selection=server.selection.scaled(0.5))
    printed = replace(server, sparse=PrintedComparison(sparse.law, sparse.threshold_scale, sparse.query_scale))
    found = (
        AuditCase("null: the same stream twice", algorithm, certified, worst[0], worst[0], worst[2]),
        AuditCase("worst transcript", algorithm, certified, *worst),
        AuditCase("many belows", algorithm, sparse.curve, *quiet),
        AuditCase("half the threshold noise", _with(algorithm, half_threshold), sparse.curve, *quiet, expected="violated"),
        AuditCase("printed comparison with L", _with(algorithm, printed), sparse.curve, *quiet, expected="violated"),
    )
    if spec.calibration == "published":  # its certificate has room that half of one other noise does not use up
        return found
    return (
        *found,
        AuditCase("half the query noise", _with(algorithm, half_query), certified, *worst, expected="violated"),
        AuditCase("half the selection noise", _with(algorithm, half_selection), certified, *worst, expected="violated"),
    )
