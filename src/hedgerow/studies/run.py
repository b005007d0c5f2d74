"""Run a study: every algorithm on every seed, in parallel processes if that is faster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.registry import load_plugins, loaded_plugins
from hedgerow.core.transcript import Everything
from hedgerow.core.validate import at_least, expect
from hedgerow.engines.simulate import BLOCK_ELEMENTS, simulate
from hedgerow.engines.summed import what_instead, why_not_by_sums
from hedgerow.environments.measures import measures_of
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.recorder import Recorder, RunResult
from hedgerow.studies.config import Entry, StudyConfig, with_alone
from hedgerow.studies.storage.results import Kept, Pair, ResultStore, message_rows
from hedgerow.studies.study import Study
from hedgerow.studies.workers import run_in_executor, run_in_processes

SHARES = 8  # into which the seeds are divided for an executor, whose size is not known
WORTH_A_PROCESS = 3e8  # loss values below which starting processes costs more than it saves

Progress = Callable[[int, int], None]


def _blocks(environment: Environment, seed: int) -> Iterator[Block]:
    """The blocks of a game whose environment does not see the plays."""
    setting = environment.setting
    step, left = max(1, BLOCK_ELEMENTS // setting.numbers), setting.rounds
    state = environment.start(seed)
    while left:
        block, state = environment.block(state, min(step, left), None)
        left -= block.rounds
        yield block


def run_one(
    algorithm: Algorithm,
    environment: Environment,
    label: str,
    seed: int,
    engine: Any = "vectorised",
    keep: bool = False,
    switches: Sequence[int] = (),
    alone: bool = False,
) -> Pair:
    """Run one algorithm on one seed, with the comparators on its losses.

    Parameters
    ----------
    algorithm
        The algorithm to run.
    environment
        Where the losses come from.
    label
        The name of the algorithm in the result.
    seed
        The seed of losses and noise.
    engine
        The engine that plays the rounds.
    keep
        Whether to keep all plays and messages.
    switches
        For each number, also find the best sequence of experts with at most this many changes.
    alone
        Whether every client plays by itself; the algorithm is then built for one client.
    """
    recorder = Recorder(
        environment.setting,
        switches=switches,
        replay=None if environment.traits.sees_plays else partial(_blocks, environment, seed),
    )
    measures = measures_of(algorithm, environment)
    for measure in measures:
        measure.marks = recorder.marks
    everything = Everything() if keep else None
    sinks = [recorder, *measures, *([] if everything is None else [everything])]
    counters = simulate(algorithm, environment, seed, sinks=sinks, engine=engine, alone=alone)
    figures = {measure.name: measure.curve() for measure in measures}
    result = replace(recorder.result(label, seed, counters), figures=figures)
    return result, None if everything is None else Kept(
        label, seed, everything.all_plays(), message_rows(everything.messages)
    )


def _task(
    config: StudyConfig, keep: bool, store: ResultStore | None, index: int, seeds: Sequence[int]
) -> list[Pair]:
    entry = config.algorithms[index]
    environment, algorithm = config.environment_of(entry), config.build(entry)
    switches = config.comparator_switches if config.stream_of(index) == index else ()
    pairs = []
    for seed in seeds:
        choices = (config.engine, keep, switches, entry.alone)
        pairs.append(run_one(algorithm, environment, entry.label, seed, *choices))
        if store is not None:
            store.save(index, pairs[-1])
    return pairs


def _share_comparators(config: StudyConfig, results: list[RunResult]) -> list[RunResult]:
    """Give all algorithms on the same losses the comparators, which were found only once."""
    found = {(result.label, result.seed): result.comparators for result in results}
    first = {
        e.label: config.algorithms[config.stream_of(i)].label
        for i, e in enumerate(config.algorithms)
    }
    return [
        replace(r, comparators={**found[first[r.label], r.seed], **r.comparators}) for r in results
    ]


def _elements(config: StudyConfig) -> float:
    if config.engine == "summed":
        return 0.0
    settings = [config.environment_of(entry).setting for entry in config.algorithms]
    return float(sum(s.clients * s.experts * s.rounds for s in settings)) * config.seeds


def check_engine(config: StudyConfig) -> None:
    """Refuse a study that its engine cannot play, before anything is played, with all reasons."""
    for entry in config.algorithms if config.comparator_switches else ():
        if not config.environment_of(entry).family.linear:
            raise Unsupported(
                f"{entry.label}: comparator_switches count changes of expert, but this game has no "
                "experts. Remove comparator_switches."
            )
    if config.engine == "summed":
        found = {
            e.label: why_not_by_sums(config.build(e), config.environment_of(e))
            for e in config.algorithms
        }
        found |= {e.label: "single clients are needed" for e in config.algorithms if e.alone}
        reasons = [f"{label}: {why}" for label, why in found.items() if why is not None]
        if reasons:
            raise Unsupported(
                f"The engine 'summed' draws only sums. {'. '.join(reasons)}. {what_instead()}."
            )


def run_study(
    config: StudyConfig,
    *,
    workers: int | None = None,
    keep: bool = False,
    progress: Progress | None = None,
    store: ResultStore | None = None,
    executor: Executor | None = None,
) -> Study:
    """Run a study and return it, with results in order of algorithm and seed.

    The results do not depend on `workers` or on the `executor`, which plays the seeds if one is
    given. Each is saved in the `store` as soon as it is finished,
    and results that the store already holds are not run again.
    """
    algorithms = {entry.label: config.build(entry) for entry in config.algorithms}
    check_engine(config)
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    if executor is not None:
        expect(
            workers is None, "workers", workers, "to be None with an executor, which has its own"
        )
        workers = SHARES
    if workers is None:
        workers = (os.cpu_count() or 1) if _elements(config) > WORTH_A_PROCESS else 1
    total = len(config.algorithms) * config.seeds
    size = 1 if workers == 1 else min(16, max(1, config.seeds // (4 * workers)))
    found: dict[tuple[int, int], Pair] = {}
    tasks = []
    for index in range(len(config.algorithms)):
        stored = (
            {}
            if store is None
            else {
                (index, seed): pair
                for seed in seeds
                if (pair := store.load(index, seed)) is not None
            }
        )
        found |= stored
        missing = [seed for seed in seeds if (index, seed) not in stored]
        tasks += [(index, missing[s : s + size]) for s in range(0, len(missing), size)]

    def note(index: int, pairs: list[Pair]) -> None:
        found.update({(index, pair[0].seed): pair for pair in pairs})
        if progress is not None:
            progress(len(found), total)

    if progress is not None:
        progress(len(found), total)
    play = partial(_task, config, keep, store)
    if executor is not None:
        # another machine may not see the folder of the store: results are saved here

        def save(task: Sequence[Any], pairs: list[Pair]) -> None:
            if store is not None:
                for pair in pairs:
                    store.save(task[0], pair)
            note(task[0], pairs)

        alone = partial(_task, config, keep, None)
        run_in_executor(alone, tasks, executor, save, loaded_plugins())
    elif workers == 1:
        for index, part in tasks:
            note(index, play(index, part))
    elif tasks:
        run_in_processes(
            play,
            tasks,
            min(workers, len(tasks)),
            lambda task, pairs: note(task[0], pairs),
            partial(load_plugins, loaded_plugins()),
        )
    ordered = [found[key] for key in sorted(found)]
    results = _share_comparators(config, [r for r, _ in ordered])
    return Study(config, algorithms, results, [k for _, k in ordered if k is not None])


def run(
    environment: Environment | np.ndarray,
    algorithms: Mapping[str, AlgorithmSpec],
    *,
    seeds: int = 20,
    seed: int = 0,
    title: str = "Regret over time",
    alone: bool = False,
    workers: int | None = None,
    executor: Executor | None = None,
) -> Study:
    """Run several algorithms on the same losses, drawn or recorded, over several seeds.

    Parameters
    ----------
    environment
        Where the losses come from: an environment, or an array (rounds, clients, experts) of
        recorded losses in [0, 1].
    algorithms
        The algorithms by label.
    seeds
        The number of seeds, at least 1.
    seed
        The first seed; the others follow.
    title
        The title of tables and pictures.
    alone
        Whether to play every algorithm also with every client by itself, in games of one client.
        The results are averaged, and have a label that ends with ", alone".
    workers
        The number of processes. None: all cores if that is faster. The results do not depend on it.
    executor
        A `concurrent.futures` executor that plays the seeds instead, on this machine or others. The
        results are the same, bit for bit.

    Returns
    -------
    Study
        The results. Print it for a table; `study["label"]` is one algorithm.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Realizable(clients=2, experts=4, horizon=50)
    >>> study = hr.run(game, {"private": hr.SparseVector(epsilon=1.0), "open": hr.Hedge()}, seeds=3)
    >>> study["private"].certificate.public.curve.stated()
    (1.0, 0.0)
    """
    if workers is not None:
        at_least("workers", workers, 1)
    if isinstance(environment, np.ndarray):
        environment = RecordedArray(environment)
    if not isinstance(environment, Environment):
        raise InvalidValue(
            "Expected an environment such as hr.Realizable(...), hr.Recorded(file) or a NumPy "
            f"array of losses (rounds, clients, experts), got {_named(environment)}."
        )
    if not isinstance(algorithms, Mapping):
        raise InvalidValue(
            'Expected algorithms by label, such as {"private": hr.SparseVector()}, '
            f"got {type(algorithms).__name__}."
        )
    for label, spec in algorithms.items():
        if not (isinstance(label, str) and label):
            raise InvalidValue(f"Expected the label {label!r} to be a text that is not empty.")
        if not isinstance(spec, AlgorithmSpec):
            raise InvalidValue(
                f"Expected {label!r} to be an algorithm such as hr.Hedge(), got {_named(spec)}."
            )
    entries = tuple(Entry(label, spec) for label, spec in algorithms.items())
    entries = with_alone(entries) if alone else entries
    config = StudyConfig(title, environment, entries, seeds, first_seed=seed)
    return run_study(config, workers=workers, executor=executor)


def _named(thing: object) -> str:
    """A wrong argument, as an error names it."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}; write {thing.__name__}(...)"
    return type(thing).__name__
