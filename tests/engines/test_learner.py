"""A private learner answers each round once, counts each record once, and shows none."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.dartboard.tuning import Plan
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import SeededNoise
from support.stopping import Stopping

ONES = np.ones((2, 3))


def private(**choices: Any) -> hr.Learner:
    given: dict[str, Any] = {"clients": 2, "experts": 3, "horizon": 10, **choices}
    return hr.Learner.private(hr.SparseVector(), source=hr.SecureNoise(), **given)


@pytest.mark.parametrize("fork", [os.fork, lambda: ctypes.PyDLL(None).fork()])
@pytest.mark.parametrize("call", ["predict", "observe"])
def test_a_forked_learner_refuses_to_answer(fork: Any, call: str) -> None:
    """Forty-one children with other noise would show the secret by a majority."""
    learner = private()
    learner.predict()
    read, write = os.pipe()
    child = fork()
    if child == 0:  # no assertion may leave the child: it would run the rest of the tests
        try:
            learner.predict() if call == "predict" else learner.observe(ONES)
            os.write(write, b"answered")
        except InvalidValue as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"learner was made in another process" in os.read(read, 1000)
    learner.observe(ONES)  # the parent goes on
    learner.predict()
    assert learner.round == 1


def test_a_seeded_learner_may_be_forked() -> None:
    learner = hr.Learner(hr.SparseVector(), clients=2, experts=3, horizon=10)
    child = os.fork()
    if child == 0:
        learner.predict()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize(
    "learner", [private(), hr.Learner(hr.FollowTheLeader(), clients=2, experts=3)]
)
def test_masked_records_are_refused(learner: hr.Learner) -> None:
    learner.predict()
    with pytest.raises(InvalidValue, match="with none masked"):
        learner.observe(np.ma.masked_array(ONES, mask=np.eye(2, 3, dtype=bool)))
    row = np.ma.masked_array(ONES[0], mask=[True, False, False])
    for inside in ([row, ONES[1]], (row, row), [[np.ma.masked, 0.0, 0.0], ONES[1]]):
        with pytest.raises(InvalidValue, match="with none masked") as error:
            learner.observe(inside)
        assert error.value.__context__ is None
    learner.observe(np.ma.masked_array(ONES, mask=False))
    assert learner.round == 1


class Interrupt:
    """Raises KeyboardInterrupt before the n-th bytecode of `Learner.observe`."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code is not hr.Learner.observe.__code__:
            return None
        frame.f_trace_opcodes = True
        self.left -= event == "opcode"
        if not self.left:
            raise KeyboardInterrupt
        return self


def test_an_interrupt_never_lets_a_record_be_counted_twice() -> None:
    """After an interrupt anywhere in `observe` the caller gives the records of the round again, if
    the learner still waits for them.
    """
    learner = hr.Learner(hr.FollowTheLeader(), clients=1, experts=2, horizon=10_000)
    at = 0
    for at in range(1, 10_000):
        learner.predict()
        before, interrupt = learner.round, Interrupt(at)
        sys.settrace(interrupt)
        try:
            learner.observe([[0.0, 1.0]])
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert learner.round == before + (not learner._at.played)
        if learner._at.played:
            learner.observe([[0.0, 1.0]])
        if interrupt.left > 0:
            break
    assert 20 < at < 9_000  # every bytecode was tried


def test_games_whose_sums_secure_noise_would_refuse_are_refused_when_built() -> None:
    """At 2^33 one neighbour would be refused and the other not: a loss without bound."""
    big = {"clients": 2**20, "horizon": 2**14}
    with pytest.raises(InvalidValue, match=r"clients \* rounds .* < 8589934592 for secure noise"):
        private(**big)
    hr.Learner(hr.SparseVector(), experts=2, clients=2**20, horizon=2**14)  # simulation: no refusal
    setting = hr.Setting(2**20, 2, 2**14)
    with pytest.raises(InvalidValue, match="for secure noise"):
        hr.SparseVector().build(setting).require_exact_noise()
    private(clients=2, horizon=2**31)


def test_the_status_says_where_the_game_stands() -> None:
    learner = hr.Learner(
        Stopping(epsilon=50.0, switches=3, threshold=1.0, every=2),
        clients=2,
        experts=3,
        horizon=40,
    )
    start = learner.status()
    assert (start.round, start.exchanges, start.switches_left) == (0, 0, 3)
    assert (start.horizon, start.over, start.private, start.next_exchange) == (40, False, False, 2)
    assert (start.epsilon, start.delta) == learner.certificate.peer.curve.stated()
    seen = [start]
    for _ in range(40):
        expert = int(learner.predict()[0])
        losses = np.zeros((2, 3))
        losses[:, expert] = 1.0  # the leader always loses
        learner.observe(losses)
        seen.append(learner.status())
    assert [status.round for status in seen] == list(range(41))
    exchanges = [status.exchanges for status in seen]
    assert exchanges == sorted(exchanges)
    left = [status.switches_left or 0 for status in seen]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0  # the budget is spent, and no message is sent any more
    assert seen[-1].next_exchange is None
    assert seen[-1].over
    assert exchanges[-1] < 20
    assert json.loads(json.dumps(seen[-1].to_dict()))["switches_left"] == 0


def test_no_exchange_is_announced_that_the_game_does_not_reach() -> None:
    learner = hr.Learner(hr.PhasedSelection(), clients=2, experts=3, horizon=13)
    announced = []
    for _ in range(13):
        announced.append(learner.status())
        learner.predict()
        learner.observe(np.zeros((2, 3)))
    made = learner.status().exchanges
    assert learner.status().next_exchange is None
    for status in announced:  # there is a next one just as long as some are still to come
        assert (status.next_exchange is None) == (status.exchanges == made)
        assert status.next_exchange is None or status.round + status.next_exchange < 13


def test_a_status_without_limits_or_guarantees() -> None:
    plain = hr.Learner(hr.FollowTheLeader(), clients=2, experts=3, horizon=5).status()
    assert (plain.epsilon, plain.delta, plain.switches_left) == (None, None, None)
    private = hr.Learner.private(hr.WalkLeader(), clients=2, experts=3, source=hr.SecureNoise())
    status = private.status()
    assert (status.private, status.horizon, status.over) == (True, None, False)
    unlimited = hr.Learner(hr.Doubling(), clients=2, experts=3, horizon=50).status()
    assert unlimited.switches_left is None
    server = hr.ShrinkingDartboard(plan=Plan(draws=7)).build(hr.Setting(9, 3, 200)).server
    limited = hr.Learner(
        hr.ShrinkingDartboard(plan=Plan(draws=7)), clients=9, experts=3, horizon=200
    )
    assert limited.status().switches_left == 7
    assert server.open(SeededNoise(0).server())[1].switches == 0
