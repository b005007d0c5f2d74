"""Run several experiments at a time, each in a separate process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from hedgerow.core.registry import EXPERIMENTS, load_plugins, loaded_plugins
from hedgerow.studies.workers import run_in_processes

FEW = 3  # experiments for which starting processes costs more than it saves
LONGEST = (
    "zhang2024-figure4",
    "zhang2024-figure3",
    "certified-vs-published",
    "prior-work",
    "asi2023-separation",
    "distance-to-lower-bound",
    "asi2023-pure-approximate",
    "jacobsen2025-table1",
    "asi2023-rates",
    "jacobsen2025-figure2",
    "cesari2026-horizon",
    "asi2023-table1",
    "gao2024-communication",
    "gao2024-speedup",
)
"""Experiments whose quick forms take longest. They begin first, so that the cores end together."""

Result = TypeVar("Result")


def side_by_side(
    names: Sequence[str],
    workers: int | None,
    here: Callable[[str], Result],
    elsewhere: Callable[[str], Result],
    done: Callable[[str, Result], None],
) -> None:
    """Call `done(name, result)` for every experiment, as each of them ends.

    If there are several cores and more than a few installed experiments, they share the cores, and
    `elsewhere(name)` is called in a separate process. The others run one after the other, by
    `here(name)`.
    """
    count = (os.cpu_count() or 1) if workers is None else workers
    installed = EXPERIMENTS.installed()
    known = [name for name in LONGEST if name in names]
    known += [name for name in names if name in installed and name not in LONGEST]
    if count > 1 and len(known) > FEW:
        run_in_processes(
            elsewhere,
            [(name,) for name in known],
            min(count, len(known)),
            lambda task, result: done(task[0], result),
            partial(load_plugins, loaded_plugins()),
        )
        names = [name for name in names if name not in installed]
    for name in names:
        done(name, here(name))
