"""What the documents say is true: anchors exist, README outputs are current, examples run, the
architecture names real files.
"""

from __future__ import annotations

import doctest
import json
import re
import runpy
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow
from hedgerow.algorithms.registry import ALGORITHMS, variants
from hedgerow.core.registry import EXPERIMENTS, Registry, load_plugin
from hedgerow.core.setting import Setting
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.proofs import anchor_of
from hedgerow.studies.config import load_study
from hedgerow.studies.run import run_study
from hedgerow.version import __version__
from hedgerow_papers.experiments.experiment import Check
from hedgerow_papers.experiments.reproduce import reproduce
from hedgerow_papers.stored import FOLDER, stored
from support.made_up import made_up
from support.paths import EXAMPLES, PLUGINS, PROOFS, ROOT
from support.settings import setting_for

SOURCES = [file for part in (ROOT / "src", *PLUGINS) for file in part.rglob("*.py")]


def anchors(file: Path) -> set[str]:
    """Heading anchors as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {anchor_of(heading) for heading in headings}


@pytest.mark.parametrize("name", variants())
def test_every_cited_proof_exists(name: str) -> None:
    spec = variants()[name]
    algorithm = spec.build(setting_for(spec, 3, 4, 20))
    proofs = [guarantee.proof for guarantee in algorithm.certificate.guarantees]
    proofs += [] if algorithm.claims.regret_bound is None else [algorithm.claims.regret_bound.proof]
    for proof in proofs:
        if proof is not None:
            assert proof.anchor in anchors(PROOFS[proof.file]), f"{proof.words()} does not exist"


def test_proofs_named_in_docstrings_exist() -> None:
    cited = set()
    for source in SOURCES:
        cited |= set(re.findall(r"proofs/(\w+\.md)#([\w-]+)", source.read_text(encoding="utf-8")))
    assert cited
    for file, anchor in cited:
        assert anchor in anchors(PROOFS[file]), f"proofs/{file}#{anchor}"


def test_links_in_proofs_and_readme_resolve() -> None:
    for document in (*ROOT.glob("*.md"), *PROOFS.values()):
        for target in re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
            path, _, anchor = target.partition("#")
            file = document if not path else document.parent / path
            assert file.exists(), f"{document.name} links to {target}"
            if anchor:
                assert anchor in anchors(file), f"{document.name} links to {target}"


@pytest.mark.parametrize("proof", PROOFS.values(), ids=lambda proof: proof.name)
def test_symbols_in_proofs_are_names_in_the_code(proof: Path) -> None:
    """Every identifier in backticks in a table under the word Symbols occurs in the source."""
    _, _, listed = proof.read_text(encoding="utf-8").partition("\n## Symbols\n")
    source = "\n".join(file.read_text(encoding="utf-8") for file in SOURCES)
    known = set(re.findall(r"[A-Za-z_]\w*", source))
    rows = [line for line in listed.splitlines() if line.startswith("|")]
    named = {
        word
        for row in rows
        for name in re.findall(r"`([^`]+)`", row)
        for word in re.findall(r"[A-Za-z_]\w*", name)
    }
    assert named or proof.name in ("mechanisms.md", "odometer.md"), "no table of symbols"
    assert named <= known, f"{proof.name} names {sorted(named - known)}"


@pytest.mark.parametrize("proof", PROOFS.values(), ids=lambda proof: proof.name)
def test_proofs_can_be_read_in_a_terminal(proof: Path) -> None:
    lines = proof.read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 130] == []


def test_the_answer_that_readme_leads_with_is_in_its_table() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- run:example -->(.*?)<!-- end", text, re.DOTALL)
    rows = re.findall(r"^(private|plain average|alone, not private) +([\d.]+)", table, re.MULTILINE)
    said = re.findall(r"([\d.]+) %", text.split("\n\n")[1])
    assert said == [dict(rows)[way] for way in ("private", "plain average", "alone, not private")]


@pytest.mark.parametrize("name", ["README.md", "src/hedgerow/__init__.pyi"])
def test_what_is_printed_is_current(name: str) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "documents.py"))
    text = (ROOT / name).read_text(encoding="utf-8")
    assert tool["filled"](text, ROOT / name) == text, "run `make documents`"


def test_a_registered_algorithm_is_listed_without_another_line() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "documents.py"))
    text = tool["STUB"].read_text(encoding="utf-8")
    without = "".join(line for line in text.splitlines(True) if "random_prefix" not in line)
    assert without != text
    assert tool["stub"](without) == text


@pytest.mark.parametrize("name", ["gao2024-figure2", "near-realizable"])
def test_a_stored_run_has_the_checks_of_the_experiment(name: str) -> None:
    """A run from before a change of the experiment would show checks that are no longer made."""
    row = stored()["experiments"][name]
    studies = EXPERIMENTS[name].studies(False)
    now = EXPERIMENTS[name].judge({key: made_up(c, lambda *_: 1.0) for key, c in studies.items()})
    assert [check["name"] for check in row["checks"]] == [check.name for check in now.checks]


def test_an_experiment_is_stored_once_or_the_page_says_why_not() -> None:
    files = [json.loads(file.read_text()) for file in FOLDER.glob("*/results.json")]
    rows = [row["id"] for page in files for row in page["experiments"]]
    reasons = {name: why for page in files for name, why in page["not_stored"].items()}
    assert sorted([*rows, *reasons]) == EXPERIMENTS.installed()
    assert all(reason.endswith(".") for reason in reasons.values())
    assert all(row["version"] for page in files for row in page["experiments"])


def test_stored_runs_pass_by_their_own_numbers() -> None:
    for name, row in stored()["experiments"].items():
        assert row["id"] == name
        checks = [Check(c["name"], c["obtained"], c["op"], c["limit"]) for c in row["checks"]]
        assert [check.passed for check in checks] == [c["passed"] for c in row["checks"]]
        assert row["passed"] == all(check.passed for check in checks) is True


def test_readme_names_real_commands() -> None:
    from hedgerow.cli.app import COMMANDS

    known = set(COMMANDS)
    for document in ("README.md", "docs/commands.md"):
        named = set(
            re.findall(
                r"(?<!import )hedgerow ([a-z]+)", (ROOT / document).read_text(encoding="utf-8")
            )
        )
        assert named - {"as"} <= known, document
    assert named == known  # every command is on its page


def test_commands_page_names_real_options_and_all_variables() -> None:
    from hedgerow.cli.app import load_command
    from hedgerow.deployment.config import ServerOptions

    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    client = load_command("client").commands
    for words, row in re.findall(r"^\| `hedgerow ([^`]+)` \| (.+) \|$", text, re.MULTILINE):
        name, *rest = words.split()
        command = client.pop(rest[0]) if name == "client" else load_command(name)
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", row)) <= known, words
    assert not client, "every command of a client has its row"
    rows = dict(re.findall(r"^\| `(HEDGEROW_\w+_\*)` \| (.+?) \|", text, re.MULTILINE))
    variables = {
        parameter.envvar
        for command in load_command("client").commands.values()
        for parameter in command.params
        if parameter.envvar is not None
    } | {f"HEDGEROW_SERVER_{option.name.upper()}" for option in fields(ServerOptions)}
    named = {
        f"{beginning[:-2]}{end}"
        for beginning, row in rows.items()
        for end in re.findall(r"`(?:HEDGEROW_SERVER|HEDGEROW_CLIENT)?(_\w+)`", row)
    }
    assert named == variables


def test_architecture_names_real_files() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    package = ROOT / "src" / "hedgerow"
    assert {room for room, _ in rows} == {
        p.name for p in package.iterdir() if p.is_dir() and p.name != "__pycache__"
    }
    for room, content in rows:
        for name in re.findall(r"`(\w+)`", content):
            assert (package / room / f"{name}.py").exists() or (package / room / name).is_dir(), (
                f"{room}/{name}"
            )


def test_architecture_names_every_file() -> None:
    """All but registries, and rooms that say which files they have: one for each command."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for room, content in re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE):
        if room not in ("cli", "examples"):
            files = {file.stem for file in (ROOT / "src" / "hedgerow" / room).glob("*.py")}
            missing = files - set(re.findall(r"`(\w+)`", content)) - {"__init__", "registry"}
            assert not missing, f"{room}: {sorted(missing)}"


