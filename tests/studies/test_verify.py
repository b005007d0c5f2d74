"""What was edited is found: certificates against the recorded choices, files against their digest."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import hedgerow as hr
from hedgerow.algorithms.learning.plan import Plan
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.family_text import family_of
from hedgerow.core.setting import Setting
from hedgerow.engines.learner import private_algorithm
from hedgerow.records.build import algorithm_record, choices_of
from hedgerow.records.plain import first_difference
from hedgerow.records.schema import STAMP, AlgorithmRecord, read_record, record_to_json
from hedgerow.studies import rebuild
from hedgerow.studies.config import load_study
from hedgerow.studies.rebuild import check_certificates
from hedgerow.studies.run import run_study
from hedgerow.studies.storage.digest import write_digest
from hedgerow.studies.storage.folder import write_study
from hedgerow.studies.storage.keys import signed_by
from hedgerow.studies.study import Study
from support.command import STUDY, Command
from support.paths import EXAMPLES


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, not to be changed."""
    folder = tmp_path_factory.mktemp("verify")
    (folder / "study.toml").write_text(STUDY)
    (folder / "results").mkdir()
    write_study(
        run_study(load_study(folder / "study.toml"), workers=1), folder / "results", Path("results")
    )
    return folder / "results"


@pytest.fixture
def made(hedgerow: Command, results: Path, tmp_path: Path) -> Command:
    """The command beside a copy of the run, `results`."""
    shutil.copytree(results, tmp_path / "results")
    return hedgerow


def _edit(folder: Path, change: Callable[[Any], object], file: str = "privacy.json") -> None:
    table = json.loads((folder / file).read_text())
    change(table)
    (folder / file).write_text(json.dumps(table))


def _claim_less(table: Any) -> None:
    for guarantee in table["algorithms"][0]["guarantees"]:
        if guarantee["curve"] is not None:
            guarantee["curve"]["epsilon"] = 0.01


def test_a_statement_of_an_edited_certificate_is_refused_by_name(
    made: Command, tmp_path: Path
) -> None:
    _edit(tmp_path / "results", _claim_less)
    answer = made("statement", "results")
    assert answer.code == 2
    assert "curve.epsilon is 0.01, but the recorded choices give 5.0" in answer.err
    assert "'private'" in answer.err
    assert "The file was changed. Run it again." in answer.err
    assert not (tmp_path / "results" / "statement").exists()


EDITS: dict[str, tuple[Callable[[Any], object], str]] = {
    "fewer runs": (lambda t: t["algorithms"][0].update(runs=7), "runs is 7"),
    "other choices": (
        lambda t: t["algorithms"][0]["choices"].update(epsilon=0.1),
        "choices.epsilon is 0.1, but the recorded choices give 5.0",
    ),
    "an assumption less": (
        lambda t: next(
            g["assumes"] for g in t["algorithms"][0]["guarantees"] if g["assumes"]
        ).popitem(),
        "is missing, but",
    ),
    "an observer less": (lambda t: t["algorithms"][0]["guarantees"].pop(), "is missing, but"),
    "another proof": (
        lambda t: t["algorithms"][0]["guarantees"][0].update(proof="none.md"),
        "proof is none.md",
    ),
    "more clients": (
        lambda t: t["algorithms"][0]["setting"].update(clients=200),
        "setting.clients is 200, but the recorded choices give 2",
    ),
    "another label": (lambda t: t["algorithms"][0].update(label="mine"), "has the algorithms mine"),
}


