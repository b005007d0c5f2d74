"""Which algorithm? A ranking for one setting, from streams like the user's or from the user's data.

Algorithms are ranked by their regret on typical streams: the worst of those with one law, which is
what real forecasts are like (`docs/choose.md` has the measurement). Beside it stands the worst
stream of all that the user's knowledge of the losses does not exclude. If nothing is
known of them, all streams count: then regrets are divided by that of the best private algorithm for
the stream, and the geometric mean of these ratios decides. The measured regret is shown
with what is proven: the algorithm's regret bound, and the regret that no private algorithm avoids.
Candidates and streams are those of `choose`, in the given setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from math import ceil, log, nan
from typing import Any

import numpy as np

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.environment import Environment
from hedgerow.core.errors import HedgerowError, InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.core.validate import at_least, check_budget, nearest
from hedgerow.environments.hard.columns import MOST_USED
from hedgerow.environments.hard.lower_bounds import (
    coin_regret,
    consensus_regret,
    hidden_expert_regret,
)
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.environments.wrappers.absent import Absent
from hedgerow.environments.wrappers.sleeping import Sleeping
from hedgerow.evaluation.recorder import MEAN_EXPERT
from hedgerow.evaluation.statistics import Estimate
from hedgerow.evaluation.summary import aligned, bound_words, finite
from hedgerow.studies.choose.break_even import BreakEven, allowed, break_even
from hedgerow.studies.choose.candidates import (
    CLIENTS,
    EXPERTS,
    GUESSING,
    HORIZON,
    KINDS,
    TALKS,
    TRUSTS,
    UNKNOWN,
    Candidate,
    Trust,
    bound_on,
    chooser_candidates,
    chooser_streams,
    compared,
    played,
)
from hedgerow.studies.choose.ratios import ALL, as_ratios
from hedgerow.studies.config import Entry, StudyConfig
from hedgerow.studies.study import CLEARLY

REACTING = "reacting"
TYPICAL = ("realizable", "bernoulli", "gap_ladder")  # one law for all rounds
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
        Its worst typical stream.
    expected
        The mean regret on that stream, with its 95 % interval.
    worst_stream, worst
        The worst stream of all, and the mean regret there.
    proven
        The bound on its expected regret that covers every stream; None: there is none.
    guess, not_private
        The regret, on the typical stream, of a random expert and of the best algorithm without
        privacy.
    follows
        The expert that most clients follow at the end, on the user's data; otherwise empty.
    """

    label: str
    algorithm: AlgorithmSpec
    trust: Trust | None
    stream: str
    expected: Estimate
    worst_stream: str
    worst: Estimate
    proven: float | None
    guess: float
    not_private: float
    follows: str = ""

    @property
    def price(self) -> float:
        """What privacy costs: the regret above that of the best algorithm without it."""
        return self.expected.mean - self.not_private

    @property
    def guesses(self) -> bool:
        """Whether the regret is not clearly below that of a random expert."""
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
    sharing
        From how many clients on sharing beats learning alone; None with losses that do not follow
        one law.
    notes
        What is striking about the user's data.

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
    sharing: BreakEven | None = None
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Ranked:
        """The private algorithm with the smallest expected regret."""
        return self.private[0]

    @property
    def recommendation(self) -> str:
        """What to take, in a line."""
        best, *others = self.private
        if best.stream == ALL:
            return (
                f"Take {best.label}: its regret is typically {best.expected.mean:.2g} times that "
                f"of the best private algorithm for a stream, at worst {best.worst.mean:.2g} times "
                f"({best.worst_stream})."
            )
        if best.guesses:
            return (
                f"No private algorithm is clearly better than a random expert here; {best.label} "
                "comes first. More clients, more rounds or a larger budget would help."
            )
        good = [
            row.label.replace(", ", " with ")
            for row in others
            if row.expected.mean <= best.expected.high and not row.guesses
        ]
        as_good = f"; {_listed(good)} {'is' if len(good) == 1 else 'are'} as good" if good else ""
        safest = min(self.private, key=lambda row: row.worst.mean)
        safer = ""
        if safest.worst.high < best.worst.mean:
            safer = (
                f" {safest.label} is safer if losses may change: regret {safest.worst.mean:.3g}, "
                f"not {best.worst.mean:.3g}, on the worst streams."
            )
        whom = f" It follows {best.follows} at the end." if best.follows else ""
        return f"Take {best.label}{as_good}.{whom}{safer}"

    def lines(self) -> list[str]:
        """What to read with the table."""
        guess = "random expert: its regret on the typical stream. " if self._several else ""
        found = [
            self.recommendation,
            (
                "ratio: regret over that of the best private algorithm for the stream; typical: "
                "geometric mean."
                if self.best.stream == ALL
                else f"{guess}proven: bound on the expected regret that covers these losses. "
                "price: regret above that of the best algorithm without privacy."
            ),
            "On the hardest losses of this kind and size, no algorithm with this budget has a "
            f"regret below {self.least:.3g}.",
        ]
        if np.isnan(self.least):
            del found[-1]
        worse = [row.label for row in self.private if row.guesses]
        if worse and len(worse) < len(self.private):
            found.append(f"Not clearly better than a random expert: {'; '.join(worse)}.")
        found += [f"Left out: {label}: {why}" for label, why in self.left_out.items()]
        found += [f"Note: {note}." for note in self.notes]
        found += [] if self.sharing is None else [self.sharing.words()]
        return [*found, ANYWAY, *([LOOKED] if self.looked else [])]

    @property
    def _several(self) -> bool:
        """Whether not all rows have the same streams."""
        rows = (*self.private, *self.open)
        return len({name for row in rows for name in (row.stream, row.worst_stream)}) > 1

    def table(self) -> list[list[str]]:
        """The cells of the table, with headings."""
        several, ratios = self._several, self.best.stream == ALL
        more = ["worst", "worst stream", "random expert"] if several else []
        first = (
            "expected regret" if not several else "typical ratio" if ratios else "typical regret"
        )
        body = [
            [
                row.label + ("" if row.trust else " (not private)"),
                row.expected.words(),
                *([row.worst.words(), row.worst_stream, f"{row.guess:.2f}"] if several else []),
                *(
                    []
                    if ratios
                    else [
                        "-" if row.proven is None else bound_words(row.proven),
                        f"{row.price:+.2f}" if row.trust and not np.isnan(row.price) else "",
                    ]
                ),
            ]
            for row in (*self.private, *self.open)
        ]
        if not several and not np.isnan(self.best.guess):
            body.append(["a random expert", f"{self.best.guess:.2f}", "", ""])
        return [
            ["", first, *more, *([] if ratios else ["proven", "price"])],
            *body,
        ]

    def __str__(self) -> str:
        return "\n".join([self.question, aligned(self.table()), *self.lines()])

    __repr__ = __str__

    def to_json(self) -> dict[str, Any]:
        """The ranking as plain values."""
        size = {name: getattr(self.setting, name) for name in ("clients", "experts", "horizon")}
        least = finite(self.least)
        rows = [
            {
                "label": row.label,
                "trust": row.trust,
                "stream": row.stream,
                "regret": row.expected.mean,
                "half_width": finite(row.expected.half_width),
                "worst_stream": row.worst_stream,
                "worst": row.worst.mean,
                "proven": row.proven,
                "guess": finite(row.guess),
                "not_private": finite(row.not_private),
                "better_than_guessing": not row.guesses,
            }
            for row in (*self.private, *self.open)
        ]
        return {
            "question": self.question,
            "setting": size,
            "rows": rows,
            "recommendation": self.recommendation,
            "lower_bound": least,
            "sharing_pays_from": None if self.sharing is None else asdict(self.sharing),
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
    gaps: float = 0.0,
    entries: Sequence[Entry] = (),
    seeds: int = 5,
    progress: Progress | None = None,
) -> Ranking:
    """Rank the private algorithms for a setting by their regret on streams like the user's.

    Parameters
    ----------
    losses
        What is known of the losses: "never" (one expert is never wrong), "rarely" (it loses at most
        `best_loss`), "law" (they follow one law, independently at every client), "fixed" (they are
        fixed in advance), "changing" (the best expert changes; regret is against the best sequence
        of experts) or "reacting" (they may react to the plays). "unknown" asks which algorithm is
        rarely far from the best one: its regret over that of the best private algorithm for the
        stream. Or the data themselves, as an environment or an array; such a choice is not covered
        by any certificate.
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
    gaps
        The share of values that are missing, in [0, 1): of clients that are absent, and of
        experts that sleep. Algorithms that refuse gaps are left out. Not with data, which show
        their gaps.
    entries
        Further algorithms to rank, such as those of a study.
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
    _check(trust, gaps)
    data = RecordedArray(losses) if isinstance(losses, np.ndarray) else losses
    if isinstance(data, Environment):
        if (clients, experts, horizon) != (None, None, None):
            raise InvalidValue(
                "Give clients, experts and horizon only without data: the data have a size."
            )
        if gaps != 0:
            raise InvalidValue(f"Expected gaps={gaps!r} to be 0 with data, which show their gaps.")
        games, known, setting = {OWN: data}, "rarely" if best_loss else "fixed", data.setting
        words = f"On your data: {_size(setting)}"
    else:
        kinds = {kind.id: kind for kind in (*KINDS, UNKNOWN)}
        if data not in kinds:
            raise InvalidValue(f"Unknown losses {data!r}; {nearest(str(data), kinds)}")
        asked = (clients or CLIENTS, experts or EXPERTS, horizon or HORIZON)
        games, known = _games(kinds[data].streams, Setting(*asked), best_loss), data
        setting = next(iter(games.values())).setting
        words = f"If {kinds[data].words}: {_size(setting)}"
        if gaps:
            games = {
                name: Absent(of=Sleeping(of=game, rate=gaps), rate=gaps)
                for name, game in games.items()
            }
            words += f", {100 * gaps:g} % gaps"
    budget = f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")
    talk = "exchanges in every round" if every == 1 else f"an exchange every {every} rounds"
    question = f"{words}; {budget}, trust {trust}, {talk}"
    given = _given(entries)
    same = [one.spec for one in given]
    usual = setting.family == LOSSES and setting.deciders is None
    found = _candidates(setting, epsilon, delta, trust, every, best_loss, known)
    entrants, left_out = _fitting(
        [*given, *(one for one in found if one.spec not in same)], games, trust
    )
    if not usual:  # candidates for losses of experts do not fit, and that is no news
        left_out = {}
        names = {one.name for one in entrants}
        entrants += _fitting(_registered(epsilon, delta, trust, names), games, trust)[0]
    if not any(one.private for one in entrants):
        hint = "" if delta else " Many algorithms need a delta, such as delta = 1e-6."
        raise InvalidValue(f"No private algorithm fits.{hint} {' '.join(left_out.values())}")
    measured, guesses, last = _measured(entrants, games, seeds, progress)
    if known == UNKNOWN.id:
        floor = max(1.0, log(setting.experts) / (setting.clients * epsilon))
        measured, guesses = as_ratios(entrants, games, measured, guesses, floor)
    rows = [
        replace(row, follows=games[OWN].expert_names[int(last[row.label].argmax())])
        if row.label in last
        else row
        for row in _ranked(entrants, games, measured, guesses)
    ]
    least = nan if not usual or known == UNKNOWN.id else unavoidable(known, setting, epsilon, delta)
    private, shown = (tuple(r for r in rows if (r.trust is None) is none) for none in (False, True))
    one_law = usual and known != REACTING and setting.experts > 1
    affordable = allowed(epsilon, delta, trust)
    sharing = break_even(setting.experts, setting.rounds, affordable) if one_law else None
    noted = games[OWN].notes() if OWN in games else ()
    return Ranking(setting, question, private, shown, least, left_out, OWN in games, sharing, noted)


def _check(trust: str, gaps: float) -> None:
    if trust not in TRUSTS:
        raise InvalidValue(f"Expected trust={trust!r} in {TRUSTS}.")
    if not 0 <= gaps < 1:
        raise InvalidValue(f"Expected gaps={gaps!r} in [0, 1).")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _given(entries: Sequence[Entry]) -> list[Candidate]:
    """Algorithms of a study; their trust is that of their certificate."""
    found = []
    for entry in entries:
        if not entry.alone:
            name = ALGORITHMS.name_of(entry.algorithm)
            found.append(Candidate(entry.label, name, entry.algorithm, "local", TALKS[0]))
    return found


def _registered(epsilon: float, delta: float, trust: Trust, known: set[str]) -> list[Candidate]:
    """All further algorithms with this budget: for games that are not about losses of experts."""
    found = []
    for name, kind in ALGORITHMS.items():
        if name in known or kind.__module__.split(".")[0] != "hedgerow":
            continue
        given = {"epsilon": epsilon, "delta": delta, "trust": trust}
        names = {f.name for f in fields(kind)}
        with suppress(HedgerowError):
            spec = kind(**{key: value for key, value in given.items() if key in names})
            found.append(Candidate(name, name, spec, "local", TALKS[0]))
    return found


def _size(setting: Setting) -> str:
    width = "expert" if setting.family.linear else "coordinate"
    sizes = {"client": setting.clients, width: setting.experts, "round": setting.rounds}
    return ", ".join(f"{n} {thing}{'' if n == 1 else 's'}" for thing, n in sizes.items())


def _games(names: Sequence[str], setting: Setting, best_loss: float) -> dict[str, Environment]:
    """The streams in the given setting.

    Those that react keep their own rounds, and have experts enough for all clients.
    """
    found: dict[str, Environment] = {}
    for name in names:
        game: Any = chooser_streams()[name]
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
    for candidate in chooser_candidates():
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
    often = interval not in names or candidate.name == "watched_selection"  # in short runs
    if candidate.private and talks and every > 1 and often:
        return None
    if interval in names and candidate.private:
        own = getattr(spec, interval) or 1
        pause = min(max(own, every), setting.rounds)
        changes[interval] = pause if pause > 1 else getattr(spec, interval)
        if pause not in (1, getattr(type(spec)(), interval)):
            label += f", {interval}={pause}"
    return replace(candidate, label=label, spec=replace(spec, **changes))


def _fitting(
    entrants: Iterable[Candidate], games: Mapping[str, Environment], trust: Trust
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates that can play all games, and why the others cannot."""
    fitting, left_out = [], {}
    for candidate in entrants:
        try:
            built = [
                StudyConfig(name, game, (entry,), seeds=1).build(entry)
                for name, game in games.items()
                for entry in (Entry(candidate.label, candidate.spec),)
            ]
        except HedgerowError as error:
            left_out[candidate.label] = str(error)
        else:
            certificate = built[0].certificate
            if not any(guarantee.protects for guarantee in certificate.guarantees):
                fitting.append(replace(candidate, trust=None))
            elif certificate.trust in TRUSTS[: TRUSTS.index(trust)]:
                left_out[candidate.label] = f"it needs trust {certificate.trust}."
            else:
                fitting.append(candidate)
    return fitting, left_out


