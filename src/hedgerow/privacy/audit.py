"""Audits: what an attacker can be shown to learn. A lower bound on epsilon, with its confidence; never a proof of privacy.

Three ways to look: `largest_ratio` of exact log-likelihoods over constructed transcripts (pure claims, no sampling);
`glass_box`, which averages over exact log-likelihood ratios of sampled transcripts; `black_box`, which only sees discrete
outputs. `gaussian` is for additive noise that claims a Gaussian curve. Each is honest when it cannot say anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
from scipy.special import betaincinv, ndtri

from hedgerow.core.checks import at_least, between, expect
from hedgerow.core.lattice import Array
from hedgerow.privacy.bisection import closest

LEAST_SAMPLES = 100


@dataclass(frozen=True)
class Finding:
    """`epsilon` is a lower bound that holds with probability `confidence`; None where there are too few samples to say anything.

    0 is what an audit shows that had enough to look at and found nothing.
    """

    epsilon: float | None
    delta: float
    confidence: float
    method: str


def largest_ratio(pairs: Sequence[tuple[float, float]]) -> Finding:
    """The largest |ln P(transcript) - ln Q(transcript)| over transcripts whose exact log-likelihoods are known."""
    at_least("transcripts", len(pairs), 1)
    possible = [(p, q) for p, q in pairs if p > -np.inf or q > -np.inf]
    worst = max((abs(p - q) for p, q in possible), default=0.0)
    return Finding(worst, 0.0, 1.0, "largest exact ratio")


def glass_box(forward: Array, backward: Array, delta: float, confidence: float = 0.999) -> Finding:
    """delta(eps) = E_P[(1 - e^(eps - LLR))_+] from exact log-likelihood ratios ln dP/dQ sampled under P, and the other way round.

    Whether this mean exceeds `delta` is a bet: the capital prod(1 + b (v_i - delta)) has mean at most 1 where it does not, for
    every bet 0 <= b < 1/delta, so it reaches 1/failure with probability `failure` at most. The bet is fixed on a quarter of the
    sample and judged on the rest; the capital falls with epsilon, so the largest epsilon that is shown is a bound. Each
    direction has half the failure probability. With delta = 0 a log-ratio that was seen is itself the proof.
    """
    between("delta", delta, 0.0, 1.0)
    expect(0 < confidence < 1, "confidence", confidence, "in (0, 1)")
    samples = [np.asarray(ratios, float) for ratios in (forward, backward)]
    if min(map(len, samples)) < LEAST_SAMPLES:
        return Finding(None, delta, confidence, "glass box")
    if delta == 0.0:
        return Finding(max(0.0, *(float(ratios.max()) for ratios in samples)), delta, 1.0, "glass box")
    needed = log(2 / (1 - confidence))
    found = max(_shown(ratios, delta, needed) for ratios in samples)
    silent = found == 0.0 and any(bool(ratios.any()) for ratios in samples)  # something leaks, too little is known to say how much
    return Finding(None if silent else found, delta, confidence, "glass box")


def _shown(ratios: Array, delta: float, needed: float) -> float:
    """The largest epsilon whose delta is shown to exceed `delta`; 0 if none is."""
    trial, judged = ratios[: len(ratios) // 4], ratios[len(ratios) // 4 :]
    bets = np.geomspace(1e-3, 0.99, 60) / delta
    weight = len(judged) / len(trial)
    bet = bets[int(np.argmax([_largest_epsilon(trial, delta, float(bet), needed / weight) for bet in bets]))]
    return _largest_epsilon(judged, delta, float(bet), needed)


def _largest_epsilon(ratios: Array, delta: float, bet: float, needed: float) -> float:
    """The largest epsilon >= 0 at which the log-capital of a fixed bet reaches `needed`; 0 if none does."""

    def reached(epsilon: float) -> bool:
        return float(np.log1p(bet * (-np.expm1(np.minimum(epsilon - ratios, 0.0)) - delta)).sum()) >= needed

    low, high = 0.0, float(ratios[np.isfinite(ratios)].max(initial=0.0)) + 1.0
    if not reached(low):
        return low
    while reached(high):  # only infinite log-ratios reach beyond all finite ones
        low, high = high, 2 * high
        if high > 1e3:
            return inf
    return closest(reached, low, high, 1e-6)


def _lower_proportion(hits: int, trials: int, confidence: float) -> float:
    """Clopper-Pearson."""
    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, 1 - confidence))


def _upper_proportion(hits: int, trials: int, confidence: float) -> float:
    return 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, confidence))


def black_box(first: Sequence[Hashable], second: Sequence[Hashable], delta: float = 0.0, confidence: float = 0.999) -> Finding:
    """Outputs on two neighbouring inputs: the event is chosen on one half of the sample and judged on the other.

    Events are the sets on which the likelihood ratio of the first half exceeds a level; the one with the largest estimate is
    taken, and its two probabilities are bounded by Clopper-Pearson on the second half. Both directions.
    """
    between("delta", delta, 0.0, 1.0)
    expect(0 < confidence < 1, "confidence", confidence, "in (0, 1)")
    each = 1 - (1 - confidence) / 4  # two directions, two proportions each
    if min(len(first), len(second)) < 2 * LEAST_SAMPLES:
        return Finding(None, delta, confidence, "black box")
    names = {output: i for i, output in enumerate(dict.fromkeys((*first, *second)))}
    codes = [np.array([names[output] for output in sample]) for sample in (first, second)]
    halves = [(sample[: len(sample) // 2], sample[len(sample) // 2 :]) for sample in codes]
    found: list[float] = []
    for (choose_p, judge_p), (choose_q, judge_q) in (halves, halves[::-1]):
        counts_p, counts_q = (np.bincount(half, minlength=len(names)) for half in (choose_p, choose_q))
        order = np.argsort(-(counts_p + 0.5) / (counts_q + 0.5), kind="stable")
        p, q = np.cumsum(counts_p[order]) / len(choose_p), np.cumsum(counts_q[order]) / len(choose_q)
        spread_p, spread_q = np.sqrt(p * (1 - p) / len(choose_p)), np.sqrt(q * (1 - q) / len(choose_q))
        steps = ndtri(each)
        gain = np.log(np.maximum(p - steps * spread_p - delta, 1e-300)) - np.log(q + steps * spread_q + 3 / len(choose_q))
        event = order[: int(np.argmax(gain)) + 1]
        inside = np.zeros(len(names), bool)
        inside[event] = True
        least = _lower_proportion(int(inside[judge_p].sum()), len(judge_p), each) - delta
        most = _upper_proportion(int(inside[judge_q].sum()), len(judge_q), each)
        if least > most:
            found.append(log(least / most))
    return Finding(max(found, default=0.0), delta, confidence, "black box")


def gaussian(first: Array, second: Array, delta: float, confidence: float = 0.999) -> Finding:
    """Additive noise that claims a Gaussian curve: a lower bound on mu = |shift| / deviation, read as epsilon at delta.

    It presumes Gaussian outputs; for a claim without that shape use `black_box`. The bound on the shift uses the normal law of
    the two means, the bound on the deviation the chi-square law of the pooled variance.
    """
    from scipy.special import chdtri

    from hedgerow.privacy.curves import GaussianDP

    expect(0 < delta < 1, "delta", delta, "in (0, 1)")
    n, k = len(first), len(second)
    if min(n, k) < LEAST_SAMPLES:
        return Finding(None, delta, confidence, "Gaussian")
    each = 1 - (1 - confidence) / 2
    freedom = n + k - 2
    pooled = (np.var(first, ddof=1) * (n - 1) + np.var(second, ddof=1) * (k - 1)) / freedom
    most_variance = pooled * freedom / float(chdtri(freedom, each))
    shift = abs(float(np.mean(first) - np.mean(second))) - float(ndtri(1 - (1 - each) / 2)) * sqrt(most_variance * (1 / n + 1 / k))
    if shift <= 0:
        return Finding(0.0, delta, confidence, "Gaussian")
    return Finding(GaussianDP(shift / sqrt(most_variance)).epsilon(delta), delta, confidence, "Gaussian")
