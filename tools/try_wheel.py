"""Try a wheel in an empty environment, as a newcomer would, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

PINS = Path(__file__).parent.parent / "requirements.txt"
COMMANDS = (
    ("demo", "--out", "demo"),
    ("proof", "sparse_vector.md#whole-algorithm"),
    ("certify", "sparse_vector"),
    ("examples",),
    ("run", "examples/study.toml", "--set", "seeds=2", "--out", "study"),
    ("statement", "study", "--details", "examples/statement_details.toml"),
)
WRITTEN = ("demo/flusight.png", "study/privacy.json", "study/statement")
AGAIN = ("run", "examples/study.toml", "--set", "seeds=2", "--out", "again")
RESULTS = ("curves.parquet", "results.parquet")


def main() -> int:
    wheel = Path(sys.argv[1]).resolve()
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
        for command in (*COMMANDS, AGAIN):
            print("$ hedgerow", *command, flush=True)
            subprocess.run(
                [str(environment / "bin" / "hedgerow"), *command],
                cwd=work,
                env=pure if command is AGAIN else clean,
                check=True,
            )
        wrong = [f"{name} is missing" for name in WRITTEN if not (work / name).exists()]
        wrong += [
            f"{name} differs without compiled code"
            for name in RESULTS
            if (work / "study" / name).read_bytes() != (work / "again" / name).read_bytes()
        ]
    print(f"{wheel.name}: {', '.join(wrong) or 'works in an empty environment'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
