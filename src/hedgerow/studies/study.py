"""The results of a study: by label, as a table, as a frame, as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.certificate import Certificate
from hedgerow.core.errors import InvalidValue
from hedgerow.core.protocol import Algorithm
from hedgerow.core.validate import nearest
from hedgerow.environments.adversaries import covered
from hedgerow.evaluation.recorder import RunResult
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import Stream, SummaryRow, summarise, summary_text
from hedgerow.records.schema import STAMP
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.notes import notes
from hedgerow.studies.storage.results import Kept

ROWS_SHOWN = 15


@dataclass(frozen=True)
class AlgorithmResult:
    """One algorithm of a study: its parameters, its guarantees and its results on every seed.

    Parameters
    ----------
    label
        The name it has in the study.
    algorithm
        The algorithm with all its parameters resolved.
    results
        One result per seed.
    regret_bound
        The proven bound on its expected regret on these losses; None if nothing is proven.
    notes
        What a reader should know: a bound that does not apply, a budget that is too small.
    """

    label: str
    algorithm: Algorithm
    results: list[RunResult]
    regret_bound: float | None
    notes: list[str]

    @property
    def certificate(self) -> Certificate:
        """What each observer can learn."""
        return self.algorithm.certificate

    @property
    def regrets(self) -> np.ndarray:
        """The final regret on each seed."""
        return np.array([result.final_regret for result in self.results])

    @property
    def regret(self) -> Estimate:
        """The mean of the final regret, with its 95 % interval."""
        return Estimate.of(self.regrets)


@dataclass(frozen=True, repr=False)
class Study:
    """The results of a study: every algorithm on every seed.

    Print it for the summary table. `study["label"]` is one algorithm with its certificate and
    results.

    Parameters
    ----------
    config
        What was run.
    algorithms
        The algorithms by label, with all parameters resolved.
    results
        One result for every label and seed.
    kept
        All plays and messages, if they were kept.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Realizable(clients=2, experts=4, horizon=50)
    >>> study = hr.run(game, {"leader": hr.FollowTheLeader(), "random": hr.Uniform()}, seeds=3)
    >>> study["leader"].regret.mean < study["random"].regret.mean
    True
    >>> sorted(study.to_frame())[:3]
    ['broadcast_bytes', 'broadcast_scalars', 'exchanges']
    """

    config: StudyConfig
    algorithms: dict[str, Algorithm]
    results: list[RunResult]
    kept: list[Kept]

    def __getitem__(self, label: str) -> AlgorithmResult:
        entry = self._entry(label)
        bound, note = (
            self.regret_bounds()[label],
            notes(self.algorithms[label], self.config.environment_of(entry)),
        )
        return AlgorithmResult(label, self.algorithms[label], self.of(label), bound, note)

    def _entry(self, label: str) -> Entry:
        for entry in self.config.algorithms:
            if entry.label == label:
                return entry
        raise InvalidValue(f"Unknown label {label!r}; {nearest(str(label), self.algorithms)}")

    @cached_property
    def _by_label(self) -> dict[str, list[RunResult]]:
        groups: dict[str, list[RunResult]] = {entry.label: [] for entry in self.config.algorithms}
        for result in self.results:
            groups[result.label].append(result)
        return groups

    def of(self, label: str) -> list[RunResult]:
        """The results of one label, by seed."""
        self._entry(label)
        return self._by_label[label]

    def regrets(self, label: str) -> np.ndarray:
        """The final regret of one label, a value for each seed."""
        return np.array([result.final_regret for result in self.of(label)])

    def regret(self, label: str) -> Estimate:
        """The mean final regret of one label, with its 95 % interval."""
        return Estimate.of(self.regrets(label))

    def summary(self) -> list[SummaryRow]:
        """One row per label; the columns are described in `hedgerow.evaluation.summary`."""
        return summarise(self.results, self.regret_bounds())

    def streams(self) -> dict[str, Stream]:
        """The losses of algorithms and comparators by stream; the common stream is named ""."""
        groups: dict[int, list[RunResult]] = {}
        for index, entry in enumerate(self.config.algorithms):
            groups.setdefault(self.config.stream_of(index), []).extend(self.of(entry.label))
        streams: dict[str, Stream] = {}
        for index, group in groups.items():
            name = self.config.stream_name(index)
            streams[name if name not in streams else self.config.algorithms[index].label] = (
                Stream.of(group)
            )
        return streams

    def regret_bounds(self) -> dict[str, float | None]:
        """The proven bound on each label's expected regret here; None if none is proven."""
        bounds = {
            e.label: (self.algorithms[e.label].regret_bound, self.config.environment_of(e))
            for e in self.config.algorithms
        }
        return {
            label: bound.value if bound is not None and covered(bound, game) else None
            for label, (bound, game) in bounds.items()
        }

    def notes(self) -> dict[str, list[str]]:
        """Notes by label, such as a bound that does not apply or a budget that is too small."""
        found = {
            e.label: notes(self.algorithms[e.label], self.config.environment_of(e))
            for e in self.config.algorithms
        }
        return {label: lines for label, lines in found.items() if lines}

    def to_frame(self, curves: bool = False) -> Any:
        """The results as a tidy table: a pandas frame, or a dict of columns without pandas.

        Parameters
        ----------
        curves
            False: one row for each label and seed. True: one for each label, seed and recorded
            round.
        """
        table = _columns(self._curve_rows() if curves else self._final_rows())
        if find_spec("pandas") is None:
            return table
        import pandas  # pyright: ignore[reportMissingImports]

        return pandas.DataFrame(table)

    def _final_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "label": r.label,
                "seed": r.seed,
                "regret": r.final_regret,
                "own_best_regret": r.own_best_regret,
                "loss": float(r.loss[-1]),
                "switches": r.switches,
                "exchanges": r.exchanges,
                "uploaded_scalars": r.uploaded_scalars,
                "uploaded_bytes": r.uploaded_bytes,
                "broadcast_scalars": r.broadcast_scalars,
                "broadcast_bytes": r.broadcast_bytes,
                **{f"loss of {name}": loss for name, loss in r.comparators.items()},
            }
            for r in self.results
        ]

    def _curve_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "label": r.label,
                "seed": r.seed,
                "round": int(at),
                "loss": float(loss),
                "regret": float(regret),
            }
            for r in self.results
            for at, loss, regret in zip(r.rounds, r.loss, r.regret, strict=True)
        ]

    def plot(self, path: str | Path, title: str | None = None) -> None:
        """Draw regret over time with 95 % bands into a PNG file."""
        from hedgerow.evaluation.plots.over_time import plot_regret_over_time

        note = f"mean over {self._seeds()}, band: 95 % confidence of the mean; {STAMP}"
        plot_regret_over_time(
            self.results, Path(path), self.config.title if title is None else title, note
        )

    def _seeds(self) -> str:
        return f"{self.config.seeds} seed{'s' if self.config.seeds > 1 else ''}"

    def __str__(self) -> str:
        lines = [
            f"{label}: note: {note}" for label, found in self.notes().items() for note in found
        ]
        return "\n".join([summary_text(self.summary()), *lines, STAMP])

    def __repr__(self) -> str:
        """One screen: what was run, the first rows of the summary, and what was left out."""
        rows, setting = self.summary(), self.config.environment.setting
        game = f"{setting.clients} clients, {setting.experts} experts, {setting.horizon} rounds"
        kind = type(self.config.environment).__name__
        head = f"<Study {self.config.title!r}: {kind}, {game}, {self._seeds()}>"
        more = [] if len(rows) <= ROWS_SHOWN else [f"... and {len(rows) - ROWS_SHOWN} more labels"]
        return "\n".join([head, summary_text(rows[:ROWS_SHOWN]), *more, STAMP])


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}
