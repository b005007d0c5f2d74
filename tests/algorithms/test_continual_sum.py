"""Private running sums: the law of their error, what they certify, and what they refuse."""

from __future__ import annotations

import copy
import os
import pickle
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from scipy.stats import chi2

import hedgerow as hr
from hedgerow.core.certificate import Channel
from hedgerow.core.errors import InvalidValue
from hedgerow.core.noise import NoNoise, SeededNoise
from hedgerow.core.rounding import round_up
from hedgerow.core.units import Event, Person
from hedgerow.privacy import GaussianDP
from hedgerow.privacy.odometer import DamagedState
from hedgerow.running_sums import (
    BufferedToeplitz,
    Epochs,
    Factorisation,
    Filter,
    Independent,
    Kind,
    ToeplitzRoot,
    continual_sum,
)

Stream = Any


def noisy(counter: hr.ContinualSum, factor: float) -> hr.ContinualSum:
    """The same counter, secretly with another amount of noise."""
    counter._noise = counter._noise.scaled(factor)
    return counter


def errors_of(counter: hr.ContinualSum, rounds: int) -> Stream:
    """The errors of all published sums of zeros and ones."""
    vector = np.zeros(counter.sum.shape)
    vector[0] = 1.0
    sums = np.array([counter.add(vector) for _ in range(rounds)])
    return sums - np.arange(1, rounds + 1)[:, None] * vector


FACTORS = {
    "default": None,
    **{kind: kind for kind in get_args(Kind)},
    "single precision": BufferedToeplitz.optimised(40, 3, precision="float32"),
    "anytime": Epochs(first=4, buffers=2),
}


def follows_its_law(found: Stream, deviation: float) -> bool:
    """Whether independent normal numbers have this deviation; 1 in 10^12 honest ones fail."""
    total = float((found**2).sum()) / deviation**2
    return bool(chi2.ppf(5e-13, found.size) < total < chi2.isf(5e-13, found.size))


@pytest.mark.parametrize("factors", FACTORS.values(), ids=list(FACTORS))
@pytest.mark.parametrize("secure", [False, True])
def test_error_follows_its_law(factors: Any, secure: bool) -> None:
    def counter() -> hr.ContinualSum:
        given: dict[str, Any] = {"rounds": 40, "mu": 0.7, "factorisation": factors}
        if secure:
            return hr.ContinualSum.private(200, **given, source=hr.SecureNoise())
        return hr.ContinualSum(200, **given, seed=3)

    right, half = errors_of(counter(), 40), errors_of(noisy(counter(), 0.5), 40)
    used = counter()
    scale = used.errors(40).max / used.factorisation.errors(40).max
    by_round = used.factorisation.error_by_round(40) * scale
    for place in (0, 20, 39):
        assert follows_its_law(right[place], by_round[place])
        assert not follows_its_law(half[place], by_round[place])
    assert used.errors(40).max == pytest.approx(by_round.max())


@pytest.mark.parametrize("factors", FACTORS.values(), ids=list(FACTORS))
@pytest.mark.parametrize("repeats", [(1, 1), (3, 5)])
def test_noise_pays_for_all_records_and_for_rounding(
    factors: Any, repeats: tuple[int, int]
) -> None:
    often, apart = repeats
    given: dict[str, Any] = {"mu": 0.5, "clip": 1.5, "factorisation": factors}
    given |= {"unit": Person(often, apart=apart)} if often > 1 else {}
    counter = hr.ContinualSum(2, 40, **given)
    private = hr.ContinualSum.private(2, 40, **given, source=hr.SecureNoise())
    noise, encoder = counter._noise, counter._encoder
    exact = Fraction(encoder.scale) * 3 * Fraction(counter.factorisation.sensitivity(often, apart))
    least = exact + Fraction(encoder.rounding())
    assert least <= Fraction(noise.sensitivity) < Fraction(1.002) * exact
    assert noise.curve == GaussianDP(round_up(Fraction(noise.sensitivity) / Fraction(noise.scale)))
    assert noise.curve.mu == 0.5
    assert counter.certificate.public.curve == noise.curve
    assert (private._noise, private._encoder) == (noise, encoder)  # what is simulated is deployed


