"""Secure noise: exact laws, at every scale, from entropy alone; and nothing weaker is ever taken
for it.
"""

from __future__ import annotations

import copy
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import ceil, exp, log
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from hedgerow.algorithms.baselines.follow_the_leader import FollowTheLeader
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.gradient.limited_updates import LimitedUpdates, RunPlan
from hedgerow.algorithms.sparse_vector.sparse_vector import SparseVector
from hedgerow.core.certificate import ENTROPY, IDEAL_REALS, Observer
from hedgerow.core.errors import InvalidValue, NotInstalled, Unsupported
from hedgerow.core.noise import SeededNoise
from hedgerow.engines.learner import Learner
from hedgerow.engines.simulate import simulate
from hedgerow.environments.drawn.examples import Classification
from hedgerow.environments.drawn.stochastic import Bernoulli
from hedgerow.privacy.mechanisms import (
    AdditiveNoise,
    ExponentialMechanism,
    GaussianNoise,
    NoisyMax,
)
from hedgerow.privacy.secure import SecureNoise, choice, exact, process, words
from hedgerow.privacy.secure import source as secure_source
from hedgerow.privacy.secure.exact import ExactLaw, integer
from hedgerow.privacy.secure.laws import SHAPES, LatticeLaw
from hedgerow.privacy.secure.source import require_secure
from hedgerow.privacy.secure.words import NoEntropy, SecureWords
from support.waiting import PATIENCE

WORDS = SecureWords()
FALSE_ALARM = 1e-6  # of one test: the entropy is new in every run
GAUSSIANS = ("gaussian", "discrete gaussian")
LAWS = {"exponential": stats.expon, "laplace": stats.laplace, "discrete laplace": stats.laplace}


def distribution(law: LatticeLaw, scale: float) -> Callable[[Any], Any]:
    """Pr(noise <= x) at integers x: summed up where that is possible, continuous with the half step
    where the scale is large.
    """
    shape = SHAPES[law](scale)
    reach = ceil((14 if law in GAUSSIANS else 60) * scale) + 5
    if reach < 2_000_000:
        x = np.arange(0 if shape.one_sided else -reach, reach + 1)
        sums = np.cumsum(shape.weight(np.abs(x).astype(float)))
        return lambda at: np.where(
            np.asarray(at) < x[0],
            0.0,
            sums[np.clip(np.asarray(at) - x[0], 0, len(x) - 1)] / sums[-1],
        )
    law_of = LAWS.get(law, stats.norm)
    return lambda at: law_of.cdf((np.asarray(at) + (1.0 if shape.one_sided else 0.5)) / scale)


def chi_square(sample: np.ndarray, law: LatticeLaw, scale: float, cells: int = 60) -> float:
    """The p-value of a sample under a law, in cells of about equal probability."""
    cdf = distribution(law, scale)
    edges = np.unique(
        np.quantile(sample, np.linspace(0, 1, cells + 1)[1:-1], method="inverted_cdf").astype(
            np.int64
        )
    )
    values = np.unique(sample)
    edges = values[:-1] if len(values) <= cells else edges
    expected = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]])) * len(sample)
    observed = np.bincount(np.searchsorted(edges, sample, side="left"), minlength=len(expected))
    keep = expected > 5
    few, wanted = observed[~keep].sum(), expected[~keep].sum()
    rest = [(few, max(wanted, 5.0))] if wanted > 5 or few > 5 else []
    pairs = np.array([*zip(observed[keep], expected[keep], strict=True), *rest])
    if len(pairs) < 2:
        return 1.0
    return float(
        stats.chi2.sf(((pairs[:, 0] - pairs[:, 1]) ** 2 / pairs[:, 1]).sum(), len(pairs) - 1)
    )


@pytest.mark.parametrize("law", SHAPES)
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 50.0, 1000.0, 2.0**20 / 0.3, 1e9, 2.0**39])
def test_samples_follow_their_law_and_no_other(law: LatticeLaw, scale: float) -> None:
    sample = ExactLaw(law, scale).sample(200_000, WORDS)
    assert sample.dtype == np.int64
    assert chi_square(sample, law, scale) > FALSE_ALARM
    for factor in (2 / 3, 3 / 2):
        assert chi_square(sample, law, factor * scale) < 1e-9


@pytest.mark.parametrize("law", SHAPES)
def test_kolmogorov_smirnov_on_a_fine_lattice(law: LatticeLaw) -> None:
    scale = 2.0**22
    sample = ExactLaw(law, scale).sample(20_000, WORDS) / scale
    law_of = LAWS.get(law, stats.norm)
    assert stats.kstest(sample, law_of.cdf).pvalue > FALSE_ALARM
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(sample / factor, law_of.cdf).pvalue < 1e-9


