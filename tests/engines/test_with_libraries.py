"""The examples for users of Dask, scikit-learn, river and Equinox, with these libraries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("HEDGEROW_ADAPTERS", sys.prefix)) / "bin" / "python"
"""Python of the virtual environment with the libraries."""


def _run(name: str, *libraries: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    for library in libraries:
        if subprocess.run([PYTHON, "-c", f"import {library}"], env=env, check=False).returncode:
            pytest.skip(f"{library} is not installed: set HEDGEROW_ADAPTERS to an environment")
    file = ROOT / "src" / "hedgerow" / "examples" / name
    done = subprocess.run(
        [PYTHON, str(file)], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_a_dask_cluster_gives_the_same_results_bit_for_bit() -> None:
    out = _run("cluster.py", "dask.distributed")
    assert "the same results as on one machine: True" in out


@pytest.mark.long
def test_models_of_scikit_learn_and_river_are_experts() -> None:
    out = _run("models.py", "sklearn", "river")
    assert "both clients follow the line: True" in out
    assert "over 600 rounds; epsilon = 1, delta = 0" in out


def test_adapters_of_a_pretrained_model_learn_privately() -> None:
    out = _run("adapters.py", "equinox")
    assert out.startswith("304 of 1536 weights are trained\n")
    before, after = (float(x) for x in re.findall(r"0\.\d\d", out)[:2])
    assert 0.8 < before < after - 0.04
    assert "epsilon = 2, delta = 1e-5 for one of the 5 examples" in out


@pytest.mark.parametrize("name", ["adapters.py", "cluster.py", "models.py"])
def test_an_example_without_its_library_says_what_to_install(name: str) -> None:
    file = ROOT / "src" / "hedgerow" / "examples" / name
    hide = (
        "import runpy, sys; sys.modules.update(dask=None, equinox=None, river=None, sklearn=None); "
        f"runpy.run_path({str(file)!r})"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", hide], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("This example needs ")
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr
