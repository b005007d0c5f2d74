"""The command line: what list, certify and run print, in words and as JSON, and the files a run
leaves.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from math import exp, log
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hedgerow import proofs
from hedgerow.algorithms.registry import ALGORITHMS, variants
from hedgerow.cli.app import COMMANDS, load_command
from hedgerow.core.registry import EXPERIMENTS
from hedgerow.environments.registry import ENVIRONMENTS
from hedgerow.records.schema import AlgorithmRecord
from hedgerow.statement.words.phrases import meanings
from hedgerow.studies.config import load_study, study_from_table
from support.command import Command
from support.settings import setting_for


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(hedgerow: Command, command: str) -> None:
    answer = hedgerow(command, "--help")
    assert "<bool>" not in answer.out, "a switch takes no value"
    assert answer.code == 0
    assert "--json" in answer.out
    assert COMMANDS[command][1] in " ".join(answer.out.split())
    if command not in ("demo", "list", "bench"):
        assert f"Example: hedgerow {command}" in answer.out
    explained = answer.out.split("\u256d")[0].split("Usage:")[1]  # up to the first box
    assert len(re.findall(r"[a-z]{3,}", explained)) > 10


def test_the_front_page_names_every_command_and_exit_code(hedgerow: Command) -> None:
    out = hedgerow("--help").out
    assert all(word in out for word in (*COMMANDS, "130 Ctrl-C"))


def test_no_summary_is_cut_on_a_narrow_terminal() -> None:
    narrow = subprocess.run(
        [sys.executable, "-m", "hedgerow"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
        check=False,
    )
    assert "..." not in narrow.stdout.split("Commands:")[1]


def test_proofs_are_printed_by_name_algorithm_and_citation(hedgerow: Command) -> None:
    listed = hedgerow("proof").out
    assert all(name in listed for name in proofs.names())
    assert hedgerow("proof", "sparse_vector").out.startswith("# Sparse vector")
    section = hedgerow("proof", "proofs/sparse_vector.md#whole-algorithm").out
    assert section.startswith("## Whole algorithm")
    assert "## Setting" not in section
    assert "$" not in section
    assert (
        hedgerow("proof", "shrinking_dartboard", "--raw").out.rstrip()
        == proofs.read("dartboard").rstrip()
    )
    assert hedgerow("proof", "hedge", "--json").document()["text"].startswith("# Hedge")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sparse_vectr", "Unknown proof 'sparse_vectr'; did you mean 'sparse_vector'?"),
        ("hedge.md#regrets", "Unknown section 'regrets' of hedge.md; did you mean 'regret'?"),
        ("follow_the_leader", "follow_the_leader cites no proof because it guarantees nothing."),
    ],
)
def test_a_proof_that_does_not_exist_is_named(hedgerow: Command, name: str, message: str) -> None:
    answer = hedgerow("proof", name)
    assert (answer.code, answer.err) == (2, f"Error: {message}\n")


def test_every_formula_of_every_proof_can_be_printed() -> None:
    for name in proofs.names():
        left = re.findall(r"\\[A-Za-z]+|\$", proofs.in_unicode(proofs.read(name)))
        assert left == [], f"{name}: {left[:5]}"


@pytest.mark.parametrize(
    ("formula", "plain"),
    [
        (r"(1 - u/v)_ + v\ dG'(v)", "(1 - u/v)_+ v dG'(v)"),
        (r"\frac{x}{4K}", "x/(4K)"),
        (r"\frac{1}{2} e^{-\eta x}", "1/2 e^{-η x}"),
        (r"\frac{f}{mj} \mathbb{E}_ P[X]", "f/(mj) E_P[X]"),
        (r"\tilde{C}(\varepsilon) \le \binom{k}{l}", "C\u0303(ε) ≤ C(k, l)"),
        (r"\ln\frac{a + b}{c_1}", "ln(a + b)/c_1"),
    ],
)
def test_a_formula_in_a_terminal_means_what_it_says(formula: str, plain: str) -> None:
    assert proofs.in_unicode(f"${formula}$") == plain


def test_help_is_wrapped_once() -> None:
    for name in COMMANDS:
        help_text = load_command(name).help or ""
        assert all("\n" not in part for part in help_text.split("\n\n")), name


@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_of_the_help_is_taken_for_markup(name: str) -> None:
    """Help texts are printed with markup, which swallows words in brackets such as `server`."""
    command = load_command(name)
    for one in (command, *getattr(command, "commands", {}).values()):
        assert re.findall(r"\[[a-z#/@][^\]]*\]", one.help or "") == []


def test_examples_are_copied_once_and_run(hedgerow: Command, tmp_path: Path) -> None:
    copied = hedgerow("examples", "--json").document()["files"]
    assert {
        "examples/points.toml",
        "examples/study.toml",
        "examples/my_algorithm.py",
        "examples/recorded_losses.csv",
    } <= set(copied)
    assert sorted(f"examples/{file.name}" for file in (tmp_path / "examples").iterdir()) == sorted(
        copied
    )
    assert (
        hedgerow("run", "examples/recorded.toml", "--data", "examples", "--set", "seeds=1").code
        == 0
    )
    again = hedgerow("examples")
    assert (again.code, "examples already exists" in again.err) == (2, True)


def test_list_shows_everything_registered(hedgerow: Command) -> None:
    document = hedgerow("list", "--json", "--plugin", "plugin.py").document()
    assert set(document) == {"algorithms", "environments", "experiments"}
    assert [row["name"] for row in document["algorithms"]] == list(ALGORITHMS)
    assert [row["name"] for row in document["environments"]] == list(ENVIRONMENTS)
    assert {"gao2024-figure2", "good", "needs-data"} <= {
        row["id"] for row in document["experiments"]
    }
    assert all(row["summary"] for rows in document.values() for row in rows)
    able = [row["name"] for row in document["algorithms"] if "absent clients" in row["supports"]]
    assert able == [
        "ada_hedge",
        "asi2023_potential",
        "asi2023_sparse_vector",
        "block_selection",
        "doubling",
        "follow_the_leader",
        "gao2024_fed_svt",
        "hedge",
        "jacobsen2025_walk_batches",
        "jacobsen2025_walk_meta",
        "phased_selection",
        "potential",
        "proven_doubling",
        "proven_potential",
        "proven_sparse_vector",
        "random_prefix",
        "shrinking_dartboard",
        "sparse_vector",
        "uniform",
        "walk_batches",
        "walk_leader",
        "walk_meta",
        "watched_selection",
    ]
    words = hedgerow("list", "algorithms").out
    assert (
        f"algorithms that support sleeping experts, absent clients, late reports: {', '.join(able)}"
        in " ".join(words.split())
    )
    assert all(name in words for name in ("sparse_vector", "epsilon=1.0"))
    claims = hedgerow("list", "experiments").out
    assert "gao2024-figure2" in claims
    assert "sparse_vector" not in claims


def test_the_short_list_names_everything_once_on_one_page(hedgerow: Command) -> None:
    words = hedgerow("list", "--plugin", "plugin.py").out
    kinds = {"algorithms": ALGORITHMS, "environments": ENVIRONMENTS, "experiments": EXPERIMENTS}
    parts = dict(zip(kinds, re.split(r"^(?:\w+)$", words, flags=re.MULTILINE)[1:], strict=True))
    for kind, things in kinds.items():
        found = re.findall(r"[\w-]+", parts[kind])
        assert set(things) <= set(found)
    assert "others: " in parts["experiments"]  # those of the plugin
    assert len(words.splitlines()) < 60


def test_list_describes_one_thing_and_refuses_a_name_that_is_not_there(hedgerow: Command) -> None:
    words = hedgerow("list", "uniform").out  # an algorithm and an environment
    assert "uniform, an algorithm (in Python: Uniform)" in words
    assert "uniform, an environment (in Python: UniformLosses)" in words
    assert "clients=10, experts=100, horizon=512" in words
    assert "    The size of the game" in hedgerow("list", "halving").out  # its parameters
    assert "hedgerow reproduce gao2024-figure2" in hedgerow("list", "gao2024-figure2").out
    (row,) = hedgerow("list", "hedge", "--json").document()["algorithms"]
    assert row["parameters"] == {"every": 1, "rate": None, "early": True, "unit": None}
    refused = hedgerow("list", "halvign")
    assert (refused.code, "did you mean 'halving'" in refused.err) == (2, True)


def test_certify_explains_every_parameter_and_names_only_parameters(hedgerow: Command) -> None:
    for name, kind in ALGORITHMS.items():
        for spec in (form for form in variants().values() if type(form) is kind):
            unexplained = set(spec.build(setting_for(spec, 2, 4, 30)).parameters) - set(
                meanings(name)
            )
            assert not unexplained, f"{name} should explain {unexplained} in its traits"
    alone = hedgerow("certify", "shrinking_dartboard", "--set", "clients=1").out
    assert "an expert may leave although it lost nothing" in alone
    assert "collude" not in alone
    assert (
        "also if 1 other client colludes"
        in hedgerow("certify", "doubling", "--set", "clients=2").out
    )
    refused = hedgerow("certify", "shrinking_dartboard", "--set", "q=1").err
    assert (
        "valid: clients, deciders, delta, early, epsilon, every, experts, family, horizon, plan, unit"
        in " ".join(refused.split())
    )


def test_certify_shows_the_problem_of_an_algorithm_that_trains(hedgerow: Command) -> None:
    usual = hedgerow("certify", "online_sgd").out
    assert "coordinates = 100" in usual
    assert "one of the 5 examples of one client in one round" in " ".join(usual.split())
    other = hedgerow("certify", "online_sgd", "--set", "family=huber", "--set", "family.size=3").out
    assert "one of the 3 examples of one client in one round" in " ".join(other.split())
    refused = hedgerow("certify", "online_sgd", "--set", "family=batch").err
    assert "logistic, squared_error. Its parameters" in " ".join(refused.split())


def test_certify_tells_who_learns_what(hedgerow: Command) -> None:
    answer = hedgerow(
        "certify", "sparse_vector", "--set", "epsilon=2", "--set", "clients=3", "--json"
    )
    document = answer.document()
    bound = {"regret_bound", "regret_bound_for", "regret_bound_proof", "notes"}
    known = {field.name for field in fields(AlgorithmRecord)}
    assert set(document) == known | bound | {"communication", "printed_regret_bound"}
    assert document["communication"]["exchanges"] == document["parameters"]["exchanges"]
    assert [document[key] for key in sorted(bound)] == [[], None, None, None]
    assert (document["algorithm"], document["calibration"], document["trust"]) == (
        "sparse_vector",
        "certified",
        "central",
    )
    assert document["setting"]["clients"] == 3
    by = {g["observer"]: g for g in document["guarantees"]}
    assert by["server"]["curve"] is None
    assert by["server"]["reason"]
    assert by["public"]["curve"]["epsilon"] <= 2.0
    assert by["peer"]["colluding"] == 2
    words = hedgerow("certify", "sparse_vector").out
    assert "no guarantee" in words
    assert "TRUSTED_SERVER" in words
    assert "proofs/sparse_vector.md#weights-by-recency" in words


def test_certify_states_a_printed_bound_once(hedgerow: Command) -> None:
    """eta T + B ln(d)/eta + 2 T exp(-T p/(3 B)) with p = T^-0.5, eta = p/20 and B = 1."""
    words = " ".join(hedgerow("certify", "asi2023_dartboard").out.split())
    p = 512**-0.5
    value = 512 * p / 20 + 20 * log(100) / p + 1024 * exp(-512 * p / 3)
    assert words.count(f"{value:,.0f}") == words.count("Theorem 2, for the printed constants") == 1
    assert "printed_regret_bound" not in words
    assert "printed regret" not in words


def test_the_published_certificate_says_what_it_really_costs(hedgerow: Command) -> None:
    document = hedgerow("certify", "gao2024_fed_svt", "--json").document()
    public = next(g for g in document["guarantees"] if g["observer"] == "public")
    assert 0.75 <= public["curve"]["epsilon"] <= 0.75 + 1e-12
    assert public["claimed"]["epsilon"] == 1.0


# run


def test_a_run_folder_is_complete_and_loads(hedgerow: Command, tmp_path: Path) -> None:
    answer = hedgerow(
        "run",
        "study.toml",
        "--out",
        "results",
        "--json",
        "--seed",
        "5",
        "--set",
        "algorithms.private.epsilon=6",
    )
    document = answer.document()
    assert set(document) == {
        *("run", "title", "stamp", "game", "summary", "table", "comparators", "followed"),
        *("together", "promises", "certificates", "notes", "data_notes", "segments"),
    }
    assert document["run"] == "results"
    folder = tmp_path / "results"
    written = {
        "config.toml",
        "curves.parquet",
        "results.parquet",
        "summary.json",
        "privacy.json",
        "regret.png",
        "digest.json",
    }
    assert {p.name for p in folder.iterdir()} == written
    config = study_from_table(tomllib.loads((folder / "config.toml").read_text()))
    assert config == load_study(tmp_path / "study.toml", ["algorithms.private.epsilon=6"], 5)
    curves = pq.read_table(folder / "curves.parquet")
    assert curves.column_names == ["label", "seed", "round", "metric", "value"]
    assert set(curves["seed"].to_pylist()) == {5, 6}
    assert curves.num_rows == 2 * 2 * 2 * 30
    finals = pq.read_table(folder / "results.parquet").to_pylist()
    means = {row["label"]: row["regret"]["mean"] for row in document["summary"]}
    for label, mean in means.items():
        values = [r["value"] for r in finals if r["label"] == label and r["metric"] == "regret"]
        assert mean == pytest.approx(sum(values) / 2)
    summary, record = (
        json.loads((folder / name).read_text()) for name in ("summary.json", "privacy.json")
    )
    assert {key: summary[key] for key in document if key != "certificates"} == {
        k: v for k, v in document.items() if k != "certificates"
    }
    assert set(summary) == {
        *(set(document) - {"certificates"}),
        *("format", "losses"),
    }
    assert {row["label"]: row for row in record["algorithms"]} == document["certificates"]
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_default_folders_are_new_and_words_name_them(hedgerow: Command, tmp_path: Path) -> None:
    answers = [hedgerow("run", "study.toml") for _ in range(2)]
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert all(
        "Results in runs/" in answer.out and "not private" in answer.out for answer in answers
    )
    assert "epsilon = 5" in answers[0].out


def test_plays_and_messages_only_on_keep(hedgerow: Command, tmp_path: Path) -> None:
    hedgerow("run", "study.toml", "--out", "kept", "--keep")
    plays = pq.read_table(tmp_path / "kept" / "plays.parquet")
    names = ["label", "seed", "round", "client", "play", "client name", "expert"]
    assert plays.column_names == names
    assert plays.num_rows == 2 * 2 * 30 * 2
    messages = pq.read_table(tmp_path / "kept" / "messages.parquet").to_pylist()
    sums = [m for m in messages if m["label"] == "hedge" and m["direction"] == "upload"]
    assert len(sums) == 2 * 2 * len([1, 2, 4, *range(8, 30, 4)])  # early exchanges, then every 4
    assert all(m["field"] == "losses" and len(m["values"]) == 4 for m in sums)
    assert {m["field"] for m in messages if m["direction"] == "broadcast"} >= {
        "rounds",
        "expert",
        "switches",
    }


def test_one_seed_has_null_intervals_with_a_reason(hedgerow: Command) -> None:
    regret = hedgerow("run", "study.toml", "--set", "seeds=1", "--json").document()["summary"][0][
        "regret"
    ]
    assert regret["half_width"] is None
    assert "one seed" in regret["reason"]
