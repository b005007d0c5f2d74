"""Deployments: their record needs secure noise, their certificate is never better than the
simulation's, several runs add up.
"""

from __future__ import annotations

import builtins
import json
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import hedgerow as hr
from hedgerow.cli.main import main
from hedgerow.contracts.suite import examine
from hedgerow.core import certificate
from hedgerow.core.certificate import (
    ARITHMETIC,
    ENTROPY,
    IDEAL_REALS,
    Certificate,
    with_exact_noise,
)
from hedgerow.core.errors import InvalidValue
from hedgerow.core.messages import field_names
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.engines import learner as learner_module
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.environments.wrappers.delayed import Delayed
from hedgerow.environments.wrappers.sleeping import Sleeping
from hedgerow.privacy import SecureNoise
from hedgerow.privacy.composition.bounded_range import AdaptiveBoundedRange
from hedgerow.privacy.composition.groups import repeated
from hedgerow.privacy.composition.steps import PureComposition
from hedgerow.privacy.curves import ApproximateDP, GaussianDP, PureDP, Quoted, ZeroConcentratedDP
from hedgerow.records.schema import STAMP, read_record
from hedgerow.studies.deployment import deployment_record, record_deployment
from hedgerow_papers.gao2024.fed_svt import FedSVT
from hedgerow_papers.gao2024.movielens import MovieLensGenres
from support.command import Command
from support.honest import HONEST
from support.paths import EXAMPLES, ROOT

SETTING = Setting(clients=3, experts=4, horizon=20)
SPECS: dict[str, Any] = {
    "pure": hr.SparseVector(),
    "approximate": hr.SparseVector(delta=1e-5),
    "published": FedSVT(),
    "uniform": hr.Uniform(),
    **{
        name: spec
        for name, spec in HONEST.items()
        if all(getattr(m, "exact", True) for m in spec.build(SETTING).certificate.mechanisms)
    },
}
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)


def _private(spec: AlgorithmSpec) -> hr.Learner:
    return hr.Learner.private(spec, clients=3, experts=4, horizon=20, source=SecureNoise())


# the certificate of a private learner


def _faults(spec: AlgorithmSpec) -> list[str]:
    """What is wrong with the certificate of the private learner, beside that of the simulation."""
    algorithm = _private(spec).algorithm
    simulated, private = spec.build(algorithm.setting).certificate, algorithm.certificate
    faults = [
        f"{name} is not covered" for name in _fields(algorithm) if name not in private.channels
    ]
    if (private.mechanisms, private.channels, private.trust) != (
        simulated.mechanisms,
        simulated.channels,
        simulated.trust,
    ):
        faults.append("mechanisms, channels or trust differ")
    for before, after in zip(simulated.guarantees, private.guarantees, strict=True):
        if replace(after, assumes=before.assumes, curve=before.curve) != before:
            faults.append("view, unit, proof or claim differ")
        if any(after.curve.delta(epsilon) < before.curve.delta(epsilon) for epsilon in EPSILONS):
            faults.append("the curve became better")
        if IDEAL_REALS in after.assumes or (IDEAL_REALS in before.assumes) != (
            ENTROPY in after.assumes
        ):
            faults.append("ENTROPY does not stand in the place of IDEAL_REALS")
        if before.assumes - {IDEAL_REALS} != after.assumes - {ENTROPY, ARITHMETIC}:
            faults.append("another assumption came or went")
    return faults


def _fields(algorithm: Algorithm) -> tuple[str, ...]:
    return (*field_names(algorithm.uploads.kind), *field_names(algorithm.broadcasts.kind))


@dataclass(frozen=True)
class Exact(AlgorithmSpec):
    """A spec with the certificate that a private learner has."""

    spec: AlgorithmSpec

    def resolve(self, setting: Setting) -> Algorithm:
        built = self.spec.build(setting)
        return replace(built, certificate=with_exact_noise(built.certificate))


