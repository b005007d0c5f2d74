"""Contracts of algorithms that protect a person, a window or a client."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest

import hedgerow as hr
from hedgerow.contracts.suite import examine
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.core.units import Unit

PRIVACY = (
    *("covers every message", "within the budget", "sensitivities hold", "nothing raw in a view"),
    *("ledger composes", "exact ratio below certificate"),
)
SPECS = {
    "sparse vector": hr.SparseVector(),
    "sparse vector, approximate": hr.SparseVector(delta=1e-6),
    "dartboard": hr.ShrinkingDartboard(),
    "random prefix": hr.RandomPrefix(),
    "phased selection, local": hr.PhasedSelection(trust="local", delta=1e-6, report="gaussian"),
    "walk": hr.WalkLeader(epsilon=1.0),
    "running leader": hr.RunningLeader(trust="local"),
    "noisy ftrl": hr.NoisyFTRL(every=2),
    "online SGD": hr.OnlineSGD(trust="central"),
}


OWN_PATTERN = [("running leader", "person:3/2"), ("noisy ftrl", "window:2")]
BOTH = list(product([name for name in SPECS if "noisy" not in name], ["person:3@2", "client"]))
QUICK = {*BOTH[::4], *BOTH[3::4], *OWN_PATTERN}  # every algorithm, with one of the units in turn


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.long)
        for case in (*BOTH, *OWN_PATTERN)
    ],
)
def test_contracts_hold_for_every_unit(name: str, unit: str) -> None:
    spec = replace(SPECS[name], unit=unit)
    found = {contract: examine(contract, spec) for contract in PRIVACY}
    broken = [f"{key}: {one.detail}" for key, one in found.items() if one.status == "broken"]
    assert not broken, broken
    checked = {found[key].status for key in PRIVACY[-2:]}
    assert "holds" in checked  # by composition or by exact likelihoods


def judged_as_an_event(built: Algorithm, plain: Algorithm) -> Algorithm:
    """The bug: the unit is named, and its curve is that of one record with the whole budget."""
    guarantees = tuple(
        replace(named, curve=one.curve)
        for named, one in zip(
            built.certificate.guarantees, plain.certificate.guarantees, strict=True
        )
    )
    certificate = replace(built.certificate, guarantees=guarantees)
    return replace(plain, certificate=certificate)


def _judging(kind: Any) -> Any:
    @dataclass(frozen=True)
    class Judging(kind):
        def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
            one: Any = replace(self, unit=None)
            return judged_as_an_event(super().protecting(unit, setting), one.resolve(setting))

    return Judging


@pytest.mark.parametrize(
    ("kind", "contract", "given", "unit"),
    [
        (hr.SparseVector, "exact ratio below certificate", {}, "client"),
        (hr.SparseVector, "exact ratio below certificate", {}, "window:2"),
        (hr.WalkLeader, "ledger composes", {"epsilon": 1.0}, "client"),
        (hr.WalkLeader, "ledger composes", {"epsilon": 1.0}, "window:2"),
        (hr.RandomPrefix, "ledger composes", {}, "client"),
        (hr.RandomPrefix, "ledger composes", {}, "window:2"),
        (hr.RunningLeader, "ledger composes", {}, "person:3/2"),
        (hr.NoisyFTRL, "ledger composes", {}, "window:2"),
    ],
)
def test_a_unit_judged_as_an_event_is_caught(
    kind: Any, contract: str, given: dict[str, Any], unit: str
) -> None:
    found = examine(contract, _judging(kind)(**given, unit=unit))
    assert found.status == "broken", found.detail