@pytest.mark.parametrize("case", list(EDITS))
def test_every_part_of_a_certificate_is_compared(results: Path, tmp_path: Path, case: str) -> None:
    change, reason = EDITS[case]
    shutil.copytree(results, tmp_path / "results")
    _edit(tmp_path / "results", change)
    with pytest.raises(InvalidValue, match=reason):
        check_certificates(read_record(tmp_path / "results"), tmp_path / "results")


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else None
    )
    if items is None:
        return [path]
    return [leaf for key, item in items for leaf in _leaves(item, (*path, key))]


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.long)])
def test_no_number_or_word_of_a_certificate_can_change_unseen(results: Path, step: int) -> None:
    """Every leaf of the record, or every ninth, is changed, one at a time."""
    record = read_record(results).algorithms[0]
    whole = TypeAdapter(AlgorithmRecord)
    again = rebuild._compared(record)
    checked = 0
    for path in _leaves(record_to_json(record))[::step]:
        table = json.loads(json.dumps(record_to_json(record)))
        place = table
        for key in path[:-1]:
            place = place[key]
        old = place[path[-1]]
        if path[0] == "data" or old is None or isinstance(old, bool | list | dict):
            continue
        place[path[-1]] = f"{old}!" if isinstance(old, str) else old + 1
        try:
            edited = whole.validate_python(table)
        except (HedgerowError, ValueError):
            continue  # refused when it is read
        assert first_difference(rebuild._compared(edited), again), path
        checked += 1
    assert checked > 200 / step


def _deployable(name: str) -> bool:
    try:
        private_algorithm(ALGORITHMS[name](), Setting(3, 4, 60))
    except HedgerowError:
        return False
    return True


