"""Audits: what an attacker can be shown to learn. A lower bound on epsilon, with its confidence; never a proof of privacy.

Three ways to look: `largest_ratio` of exact log-likelihoods over constructed transcripts (pure claims, no sampling);
`glass_box`, which averages over exact log-likelihood ratios of sampled transcripts; `black_box`, which only sees discrete
outputs. `gaussian` is for additive noise that claims a Gaussian curve. Each is honest when it cannot say anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import exp, inf, log, log1p, sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from hedgerow.core.lattice import Array
from hedgerow.core.validate import at_least, between, expect
from hedgerow.privacy.bisection import closest

Codes = npt.NDArray[np.int64]

LEAST_SAMPLES = 100


@dataclass(frozen=True)
class Finding:
    """`epsilon` is a lower bound that holds with probability `confidence`; None where there are too few samples to say anything.

    0 is what an audit shows that had enough to look at and found nothing.
    """

    epsilon: float | None
    delta: float
    confidence: float
    most: float = inf  # more than this could not have been shown, whatever the mechanism


def largest_ratio(pairs: Sequence[tuple[float, float]]) -> Finding:
    """The largest |ln P(transcript) - ln Q(transcript)| over transcripts whose exact log-likelihoods are known.

    None if no transcript is possible in either world: then nothing was looked at.
    """
    at_least("transcripts", len(pairs), 1)
    expect(not np.isnan(pairs).any(), "log-likelihoods", "nan", "to be numbers")
    possible = [(p, q) for p, q in pairs if p > -np.inf or q > -np.inf]
    worst = max((abs(p - q) for p, q in possible), default=None)
    return Finding(worst, 0.0, 1.0)


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
    expect(
        not any(np.isnan(ratios).any() for ratios in samples), "log-ratios", "nan", "to be numbers"
    )
    if min(map(len, samples)) < LEAST_SAMPLES:
        return Finding(None, delta, confidence)
    if delta == 0.0:
        return Finding(max(0.0, *(float(ratios.max()) for ratios in samples)), delta, 1.0)
    needed = log(2 / (1 - confidence))
    found = max(_shown(ratios, delta, needed) for ratios in samples)
    silent = found == 0.0 and any(
        bool(ratios.any()) for ratios in samples
    )  # something leaks, too little is known to say how much
    return Finding(None if silent else found, delta, confidence)


def _shown(ratios: Array, delta: float, needed: float) -> float:
    """The largest epsilon whose delta is shown to exceed `delta`; 0 if none is."""
    trial, judged = ratios[: len(ratios) // 4], ratios[len(ratios) // 4 :]
    bets = np.geomspace(1e-3, 0.99, 60) / delta
    weight = len(judged) / len(trial)
    bet = bets[
        int(
            np.argmax([_largest_epsilon(trial, delta, float(bet), needed / weight) for bet in bets])
        )
    ]
    return _largest_epsilon(judged, delta, float(bet), needed)


def _largest_epsilon(ratios: Array, delta: float, bet: float, needed: float) -> float:
    """The largest epsilon >= 0 at which the log-capital of a fixed bet reaches `needed`; 0 if none does."""

    def reached(epsilon: float) -> bool:
        return (
            float(np.log1p(bet * (-np.expm1(np.minimum(epsilon - ratios, 0.0)) - delta)).sum())
            >= needed
        )

    low, high = 0.0, float(ratios[np.isfinite(ratios)].max(initial=0.0)) + 1.0
    if not reached(low):
        return low
    while reached(high):  # only infinite log-ratios reach beyond all finite ones
        low, high = high, 2 * high
        if high > 1e3:
            return inf
    return closest(reached, low, high, 1e-6)


def black_box(
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    delta: float = 0.0,
    confidence: float = 0.999,
) -> Finding:
    """Outputs on two neighbouring inputs: an event is chosen on a quarter of the sample and judged on the rest, in both directions.

    Events are the sets on which the likelihood ratio of the first part exceeds a level; the one with the largest estimate is
    taken. Whether P(event) > e^epsilon Q(event) + delta is a bet on pairs of outputs, one of each world: with x, y telling whether
    they lie in the event, the capital prod(1 + b (x - e^epsilon y - delta)) has mean at most 1 where it is not so, for every
    bet 0 <= b < 1 / (e^epsilon + delta). No more than ln(pairs / needed) can be shown. None where most outputs of the second
    part were never seen in the first.
    """
    between("delta", delta, 0.0, 1.0)
    expect(0 < confidence < 1, "confidence", confidence, "in (0, 1)")
    pairs, needed = min(len(first), len(second)), log(2 / (1 - confidence))
    chosen_on = pairs // 4
    most = log(max(1.0, (pairs - chosen_on) / needed))
    if pairs < 2 * LEAST_SAMPLES:
        return Finding(None, delta, confidence, most)
    names = {output: i for i, output in enumerate(dict.fromkeys((*first, *second)))}
    codes = [np.array([names[output] for output in sample]) for sample in (first, second)]
    known = np.zeros(len(names), bool)
    known[np.concatenate([sample[:chosen_on] for sample in codes])] = True
    if np.concatenate([known[sample[chosen_on:pairs]] for sample in codes]).mean() < 0.5:
        return Finding(None, delta, confidence, most)
    found = [
        _shown_by_event(p, q, chosen_on, pairs, delta, needed) for p, q in (codes, codes[::-1])
    ]
    return Finding(max(found), delta, confidence, most)


def _shown_by_event(
    p: Codes, q: Codes, chosen_on: int, pairs: int, delta: float, needed: float
) -> float:
    """The largest epsilon that one direction shows; 0 if none."""
    outcomes = int(max(p.max(), q.max())) + 1
    counts_p, counts_q = (np.bincount(sample[:chosen_on], minlength=outcomes) for sample in (p, q))
    order = np.argsort(-(counts_p + 0.5) / (counts_q + 0.5), kind="stable")
    likely, rare = (
        np.cumsum(counts_p[order]) / chosen_on,
        np.cumsum(counts_q[order]) / chosen_on + 1 / chosen_on,
    )
    judged = pairs - chosen_on
    above = np.maximum(likely - delta, 1e-300)
    spread = np.sqrt(
        (likely * (1 - likely) / above**2 + np.maximum(0.0, 1 - rare) / rare) * 2 * needed / judged
    )
    event = np.zeros(outcomes, bool)
    event[order[: int(np.argmax(np.log(above) - np.log(rare) - spread)) + 1]] = True
    parts = [
        (event[p[part]], event[q[part]])
        for part in (slice(None, chosen_on), slice(chosen_on, pairs))
    ]
    trial, judge = (
        (int((x & ~y).sum()), int((y & ~x).sum()), int((x & y).sum()), int((~x & ~y).sum()))
        for x, y in parts
    )
    bets = np.geomspace(1e-6, 0.99, 120)
    shown = [
        _largest_epsilon_of_event(trial, float(bet), delta, needed * chosen_on / judged)
        for bet in bets
    ]
    return _largest_epsilon_of_event(judge, float(bets[int(np.argmax(shown))]), delta, needed)


def _largest_epsilon_of_event(
    counts: tuple[int, int, int, int], bet: float, delta: float, needed: float
) -> float:
    """For pairs counted as (x only, y only, both, neither): the largest epsilon at which the log-capital reaches `needed`."""
    first_only, second_only, both, neither = counts

    def reached(epsilon: float) -> bool:
        if bet * (exp(epsilon) + delta) >= 1:
            return False
        gains = (1 - delta, -exp(epsilon) - delta, 1 - exp(epsilon) - delta, -delta)
        return (
            sum(
                count * log1p(bet * gain)
                for count, gain in zip((first_only, second_only, both, neither), gains, strict=True)
            )
            >= needed
        )

    return closest(reached, 0.0, 60.0, 1e-7) if reached(0.0) else 0.0


def gaussian(first: Array, second: Array, delta: float, confidence: float = 0.999) -> Finding:
    """Additive noise that claims a Gaussian curve: a lower bound on mu = |shift| / deviation, read as epsilon at delta.

    It presumes Gaussian outputs; for a claim without that shape use `black_box`. The bound on the shift uses the normal law of
    the two means, the bound on the deviation the chi-square law of the pooled variance.
    """
    from scipy.special import chdtri

    from hedgerow.privacy.curves import GaussianDP

    expect(0 < delta < 1, "delta", delta, "in (0, 1)")
    expect(0 < confidence < 1, "confidence", confidence, "in (0, 1)")
    first, second = np.asarray(first, float), np.asarray(second, float)
    expect(
        first.ndim == second.ndim == 1,
        "samples",
        (first.shape, second.shape),
        "to be two rows of numbers",
    )
    expect(
        bool(np.isfinite(first).all() and np.isfinite(second).all()),
        "samples",
        "nan or inf",
        "to be finite",
    )
    n, k = len(first), len(second)
    if min(n, k) < LEAST_SAMPLES:
        return Finding(None, delta, confidence)
    each = 1 - (1 - confidence) / 2
    freedom = n + k - 2
    pooled = (np.var(first, ddof=1) * (n - 1) + np.var(second, ddof=1) * (k - 1)) / freedom
    most_variance = pooled * freedom / float(chdtri(freedom, each))
    shift = abs(float(np.mean(first) - np.mean(second))) - float(ndtri(1 - (1 - each) / 2)) * sqrt(
        most_variance * (1 / n + 1 / k)
    )
    if shift <= 0:
        return Finding(0.0, delta, confidence)
    if most_variance == 0:
        return Finding(inf, delta, confidence)
    return Finding(GaussianDP(shift / sqrt(most_variance)).epsilon(delta), delta, confidence)
