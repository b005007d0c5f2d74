"""A study that was run: results by label, a table, a frame, a picture, and notes for its reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.certificate import Certificate, Observer
from hedgerow.core.environment import Environment, Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.core.extras import needs
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.core.validate import nearest
from hedgerow.environments.adversaries import bound_for, covered, good_enough, holds_for
from hedgerow.environments.hard.lower_bounds import hidden_expert_regret
from hedgerow.environments.measures import measures_of
from hedgerow.evaluation.recorder import BEST_EXPERT, MEAN_EXPERT, RunResult
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import (
    Stream,
    SummaryRow,
    aligned,
    bound_words,
    summarise,
    summary_text,
)
from hedgerow.records.schema import STAMP
from hedgerow.studies.config import ALONE, Entry, StudyConfig
from hedgerow.studies.followed import (
    ClientResult,
    Followed,
    client_results,
    followed_in_results,
    segment_table,
)
from hedgerow.studies.storage.unfinished import Kept

ROWS_SHOWN = 15
FOLLOWING = ("follows", "at the end", "in all rounds", "best in hindsight")
ROUNDING = 1e-12  # of a bound that is capped at the largest regret
CLEARLY = 0.9  # of the regret of a random expert: less is clearly less


@dataclass(frozen=True, repr=False)
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
    followed
        Which experts were followed, by name; None for points that are no weights.
    clients
        The result of every client; empty where only sums over clients were drawn.
    """

    label: str
    algorithm: Algorithm
    results: list[RunResult]
    regret_bound: float | None
    notes: list[str]
    followed: Followed | None
    clients: list[ClientResult]

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

    def __repr__(self) -> str:
        lines = [f"<{self.label}: {self.algorithm.name}, regret {self.regret}>"]
        return "\n".join([*lines, *(g.words() for g in self.certificate.guarantees)])


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
        bound, found = self.regret_bounds()[self._entry(label).label], self.notes_on(label)
        return AlgorithmResult(
            label,
            self.algorithms[label],
            self.of(label),
            bound,
            found,
            self.followed(label),
            self.clients_of(label),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.algorithms)

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
        return summarise(self.results, self.regret_bounds(), self._counts())

    def _counts(self) -> frozenset[str]:
        """The names of the measures that count things."""
        return frozenset(
            measure.name
            for e in self.config.algorithms
            for measure in measures_of(self.algorithms[e.label], self.config.environment_of(e))
            if measure.counts
        )

    def meanings(self) -> dict[str, str]:
        """What the further figures mean, by name."""
        return {
            measure.name: measure.meaning
            for e in self.config.algorithms
            for measure in measures_of(self.algorithms[e.label], self.config.environment_of(e))
        }

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
            e.label: (self.algorithms[e.label].claims.regret_bound, self.config.environment_of(e))
            for e in self.config.algorithms
        }
        return {
            label: bound.value if bound is not None and covered(bound, game) else None
            for label, (bound, game) in bounds.items()
        }

    def followed(self, label: str) -> Followed | None:
        """Which experts a label followed, by name; None for points that are no weights."""
        return followed_in_results(self.of(label), self.config.environment_of(self._entry(label)))

    def following_table(self) -> list[list[str]]:
        """Who was followed, with headings; empty if nothing is known."""
        found = {label: self.followed(label) for label in self.algorithms}
        rows = [[label, *one.cells()] for label, one in found.items() if one is not None]
        return [list(FOLLOWING), *rows] if rows else []

    def segment_table(self) -> list[list[str]]:
        """The regret in each segment of the best sequence of experts, with headings.

        Empty unless `comparator_switches` asks for a sequence; it is the one with most changes.
        """
        return segment_table(self._by_label, self.config.environment)

    def clients_of(self, label: str) -> list[ClientResult]:
        """The result of every client; its gain is known if the study has the label alone, too."""
        alone = self.of(label + ALONE) if label + ALONE in self.algorithms else []
        environment = self.config.environment_of(self._entry(label))
        return client_results(self.of(label), alone, environment)

    def clients(self) -> Any:
        """The results of every client and label: a pandas frame, or a dict of columns."""
        rows = [
            {"label": label, **asdict(one)}
            for label in self.algorithms
            for one in self.clients_of(label)
        ]
        return _frame(_columns(rows))

    def notes(self) -> dict[str, list[str]]:
        """Notes by label: a bound that does not apply, a budget too small, no more than a guess."""
        found = {entry.label: self.notes_on(entry.label) for entry in self.config.algorithms}
        return {label: lines for label, lines in found.items() if lines}

    def notes_on(self, label: str) -> list[str]:
        """The notes on one label; often none."""
        entry, algorithm = self._entry(label), self.algorithms[label]
        own_server = entry.alone and any(g.protects for g in algorithm.certificate.guarantees)
        return [
            *(["each client is its own server, and nothing is sent"] if own_server else []),
            *study_notes(algorithm, self.config.environment_of(entry)),
            *_like_guessing(algorithm, self.of(label)),
            *self._measured_notes(entry),
        ]

    def _measured_notes(self, entry: Entry) -> list[str]:
        """The notes of measures on their final values, added up over seeds."""
        results, environment = self.of(entry.label), self.config.environment_of(entry)
        measures = measures_of(self.algorithms[entry.label], environment)
        found = (
            measure.note(sum(float(r.figures[measure.name][-1]) for r in results))
            for measure in measures
            if all(measure.name in r.figures for r in results)
        )
        return [note for note in found if note]

    def together(self) -> dict[str, Estimate]:
        """The regret of each label minus that of its clients alone, if both were played."""
        labels = [entry.label for entry in self.config.algorithms]
        return {
            label: Estimate.of(self.regrets(label) - self.regrets(label + ALONE))
            for label in labels
            if label + ALONE in labels
        }

    def together_words(self) -> list[str]:
        """One line for each label that was played together and alone."""
        found = []
        for label, change in self.together().items():
            gains = [one.gain > 0 for one in self.clients_of(label)]
            who = f"; {sum(gains)} of {len(gains)} clients gain" if gains else ""
            text = "together instead of alone changes the regret by"
            found.append(f"{label}: {text} {change.words(sign=True)}{who}")
        return found

    def note_lines(self) -> list[str]:
        """All notes, one line each; labels with the same note share a line."""
        found: dict[str, list[str]] = {}
        for label, notes in self.notes().items():
            for note in notes:
                found.setdefault(note, []).append(label)
        lines = [f"{'; '.join(labels)}: note: {note}" for note, labels in found.items()]
        return lines + [f"note: {note}" for note in self.data_notes()]

    def data_notes(self) -> list[str]:
        """Notes on the data themselves, such as how many forecast errors were clipped."""
        games = [self.config.environment_of(entry) for entry in self.config.algorithms]
        return list(dict.fromkeys(note for game in games for note in game.notes()))

    def to_frame(self, curves: bool = False) -> Any:
        """The results as a tidy table: a pandas frame, or a dict of columns without pandas.

        Parameters
        ----------
        curves
            False: one row for each label and seed. True: one for each label, seed and recorded
            round.
        """
        return _frame(_columns(self._curve_rows() if curves else self._final_rows()))

    def _arrow(self) -> Any:
        with needs("runs"):
            import pyarrow

        return pyarrow.table(_columns(self._final_rows()))

    def __dataframe__(self, *args: Any, **more: Any) -> Any:
        """The results by label and seed for other libraries (the dataframe interchange)."""
        return self._arrow().__dataframe__(*args, **more)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The same for libraries that read Arrow."""
        return self._arrow().__arrow_c_stream__(requested_schema)

    def unit_lines(self) -> list[str]:
        """What was lost in a round, in the unit of the target, where losses are errors."""
        unit = self.config.environment.unit
        if unit == 1:
            return []
        found = []
        for name in self.algorithms:
            rows = self.clients_of(name)
            mean = sum(one.loss for one in rows) / max(len(rows), 1)
            found.append(f"{name} {mean:.3g}")
        return [f"mean error in a round, in the unit of the target: {', '.join(found)}"]

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
                **{name: float(curve[-1]) for name, curve in r.figures.items()},
            }
            for r in self.results
        ]

    def _curve_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "label": r.label,
                "seed": r.seed,
                "round": int(r.rounds[at]),
                "loss": float(loss),
                "regret": float(regret),
                **{name: float(curve[at]) for name, curve in r.figures.items()},
            }
            for r in self.results
            for at, (loss, regret) in enumerate(zip(r.loss, r.regret, strict=True))
        ]

    def plot(self, path: str | Path, title: str | None = None) -> None:
        """Draw regret over time with 95 % bands into a PNG file."""
        from hedgerow.evaluation.plots.canvas import Role, role_of
        from hedgerow.evaluation.plots.over_time import plot_regret_over_time

        note = f"mean over {self._seeds()}, band: 95 % confidence of the mean; {STAMP}"
        bounds = [self.config.environment_of(e).family.bounds for e in self.config.algorithms]
        reach = max(high - low for low, high in bounds)
        heading = self.config.title if title is None else title
        alone = [entry.label for entry in self.config.algorithms if entry.alone]
        roles: dict[str, Role] = {
            label: role_of(self.algorithms[label].certificate) for label in self.algorithms
        }
        plot_regret_over_time(self.results, Path(path), heading, note, reach, roles, alone)

    def _seeds(self) -> str:
        return f"{self.config.seeds} seed{'s' if self.config.seeds > 1 else ''}"

    def __str__(self) -> str:
        lines = [*self.unit_lines(), *self.together_words(), *self.note_lines()]
        followed = self.following_table()
        who = [aligned(followed, left=True)] if followed else []
        segments = self.segment_table()
        who += [aligned(segments)] if segments else []
        return "\n".join([summary_text(self.summary()), *who, *lines, STAMP])

    def _repr_html_(self) -> str:
        """The report, as notebooks show it: pictures, tables and certificates."""
        from hedgerow.studies.report import regret_curves, report_fragment, study_summary

        return report_fragment(study_summary(self), regret_curves(self))

    def __repr__(self) -> str:
        """One screen: what was run, the first rows of the summary, and what was left out."""
        rows, setting = self.summary(), self.config.environment.setting
        width = "experts" if setting.family.linear else "coordinates"
        many = f"{setting.clients} client{'s' if setting.clients != 1 else ''}"
        game = f"{many}, {setting.experts} {width}, {setting.rounds} rounds"
        kind = type(self.config.environment).__name__
        head = f"<Study {self.config.title!r}: {kind}, {game}, {self._seeds()}>"
        more = [] if len(rows) <= ROWS_SHOWN else [f"... and {len(rows) - ROWS_SHOWN} more labels"]
        return "\n".join([head, summary_text(rows[:ROWS_SHOWN]), *more, STAMP])


def _frame(table: dict[str, list[Any]]) -> Any:
    if find_spec("pandas") is None:
        return table
    import pandas  # pyright: ignore[reportMissingImports]

    return pandas.DataFrame(table)


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}


def study_notes(algorithm: Algorithm, environment: Environment) -> list[str]:
    """All notes on an algorithm in this game; often none."""
    outside = _not_covered(algorithm, environment)
    return [*outside, *budget_notes(algorithm, bound=not outside)]


def budget_notes(algorithm: Algorithm, bound: bool = True) -> list[str]:
    """The notes that apply for any losses: a vacuous bound, a budget too small, a large delta."""
    return [
        *(_vacuous_bound(algorithm) if bound else []),
        *(_too_private(algorithm) if _usual_game(algorithm) else []),
        *_too_few_voters(algorithm),
        *_large_delta(algorithm),
    ]


def _too_few_voters(algorithm: Algorithm) -> list[str]:
    """A note if whole voters cannot be protected and heard (`vote_selection.md#lower-bound`)."""
    known, setting = algorithm.parameters, algorithm.setting
    error, voters = known.get("error_at_least", 0.0), f"{setting.clients} clients"
    voters = f"{known['voters']} people" if "voters" in known else voters
    if error < (1 - 1 / setting.experts) / 2 or setting.experts == 1:
        return []
    return [
        f"nothing can be learned: even if all {voters} prefer one expert, a "
        f"choice that protects each so well is another one with a chance of at least {error:.2f}. "
        f"Take more {voters.split()[1]}, a larger epsilon or a smaller unit"
    ]


def _usual_game(algorithm: Algorithm) -> bool:
    """Whether experts have losses in [0, 1], in a known number of rounds."""
    setting = algorithm.setting
    known = setting.horizon is not None and algorithm.plays == "expert"
    return known and setting.family == LOSSES


def _vacuous_bound(algorithm: Algorithm) -> list[str]:
    """A note if the bound is not below the largest regret, which no algorithm exceeds."""
    bound, setting = algorithm.claims.regret_bound, algorithm.setting
    if bound is None or setting.horizon is None:
        return []
    low, high = setting.family.bounds
    if bound.value < setting.horizon * (high - low) * (1 - ROUNDING):
        guess = _guessing(setting)
        if not _usual_game(algorithm) or bound.value < guess * (1 - ROUNDING):
            return []
        return [
            f"the regret bound of {algorithm.name}, {bound_words(bound.value)}, promises no more "
            f"than guessing: a random expert never has more than {bound_words(guess)}"
        ]
    text = f"the regret bound of {algorithm.name} is vacuous here"
    if _usual_game(algorithm):
        return [f"{text}: it is the number of rounds, {setting.rounds:,}, and no regret is larger"]
    return [f"{text}: no regret is larger than {bound_words(setting.horizon * (high - low))}"]


def _not_covered(algorithm: Algorithm, environment: Environment) -> list[str]:
    bound = algorithm.claims.regret_bound
    if bound is None or covered(bound, environment):
        return []
    family = algorithm.setting.family
    text = f"the regret bound of {algorithm.name} is for {bound_for(bound, family)}"
    if not good_enough(bound, environment):
        return [f"{text}; this environment promises no such expert, so nothing is proven here"]
    asleep = Feature.SLEEPING_EXPERTS in environment.traits.features
    reacts = holds_for(environment.traits.adversary, family)
    here = "experts that sleep" if asleep and not environment.traits.sees_plays else reacts
    return [f"{text}; this environment has {here}, for which nothing is proven"]


def _guessing(setting: Setting) -> float:
    """The largest expected regret of a random expert, reached if one expert is never wrong."""
    return setting.rounds * (1 - 1 / setting.experts)


def _like_guessing(algorithm: Algorithm, results: Sequence[RunResult]) -> list[str]:
    """A note if the measured regret is not clearly below that of a random expert.

    Clearly: with 95 % confidence at most nine tenths of it. The guess loses the mean of all
    experts, on the same losses.
    """
    known = all({MEAN_EXPERT, BEST_EXPERT} <= set(r.comparators) for r in results)
    if not results or not known or algorithm.name == "uniform":
        return []
    guess = np.array([r.comparators[MEAN_EXPERT] - r.comparators[BEST_EXPERT] for r in results])
    regret = np.array([result.final_regret for result in results])
    excess = Estimate.of(regret - CLEARLY * guess)
    highest = excess.high if isfinite(excess.half_width) else excess.mean
    if guess.mean() <= ROUNDING or highest < 0:
        return []
    word = "no" if regret.mean() >= guess.mean() else "not clearly"
    return [
        f"{word} better than guessing: the regret is {Estimate.of(regret).words()}, "
        f"and that of a random expert {guess.mean():.2f}"
    ]


def _too_private(algorithm: Algorithm) -> list[str]:
    """A note if no algorithm with this guarantee does much better than guessing.

    The game it is judged by is easy: one expert is never wrong and all others always are.
    """
    guarantee, setting = algorithm.certificate.guarantee(Observer.PUBLIC), algorithm.setting
    epsilon, delta = guarantee.curve.stated()
    if not guarantee.protects or epsilon <= 0:
        return []
    least, guessing = hidden_expert_regret(setting, epsilon, delta), _guessing(setting)
    if least <= guessing / 2 or setting.rounds <= 2:  # two rounds are too few for any algorithm
        return []
    clients = "1 client" if setting.clients == 1 else f"{setting.clients} clients"
    budget = f"epsilon = {epsilon:.3g}" + (f", delta = {delta:.3g}" if delta > 0 else "")
    game = f"{budget} with {clients}, {setting.experts} experts and {setting.rounds} rounds"
    text = (
        "is too little to learn from: "
        "even if one expert is never wrong and all others always are (`hidden_expert`), "
        f"every algorithm with this guarantee has a regret of at least {least:.3g}; "
        f"guessing has {guessing:.3g}"
    )
    return [f"{game} {text}"]


def _large_delta(algorithm: Algorithm) -> list[str]:
    """A note if delta is so large that it hardly protects.

    Publishing each record with probability delta is (0, delta)-DP.
    """
    if algorithm.setting.horizon is None:
        return []
    guarantee, setting = algorithm.certificate.guarantee(Observer.PUBLIC), algorithm.setting
    delta, record = guarantee.curve.stated()[1], setting.family.record
    count = setting.clients * setting.rounds * record.each
    if not guarantee.protects or delta * count < 1:
        return []
    text = (
        f"delta = {delta:.3g} is large for {count} {record.plural}: "
        "it would allow publishing each of them with this probability"
    )
    return [f"{text}; choose delta well below {1 / count:.2g}"]
