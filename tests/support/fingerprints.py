"""Fingerprints of many algorithms, as a script that prints them:

python tests/support/fingerprints.py > tests/core/fingerprints.json   # the pinned ones
python tests/support/fingerprints.py all                              # every form in some settings
"""

from __future__ import annotations

import json
import sys

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.baselines.hedge import Hedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.phases.phased_selection import PhasedSelection
from hedgerow.algorithms.phases.random_prefix import RandomPrefix
from hedgerow.algorithms.phases.vote_selection import VoteSelection
from hedgerow.algorithms.registry import variants
from hedgerow.algorithms.sparse_vector.doubling import Doubling
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow_papers.asi2023.certified_potential import Potential
from hedgerow_papers.gao2024.fed_svt import FedSVT

SETTING = Setting(clients=5, experts=20, horizon=200)
SETTINGS = (
    SETTING,
    Setting(clients=1, experts=2, horizon=17),
    Setting(clients=10, experts=100, horizon=2**12),
    Setting(clients=137, experts=10, horizon=1000),
)
PINNED: dict[str, AlgorithmSpec] = {
    "doubling": Doubling(),
    "follow_the_leader": FollowTheLeader(),
    "gao2024_fed_svt": FedSVT(),
    "hedge": Hedge(),
    "hedge, every 3": Hedge(every=3),
    "phased_selection": PhasedSelection(),
    "phased_selection, local": PhasedSelection(trust="local"),
    "potential": Potential(),
    "random_prefix": RandomPrefix(),
    "vote_selection": VoteSelection(),
    "shrinking_dartboard": ShrinkingDartboard(),
    "shrinking_dartboard, approximate": ShrinkingDartboard(delta=1e-6),
    "sparse_vector": SparseVector(),
    "uniform": Uniform(),
}
COMMENT = (
    "A fingerprint changes if an algorithm does or promises something else. If that is intended: "
    "python tests/support/fingerprints.py > tests/core/fingerprints.json, and CHANGELOG.md says why."
)


def pinned() -> dict[str, str]:
    return {name: spec.build(SETTING).fingerprint() for name, spec in PINNED.items()}


def everything() -> dict[str, str]:
    """The fingerprints of every form of every algorithm, in every setting; of a refusal, its text."""
    found = {}
    for name, spec in variants().items():
        games = spec.games()
        for setting in SETTINGS if games is None else (*SETTINGS, games.setting):
            try:
                found[f"{name} in {setting}"] = spec.build(setting).fingerprint()
            except (InvalidValue, Unsupported) as refusal:
                found[f"{name} in {setting}"] = str(refusal)
    return found


if __name__ == "__main__":
    found = everything() if "all" in sys.argv else {"comment": COMMENT, **pinned()}
    print(json.dumps(found, indent=2))