@pytest.mark.parametrize(
    "family",
    [
        p
        for p in (ROOT / "src" / "hedgerow" / "algorithms").iterdir()
        if (p / "__init__.py").exists()
    ],
    ids=lambda family: family.name,
)
def test_the_readme_of_a_family_names_every_file(family: Path) -> None:
    text = (family / "README.md").read_text(encoding="utf-8")
    missing = [
        f.name for f in family.glob("*.py") if f.stem != "__init__" and f"`{f.name}`" not in text
    ]
    assert not missing


@pytest.mark.parametrize("name", ["study", "recorded", "stations", "plugin", "points"])
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEDGEROW_DATA", str(EXAMPLES))
    load_plugin(str(EXAMPLES / "my_algorithm.py"))
    config = load_study(EXAMPLES / f"{name}.toml", ["seeds=2"])
    study = run_study(config, workers=1)
    assert len(study.results) == 2 * len(config.algorithms)


def test_example_plugin_keeps_the_contracts() -> None:
    from hedgerow.contracts.suite import CONTRACTS, examine

    load_plugin(str(EXAMPLES / "my_algorithm.py"))
    spec = ALGORITHMS["my_algorithm"]()
    assert spec.build(Setting(2, 3, 10)).name == "my_algorithm"
    assert (
        doctest.testmod(sys.modules[type(spec).__module__], optionflags=doctest.ELLIPSIS).failed
        == 0
    )
    outcomes = [examine(name, spec) for name in CONTRACTS if name != "million rounds"]
    assert [o for o in outcomes if o.status == "broken"] == []
    assert sum(o.status == "holds" for o in outcomes) >= 10


