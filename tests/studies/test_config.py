"""Studies: TOML in, resolved configuration out, every bad file refused in one line."""

from __future__ import annotations

import tomllib
from dataclasses import fields, make_dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
import tomli_w
from pydantic import TypeAdapter, ValidationError

from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.algorithms.sparse_vector.plan import Plan
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.deployment.manifest import Manifest, rebuild, spec_of
from hedgerow.environments.drawn.realizable import Halving, Realizable
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.records.build import choices_of
from hedgerow.records.plain import typed
from hedgerow.studies.config import Entry, StudyConfig, load_study, study_from_table, study_table
from hedgerow.studies.run import run_study
from support.keys import NOBODY

GOOD = """
title = "A study"
seeds = 3
[environment]
name = "bernoulli"
clients = 2
experts = 4
horizon = 30
[[algorithms]]
name = "sparse_vector"
label = "private"
epsilon = 2
[[algorithms]]
name = "hedge"
environment = { clients = 1 }
"""


def _load(tmp_path: Path, text: str = GOOD, *settings: str, seed: int | None = None) -> StudyConfig:
    (tmp_path / "study.toml").write_text(text)
    return load_study(tmp_path / "study.toml", settings, seed)


def test_a_good_file_becomes_a_study(tmp_path: Path) -> None:
    config = _load(tmp_path)
    assert (config.title, config.seeds, config.first_seed, config.engine) == (
        "A study",
        3,
        0,
        "vectorised",
    )
    private, hedge = config.algorithms
    assert (private.label, private.algorithm, private.environment) == (
        "private",
        SparseVector(epsilon=2.0),
        None,
    )
    assert (hedge.label, hedge.algorithm) == ("hedge", Hedge())
    assert config.environment_of(hedge) == replace(config.environment, clients=1)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds =", "seed =", "Unknown key seed; did you mean 'seeds'"),
        (
            "clients = 2",
            "client = 2",
            r"Unknown key environment\.client of \w+; did you mean 'clients'",
        ),
        (
            "epsilon =",
            "epsilom =",
            r"Unknown key algorithms\.0\.epsilom of \w+; did you mean 'epsilon'",
        ),
        (
            "{ clients",
            "{ clint",
            r"Unknown key algorithms\.1\.environment\.clint of \w+; did you mean 'clients'",
        ),
        ("clients = 2", 'clients = "two"', r"Expected environment\.clients='two' to fit"),
        ("clients = 2", "clients = 2.5", r"Expected environment\.clients=2\.5 to fit"),
        ("epsilon = 2", "epsilon = true", r"Expected algorithms\.0\.epsilon=True to fit"),
        ("epsilon = 2", "epsilon = -1", r"Expected epsilon=-1\.0 > 0"),
        ("epsilon = 2", "epsilon = nan", "Expected epsilon=nan > 0"),
        ("epsilon = 2", "epsilon = inf", "Expected epsilon=inf > 0 and finite"),
        (
            "epsilon = 2",
            'early = "other"',
            r"Expected algorithms\.0\.early='other' to fit",
        ),
        ('"bernoulli"', '"bernouli"', "Unknown environment 'bernouli'; did you mean 'bernoulli'"),
        ('"hedge"', '"hedgee"', "Unknown algorithm 'hedgee'; did you mean 'hedge'"),
        (
            'name = "bernoulli"',
            "",
            r"Expected \[environment\] to have a name; valid: absent, bernoulli",
        ),
        ('name = "hedge"', "", r"Expected \[algorithms\.1\] to have a name"),
        ('name = "hedge"', "name = 3", "(algorithm|name).*3"),
        ('"hedge"\n', '"hedge"\nlabel = "private"\n', "Expected label='private' to be used once"),
        ("{ clients = 1 }", "3", r"Expected \[?algorithms\.1\.environment"),
        ('title = "A study"', "title = 5", "Expected title=5 to be text"),
        ("seeds = 3", "seeds = 0", "Expected seeds=0 to be a whole number >= 1"),
        ("seeds = 3", "seeds = true", "Expected seeds=True to be a whole number"),
        ("seeds = 3", 'seeds = "many"', "Expected seeds='many' to be a whole number"),
        ("seeds = 3", "first_seed = -1", "Expected first_seed=-1 to be a whole number >= 0"),
        ("seeds = 3", 'engine = "cloud"', "Expected engine='cloud' in"),
        ("experts = 4", "experts = 0", "Expected experts=0 to be a whole number >= 1"),
        ("seeds = 3", "seeds = = 3", r"Cannot read .*study\.toml"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(HedgerowError, match=message) as caught:
        _load(tmp_path, GOOD.replace(old, new, 1))
    assert "\n" not in str(caught.value)


def test_a_study_needs_algorithms_and_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="at least one algorithm"):
        _load(tmp_path, GOOD.split("[[algorithms]]", maxsplit=1)[0])
    for wrong in ("[algorithms]\nname = 'uniform'\n", "[algorithms.uniform]\n"):
        with pytest.raises(
            InvalidValue,
            match=r"list of tables.*Write \[\[algorithms\]\] in one line, "
            r'name = "uniform" in the next',
        ):
            _load(tmp_path, GOOD.split("[[algorithms]]", maxsplit=1)[0] + wrong)
    with pytest.raises(
        InvalidValue, match=r'in one line, label = "dart" and name = "uniform" in the next two'
    ):
        _load(
            tmp_path,
            GOOD.split("[[algorithms]]", maxsplit=1)[0] + "[algorithms.dart]\nname = 'uniform'\n",
        )
    with pytest.raises(InvalidValue, match="There is no TOML file at"):
        load_study(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidValue, match="Cannot read"):
        load_study(tmp_path / "binary.toml")


