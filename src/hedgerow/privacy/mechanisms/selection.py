"""Private selection: choose the index of a small score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np

from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import Mechanism, PrivacyCurve
from hedgerow.core.noise import Noise
from hedgerow.core.rounding import round_down, round_up
from hedgerow.core.validate import positive
from hedgerow.privacy.curves import BoundedRange, PureDP
from hedgerow.privacy.mechanisms.additive import Values

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_CELLS = 2**20
GUMBEL = "exponential mechanism (gumbel noise)"


@lru_cache(maxsize=1024)
def _rate(epsilon: float, move: Fraction) -> float:
    """epsilon / move, rounded down: the larger of two rates protects less."""
    return round_down(Fraction(epsilon) / move)


class Selection(Mechanism):
    """Base class of private selection, given the exact log-probability of every choice."""

    exact: ClassVar[bool] = True  # secure noise has a sampler for it
    epsilon: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        positive("sensitivity", self.sensitivity)

    @cached_property
    def rate(self) -> float:
        """Units of noise for each unit of score."""
        return _rate(self.epsilon, 2 * Fraction(self.sensitivity))

    @property
    def scale(self) -> float:
        """Units of score for each unit of noise."""
        return 1 / self.rate

    def cost_of_move(self, distance: float) -> PrivacyCurve | None:
        """The curve of the same noise for scores that move by `distance`."""
        share = round_up(Fraction(self.epsilon) * Fraction(distance) / Fraction(self.sensitivity))
        return replace(self, epsilon=share, sensitivity=distance).curve  # pyright: ignore[reportArgumentType]

    def scaled(self, factor: float) -> Self:
        return replace(self, epsilon=self.epsilon / factor)  # pyright: ignore[reportArgumentType]

    def noise_scale(self) -> float:
        return self.scale

    def _gaps(self, scores: Any) -> Values:
        scores = np.asarray(scores, float)
        if not np.isfinite(scores).all():
            raise InvalidValue("Expected finite scores for a private choice.")
        return scores - scores.min(axis=-1, keepdims=True)

    def _logits(self, scores: Any) -> Values:
        return -self.rate * self._gaps(scores)

    def _log_probabilities(self, scores: Any) -> Values:
        raise NotImplementedError

    def probabilities(self, scores: Any) -> Values:
        return np.exp(self._log_probabilities(scores))

    def log_probability(self, scores: Any, choice: int) -> float:
        return float(self._log_probabilities(scores)[choice])

    def log_density(self, value: Any, output: Any) -> float:
        return self.log_probability(value, output)

    def distance(self, value: Any, other: Any) -> float:
        return float(np.abs(np.subtract(value, other)).max())

    def uniformise(self, value: Any, output: Any, coin: float) -> float:
        probabilities = self.probabilities(value)
        # best first: another amount of noise moves mass from one end to the other
        better = np.asarray(value) < value[output]
        tied = np.flatnonzero(np.asarray(value) == value[output])
        before = probabilities[better].sum() + probabilities[tied[tied < output]].sum()
        return float(before + coin * probabilities[output])

    def outcomes(self, value: Any) -> tuple[int, ...]:
        return tuple(range(len(value)))

    def probe(self) -> Values:
        return np.array([0.0, 1.5 * self.scale])


def _softmax(logits: Values) -> Values:
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class ExponentialMechanism(Selection):
    """The exponential mechanism for scores of which small ones are good.

    Index i has probability proportional to exp(-epsilon * score[i] / (2 * sensitivity)).

    Parameters
    ----------
    purpose
        The name of the noise stream.
    epsilon
        The bounded range of one choice, > 0.
    sensitivity
        The largest change of any score between neighbouring inputs. Default: 1.

    Guarantee
    ---------
    Bounded range epsilon, which is stronger than epsilon-DP, if no score moves by more than
    `sensitivity` (`proofs/mechanisms.md#exponential-mechanism`).

    Examples
    --------
    >>> from hedgerow.privacy import ExponentialMechanism
    >>> ExponentialMechanism("selection", epsilon=2.0).probabilities([0.0, 1.0]).round(4).tolist()
    [0.7311, 0.2689]
    """

    purpose: str
    epsilon: float
    sensitivity: float = 1.0

    def words(self) -> str:
        return GUMBEL

    @property
    def curve(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def sample(self, value: Any, noise: Noise) -> Any:
        return noise.choose("gumbel", self._gaps(noise.lattice(value)), self.rate, self.purpose)

    def draw_noise(self, count: int, experts: int, noise: Noise) -> Values:
        """Draw the noise (count, experts) of the next `count` choices."""
        return noise.draw("gumbel", self.purpose, (experts,), rounds=count)

    def chosen(self, scores: Values, drawn: Values) -> int:
        """Choose by noise that was drawn in advance, from finite scores.

        The result equals that of `sample` with seeded noise.
        """
        return int(np.subtract(drawn, self.penalties(scores)).argmax())

    def penalties(self, scores: Values) -> Values:
        """What is subtracted from the noise: rate * (score - least score), for rows of scores."""
        found = scores - np.minimum.reduce(scores, axis=-1, keepdims=True)
        found *= self.rate
        return found

    def _log_probabilities(self, scores: Any) -> Values:
        return _softmax(self._logits(scores))


@dataclass(frozen=True)
class NoisyMax(Selection):
    """Report noisy max for scores of which small ones are good.

    It chooses the smallest of score[i] - scale * noise[i] with scale = 2 sensitivity / epsilon, or
    sensitivity / epsilon with `monotone`. Gumbel noise gives the exponential mechanism. Exponential
    noise gives permute-and-flip, which is never worse. Exponential noise is one-sided and makes
    scores better; with the opposite sign it would protect nothing.

    Parameters
    ----------
    purpose
        The name of the noise stream.
    law
        "exponential" or "gumbel".
    epsilon
        The cost of one choice, > 0.
    sensitivity
        The largest change of any score between neighbouring inputs. Default: 1.
    monotone
        True if one record moves all scores in the same direction; some may not move. Default:
        False.

    Guarantee
    ---------
    Exponential noise: epsilon-DP. Gumbel noise: bounded range epsilon. The proof is
    `proofs/mechanisms.md#noisy-max`.

    Examples
    --------
    >>> from hedgerow.privacy import NoisyMax
    >>> choice = NoisyMax("selection", "exponential", epsilon=2.0)
    >>> choice.probabilities([0.0, 1.0]).round(4).tolist()
    [0.8161, 0.1839]
    """

    purpose: str
    law: Literal["exponential", "gumbel"]
    epsilon: float
    sensitivity: float = 1.0
    monotone: bool = False

    def __post_init__(self) -> None:
        if self.law not in ("exponential", "gumbel"):
            raise InvalidValue(f"Expected law={self.law!r} to be 'exponential' or 'gumbel'.")
        super().__post_init__()

    @cached_property
    def rate(self) -> float:
        return _rate(self.epsilon, (1 if self.monotone else 2) * Fraction(self.sensitivity))

    def words(self) -> str:
        return GUMBEL if self.law == "gumbel" else "permute-and-flip (exponential noise)"

    @property
    def curve(self) -> BoundedRange | PureDP:
        """Bounded range for Gumbel noise, pure for exponential noise.

        The log-ratios of permute-and-flip can be more than epsilon apart.
        """
        return BoundedRange(self.epsilon) if self.law == "gumbel" else PureDP(self.epsilon)

    def distance(self, value: Any, other: Any) -> float:
        """The largest move.

        With `monotone`, moves up and down add, so opposite moves exceed the sensitivity.
        """
        moved = np.subtract(other, value)
        if self.monotone:
            return float(max(moved.max(), 0.0) - min(moved.min(), 0.0))
        return float(np.abs(moved).max())

    def sample(self, value: Any, noise: Noise) -> Any:
        return noise.choose(self.law, self._gaps(noise.lattice(value)), self.rate, self.purpose)

    def _log_probabilities(self, scores: Any) -> Values:
        logits = self._logits(scores)
        return _softmax(logits) if self.law == "gumbel" else _flips(tuple(logits.tolist()))


@lru_cache(maxsize=4096)
def _flips(logits: tuple[float, ...]) -> Values:
    """The same scores occur in many transcripts of a tiny game."""
    found = _permute_and_flip(np.array(logits))
    found.setflags(write=False)
    return found


def _permute_and_flip(logits: Values) -> Values:
    """Log-probabilities of permute-and-flip.

    ln of w[i] * integral over u in [0, 1] of the product over j != i of (1 - w[j] u), with
    w = exp(logits) and largest w = 1. Here u = exp(-the winning noisy value). The integrand is
    positive and falls at least as fast as exp(-u (sum of w - 1)). Gauss-Legendre on panels of width
    1 / sum of w is therefore exact to rounding. Beyond the last panel it is below e^-40.
    """
    weights = np.exp(logits)
    total = weights.sum()
    edges = np.linspace(0.0, 1.0, 2 + int(total)) if total < 50 else np.arange(51) / total
    half = np.diff(edges)[:, None] / 2
    u, step = (edges[:-1, None] + half + half * _NODES).ravel(), (half * _WEIGHTS).ravel()
    integral = np.zeros_like(weights)
    rows = max(1, _CELLS // len(weights))
    for first in range(0, len(u), rows):
        factors = np.log1p(-np.outer(u[first : first + rows], weights))
        products = factors.sum(axis=1, keepdims=True)
        integral += step[first : first + rows] @ np.exp(products - factors)
    return logits + np.log(integral)
