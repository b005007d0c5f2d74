"""Run a study: every algorithm on every seed, in parallel processes if that is faster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from hedgerow.algorithms.baselines.ada_hedge import AdaHedge
from hedgerow.algorithms.baselines.uniform import Uniform
from hedgerow.algorithms.private import Private
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.block import Block
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.extras import need_jax
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.registry import load_plugins, loaded_plugins
from hedgerow.core.transcript import Counters, Everything
from hedgerow.core.validate import at_least
from hedgerow.engines.simulate import BLOCK_ELEMENTS, Player, simulate_together
from hedgerow.engines.summed import what_instead, why_not_by_sums
from hedgerow.environments.measures import measures_of
from hedgerow.environments.recorded.losses import Recorded, RecordedArray
from hedgerow.environments.recorded.table import is_frame
from hedgerow.evaluation.following import Watch, says_something
from hedgerow.evaluation.recorder import Recorder, RunResult
from hedgerow.studies.config import Entry, StudyConfig, entries_with_alone
from hedgerow.studies.storage.unfinished import Kept, Pair, ResultStore, message_rows
from hedgerow.studies.study import Study
from hedgerow.studies.workers import (
    PROCESSES,
    WorkerEnded,
    needs_main,
    opened_cluster,
    run_in_executor,
    run_in_processes,
)

SHARES = 8  # parts of the seeds for an executor of any size; seeds that a device plays at once
WORTH_PROCESSES = 4.0  # seconds of work that are left: starting processes costs about one

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


@dataclass(frozen=True)
class Entrant:
    """An algorithm, its label, the numbers of changes for which its comparators are found, and
    whether every client plays it by itself.
    """

    algorithm: Algorithm
    label: str
    switches: Sequence[int] = ()
    alone: bool = False


def run_together(
    entrants: Sequence[Entrant],
    environment: Environment,
    seeds: Sequence[int],
    engine: Any = "vectorised",
    keep: bool = False,
) -> list[list[Pair]]:
    """Run several algorithms on some seeds, with the comparators of each, whose losses are drawn
    once. Returns the results of each seed.

    Parameters
    ----------
    entrants
        The algorithms to run.
    environment
        Where the losses come from.
    seeds
        The seeds of losses and noise.
    engine
        The engine that plays the rounds.
    keep
        Whether to keep all plays and messages.
    """
    watched = [[_Watched(one, environment, seed, keep) for one in entrants] for seed in seeds]
    players = [
        [Player(one.entrant.algorithm, one.sinks, one.entrant.alone) for one in row]
        for row in watched
    ]
    rivals = {
        name: float(losses.sum()) / environment.setting.players
        for name, losses in environment.rivals().items()
    }
    counted = simulate_together(players, environment, seeds, engine=engine)
    for row in watched:
        for one in row:
            one.recorder.share_best_point(row[0].recorder)
    return [
        [one.pair(counters, rivals) for one, counters in zip(row, own, strict=True)]
        for row, own in zip(watched, counted, strict=True)
    ]


class _Watched:
    """An algorithm on one seed, with all that watches it."""

    def __init__(self, entrant: Entrant, environment: Environment, seed: int, keep: bool) -> None:
        setting, self.entrant, self.seed = environment.setting, entrant, seed
        replay = None if environment.traits.sees_plays else partial(_blocks, environment, seed)
        self.recorder = Recorder(setting, switches=entrant.switches, replay=replay)
        self.following = [Watch(setting)] if says_something(environment) else []
        self.measures = measures_of(entrant.algorithm, environment)
        for measure in self.measures:
            measure.marks = self.recorder.marks
            measure.begin(seed)
        self.kept = [Everything()] if keep else []
        self.sinks = [self.recorder, *self.measures, *self.following, *self.kept]

    def pair(self, counters: Counters, rivals: Mapping[str, float]) -> Pair:
        """The result, and what was kept."""
        label = self.entrant.label
        result = self.recorder.result(label, self.seed, counters)
        result = replace(
            result,
            figures={measure.name: measure.curve() for measure in self.measures},
            comparators={**result.comparators, **rivals},
            following=self.following[0].found(*self.recorder.best) if self.following else None,
        )
        for all_of in self.kept:
            rows = message_rows(all_of.messages)
            return result, Kept(label, self.seed, all_of.all_plays(), rows)
        return result, None


def _task(
    config: StudyConfig,
    keep: bool,
    store: ResultStore | None,
    built: Mapping[str, Algorithm] | None,
    indices: Sequence[int],
    seeds: Sequence[int],
) -> list[tuple[int, Pair]]:
    """Run the algorithms of some entries, which have the same losses, on some seeds.

    Another process builds the algorithms itself; `built` is None there.
    """
    entries = [config.algorithms[index] for index in indices]
    environment = config.environment_of(entries[0])
    entrants = [
        Entrant(
            config.build(entry) if built is None else built[entry.label],
            entry.label,
            config.comparator_switches,
            entry.alone,
        )
        for entry in entries
    ]
    size = _at_once([one.algorithm for one in entrants], config.seeds)
    found = []
    for at in range(0, len(seeds), size):
        for pairs in run_together(
            entrants, environment, seeds[at : at + size], config.engine, keep
        ):
            for index, pair in zip(indices, pairs, strict=True):
                if store is not None:
                    store.save(index, pair)
                found.append((index, pair))
    return found


def _tasks(
    config: StudyConfig, missing: Mapping[int, list[int]], workers: int, together: int = 1
) -> list[tuple[tuple[int, ...], list[int]]]:
    """Cut a study into tasks: entries on the same losses, and the seeds that they all miss.

    Several workers get at least one task each, if there are enough seeds and entries.
    """
    groups: dict[int, list[int]] = {}
    for index in missing:
        first = index if config.engine == "summed" else config.stream_of(index)
        groups.setdefault(first, []).append(index)
    size = together if workers == 1 else min(16, max(1, config.seeds // (4 * workers)))
    pieces = -(-workers // (len(groups) * config.seeds)) if groups else 1
    tasks = []
    for group in groups.values():
        most = max(1, -(-len(group) // pieces))
        for some in (tuple(group[at : at + most]) for at in range(0, len(group), most)):
            by_seeds: dict[tuple[int, ...], list[int]] = {}
            for seed in sorted({seed for index in some for seed in missing[index]}):
                players = tuple(index for index in some if seed in missing[index])
                by_seeds.setdefault(players, []).append(seed)
            for players, seeds in by_seeds.items():
                tasks += [(players, seeds[at : at + size]) for at in range(0, len(seeds), size)]
    return tasks


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


def _on_accelerator(algorithms: Iterable[Algorithm]) -> list[Algorithm]:
    """The algorithms that play whole games on an accelerator."""
    found = [algorithm for algorithm in algorithms if algorithm.shortcuts.resident is not None]
    return found if found and need_jax().default_backend() != "cpu" else []


def _at_once(algorithms: Sequence[Algorithm], seeds: int) -> int:
    """How many seeds are played at once: 1 unless an accelerator gains by it."""
    there = _on_accelerator(algorithms)
    games = len(there) * seeds
    pays = all(
        one.shortcuts.resident is not None
        and games * one.setting.rounds >= one.shortcuts.resident.worth
        for one in there
    )
    return min(seeds, SHARES) if there and pays else 1


def _played_here(
    here: Callable[..., Any],
    elsewhere: Callable[..., Any],
    tasks: list[Any],
    cores: int,
    note: Callable[[Any], None],
) -> list[Any]:
    """Play tasks in this process while other processes would not save time; return the others.

    The time that is left is estimated from the tasks that were played. What only the script itself
    defines is played here, because workers would have to run the script again.
    """
    alone, began = cores == 1, perf_counter()
    for done, task in enumerate(tasks, start=1):
        note(here(*task))
        left = len(tasks) - done
        if not alone and left > 1 and (perf_counter() - began) / done * left > WORTH_PROCESSES:
            alone = needs_main(elsewhere)
            if not alone:
                return tasks[done:]
    return []


def _in_processes(
    work: Callable[..., Any],
    tasks: list[Any],
    workers: int,
    note: Callable[[Any], None],
    found: Mapping[tuple[int, int], Pair],
) -> None:
    """Play tasks in processes; those that a killed worker has left are played again, once."""
    prepare = partial(load_plugins, loaded_plugins())
    for again in (True, False):
        try:
            run_in_processes(work, tasks, min(workers, len(tasks)), lambda _, p: note(p), prepare)
            return
        except WorkerEnded as ended:
            if not (again and ended.killed):
                raise
        tasks = [t for t in tasks if any((i, seed) not in found for i in t[0] for seed in t[1])]


def _stored(
    store: ResultStore, algorithms: int, seeds: Sequence[int]
) -> dict[tuple[int, int], Pair]:
    """The results that a store holds, by the number of the algorithm and the seed."""
    pairs = {(index, s): store.load(index, s) for index in range(algorithms) for s in seeds}
    return {key: pair for key, pair in pairs.items() if pair is not None}


def run_study(
    config: StudyConfig,
    *,
    workers: int | None = None,
    keep: bool = False,
    progress: Progress | None = None,
    store: ResultStore | None = None,
    executor: Executor | str | None = None,
) -> Study:
    """Run a study and return it, with results in order of algorithm and seed.

    The results do not depend on `workers` or on the `executor`, which plays the seeds if one is
    given. Each is saved in the `store` as soon as it is finished, and results that it holds
    already are not run again. Tasks of a worker that was killed are played again, once.
    """
    if isinstance(executor, str) and executor != PROCESSES:
        with opened_cluster(executor) as cluster:
            return run_study(
                config, workers=workers, keep=keep, progress=progress, store=store, executor=cluster
            )
    if isinstance(executor, str):
        workers, executor = workers or os.cpu_count() or 1, None
    algorithms = {entry.label: config.build(entry) for entry in config.algorithms}
    check_engine(config)
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    together = _at_once(list(algorithms.values()), config.seeds)
    if executor is None and workers != 1 and _on_accelerator(algorithms.values()):
        if together == 1:  # processes cannot share a device
            with ThreadPoolExecutor(workers or SHARES) as threads:
                return run_study(
                    config, keep=keep, progress=progress, store=store, executor=threads
                )
        workers = 1
    if executor is not None and workers is not None:
        raise InvalidValue(
            f"Expected workers={workers!r} to be None with an executor, which has its own."
        )
    cores = os.cpu_count() or 1
    total = len(config.algorithms) * config.seeds
    found = {} if store is None else _stored(store, len(config.algorithms), seeds)
    missing = {
        index: left
        for index in range(len(config.algorithms))
        if (left := [seed for seed in seeds if (index, seed) not in found])
    }

    def note(pairs: list[tuple[int, Pair]]) -> None:
        found.update({(index, pair[0].seed): pair for index, pair in pairs})
        if progress is not None:
            progress(len(found), total)

    if progress is not None:
        progress(len(found), total)
    here = partial(_task, config, keep, store, algorithms)
    elsewhere = partial(_task, config, keep, None if executor is not None else store, None)
    if executor is not None:
        # another machine may not see the folder of the store: results are saved here

        def save(_: Sequence[Any], pairs: list[tuple[int, Pair]]) -> None:
            if store is not None:
                for index, pair in pairs:
                    store.save(index, pair)
            note(pairs)

        tasks = _tasks(config, missing, SHARES)
        run_in_executor(elsewhere, tasks, executor, save, loaded_plugins())
    else:
        tasks = _tasks(config, missing, cores if workers is None else workers, together)
        if workers is None:
            tasks = _played_here(here, elsewhere, tasks, cores, note)
            workers = cores
        if workers == 1:
            for task in tasks:
                note(here(*task))
        elif tasks:
            _in_processes(elsewhere, tasks, workers, note, found)
    ordered = [found[key] for key in sorted(found)]
    results = _share_comparators(config, [r for r, _ in ordered])
    return Study(config, algorithms, results, [k for _, k in ordered if k is not None])


def run(
    environment: Environment | Any,
    algorithms: Mapping[str, AlgorithmSpec] | None = None,
    *,
    seeds: int = 20,
    seed: int = 0,
    title: str = "Regret over time",
    alone: bool = False,
    workers: int | None = None,
    executor: Executor | str | None = None,
    out: str | Path | None = None,
    progress: bool | Progress | None = None,
) -> Study:
    """Run several algorithms on the same losses, drawn or recorded, over several seeds.

    Parameters
    ----------
    environment
        Where the losses come from: an environment, an array (rounds, clients, experts) of recorded
        losses in [0, 1], or a DataFrame with the columns round, client and one for each expert.
    algorithms
        The algorithms by label. None (default): `hr.Private()` beside `hr.AdaHedge`, which is not
        private, and an expert at random.
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
        An accelerator has one process, which may play seeds and settings together; results then
        depend on what is played together, by rounding errors of 24 bits.
    executor
        A `concurrent.futures` executor that plays the seeds instead, on this machine or others, or
        "dask://HOST:PORT", "ray" or "processes". The results are the same, bit for bit.
    out
        A new run folder for `hedgerow view` and others. Each result is saved as soon as it is
        finished: after an interruption the same call goes on where it was. An array or a DataFrame
        is saved beside it, in `NAME.losses.parquet`.
    progress
        Whether to show how many games were played; None: if it takes a while in a terminal. Or a
        function that is called with the number of games played and their total.

    Returns
    -------
    Study
        The results. Print it for a table; `study["label"]` is one algorithm. It is a DataFrame to
        other libraries: `polars.from_dataframe(study)`.

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
    elif is_frame(environment):
        frame: Any = environment
        environment = Recorded(frame)
    if not isinstance(environment, Environment):
        raise InvalidValue(
            "Expected an environment such as hr.Realizable(...), hr.Recorded(file), a NumPy "
            f"array or a DataFrame of losses (rounds, clients, experts), got {_named(environment)}."
        )
    if algorithms is None:
        spec = Private()
        name = f"private: {ALGORITHMS.name_of(spec)}"
        open_, random = "not private: ada_hedge", "an expert at random"
        algorithms = {name: spec, open_: AdaHedge(), random: Uniform()}
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
    entries = entries_with_alone(entries) if alone else entries
    show = Counter() if progress in (None, True) else progress or None
    if isinstance(show, Counter):
        show.patience = 0.0 if progress else PATIENCE
    options: dict[str, Any] = {"workers": workers, "executor": executor, "progress": show}
    config = StudyConfig(title, environment, entries, seeds, first_seed=seed)
    if out is None:
        return run_study(config, **options)
    from hedgerow.studies.storage.saving import run_and_save

    return run_and_save(config, Path(out), options)


PATIENCE = 2.0  # seconds before progress is shown by itself


class Counter:
    """Shows in one line of a terminal how many games were played."""

    def __init__(self) -> None:
        self.patience, self._began, self._shown = PATIENCE, perf_counter(), False

    def __call__(self, done: int, total: int) -> None:
        if not sys.stderr.isatty() or perf_counter() - self._began < self.patience:
            return
        ending = "\n" if done == total and self._shown else ""
        self._shown = True
        sys.stderr.write(f"\r{done} of {total} games played{ending}")
        sys.stderr.flush()


def _named(thing: object) -> str:
    """A wrong argument, as an error names it."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}; write {thing.__name__}(...)"
    return type(thing).__name__