@pytest.mark.parametrize("law", SHAPES)
def test_a_short_table_is_as_exact(law: LatticeLaw) -> None:
    """A table that ends after a small part of the scale leaves much of the law to the tail and its
    digits.
    """
    short = ExactLaw(law, 1e6, reach=0.5)
    sample = short.sample(2000, WORDS)
    assert (np.abs(sample) >= short.tails[0]).mean() > 0.2
    assert chi_square(sample, law, 1e6, 30) > FALSE_ALARM
    assert chi_square(sample, law, 1.5e6, 30) < 1e-9


@pytest.mark.parametrize("law", SHAPES)
@pytest.mark.parametrize(
    "scale",
    [
        pytest.param(0.4, marks=pytest.mark.long),
        pytest.param(30.0, marks=pytest.mark.long),
        2.0**45,
    ],
)
def test_digits_alone_are_as_exact(law: LatticeLaw, scale: float) -> None:
    """The way without tables, for every scale, against the law and against half and twice the
    scale.
    """
    sample = np.array([integer(law, scale, WORDS) for _ in range(1500)])
    assert chi_square(sample, law, scale, 20) > FALSE_ALARM
    for factor in (0.5, 2.0):
        assert chi_square(sample, law, factor * scale, 20) < 1e-9


@pytest.mark.parametrize("law", SHAPES)
def test_any_scale_has_noise(law: LatticeLaw) -> None:
    """Far beyond 64 bits, and far below one step."""
    huge = np.array([integer(law, 1e200, WORDS) for _ in range(30)], float) / 1e200
    assert 0.2 < np.abs(huge).mean() < 3.0
    assert {integer(law, 1e-6, WORDS) for _ in range(20)} == {0}
    for scale in (1e-5, 0.02, 2.0**46):
        drawn = SecureNoise().integers(law, scale, 20)
        assert drawn.dtype == np.int64
        assert np.abs(drawn).max() <= 60 * scale


def test_a_scale_that_is_used_again_gets_a_table() -> None:
    """By digits at first, then by the table: the law is the same on both sides of the step."""
    parts = []
    for _ in range(150):
        server = SecureNoise().server()
        parts.append(
            np.concatenate([server.draw("laplace", "x", (4,), scale=1.0) for _ in range(8)])
        )
    halves = np.array(parts).reshape(150, 2, 16)
    for half in (halves[:, 0], halves[:, 1]):
        assert stats.kstest(half.ravel(), "laplace").pvalue > FALSE_ALARM
        assert stats.kstest(half.ravel() / 1.5, "laplace").pvalue < 1e-6


