"""What secure noise cannot draw is refused when an algorithm is built, at the exact limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, nextafter
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import exact_scales
from hedgerow.engines.learner import private_algorithm
from hedgerow.privacy import AdditiveNoise, GaussianNoise, KNorm
from hedgerow.privacy.mechanisms.sparse import Comparison
from hedgerow_papers.agarwal2017.printed_leader import AgarwalTreeLeader

SIZE: dict[str, Any] = {"clients": 3, "experts": 4, "horizon": 8}
SETTING = hr.Setting(**SIZE)


def forms() -> Iterator[tuple[str, str, Any]]:
    """Every form of every algorithm that can draw secure noise, and the name of its budget."""
    for name in ALGORITHMS:
        kind: Any = ALGORITHMS[name]
        for form, choices in {"": {}, **kind.traits.forms}.items():
            spec = kind(**choices)
            if hasattr(spec, "mu") and spec.mu is None and spec.epsilon is None:
                spec = replace(spec, mu=1.0)
            budget = "epsilon" if getattr(spec, "epsilon", None) is not None else "mu"
            people = getattr(spec, "people", None) is not None  # a game of losses has none
            if getattr(spec, budget, None) is not None and not people and accepts(spec):
                yield f"{name} {form}".strip(), budget, spec


def accepts(spec: Any) -> bool:
    try:
        private_algorithm(spec, SETTING)
    except hr.HedgerowError:
        return False
    return True


def last_accepted(spec: Any, budget: str, factor: float) -> Any:
    """The form with the largest (or least) budget that is accepted, and the first that is not."""

    def made(value: float) -> Any:
        return replace(spec, **{budget: value})

    def fits(value: float) -> bool:
        try:
            return accepts(made(value))
        except hr.HedgerowError:
            return False

    good = getattr(spec, budget)
    bad = good * factor
    while fits(bad):
        good, bad = bad, bad * factor
    while nextafter(good, bad) != bad and abs(bad - good) > 1e-13 * good:
        middle = (good + bad) / 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return made(good)


FORMS = {name: (budget, spec) for name, budget, spec in forms()}


@pytest.mark.parametrize("factor", [100.0, 0.01], ids=["largest", "least"])
@pytest.mark.parametrize("name", FORMS)
def test_the_last_budget_that_is_accepted_plays(name: str, factor: float) -> None:
    budget, spec = FORMS[name]
    losses = np.random.default_rng(0).random((8, 3, 4))
    last = last_accepted(spec, budget, factor)
    learner = hr.Learner.private(last, **SIZE, source=hr.SecureNoise())
    for at in range(8):
        learner.predict()
        learner.observe(losses[at])


def test_epsilon_of_a_million_is_refused_at_the_build() -> None:
    """It used to fail at the first draw, in the middle of a study."""
    game: dict[str, Any] = {**SIZE, "source": hr.SecureNoise()}
    with pytest.raises(Unsupported, match=r"scale of at least 7.6\d*e-06; choose a smaller budget"):
        hr.Learner.private(hr.SparseVector(epsilon=1e6), **game)
    with pytest.raises(Unsupported, match=r"noise of scale .*report.* choose a smaller budget"):
        hr.Learner.private(hr.PhasedSelection(epsilon=1e6, trust="local"), **game)
    with pytest.raises(Unsupported, match="choose a larger budget"):
        hr.Learner.private(AgarwalTreeLeader(epsilon=1e-6, aim="min_noise"), **game)
    assert FORMS.keys() >= {"sparse_vector", "phased_selection local", "walk_meta", "tree_leader"}


MECHANISMS: dict[str, Callable[[float], Any]] = {
    "laplace": lambda scale: AdditiveNoise("report", "laplace", scale),
    "exponential": lambda scale: AdditiveNoise("report", "exponential", scale),
    "gaussian": lambda scale: GaussianNoise("report", scale),
    "cube": lambda scale: KNorm("report", scale),
    "comparison": lambda scale: Comparison("query", "laplace", scale),
}


@pytest.mark.parametrize("width", [1, 7, 1000])
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_limits_of_a_mechanism_are_those_of_the_draw(name: str, width: int) -> None:
    """The least and the largest scale are drawn, and the next float beyond each is refused."""
    make, noise = MECHANISMS[name], hr.SecureNoise().server()
    least, most = make(1.0).exact_scales(width)
    assert (least, most) == exact_scales("cube" if name == "cube" else "laplace", width)
    for scale, beyond in ((least, 0.0), (most, inf)):
        assert np.shape(noise.release(make(scale), np.zeros(width))) == (width,)
        with pytest.raises(InvalidValue, match="Expected scale="):
            noise.release(make(nextafter(scale, beyond)), np.zeros(width))