@pytest.mark.parametrize("name", SPECS)
def test_the_private_certificate_is_that_of_the_simulation_with_entropy(name: str) -> None:
    assert _faults(SPECS[name]) == []
    assert examine("covers every message", Exact(SPECS[name])).status == "holds"


def _each(
    change: Callable[[certificate.Guarantee], certificate.Guarantee],
) -> Callable[[Certificate], Certificate]:
    return lambda old: replace(
        with_exact_noise(old), guarantees=tuple(map(change, with_exact_noise(old).guarantees))
    )


WRONG: dict[str, tuple[Callable[[Certificate], Certificate], str]] = {
    "still ideal": (lambda old: old, "ENTROPY does not stand"),
    "nothing assumed": (
        _each(lambda g: replace(g, assumes=frozenset())),
        "another assumption came or went",
    ),
    "better curve": (_each(lambda g: replace(g, curve=PureDP(0.9))), "the curve became better"),
    "other view": (
        _each(lambda g: replace(g, view=frozenset())),
        "view, unit, proof or claim differ",
    ),
    "no mechanisms": (
        lambda old: replace(with_exact_noise(old), mechanisms=()),
        "mechanisms, channels or trust differ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_private_certificate_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, fault = WRONG[name]
    monkeypatch.setattr(learner_module, "with_exact_noise", wrong)
    assert any(text.startswith(fault) for text in _faults(hr.SparseVector()))


# the record of a deployment


def test_a_deployment_is_stated_without_a_stamp(hedgerow: Command, tmp_path: Path) -> None:
    record_deployment(_private(hr.SparseVector(epsilon=0.5)), tmp_path / "live", title="Live")
    record = read_record(tmp_path / "live")
    assert record == replace(
        deployment_record(_private(hr.SparseVector(epsilon=0.5)), "Live", tmp_path / "live"),
        written=record.written,
    )
    assert (
        record.stamp,
        record.noise.secure,
        record.algorithms[0].data,
        record.algorithms[0].environment,
    ) == (None, True, "real", {})
    assert {"cryptography", "mpmath", "numpy"} <= set(record.versions)
    answer = hedgerow("statement", "live")
    assert answer.code == 0
    place = tmp_path / "live" / "statement" / "sparse_vector"
    files = {file.name: file.read_text() for file in place.iterdir()}
    assert not any(
        STAMP in text or "NOT SECURE" in text or "IDEAL_REALS" in text for text in files.values()
    )
    page = " ".join(files["statement.md"].split())
    for text in (
        "recorded on ",
        "before the first of 20 rounds",
        "used in no other game",
        "within a proven margin (proofs/secure_noise",
    ):
        assert text in page
    assert '<p class="loud">These data are used' in files["statement.html"]
    assert "cannot be saved" in page
    assert "for a person in both games, the numbers of both add up." in page
    for text in (
        "AES-256 in counter mode under a key from the operating system",
        "exact whole numbers",
        "cryptography ",
        "mpmath ",
    ):
        assert text in page
    assert re.search(r"snapshot or clone of a virtual machine.* \(ENTROPY\)", page)
    assert "epsilon = 0.5, delta = 0" in page
    assert json.loads(files["statement.json"])["stamp"] is None
    assert yaml.safe_load(files["registry.yaml"])["deployment"]["privacy_loss"][
        "privacy_parameters"
    ] == {"epsilon": 0.5, "delta": 0.0}


def test_seeded_noise_gets_no_deployment_record(tmp_path: Path) -> None:
    seeded = hr.Learner(hr.SparseVector(), clients=2, experts=3, horizon=5)
    with pytest.raises(InvalidValue, match="Expected SecureNoise for real data, got SeededNoise"):
        record_deployment(seeded, tmp_path / "live", title="Live")
    assert list(tmp_path.iterdir()) == []
    for name, value in (
        ("source", SecureNoise()),
        ("algorithm", _private(hr.SparseVector()).algorithm),
        ("spec", hr.SparseVector()),
    ):
        with pytest.raises(AttributeError):
            setattr(seeded, name, value)


def test_a_record_needs_a_title_and_a_new_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="Expected title=' ' to say what is deployed"):
        record_deployment(_private(hr.SparseVector()), tmp_path / "live", title=" ")
    (tmp_path / "live").mkdir()
    with pytest.raises(
        InvalidValue, match=r"live already exists\. Choose another place or delete it\."
    ):
        record_deployment(_private(hr.SparseVector()), tmp_path / "live", title="Live")
    assert list((tmp_path / "live").iterdir()) == []


def test_a_learner_is_recorded_once_and_the_record_says_when(
    tmp_path: Path, hedgerow: Command
) -> None:
    learner = _private(hr.SparseVector())
    for _ in range(7):
        learner.predict()
        learner.observe(np.zeros((3, 4)))
    record_deployment(learner, tmp_path / "live", title="Live")
    assert read_record(tmp_path / "live").played == 7
    with pytest.raises(
        InvalidValue, match=r"This learner already has a record in .*live\. Use that record"
    ):
        record_deployment(learner, tmp_path / "again", title="Live")
    assert [p.name for p in tmp_path.glob("again*")] == []
    hedgerow("statement", "live")
    assert (
        "after round 7 of 20"
        in (tmp_path / "live" / "statement" / "sparse_vector" / "statement.md").read_text()
    )
    record_deployment(_private(hr.SparseVector()), tmp_path / "again", title="Another game")


def test_the_example_deploys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["deployment.py", str(tmp_path / "live")])
    runpy.run_path(str(EXAMPLES / "deployment.py"))
    assert read_record(tmp_path / "live").stamp is None