def _measured(
    entrants: Sequence[Candidate],
    games: Mapping[str, Environment],
    seeds: int,
    progress: Progress | None,
) -> tuple[dict[tuple[str, str], Estimate], dict[str, float], dict[str, Array]]:
    """The regret of every candidate on every stream, that of a random expert if it is known, and
    which experts are followed at the end on the user's data.
    """
    entries = tuple(Entry(candidate.label, candidate.spec) for candidate in entrants)
    found: dict[tuple[str, str], list[float]] = {}
    guesses: dict[str, list[float]] = {}
    last: dict[str, Array] = {}  # how many follow each expert at the end, on the user's data
    for number, (name, game) in enumerate(games.items()):
        for seed in range(seeds):
            if progress is not None:
                progress(name, number * seeds + seed, len(games) * seeds)
            changes = sum(compared(name, game))
            for result in played(name, game, entries, seed):
                regret = result.regret_with(changes)
                found.setdefault((result.label, name), []).append(regret)
                if name == OWN and result.following is not None:
                    last[result.label] = last.get(result.label, 0.0) + result.following.last
                if MEAN_EXPERT in result.comparators:
                    above = result.comparators[MEAN_EXPERT] - float(result.loss[-1]) + regret
                    guesses.setdefault(name, []).append(above)
    means = {name: float(np.mean(above)) for name, above in guesses.items()}
    return {key: Estimate.of(values) for key, values in found.items()}, means, last


