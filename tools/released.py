"""Record small finished studies with the installed version, to be read by every later one.

    python tools/released.py tests/deployment/released/0.4.0.tar.gz

The archive holds `NAME/server` and `NAME/home` of each study, as `hedgerow serve` and `hedgerow
client` leave them. Run it once for each release, before its tag.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hedgerow.deployment.learner import NoReply
from hedgerow.deployment.simulated import SimulatedStudy, small_study

STUDIES = {
    "central": {"algorithm": "sparse_vector"},
    "fold": {"algorithm": "sparse_vector", "closing": "fold"},
    "local": {"algorithm": "phased_selection", "choices": {"trust": "local"}},
}
ROUNDS = 12


def play(study: SimulatedStudy) -> None:
    """All rounds of both clients, in turn."""
    losses = (np.arange(ROUNDS * 6).reshape(ROUNDS, 2, 3) * 7 % 11) / 16
    for at in range(ROUNDS):
        waiting = [0, 1]
        while waiting:
            for client in tuple(waiting):
                learner = study.learner(client)
                try:
                    learner.predict(tries=2)
                    learner.observe(at, losses[at, client])
                    waiting.remove(client)
                except NoReply:
                    pass
    for client in (0, 1):
        study.learner(client).finish()


def main(out: Path) -> None:
    """Write the archive."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, tarfile.open(out, "w:gz") as archive:
        for name, choices in STUDIES.items():
            root, kept = Path(folder) / name, Path(folder) / f"{name}-kept"
            study = small_study(root, clients=2, experts=3, horizon=ROUNDS, seed=None, **choices)
            play(study)
            study.close()
            shutil.copytree(root / "server", kept / "server")
            for data in sorted(root.glob("data-*")):
                home = kept / "home" / data.name.removeprefix("data-")
                shutil.copytree(data, home)
                beside = root / data.name.replace("data-", "study-")
                if beside.is_dir():  # simulations of 0.3.0 had their ledgers there
                    digest = study.manifest.digest.hex()[:16]
                    shutil.copytree(beside, home / "studies" / digest)
            archive.add(kept, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
