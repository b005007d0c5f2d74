"""Regrets as ratios, for a choice among streams of very different regrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, hypot, log, nan

from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.choose.candidates import Candidate

ALL = "all streams"


def as_ratios(
    entrants: Sequence[Candidate],
    games: Iterable[str],
    measured: Mapping[tuple[str, str], Estimate],
    guesses: Mapping[str, float],
    least: float,
) -> tuple[dict[tuple[str, str], Estimate], dict[str, float]]:
    """Regrets over that of the best private algorithm for the stream, and their geometric means.

    No regret counts as less than `least`, which is too little to compare.
    """
    found: dict[tuple[str, str], Estimate] = {}
    over: dict[str, float] = {}
    private = [one.label for one in entrants if one.private and one.trust is not None]
    for name in games:
        best = min(max(least, measured[label, name].mean) for label in private)
        over[name] = max(least, guesses.get(name, nan)) / best
        for one in entrants:
            regret = measured[one.label, name]
            ratio = max(least, regret.mean) / best
            found[one.label, name] = Estimate(ratio, regret.half_width / best, regret.count)
    for one in entrants:
        each = [found[one.label, name] for name in over]
        mean = exp(sum(log(ratio.mean) for ratio in each) / len(each))
        spread = hypot(*(ratio.half_width / ratio.mean for ratio in each)) / len(each)
        found[one.label, ALL] = Estimate(mean, mean * spread, each[0].count)
    over[ALL] = exp(sum(map(log, over.values())) / len(over))
    return found, over