@pytest.mark.parametrize("law", SHAPES)
def test_floats_that_cannot_decide_leave_it_to_the_digits(
    law: LatticeLaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a margin of one tenth a good part of all trials is decided by digits: the law stays the
    same.
    """
    monkeypatch.setattr(exact, "ERROR", 0.1)
    asked = 0
    honest = exact.below

    def counted(*arguments: Any) -> bool:
        nonlocal asked
        asked += 1
        return honest(*arguments)

    monkeypatch.setattr(exact, "below", counted)
    sample = ExactLaw(law, 700.0).sample(4000, WORDS)
    assert asked > 100
    assert chi_square(sample, law, 700.0, 30) > FALSE_ALARM
    assert chi_square(sample, law, 1050.0, 30) < 1e-6


@pytest.mark.parametrize("law", SHAPES)
def test_floats_are_as_precise_as_claimed(law: LatticeLaw) -> None:
    """Against 50 digits, out to the end of the table: the margin is at least sixteen times the
    largest error.
    """
    worst = 0.0
    for scale in (0.3, 5.0, 63.9, 64.0, 80.0, 159.9, 160.0, 300.0, 1e6, 2.0**39):
        shape = SHAPES[law](scale)
        for size in {
            0,
            1,
            2,
            *(int(scale * part) for part in (0.5, 1, 2, 5, 9, 20, 30, 35, 100, 300, 620)),
        }:
            with exact.mp.workprec(2000):
                true = shape.exact(size)
                if true > exact.mp.mpf(2) ** -900:
                    given = float(shape.weight(np.array([float(size)]))[0])
                    worst = max(worst, abs(float((exact.mp.mpf(given) - true) / true)))
    assert worst < exact.ERROR / 16


@pytest.mark.long
@pytest.mark.parametrize("law", SHAPES)
def test_tails_to_one_in_ten_million(law: LatticeLaw) -> None:
    """4 * 10^8 samples: the counts beyond points of probability 1e-3 .. 1e-7 are as they should be."""
    scale, count = 2.0**20, 400_000_000
    ends = {
        "exponential": lambda p: -log(p),
        "laplace": lambda p: -log(p),
        "discrete laplace": lambda p: -log(p),
        "gaussian": lambda p: stats.norm.isf(p / 2),
        "discrete gaussian": lambda p: stats.norm.isf(p / 2),
    }
    levels = [10.0**-k for k in range(3, 8)]
    edges = np.array([ends[law](p) for p in levels]) * scale
    hits, sampler = np.zeros(len(levels)), ExactLaw(law, scale)
    for _ in range(count // 10**7):
        sample = np.abs(sampler.sample(10**7, WORDS))
        hits += [(sample > edge).sum() for edge in edges]
    for seen, level in zip(hits, levels, strict=True):
        assert stats.binomtest(int(seen), count, level).pvalue > FALSE_ALARM, (law, level, seen)


def test_the_alias_table_gives_every_strip_its_weight() -> None:
    for law in SHAPES:
        made = ExactLaw(law, 1000.0)
        limits, others = exact._alias(made.sure)
        held = np.bincount(others, weights=exact.SIDES - limits, minlength=exact.CELLS)
        held[: len(made.sure)] += limits[: len(made.sure)]
        assert np.array_equal(held[: len(made.sure)], made.sure)
        assert held[len(made.sure) :].sum() == 0
        assert limits[len(made.sure) :].sum() == 0


@pytest.mark.parametrize("law", SHAPES)
@pytest.mark.parametrize("scale", [0.4, 1000.0, 2.0**20, 2.0**39])
def test_the_law_lies_between_the_staircases(law: LatticeLaw, scale: float) -> None:
    """Against 50 digits, at both ends of some strips; and nearly all of it below the lower one."""
    made = ExactLaw(law, scale)
    strips, width = len(made.starts) - len(made.tails), 2**made.bits
    assert made.weights.sum() == made.sure.sum() == exact.TOTAL
    assert made.sure[-1] < exact.TOTAL / 100
    for strip in {0, 1, strips // 2, strips - 1, *range(0, strips, strips // 20)}:
        with exact.mp.workprec(200):
            ends = [int(made.starts[strip]) + end for end in (0, width - 1)]
            needed = [made.unit * made.shape.exact(end) for end in ends]
            assert made.sure[strip] <= min(needed) <= max(needed) <= made.weights[strip]


def test_the_border_is_drawn_as_the_table_says() -> None:
    """Every place of the border of a tiny game has its strip and its height."""
    law = ExactLaw("laplace", 1000.0)
    gaps = law.weights - np.append(law.sure[:-1], [0] * len(law.tails))
    firsts = np.cumsum(gaps) - gaps
    strips = np.flatnonzero(gaps[: -len(law.tails)] > 1)
    for place, height in (
        (firsts[strips], law.sure[strips]),
        (firsts[strips] + gaps[strips] - 1, law.weights[strips] - 1),
    ):
        offset = np.arange(len(strips), dtype=np.uint64) % np.uint64(2**law.bits)
        x = law.starts[strips] + offset.astype(np.int64)
        bound = law.unit * law.shape.weight(x.astype(float))
        for add in (0, 1):  # the smallest and the largest fraction of a height
            more = offset + np.uint64(add * (2**64 - 2**32))
            forged: Any = Scripted(*place.tolist(), *more.tolist())
            values, won = law._decide(len(strips), forged)
            assert np.array_equal(values, x)
            sure = np.abs(bound - height - add) > 1e-4
            assert sure.mean() > 0.99
            assert np.array_equal(won[sure], (height + add < bound)[sure])


def test_points_of_the_border_are_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    law, drawn = ExactLaw("laplace", 1000.0), 0

    def counting(self: ExactLaw, count: int, words: SecureWords) -> tuple[np.ndarray, np.ndarray]:
        nonlocal drawn
        drawn += count
        return np.arange(drawn - count, drawn, dtype=float), np.ones(count, bool)

    monkeypatch.setattr(ExactLaw, "_decide", counting)
    used = np.concatenate([law._next_decided(n, WORDS)[0] for n in (3, 20, 1, 0, 500, 70_000, 2)])
    assert len(np.unique(used)) == len(used) == 70_526


@pytest.mark.parametrize("choose", [choice.exponential, choice.permute_and_flip])
@pytest.mark.parametrize("rate", [0.3, 2.0])
def test_selection_is_exact(
    choose: Callable[..., int], rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps = np.array([2.0, 0.0, 0.5, 0.0, 1.25, 600.0])
    for error, runs in (
        (2.0**-36, 20_000),
        (0.2, 3000),
    ):  # with the second margin digits decide often
        monkeypatch.setattr(choice, "ERROR", error)
        counts = np.bincount([choose(gaps, rate, WORDS) for _ in range(runs)], minlength=len(gaps))

        def p_value(rate: float, counts: np.ndarray = counts, runs: int = runs) -> float:
            law = "gumbel" if choose is choice.exponential else "exponential"
            expected = NoisyMax("test", law, 2 * rate).probabilities(gaps) * runs
            seen = expected > 1e-3
            assert counts[~seen].sum() == 0
            return float(
                stats.chi2.sf(
                    ((counts - expected)[seen] ** 2 / expected[seen]).sum(), seen.sum() - 1
                )
            )

        assert p_value(rate) > FALSE_ALARM
        if runs == 20_000:
            assert p_value(1.5 * rate) < 1e-6
            assert p_value(rate / 1.5) < 1e-6


def test_coins_and_orders_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    indices = np.bincount([choice.index_below(7, WORDS) for _ in range(14_000)], minlength=7)
    assert stats.chisquare(indices).pvalue > FALSE_ALARM
    first = np.bincount([int(choice.permutation(5, WORDS)[0]) for _ in range(10_000)], minlength=5)
    assert stats.chisquare(first).pvalue > FALSE_ALARM
    heads = sum(choice.below_exp(1.5, 0.4, WORDS.integer(64), WORDS) for _ in range(4000))
    assert stats.binomtest(heads, 4000, exp(-0.6)).pvalue > FALSE_ALARM
    for error in (2.0**-36, 0.2):  # with the second margin digits decide often
        monkeypatch.setattr(choice, "ERROR", error)
        gaps = np.array([0.0, 0.5, 3.0, 2000.0])
        shown = np.mean([choice.flips(gaps, 0.7, WORDS) for _ in range(3000)], axis=0)
        assert (shown[0], shown[3]) == (1.0, 0.0)
        for gap, share in zip(gaps[1:3], shown[1:3], strict=True):
            assert stats.binomtest(round(3000 * share), 3000, exp(-0.7 * gap)).pvalue > FALSE_ALARM
            assert stats.binomtest(round(3000 * share), 3000, exp(-0.7 * gap * 1.5)).pvalue < 1e-6
    drawn = SecureNoise().server().draw("uniform", "coin", (20_000,))
    assert stats.kstest(drawn, "uniform").pvalue > FALSE_ALARM


def test_words_are_fresh_and_uniform() -> None:
    drawn = WORDS.take(200_000)
    bits = np.unpackbits(drawn.view(np.uint8))
    assert stats.binomtest(int(bits.sum()), len(bits), 0.5).pvalue > FALSE_ALARM
    assert len(np.unique(drawn)) == len(drawn)
    assert not np.intersect1d(drawn, SecureWords().take(200_000)).size
    assert WORDS.integer(200).bit_length() <= 200


def test_a_worn_key_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = SecureWords()
    first = fresh.generation
    monkeypatch.setattr(words, "REKEY_AFTER", 1000)
    fresh.take(200)
    fresh.take(1)
    assert fresh.generation == first + 1


def _child(source: SecureNoise, queue: Any) -> None:
    queue.put(source.server().draw("laplace", "child", (50,), scale=1.0).tolist())


def test_a_process_number_that_comes_up_again_does_not_bring_the_key_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fresh = SecureWords()
    first = fresh.generation
    monkeypatch.setattr(os, "getpid", lambda: 1)
    process._forked()  # as in a child
    fresh.take(1)
    assert fresh.generation == first + 1


def test_a_forked_process_draws_other_noise() -> None:
    source = SecureNoise()
    source.server().draw("laplace", "before", (50,), scale=1.0)  # there is now noise in store
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(source, queue))
    child.start()
    other = queue.get(timeout=PATIENCE)
    child.join()
    own = source.server().draw("laplace", "parent", (200,), scale=1.0).tolist()
    assert len(set(other) & set(own)) < 5  # 0.002 by chance; what was in store is 50


def test_a_fork_that_python_does_not_notice_draws_other_noise() -> None:
    """Some servers fork in C and call none of Python's hooks."""
    source = SecureNoise()
    source.integers("laplace", 1000.0, 300)  # there is now noise in store
    read, write = os.pipe()
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        os.write(
            write, np.append(source.integers("laplace", 1e9, 20), source.index(10**9)).tobytes()
        )
        os._exit(0)
    own = np.append(source.integers("laplace", 1e9, 20), source.index(10**9))
    os.waitpid(child, 0)
    other = np.frombuffer(os.read(read, 10_000), np.int64)
    assert len(other) == 21
    assert not set(own.tolist()) & set(other.tolist())


def test_nobody_else_can_take_the_digits_away() -> None:
    """The application's mpmath may be set to five digits at any moment: the samplers have their
    own.
    """
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            mpmath.mp.dps = 5

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        drawn = [integer("laplace", 2.0**45, WORDS) for _ in range(1500)]
    finally:
        stop.set()
        thread.join()
        mpmath.mp.dps = 15
    assert sum(value % 2**12 == 0 for value in drawn) < 8  # 0.4 expected
    assert exact.mp is not mpmath.mp


def test_a_draw_in_the_middle_of_another_uses_other_words() -> None:
    """A signal handler may interrupt a draw anywhere and draw from a second source in the same
    thread.
    """
    one, other = SecureNoise(), SecureNoise()
    inside: list[np.ndarray] = []

    def handler(number: int, frame: Any) -> None:
        inside.append(other.integers("gaussian", 2.0**38, 2**16))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for attempt in range(12):
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.0001 * attempt)
            drawn = one.integers("gaussian", 2.0**38, 2**17)
            signal.setitimer(signal.ITIMER_REAL, 0)
            for values in inside:
                assert (
                    len(np.intersect1d(drawn, values)) < 100
                )  # about 6 by chance; a shared piece has 8192
            inside.clear()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_round_is_answered_once_whoever_asks() -> None:
    """Threads that ask for the same round at the same time get the same answer: a second one would
    be a second release.
    """
    learner = Learner.private(
        SparseVector(epsilon=0.05), clients=1, experts=8, horizon=300, source=SecureNoise()
    )
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            for _ in range(300):
                barrier = threading.Barrier(2)
                answers = list(
                    pool.map(
                        lambda _, b=barrier: (b.wait(), learner.predict().tolist())[1], range(2)
                    )
                )
                assert answers[0] == answers[1]
                learner.observe(np.ones((1, 8)))
    finally:
        sys.setswitchinterval(interval)


