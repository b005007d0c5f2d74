"""Noise that was drawn is accepted if it is as stated, and not if it is a fifth too small."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from hedgerow.audits.cases.releases import quiet
from hedgerow.audits.drawn import ENOUGH, information, what_is_wrong
from hedgerow.contracts.recording import Ledger, RecordingNoise
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.noise import Noise, SeededNoise
from hedgerow.privacy.mechanisms import (
    AdditiveNoise,
    EuclideanNoise,
    ExponentialMechanism,
    GaussianNoise,
    KNorm,
    NoisyMax,
)
from hedgerow_papers.gao2024.laplace_max import LaplaceMax

LAWS: dict[str, tuple[Mechanism, Any]] = {
    "a number": (GaussianNoise("n", 2.0), 1.5),
    "gaussian": (GaussianNoise("n", 0.3), np.arange(3.0)),
    "laplace": (AdditiveNoise("n", "laplace", 2.0), np.arange(2.0)),
    "exponential": (AdditiveNoise("n", "exponential", 2.0), 0.5),
    "cube": (KNorm("n", 0.5), np.zeros(3)),
    "sphere": (EuclideanNoise("n", 0.5), np.zeros(3)),
    "softmax": (ExponentialMechanism("n", 2.0), np.array([0.0, 1.0, 3.0])),
    "permute-and-flip": (NoisyMax("n", "exponential", 2.0), np.array([0.0, 1.0, 3.0])),
    "laplace max": (LaplaceMax("n", 2.0), np.array([0.0, 1.0, 3.0])),
}


def runs(mechanism: Any, value: Any, seed: int) -> list[Ledger]:
    """Runs of ten releases each, as many as an audit looks at."""
    source, found, known = SeededNoise(seed), list[Ledger](), 0.0
    while known < ENOUGH:
        noise = RecordingNoise(source)
        for _ in range(10):
            noise.server().release(mechanism, value)
        found.append(noise.ledger)
        known += information(noise.ledger)
    return found


@pytest.mark.parametrize("law", LAWS)
def test_a_fifth_less_noise_than_stated_is_found(law: str) -> None:
    mechanism, value = LAWS[law]
    for seed in (1, 2):
        assert what_is_wrong(runs(mechanism, value, seed)) is None
        wrong = what_is_wrong(runs(quiet(mechanism), value, seed))
        assert wrong == "the noise of 'n' that was drawn is not as large as stated"


@dataclass(frozen=True)
class Repeating(GaussianNoise):
    """Every coordinate gets the noise of the first."""

    def sample(self, value: Any, noise: Noise) -> Any:
        return value + (super().sample(value, noise) - value)[..., :1]


@dataclass(frozen=True)
class Shifted(GaussianNoise):
    """The noise has the right variance around another mean."""

    def sample(self, value: Any, noise: Noise) -> Any:
        return value + 0.3 * self.scale + 0.954 * (super().sample(value, noise) - value)


@pytest.mark.parametrize("law", [Repeating, Shifted])
def test_noise_that_is_not_independent_or_not_centred_is_found(law: Any) -> None:
    assert what_is_wrong(runs(law("n", 1.0), np.zeros(4), 3)) == (
        "the noise of 'n' that was drawn is not independent"
    )


@pytest.mark.parametrize("between", ["releases", "runs", "clients"])
def test_the_same_noise_twice_is_found(between: str) -> None:
    """The right amounts, but the second of two neighbours has the noise of the first."""
    found = runs(GaussianNoise("n", 1.0), np.zeros(2), 4)
    if between == "releases":
        for ledger in found:
            ledger.calls[1::2] = [
                replace(later, output=first.output)
                for first, later in zip(ledger.calls[::2], ledger.calls[1::2], strict=True)
            ]
    elif between == "runs":
        found[1::2] = [Ledger(list(one.calls)) for one in found[: len(found) // 2 * 2 : 2]]
    else:
        found = [
            Ledger(
                [
                    replace(
                        call,
                        value=np.zeros((2, 2)),
                        output=np.stack([call.output, call.output]),
                        players=(("client", 0), ("client", 1)),
                        batch=(2,),
                    )
                    for call in ledger.calls
                ]
            )
            for ledger in found
        ]
    assert what_is_wrong(found) is not None


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_right_noise_raises_no_alarm_with_any_of_many_seeds(law: str) -> None:
    assert [what_is_wrong(runs(*LAWS[law], seed)) for seed in range(100)] == [None] * 100
