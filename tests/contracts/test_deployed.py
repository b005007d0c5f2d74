"""The contracts on deployments catch what they are made for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

import hedgerow as hr
from hedgerow.contracts import closing
from hedgerow.contracts.deployed import as_the_rule_says
from hedgerow.contracts.outcome import BrokenContract
from hedgerow.contracts.suite import examine
from hedgerow.core.limits import ANY_CLOSING, Range
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.deployment.closing import ClosingRule
from hedgerow_papers.gao2024.certified_frank_wolfe import FrankWolfe


def twice(rule: ClosingRule, exchange: int, opened: int) -> Iterable[int]:
    """A late upload is added twice."""
    found = as_the_rule_says(rule, exchange, opened)
    return found * 2 if exchange < opened else found


def in_two(rule: ClosingRule, exchange: int, opened: int) -> Iterable[int]:
    """A late upload enters the open exchange and the next one."""
    found = as_the_rule_says(rule, exchange, opened)
    return [into for one in found for into in ((one, one + 1) if exchange < opened else (one,))]


def too_late(rule: ClosingRule, exchange: int, opened: int) -> Iterable[int]:
    """A late upload is counted although the rule drops it."""
    return (opened,) if exchange < opened else (exchange,)


@pytest.mark.parametrize(
    ("entering", "text"),
    [
        (twice, "fold, a late upload: an upload is counted twice"),
        (in_two, "fold, a late upload: an upload is counted twice"),
        (too_late, "drop, a late upload: an upload enters exchange 2, but 2 was open"),
    ],
)
def test_the_contract_catches_a_wrong_rule(entering: Any, text: str) -> None:
    with pytest.raises(BrokenContract, match=text):
        closing.closing_rules_hold(hr.PhasedSelection(), entering=entering)


@pytest.mark.parametrize(
    ("entering", "text"),
    [
        (twice, "moved a released value by 2, but the declared sensitivity is 1"),
        (in_two, "a datum enters 2 of epsilon = 1, delta = 0, which compose to"),
    ],
)
def test_releases_alone_show_a_wrong_rule(
    monkeypatch: pytest.MonkeyPatch, entering: Any, text: str
) -> None:
    """Also if nobody counts the uploads."""
    monkeypatch.setattr(closing, "_each_counts_once", lambda *_: None)
    with pytest.raises(BrokenContract, match=text):
        closing.closing_rules_hold(hr.PhasedSelection(), entering=entering)


@dataclass(frozen=True)
class Planted(AlgorithmSpec):
    """An algorithm that declares other things of its uploads than its own."""

    spec: Any
    changes: Any

    def build(self, setting: Setting) -> Algorithm:
        return self.resolve(setting)

    def resolve(self, setting: Setting) -> Algorithm:
        honest = self.spec.build(setting)
        return replace(honest, uploads=replace(honest.uploads, **self.changes))

    def games(self) -> Any:
        return self.spec.games()


WRONG = {
    "a range that honest uploads leave": (
        "uploads are bounded",
        hr.RandomPrefix(),
        {"ranges": {"losses": Range(5, 0.0, 0.5)}},
        "changes an honest upload",
    ),
    "a range without a limit": (
        "uploads are bounded",
        hr.RunningLeader(every=8),
        {"ranges": {"losses": Range(5, -1e6, 1e6)}},
        "a false upload ends the game: Expected a vector of numbers of size",
    ),
    "a range for one field of two": (
        "uploads are bounded",
        hr.WalkLeader(),
        {"ranges": {"values": Range.noisy(5)}},
        "does not say where the numbers of NoisyReport.variance lie",
    ),
    "a rule that a client cannot follow": (
        "closing rules hold",
        FrankWolfe(),
        {"closing": ANY_CLOSING},
        "Expected a batch of records not used before",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_contract_catches_a_wrong_declaration(name: str) -> None:
    contract, spec, changes, text = WRONG[name]
    outcome = examine(contract, Planted(spec, changes))
    assert outcome.status == "broken"
    assert text in outcome.detail