def _ranked(
    entrants: Sequence[Candidate],
    games: Mapping[str, Environment],
    measured: Mapping[tuple[str, str], Estimate],
    guesses: Mapping[str, float],
) -> list[Ranked]:
    open_labels = [c.label for c in entrants if c.trust is None]
    typical = [name for name in games if name in TYPICAL] or list(games)
    if (GUESSING, ALL) in measured:
        typical = [ALL]
    rows = []
    for candidate in entrants:
        if candidate.name == GUESSING:
            continue
        label = candidate.label
        stream, worst = (
            max(some, key=lambda name: measured[label, name].mean) for some in (typical, games)
        )
        rows.append(
            Ranked(
                label,
                candidate.spec,
                candidate.trust,
                stream,
                measured[label, stream],
                worst,
                measured[label, worst],
                _proven(candidate.spec, games),
                guesses.get(stream, float("nan")),
                min((measured[one, stream].mean for one in open_labels), default=float("nan")),
            )
        )
    return sorted(rows, key=lambda row: row.expected.mean)


def _proven(spec: AlgorithmSpec, games: Mapping[str, Environment]) -> float | None:
    """The largest bound over the games; None if one is not covered or the bound says nothing."""
    found = []
    for name, game in games.items():
        bound = bound_on(name, game, spec)
        if bound is None or bound >= game.setting.rounds:
            return None
        found.append(bound)
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