@pytest.mark.parametrize(
    "names",
    [("sparse_vector", "phased_selection"), pytest.param(None, marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_the_record_of_a_deployable_algorithm_is_rebuilt(names: tuple[str, ...] | None) -> None:
    for name in names or [name for name in ALGORITHMS if _deployable(name)]:
        spec = ALGORITHMS[name]()
        built = private_algorithm(spec, Setting(3, 4, 60))
        recorded = algorithm_record(name, built, {"name": name, **choices_of(spec)}, "real")
        read = TypeAdapter(AlgorithmRecord).validate_json(json.dumps(record_to_json(recorded)))
        again = rebuild._deployed(read)
        assert first_difference(rebuild._compared(read), rebuild._compared(again)) is None


def rough(params: Any, pair: Any) -> Any:
    return (params["slope"] @ pair[0] - pair[1]) ** 2


def declared() -> hr.Model:
    known: dict[str, Any] = {
        "steepest": 2.0,
        "smooth": 3.0,
        "convex": True,
        "radius": 5.0,
        "largest": 9.0,
    }
    return hr.Model(rough, {"slope": [0.0, 0.0]}, features=(2,), **known)


@pytest.mark.parametrize(
    ("spec", "family", "edit"),
    [
        (hr.OnlineSGD(average=0.9), lambda: hr.Batch(hr.Logistic(), 5), ("size=5", "size=4")),
        (
            hr.OnlineSGD(plan=Plan("convex", local_step=0.1)),
            lambda: hr.Batch(declared(), 3),
            ("smooth=3.0", "smooth=2.9"),
        ),
        (
            hr.OnlineSGD(clip=0.5),
            lambda: hr.convolutional((), (), image=(1, 1), classes=2),
            ("classes=2", "classes=3"),
        ),
    ],
    ids=["logistic", "declared", "network"],
)
def test_a_trained_model_gets_a_statement(
    spec: Any, family: Any, edit: tuple[str, str], hedgerow: Command, tmp_path: Path
) -> None:
    own = family()
    experts = getattr(getattr(own, "of", own), "weights", 2)
    learner = hr.Learner.private(
        spec, clients=5, experts=experts, horizon=20, family=own, source=hr.SecureNoise()
    )
    hr.record_deployment(learner, tmp_path / "trained", title="Our model")
    assert hedgerow("statement", "trained").code == 0
    file = tmp_path / "trained" / "privacy.json"
    text = file.read_text()
    assert edit[0] in text
    file.write_text(text.replace(*edit))
    write_digest(file.parent)
    assert "is not the certificate" in hedgerow("statement", "trained").err


def _deployed(folder: Path) -> Path:
    learner = hr.Learner.private(
        hr.WalkLeader(), clients=3, experts=4, family=hr.Gains(0.0, 2.0), source=hr.SecureNoise()
    )
    return hr.record_deployment(learner, folder, title="Ward 3")


def test_the_certificate_of_a_deployment_is_rebuilt_too(hedgerow: Command, tmp_path: Path) -> None:
    folder = _deployed(tmp_path / "live")
    assert hedgerow("verify", "live").out.startswith("ok: live, not signed")
    _edit(folder, lambda t: t["algorithms"][0]["mechanisms"][0].update(scale=1000.0))
    answer = hedgerow("statement", "live")
    assert answer.code == 2
    assert "scale is 1000.0, but the recorded choices give" in answer.err


def test_families_are_read_without_running_anything() -> None:
    logistic = hr.Batch(hr.Logistic(radius=20.0), 5)
    for family in (hr.Gains(-1.0, 3.0), hr.SquaredError(), logistic, hr.CrossEntropy(0.5)):
        assert family_of(repr(family)) == family
    text = repr(hr.Batch(hr.convolutional((), (4,), image=(2, 2), classes=2), 5))
    assert repr(family_of(text, hr.Model.stand_in)) == text
    with pytest.raises(InvalidValue, match="not a family of this package"):
        family_of(text)  # its loss is not there: nobody may train it
    with pytest.raises(InvalidValue, match="Cannot rebuild the loss family"):
        family_of(f"Model(x, weights={10**14}, features=(1,))", hr.Model.stand_in)  # has no room
    for text in ("print('x')", "Gains(low=print('x'))", "__import__('os')", "Gains(", "1", "x.y()"):
        with pytest.raises(InvalidValue, match="family"):
            family_of(text)


# The digest of the folder


def test_a_run_verifies_until_a_file_changes(made: Command, tmp_path: Path) -> None:
    answer = made("verify", "results")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("ok: results, not signed: shows accidental changes only")
    assert made("statement", "results").code == 0  # adds RUN/statement
    assert made("verify", "results").code == 0
    with (tmp_path / "results" / "curves.parquet").open("ab") as file:
        file.write(b"\0")
    (tmp_path / "results" / "regret.png").unlink()
    (tmp_path / "results" / "more.txt").write_text("")
    answer = made("verify", "results")
    assert answer.code == 1
    for line in (
        "differs: curves.parquet has changed",
        "differs: regret.png is missing",
        "differs: more.txt was added",
        "not ok: results",
    ):
        assert line in answer.out
    refused = made("statement", "results")
    assert refused.code == 2
    assert "results is not as it was written: curves.parquet has changed" in refused.err
    document = made("verify", "results", "--json").document()
    assert (document["ok"], len(document["differences"])) == (False, 3)


def _key(folder: Path, name: str) -> tuple[Path, Path]:
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def test_a_signature_says_who_wrote_a_run(
    made: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, public = _key(tmp_path, "mine")
    forger, other = _key(tmp_path, "forger")
    assert made("verify", "results", "--key", str(public)).code == 1  # not signed
    assert made("verify", "results", "--sign", str(mine), "--key", str(public)).code == 0
    assert "give --key to check who that is" in made("verify", "results").out
    answer = made("verify", "results", "--key", str(public))
    assert answer.out.startswith("ok: results, signed by the given key")
    assert made("verify", "results", "--key", str(other)).code == 1
    # nobody's signature is replaced, and none is made that is not the expected one
    for arguments, reason in (
        (("--sign", str(forger)), "is signed by another key"),
        (("--sign", str(forger), "--key", str(other)), "is signed by another key"),
        (("--sign", str(mine), "--key", str(other)), "is not the private key of"),
    ):
        refused = made("verify", "results", *arguments)
        assert refused.code == 2
        assert reason in refused.err
    assert made("verify", "results", "--sign", str(mine), "--key", str(public)).code == 0
    # an edited file with a new digest: the signature is that of another
    _edit(tmp_path / "results", lambda t: t.update(title="Edited"))
    refused = made("verify", "results", "--sign", str(forger))
    assert refused.code == 2
    assert "privacy.json has changed" in refused.err
    monkeypatch.setenv("HEDGEROW_KEY", str(forger))
    write_digest(tmp_path / "results")
    assert made("verify", "results").code == 0
    answer = made("verify", "results", "--key", str(public))
    assert answer.code == 1
    assert "signed by another key" in answer.out
    # a signature of other files
    _edit(tmp_path / "results", lambda t: t.update(signature={"public_key": "00", "signature": ""}), "digest.json")  # fmt: skip
    assert "differs: the signature is wrong" in made("verify", "results").out


def test_a_weak_public_key_signs_nothing() -> None:
    """For the neutral point this signature fits every text, and nobody needed a private key."""
    point = bytes([1, *bytes(31)])
    assert not signed_by(point.hex(), point + bytes(32), b"any text")
    for key, signature in (("", b""), ("zz" * 32, bytes(64)), (point.hex(), bytes(63))):
        assert not signed_by(key, signature, b"any text")


FORGERIES: dict[str, Callable[[Path], Any]] = {
    "a smaller epsilon on the page": lambda to: _replace(to / "statement.md", "epsilon", "tiny"),
    "a smaller epsilon in HTML": lambda to: _replace(to / "statement.html", "epsilon", "tiny"),
    "another number in JSON": lambda to: _replace(
        to / "statement.json", '"horizon": ', '"rounds": '
    ),
    "a stamp that is gone": lambda to: _replace(to / "statement.json", STAMP, ""),
    "another record": lambda to: _replace(to / "registry.yaml", "epsilon", "tiny"),
    "a page that is gone": lambda to: (to / "statement.html").unlink(),
    "one more file": lambda to: (to / "more.html").write_text("epsilon = 0"),
    "another algorithm": lambda to: to.rename(to.with_name("better")),
    "no JSON": lambda to: (to / "statement.json").write_text("{}"),
    "another signer": lambda to: _replace(to / "statement.json", '"signer": null', '"signer": "a"'),
    "a link": lambda to: (shutil.rmtree(to), to.symlink_to(to.parent.parent)),
    "somebody else's page beside it": lambda to: (to.parent / "index.html").write_text("ok"),
}


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_forged_statement_in_a_signed_run_is_found(made: Command, tmp_path: Path) -> None:
    mine, public = _key(tmp_path, "mine")
    (tmp_path / "details.toml").write_text(
        'name = "Ours"\nrecords_per_client = 2\nexpires = 2999-01-01\n'
        'sign_offs = [{role = "officer", name = "A"}]\n'
    )
    assert made("statement", "results", "--details", "details.toml").code == 0
    assert made("verify", "results", "--sign", str(mine)).code == 0
    signed = (tmp_path / "results").rename(tmp_path / "signed")
    for forgery, forge in FORGERIES.items():
        results = shutil.copytree(signed, tmp_path / "results")
        forge(results / "statement" / "private")
        answer = made("verify", "results", "--key", str(public))
        assert (answer.code, "differs: statement/" in answer.out) == (1, True), forgery
        assert answer.out.splitlines()[-2].startswith("not ok: results"), forgery
        shutil.rmtree(results)
    signed.rename(tmp_path / "results")  # nothing else makes it fail
    assert made("verify", "results", "--key", str(public)).code == 0


def test_a_statement_of_an_audited_signed_run_verifies(made: Command, tmp_path: Path) -> None:
    """Written before or after the run was signed, with or without the expected key."""
    mine, public = _key(tmp_path, "mine")
    assert made("verify", "results", "--sign", str(mine)).code == 0
    for arguments in ((), ("--key", str(public)), ("--audit",)):
        assert made("statement", "results", *arguments).code == 0
        answer = made("verify", "results", "--key", str(public))
        assert (answer.code, "The statements follow from this run" in answer.out) == (0, True)


def test_a_statement_says_who_signed_and_can_demand_it(made: Command, tmp_path: Path) -> None:
    mine, public = _key(tmp_path, "mine")
    _, other = _key(tmp_path, "other")
    results = tmp_path / "results"
    page = results / "statement" / "private" / "statement.md"
    assert "results: not signed: anyone could have written it" in made("statement", "results").out
    assert "not signed: anyone" in page.read_text()
    covered = made("verify", "results").out
    assert "The statements follow from this run. Their date, details and audit are as" in covered
    refused = made("statement", "results", "--key", str(public))
    assert (refused.code, "not signed: a signature was expected" in refused.err) == (2, True)
    write_digest(results, mine)
    signed = made("statement", "results", "--key", str(public))
    assert (signed.code, "the expected key" in signed.out) == (0, True)
    assert ", the expected key. Budget ledger" in page.read_text()
    assert "not compared with a known key" in made("statement", "results").out
    assert json.loads(page.with_suffix(".json").read_text())["run"]["signer"] in signed.out
    assert made("statement", "results", "--key", str(other)).code == 2
    (results / "digest.json").unlink()
    assert "has no digest.json" in made("statement", "results", "--key", str(public)).err
    refused = made("statement", "results")  # else parts of two runs could be put together
    assert (refused.code, "has no digest.json, so nobody can see" in refused.err) == (2, True)


def test_keys_of_another_kind_are_named(made: Command, tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("no key")
    for arguments, reason in (
        (("--sign", "text.pem"), "text.pem is not a key in PEM format"),
        (("--key", "absent.pem"), "Cannot read the key absent.pem: No such file"),
        (("--key", "text.pem"), "text.pem is not a key in PEM format"),
    ):
        answer = made("verify", "results", *arguments)
        assert answer.code == 2
        assert reason in answer.err
    (tmp_path / "results" / "digest.json").write_text("[" * 10**5)
    assert "Cannot read results/digest.json" in made("verify", "results").err
    (tmp_path / "results" / "digest.json").unlink()
    assert "results has no digest.json" in made("verify", "results").err


def test_what_other_code_wrote_is_said(results: Path) -> None:
    record = read_record(results)
    older = replace(record, code=replace(record.code, sha256="0" * 64))
    assert rebuild._advice(older) == "Other code wrote the run: use that version, or run it again."
    check_certificates(older, results)


def test_links_are_never_covered_by_a_digest(made: Command, tmp_path: Path) -> None:
    """What a link points to may change after the run was signed."""
    file = tmp_path / "results" / "privacy.json"
    file.rename(tmp_path / "outside.json")
    file.symlink_to(tmp_path / "outside.json")
    answer = made("verify", "results")
    assert answer.code == 1
    assert "privacy.json is a link" in answer.out
    assert made("statement", "results").code == 2
    with pytest.raises(InvalidValue, match="is a link"):
        write_digest(tmp_path / "results")


def test_a_digest_that_is_a_link_is_no_digest(made: Command, tmp_path: Path) -> None:
    file = tmp_path / "results" / "digest.json"
    file.rename(tmp_path / "outside.json")
    file.symlink_to(tmp_path / "outside.json")
    answer = made("verify", "results")
    assert (answer.code, "digest.json is a link" in answer.out) == (1, True)
    assert made("statement", "results").code == 2


RECORDED = """
title = "Recorded"
seeds = 3
[environment]
name = "recorded"
path = "losses.csv"
[[algorithms]]
name = "uniform"
"""


def _one_seed(folder: Path) -> None:
    """Say that one run was made on these data instead of three."""
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("seeds = 3", "seeds = 1"))

    def once(table: Any) -> None:
        table["algorithms"][0]["runs"] = 1
        for guarantee in table["algorithms"][0]["guarantees"]:
            guarantee["total"] = None

    _edit(folder, once)


def _other_losses(folder: Path) -> None:
    _edit(folder, lambda t: t["algorithms"][0].update(losses="0" * 64))


def _other_losses_everywhere(folder: Path) -> None:
    _other_losses(folder)
    _edit(folder, lambda t: t["losses"].update(uniform="0" * 64), "summary.json")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on recorded losses, whose seeds and data count."""
    folder = tmp_path_factory.mktemp("recorded")
    shutil.copy(EXAMPLES / "recorded_losses.csv", folder / "losses.csv")
    (folder / "study.toml").write_text(RECORDED)
    (folder / "run").mkdir()
    write_study(
        run_study(load_study(folder / "study.toml"), workers=1), folder / "run", Path("run")
    )
    return folder / "run"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_one_seed, "has 3 seeds of 'uniform', but config.toml has 1"),
        (_other_losses, "privacy.json and summary.json name other losses of 'uniform'"),
        (_other_losses_everywhere, "losses is 0+, but the recorded choices give"),
        (lambda f: _edit(f, lambda t: t["algorithms"][0].update(losses=None)), "losses is None"),
        (lambda f: _edit(f, lambda t: t["noise"].update(words="entropy")), "noise was 'entropy'"),
        (lambda f: (f / "results.parquet").unlink(), "Cannot read the run folder"),
    ],
)
def test_seeds_and_losses_agree_with_the_results(
    recorded: Path, tmp_path: Path, change: Callable[[Path], object], reason: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(recorded, folder)
    check_certificates(read_record(folder), folder)
    change(folder)
    with pytest.raises(InvalidValue, match=reason):
        check_certificates(read_record(folder), folder)


def test_an_algorithm_cannot_be_left_out_of_the_record(made: Command, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    _edit(folder, lambda table: table["algorithms"].pop())
    (folder / "digest.json").unlink()
    write_digest(folder)
    refused = made("statement", "results")
    assert refused.code == 2
    assert "but config.toml has" in refused.err


GAPS = """
title = "Gaps"
seeds = 2
alone = true
[environment]
name = "forecasts"
path = "stations.csv"
round = "date"
client = "station"
target = "measured"
largest_error = 50.0
missing = "absent"
[[algorithms]]
name = "phased_selection"
[[algorithms]]
name = "hedge"
"""


def test_a_run_with_gaps_is_checked_where_the_data_are_not(
    hedgerow: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who signs has the run folder, and not the losses."""
    monkeypatch.setattr(Study, "plot", lambda _, path: Path(path).write_bytes(b""))
    shutil.copy(EXAMPLES / "stations.csv", tmp_path / "stations.csv")
    (tmp_path / "study.toml").write_text(GAPS)
    (tmp_path / "run").mkdir()
    write_study(
        run_study(load_study(tmp_path / "study.toml"), workers=1), tmp_path / "run", Path("run")
    )
    assert "The data are not here" not in hedgerow("verify", "run").out
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "stations.csv").rename(tmp_path / "elsewhere" / "stations.csv")
    answer = hedgerow("verify", "run")
    assert (answer.code, "The data are not here" in answer.out) == (0, True), answer.out
    shutil.copytree(tmp_path / "run", tmp_path / "received")
    stated = hedgerow("statement", "received")
    assert (stated.code, "hedgerow statement received --audit" in stated.out) == (0, True)
    missing = hedgerow("run", "run/config.toml", "--set", "seeds=1", "--out", "again")
    assert "--data DIR" in missing.err
    found = hedgerow(
        *("run", "run/config.toml", "--set", "seeds=1", "--out", "again", "--data", "elsewhere")
    )
    assert found.code == 0, found.err
    assert str(tmp_path / "elsewhere") in (tmp_path / "again" / "config.toml").read_text()
    _edit(tmp_path / "run", _claim_less)
    refused = hedgerow("statement", "run")
    assert (refused.code, "the recorded choices give" in refused.err) == (2, True)