def test_a_private_learner_cannot_be_copied_and_shows_no_losses() -> None:
    learner = Learner.private(SparseVector(), clients=2, experts=3, horizon=5, source=SecureNoise())
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or saved"):
            attempt(learner)
    learner.predict()
    with pytest.raises(
        InvalidValue, match=r"Expected the loss at \(1, 2\) \(client, expert\) to be in \[0, 1\]"
    ) as caught:
        learner.observe([[0.0, 0.0, 0.0], [0.0, 0.0, 1.2345]])
    assert "1.2345" not in str(caught.value)
    seeded = Learner(SparseVector(), clients=2, experts=3, horizon=5)
    seeded.predict()
    again = copy.deepcopy(seeded)
    again.observe(np.ones((2, 3)))
    assert (seeded.round, again.round) == (0, 1)


def test_it_cannot_be_copied_saved_seeded_or_subclassed() -> None:
    for secret in (SecureNoise(), SecureWords()):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or saved"):
                attempt(secret)
    for kind in (SecureNoise, SecureWords):
        with pytest.raises(TypeError, match="cannot be subclassed"):
            type("Weak", (kind,), {})
        with pytest.raises(TypeError):
            kind(0)  # pyright: ignore[reportCallIssue]
        with pytest.raises(TypeError):
            kind(seed=0)  # pyright: ignore[reportCallIssue]
    with pytest.raises(AttributeError):
        SecureNoise().words = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(SecureNoise, "restore")


