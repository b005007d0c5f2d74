"""Units: against a list of all changes in a small game, as text, and in every algorithm."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise, product
from typing import Any

import pytest

import hedgerow as hr
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.audits.runner import AuditRow, attack, cases_of
from hedgerow.core.errors import HedgerowError, Unsupported
from hedgerow.core.record import LOSS_VECTOR, gain_vector
from hedgerow.core.unit_order import covers, steps
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import ANY_RECORD, Client, Event, Example, Part, Person, Unit, Window
from hedgerow.core.validate import parameters
from hedgerow.studies.config import study_from_table, study_table

CLIENTS, ROUNDS = 2, 4
CELLS = [(client, at) for client in range(CLIENTS) for at in range(ROUNDS)]
PERSONS = [
    Person(k, s, b)
    for k in (1, 2, 3, 8)
    for s in (1, 2)
    for b in (1, 2)
    if s <= k and (k, b) != (1, 2)
]
UNITS: list[Unit] = [Event(), Client(), *map(Window, (1, 2, 3, 4)), *PERSONS]
Cells = frozenset[tuple[int, int]]


@cache
def changes(unit: Unit) -> set[Cells]:
    """Every set of records, by client and round, in which neighbours may differ."""
    found = set[Cells]()
    for size in range(1, len(CELLS) + 1):
        for cells in combinations(CELLS, size):
            clients, times = {client for client, _ in cells}, [at for _, at in cells]
            if isinstance(unit, Person):
                near = (abs(a[1] - b[1]) for a, b in combinations(cells, 2) if a[0] == b[0])
                fits = size <= (unit.records or size) and len(clients) <= unit.clients
                fits &= all(distance >= unit.apart for distance in near)
            else:
                span = {Event: 1, Client: ROUNDS}.get(type(unit)) or getattr(unit, "rounds", 0)
                fits = len(clients) == 1 and max(times) - min(times) < span
            if fits:
                found.add(frozenset(cells))
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.text())
def test_covers_against_all_changes(unit: Unit) -> None:
    """It is never wrong; some units that cover others in this small game are not seen to."""
    seen = 0
    for other in UNITS:
        truth = changes(other) <= changes(unit)
        assert truth or not covers(unit, other, ROUNDS), other
        seen += truth and covers(unit, other, ROUNDS)
    assert seen >= 2


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.text())
def test_steps_against_all_changes(unit: Unit) -> None:
    """Every change of the other unit is one after the other of so many changes of this one."""
    for other in UNITS:
        count = steps(unit, other, ROUNDS)
        assert count is not None
        reached = {frozenset[tuple[int, int]]()}
        for _ in range(count):
            reached = {cells | more for cells in reached for more in largest(unit)}
        assert all(any(cells <= more for more in reached) for cells in largest(other)), other


HELD = [one for one in PERSONS if (one.records or 9) <= -(-ROUNDS // one.apart) * one.clients]


@pytest.mark.parametrize("every", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("unit", [*UNITS[:6], *HELD], ids=lambda unit: unit.text())
def test_records_in_batches_against_all_changes(unit: Unit, every: int) -> None:
    """Noise of running sums is made for this pattern, wherever the first batch ends."""
    setting = hr.Setting(CLIENTS, 2, ROUNDS)
    records, together, apart = unit.pattern(setting, every)
    for cells, first in product(changes(unit), range(every)):
        found = Counter((at + first) // every for _, at in cells)
        batches = sorted(found)
        assert len(cells) <= records
        assert max(found.values()) <= together
        assert all(after - before >= apart for before, after in pairwise(batches)), cells
    if isinstance(unit, Person) and unit.clients == 1 and unit.records is not None:
        example = Example(unit.records, unit.apart)
        assert example.pattern(setting, every) == (records, together, apart)


@cache
def largest(unit: Unit) -> set[Cells]:
    """The changes of a unit that are part of no other of its changes."""
    found = changes(unit)
    return {one for one in found if not any(one < other for other in found)}


PART, TARGET = Part(Person(1), 1e-6), replace(LOSS_VECTOR, public="forecasts")
FOUR, ALL = (Event(record=replace(LOSS_VECTOR, each=n)) for n in (4, 8))


@pytest.mark.parametrize(
    ("unit", "other", "count"),
    [
        (PART, Event(), None),
        (Event(), PART, None),
        (Part(Person(1), 0.5), PART, 1),
        (PART, Part(Person(1), 0.5), None),
        (Part(Person(1), (1e-6, 0.5)), Part(Person(1), 0.5), None),  # in one round it hides less
        (replace(PART, record=gain_vector((0.0, 9.0))), PART, None),  # another scale
        (Part(Person(1), "1/size"), Part(Person(1), "1/size"), 1),
        (FOUR, Event(record=ANY_RECORD), 4),  # all that a client reports in a round
        (FOUR, Person(24, record=ANY_RECORD), 96),
        (Event(), FOUR, 1),
        (FOUR, ALL, None),
        (Event(record=TARGET), Event(record=ANY_RECORD), None),  # forecasts are not hidden
        (Event(record=TARGET), Person(3, record=replace(ANY_RECORD, public="forecasts")), 3),
        (Event(record=TARGET), Event(record=replace(TARGET, public="features")), None),
        (Event(), Event(record=TARGET), 1),
        (Client(), Person(None), 1),
        (Person(24), Person(None), None),
        (Person(None, 2), Person(7, 2), 1),
        (Event(), Client(), None),
    ],
)
def test_what_a_study_is_worth_in_another_unit(unit: Unit, other: Unit, count: int | None) -> None:
    assert steps(unit, other) == count
    assert covers(unit, other) == (count == 1)


def test_an_unknown_unit_covers_nothing_and_is_not_covered() -> None:
    @dataclass(frozen=True)
    class Half(Event):
        """Half of a record."""

    for other in (*UNITS, Half()):
        assert steps(Half(), other) is steps(other, Half()) is None


TEXTS = ["person", "person@2", "event:8", "part:0.001", "part:1.0;0.5", "part:1/size"]
WRITTEN = [*UNITS, *map(parse_unit, TEXTS), parse_unit("person:24@2/7,public=forecasts")]


@pytest.mark.parametrize("unit", WRITTEN, ids=lambda unit: unit.text())
def test_units_are_read_as_they_are_written(unit: Unit) -> None:
    assert parse_unit(unit.text()) == unit
    table: dict[str, Any] = {
        "title": "units",
        "seeds": 1,
        "environment": {"name": "bernoulli", "clients": 2, "experts": 3, "horizon": 16},
        "algorithms": [{"label": "one", "name": "random_prefix", "unit": unit.text()}],
    }
    config = study_from_table(table)
    assert (
        study_from_table(study_table(config)).algorithms[0].algorithm
        == config.algorithms[0].algorithm
    )


def test_equal_words_mean_equal_units() -> None:
    for one, other in combinations(WRITTEN, 2):
        same = covers(one, other) and covers(other, one)
        assert same or one.adjacency() != other.adjacency()
        assert same or one.words() != other.words()


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        *((text, "to be one of event") for text in ("people", "", "Event", "event:1", "event:x")),
        *((text, "to be one of event") for text in ("part:0", "part:nan", "site", "event,public=")),
        ("person", "hr.VoteSelection"),
        ("part:0.5", "no noise for a declared part"),
        ("person:0", "records=0"),
        ("person:-3", "Expected unit='person:-3'"),
        ("person:2@3", "clients=3"),
        ("window:9999", "<= the 64 rounds of the game"),
        ("person:200", "<= 64, as many as one person can have"),
        ("person:4/40", "<= 2, as many as one person can have"),
        ("person:9@9", "<= the 4 clients of the game"),
        ({"person": 2, "sites": 3}, "Expected unit="),
    ],
)
def test_units_that_no_game_holds_are_refused(unit: Any, words: str) -> None:
    with pytest.raises(HedgerowError, match=words):
        hr.RandomPrefix(unit=unit).build(hr.Setting(4, 3, 64))


def test_who_cannot_protect_a_unit_says_so() -> None:
    with pytest.raises(Unsupported, match="protects nobody with these choices"):
        hr.Hedge(unit="client").build(hr.Setting(4, 3, 64))
    with pytest.raises(Unsupported, match="Without a horizon a client has any number of records"):
        hr.WalkLeader(unit="client").build(hr.Setting(4, 3, None))


SETTING = hr.Setting(10, 20, 512)
BUDGETED = sorted(
    name
    for name, kind in ALGORITHMS.items()
    if kind.__module__.startswith("hedgerow.") and kind.traits.epsilon is not None
)


@pytest.mark.parametrize(
    "unit",
    [
        *("person:2", "person:24", "window:2", "client"),
        pytest.param("person:10", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", BUDGETED)
def test_every_algorithm_spends_its_budget_on_the_unit(name: str, unit: str) -> None:
    """At least 99.5 % of the epsilon that was asked for is certified, and never more."""
    kind: Any = ALGORITHMS[name]
    spec = kind(unit=unit)
    if parameters(spec).get("epsilon", 1.0) is None:
        spec = replace(spec, epsilon=1.0)
    family = kind.traits.family
    setting = SETTING if family is None else replace(SETTING, family=family)
    if not any(g.protects for g in kind().build(setting).certificate.guarantees):
        with pytest.raises(hr.Unsupported, match="protects nobody with these choices"):
            spec.build(setting)
        return
    algorithm = spec.build(setting)
    asked, delta = parameters(spec).get("epsilon", 0.0), parameters(spec).get("delta", 0.0)
    protecting = [g for g in algorithm.certificate.guarantees if g.protects]
    assert protecting
    for guarantee in protecting:
        same = guarantee.unit.text().partition(",")[0] == unit
        assert same or covers(guarantee.unit, parse_unit(unit), SETTING.rounds)
        assert guarantee.adjacency.startswith(guarantee.unit.adjacency())
        stated = guarantee.curve.stated()
        assert (0.995 * asked) <= guarantee.curve.epsilon(delta) <= asked
        assert delta == 0 or stated[1] <= delta


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        (hr.SparseVector(epsilon=1000.0, delta=1e-6, unit="person:24"), 995.0),
        (hr.PrivateHedge(epsilon=500.0, delta=1e-6, unit="person:2"), 0.0),  # it cannot spend more
    ],
)
def test_huge_budgets_are_divided_too(spec: Any, least: float) -> None:
    """e^1000 is no float, and the search for the share of a record leaves what may be asked for."""
    found = spec.build(hr.Setting(4, 3, 64)).certificate.public.curve
    assert least <= found.epsilon(1e-6) <= spec.epsilon


@pytest.mark.parametrize("unit", ["person:3", "person:3@2", "person:3/7", "window:2", "client"])
@pytest.mark.parametrize("name", ["walk_leader", "running_leader"])
def test_attacks_on_a_unit_reach_its_certificate(name: str, unit: str) -> None:
    """That noise is needed: with that of one record, or a fifth less, the unit is not hidden."""
    rows = [
        AuditRow(case, attack(case))
        for case in cases_of(name, ALGORITHMS[name](epsilon=1.0, unit=unit))
    ]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    assert rows[-1].case.name == "judged as one record"
    assert (rows[1].finding.epsilon or 0.0) > 0.85


@pytest.mark.parametrize("unit", ["person:3", "person:3@2/4", "window:7", "client"])
@pytest.mark.parametrize(
    ("name", "given", "least"),
    [
        ("random_prefix", {}, 0.7),
        ("phased_selection", {}, 0.7),
        ("block_selection", {}, 0.7),
        ("watched_selection", {}, 0.7),
        ("sparse_vector", {}, 0.5),
        ("sparse_vector", {"delta": 1e-6}, 0.4),
        ("doubling", {}, 0.5),
        ("potential", {}, 0.5),
        ("proven_sparse_vector", {}, 0.4),
        ("shrinking_dartboard", {}, 0.25),
    ],
)
def test_choices_are_attacked_with_all_records_of_a_unit(
    name: str, given: dict[str, Any], least: float, unit: str
) -> None:
    """The exact ratio is within the certificate, and that of one record would not be enough."""
    cases = cases_of(name, ALGORITHMS[name](**given, unit=unit))
    rows = [AuditRow(case, attack(case)) for case in cases]
    assert all(row.passed for row in rows), [row.to_dict() for row in rows if not row.passed]
    assert rows[-1].case.name == "judged as one record"
    assert (rows[1].finding.epsilon or 0.0) > least * rows[1].certified


def test_audits_say_that_they_attack_one_record() -> None:
    with pytest.raises(Unsupported, match="attack one record; the curve of unit='person:2'"):
        cases_of("private_mixture", hr.PrivateMixture(unit="person:2"))
