"""The event-triggered design keeps its contracts, and its likelihood is that of what it does."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.contracts.suite import CONTRACTS, examine
from hedgerow.core.certificate import Observer
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow_papers.gao2024.event_triggered import EventTriggered, SignalServer

QUICK = ("same on every engine", "covers every message", "within the budget")
TINY = Setting(clients=2, experts=2, horizon=3)


def table(algorithm: Algorithm) -> np.ndarray:
    """The log-probability of every transcript (columns) on every stream of losses 0 and 1 (rows).

    Rows are in the order of their bits: the records of client 0 in both rounds, then of client 1.
    """
    transcripts = [
        [CurrentExpert(1, first, 0), CurrentExpert(1, then, used), CurrentExpert(1, last, after)]
        for first in range(2)
        for then, used in ((0, 1), (1, 1), (first, 0))
        for last, after in ((0, used + 1), (1, used + 1), (then, used))
    ]
    assert algorithm.claims.log_likelihood is not None
    streams = np.array(list(product((0.0, 1.0), repeat=8))).reshape(-1, 2, 2, 2)
    streams = np.concatenate([streams.swapaxes(1, 2), np.zeros((len(streams), 1, 2, 2))], axis=1)
    return np.array([[algorithm.claims.log_likelihood(t, s) for t in transcripts] for s in streams])


def largest_ratio(logs: np.ndarray) -> float:
    """The largest log-ratio on two streams that differ in one record: one pair of bits."""
    rows = logs.reshape(4, 4, 4, 4, -1)
    moved = [np.moveaxis(rows, axis, 0) for axis in range(4)]
    return max(float(np.abs(m[:, None] - m[None]).max()) for m in moved)


@pytest.mark.parametrize("signals", [True, False])
@pytest.mark.parametrize("contract", QUICK)
def test_contracts_hold(contract: str, signals: bool) -> None:
    found = examine(contract, EventTriggered(signals=signals))
    assert found.status == "holds", found.detail


@pytest.mark.long
@pytest.mark.parametrize("contract", sorted(set(CONTRACTS) - set(QUICK)))
def test_further_contracts_are_not_broken(contract: str) -> None:
    found = examine(contract, EventTriggered())
    assert found.status != "broken", found.detail


@pytest.mark.parametrize("signals", [True, False])
def test_the_exact_ratio_is_within_the_certificate_and_not_far_below(signals: bool) -> None:
    spec = EventTriggered(epsilon=8.0, signals=signals, switches=2, factor=0.2)
    built = spec.build(TINY)
    logs = table(built)
    assert np.allclose(np.exp(logs).sum(axis=1), 1.0)
    certified = built.certificate.guarantee(Observer.PUBLIC).curve.stated()[0]
    assert certified == pytest.approx(8.0)
    assert 0.6 * certified < largest_ratio(logs) <= certified
    assert isinstance(built.server, SignalServer)
    scale = built.server.sparse.query_scale / 4
    sparse = replace(built.server.sparse, threshold_scale=scale, query_scale=scale)
    careless = replace(built.server, sparse=sparse)
    wrong = table(
        replace(
            built,
            server=careless,
            claims=replace(built.claims, log_likelihood=careless.log_likelihood),
        )
    )
    assert largest_ratio(wrong) > certified


def test_both_designs_cost_the_same() -> None:
    setting = Setting(8, 20, 100)
    for signals in (True, False):
        built = EventTriggered(epsilon=2.0, signals=signals).build(setting)
        assert built.certificate.guarantee(Observer.PUBLIC).curve.stated() == (2.0, 0.0)