def test_no_environment_variable_makes_it_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONHASHSEED", "HEDGEROW_SEED", "SEED", "NUMPY_SEED"):
        monkeypatch.setenv(name, "0")
    np.random.seed(0)
    first = SecureNoise().server().draw("laplace", "x", (20,), scale=1.0)
    np.random.seed(0)
    assert not np.array_equal(first, SecureNoise().server().draw("laplace", "x", (20,), scale=1.0))


def test_without_entropy_or_cipher_there_is_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(count: int) -> bytes:
        raise NotImplementedError("no entropy")

    monkeypatch.setattr(os, "urandom", missing)
    with pytest.raises(NoEntropy, match="no entropy"):
        SecureNoise()
    monkeypatch.setattr(os, "urandom", lambda count: b"")
    with pytest.raises(NoEntropy, match="gave 0"):
        SecureNoise()
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(NotInstalled, match="cryptography"):
        SecureNoise()


@pytest.mark.parametrize("weak", [SeededNoise(0), None, object(), SeededNoise])
def test_nothing_else_passes_for_secure(weak: Any) -> None:
    with pytest.raises(InvalidValue, match="Expected SecureNoise"):
        require_secure(weak)
    with pytest.raises(InvalidValue, match="Expected SecureNoise"):
        require_secure(SecureNoise.__new__(SecureNoise))
    source = SecureNoise()
    assert require_secure(source) is source


