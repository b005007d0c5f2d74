"""The tables of the page "Choose an algorithm": every candidate measured on every stream.

`python -m hedgerow_papers.choose_chart --seeds 20 > docs/choose.json` measures them again. It takes
about four minutes on one core.

An algorithm is judged by its worst stream of the kind. A choice is computed for every kind, trust
and number of exchanges (`choices`):

* Candidates are the private algorithms that work with the given trust and number of exchanges, and
  that have at most half the regret of random play on their worst stream.
* The best has the smallest mean regret on its worst stream. Every candidate within the best one's
  half-width is named.
* A delta is used only if no candidate with delta = 0 is within that half-width.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

from hedgerow.algorithms.shared.noisy_reports import Trust
from hedgerow.cli.output import print_json, progress_bar
from hedgerow.core.environment import Environment
from hedgerow.core.validate import at_least, parameters
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.choose.candidates import (
    EPSILON,
    GUESSING,
    KINDS,
    TALKS,
    TRUSTS,
    Candidate,
    Kind,
    bound_on,
    chooser_candidates,
    chooser_streams,
    compared,
    played,
)
from hedgerow.studies.config import Entry
from hedgerow.version import __version__

FORMAT = 1


@dataclass(frozen=True)
class Row:
    """One candidate, measured: its regret on every stream, and the proven bound where one covers
    the stream.
    """

    candidate: Candidate
    regret: Mapping[str, Estimate]
    bound: Mapping[str, float | None]

    def worst(self, kind: Kind) -> tuple[str, Estimate]:
        """The stream of the kind with the largest mean regret."""
        stream = max(kind.streams, key=lambda name: self.regret[name].mean)
        return stream, self.regret[stream]

    def proven(self, kind: Kind, rounds: Mapping[str, int]) -> float | None:
        """The largest bound over the streams of the kind, if all are covered and none is as large
        as the number of rounds.
        """
        bounds = [(self.bound[name], rounds[name]) for name in kind.streams]
        if any(bound is None or bound >= horizon for bound, horizon in bounds):
            return None
        return max(bound for bound, _ in bounds if bound is not None)


@dataclass(frozen=True)
class Choice:
    """What to take: labels with delta = 0, labels where a delta is allowed too, and the one with
    the smallest proven bound.
    """

    kind: str
    trust: Trust
    talk: str
    pure: tuple[str, ...]
    approximate: tuple[str, ...]
    proven: str | None
    proven_bound: float | None


def charted() -> dict[str, Environment]:
    """The streams of the chart."""
    used = {name for kind in KINDS for name in kind.streams}
    return {name: game for name, game in chooser_streams().items() if name in used}


def measure(seeds: int, progress: Callable[[str, int, int], None] | None = None) -> list[Row]:
    """The regret of every candidate on every stream;

    `progress(stream, done, total)` counts streams times seeds.
    """
    entrants, games = chooser_candidates(), charted()
    entries = tuple(Entry(candidate.label, candidate.spec) for candidate in entrants)
    regrets: dict[tuple[str, str], list[float]] = {}
    done, total = 0, len(games) * seeds
    for name, environment in games.items():
        for seed in range(seeds):
            if progress is not None:
                progress(name, done, total)
            for result in played(name, environment, entries, seed):
                regret = result.regret_with(sum(compared(name, environment)))
                regrets.setdefault((result.label, name), []).append(regret)
            done += 1
    return [
        Row(
            candidate,
            {name: Estimate.of(regrets[candidate.label, name]) for name in games},
            {
                name: bound_on(name, environment, candidate.spec)
                for name, environment in games.items()
            },
        )
        for candidate in entrants
    ]


def of_kind(rows: Iterable[Row], kind: Kind) -> list[Row]:
    """The rows whose parameters can be known in this kind of losses."""
    return [row for row in rows if row.candidate.only in (None, kind.id)]


def admitted(rows: Iterable[Row], kind: Kind, trust: Trust, talk: str) -> list[Row]:
    """The private candidates that need no more knowledge, trust and talk than there is."""
    return [
        row
        for row in of_kind(rows, kind)
        if row.candidate.private
        and TRUSTS.index(row.candidate.trust or "central") >= TRUSTS.index(trust)
        and TALKS.index(row.candidate.talk) >= TALKS.index(talk)
    ]


def recommended(rows: Sequence[Row], kind: Kind, guessing: Row) -> tuple[str, ...]:
    """The labels within one half-width of the smallest worst mean, the smallest first.

    A row with more than half the regret of guessing, on its worst stream, is left out.
    """
    scored = []
    for row in rows:
        stream, worst = row.worst(kind)
        if worst.mean <= guessing.regret[stream].mean / 2:
            scored.append((worst, row.candidate.label))
    scored.sort(key=lambda one: one[0].mean)
    return tuple(label for worst, label in scored if worst.mean <= scored[0][0].high)


def choices(rows: Sequence[Row]) -> list[Choice]:
    """What follows from the measured rows, for every kind, trust and talk."""
    guessing = next(row for row in rows if row.candidate.name == GUESSING)
    rounds = {name: environment.setting.rounds for name, environment in chooser_streams().items()}
    found = []
    for kind in KINDS:
        for trust in TRUSTS:
            for talk in TALKS:
                some = admitted(rows, kind, trust, talk)
                pure = recommended(
                    [row for row in some if row.candidate.delta == 0], kind, guessing
                )
                either = recommended(some, kind, guessing)
                helps = not any(
                    row.candidate.label in either for row in some if row.candidate.delta == 0
                )
                proven = [
                    (bound, row.candidate.label)
                    for row in some
                    if (bound := row.proven(kind, rounds)) is not None
                ]
                bound, label = min(proven, default=(None, None))
                found.append(
                    Choice(kind.id, trust, talk, pure, either if helps else pure, label, bound)
                )
    return found


def document(rows: Sequence[Row], seeds: int) -> dict[str, Any]:
    """Everything that is stored in `docs/choose.json`."""
    return {
        "format": FORMAT,
        "version": __version__,
        "command": f"python -m hedgerow_papers.choose_chart --seeds {seeds}",
        "seeds": seeds,
        "epsilon": EPSILON,
        "trusts": list(TRUSTS),
        "talks": list(TALKS),
        "streams": {name: _stream(environment) for name, environment in charted().items()},
        "kinds": [asdict(kind) for kind in KINDS],
        "rows": [_row(row) for row in rows],
        "choices": [asdict(choice) for choice in choices(rows)],
    }


def _stream(environment: Environment) -> dict[str, Any]:
    return {"adversary": environment.traits.adversary, **parameters(environment)}


def _row(row: Row) -> dict[str, Any]:
    candidate = row.candidate
    return {
        "label": candidate.label,
        "algorithm": candidate.name,
        "trust": candidate.trust,
        "talk": candidate.talk,
        "delta": candidate.delta,
        "only": candidate.only,
        "private": candidate.private,
        "regret": {name: _cell(estimate) for name, estimate in row.regret.items()},
        "bound": dict(row.bound),
    }


def _cell(estimate: Estimate) -> dict[str, float | None]:
    return {
        "mean": estimate.mean,
        "half_width": None if isnan(estimate.half_width) else estimate.half_width,
    }


def main(arguments: Sequence[str]) -> int:
    """Measure the tables and print them as JSON."""
    parser = argparse.ArgumentParser(prog="python -m hedgerow_papers.choose_chart")
    parser.add_argument("--seeds", type=int, default=20, help="of each stream, at least 2")
    count = parser.parse_args(arguments).seeds
    at_least("seeds", count, 2)
    with progress_bar("choose") as update:
        rows = measure(count, lambda name, done, all_: update(f"playing {name}", done, all_))
    print_json(document(rows, count))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