# several runs on the same data


def test_runs_on_the_same_data_add_up() -> None:
    assert repeated(PureDP(0.1), 3) == PureDP(0.30000000000000004)
    assert repeated(ZeroConcentratedDP(0.5), 4) == ZeroConcentratedDP(2.0)
    assert repeated(AdaptiveBoundedRange(0.125, 8), 2) == AdaptiveBoundedRange(0.125, 16)
    assert repeated(Quoted(GaussianDP(0.5), 1e-5), 4) == Quoted(GaussianDP(1.0), 1e-5)
    assert repeated(PureComposition(0.5, 3), 2).stated() == tuple(
        2 * part for part in PureComposition(0.5, 3).stated()
    )
    assert repeated(ApproximateDP(1.0, 0.25), 1) == ApproximateDP(1.0, 0.25)
    with pytest.raises(InvalidValue, match="runs=0"):
        repeated(PureDP(1.0), 0)


RECORDED = """
title = "Recorded"
seeds = 3
[environment]
name = "recorded"
path = "losses.csv"
[[algorithms]]
name = "sparse_vector"
label = "pure"
epsilon = 0.5
[[algorithms]]
name = "sparse_vector"
label = "approximate"
delta = 1e-5
"""
OTHER = '[[algorithms]]\nname = "hedge"\n'


def _losses(path: Path) -> None:
    rows = [f"{t},{c},0,{(t + c) % 2},1" for t in range(8) for c in range(2)]
    path.write_text("\n".join(["round,client,a,b,c", *rows]) + "\n")


