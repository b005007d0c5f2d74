"""Which algorithm? A ranking for one setting, from streams like the user's or from the user's data.

An algorithm is judged by its worst stream among those that the user's knowledge of the losses does
not exclude. The measured regret is shown with what is proven: the algorithm's regret bound, and the
regret that no private algorithm avoids. Candidates and streams are those of `choose`, in the given
setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any

import numpy as np

from hedgerow.core.environment import Environment
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget, expect, nearest
from hedgerow.environments.adversaries import covered
from hedgerow.environments.hard.columns import MOST_USED
from hedgerow.environments.hard.lower_bounds import (
    coin_regret,
    consensus_regret,
    hidden_expert_regret,
)
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import aligned, bound_words, finite
from hedgerow.studies.choose.candidates import (
    CLIENTS,
    EXPERTS,
    GUESSING,
    HORIZON,
    KINDS,
    TALKS,
    TRUSTS,
    Candidate,
    Trust,
    candidates,
    same_for_all,
    streams,
)
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.run import run_study
from hedgerow.studies.study import CLEARLY

REACTING = "reacting"
OWN = "your data"
LOOKED = (
    "This ranking looked at your data. No certificate covers a choice that depends on protected "
    "data: choose by data that need no protection, or by streams like yours, without a file."
)
ANYWAY = "Privacy holds in any case, whatever the losses are; only the regret depends on them."

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Ranked:
    """One algorithm in a ranking.

    Parameters
    ----------
    label, algorithm
        Its name with its parameters, and its choices.
    trust
        The trust it needs; None: it is not private.
    stream
        Its worst stream.
    expected
        The mean regret on that stream, with its 95 % interval.
    proven
        The bound on its expected regret that covers every stream; None: there is none.
    guess, not_private
        The regret, on that stream, of a uniform guess and of the best algorithm without privacy.
    """

    label: str
    algorithm: AlgorithmSpec
    trust: Trust | None
    stream: str
    expected: Estimate
    proven: float | None
    guess: float
    not_private: float

    @property
    def price(self) -> float:
        """What privacy costs: the regret above that of the best algorithm without it."""
        return self.expected.mean - self.not_private

    @property
    def guesses(self) -> bool:
        """Whether the regret is not clearly below that of a uniform guess."""
        high = self.expected.high
        return (self.expected.mean if np.isnan(high) else high) >= CLEARLY * self.guess


@dataclass(frozen=True, repr=False)
class Ranking:
    """Algorithms for one setting, the best first; print it for a table.

    Parameters
    ----------
    setting
        The number of clients, experts and rounds.
    question
        The question in words.
    private, open
        The private algorithms, and those without privacy.
    least
        A regret that no algorithm with this budget avoids on every stream of the kind.
    left_out
        Why other candidates are not there, by label.
    looked
        Whether the ranking looked at the user's data.

    Examples
    --------
    >>> import hedgerow as hr
    >>> ranking = hr.choose("never", clients=20, experts=8, horizon=64, seeds=2)
    >>> ranking.best.expected.mean < ranking.best.guess
    True
    """

    setting: Setting
    question: str
    private: tuple[Ranked, ...]
    open: tuple[Ranked, ...]
    least: float
    left_out: Mapping[str, str]
    looked: bool

    @property
    def best(self) -> Ranked:
        """The private algorithm with the smallest expected regret."""
        return self.private[0]

    def lines(self) -> list[str]:
        """What to read with the table."""
        guess = "guess: regret of a uniform guess on the worst stream. " if self._several else ""
        found = [
            f"{guess}proven: bound on the expected regret that covers these losses. price: regret "
            "above that of the best algorithm without privacy.",
            "On the hardest losses of this kind and size, no algorithm with this budget has a "
            f"regret below {self.least:.3g}.",
        ]
        worse = [row.label for row in self.private if row.guesses]
        if len(worse) == len(self.private):
            found.append("No private algorithm is clearly better than guessing here.")
        elif worse:
            found.append(f"Not clearly better than guessing: {'; '.join(worse)}.")
        found += [f"Left out: {label}: {why}" for label, why in self.left_out.items()]
        return [*found, ANYWAY, *([LOOKED] if self.looked else [])]

    @property
    def _several(self) -> bool:
        """Whether not all rows have the same worst stream."""
        return len({row.stream for row in (*self.private, *self.open)}) > 1

    def table(self) -> list[list[str]]:
        """The cells of the table, with headings."""
        several = self._several
        worst = ["worst stream", "guess"] if several else []
        body = [
            [
                row.label + ("" if row.trust else " (not private)"),
                row.expected.words(),
                *([row.stream, f"{row.guess:.2f}"] if several else []),
                "-" if row.proven is None else bound_words(row.proven),
                f"{row.price:+.2f}" if row.trust else "",
            ]
            for row in (*self.private, *self.open)
        ]
        if not several:
            body.append(["a uniform guess", f"{self.best.guess:.2f}", "", ""])
        return [["", "expected regret", *worst, "proven", "price"], *body]

    def __str__(self) -> str:
        return "\n".join([self.question, aligned(self.table()), *self.lines()])

    __repr__ = __str__

    def to_json(self) -> dict[str, Any]:
        """The ranking as plain values."""
        size = {name: getattr(self.setting, name) for name in ("clients", "experts", "horizon")}
        rows = [
            {
                "label": row.label,
                "trust": row.trust,
                "stream": row.stream,
                "regret": row.expected.mean,
                "half_width": finite(row.expected.half_width),
                "proven": row.proven,
                "guess": row.guess,
                "not_private": row.not_private,
                "better_than_guessing": not row.guesses,
            }
            for row in (*self.private, *self.open)
        ]
        return {
            "question": self.question,
            "setting": size,
            "rows": rows,
            "lower_bound": self.least,
            "left_out": dict(self.left_out),
            "notes": self.lines(),
        }


def choose(
    losses: str | Environment | np.ndarray = "fixed",
    *,
    clients: int | None = None,
    experts: int | None = None,
    horizon: int | None = None,
    epsilon: float = 1.0,
    delta: float = 0.0,
    trust: Trust = "central",
    every: int = 1,
    best_loss: float = 0.0,
    seeds: int = 5,
    progress: Progress | None = None,
) -> Ranking:
    """Rank the private algorithms for a setting by their regret on streams like the user's.

    Parameters
    ----------
    losses
        What is known of the losses: "never" (one expert is never wrong), "rarely" (it loses at most
        `best_loss`), "law" (they follow one law, independently at every client), "fixed" (they are
        fixed in advance) or "reacting" (they may react to the plays). Or the data themselves, as an
        environment or an array; such a choice is not covered by any certificate.
    clients, experts, horizon
        The size of the game. None: 10, 100 and 1024. Not with data.
    epsilon, delta
        The budget. With delta = 0 only pure algorithms are ranked.
    trust
        "central": a trusted server; "distributed": secure aggregation; "local": nobody is trusted.
    every
        The least number of rounds between two exchanges. Only early exchanges, in the first
        `every` rounds, come sooner.
    best_loss
        With "rarely": what the best expert loses at most per client, chosen beforehand.
    seeds
        The number of seeds of each stream, at least 1.
    progress
        Called with the stream, the number of games played and their total.

    Examples
    --------
    >>> import hedgerow as hr
    >>> ranking = hr.choose("law", clients=10, experts=4, horizon=64, trust="local", seeds=2)
    >>> [row.label for row in ranking.private]
    ['phased_selection, trust=local']
    """
    check_budget(epsilon, delta)
    at_least("seeds", seeds, 1)
    at_least("every", every, 1)
    expect(trust in TRUSTS, "trust", trust, f"in {TRUSTS}")
    data = RecordedArray(losses) if isinstance(losses, np.ndarray) else losses
    if isinstance(data, Environment):
        if (clients, experts, horizon) != (None, None, None):
            raise InvalidValue(
                "Give clients, experts and horizon only without data: the data have a size."
            )
        games, known, setting = {OWN: data}, "rarely" if best_loss else "fixed", data.setting
        words = f"On your data: {_size(setting)}"
    else:
        kinds = {kind.id: kind for kind in KINDS}
        if data not in kinds:
            raise InvalidValue(f"Unknown losses {data!r}; {nearest(str(data), kinds)}")
        asked = (clients or CLIENTS, experts or EXPERTS, horizon or HORIZON)
        games, known = _games(kinds[data].streams, Setting(*asked), best_loss), data
        setting = next(iter(games.values())).setting
        words = f"If {kinds[data].words}: {_size(setting)}"
    budget = f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")
    talk = "exchanges in every round" if every == 1 else f"an exchange every {every} rounds"
    question = f"{words}; {budget}, trust {trust}, {talk}"
    entrants, left_out = _fitting(
        _candidates(setting, epsilon, delta, trust, every, best_loss, known), games
    )
    measured = _measured(entrants, games, seeds, progress)
    rows = _ranked(entrants, games, measured)
    least = unavoidable(known, setting, epsilon, delta)
    private = tuple(row for row in rows if row.trust is not None)
    if not private:
        raise InvalidValue(f"No private algorithm fits. {' '.join(left_out.values())}")
    shown = tuple(row for row in rows if row.trust is None)
    looked = isinstance(data, Environment)
    return Ranking(setting, question, private, shown, least, left_out, looked)


def _size(setting: Setting) -> str:
    sizes = {"client": setting.clients, "expert": setting.experts, "round": setting.rounds}
    return ", ".join(f"{n} {thing}{'' if n == 1 else 's'}" for thing, n in sizes.items())


def _games(names: Sequence[str], setting: Setting, best_loss: float) -> dict[str, Environment]:
    """The streams in the given setting.

    Those that react keep their own rounds, and have experts enough for all clients.
    """
    found: dict[str, Environment] = {}
    for name in names:
        game: Any = streams()[name]
        known = {f.name for f in fields(game)}
        if name == "consensus_columns":
            enough = 2 * ceil(setting.clients * game.horizon / MOST_USED)
            found[name] = replace(game, clients=setting.clients, experts=enough)
            continue
        size = {k: getattr(setting, k) for k in ("clients", "experts", "horizon") if k in known}
        more = {"best_loss": best_loss} if best_loss and "best_loss" in known else {}
        found[name] = replace(game, **size, **more)
    return found


def _candidates(
    setting: Setting,
    epsilon: float,
    delta: float,
    trust: Trust,
    every: int,
    best_loss: float,
    known: str,
) -> Iterator[Candidate]:
    """One candidate for each algorithm, trust and kind of budget, in the given setting."""
    seen = set()
    for candidate in candidates():
        if candidate.only is not None and (candidate.only != known or not best_loss):
            continue
        key = (candidate.name, candidate.trust, candidate.delta > 0, candidate.only)
        if key in seen or (candidate.delta > 0 and delta == 0):
            continue
        if candidate.private and TRUSTS.index(candidate.trust or "central") < TRUSTS.index(trust):
            continue
        seen.add(key)
        found = _changed(candidate, setting, epsilon, delta, every, best_loss)
        if found is not None:
            yield found


def _changed(
    candidate: Candidate,
    setting: Setting,
    epsilon: float,
    delta: float,
    every: int,
    best_loss: float,
) -> Candidate | None:
    """The candidate with this budget and talk; None if it must talk more often."""
    spec: Any = candidate.spec
    names, label = {f.name for f in fields(spec)}, candidate.name
    changes: dict[str, Any] = {}
    if "trust=" in candidate.label:
        label += f", trust={candidate.trust}"
    if "epsilon" in names:
        changes["epsilon"] = epsilon
    if "delta" in names and candidate.delta > 0:
        changes["delta"] = delta
        label += f", delta={delta:g}"
    if candidate.only is not None:
        changes["best_loss"] = best_loss
        label += f", best_loss={best_loss:g}"
    interval = spec.traits.interval
    talks = candidate.talk == TALKS[0]  # in every round, and this cannot be changed
    if candidate.private and every > 1 and interval not in names and talks:
        return None
    if interval in names and candidate.private:
        own = getattr(spec, interval) or 1
        pause = min(max(own, every), setting.rounds)
        if pause > 1:
            changes[interval] = pause
            label += f", {interval}={pause}"
    return replace(candidate, label=label, spec=replace(spec, **changes))


def _fitting(
    entrants: Iterator[Candidate], games: Mapping[str, Environment]
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates that can play all games, and why the others cannot."""
    fitting, left_out = [], {}
    for candidate in entrants:
        try:
            for name, game in games.items():
                entry = Entry(candidate.label, candidate.spec)
                StudyConfig(name, game, (entry,), seeds=1).build(entry)
        except HedgerowError as error:
            left_out[candidate.label] = str(error)
        else:
            fitting.append(candidate)
    return fitting, left_out


