"""Vector noise and private choice: samplers against their laws, costs against exact ratios."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import NoNoise, SeededNoise
from hedgerow.privacy.curves import ApproximateDP, BoundedRange, GaussianDP, LaplaceDP, PureDP
from hedgerow.privacy.mechanisms import (
    AboveThreshold,
    AdditiveNoise,
    Comparison,
    ExponentialMechanism,
    GaussianNoise,
    KNorm,
    NoisyMax,
)

Additive = AdditiveNoise | GaussianNoise | KNorm
ADDITIVE: dict[str, Callable[..., Additive]] = {
    "laplace": lambda scale=1.5, sensitivity=1.0: AdditiveNoise(
        "report", "laplace", scale, sensitivity
    ),
    "exponential": lambda scale=1.5, sensitivity=1.0: AdditiveNoise(
        "report", "exponential", scale, sensitivity
    ),
    "gaussian": lambda scale=1.5, sensitivity=1.0: GaussianNoise("report", scale, sensitivity),
    "k-norm": lambda scale=1.5, sensitivity=1.0: KNorm("report", scale, sensitivity),
}
each_additive = pytest.mark.parametrize("make", ADDITIVE.values(), ids=ADDITIVE.keys())


# Additive noise: the sampler


@each_additive
@pytest.mark.parametrize("shape", [(), (1,), (2,), (7,), (3, 4)])
def test_outputs_are_uniform_exactly_under_the_right_scale(
    make: Callable[..., Additive], shape: tuple[int, ...]
) -> None:
    mechanism, noise = make(), SeededNoise(21).server()
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape) * 0.7 if shape else 3.0
    outputs = [mechanism.sample(value, noise) for _ in range(3000)]
    assert np.shape(outputs[0]) == shape
    for factor, right in ((1.0, True), (2 / 3, False), (3 / 2, False)):
        mapped = [mechanism.scaled(factor).uniformise(value, output, 0.5) for output in outputs]
        p = float(stats.kstest(mapped, "uniform").pvalue)
        assert p > 1e-3 if right else p < 1e-6


@each_additive
def test_every_coordinate_has_its_own_noise_with_the_right_moments(
    make: Callable[..., Additive],
) -> None:
    d, count = 5, 20_000
    mechanism, noise = make(), SeededNoise(22).server()
    draws = np.array([mechanism.sample(np.zeros(d), noise) for _ in range(count)]) / 1.5
    if isinstance(mechanism, KNorm):
        mean, variance = 0.0, (d + 1) * (d + 2) / 3
    elif isinstance(mechanism, GaussianNoise):
        mean, variance = 0.0, 1.0
    else:
        mean, variance = (1.0, 1.0) if mechanism.law == "exponential" else (0.0, 2.0)
    assert draws.mean(axis=0) == pytest.approx(np.full(d, mean), abs=5 * np.sqrt(variance / count))
    assert draws.var(axis=0) == pytest.approx(np.full(d, variance), rel=0.15)
    assert np.abs(np.corrcoef(draws.T) - np.eye(d)).max() < 0.05


@each_additive
def test_rows_for_all_clients_are_those_of_each_client(make: Callable[..., Additive]) -> None:
    mechanism, value = make(), np.arange(12.0).reshape(4, 3)
    together, apart = SeededNoise(5), SeededNoise(5)
    for _ in range(3):
        rows = mechanism.sample(value, together.everyone("client", 4))
        assert (
            rows == [mechanism.sample(value[i], apart.single("client", i, 4)) for i in range(4)]
        ).all()


@each_additive
def test_without_noise_the_value_comes_through(make: Callable[..., Additive]) -> None:
    value = np.array([1.0, -2.0])
    assert (make().sample(value, NoNoise().server()) == value).all()
    assert make().outcomes(value) is None
    assert make().probe() == 0.0


def test_one_coordinate_of_k_norm_noise_is_laplace_noise() -> None:
    noise = SeededNoise(23).server()
    draws = [KNorm("report", 2.0).sample(np.zeros(1), noise)[0] for _ in range(4000)]
    assert stats.kstest(draws, stats.laplace(scale=2.0).cdf).pvalue > 1e-3
    for x in (-3.0, 0.2, 4.0):
        laplace = AdditiveNoise("report", "laplace", 2.0).log_density(0.0, x)
        assert KNorm("report", 2.0).log_density(0.0, x) == pytest.approx(laplace)


def test_k_norm_noise_fills_the_cube_and_not_only_its_size() -> None:
    """Given the largest coordinate, the face is uniform among the 2 d faces and the other
    coordinates are uniform on it.
    """
    noise, d = SeededNoise(24).server(), 3
    draws = np.array([KNorm("report", 1.0).sample(np.zeros(d), noise) for _ in range(6000)])
    leader = np.abs(draws).argmax(axis=1)
    signs = draws[np.arange(len(draws)), leader] > 0
    assert stats.chisquare(np.bincount(2 * leader + signs, minlength=6)).pvalue > 1e-3
    others = (draws / np.abs(draws).max(axis=1, keepdims=True))[np.arange(d) != leader[:, None]]
    assert stats.kstest(others, stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_vector_noise_with_a_negative_part_is_not_exponential() -> None:
    mechanism = AdditiveNoise("report", "exponential", 1.0)
    assert mechanism.uniformise(np.zeros(2), np.array([1.0, -0.1]), 0.5) == 0.0


# Additive noise: the density and the cost


@each_additive
def test_densities_integrate_to_one(make: Callable[..., Additive]) -> None:
    mechanism = make()
    cells = np.arange(-21, 21, 0.3) + 0.15
    density = np.array(
        [
            np.exp(mechanism.log_density(np.zeros(2), np.array(cell)))
            for cell in product(cells, cells)
        ]
    )
    assert density.sum() * 0.3**2 == pytest.approx(1.0, rel=0.01)


WORST = {
    "laplace": [np.array([1.0]), np.array([0.5, 0.5]), np.array([0.25, -0.25, 0.5])],
    "k-norm": [np.array([1.0]), np.array([1.0, 1.0]), np.array([1.0, -1.0, 1.0, 0.3])],
}


@pytest.mark.parametrize("name", WORST)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_pure_vector_noise_costs_exactly_its_bound(name: str, epsilon: float) -> None:
    """On the widest moves the ratio is reached, far out in the direction of the move; on random
    ones it is not exceeded.
    """
    mechanism = ADDITIVE[name](1 / epsilon, 1.0)
    assert mechanism.curve == (LaplaceDP if name == "laplace" else PureDP)(
        mechanism.curve.epsilon(0.0)
    )
    assert mechanism.curve.epsilon(0.0) == pytest.approx(epsilon)
    for move in WORST[name]:
        assert mechanism.distance(np.zeros_like(move), move) == 1.0
        far = 20 * move
        reached = mechanism.log_density(move, far) - mechanism.log_density(np.zeros_like(move), far)
        assert reached == pytest.approx(epsilon)
        halved = mechanism.scaled(0.5)
        assert halved.log_density(move, far) - halved.log_density(
            np.zeros_like(move), far
        ) == pytest.approx(2 * epsilon)
    rng = np.random.default_rng(4)
    for _ in range(300):
        d = int(rng.integers(1, 6))
        move = rng.standard_normal(d)
        move /= mechanism.distance(np.zeros(d), move)
        output = 3 * rng.standard_normal(d)
        ratio = mechanism.log_density(move, output) - mechanism.log_density(np.zeros(d), output)
        assert abs(ratio) <= epsilon * (1 + 1e-9)


def test_laplace_noise_for_one_coordinate_does_not_protect_a_vector() -> None:
    """d coordinates that move by one each cost d times as much: the sensitivity is the sum of the
    moves.
    """
    mechanism, move = AdditiveNoise("report", "laplace", 1.0), np.ones(10)
    assert mechanism.distance(np.zeros(10), move) == 10.0
    assert mechanism.log_density(move, 5 * move) - mechanism.log_density(
        0 * move, 5 * move
    ) == pytest.approx(10.0)


@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.2, 1.3), (1.0, 0.01), (2.0, 2.0)])
def test_laplace_noise_has_the_curve_of_one_number_in_every_dimension(
    first: float, second: float
) -> None:
    """Moves in two coordinates, exactly: the mean of the second curve over the loss of the first.

    One coordinate is the worst.
    """
    one, rest = LaplaceDP(first + second), LaplaceDP(second)
    for epsilon in np.linspace(-1.0, 1.0, 21) * (first + second):

        def middle(y: float, epsilon: float = float(epsilon)) -> float:
            return np.exp(-y) / 2 * rest.delta(epsilon - first + 2 * y)

        kinks = [
            y
            for y in ((first - epsilon - second) / 2, (first - epsilon + second) / 2)
            if 0 < y < first
        ]
        both = integrate.quad(middle, 0, first, points=kinks or None, epsabs=1e-13)[0]
        both += rest.delta(epsilon - first) / 2 + np.exp(-first) * rest.delta(epsilon + first) / 2
        assert max(0.0, -np.expm1(epsilon)) - 1e-12 <= both <= one.delta(float(epsilon)) + 1e-12
    assert AdditiveNoise("report", "laplace", 2.0, 3.0).curve == LaplaceDP(1.5)


def test_k_norm_noise_is_smaller_than_laplace_noise_for_the_same_cost() -> None:
    """Standard deviations at d = 10 and l-infinity sensitivity 1: 6.6 against 14.1 for epsilon = 1."""
    noise, zero = SeededNoise(25).server(), np.zeros(10)
    widths = [
        np.std([mechanism.sample(zero, noise) for _ in range(4000)])
        for mechanism in (KNorm("a", 1.0), AdditiveNoise("b", "laplace", 10.0, 10.0))
    ]
    assert widths == pytest.approx([np.sqrt(11 * 12 / 3), np.sqrt(2) * 10], rel=0.05)


@pytest.mark.parametrize("move", [np.array([0.8]), np.array([0.48, -0.64]), np.full(16, 0.2)])
def test_gaussian_vector_noise_costs_exactly_its_mu(move: np.ndarray) -> None:
    """The log-ratio of the two worlds is normal with mean mu^2 / 2 and variance mu^2 in the first:
    mu is the l2 move over the scale.
    """
    mechanism, zero, noise = (
        GaussianNoise("report", 1.5, 0.8),
        np.zeros_like(move),
        SeededNoise(26).server(),
    )
    assert mechanism.distance(zero, move) == pytest.approx(0.8)
    mu = mechanism.curve.mu
    assert mu == pytest.approx(0.8 / 1.5)
    outputs = [mechanism.sample(move, noise) for _ in range(4000)]
    losses = [mechanism.log_density(move, y) - mechanism.log_density(zero, y) for y in outputs]
    assert stats.kstest(losses, stats.norm(mu**2 / 2, mu).cdf).pvalue > 1e-3
    assert stats.kstest(losses, stats.norm(2 * mu**2, 2 * mu).cdf).pvalue < 1e-6
    halved = [mechanism.scaled(0.5).sample(move, noise) for _ in range(20_000)]
    gains = [
        1 - np.exp(1 - loss) for y in halved if (loss := _ratio(mechanism.scaled(0.5), move, y)) > 1
    ]
    assert np.sum(gains) / 20_000 > 1.5 * mechanism.curve.delta(1.0)


def _ratio(mechanism: Additive, move: np.ndarray, output: Any) -> float:
    return mechanism.log_density(move, output) - mechanism.log_density(np.zeros_like(move), output)


@pytest.mark.parametrize("cost", [0.1, 1.0, 3.0])
def test_one_sided_noise_is_only_as_private_as_its_total_variation(cost: float) -> None:
    """Both directions of one number, by quadrature; both directions and mixed signs of a pair of
    numbers, in closed form.
    """
    curve = AdditiveNoise("report", "exponential", 1 / cost).curve
    assert isinstance(curve, ApproximateDP)
    leak = 1 - np.exp(-cost)
    assert curve.at_delta == pytest.approx(leak)
    for epsilon in (0.0, 0.5, 2.0):
        growth = np.exp(epsilon)
        gain = integrate.quad(lambda y: np.exp(-y), 0, cost)[0]
        gain += integrate.quad(
            lambda y, growth=growth: max(0.0, np.exp(-y) - growth * np.exp(cost - y)),
            cost,
            cost + 40,
        )[0]
        assert curve.delta(epsilon) == pytest.approx(gain, rel=1e-7)
        back = integrate.quad(
            lambda y, growth=growth: max(0.0, np.exp(cost - y) - growth * np.exp(-y)),
            cost,
            cost + 40,
        )[0]
        assert back <= curve.delta(epsilon) * (1 + 1e-7)
        for share in (0.2, 0.5):
            up, down = share * cost, (1 - share) * cost
            common_one, common_other = np.exp(-up), np.exp(-down)
            for one, other in ((common_one, common_other), (common_other, common_one)):
                assert 1 - one + max(0.0, one - growth * other) <= curve.delta(epsilon) + 1e-12


# Private choice: probabilities

SCORES = np.array([0.0, 1.0, 1.0, 2.5, 4.0])


def _by_inclusion_exclusion(weights: np.ndarray) -> list[float]:
    """The integral of the product over j != i of (1 - w[j] u), term by term."""
    found = []
    for i, weight in enumerate(weights):
        rest = np.delete(weights, i)
        terms = (
            (-1) ** n * np.prod(chosen) / (n + 1)
            for n in range(len(rest) + 1)
            for chosen in combinations(rest, n)
        )
        found.append(weight * sum(terms))
    return found


def _by_permuting_and_flipping(weights: np.ndarray) -> np.ndarray:
    """Visit all in random order, take i with probability w[i], else go on: the definition of
    permute-and-flip.
    """
    found = np.zeros(len(weights))
    orders = list(permutations(range(len(weights))))
    for order in orders:
        still = 1.0
        for i in order:
            found[i] += still * weights[i] / len(orders)
            still *= 1 - weights[i]
    return found


@pytest.mark.parametrize("epsilon", [0.2, 1.3, 6.0])
@pytest.mark.parametrize("monotone", [False, True])
def test_choice_probabilities_have_two_more_closed_forms(epsilon: float, monotone: bool) -> None:
    flip, gumbel = (NoisyMax("s", law, epsilon, 0.8, monotone) for law in ("exponential", "gumbel"))
    assert flip.scale == gumbel.scale == pytest.approx((1 if monotone else 2) * 0.8 / epsilon)
    weights = np.exp(-SCORES / flip.scale)
    assert gumbel.probabilities(SCORES) == pytest.approx(weights / weights.sum(), rel=1e-12)
    assert flip.probabilities(SCORES) == pytest.approx(_by_inclusion_exclusion(weights), rel=1e-11)
    assert flip.probabilities(SCORES + 17) == pytest.approx(
        _by_permuting_and_flipping(weights), rel=1e-11
    )
    for i in range(5):
        assert flip.log_probability(SCORES, i) == pytest.approx(
            np.log(flip.probabilities(SCORES)[i])
        )


@pytest.mark.parametrize("d", [1, 2, 49, 50, 51, 300, 5000])
@pytest.mark.parametrize("spread", [0.0, 0.5, 5.0, 50.0])
def test_permute_and_flip_probabilities_sum_to_one_for_many_choices(d: int, spread: float) -> None:
    scores = spread * np.random.default_rng(d).random(d)
    assert NoisyMax("s", "exponential", 2.0).probabilities(scores).sum() == pytest.approx(
        1.0, abs=1e-12
    )


def test_permute_and_flip_with_one_good_choice_among_many_equal_ones() -> None:
    """w = 1 once and w = c for the other n: the leader wins with probability (1 - (1 - c)^(n + 1))
    / (c (n + 1)).
    """
    for n, gap in product((10, 1000, 4000), (0.0, 1.0, 6.0)):
        c = np.exp(-gap)
        expected = -np.expm1((n + 1) * np.log1p(-c)) / (c * (n + 1)) if gap else 1 / (n + 1)
        scores = np.append(0.0, np.full(n, gap))
        assert NoisyMax("s", "exponential", 2.0).probabilities(scores)[0] == pytest.approx(
            expected, rel=1e-11
        )


def test_the_gumbel_choice_is_the_exponential_mechanism() -> None:
    one, other = NoisyMax("s", "gumbel", 1.3, 0.8), ExponentialMechanism("s", 1.3, 0.8)
    assert one.probabilities(SCORES) == pytest.approx(other.probabilities(SCORES), rel=1e-14)
    assert one.curve == other.curve == BoundedRange(1.3)
    noise, same = SeededNoise(1).server(), SeededNoise(1).server()
    assert [one.sample(SCORES, noise) for _ in range(50)] == [
        other.sample(SCORES, same) for _ in range(50)
    ]


def test_permute_and_flip_is_never_further_from_the_best() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        scores = 5 * rng.random(int(rng.integers(2, 30)))
        flip, gumbel = (
            NoisyMax("s", law, 1.0).probabilities(scores) @ scores
            for law in ("exponential", "gumbel")
        )
        assert flip <= gumbel + 1e-12


@pytest.mark.parametrize("law", ["exponential", "gumbel"])
@pytest.mark.parametrize("monotone", [False, True])
def test_choices_follow_their_probabilities_and_no_others(law: Any, monotone: bool) -> None:
    mechanism, noise = NoisyMax("s", law, 1.3, 0.8, monotone), SeededNoise(31).server()
    outputs = [mechanism.sample(SCORES, noise) for _ in range(20_000)]
    counts = np.bincount(outputs, minlength=5)
    for factor, right in ((1.0, True), (2 / 3, False), (3 / 2, False)):
        other = mechanism.scaled(factor)
        expected = 20_000 * other.probabilities(SCORES)
        p = float(stats.chisquare(counts, expected, sum_check=False).pvalue)
        assert p > 1e-3 if right else p < 1e-6
        probe = mechanism.probe()
        coins = np.random.default_rng(9).random(1500)
        fresh = SeededNoise(32).server()
        mapped = [other.uniformise(probe, mechanism.sample(probe, fresh), coin) for coin in coins]
        p = float(stats.kstest(mapped, "uniform").pvalue)
        assert p > 1e-3 if right else p < 1e-4
    assert mechanism.outcomes(SCORES) == (0, 1, 2, 3, 4)


# Private choice: cost


def _worst(mechanism: NoisyMax, moves: list[np.ndarray], base: np.ndarray) -> float:
    here = np.log(mechanism.probabilities(base))
    return max(
        float(np.abs(np.log(mechanism.probabilities(base + move)) - here).max()) for move in moves
    )


@pytest.mark.parametrize("law", ["exponential", "gumbel"])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0])
def test_a_choice_costs_its_epsilon_and_no_more(law: Any, monotone: bool, epsilon: float) -> None:
    mechanism, d = NoisyMax("s", law, epsilon, 0.5, monotone), 4
    assert mechanism.curve == (BoundedRange if law == "gumbel" else PureDP)(epsilon)
    corners = [
        np.array(m, float) * 0.5 for m in product((0, 1) if monotone else (-1, 0, 1), repeat=d)
    ]
    moves = corners + ([-m for m in corners] if monotone else [])
    assert all(mechanism.distance(np.zeros(d), m) <= 0.5 for m in moves)
    rng = np.random.default_rng(11)
    bases = [
        *(mechanism.scale * rng.exponential(2.0, (12, d))),
        np.array([0.0, *np.full(d - 1, 40 * mechanism.scale)]),
    ]
    worst = max(_worst(mechanism, moves, base) for base in bases)
    assert worst <= epsilon * (1 + 1e-9)
    assert worst >= epsilon * (1 - 1e-9)  # reached by a hopeless choice beside a clear leader
    halved = mechanism.scaled(0.5)
    assert max(_worst(halved, moves, base) for base in bases) == pytest.approx(2 * epsilon)


@pytest.mark.parametrize("law", ["exponential", "gumbel"])
def test_monotone_noise_is_too_little_for_scores_that_move_both_ways(law: Any) -> None:
    mechanism = NoisyMax("s", law, 1.0, 1.0, monotone=True)
    base, move = np.array([0.0, 60.0]), np.array([-1.0, 1.0])
    assert mechanism.distance(base, base + move) == 2.0
    assert (
        mechanism.distance(base, base + np.abs(move))
        == mechanism.distance(base, base - np.abs(move))
        == 1.0
    )
    assert _worst(mechanism, [move], base) == pytest.approx(2.0)


@pytest.mark.parametrize("monotone", [False, True])
def test_gumbel_noise_has_a_bounded_range_and_exponential_noise_has_not(monotone: bool) -> None:
    rng = np.random.default_rng(12)
    gumbel, flip = (NoisyMax("s", law, 1.0, 1.0, monotone) for law in ("gumbel", "exponential"))
    assert gumbel.curve == BoundedRange(1.0)
    assert flip.curve == PureDP(1.0)

    def ranges(mechanism: NoisyMax) -> list[float]:
        found = []
        for _ in range(200):
            base, move = (
                3 * rng.random(3),
                rng.choice([0.0, 1.0] if monotone else [-1.0, 0.0, 1.0], 3),
            )
            found.append(
                float(
                    np.ptp(
                        np.log(mechanism.probabilities(base + move) / mechanism.probabilities(base))
                    )
                )
            )
        return found

    assert max(ranges(gumbel)) <= 1 + 1e-9
    assert max(ranges(gumbel)) > 0.999
    assert max(ranges(flip)) > 1.1


def test_noise_of_the_wrong_sign_protects_nothing() -> None:
    """The smallest of score + exponential noise: a choice one behind n others wins with probability
    e^-n / (n + 1).
    """
    for n in (5, 50):
        behind = np.exp(-n) / (n + 1)
        assert np.log(1 / (n + 1)) - np.log(behind) == pytest.approx(n)
        outcome = integrate.quad(lambda x, n=n: np.exp(-x) * np.exp(-n * (x + 1)), 0, np.inf)[0]
        assert outcome == pytest.approx(behind, rel=1e-6)


def test_huge_and_lonely_scores() -> None:
    mechanism = NoisyMax("s", "exponential", 1.0)
    assert mechanism.probabilities(np.array([1e9, 1e9 + 2, 1e300]))[:2].sum() == pytest.approx(1.0)
    assert mechanism.probabilities(np.array([3.0])).tolist() == pytest.approx([1.0])
    assert mechanism.log_probability(np.array([0.0, 4000.0]), 1) == pytest.approx(-2000 - np.log(2))
    assert mechanism.sample(np.array([5.0, 1e300, 4.0]), NoNoise().server()) == 2


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: GaussianNoise("a", 0.0), r"scale=0\.0 > 0"),
        (lambda: GaussianNoise("a", 1.0, -1.0), r"sensitivity=-1\.0 > 0"),
        (lambda: KNorm("a", 0.0), r"scale=0\.0 > 0"),
        (lambda: KNorm("a", 1.0, np.nan), "sensitivity=nan > 0"),
        (lambda: NoisyMax("a", "gumbel", 0.0), r"epsilon=0\.0 > 0"),
        (lambda: NoisyMax("a", "gumbel", 1.0, -2.0), r"sensitivity=-2\.0 > 0"),
        (lambda: NoisyMax("a", "laplace", 1.0), "law='laplace' to be 'exponential' or 'gumbel'"),  # pyright: ignore[reportArgumentType]
        (lambda: NoisyMax("a", "exponential", 1.0).probabilities([0.0, np.nan]), "finite scores"),
        (
            lambda: NoisyMax("a", "gumbel", 1.0).sample([0.0, np.inf], SeededNoise(0).server()),
            "finite scores",
        ),
    ],
)
def test_impossible_parameters_are_refused(make: Callable[[], Any], rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        make()


def test_costs_round_up() -> None:
    from fractions import Fraction

    for mechanism in (AdditiveNoise("a", "laplace", 3.0), KNorm("a", 3.0)):
        assert Fraction(mechanism.curve.epsilon(0.0)) > Fraction(1, 3)
    curve = GaussianNoise("a", 3.0).curve
    assert isinstance(curve, GaussianDP)
    assert Fraction(curve.mu) > Fraction(1, 3)


@pytest.mark.parametrize("law", ["uniform", "gaussian", "Laplace", "gumbel"])
def test_laws_without_the_stated_guarantee_are_refused(law: Any) -> None:
    for make in (
        lambda: AdditiveNoise("x", law, 1.0),
        lambda: AboveThreshold(law, 1.0, 1.0),
        lambda: Comparison("x", law, 1.0),
    ):
        with pytest.raises(InvalidValue, match=f"Expected law='{law}'"):
            make()


@each_additive
def test_the_deviation_is_that_of_the_noise(make: Callable[..., Additive]) -> None:
    noise, source = make(), SeededNoise(0).everyone("client", 20_000)
    drawn = noise.sample(np.zeros((20_000, 5)), source)
    assert drawn.std() == pytest.approx(noise.deviation(5), rel=0.02)