def test_every_seed_on_recorded_data_is_one_more_run(hedgerow: Command, tmp_path: Path) -> None:
    _losses(tmp_path / "losses.csv")
    (tmp_path / "study.toml").write_text(RECORDED)
    assert hedgerow("run", "study.toml", "--out", "runs/a").code == 0
    pure, approximate = (
        a["guarantees"][1]["total"]
        for a in json.loads((tmp_path / "runs/a/privacy.json").read_text())["algorithms"]
    )
    assert (pure["runs"], pure["epsilon"], pure["delta"]) == (3, 1.5, 0.0)
    assert approximate["epsilon"] == pytest.approx(3.0, rel=1e-3)
    assert approximate["delta"] == pytest.approx(3e-5)
    said = hedgerow("statement", "runs/a", "--algorithm", "pure").out
    assert (
        "after seeing everything in all rounds of all 3 runs on the same data they are never more than 4.49 to 1"
        in " ".join(said.split())
    )
    folder = tmp_path / "runs" / "a" / "statement" / "pure"
    page = (folder / "statement.md").read_text()
    assert (
        "count as runs on the same data: one costs epsilon = 0.5, delta = 0, "
        "all together epsilon = 1.5, delta = 0." in page
    )
    beside = (
        r"also ran 'approximate' on the same data; together, for the server: NO GUARANTEE; "
        r"for another client and the public: epsilon = 4"
    )
    assert re.search(beside + r"\.\d+, delta = 3e-5", page)
    assert (
        yaml.safe_load((folder / "registry.yaml").read_text())["deployment"]["privacy_loss"][
            "privacy_parameters"
        ]["epsilon"]
        == 1.5
    )
    (tmp_path / "study.toml").write_text(RECORDED + OTHER)
    hedgerow("run", "study.toml", "--out", "runs/b", "--set", "seeds=1")
    hedgerow("statement", "runs/b", "--algorithm", "pure")
    page = (tmp_path / "runs" / "b" / "statement" / "pure" / "statement.md").read_text()
    assert "with a second one like this the sum is epsilon = 1, delta = 0." in page
    assert (
        "also ran 'approximate' and 'hedge' on the same data; together, "
        "for the server, another client and the public: NO GUARANTEE." in page
    )


def test_the_same_file_under_another_name_is_the_same_data(
    hedgerow: Command, tmp_path: Path
) -> None:
    """What counts is what was read: another path to the same losses adds up, other losses do not."""
    _losses(tmp_path / "losses.csv")
    (tmp_path / "other.csv").write_text(
        (tmp_path / "losses.csv").read_text().replace("0,0,0,0,1", "0,0,1,0,1")
    )
    own = '[algorithms.environment]\nname = "recorded"\npath = "{}"\n'
    for path, added in (("./losses.csv", True), ("other.csv", False)):
        (tmp_path / "study.toml").write_text(RECORDED + own.format(path))
        out = f"runs/{added}"
        assert hedgerow("run", "study.toml", "--out", out, "--set", "seeds=1").code == 0
        hedgerow("statement", out, "--algorithm", "pure")
        page = (tmp_path / out / "statement" / "pure" / "statement.md").read_text()
        assert ("also ran 'approximate' on the same data" in page) == added


REPLAY = """
from dataclasses import dataclass
import numpy as np
import hedgerow
from hedgerow.core.block import Block
from hedgerow.environments.drawn.generated import Frame
@dataclass(frozen=True, kw_only=True)
class Replay(Frame):
    def start(self, seed):
        return 0
    def block(self, state, rounds, past_plays):
        return Block.of(np.zeros((rounds, self.clients, self.experts))), state + rounds
hedgerow.ENVIRONMENTS.add("replay", Replay)
"""


@pytest.mark.long
def test_only_an_environment_that_says_so_draws_afresh(hedgerow: Command, tmp_path: Path) -> None:
    """A plugin that replays a file says nothing: its seeds count as runs on the same data, and so
    do those of its neighbours.
    """
    (tmp_path / "replay.py").write_text(REPLAY)
    table = 'name = "{}"\nclients = 2\nexperts = 3\nhorizon = 8'
    for name, runs in (("replay", 3), ("bernoulli", 1)):
        (tmp_path / "study.toml").write_text(
            RECORDED.replace('name = "recorded"\npath = "losses.csv"', table.format(name))
        )
        assert (
            hedgerow("run", "study.toml", "--plugin", "replay.py", "--out", f"runs/{name}").code
            == 0
        )
        first = read_record(tmp_path / "runs" / name).algorithms[0]
        assert (first.runs, first.data, first.losses) == (
            runs,
            "recorded" if runs > 1 else "drawn",
            None,
        )
        hedgerow("statement", f"runs/{name}", "--algorithm", "pure")
        page = (tmp_path / "runs" / name / "statement" / "pure" / "statement.md").read_text()
        assert ("also ran 'approximate' on the same data" in page) == (runs > 1)
    assert not MovieLensGenres().traits.fresh
    assert hr.Realizable().traits.fresh


