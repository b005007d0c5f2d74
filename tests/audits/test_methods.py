"""The epsilon of transcripts is exact: never above the truth, and not below it."""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest
from scipy.special import ndtr

from hedgerow.audits.case import exact_epsilon
from hedgerow.core.errors import InvalidValue
from hedgerow.privacy.curves import GaussianDP


def test_without_delta_it_is_the_largest_ratio() -> None:
    assert exact_epsilon([(-1.0, -3.0), (-5.0, -4.0)]) == 2.0
    assert exact_epsilon([(-1.0, -inf)]) == inf
    assert exact_epsilon([(-inf, -inf)]) is None
    assert exact_epsilon([(-inf, -inf), (-1.0, -1.0)]) == 0.0


@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.2])
def test_randomised_response_at_a_delta(delta: float) -> None:
    """P(yes) - e^epsilon Q(yes) = delta, solved for epsilon; exchanged worlds show the same."""
    yes, no = log(0.8), log(0.2)
    truth = log((0.8 - delta) / 0.2)
    for pairs in ([(yes, no), (no, yes)], [(no, yes), (yes, no)]):
        assert exact_epsilon(pairs, delta) == pytest.approx(truth, rel=1e-9)
    assert exact_epsilon([(yes, no)], delta) == pytest.approx(truth, rel=1e-9)  # the other is less
    assert exact_epsilon([(no, no), (yes, yes)], delta) == 0.0


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_a_fine_grid_of_a_gaussian_pair_is_below_its_curve_and_close(mu: float) -> None:
    ends = np.linspace(-12.0, 12.0 + mu, 4000)
    chances = [np.diff(ndtr(ends - shift)) for shift in (0.0, mu)]
    kept = (chances[0] > 0) & (chances[1] > 0)
    pairs = np.log(np.stack([chance[kept] for chance in chances], axis=1)).tolist()
    for delta in (1e-6, 1e-3, 0.05):
        truth, found = GaussianDP(mu).epsilon(delta), exact_epsilon(pairs, delta)
        assert found is not None
        assert 0.99 * truth <= found <= truth * (1 + 1e-9)
        fewer = exact_epsilon(pairs[: len(pairs) // 2], delta)
        assert fewer is not None
        assert fewer <= found


def test_what_gives_everything_away_with_more_than_delta_is_infinite() -> None:
    pairs = [(log(0.1), -inf), (log(0.9), 0.0)]
    assert exact_epsilon(pairs, 0.05) == inf
    found = exact_epsilon(pairs, 0.1)
    assert found is not None
    assert found >= 0.0
    assert exact_epsilon([(-inf, log(0.1)), (0.0, log(0.9))], 0.05) == inf


def test_impossible_inputs_are_refused() -> None:
    with pytest.raises(InvalidValue, match="transcripts=0"):
        exact_epsilon([])
    with pytest.raises(InvalidValue, match="log-likelihoods"):
        exact_epsilon([(0.0, 0.0), (np.nan, 0.0)])
    with pytest.raises(InvalidValue, match="delta=2"):
        exact_epsilon([(0.0, exp(0.0))], 2.0)
