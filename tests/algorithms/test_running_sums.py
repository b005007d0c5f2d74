"""Factorisations of running sums: streams, sensitivities, errors, optimisers, the lattice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, getcontext
from functools import partial
from itertools import combinations, pairwise, product
from typing import Any, get_args

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import chi2

from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.fingerprint import fingerprint
from hedgerow.core.messages import decode, encode
from hedgerow.running_sums import (
    Banded,
    BufferedToeplitz,
    Dense,
    Epochs,
    Factorisation,
    Filter,
    FilterState,
    Independent,
    Kind,
    LatticeEncoder,
    ToeplitzRoot,
    Tree,
    buffered,
    factorisation,
    factorise,
    toeplitz,
)
from hedgerow.running_sums.buffered import geometric_sum, ramp_sum
from hedgerow.running_sums.factorisation import most_shared
from hedgerow.running_sums.filters import Precision
from hedgerow.running_sums.tree import TreeDecoder

MAKE: dict[str, Callable[[int], Factorisation]] = {
    **{kind: partial(factorise, kind, buffers=2) for kind in get_args(Kind)},
    "truncated": lambda n: Banded.truncated(n, min(n, 5)),
    "blt, no horizon": lambda n: replace(BufferedToeplitz.optimised(50, 3), rounds=None),
    "short epochs": lambda n: Epochs(first=3, buffers=2),
}
every = pytest.mark.parametrize("make", MAKE.values(), ids=list(MAKE))


def sums(rounds: int) -> Any:
    return np.tril(np.ones((rounds, rounds)))


def vectors(rounds: int, *shape: int) -> Any:
    return np.random.default_rng(rounds).normal(size=(rounds, *shape))


@every
@pytest.mark.parametrize("rounds", [1, 2, 5, 16, 37])
def test_the_factors_give_running_sums(make: Any, rounds: int) -> None:
    made = make(rounds)
    encoding, decoding = made.matrix(rounds), made.decoding(rounds)
    assert np.abs(decoding @ encoding - sums(rounds)).max() < 1e-10
    assert not np.triu(encoding, 1).any()
    assert encoding.min() >= 0
    assert made.row_sum(rounds) >= encoding.sum(axis=1).max() * (1 - 1e-12)


@every
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_streams_agree_with_the_matrices(make: Any, shape: tuple[int, ...]) -> None:
    rounds = 37
    made, given = make(rounds), vectors(37, *shape)
    for stream, matrix in (
        (made.encoder, made.matrix(rounds)),
        (made.decoder, made.decoding(rounds)),
    ):
        filtered, state = stream.block(stream.start(shape), given)
        assert filtered == pytest.approx(np.tensordot(matrix, given, 1), abs=1e-10)
        assert state.round == rounds


@every
def test_blocks_and_reloaded_states_give_the_same_bits(make: Any) -> None:
    made, given = make(30), vectors(30, 5)
    for stream in (made.encoder, made.decoder):
        at_once, last = stream.block(stream.start((5,)), given)
        state = stream.start((5,))
        for row, vector in enumerate(given):
            before = encode(state)
            filtered, after = stream.step(state, vector)
            assert encode(state) == before  # nothing changes in place
            assert np.array_equal(filtered, at_once[row])
            state = decode(FilterState, encode(after))
        assert encode(state) == encode(last)
        # each coordinate has its own stream: one alone gives the same bits
        alone, _ = stream.block(stream.start(()), given[:, 3])
        assert np.array_equal(alone, at_once[:, 3])


def test_pieces_give_the_same_bits() -> None:
    made, given = BufferedToeplitz.optimised(4, 2), vectors(3, 40_000)
    wide, _ = made.encoder.block(made.encoder.start((40_000,)), given)
    alone, _ = made.encoder.block(made.encoder.start(()), given[:, 39_999])
    assert np.array_equal(wide[:, 39_999], alone)


IN_PLACE: dict[str, Callable[[], Factorisation]] = {
    "float64": lambda: BufferedToeplitz.optimised(9, 3),
    "float32": lambda: BufferedToeplitz.optimised(9, 3, precision="float32"),
    "tree": lambda: Tree(9),
    "naive tree": lambda: Tree(9, "naive"),
    "epochs": lambda: Epochs(first=3, buffers=2),
}


@pytest.mark.parametrize("make", IN_PLACE.values(), ids=list(IN_PLACE))
def test_steps_in_place_give_the_same_bits(make: Any) -> None:
    made, given = make(), vectors(9, 70_000)
    for stream in (made.encoder, made.decoder):
        expected, last = stream.block(stream.start((70_000,)), given)
        state = stream.start((70_000,))
        for row, vector in enumerate(given):
            memory = state.memory
            filtered, state = stream.step(state, vector, in_place=True)
            assert np.array_equal(filtered, expected[row])
            begins = isinstance(made, Epochs) and row in {0, *made.ends}  # an epoch begins
            assert state.memory is memory or begins  # nothing new is allocated
            filtered[:] = np.nan  # what was returned is not the memory
        assert encode(state) == encode(last)


@every
def test_in_place_is_the_same_on_the_lattice(make: Any) -> None:
    encoder = LatticeEncoder(make(12), 3, 1.0, rounds=12)
    given = np.rint(np.random.default_rng(4).uniform(-1, 1, (12, 3)) * 2**20) / 2**20
    expected, state = outputs(encoder, given), encoder.start((3,))
    for row, vector in enumerate(given):
        filtered, state = encoder.step(state, vector, in_place=True)
        assert np.array_equal(filtered, expected[row])


@pytest.mark.parametrize("in_place", [False, True])
def test_memory_that_is_not_contiguous_is_not_lost(in_place: bool) -> None:
    rng = np.random.default_rng(3)
    stream = BufferedToeplitz.optimised(50, 3).encoder
    plain, other = stream.start((2, 4)), stream.start((2, 4))
    for vector in rng.normal(size=(6, 2, 4)):
        turned = np.moveaxis(np.moveaxis(other.memory, 0, -1).copy(), -1, 0)
        assert not turned.flags.c_contiguous
        expected, plain = stream.step(plain, vector)
        found, other = stream.step(replace(other, memory=turned), vector, in_place=in_place)
        assert np.array_equal(found, expected)
        assert np.array_equal(other.memory, plain.memory)


def patterns(rounds: int, most: int, gap: int) -> Any:
    for count in range(1, most + 1):
        for chosen in combinations(range(rounds), count):
            if all(b - a >= gap for a, b in pairwise(chosen)):
                yield chosen


@every
@pytest.mark.parametrize(("most", "gap"), [(1, 1), (2, 1), (2, 4), (3, 3), (4, 1), (9, 2)])
def test_sensitivity_is_the_worst_of_all_patterns_and_signs(make: Any, most: int, gap: int) -> None:
    rounds = 10
    made = make(rounds)
    matrix = made.matrix(rounds)
    worst = max(
        np.linalg.norm(matrix[:, list(chosen)] @ np.array(signs))
        for chosen in patterns(rounds, min(most, 4), gap)
        for signs in product((1.0, -1.0), repeat=len(chosen))
    )
    if most > 4:  # without negative entries all signs are equal
        worst = (
            max(
                matrix[:, list(c)].sum(axis=1) @ matrix[:, list(c)].sum(axis=1)
                for c in patterns(rounds, most, gap)
            )
            ** 0.5
        )
    found = made.sensitivity(most, gap)
    if made.rounds is None or isinstance(made, Epochs):
        assert found >= worst * (1 - 1e-12)  # for all the rounds of an epoch
    else:
        assert worst <= found <= worst * (1 + 1e-9)


def test_without_a_horizon_the_sensitivity_is_a_limit() -> None:
    endless = replace(BufferedToeplitz.optimised(50, 3), rounds=None)
    for most, gap in ((1, 1), (3, 5)):
        long = replace(endless, rounds=5000).sensitivity(most, gap)
        assert endless.sensitivity(most, gap) == pytest.approx(long, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_best_pattern_of_any_matrix(seed: int) -> None:
    generator = np.random.default_rng(seed)
    columns = generator.exponential(size=(12, 12)) ** 2
    products = columns.T @ columns
    most, gap = int(generator.integers(2, 6)), int(generator.integers(1, 4))
    best = max(products[np.ix_(c, c)].sum() for c in patterns(12, most, gap))
    assert most_shared(products, most, gap) == pytest.approx(best, rel=1e-12)


def test_the_search_refuses_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidValue, match="products of columns"):
        most_shared(np.array([[1.0, -0.5], [-0.5, 1.0]]), 2, 1)
    monkeypatch.setattr(factorisation, "MOST_BRANCHES", 20)
    random = np.random.default_rng(0).exponential(size=(40, 40)) ** 4
    with pytest.raises(Unsupported, match="too many cases"):
        most_shared(random.T @ random, 12, 1)


@every
def test_errors_are_those_of_the_matrix(make: Any) -> None:
    made, rounds = make(29), 29
    each = np.linalg.norm(made.decoding(rounds), axis=1)
    assert made.error_by_round(rounds) == pytest.approx(each, rel=1e-11)
    errors = made.errors(rounds)
    assert errors.max == pytest.approx(each.max(), rel=1e-11)
    assert errors.rms == pytest.approx(np.sqrt((each**2).mean()), rel=1e-11)


@every
def test_decoded_noise_has_the_stated_covariance(make: Any) -> None:
    """White noise through the decoder, whitened by B, is white again: a chi-square test."""
    made, rounds, samples = make(12), 12, 4000
    noise = np.random.default_rng(7).normal(size=(rounds, samples))
    decoded, _ = made.decoder.block(made.decoder.start((samples,)), noise)

    def p_value(covariance: Any) -> float:
        white = np.linalg.solve(np.linalg.cholesky(covariance), decoded)
        sizes, scale = float((white**2).sum()), chi2(rounds * samples)
        pairs = np.triu(white @ white.T, 1)
        shared = chi2(rounds * (rounds - 1) // 2).sf(float((pairs**2).sum()) / samples)
        return min(1.0, 4 * min(scale.cdf(sizes), scale.sf(sizes)), 2 * shared)

    right = made.decoding(rounds) @ made.decoding(rounds).T
    assert p_value(right) > 1e-3
    assert p_value(1.03 * right) < 1e-3  # power
    turned = np.linalg.cholesky(right)
    turned[:, :2] = turned[:, :2] @ np.array([[1.0, 0.15], [0.0, math.sqrt(1 - 0.15**2)]])
    assert p_value(turned @ turned.T) < 1e-3  # the same variances of white noise, correlated
    if not isinstance(made, Independent):
        wrong = sums(rounds) @ sums(rounds).T  # independent noise
        assert p_value(wrong) < 1e-9


FIGURES = [
    (ToeplitzRoot(1000), 3.2650, 3.1022),
    (Tree(1000, "naive"), 9.4868, 7.0271),
    (Tree(1000), 6.7359, 4.9558),
    (Independent(1000), 31.6228, 22.3719),
    (BufferedToeplitz.optimised(1000, 4), 3.2654, 3.1025),
    (BufferedToeplitz.optimised(1000, 4, "rms"), 3.3448, 3.0498),
]


@pytest.mark.parametrize(("made", "largest", "rms"), FIGURES)
def test_figures_for_a_thousand_rounds(made: Factorisation, largest: float, rms: float) -> None:
    errors = made.scaled_errors()
    assert errors.max == pytest.approx(largest, abs=2e-4)
    assert errors.rms == pytest.approx(rms, abs=2e-4)


def test_the_whole_tree_has_the_known_error_and_a_part_of_it_is_cheaper() -> None:
    """Releasing all intervals costs sqrt(10); the combinations that decoders use cost less."""
    tree = Tree(1000)
    assert tree.errors().max * math.sqrt(10) == pytest.approx(7.2817, abs=2e-4)
    assert tree.sensitivity() < math.sqrt(8.56)


def test_least_squares_is_the_best_estimate_from_a_subtree() -> None:
    """The estimate of an interval is the Gauss-Markov estimate from all intervals within it."""
    for level in range(5):
        size = 2**level
        rows = np.array(
            [
                [float(k * width <= s < (k + 1) * width) for s in range(size)]
                for width in (2**i for i in range(level + 1))
                for k in range(size // width)
            ]
        )
        target = np.ones(size)
        variance = target @ np.linalg.solve(rows.T @ rows, target)
        assert Tree(32).table[level].variance == pytest.approx(variance, rel=1e-12)


@pytest.mark.parametrize(("rounds", "buffers", "share"), [(1000, 4, 1e-3), (10_000, 4, 2e-3)])
def test_few_buffers_come_close_to_the_square_root(rounds: int, buffers: int, share: float) -> None:
    best = BufferedToeplitz.optimised(rounds, buffers).scaled_errors().max
    assert best <= ToeplitzRoot(rounds).scaled_errors().max * (1 + share)


@pytest.mark.parametrize(
    ("rounds", "times", "apart", "share"), [(300, 24, 7, 0.8), (100, 5, 1, 0.95), (64, 2, 10, 0.99)]
)
def test_noise_for_several_vectors_of_a_person_is_less(
    rounds: int, times: int, apart: int, share: float
) -> None:
    """At the same guarantee, which the columns themselves confirm; and the slopes are right."""
    usual = BufferedToeplitz.optimised(rounds)
    made = BufferedToeplitz.optimised(rounds, times=times, apart=apart)
    assert made.scaled_errors(times, apart).max < share * usual.scaled_errors(times, apart).max
    columns = made.matrix()[:, ::apart][:, :times].sum(axis=1)
    assert made.sensitivity(times, apart) == pytest.approx(np.linalg.norm(columns), rel=1e-11)
    steps = np.random.default_rng(0).normal(-0.5, 0.3, 8)
    at = (rounds, "max", times, apart)
    value, slopes = buffered.objective(steps, *at)
    for k, slope in enumerate(slopes):
        moved = buffered.objective(steps + 1e-6 * np.eye(8)[k], *at)[0]
        assert (moved - value) / 1e-6 == pytest.approx(slope, abs=1e-5)


def test_the_rms_objective_has_the_smaller_rms_error() -> None:
    for make in (BufferedToeplitz.optimised, Banded.optimised):
        largest, rms = make(200, 3, "max").scaled_errors(), make(200, 3, "rms").scaled_errors()
        assert rms.rms < largest.rms
        assert largest.max < rms.max


def test_optimised_bands_beat_truncated_ones() -> None:
    best = Banded.optimised(300, 8).scaled_errors().max
    assert best < 0.99 * Banded.truncated(300, 8).scaled_errors().max


def test_dense_is_best_in_rms_and_keeps_unit_columns() -> None:
    dense = Dense(64)
    others = (ToeplitzRoot(64), BufferedToeplitz.optimised(64, 3, "rms"), Tree(64))
    assert all(dense.scaled_errors().rms < other.scaled_errors().rms for other in others)
    columns = np.linalg.norm(dense.matrix(), axis=0)
    assert columns == pytest.approx(np.ones(64), abs=1e-4)
    # no small change of C gains anything: the optimum of a convex problem in C^T C
    generator, ones = np.random.default_rng(0), sums(64)
    for _ in range(5):
        changed = dense.matrix() * (1 + 0.01 * generator.normal(size=(64, 64)))
        decoding = ones @ np.linalg.inv(changed)
        error = np.sqrt((decoding**2).sum() / 64) * np.linalg.norm(changed, axis=0).max()
        assert error > dense.scaled_errors().rms


@pytest.mark.long
def test_dense_for_a_thousand_rounds() -> None:
    errors = Dense(1000).scaled_errors()
    assert errors.rms <= 2.95
    assert errors.max < ToeplitzRoot(1000).scaled_errors().max


def test_dense_is_read_from_the_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.running_sums import dense

    monkeypatch.setenv("HEDGEROW_CACHE", str(tmp_path))
    dense.cached_encoding.cache_clear()
    first = Dense(20).matrix()
    assert len(list(tmp_path.iterdir())) == 1
    dense.cached_encoding.cache_clear()
    monkeypatch.setattr(dense, "_encoding", lambda rounds: pytest.fail("computed again"))
    assert np.array_equal(Dense(20).matrix(), first)
    dense.cached_encoding.cache_clear()


def test_epochs_stay_close_to_a_known_horizon() -> None:
    rounds = 2**17
    anytime = Epochs().error_by_round(rounds)
    known = np.cumsum(toeplitz.root_coefficients(rounds) ** 2)  # error times sensitivity at each n
    assert (anytime / known).max() < 1.7


def test_epochs_have_no_last_round_to_speak_of() -> None:
    for first, buffers in ((2, 1), (32, 6), (10**6 - 1, 2)):
        anytime = Epochs(first=first, buffers=buffers)
        assert anytime.last > 10**12
        assert all(b <= a**2 for a, b in pairwise(anytime.lengths))
        assert anytime.sensitivity(2, 5) > 1  # every epoch has a factorisation
        with refused(f"rounds={anytime.last + 1} <= {anytime.last}, the last round"):
            anytime.count(anytime.last + 1)
    assert Epochs().lengths == (32, 32**2, 32**4, 32**8)
    short = Epochs(first=2, buffers=1)
    filtered, _ = short.encoder.step(replace(short.encoder.start(()), round=278), 1.0)
    assert filtered == 1 / short.factors(4).sensitivity()  # the fifth epoch begins


def test_the_noise_of_epochs_does_not_depend_on_the_horizon() -> None:
    known, unknown = Epochs(40), Epochs()
    assert np.array_equal(known.matrix(), unknown.matrix(40))
    assert np.array_equal(known.decoding(), unknown.decoding(40))
    assert known.sensitivity(3, 5) <= unknown.sensitivity(3, 5)
    with refused("rounds=41"):
        known.count(41)


@pytest.mark.parametrize("error", ["max", "rms"])
@pytest.mark.parametrize(("rounds", "buffers"), [(7, 1), (1000, 3), (10**6, 4)])
def test_gradient_of_the_buffers(error: Any, rounds: int, buffers: int) -> None:
    steps = np.log(np.linspace(0.3, 1.5, 2 * buffers))
    value, slope = buffered.objective(steps, rounds, error)
    numeric = approx_fprime(steps, lambda x: buffered.objective(x, rounds, error)[0], 1e-7)
    assert slope == pytest.approx(numeric, abs=2e-6 * max(1.0, abs(value)))
    assert np.abs(slope).max() > 1e-3  # not a point where any gradient would pass


@pytest.mark.parametrize("error", ["max", "rms"])
def test_gradient_of_the_bands(error: str) -> None:
    logs, age = np.log([0.5, 0.2, 0.1, 0.2]), np.arange(40)
    ramp = np.ones(40) if error == "max" else (40 - age) / 40
    slope = toeplitz.banded_objective(logs, ramp)[1]
    numeric = approx_fprime(logs, lambda x: toeplitz.banded_objective(x, ramp)[0], 1e-7)
    assert slope == pytest.approx(numeric, abs=1e-5)


@pytest.mark.parametrize("rounds", [1, 2, 9, 1000])
def test_sums_of_series(rounds: int) -> None:
    for log in (0.0, -1e-12, -1e-4, -0.2999 / rounds, -0.3001 / rounds, -0.01, -0.7, -5.0, -800.0):
        ages = np.arange(rounds)
        powers = np.exp(ages * log)
        for series, weights in ((geometric_sum, np.ones(rounds)), (ramp_sum, 1 - ages / rounds)):
            value, slope = series(np.array([log]), rounds)
            assert value[0] == pytest.approx(math.fsum(weights * powers), rel=1e-12)
            expected = math.fsum(weights * ages * powers)
            assert slope[0] == pytest.approx(expected, rel=1e-9, abs=1e-13)


def test_optimisation_is_repeatable() -> None:
    first = buffered.optimal_gaps.__wrapped__(500, 3, "max")
    assert first == buffered.optimal_gaps.__wrapped__(500, 3, "max")


def test_single_precision_buffers() -> None:
    exact = BufferedToeplitz.optimised(200, 3)
    single = replace(exact, precision="float32")
    given = vectors(200, 4)
    matrix = single.matrix()
    filtered, state = single.encoder.block(single.encoder.start((4,)), given)
    assert state.memory.dtype == np.float32
    assert filtered == pytest.approx(matrix @ given, abs=1e-4)
    assert np.abs(single.decoding() @ matrix - sums(200)).max() < 1e-4
    worst = np.linalg.norm(matrix, axis=0).max()
    assert worst <= single.sensitivity() <= worst * (1 + 1e-9)


def refused(text: str) -> Any:
    return pytest.raises(InvalidValue, match=text)


@every
def test_bad_input_is_refused_by_name(make: Any) -> None:
    made = make(3)
    for stream in (made.encoder, made.decoder):
        state = stream.start((2,))
        with refused("finite"):
            stream.step(state, [1.0, math.nan])
        with refused("finite"):
            stream.step(state, [math.inf, 0.0])
        with refused(r"shape \(2,\), got \(3,\)"):
            stream.step(state, [1.0, 2.0, 3.0])
        with refused("state.round=-1"):
            stream.step(replace(state, round=-1), [1.0, 2.0])
        with refused("state.memory"):
            stream.step(replace(state, memory=np.zeros((17, 2))), [1.0, 2.0])
        with refused("state.memory of float64"):
            stream.step(replace(state, memory=state.memory.astype(np.float32)), [1.0, 2.0])
    if made.rounds is not None:
        _, state = made.encoder.block(made.encoder.start(()), [1.0, 2.0, 3.0])
        with refused("at most rounds=3"):
            made.encoder.step(state, 1.0)
        with refused("rounds=4"):
            made.errors(4)
    for bad in (0, -1, 1.5, True):
        with refused("times"):
            made.sensitivity(bad)
        with refused("apart"):
            made.sensitivity(2, bad)


def test_a_spoilt_state_is_refused() -> None:
    stream = BufferedToeplitz.optimised(10, 2).encoder
    with refused("state of the filter"):
        stream.step(FilterState(1, np.full((2, 3), np.nan)), np.zeros(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToeplitzRoot(0),
        lambda: Tree(5, "best"),  # pyright: ignore[reportArgumentType]
        lambda: Banded(5, (0.0, 1.0)),
        lambda: Banded(5, (1.0, -0.1)),
        lambda: Banded(1, (1.0, 0.5)),
        lambda: BufferedToeplitz(5, (0.1,)),
        lambda: BufferedToeplitz(5, (0.2, 0.1)),
        lambda: BufferedToeplitz(5, (0.0, 0.1)),
        lambda: BufferedToeplitz(5, (0.1, 0.1 + 1e-10), "float32"),
        lambda: BufferedToeplitz.optimised(5, 0),
        lambda: BufferedToeplitz.optimised(5, times=0),
        lambda: Dense(-1),
        lambda: Dense(100_000),
        lambda: Epochs(first=1),
        lambda: Epochs(first=2**41),
        lambda: Epochs(rounds=10**15),
        lambda: factorise("best", 5),  # pyright: ignore[reportArgumentType]
        lambda: factorise("tree", None),
        lambda: factorise("tree", 0),
        lambda: factorise("blt", 5, 0),
        lambda: factorise(Tree(4), 5),
        lambda: Epochs().errors(),
        lambda: Epochs().errors(10**30),
        lambda: LatticeEncoder(Tree(5), 1, 1.0, digits=40),
        lambda: LatticeEncoder(Epochs(), 1, 1.0),
    ],
)
def test_bad_parameters_are_refused(make: Callable[[], object]) -> None:
    with refused("Expected"):
        make()


# ---- the lattice ---------------------------------------------------------------------------------


def outputs(encoder: LatticeEncoder, given: Any) -> Any:
    state, found = encoder.start(given.shape[1:]), []
    for vector in given:
        value, state = encoder.step(state, vector)
        found.append(value)
    return np.array(found)


@every
@pytest.mark.parametrize("digits", [0, 6])
def test_neighbours_on_the_lattice_stay_within_the_sensitivity(make: Any, digits: int) -> None:
    generator, rounds, width = np.random.default_rng(3), 20, 6
    encoder = LatticeEncoder(make(rounds), width, largest=4.0, digits=digits, rounds=rounds)
    bound, change = encoder.sensitivity(change=1.0), np.zeros((rounds, width))
    for _ in range(20):
        given = np.rint(generator.uniform(-2, 2, (rounds, width)) * 2**20) / 2**20
        change[:] = 0
        change[0, 0] = 1.0
        first, second = outputs(encoder, given), outputs(encoder, given + change)
        assert not (first * 2**20 % 1).any()
        assert np.linalg.norm(second - first) <= bound


def test_clients_on_the_lattice_do_not_touch_each_other() -> None:
    encoder = LatticeEncoder(BufferedToeplitz.optimised(6, 2), 3, 1.0)
    given = np.random.default_rng(2).uniform(-1, 1, (6, 4, 3))
    together = outputs(encoder, given)
    assert np.array_equal(together[:, 2], outputs(encoder, given[:, 2]))


def test_rounding_really_costs_and_finer_steps_cost_less() -> None:
    """Two inputs that differ by next to nothing may be a whole step apart in every output."""
    root = ToeplitzRoot(50)
    coarse, fine = (LatticeEncoder(root, 10, 1.0, digits=digits) for digits in (0, 10))
    assert fine.rounding() / fine.scale < coarse.rounding() / 1000
    generator, worst = np.random.default_rng(0), 0.0
    for _ in range(30):
        given = generator.uniform(-1, 1, (50, 10))
        moved = given + generator.uniform(-1, 1, (50, 10)) * 2.0**-21 * (np.abs(given) < 0.99)
        apart = outputs(coarse, moved) - outputs(coarse, given)
        exact = root.matrix() @ (moved - given)
        worst = max(worst, float(np.abs(apart - exact).max()))
        assert np.linalg.norm(apart - exact) <= coarse.rounding()
    assert worst > 0.9 * 2.0**-20  # the charge for one number is nearly reached


@pytest.mark.parametrize(("precision", "unit"), [("float64", 2.0**-53), ("float32", 2.0**-24)])
def test_rounding_is_charged_as_in_theorem_8(precision: Precision, unit: float) -> None:
    made = BufferedToeplitz.optimised(300, 3, precision=precision)
    ways = (2 * 300 + 3 + 1) * unit  # two roundings a round, then a product and three additions
    error = ways / (1 - ways) * 2.5 * made.matrix().sum(axis=1).max()
    exact = (2 * error + 2.0**-28) * math.sqrt(7 * 300) * 2**8
    charged = LatticeEncoder(made, 7, 2.5, digits=8).rounding()
    assert exact <= charged <= exact * (1 + 1e-5)


def test_what_noise_is_calibrated_to_cannot_be_changed() -> None:
    for array in (
        Dense(8).matrix(),
        Dense(8).decoding(),
        ToeplitzRoot(8).coefficients(),
        ToeplitzRoot(8).decoding_coefficients(),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 100.0
    bands: Any = [1.0, 0.5]
    banded = Banded(4, bands)
    bands[1] = 1000.0
    assert banded.bands == (1.0, 0.5)
    gaps: Any = [0.1, 0.2]
    buffered = BufferedToeplitz(None, gaps)
    gaps[0] = 0.001
    assert buffered.gaps == (0.1, 0.2)


def test_many_records_are_rounded_upward() -> None:
    """Against sixty digits: 200 records in a row, without a horizon."""
    getcontext().prec, often = 60, 200
    made = BufferedToeplitz(None, (0.001, 0.01, 0.1, 0.5))
    powers = [
        (Decimal(float(p)), Decimal(float(w)))
        for p, w in zip(made.poles, made.weights, strict=True)
    ]

    def shared(lag: int) -> Decimal:
        both = sum(v * w * p**lag / (1 - p * q) for (p, v), (q, w) in product(powers, powers))
        return Decimal(both + (sum(w * p ** (lag - 1) for p, w in powers) if lag else 1))

    terms = ((often - lag) * shared(lag) * (2 if lag else 1) for lag in range(often))
    exact = Decimal(sum(terms)).sqrt()
    assert exact <= Decimal(made.sensitivity(often, 1)) <= exact * (1 + Decimal("1e-11"))


def test_whole_factors_cost_nothing_on_the_lattice() -> None:
    for made in (Tree(64, "naive"), Independent(64)):
        encoder = LatticeEncoder(made, 5, 1.0)
        assert encoder.rounding() == 0
        assert encoder.sensitivity() == made.sensitivity()
        with refused("on the lattice"):
            encoder.step(encoder.start((5,)), np.full(5, 0.3))
    assert LatticeEncoder(Tree(64), 5, 1.0).rounding() > 0


@every
def test_the_filter_errs_less_than_is_charged(make: Any) -> None:
    """Against exact fractions: the errors of floating-point numbers are within the bound."""
    from fractions import Fraction

    rounds = 40
    made = make(rounds)
    given = np.random.default_rng(1).uniform(-1, 1, rounds)
    filtered, _ = made.encoder.block(made.encoder.start(()), given)
    matrix = [[Fraction(float(x)) for x in row] for row in made.matrix(rounds)]
    exact = [sum(c * Fraction(float(g)) for c, g in zip(row, given, strict=True)) for row in matrix]
    error = max(abs(float(Fraction(float(f)) - e)) for f, e in zip(filtered, exact, strict=True))
    # the entries of the matrix are themselves rounded
    assert error <= (2 * made.roundings(rounds) + 64) * 2.0**-53 * made.row_sum(rounds)


def test_single_precision_is_charged_on_the_lattice() -> None:
    made = BufferedToeplitz.optimised(300, 3, precision="float32")
    encoder = LatticeEncoder(made, 4, 1.0, digits=8)
    double = LatticeEncoder(replace(made, precision="float64"), 4, 1.0, digits=8)
    assert encoder.rounding() > 10 * double.rounding()
    given = np.random.default_rng(5).uniform(-1, 1, (300, 4))
    apart = outputs(encoder, given) / encoder.scale - made.matrix() @ given
    assert 1e-7 < np.abs(apart).max() < encoder.rounding() / encoder.scale / 2 / math.sqrt(1200)


@every
def test_factorisations_have_fingerprints(make: Any) -> None:
    assert fingerprint(make(8), "factorisation") == fingerprint(make(8), "factorisation")
    assert make(8) == make(8)


def test_digits_are_added_until_rounding_costs_a_thousandth() -> None:
    made = BufferedToeplitz.optimised(1000)
    narrow = LatticeEncoder.fine_enough(made, 100, 1.0, change=2.0)
    assert narrow.digits == 0
    wide = LatticeEncoder.fine_enough(made, 10**6, 1.0, change=2.0)
    limit = 2e-3 * made.sensitivity()
    assert wide.rounding() / wide.scale <= limit
    coarser = replace(wide, digits=wide.digits - 1)
    assert coarser.rounding() / coarser.scale > limit
    # no digits help against single precision, and none are needed for whole numbers
    single = replace(made, precision="float32")
    assert LatticeEncoder.fine_enough(single, 10**6, 1.0, change=2.0).digits < wide.digits
    assert LatticeEncoder.fine_enough(Tree(1000, "naive"), 10**6, 1.0, change=2.0).digits == 0


def test_lattice_encoder_refuses() -> None:
    encoder = LatticeEncoder(BufferedToeplitz.optimised(10, 2), 2, 1.0, rounds=3)
    state = encoder.start((2,))
    with refused("size <= 1.0"):
        encoder.step(state, [1.5, 0.0])
    with refused("size <= 1.0"):
        encoder.step(state, [math.nan, 0.0])
    with refused("to end with width=2"):
        encoder.start((3,))
    with refused("at most rounds=3"):
        encoder.step(replace(state, round=3), [0.0, 0.0])


def test_wrong_decoders_are_caught() -> None:
    """The tests have power: a decoder with other weights fails them."""
    tree = Tree(16)
    wrong: Filter = TreeDecoder(16, Tree(16, "naive").table)
    given = vectors(16, 2)
    filtered, _ = tree.encoder.block(tree.encoder.start((2,)), given)
    decoded, _ = wrong.block(wrong.start((2,)), filtered)
    assert np.abs(decoded - np.cumsum(given, axis=0)).max() > 0.1


def test_sensitivities_agree_with_jax_privacy() -> None:
    """Single precision there; its bound for general matrices is an upper bound."""
    theirs = pytest.importorskip("jax_privacy.matrix_factorization")
    for made in (ToeplitzRoot(24), BufferedToeplitz.optimised(24, 2), Dense(24), Tree(24)):
        single = theirs.sensitivity.single_participation_sensitivity(made.matrix())
        assert made.sensitivity() == pytest.approx(float(single), rel=1e-5)
        bound = theirs.sensitivity.get_min_sep_sensitivity_upper_bound(made.matrix(), 4, 3)
        assert made.sensitivity(3, 4) <= float(bound) * (1 + 1e-5)
    for made in (ToeplitzRoot(24), Banded.optimised(24, 4)):
        squared = theirs.toeplitz.minsep_sensitivity_squared(made.coefficients(), 4, 3)
        assert made.sensitivity(3, 4) ** 2 == pytest.approx(float(squared), rel=1e-5)