def test_a_required_value_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidValue, match=r"environment\.path is missing\. Give it a value\."):
        study_from_table({"environment": {"name": "recorded"}, "algorithms": [{"name": "hedge"}]})


def test_a_longer_interval_than_the_horizon_is_refused_when_built(tmp_path: Path) -> None:
    config = _load(tmp_path, GOOD, "algorithms.private.every=31")
    with pytest.raises(InvalidValue, match="Expected every=31 <= horizon=30"):
        run_study(config)


# --set and --seed


def test_values_are_set_by_number_by_label_and_at_the_top(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        GOOD,
        "algorithms.0.epsilon=3",
        "algorithms.hedge.every=5",
        "seeds=7",
        "environment.gap=0.1",
        "title=Other",
        seed=9,
    )
    assert [entry.algorithm for entry in config.algorithms] == [
        SparseVector(epsilon=3.0),
        Hedge(every=5),
    ]
    assert (config.seeds, config.first_seed, config.title) == (7, 9, "Other")
    assert config.environment.gap == 0.1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seeds", "of the form key=value"),
        ("=3", "of the form key=value"),
        (
            "algorithms.privat.epsilon=1",
            r"Unknown algorithms\.privat in --set .* did you mean 'private'",
        ),
        ("algorithms.7.epsilon=1", r"Unknown algorithms\.7"),
        ("algorithms.0=1", "to name a key"),
        ("title.x=1", "--set title.x"),
        ("environmant.gap=1", "Unknown key environmant; did you mean 'environment'"),
        ("environment.gap=wide", "Expected environment.gap='wide' to fit"),
        ("environment=halving", "environment"),
        ("algorithms=1", "list of tables"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        _load(tmp_path, GOOD, setting)


# Round trips


def _through_toml(config: StudyConfig) -> StudyConfig:
    return study_from_table(tomllib.loads(tomli_w.dumps(study_table(config))))


@pytest.mark.parametrize("name", list(ENVIRONMENTS))
def test_every_environment_survives_the_round_trip(name: str) -> None:
    kind = ENVIRONMENTS[name]
    given: dict[str, Any] = (
        {"path": "a.csv", **({"largest_error": 2.0} if name == "forecasts" else {})}
        if name
        in (
            *("flusight", "forecasts", "hospitals", "recorded", "recorded_examples"),
            "combined_forecasts",
        )
        else {}
        if name in ("mnist", "flu_combination", "hospital_shares")
        else {"clients": 3, "horizon": 6}
    )
    if "of" in {f.name for f in fields(kind)}:
        given = {"of": Realizable(clients=3, horizon=77, mean=0.25)}
    config = StudyConfig(
        "x",
        kind(**given),
        (Entry("a", Hedge(), kind(**given)), Entry("b", Hedge())),
        4,
        5,
        "in_process",
    )
    assert _through_toml(config) == config


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_algorithm_survives_the_round_trip(name: str) -> None:
    kind = ALGORITHMS[name]
    known = {f.name for f in fields(kind)} & {kind.traits.interval}
    changed = {"every": 3} if "every" in known else {}
    config = StudyConfig(
        "x", Halving(), (Entry("default", kind()), Entry("changed", kind(**changed)))
    )
    assert _through_toml(config) == config


def test_an_environment_of_another_kind_survives_the_round_trip() -> None:
    config = StudyConfig("x", Realizable(mean=0.3), (Entry("a", Hedge(), Halving(clients=2)),))
    assert _through_toml(config) == config


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (float, (1.5, 1, True, "1", None, (1.0,))),
        (int, (1, True, 1.0, "1", None)),
        (bool, (True, 1, "yes")),
        (str, ("a", 1, None)),
        (float | None, (1.5, 1, None, "1", True)),
        (Literal["a", "b"], ("a", "c", 1)),
        (Literal["a"] | float, ("a", 1.0, "b")),
        (tuple[int, ...], (1, (1, 2), [1, 2], (1.0,))),
    ],
)
def test_plain_values_are_read_as_pydantic_reads_them(hint: Any, values: tuple[Any, ...]) -> None:
    kind = make_dataclass("Kind", [("value", hint)])
    for value in values:
        given = tuple(value) if isinstance(value, list) else value
        try:
            expected = TypeAdapter(hint).validate_python(given, strict=True)
        except ValidationError:
            with pytest.raises(InvalidValue, match="to fit"):
                typed(kind, {"value": value}, "table")
            continue
        found = typed(kind, {"value": value}, "table").value
        assert (type(found), found) == (type(expected), expected)