# a learner tells what it is


def test_a_learner_tells_what_it_is() -> None:
    learner = _private(hr.SparseVector(epsilon=0.5))
    assert learner.certificate is learner.algorithm.certificate
    assert repr(learner).startswith("<Learner of SparseVector(epsilon=0.5")
    assert repr(learner).endswith("clients=3, experts=4, horizon=20, SecureNoise, after round 0>")


def test_a_learner_names_the_shape_it_was_given() -> None:
    learner = hr.Learner(hr.FollowTheLeader(), clients=2, experts=3, horizon=5)
    learner.predict()
    with pytest.raises(
        InvalidValue,
        match=re.escape("Expected losses of shape (2, 3), (clients, experts), got (3, 2)."),
    ):
        learner.observe(np.zeros((3, 2)))
    learner.observe(np.zeros((2, 3)))


def test_the_way_to_a_secure_source_is_named(tmp_path: Path) -> None:
    seeded: Any = SeededNoise(0)
    with pytest.raises(
        InvalidValue,
        match=re.escape("got SeededNoise. Pass source=hedgerow.SecureNoise()."),
    ):
        hr.Learner.private(hr.SparseVector(), clients=2, experts=3, horizon=5, source=seeded)
    with pytest.raises(
        InvalidValue,
        match=re.escape("Make the learner with Learner.private(..., source=SecureNoise())"),
    ):
        record_deployment(
            hr.Learner(hr.SparseVector(), clients=2, experts=3, horizon=5),
            tmp_path / "live",
            title="Live",
        )


def test_the_certificate_of_a_learner_can_be_seen_beforehand(hedgerow: Command) -> None:
    assert hr.SecureNoise is SecureNoise
    said = hedgerow("certify", "sparse_vector", "--secure", "--json").document()
    assert "ENTROPY" in said["guarantees"][1]["assumes"]
    assert "IDEAL_REALS" not in said["guarantees"][1]["assumes"]
    assert (
        "IDEAL_REALS"
        in hedgerow("certify", "sparse_vector", "--json").document()["guarantees"][1]["assumes"]
    )
    refused = hedgerow("certify", "hedge", "--secure")
    assert (refused.code, "protects nobody" in refused.err) == (2, True)


def test_the_example_asks_for_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["deployment.py"])
    with pytest.raises(
        SystemExit, match=r"Name a new folder: python examples/deployment\.py FOLDER"
    ):
        runpy.run_path(str(EXAMPLES / "deployment.py"))


def test_the_docs_deploy_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = (
        part
        for part in re.findall(
            r"```python\n(.*?)```", (ROOT / "docs" / "deploy.md").read_text(), re.S
        )
        if "record_deployment" in part
    )
    exec(code, {})
    assert read_record(tmp_path / "live").noise.secure


def test_ctrl_c_while_commands_are_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def interrupted(name: str, *rest: Any, **more: Any) -> Any:
        if name == "hedgerow.cli.app":
            raise KeyboardInterrupt
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as stop:
        main()
    assert (stop.value.code, capsys.readouterr().err) == (
        130,
        "Interrupted. Nothing was written.\n",
    )


@pytest.mark.parametrize(
    "wrap",
    [
        lambda e: e,
        lambda e: Absent(of=e),
        lambda e: Sleeping(of=e),
        lambda e: Delayed(of=Absent(of=e)),
    ],
)
def test_seeds_on_a_recording_are_runs_on_the_same_data_however_it_is_wrapped(wrap: Any) -> None:
    recorded = RecordedArray(np.random.default_rng(0).random((30, 2, 3)))
    assert not wrap(recorded).traits.fresh
    assert wrap(Bernoulli(clients=2, experts=3, horizon=30)).traits.fresh
    assert not MovieLensGenres().traits.fresh