def test_a_private_learner_protects_somebody_with_exact_noise() -> None:
    learner = Learner.private(
        SparseVector(), clients=2, experts=3, horizon=50, source=SecureNoise()
    )
    for _ in range(50):
        learner.predict()
        learner.observe(np.ones((2, 3)))
    assumed = learner.algorithm.certificate.guarantee(Observer.PEER).assumes
    assert ENTROPY in assumed
    assert IDEAL_REALS not in assumed
    with pytest.raises(InvalidValue, match="protects nobody"):
        Learner.private(FollowTheLeader(), clients=2, experts=3, horizon=5, source=SecureNoise())
    with pytest.raises(InvalidValue, match="Expected SecureNoise"):
        Learner.private(SparseVector(), clients=2, experts=3, horizon=5, source=SeededNoise(0))  # pyright: ignore[reportArgumentType]


def test_bad_input_is_refused() -> None:
    server = SecureNoise().server()
    for scale in (0.0, -1.0, 1e-100, float("inf"), float("nan"), 2.0**40):
        with pytest.raises(InvalidValue, match="Expected scale="):
            ExactLaw("laplace", scale)
    for scale in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InvalidValue, match="Expected scale="):
            integer("laplace", scale, WORDS)
        with pytest.raises(InvalidValue, match="Expected scale="):
            SecureNoise().integers("laplace", scale, 3)
        with pytest.raises(InvalidValue, match="Expected scale="):
            server.draw("laplace", "x", scale=scale)
    with pytest.raises(InvalidValue, match="Expected law='cauchy'"):
        SecureNoise().integers("cauchy", 1.0, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match=r"Expected scale=.* <= 7\.0"):
        SecureNoise().integers("laplace", 2.0**60, 1)
    with pytest.raises(InvalidValue, match="Expected law='cauchy'"):
        ExactLaw("cauchy", 1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="Expected count=-1"):
        ExactLaw("laplace", 1.0).sample(-1, WORDS)
    with pytest.raises(InvalidValue, match="too coarse"):
        server.draw("laplace", "x", scale=1e-7)
    with pytest.raises(InvalidValue, match="on the lattice"):
        server.release(AdditiveNoise("x", "laplace", 1.0), 0.3)
    with pytest.raises(InvalidValue, match="on the lattice"):
        server.release(ExponentialMechanism("x", 1.0), [0.0, 0.3])
    with pytest.raises(InvalidValue, match=r"Expected scale=134217728\.0 <= 6\.71089e"):
        server.draw("laplace", "x", scale=2.0**27)
    with pytest.raises(InvalidValue, match=r"value \(entry \(1,\)\) on the lattice") as caught:
        server.release(AdditiveNoise("x", "laplace", 1.0), np.array([0.0, 0.3]))
    assert "0.3" not in str(caught.value)
    with pytest.raises(InvalidValue, match="in size"):
        server.release(AdditiveNoise("x", "laplace", 1.0), 2.0**40)
    with pytest.raises(Unsupported, match="no exact sampler for gumbel"):
        server.draw("gumbel", "x")
    for gaps, rate in (
        (np.array([1.0, 2.0]), 1.0),
        (np.array([0.0, np.nan]), 1.0),
        (np.array([0.0]), 0.0),
        (np.zeros((2, 2)), 1.0),
    ):
        with pytest.raises(InvalidValue):
            choice.exponential(gaps, rate, WORDS)


def test_released_values_stay_on_the_lattice() -> None:
    source = SecureNoise()
    for mechanism in (
        AdditiveNoise("x", "laplace", 0.7),
        AdditiveNoise("x", "exponential", 0.7),
        GaussianNoise("x", 0.7),
    ):
        value = np.arange(12.0).reshape(4, 3) / 4
        released = source.everyone("client", 4).release(mechanism, value) * 2**20
        assert released.shape == (4, 3)
        assert np.array_equal(released, np.round(released))
    assert ExponentialMechanism("x", 50.0).sample(
        np.array([[0.0, 9.0], [9.0, 0.0]]), source.everyone("client", 2)
    ).tolist() == [0, 1]


