"""What a specification plays and pays in a game: of single seeds, and regrets over many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.transcript import Everything
from hedgerow.engines.simulate import EngineName, simulate
from hedgerow.evaluation.recorder import Recorder, RunResult
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.run import Entrant, run_together
from hedgerow.studies.storage.unfinished import Pair


def seen_in(
    what: Algorithm | AlgorithmSpec, game: Any, seed: int = 0, **options: Any
) -> Everything:
    """All plays and messages of a game, which takes the plain loop for it."""
    seen = Everything()
    _simulate(what, game, seed, seen, options)
    return seen


def plays_of(what: Algorithm | AlgorithmSpec, game: Any, seed: int = 0, **options: Any) -> Any:
    """All plays of a game, which takes the fast path if there is one."""
    seen = Everything(wants_messages=False)
    _simulate(what, game, seed, seen, options)
    return seen.all_plays()


def _simulate(what: Any, game: Any, seed: int, sink: Everything, options: dict[str, Any]) -> None:
    algorithm = what if isinstance(what, Algorithm) else what.build(game.setting)
    simulate(algorithm, game, seed, sinks=[sink], **options)


def played(
    spec: AlgorithmSpec, environment: Any, seed: int, engine: EngineName = "vectorised"
) -> RunResult:
    algorithm = spec.build(environment.setting)
    recorder = Recorder(environment.setting, points=7)
    return recorder.result(
        "", seed, simulate(algorithm, environment, seed, sinks=[recorder], engine=engine)
    )


def regrets(spec: AlgorithmSpec, environment: Any, seeds: int) -> np.ndarray:
    return np.array([played(spec, environment, seed).final_regret for seed in range(seeds)])


def regret(spec: AlgorithmSpec, environment: Any, seeds: int) -> Estimate:
    return Estimate.of(regrets(spec, environment, seeds))


def run_one(
    algorithm: Algorithm,
    environment: Any,
    label: str,
    seed: int,
    engine: EngineName = "vectorised",
    keep: bool = False,
    switches: Sequence[int] = (),
) -> Pair:
    """One algorithm on one seed, as a study runs it."""
    entrants = [Entrant(algorithm, label, switches)]
    return run_together(entrants, environment, [seed], engine, keep)[0][0]
