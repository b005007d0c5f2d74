"""Audit methods: lower bounds on epsilon with a confidence level, never a proof of privacy.

`largest_ratio` compares exact log-likelihoods of constructed transcripts, for pure claims and
without sampling. `glass_box` averages over exact log-likelihood ratios of sampled transcripts.
`black_box` sees only discrete outputs. `gaussian` is for additive noise that claims a Gaussian
curve. A method that has too few samples returns None instead of a number.
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
    """The result of an audit method.

    Parameters
    ----------
    epsilon
        A lower bound that holds with probability `confidence`. None: there are too few samples to
        say anything. 0: there were enough samples, and they show no leak.
    delta
        The delta at which epsilon is bounded.
    confidence
        The probability that the bound holds.
    most
        The largest epsilon that these samples could have shown for any mechanism.
    seen
        Whether the observer sees what was judged. If not, epsilon is about an observer that sees
        more, and proves nothing against the guarantee.
    """

    epsilon: float | None
    delta: float
    confidence: float
    most: float = inf
    seen: bool = True


def largest_ratio(pairs: Sequence[tuple[float, float]]) -> Finding:
    """The largest |ln P(transcript) - ln Q(transcript)| over pairs of exact log-likelihoods.

    Epsilon is None if every transcript is impossible in both worlds.
    """
    at_least("transcripts", len(pairs), 1)
    expect(not np.isnan(pairs).any(), "log-likelihoods", "nan", "to be numbers")
    possible = [(p, q) for p, q in pairs if p > -np.inf or q > -np.inf]
    worst = max((abs(p - q) for p, q in possible), default=None)
    return Finding(worst, 0.0, 1.0)


def glass_box(forward: Array, backward: Array, delta: float, confidence: float = 0.999) -> Finding:
    """A lower bound on epsilon from exact log-likelihood ratios of sampled transcripts.

    `forward` holds ln dP/dQ sampled under P, `backward` holds ln dQ/dP sampled under Q. The bound
    rests on delta(eps) = E_P[(1 - e^(eps - LLR))_+], the mean of v_i, and on the same with P and Q
    exchanged. Whether this mean exceeds `delta` is tested by betting. If it does not, the capital
    prod(1 + b (v_i - delta)) has mean at most 1 for every bet 0 <= b < 1/delta, so it reaches
    1/failure with probability at most `failure`. The bet is chosen on a quarter of the sample and
    judged on the rest. The capital falls with epsilon, so the largest epsilon that is shown is a
    bound. Each direction has half of the failure probability. With delta = 0, one observed
    log-ratio is already a proof.
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
    # Nonzero ratios with a bound of 0: there is a leak, but too few samples to say how large.
    silent = found == 0.0 and any(bool(ratios.any()) for ratios in samples)
    return Finding(None if silent else found, delta, confidence)


def _shown(ratios: Array, delta: float, needed: float) -> float:
    """The largest epsilon whose delta is shown to exceed `delta`; 0 if there is none."""
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
    """The largest epsilon >= 0 at which a fixed bet's log-capital reaches `needed`; 0 if none."""

    def reached(epsilon: float) -> bool:
        return (
            float(np.log1p(bet * (-np.expm1(np.minimum(epsilon - ratios, 0.0)) - delta)).sum())
            >= needed
        )

    low, high = 0.0, float(ratios[np.isfinite(ratios)].max(initial=0.0)) + 1.0
    if not reached(low):
        return low
    while reached(high):  # only infinite log-ratios count beyond the largest finite one
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
    """A lower bound on epsilon from the frequencies of discrete outputs on two neighbouring inputs.

    An event is chosen on a quarter of the sample and judged on the rest, in both directions. The
    candidates are the sets on which the estimated likelihood ratio exceeds a level; the one with
    the largest estimate is taken. Whether P(event) > e^epsilon Q(event) + delta is tested by
    betting on pairs of outputs, one from each world. Let x and y be 1 if the outputs are in the
    event and 0 if not. If the inequality is false, the capital
    prod(1 + b (x - e^epsilon y - delta)) has mean at most 1 for every bet
    0 <= b < 1 / (e^epsilon + delta).

    At most ln(judged pairs / needed) can be shown. Epsilon is None if most outputs of the judged
    part were never seen in the part on which the event was chosen.
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
    """The largest epsilon that one direction shows; 0 if there is none."""
    outcomes = int(max(p.max(), q.max())) + 1
    counts_p, counts_q = (np.bincount(sample[:chosen_on], minlength=outcomes) for sample in (p, q))
    order = np.argsort(-(counts_p + 0.5) / (counts_q + 0.5), kind="stable")
    likely, rare = (
        np.cumsum(counts_p[order]) / chosen_on,
        np.cumsum(counts_q[order]) / chosen_on + 1 / chosen_on,
    )
    judged = pairs - chosen_on
    above = np.maximum(likely - delta, 1e-300)
    with np.errstate(divide="ignore"):  # an event that is rarer than delta shows nothing
        own = likely * (1 - likely) / above**2
    spread = np.sqrt((own + np.maximum(0.0, 1 - rare) / rare) * 2 * needed / judged)
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
    """The largest epsilon at which the log-capital reaches `needed`; 0 if there is none.

    `counts` are the numbers of pairs with x only, y only, both and neither in the event.
    """
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
    """A lower bound for additive noise that claims a Gaussian curve, read as epsilon at delta.

    It bounds mu = |shift| / deviation from below and assumes Gaussian outputs; for other claims use
    `black_box`. The bound on the shift uses the normal law of the two means. The bound on the
    deviation uses the chi-square law of the pooled variance.
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
