"""Who followed what in a study, by name: experts, their shares, and each client's result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from hedgerow.core.environment import Environment
from hedgerow.core.lattice import Array
from hedgerow.evaluation.following import Following, joined, shares
from hedgerow.evaluation.recorder import RunResult

SHOWN = 3  # experts that a line of text names
SEGMENTS = 16  # of a sequence that are shown
SHARES = ("share", "last")
LEAST = 0.005  # the least share that it names


@dataclass(frozen=True)
class Followed:
    """Which experts an algorithm followed, with the mean over seeds.

    For points, such as the weights of a combination, shares are mean weights.

    Parameters
    ----------
    at_end
        The share of the clients that follow each expert at the end; experts by name, the most
        followed first.
    share
        The share of all rounds and clients in which each expert was followed.
    best
        The best expert in hindsight; None where every seed has new data, or the family has none.
    found
        The share of all plays, and of the last ones, that were the best expert in hindsight; None
        if the family has none.
    weights
        Whether these are the last weights of a model by feature, the largest first; they may be
        below 0.
    """

    at_end: Mapping[str, float]
    share: Mapping[str, float]
    best: str | None
    found: tuple[float, float] | None
    weights: bool = False

    def cells(self) -> list[str]:
        """At the end, in all rounds, and the best in hindsight, in words."""
        if self.weights:
            return [_weights(self.at_end), "-", "-"]
        if self.best is None and self.found is not None:
            rounds, end = (f"the best one {100 * share:.0f} %" for share in self.found)
            return [end, rounds, "differs by seed"]
        return [_shares(self.at_end), _shares(self.share), self.best or "-"]

    def __str__(self) -> str:
        end, often, best = self.cells()
        return f"at the end: {end}; in all rounds: {often}; best in hindsight: {best}"


@dataclass(frozen=True)
class ClientResult:
    """One client's result with one algorithm, the mean over seeds.

    Parameters
    ----------
    client
        Its name.
    follows, most
        The expert it follows at the end, and the one it followed most often, in most seeds.
    best
        Its own best expert in hindsight; "" if unknown.
    rounds
        The number of rounds in which it took part.
    loss
        What it lost in a round, in the user's units.
    best_loss
        What its own best expert lost in a round.
    gain
        How much less it lost in a round than alone; NaN if that was not played.
    """

    client: str
    follows: str
    most: str
    best: str
    rounds: float
    loss: float
    best_loss: float
    gain: float


def followed_in_results(results: Sequence[RunResult], environment: Environment) -> Followed | None:
    """What was followed in these results of one algorithm; None if that was not recorded."""
    found = [one.following for one in results if one.following is not None]
    if not found:
        return None
    names, fresh = environment.expert_names, environment.traits.fresh
    share, last = (np.mean([getattr(one, name) for one in found], axis=0) for name in SHARES)
    if not shares(environment.family):
        weights = _by_size(names, last)
        return Followed(weights, weights, None, None, weights=True)
    best = {one.best for one in found}
    known = -1 not in best
    hits = tuple(float(np.mean(one)) for one in zip(*(f.found for f in found), strict=True))
    return Followed(
        _by_size(names, last),
        _by_size(names, share),
        names[min(best)] if known and len(best) == 1 and not fresh else None,
        (hits[0], hits[1]) if known else None,
    )


def segment_table(
    results: Mapping[str, Sequence[RunResult]], environment: Environment
) -> list[list[str]]:
    """The regret of every label in each segment of the best sequence, mean over seeds.

    Experts are named where all seeds have the same segments. Empty if no sequence was compared.
    """
    every = [one for of in results.values() for one in of]
    sizes = [len(one.segments) for one in every]
    if not sizes or min(sizes) < 2:
        return []
    shown = min(*sizes, SEGMENTS)
    first = every[0].segments[:shown]
    same = all(np.array_equal(one.segments[:shown, :2], first[:, :2]) for one in every)
    names, parts = environment.expert_names, list[str]()
    for number, (start, expert) in enumerate(first[:, :2].astype(int).tolist()):
        when = float(np.mean([one.segments[number, 0] for one in every]))
        parts.append(
            f"from round {start}: {names[expert]}"
            if same
            else f"{number + 1}, from round {when:.0f}"
        )
    columns = []
    for label, found in results.items():
        lost = [one.segments[:, 3] - one.segments[:, 2] for one in found]
        each = np.mean([regrets[:shown] for regrets in lost], axis=0)
        total = np.mean([regrets.sum() for regrets in lost])
        columns.append([label, *(f"{value:.2f}" for value in each), f"{total:.2f}"])
    heads = ["regret in each segment", *parts, "in all"]
    return list(map(list, zip(heads, *columns, strict=True)))


def client_results(
    results: Sequence[RunResult], alone: Sequence[RunResult], environment: Environment
) -> list[ClientResult]:
    """The results of every client; none where they are not known."""
    found = _each(results)
    if found is None:
        return []
    experts, clients = (*environment.expert_names, ""), environment.client_names
    if len(clients) != len(found.paid):
        clients = tuple(f"player {number}" for number in range(len(found.paid)))
    rounds = np.maximum(found.cases, 1)
    loss = found.paid / rounds * environment.unit
    own = found.own_loss / rounds * environment.unit if len(found.own_loss) else loss * nan
    by_itself = _each(alone)
    gain = loss * nan if by_itself is None else by_itself.paid / rounds * environment.unit - loss
    best = found.own_best if len(found.own_best) else np.full(len(loss), -1)
    fresh = environment.traits.fresh  # an expert of one seed is not that of the next
    return [
        ClientResult(
            client,
            "" if fresh else experts[found.final[at]],
            "" if fresh else experts[found.most[at]],
            "" if fresh else experts[best[at]],
            *(float(values[at]) for values in (found.cases, loss, own, gain)),
        )
        for at, client in enumerate(clients)
    ]


def _each(results: Sequence[RunResult]) -> Following | None:
    found = [one.following for one in results if one.following is not None]
    if not found or any(len(one.paid) == 0 for one in found):
        return None
    return joined(found)


def _by_size(names: Sequence[str], shares: Array) -> dict[str, float]:
    pairs = zip(names, shares.tolist(), strict=True)
    return dict(sorted(pairs, key=lambda pair: -abs(pair[1])))


def _weights(weights: Mapping[str, float]) -> str:
    """The largest weights in words.

    >>> _weights({"age": -1.25, "dose": 0.5})
    'age -1.25, dose +0.5'
    """
    shown = [f"{name} {weight:+.3g}" for name, weight in list(weights.items())[:SHOWN]]
    return ", ".join([*shown, *(["others"] if len(weights) > SHOWN else [])])


def _shares(shares: Mapping[str, float]) -> str:
    """The largest shares in words.

    >>> _shares({"a": 0.9, "b": 0.06, "c": 0.03, "d": 0.01})
    'a 90 %, b 6 %, c 3 %, others'
    """
    large = [(name, share) for name, share in shares.items() if share >= LEAST]
    more = ["others"] if len(large) > SHOWN else []
    return ", ".join([*(f"{name} {100 * share:.0f} %" for name, share in large[:SHOWN]), *more])
