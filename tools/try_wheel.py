"""Try the wheels in an empty environment, as a newcomer would, away from the checkout.

First the library without extras, then what statements need, then the plugins `papers` and
`benchmarks`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

PINS = Path(__file__).parent.parent / "requirements.txt"
LIBRARY = """
import hedgerow as hr
print(hr.run(hr.Bernoulli(horizon=20), {"private": hr.PhasedSelection(epsilon=1.0)}, seeds=2))
"""
COMMANDS = (
    ("demo", "--out", "demo"),
    ("proof", "sparse_vector.md#whole-algorithm"),
    ("certify", "sparse_vector"),
    ("examples",),
    ("run", "examples/study.toml", "--set", "seeds=2", "--out", "study"),
    ("statement", "study", "--details", "examples/statement_details.toml"),
)
WRITTEN = ("demo/flusight.png", "study/privacy.json", "study/statement")
MISSING = {  # commands that need a plugin, and what they say without it
    ("reproduce", "gao2024-lowerbounds", "--quick"): "pip install ./papers",
    ("bench", "points", "--quick"): "pip install ./benchmarks",
}
AGAIN = ("run", "examples/study.toml", "--set", "seeds=2", "--out", "again")
RESULTS = ("curves.parquet", "results.parquet")


def main() -> int:
    wheels = [Path(name).resolve() for name in sys.argv[1:]]
    (wheel,) = (file for file in wheels if file.name.startswith("hedgerow-"))
    with TemporaryDirectory() as place:
        environment, work = Path(place, "environment"), Path(place, "work")
        work.mkdir()
        venv.create(environment, with_pip=True)
        pip = [
            str(environment / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, "-c", str(PINS), str(wheel)], check=True)
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "HEDGEROW"))
        }
        pure = {**clean, "HEDGEROW_COMPILED": "0"}

        def hedgerow(
            *command: str, names: dict[str, str] = clean, check: bool = True
        ) -> subprocess.CompletedProcess[str]:
            print("$ hedgerow", *command, flush=True)
            words = [str(environment / "bin" / "hedgerow"), *command]
            kept = None if check else subprocess.PIPE
            return subprocess.run(words, cwd=work, env=names, check=check, stderr=kept, text=True)

        subprocess.run([pip[0], "-c", LIBRARY], cwd=work, env=clean, check=True)
        bare = hedgerow(*COMMANDS[0], check=False)
        subprocess.run([*pip, "-c", str(PINS), f"{wheel}[statement]"], check=True)
        for command in COMMANDS:
            hedgerow(*command)
        hedgerow(*AGAIN, names=pure)
        wrong = [f"{name} is missing" for name in WRITTEN if not (work / name).exists()]
        if bare.returncode != 2 or 'pip install "hedgerow[' not in bare.stderr:
            wrong.append("hedgerow demo does not say which extra to install")
        wrong += [
            f"{name} differs without compiled code"
            for name in RESULTS
            if (work / "study" / name).read_bytes() != (work / "again" / name).read_bytes()
        ]
        for command, advice in MISSING.items():
            done = hedgerow(*command, check=False)
            if done.returncode != 2 or advice not in done.stderr:
                wrong.append(f"hedgerow {command[0]} does not say what to install")
        plugins = [str(file) for file in wheels if file != wheel]
        subprocess.run([*pip, "--no-deps", *plugins], check=True)
        for command in MISSING:
            hedgerow(*command)
    names = ", ".join(file.name for file in wheels)
    print(f"{names}: {', '.join(wrong) or 'work in an empty environment'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