def test_a_plan_is_a_table_and_survives_the_way_to_a_file_and_back() -> None:
    text = """
title = "x"
environment = { name = "halving" }
[[algorithms]]
name = "sparse_vector"
plan = { switches = 3, draw = "exponential" }
"""
    config = study_from_table(tomllib.loads(text))
    (entry,) = config.algorithms
    assert entry.algorithm == SparseVector(plan=Plan(switches=3, draw="exponential"))
    assert study_table(config)["algorithms"][0]["plan"] == {"switches": 3, "draw": "exponential"}
    assert study_from_table(study_table(config)) == config
    assert typed(SparseVector, choices_of(entry.algorithm), "x") == entry.algorithm
    assert "plan" not in choices_of(SparseVector())
    for plan, message in (
        ({"swiches": 3}, "Unknown key algorithms.0.plan.swiches of plan; did you mean 'switches'"),
        ({"switches": "3"}, "Expected algorithms.0.plan.switches='3' to fit"),
        (3, "Expected algorithms.0.plan=3 to fit"),
    ):
        table = tomllib.loads(text)
        table["algorithms"][0]["plan"] = plan
        with pytest.raises(InvalidValue, match=message):
            study_from_table(table)


def test_a_manifest_carries_a_plan() -> None:
    manifest = Manifest.make(
        title="Wards",
        algorithm="sparse_vector",
        choices={"epsilon": "0.5", "plan": {"switches": 3}},
        experts=3,
        horizon=10,
        roster={"a": "11" * 32, "b": "22" * 32},
        **NOBODY,
    )
    found = Manifest.read(manifest.to_bytes())
    assert spec_of(found) == SparseVector(epsilon=0.5, plan=Plan(switches=3))
    assert rebuild(found).parameters["switches"] == 3