def test_budget_in_epsilon_and_delta_is_spent_exactly() -> None:
    counter = hr.ContinualSum(2, 100, epsilon=1.0, delta=1e-6)
    curve = counter.certificate.public.curve
    assert curve.epsilon(1e-6) <= 1.0
    assert isinstance(curve, GaussianDP)
    assert GaussianDP(curve.mu * 1.000001).epsilon(1e-6) > 1.0
    with pytest.raises(InvalidValue, match="exactly one of epsilon"):
        hr.ContinualSum(2, 100, mu=1.0, epsilon=1.0, delta=1e-6)
    with pytest.raises(hr.HedgerowError, match="no pure guarantee"):
        hr.ContinualSum(2, 100, epsilon=1.0)


def test_the_charge_for_rounding_is_small_and_not_zero() -> None:
    plain = 2 * BufferedToeplitz.optimised(1000).sensitivity()
    narrow, wide = (hr.ContinualSum(width, 1000, mu=1.0) for width in (100, 10**6))
    assert 1 < narrow._noise.sensitivity / narrow._encoder.scale / plain < 1.001
    assert wide._encoder.scale > 1
    assert 1 < wide._noise.sensitivity / wide._encoder.scale / plain < 1.002


def worst(counter: hr.ContinualSum, sign: float, seed: int) -> Stream:
    """A stream whose first vector pulls in one direction as far as it can, then nothing."""
    fresh = copy.copy(counter)
    fresh._server = SeededNoise(seed, chunk=16).server()
    first = [fresh.add([sign * 5.0, 0.0])]
    return np.array(first + [fresh.add([0.0, 0.0]) for _ in range(3)])


def attack(factor: float) -> tuple[Stream, Stream]:
    """Log-ratios of two neighbouring streams in both worlds, from published sums alone."""
    declared = hr.ContinualSum(2, 4, mu=1.0)
    shift = declared.factorisation.matrix() @ np.eye(4)[0] * 2
    direction = shift / declared._noise.scale**2 @ np.linalg.inv(declared.factorisation.decoding())
    counter = noisy(hr.ContinualSum(2, 4, mu=1.0), factor)
    first, second = (
        np.array([direction @ worst(counter, sign, seed)[:, 0] for seed in seeds])
        for sign, seeds in ((1.0, range(150)), (-1.0, range(150, 300)))
    )
    return first, second


def test_an_attack_finds_mu_and_no_more() -> None:
    first, second = attack(1.0)
    deviation = np.sqrt((first.var() + second.var()) / 2)
    assert deviation == pytest.approx(1.0, abs=0.1)  # the log-ratio has deviation mu
    assert (first.mean() - second.mean()) / deviation == pytest.approx(1.0, abs=0.25)
    first, second = attack(0.5)  # half the noise
    deviation = np.sqrt((first.var() + second.var()) / 2)
    assert (first.mean() - second.mean()) / deviation == pytest.approx(2.0, abs=0.35)


def test_clipping_is_exact_and_counted() -> None:
    counter = hr.ContinualSum(2, 10, mu=1e9, clip=1.0)
    assert counter.add([3.0, 4.0]).round(4).tolist() == [0.6, 0.8]
    assert counter.clipped == 1
    counter.add([0.6, 0.3])  # moved to the lattice only
    assert counter.clipped == 1
    assert counter.add([1e308, 0.0]).round(4).tolist() == [2.2, 1.1]
    assert counter.clipped == 2
    assert counter.mean.round(4).tolist() == [0.7333, 0.3667]


@pytest.mark.parametrize("secure", [False, True])
def test_bad_vectors_change_nothing_and_show_nothing(secure: bool) -> None:
    counter = (
        hr.ContinualSum.private(2, 3, mu=1.0, source=hr.SecureNoise())
        if secure
        else hr.ContinualSum(2, 3, mu=1.0)
    )
    before = counter.add([0.5, 0.5])
    masked = np.ma.masked_array([0.75, 0.5], mask=[False, True])
    for bad in (["0.75x", 0.75], [0.75], [[0.75, 0.75]], [0.75 + 1j, 0.75], masked, ["0.75"] * 2):
        with pytest.raises(InvalidValue) as caught:
            counter.add(bad)
        assert "0.75" not in str(caught.value)
        assert caught.value.__cause__ is None
    assert counter.round == 1
    assert counter.sum.tolist() == before.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_counts_as_zeros(bad: float) -> None:
    """A refusal would depend on a private value."""
    counter = hr.ContinualSum(2, 3, mu=1e9)
    assert counter.add([bad, 0.75]).round(4).tolist() == [0.0, 0.0]
    assert (counter.round, counter.clipped) == (1, 1)


