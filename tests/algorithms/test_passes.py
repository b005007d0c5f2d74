"""Several passes over the data: what an example costs that is used in several rounds."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.learning.online_sgd import OnlineSGD
from hedgerow.algorithms.learning.plan import Plan
from hedgerow.contracts.suite import examine
from hedgerow.core.noise import NoNoise
from hedgerow.core.transcript import Everything
from hedgerow.core.units import Example, Person

ROUNDS, APART, PASSES = 12, 4, 3
FAMILY = hr.Batch(hr.Huber(), 2)


def pulled(target: float, times: int, together: int) -> hr.Replay:
    """Examples of one client that pull one way at the centre, in rounds that are APART."""
    records = np.zeros((ROUNDS, 1, 2, 2))
    records[0 : times * APART : APART, 0, :together] = 1.0, target
    return hr.Replay(records.reshape(ROUNDS, 1, -1), FAMILY)


def shift(spec: OnlineSGD, times: int, together: int) -> float:
    """How far all releases move, in units of the noise, if the examples turn around."""
    found = list[np.ndarray]()
    for target in (1.0, -1.0):
        game, watched = pulled(target, times, together), Everything()
        built = replace(spec, step=1e-9).build(game.setting)
        hr.simulate(built, game, 0, sinks=[watched], noise=NoNoise())
        found.append(np.array([uploads.sums for _, uploads, _ in watched.messages]))
    built = spec.build(pulled(1.0, 1, 1).setting)
    (mechanism,) = built.certificate.mechanisms
    return float(np.linalg.norm(found[0] - found[1]) / mechanism.noise_scale())  # pyright: ignore


@pytest.mark.parametrize("kind", ["blt", "banded", "root", "dense", "tree", "independent"])
def test_noise_for_passes_is_tight(kind: Any) -> None:
    """The worst pattern spends nearly all of mu; used once more often, it spends more."""
    spec = OnlineSGD(2.0, delta=1e-3, unit=Example(PASSES, APART), plan=Plan(factorisation=kind))
    built = spec.build(pulled(1.0, 1, 1).setting)
    curve = built.certificate.server.curve
    (mechanism,) = built.certificate.mechanisms
    mu = mechanism.curve.mu  # pyright: ignore
    assert curve.stated() == (pytest.approx(2.0, rel=1e-6), 1e-3)
    # the last upload is never sent, so the certificate counts one round more
    assert 0.85 * mu <= shift(spec, PASSES, 1) <= mu
    once = replace(spec, unit=None)
    assert shift(once, PASSES, 1) > 1.3 * shift(once, 1, 1)


def test_records_in_one_round_add_up() -> None:
    person, example = (
        OnlineSGD(2.0, delta=1e-3, unit=unit) for unit in (Person(2), Example(2, APART))
    )
    setting = pulled(1.0, 1, 1).setting
    scales = [spec.build(setting).parameters["deviation"] for spec in (person, example)]
    one = OnlineSGD(2.0, delta=1e-3).build(setting).parameters["deviation"]
    assert scales[0] == pytest.approx(2 * one, rel=1e-3)
    assert sqrt(2) * one < scales[1] < 1.9 * one
    clipped = [replace(spec, plan=Plan("clipped")).build(setting) for spec in (person, example)]
    assert clipped[0].parameters["deviation"] >= clipped[1].parameters["deviation"]
    assert clipped[0].parameters["deviation"] < 2 * 2 * one


@pytest.mark.parametrize("kind", ["blt", "independent"])
@pytest.mark.parametrize("trust", ["central", "distributed"])
def test_clipped_sums_of_several_clients_add_up(kind: Any, trust: Any) -> None:
    """One round sum of each client moves, and their total is released."""
    plan, setting = Plan("clipped", factorisation=kind), hr.Setting(5, 1, 12, family=FAMILY)
    found = [
        OnlineSGD(1.0, delta=1e-3, trust=trust, plan=plan, unit=unit).build(setting)
        for unit in (None, Person(5, clients=5), Person(5))
    ]
    one, at_five, at_one = (built.certificate.mechanisms[0].sensitivity for built in found)
    assert at_five >= 0.999 * 5 * one
    assert at_one < at_five if kind == "independent" else at_one <= at_five


class Forgetful(OnlineSGD):
    """Noise for one use, and a promise for all of them."""

    def pattern(self, setting: Any, every: int = 1) -> tuple[int, int, int]:
        return 1, 1, 1


@pytest.mark.parametrize("unit", [Example(3, 2), Person(3)])
def test_the_ledger_contract_holds_for_passes_and_catches_noise_for_one(unit: Any) -> None:
    found = {c: examine(c, OnlineSGD(unit=unit)) for c in ("ledger composes", "sensitivities hold")}
    assert found["ledger composes"].status == "holds", found
    assert found["sensitivities hold"].status != "broken", found
    assert examine("ledger composes", Forgetful(unit=unit)).status == "broken"


def test_data_that_are_used_again_need_a_unit_that_says_so() -> None:
    rng = np.random.default_rng(0)

    def client(count: int) -> Any:
        features = rng.uniform(-0.5, 0.5, (count, 3))
        return features, np.where(features[:, 0] > 0, 1.0, -1.0)

    game = hr.ClientData([client(20), client(20)], hr.Logistic(), examples=2, passes=3)
    assert game.setting.horizon == 30
    assert (game.records[:10] == game.records[10:20]).all()
    for unit in (None, Example(2, 10), Example(3, 11), hr.Window(11)):
        with pytest.raises(hr.Unsupported, match=r"unit=hr.Example\(passes=3, apart=10\)"):
            hr.simulate(OnlineSGD(unit=unit).build(game.setting), game, 0)
    for unit in (Example(3, 10), Example(4, 5), Person(3)):
        assert hr.simulate(OnlineSGD(unit=unit).build(game.setting), game, 0).played == 30


def test_units_of_examples_are_written_and_checked() -> None:
    for unit in (Example(3), Example(3, 4)):
        assert hr.OnlineSGD(unit=unit.text()).build(FULL).certificate.server.unit.text() == (
            replace(unit, record=FULL.family.record).text()
        )
    with pytest.raises(hr.InvalidValue, match="passes=9 <= 4"):
        OnlineSGD(unit=Example(9, 3)).build(FULL)


FULL = hr.Setting(1, 1, 12, family=hr.Huber())
