"""Records: what a guarantee becomes on disk, what a record refuses to say, and the way from a file
back.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core import registry
from hedgerow.core.certificate import IDEAL_REALS, Guarantee, NoGuarantee, Observer, Proof
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import SeededNoise
from hedgerow.core.units import Event
from hedgerow.environments.drawn.realizable import Realizable
from hedgerow.privacy.curves import PureDP
from hedgerow.privacy.secure import SecureNoise
from hedgerow.records import provenance
from hedgerow.records.build import guarantee_record
from hedgerow.records.provenance import hash_of, library_versions, secure_noise
from hedgerow.records.schema import FILE, AlgorithmRecord, RunRecord, read_record, record_to_json
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from hedgerow.studies.storage.folder import study_record
from hedgerow.studies.study import Study


@pytest.fixture(scope="module")
def study() -> Study:
    entries = (
        Entry("pure", SparseVector(epsilon=0.5)),
        Entry("approximate", SparseVector(delta=1e-5)),
    )
    return run_study(
        StudyConfig("Two ways", Realizable(clients=3, experts=4, horizon=30), entries, seeds=1),
        workers=1,
    )


@pytest.fixture(scope="module")
def record(study: Study) -> RunRecord:
    return study_record(study, Path("results"))


def _guarantee(curve: Any, **more: Any) -> Guarantee:
    return Guarantee(Observer.PUBLIC, frozenset(), Event(), "replace one record", curve, **more)


def test_a_guarantee_as_plain_values(record: RunRecord) -> None:
    made = guarantee_record(
        _guarantee(PureDP(0.75), proof=Proof("a.md", "b"), assumes=frozenset({IDEAL_REALS}))
    )
    assert made.curve is not None
    assert (made.curve.epsilon, made.curve.delta, made.proof, made.reason) == (
        0.75,
        0.0,
        "proofs/a.md#b",
        None,
    )
    assert made.assumes == {"IDEAL_REALS": IDEAL_REALS.meaning}
    json.dumps(record_to_json(replace(record.algorithms[0], guarantees=[made])), allow_nan=False)


@pytest.mark.parametrize("curve", [NoGuarantee("raw data"), PureDP(np.inf)])
def test_no_finite_epsilon_is_null_with_a_reason(record: RunRecord, curve: Any) -> None:
    made = guarantee_record(_guarantee(curve))
    assert made.curve is None
    assert made.reason
    json.dumps(record_to_json(replace(record.algorithms[0], guarantees=[made])), allow_nan=False)


def test_only_secure_noise_takes_the_stamp_away(record: RunRecord) -> None:
    with pytest.raises(InvalidValue, match="Expected the stamp"):
        replace(record, stamp=None)
    with pytest.raises(
        InvalidValue, match="Expected secure=True to agree with the source 'seeded'"
    ):
        replace(record.noise, secure=True)
    with pytest.raises(InvalidValue, match="Expected secure noise only for real data"):
        replace(record, stamp=None, noise=secure_noise(SecureNoise()))
    with pytest.raises(InvalidValue, match="Expected SecureNoise for real data, got SeededNoise"):
        secure_noise(SeededNoise(0))


def test_the_code_hash_follows_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    hashes = [hash_of(tmp_path)]
    (tmp_path / "a.py").write_text("y")
    hashes.append(hash_of(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    hashes.append(hash_of(tmp_path))
    assert len({sha256 for sha256, _ in hashes}) == 3
    assert {files for _, files in hashes} == {1}


def test_versions_list_every_library_that_results_depend_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "_libraries", [])
    monkeypatch.setattr(registry, "_loaded", [])
    monkeypatch.setattr(provenance, "OPTIONAL", ("no_such_library",))
    assert not {"jax", "no_such_library", "pytest"} & set(library_versions())
    monkeypatch.setattr(provenance, "OPTIONAL", ("hypothesis",))  # installed, imported or not
    before = library_versions()
    assert {"python", "hedgerow", "numpy", "scipy", "hypothesis"} <= set(before)
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from hedgerow.core.registry import depends_on\ndepends_on('pytest', 'numpy')\n"
    )
    registry.load_plugin(str(plugin))
    after = library_versions()
    assert list(after) == [*before, "pytest"]
    assert after["pytest"] == pytest.__version__
    assert {name: after[name] for name in before} == before


def test_a_record_survives_its_file(record: RunRecord, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps(record_to_json(record), allow_nan=False))
    assert read_record(tmp_path) == record


@pytest.mark.parametrize(
    "version", ["hedgerow privacy record 4", "hedgerow privacy record 99", None]
)
def test_records_of_other_versions_are_refused_by_name(
    record: RunRecord, tmp_path: Path, version: str | None
) -> None:
    (tmp_path / FILE).write_text(json.dumps({**record_to_json(record), "format": version}))
    with pytest.raises(
        InvalidValue, match=f"Expected format={version!r} in .* to be 'hedgerow privacy record 5'"
    ):
        read_record(tmp_path)


def test_an_algorithm_is_recorded_once_for_its_label(study: Study, record: RunRecord) -> None:
    found: dict[str, AlgorithmRecord] = {
        algorithm.label: algorithm for algorithm in record.algorithms
    }
    for label, algorithm in study.algorithms.items():
        for shown, guarantee in zip(
            found[label].guarantees, algorithm.certificate.guarantees, strict=True
        ):
            assert shown == guarantee_record(guarantee)
