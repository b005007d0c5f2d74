"""Contracts of algorithms that protect a person, a window or a client."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
}


@pytest.mark.parametrize("unit", ["person:3@2", "client"])
@pytest.mark.parametrize("name", SPECS)
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


@dataclass(frozen=True)
class _Sparse(hr.SparseVector):
    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        one: Any = replace(self, unit=None)
        return judged_as_an_event(super().protecting(unit, setting), one.resolve(setting))


@dataclass(frozen=True)
class _Walk(hr.WalkLeader):
    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        one: Any = replace(self, unit=None)
        return judged_as_an_event(super().protecting(unit, setting), one.resolve(setting))


@dataclass(frozen=True)
class _Prefix(hr.RandomPrefix):
    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        one: Any = replace(self, unit=None)
        return judged_as_an_event(super().protecting(unit, setting), one.resolve(setting))


@pytest.mark.parametrize("unit", ["window:2", "client"])
@pytest.mark.parametrize(
    ("kind", "contract"),
    [
        (_Sparse, "exact ratio below certificate"),
        (_Walk, "ledger composes"),
        (_Prefix, "ledger composes"),
    ],
)
def test_a_unit_judged_as_an_event_is_caught(kind: Any, contract: str, unit: str) -> None:
    given: Any = {"epsilon": 1.0} if kind is _Walk else {}
    found = examine(contract, kind(**given, unit=unit))
    assert found.status == "broken", found.detail