def test_a_call_from_inside_a_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal handler makes it: both would publish the same round, with other noise."""
    counter = hr.ContinualSum(1, 5, mu=1.0)
    step, caught = Filter.step, []

    def handler(*given: Any, **choices: Any) -> Any:
        with pytest.raises(InvalidValue, match="signal handler") as error:
            counter.add([1.0])
        caught.append(error)
        return step(*given, **choices)

    monkeypatch.setattr(Filter, "step", handler)
    counter.add([1.0])
    assert (counter.round, len(caught)) == (1, 2)  # both filters


@pytest.mark.parametrize("place", [1, 2])
def test_an_interrupted_counter_goes_no_further(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vector may be in the memory of the filter already: adding it again would count twice."""
    counter, step, calls = hr.ContinualSum(1, 5, mu=1.0), Filter.step, []

    def interrupted(*given: Any, **choices: Any) -> Any:
        calls.append(step(*given, **choices))
        if len(calls) == place:
            raise KeyboardInterrupt
        return calls[-1]

    before = counter.add([1.0])
    with monkeypatch.context() as patched:
        patched.setattr(Filter, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            counter.add([1.0])
    assert (counter.round, counter.sum.tolist()) == (1, before.tolist())
    with pytest.raises(InvalidValue, match="between two rounds"):
        counter.add([1.0])
    for copied in (copy.copy, pickle.dumps, lambda one: one.to_bytes()):
        with pytest.raises(TypeError, match="interrupted"):
            copied(counter)


def test_a_copy_has_its_own_memory() -> None:
    """Filters write over their memory, so a copy that shared it would count other vectors."""
    given = np.random.default_rng(0).uniform(-0.5, 0.5, (30, 2))
    counter, alone = (hr.ContinualSum(2, 50, mu=1.0, ids=True) for _ in range(2))
    counter.add([1.0, 0.0], who="a")
    alone.add([1.0, 0.0], who="a")
    other = copy.copy(counter)
    for who, vector in enumerate(given):
        other.add(-vector, who=who)
        assert counter.add(vector, who=who).tolist() == alone.add(vector, who=who).tolist()


def test_more_rounds_than_the_horizon_are_refused() -> None:
    counter = hr.ContinualSum(1, 2, mu=1.0)
    counter.add([1.0])
    last = counter.add([1.0])
    with pytest.raises(InvalidValue, match=r"ends after rounds=2.*rounds=None"):
        counter.add([1.0])
    assert counter.sum == last
    limited = hr.ContinualSum(1, 2, mu=1.0, factorisation=Epochs())
    limited.add([1.0])
    limited.add([1.0])
    with pytest.raises(InvalidValue, match="Start another counter"):
        limited.add([1.0])
    with pytest.raises(InvalidValue, match="to be 9, the horizon given"):
        hr.ContinualSum(1, 8, mu=1.0, factorisation=ToeplitzRoot(9))


def test_a_counter_without_a_horizon_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = hr.ContinualSum(1, mu=1e9)
    for count in range(1, 101):
        assert counter.add([1.0]) == pytest.approx(count, abs=1e-4)
    assert counter.certificate.public.horizon == 2**20
    assert counter.errors().max == counter.errors(100).max
    monkeypatch.setattr(continual_sum, "LONGEST", 2)
    private = hr.ContinualSum.private(1, mu=1.0, source=hr.SecureNoise())
    for short in (hr.ContinualSum(1, mu=1.0), private):
        short.add([1.0])
        short.add([1.0])
        with pytest.raises(InvalidValue, match="ends after rounds=2"):
            short.add([1.0])


def test_memory_does_not_grow() -> None:
    counter = hr.ContinualSum(5, 1000, mu=1.0)
    counter.add(np.zeros(5))
    size = len(counter.to_bytes())
    for _ in range(300):
        counter.add(np.zeros(5))
    assert len(counter.to_bytes()) < size + 30  # digits of the counts
    assert counter._progress.encoder.shape == (4, 5)


def test_participation_beyond_what_was_declared_is_refused() -> None:
    counter = hr.ContinualSum(1, 20, mu=1.0, unit="person:2/3", ids=True)
    counter.add([1.0], who="secret")
    counter.add([1.0], who=17)
    before = counter.to_bytes()
    with pytest.raises(InvalidValue, match="less than 3 rounds ago") as near:
        counter.add([1.0], who="secret")
    assert "secret" not in str(near.value)
    assert counter.to_bytes() == before  # no noise was drawn
    counter.add([1.0], who=np.int64(18))
    counter.add([1.0], who="secret")
    for other in range(4):
        counter.add([1.0], who=other)
    with pytest.raises(InvalidValue, match="already added 2 times") as often:
        counter.add([1.0], who="secret")
    assert "secret" not in str(often.value)
    with pytest.raises(InvalidValue, match="who= in every round"):
        counter.add([1.0])
    with pytest.raises(InvalidValue, match="whole number or a text"):
        counter.add([1.0], who=True)
    assert counter.round == 8
    nameless = hr.ContinualSum(1, 20, mu=1.0)
    with pytest.raises(InvalidValue, match="who= in no round"):
        nameless.add([1.0], who=1)


def names(counter: hr.ContinualSum) -> set[str]:
    return {assumption.name for assumption in counter.certificate.public.assumes}


def test_participation_is_assumed_unless_it_is_checked() -> None:
    single = hr.ContinualSum(1, 20, mu=1.0)
    assert isinstance(single.certificate.public.unit, Event)
    assert "DECLARED_RECORDS" not in names(single)
    repeated = hr.ContinualSum(1, 20, mu=1.0, unit="person:2/3")
    unit = repeated.certificate.public.unit
    assert isinstance(unit, Person)
    assert unit.records == 2
    assert "3 or more rounds apart" in repeated.certificate.public.adjacency
    assert "DECLARED_RECORDS" in names(repeated)
    checked = hr.ContinualSum(1, 20, mu=1.0, unit="person:2/3", ids=True)
    assert "DECLARED_RECORDS" not in names(checked)
    assert "IDENTITIES" in names(checked)
    assert isinstance(hr.ContinualSum(1, 20, mu=1.0, ids=True).certificate.public.unit, Person)


@pytest.mark.parametrize("ids", [False, True])
def test_a_certificate_does_not_change_with_use(ids: bool) -> None:
    counter = hr.ContinualSum(1, 20, mu=1.0, ids=ids)
    before = counter.certificate
    counter.add([1.0], who=7 if ids else None)
    assert counter.certificate == before


def test_the_certificate_names_the_range_of_a_number() -> None:
    assert hr.ContinualSum(2, 20, mu=1.0, clip=3.0).certificate.public.bounds == (-3.0, 3.0)


@pytest.mark.parametrize("again", [1, "1", np.int64(1), np.uint8(1)])
@pytest.mark.parametrize("first", [1, "1", np.int64(1)])
def test_a_number_and_its_text_are_one_person(first: Any, again: Any) -> None:
    counter = hr.ContinualSum(1, 10, mu=1.0, ids=True)
    counter.add([1.0], who=first)
    counter = hr.ContinualSum.from_bytes(counter.to_bytes())
    with pytest.raises(InvalidValue, match="already added 1 times"):
        counter.add([1.0], who=again)
    for other in ("01", " 1", -1, "1.0", "\ud800"):
        counter.add([1.0], who=other)
    with pytest.raises(InvalidValue, match="at most 4096 bits"):
        counter.add([1.0], who=10**5000)


def test_certificate_says_who_sees_what() -> None:
    counter = hr.ContinualSum(1, 20, mu=1.0)
    certificate = counter.certificate
    assert not certificate.server.protects
    assert Channel.UPLOADS in certificate.server.view
    assert Channel.UPLOADS not in certificate.public.view
    assert certificate.composition == "shifts"
    assert certificate.public.proof is not None
    assert "ContinualSum" in certificate.public.proof.read()
    assert "IDEAL_REALS" in names(counter)
    private = hr.ContinualSum.private(1, 20, mu=1.0, source=hr.SecureNoise())
    assert names(private) >= {"ENTROPY", "ARITHMETIC"}
    assert "IDEAL_REALS" not in names(private)


def test_a_private_counter_is_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = hr.ContinualSum.private(1, 20, mu=1.0, source=hr.SecureNoise())
    for copied in (copy.copy, copy.deepcopy, pickle.dumps, lambda one: one.to_bytes()):
        with pytest.raises(TypeError, match="cannot be copied or saved"):
            copied(counter)
    with pytest.raises(InvalidValue, match="Expected SecureNoise"):
        hr.ContinualSum.private(1, 20, mu=1.0, source=None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match="too coarse"):
        hr.ContinualSum.private(1, 20, mu=1e6, source=hr.SecureNoise())
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(InvalidValue, match="another process"):
        counter.add([1.0])


def test_private_sums_are_near_the_truth_and_on_the_lattice() -> None:
    counter = hr.ContinualSum.private(
        3, 10, mu=100.0, factorisation=Independent(10), source=hr.SecureNoise()
    )
    for _ in range(10):
        counter.add([0.5, 0.25, 0.0])
    assert counter.sum == pytest.approx([5.0, 2.5, 0.0], abs=1.0)
    assert not (counter.sum * 2**20 % 1).any()


@pytest.mark.parametrize("rounds", [30, None])
@pytest.mark.parametrize("factors", [None, "independent", Independent(30)])
def test_a_seeded_counter_continues_from_its_state(factors: Any, rounds: int | None) -> None:
    given: dict[str, Any] = {"mu": 1.0, "unit": "person:2", "ids": True, "seed": 5}
    counter = hr.ContinualSum(2, rounds, factorisation=factors, **given)
    for who in range(10):
        counter.add([1.0, 5.0], who=who)
    needed = factors if isinstance(factors, Factorisation) else None
    again = hr.ContinualSum.from_bytes(counter.to_bytes(), needed)
    twin = pickle.loads(pickle.dumps(counter))
    assert again.clipped == 10
    assert again.certificate == counter.certificate
    for _ in range(2):
        expected = counter.add([1.0, 0.0], who="a").tolist()
        assert again.add([1.0, 0.0], who="a").tolist() == expected
        assert twin.add([1.0, 0.0], who="a").tolist() == expected
    with pytest.raises(InvalidValue, match="already added 2 times"):
        again.add([1.0, 0.0], who="a")


def test_an_altered_state_is_refused() -> None:
    counter = hr.ContinualSum(2, 30, mu=1.0)
    counter.add([1.0, 0.0])
    state = counter.to_bytes()
    for place in range(0, len(state), 7):
        damaged = bytearray(state)
        damaged[place] ^= 1
        with pytest.raises(DamagedState):
            hr.ContinualSum.from_bytes(bytes(damaged))
    for part in (b"", state[:-1], state[:40], state + b"x"):
        with pytest.raises(DamagedState):
            hr.ContinualSum.from_bytes(part)
    other = hr.ContinualSum(2, 30, mu=1.0, factorisation=ToeplitzRoot(30)).to_bytes()
    for wrong in (None, Independent(30)):
        with pytest.raises(InvalidValue, match="the one that the state was made with"):
            hr.ContinualSum.from_bytes(other, wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0},
        {"rounds": 0},
        {"clip": 0.0},
        {"clip": 1e-9},
        {"clip": 1e12},
        {"unit": "person:0"},
        {"unit": "person:99"},
        {"unit": "client", "ids": True},
        {"mu": -1.0},
        {"ids": "yes"},
        {"factorisation": "best"},
        {"factorisation": ""},
        {"rounds": None, "factorisation": "tree"},
    ],
    ids=str,
)
def test_bad_parameters_are_named(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"width": 2, "rounds": 10, "mu": 1.0, **wrong}
    with pytest.raises(InvalidValue, match="ids|records" if "unit" in wrong else next(iter(wrong))):
        hr.ContinualSum(**given)


def test_a_simulation_and_a_deployment_publish_the_same_kind_of_sums() -> None:
    """Without noise both give the exact sums of the clipped vectors."""
    given: dict[str, Any] = {"rounds": 40, "mu": 1.0, "unit": "person:2/4"}
    private = hr.ContinualSum.private(2, **given, source=hr.SecureNoise())
    for counter in (hr.ContinualSum(2, **given), private):
        counter._server = NoNoise().server()
        for count in range(1, 41):
            found = counter.add([0.5, -0.25])
            assert found == pytest.approx([0.5 * count, -0.25 * count], abs=1e-3)