def test_noise_in_store_is_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a law that counts 0, 1, 2, ... every value is handed out once and in order, whatever the
    sizes of the draws.
    """
    drawn = 0

    def counting(self: ExactLaw, target: np.ndarray, words: SecureWords) -> None:
        nonlocal drawn
        target[:] = np.arange(drawn, drawn + len(target))
        drawn += len(target)

    def counting_most(self: ExactLaw, target: np.ndarray, words: SecureWords) -> int:
        nonlocal drawn
        count = len(target) - len(target) // 100  # the others lost their trials
        target[:] = -1
        target[:count] = np.arange(drawn, drawn + count)
        drawn += count
        return count

    monkeypatch.setattr(ExactLaw, "fill", counting)
    monkeypatch.setattr(ExactLaw, "fill_most", counting_most)
    monkeypatch.setattr(secure_source, "_FEW", 0)
    server = SecureNoise().server()
    sizes = (1, 1, 7, 300, 5000, 70_000, 3, 200_000, exact.BATCH - 1, exact.BATCH, 9)
    taken = np.concatenate([server.draw("gaussian", "x", (size,), scale=1.0) for size in sizes])
    assert np.array_equal(taken, np.arange(len(taken)))


def test_an_interrupted_draw_hands_out_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a refill did not finish is never taken for noise."""
    honest, source = ExactLaw.fill, SecureNoise()
    server = source.server()
    for _ in range(6):  # at every size of the store

        def interrupted(self: ExactLaw, target: np.ndarray, words: SecureWords) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(ExactLaw, "fill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.draw("laplace", "x", (2 * exact.BATCH,), scale=1.0)
        monkeypatch.setattr(ExactLaw, "fill", honest)
        sample = server.draw("laplace", "x", (4000,), scale=1.0)
        assert stats.kstest(sample, "laplace").pvalue > FALSE_ALARM


def test_an_interrupted_refill_hands_out_nothing_and_can_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest, server = ExactLaw.fill_most, SecureNoise().server()

    def interrupted(self: ExactLaw, target: np.ndarray, words: SecureWords) -> int:
        target[: len(target) // 2] = 1e6
        raise KeyboardInterrupt

    for size in (300, 1000, 5000):
        server.draw("laplace", "x", (size,), scale=1.0)
        monkeypatch.setattr(ExactLaw, "fill_most", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.draw("laplace", "x", (exact.BATCH - 1,), scale=1.0)
        monkeypatch.setattr(ExactLaw, "fill_most", honest)
        sample = server.draw("laplace", "x", (4000,), scale=1.0)
        assert stats.kstest(sample, "laplace").pvalue > FALSE_ALARM


def test_the_scale_that_is_asked_for_is_the_scale_that_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, float]] = []
    steps: list[float] = []
    honest = ExactLaw.__init__

    def noted(self: ExactLaw, law: LatticeLaw, scale: float, **options: Any) -> None:
        made.append((law, scale))
        steps.append(options["step"])
        honest(self, law, scale, **options)

    monkeypatch.setattr(ExactLaw, "__init__", noted)
    SecureNoise().server().release(GaussianNoise("x", 0.75), np.ones(100))
    assert made == [("gaussian", 0.75 * 2**20)]
    assert steps == [2.0**-20]


class Scripted:
    """Words that are given; then zeros."""

    def __init__(self, *given: int) -> None:
        self.given, self.asked = list(given), 0

    def take(self, count: int) -> np.ndarray:
        self.asked += count
        return np.array([self.given.pop(0) if self.given else 0 for _ in range(count)], np.uint64)

    def integer(self, bits: int) -> int:
        return int(self.take(-(-bits // 64))[0])


@pytest.mark.parametrize("gap", [100.0, 400.0, 745.0, 746.0])
def test_a_hopeless_coin_is_not_taken_for_heads(gap: float) -> None:
    """The first 64 bits of the trial are zero, the next are not: a chance far below 2^-64 has lost
    all the same.
    """
    order, coins, more = [0, 1], [0, 2**63], [2**63]
    forged: Any = Scripted(*order, *coins, *more)
    assert choice.permute_and_flip(np.array([gap, 0.0]), 1.0, forged) == 1
    assert forged.asked > 4  # it looked at more bits


def test_strips_are_chosen_as_the_table_says() -> None:
    """Words at the very limits of cells, against the table read cell by cell."""
    law = ExactLaw("laplace", 1000.0)
    limits, others = exact._alias(law.sure)
    first = np.minimum(np.arange(exact.CELLS), len(law.sure) - 1)
    full = np.flatnonzero(limits == exact.SIDES)[-1]  # it changes places with the last cell
    for column in (limits, first, others):
        column[[full, -1]] = column[[-1, full]]
    cells = np.flatnonzero((limits > 0) & (limits < exact.SIDES))
    assert {full, *range(100)} & set(cells.tolist())
    for side, strip in ((limits[cells] - 1, first[cells]), (limits[cells], others[cells])):
        drawn = ((cells.astype(np.uint64) << np.uint64(19)) + side.astype(np.uint64)) << np.uint64(
            32
        )

        class Words(Scripted):
            def fill(self, target: np.ndarray, drawn: np.ndarray = drawn) -> None:
                target[:] = drawn

        found = np.empty(len(cells))
        forged: Any = Words()
        scratch = exact._Scratch()
        law._quick(found, 0, scratch, forged)
        starts = np.append(law.starts[: len(law.sure) - 1], np.inf)  # the border is the last
        assert np.array_equal(found, starts[strip])
        assert np.array_equal(scratch.border[: len(found)], starts[strip] == np.inf)


def test_signs_are_balanced_and_positions_alike() -> None:
    for law in ("laplace", "gaussian"):
        sample = ExactLaw(law, 3000.0).sample(10 * exact.BATCH, WORDS)
        assert (
            stats.binomtest(int((sample > 0).sum()), int((sample != 0).sum()), 0.5).pvalue
            > FALSE_ALARM
        )
        rows = sample.reshape(10, exact.BATCH)
        ends = np.concatenate([rows[:, :2000].ravel(), rows[:, -2000:].ravel()])
        assert chi_square(ends, law, 3000.0) > FALSE_ALARM
        neighbours = np.corrcoef(sample[:-1], sample[1:])[0, 1]
        assert abs(neighbours) < 5 / np.sqrt(len(sample))


def test_threads_never_share_noise() -> None:
    source = SecureNoise()
    with ThreadPoolExecutor(4) as pool:
        parts = list(
            pool.map(
                lambda _: source.server().draw("gaussian", "x", (3000,), scale=2.0**15), range(40)
            )
        )
    values = np.concatenate(parts)
    assert (
        len(np.unique(values)) > len(values) - 12
    )  # by chance about one pair in 1.2 * 10^5 values is equal
    assert stats.kstest(values / 2**15, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("law", "scale"),
    [("laplace", 3.0), ("laplace", 1000.0), ("gaussian", 3.0), ("gaussian", 1000.0)],
)
def test_agrees_with_opendp(law: str, scale: float) -> None:
    """The same law as OpenDP's samplers (whose laws are our discrete ones), by a two-sample test
    with power.
    """
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    if law == "gaussian":
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    theirs = np.array(
        (dp.m.make_laplace if law == "laplace" else dp.m.make_gaussian)(*space, scale=scale)(
            [0] * 20_000
        )
    )
    ours = ExactLaw("discrete laplace" if law == "laplace" else "discrete gaussian", scale).sample(
        20_000, WORDS
    )
    edges = np.unique(np.quantile(theirs, np.linspace(0, 1, 30)[1:-1], method="inverted_cdf"))

    def p_value(sample: np.ndarray) -> float:
        table = [
            np.bincount(np.searchsorted(edges, each, side="left"), minlength=len(edges) + 1)
            for each in (theirs, sample)
        ]
        return float(stats.chi2_contingency(np.array(table)).pvalue)  # pyright: ignore[reportAttributeAccessIssue]

    assert p_value(ours) > FALSE_ALARM
    assert p_value(np.round(ours * 1.5).astype(int)) < 1e-9


def test_games_with_secure_noise_flip_exact_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast paths compare uniform floats, so they are for seeded noise only."""
    environment = Bernoulli(clients=2, experts=5, horizon=60)
    algorithm, source, flipped = ShrinkingDartboard().build(environment.setting), SecureNoise(), []
    flip = SecureNoise.flip
    monkeypatch.setattr(
        SecureNoise, "flip", lambda *arguments: flipped.append(1) or flip(*arguments)
    )
    monkeypatch.setattr(
        SecureNoise, "uniform", lambda *arguments: pytest.fail("a coin from a float")
    )
    simulate(algorithm, environment, 0, noise=source)
    assert flipped
    game = Classification(clients=2, features=3, horizon=16)
    pure = LimitedUpdates(delta=0.0, plan=RunPlan(phases=2)).build(game.setting)
    with pytest.raises(Unsupported, match="limited_updates needs EuclideanNoise"):
        simulate(pure, game, 0, noise=source)


@pytest.mark.parametrize("lost", [[], [0], [9], [0, 3, 8], [7, 8, 9], [1, 2, 8], list(range(10))])
def test_places_that_lose_are_filled_from_the_end(
    lost: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    law, target = ExactLaw("laplace", 1000.0), np.arange(10.0)
    monkeypatch.setattr(ExactLaw, "_try", lambda *_: np.array(lost, np.int64))
    count = law.fill_most(target, WORDS)
    assert sorted(target[:count]) == [i for i in range(10) if i not in lost]
    stay = [i for i in range(count) if i not in lost]
    assert target[stay].tolist() == stay


@pytest.mark.parametrize("scale", [3000.0, 2.0**36])
def test_noise_of_the_store_has_the_law_in_narrow_and_wide_strips(scale: float) -> None:
    law, target = ExactLaw("gaussian", scale), np.empty(60_000)
    sample = target[: law.fill_most(target, WORDS)] / scale
    assert stats.kstest(sample, "norm").pvalue > FALSE_ALARM
    assert stats.kstest(1.1 * sample, "norm").pvalue < FALSE_ALARM


def test_a_store_with_few_accepted_trials_still_has_the_law() -> None:
    law, target = ExactLaw("gaussian", 0.4), np.empty(50_000)
    sample = target[: law.fill_most(target, WORDS)].astype(np.int64)
    assert chi_square(sample, "gaussian", 0.4) > FALSE_ALARM
    assert chi_square(sample, "gaussian", 0.45) < FALSE_ALARM