@pytest.mark.long
def test_example_plugin_plays_a_million_rounds() -> None:
    from hedgerow.contracts.suite import examine

    load_plugin(str(EXAMPLES / "my_algorithm.py"))
    assert examine("million rounds", ALGORITHMS["my_algorithm"]()).status == "holds"


def test_example_environment_and_experiment(tmp_path: Path) -> None:
    load_plugin(str(EXAMPLES / "my_environment.py"))
    config = load_study(EXAMPLES / "study.toml", ["seeds=2", "environment.name=weekly"])
    assert all(np.isfinite(result.final_regret) for result in run_study(config, workers=1).results)
    load_plugin(str(EXAMPLES / "my_experiment.py"))
    outcome = reproduce(EXPERIMENTS["my-speedup"], quick=True, out=tmp_path / "speedup", workers=1)
    assert outcome.status == "quick"
    assert (tmp_path / "speedup" / "my-speedup.png").stat().st_size > 10_000


def test_algorithms_are_free_of_random_modules() -> None:
    for source in (ROOT / "src" / "hedgerow" / "algorithms").rglob("*.py"):
        assert not re.search(
            r"numpy\.random|np\.random|^import random|^from random",
            source.read_text(encoding="utf-8"),
            re.MULTILINE,
        ), source


def test_algorithms_go_by_their_registered_name() -> None:
    for name, kind in ALGORITHMS.items():
        assert kind().build(setting_for(kind, 3, 4, 20)).name == name


def test_the_package_is_the_one_in_this_checkout() -> None:
    import hedgerow

    assert Path(sys.modules["hedgerow"].__file__ or "").is_relative_to(ROOT), hedgerow.__file__


def test_every_python_block_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert len(blocks) == 2
    assert printed.count("simulation: not private") == 2
    assert (tmp_path / "weights.png").stat().st_size > 10_000


@pytest.mark.parametrize("registry", [ALGORITHMS, ENVIRONMENTS], ids=lambda registry: registry.kind)
def test_every_registered_class_is_in_the_package(registry: Registry[Any]) -> None:
    built_in = {
        name: kind for name, kind in registry.items() if kind.__module__.startswith("hedgerow.")
    }
    missing = [
        name
        for name, kind in built_in.items()
        if getattr(hedgerow, kind.__name__, None) is not kind
    ]
    assert built_in
    assert not missing
    assert {kind.__name__ for kind in built_in.values()} <= set(dir(hedgerow))


def test_the_version_is_the_same_everywhere() -> None:
    citation = ROOT / "CITATION.cff"
    for part in (ROOT, *PLUGINS):
        assert f'\nversion = "{__version__}"\n' in (part / "pyproject.toml").read_text()
    assert f"\nversion: {__version__}\n" in citation.read_text()