def _measured(
    entrants: Sequence[Candidate],
    games: Mapping[str, Environment],
    seeds: int,
    progress: Progress | None,
) -> dict[tuple[str, str], Estimate]:
    """The regret of every candidate on every stream."""
    entries = tuple(Entry(candidate.label, candidate.spec) for candidate in entrants)
    found: dict[tuple[str, str], list[float]] = {}
    for number, (name, game) in enumerate(games.items()):
        for seed in range(seeds):
            if progress is not None:
                progress(name, number * seeds + seed, len(games) * seeds)
            drawn = game if name == OWN else same_for_all(game, seed)
            config = StudyConfig(name, drawn, entries, seeds=1, first_seed=seed)
            for result in run_study(config, workers=1).results:
                found.setdefault((result.label, name), []).append(result.final_regret)
    return {key: Estimate.of(values) for key, values in found.items()}


def _ranked(
    entrants: Sequence[Candidate],
    games: Mapping[str, Environment],
    measured: Mapping[tuple[str, str], Estimate],
) -> list[Ranked]:
    open_labels = [c.label for c in entrants if c.trust is None]
    rows = []
    for candidate in entrants:
        if candidate.name == GUESSING:
            continue
        label = candidate.label
        stream = max(games, key=lambda name: measured[label, name].mean)
        rows.append(
            Ranked(
                label,
                candidate.spec,
                candidate.trust,
                stream,
                measured[label, stream],
                _proven(candidate.spec, games),
                measured[GUESSING, stream].mean,
                min(measured[other, stream].mean for other in open_labels),
            )
        )
    return sorted(rows, key=lambda row: row.expected.mean)


def _proven(spec: AlgorithmSpec, games: Mapping[str, Environment]) -> float | None:
    """The largest bound over the games; None if one is not covered or the bound says nothing."""
    found = []
    for game in games.values():
        bound = spec.build(game.setting).in_game(game.traits).claims.regret_bound
        if bound is None or not covered(bound, game) or bound.value >= game.setting.rounds:
            return None
        found.append(bound.value)
    return max(found)


def unavoidable(known: str, setting: Setting, epsilon: float, delta: float) -> float:
    """A regret that no algorithm with this budget avoids on every stream of the kind.

    Losses that may react may also be fixed in advance. The bound for columns needs one that nobody
    has played: with few experts it holds for the first rounds only.
    """
    least = hidden_expert_regret(setting, epsilon, delta)
    if known in ("fixed", REACTING):
        least = max(least, coin_regret(setting.experts, setting.rounds))
    rounds = min(setting.rounds, (setting.experts // 2 - 1) // setting.clients)
    if known == REACTING and delta == 0 and rounds > 0:
        least = max(least, consensus_regret(rounds, epsilon, setting.clients))
    return least
