"""Private counters over time: add a vector in each round, get a private running sum."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from typing import Any
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from hedgerow.algorithms.correlated.buffered import BufferedToeplitz
from hedgerow.algorithms.correlated.epochs import Epochs
from hedgerow.algorithms.correlated.factorisation import Errors, Factorisation
from hedgerow.algorithms.correlated.filters import Filter, FilterState
from hedgerow.algorithms.correlated.lattice import LatticeEncoder
from hedgerow.algorithms.correlated.sum_certificate import sum_certificate
from hedgerow.core.certificate import Certificate, with_exact_noise
from hedgerow.core.errors import InvalidValue
from hedgerow.core.fingerprint import fingerprint
from hedgerow.core.lattice import Array, clip_to_lattice, round_to_lattice
from hedgerow.core.messages import decode, encode
from hedgerow.core.noise import NoiseSource, SeededNoise
from hedgerow.core.rounding import round_up
from hedgerow.core.turn import Turn
from hedgerow.core.validate import at_least, expect, numbers, positive
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import gaussian_scale
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.privacy.odometer import DamagedState
from hedgerow.privacy.secure import SecureNoise
from hedgerow.privacy.secure.process import Home
from hedgerow.privacy.secure.source import require_secure

BUFFERS = 4
LONGEST = 2**20  # rounds of a private counter without a horizon: the charge for rounding needs one
MOST_DIGITS = 20
_MAGIC, _DIGEST, _LENGTH = b"hedgerow running sum 1\n", 32, 8

Who = int | str | np.integer[Any]


@dataclass(frozen=True)
class _Progress:
    """What a counter remembers beside the ids; flat, so that the codec can save it."""

    round: int
    clipped: int
    encoder: npt.NDArray[Any]
    decoder: npt.NDArray[Any]
    sum: Array


class ContinualSum:
    """A private running sum of vectors: in each round one is added and the sum is published.

    Every vector is moved to the lattice 2^-20 and scaled down to norm `clip` if it is longer. The
    noise of the sums is correlated between rounds, so the error grows only with the logarithm of
    the number of rounds. Memory and time per round do not grow, except for the ids of `who`.

    The noise is seeded and serves for simulation. For real data use `ContinualSum.private`.

    Parameters
    ----------
    width
        How many numbers a vector has.
    rounds
        The most vectors that are added. None: any number, with a somewhat larger error.
    mu, epsilon, delta
        The budget of all published sums together: `mu` of Gaussian DP, or epsilon and delta.
    clip
        The largest norm of a vector, in [2^-20, 2^30]. Longer ones are scaled down. Default: 1.
    participations
        How many vectors one person adds at most. Default: 1.
    separation
        The least distance in rounds between two vectors of one person. Default: 1.
    factorisation
        How noise is correlated. Default: `BufferedToeplitz.optimised(rounds, 4)`, and `Epochs()`
        without a horizon.
    seed
        The seed of the noise; the same seed gives the same sums.

    Guarantee
    ---------
    The sums together are mu-GDP for the vectors of one person, each replaced by any other of norm
    at most `clip` (`proofs/correlated_noise.md#continual-sums`).

    Examples
    --------
    >>> import hedgerow as hr
    >>> counter = hr.ContinualSum(width=3, rounds=1000, mu=0.5, clip=3.0)
    >>> for _ in range(1000):
    ...     published = counter.add([1, 0, 2])
    >>> published.round()
    array([ 974.,   20., 1956.])
    >>> counter.certificate.public.curve
    GaussianDP(mu=0.5)
    >>> round(counter.errors().max, 1)
    39.2
    """

    def __init__(
        self,
        width: int,
        rounds: int | None = None,
        *,
        mu: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        clip: float = 1.0,
        participations: int = 1,
        separation: int = 1,
        factorisation: Factorisation | None = None,
        seed: int = 0,
    ) -> None:
        budget = Budget(epsilon=epsilon, delta=delta, mu=mu)
        factors = _factors(rounds, factorisation)
        change = self._choose(width, factors, budget, clip, participations, separation)
        limit = factors.rounds if rounds is None else rounds
        moved = factors.sensitivity(participations, separation)
        total = round_up(Fraction(change) * Fraction(moved))
        self._begin(factors.encoder, limit, 1.0, total, SeededNoise(seed))

    @classmethod
    def private(
        cls,
        width: int,
        rounds: int | None = None,
        *,
        mu: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        clip: float = 1.0,
        participations: int = 1,
        separation: int = 1,
        factorisation: Factorisation | None = None,
        source: SecureNoise,
    ) -> ContinualSum:
        """Return a counter for real data: exact noise from the operating system's entropy.

        Filtered vectors are rounded to a lattice, and the budget pays for it. Without a horizon the
        counter ends after 2^20 rounds. It cannot be copied or saved, or used in another process.
        `source` is the secure noise; the other parameters are those of the class.

        >>> import hedgerow as hr
        >>> counter = hr.ContinualSum.private(3, rounds=10, mu=0.5, source=hr.SecureNoise())
        >>> counter.add([1, 0, 0]).shape
        (3,)
        """
        counter = cls.__new__(cls)
        budget = Budget(epsilon=epsilon, delta=delta, mu=mu)
        factors = _factors(rounds, factorisation)
        change = counter._choose(width, factors, budget, clip, participations, separation)
        limit = factors.rounds if rounds is None else rounds
        limit = LONGEST if limit is None else limit
        encoder = _on_lattice(factors, width, clip, limit, change)
        total = encoder.sensitivity(change, participations, separation)
        counter._begin(encoder, limit, encoder.scale, total, require_secure(source))
        source.additive("gaussian", counter._noise.scale, 0)  # refuses a scale that is out of range
        return counter

    def _choose(
        self,
        width: int,
        factors: Factorisation,
        budget: Budget,
        clip: float,
        participations: int,
        separation: int,
    ) -> float:
        """Keep the parameters; return how far the vector of one round can move."""
        at_least("width", width, 1)
        positive("clip", clip)
        expect(2.0**-20 <= clip <= 2.0**30, "clip", clip, "in [2^-20, 2^30]: use other units")
        at_least("participations", participations, 1)
        at_least("separation", separation, 1)
        self._width, self._factors, self._budget, self._clip = width, factors, budget, float(clip)
        self._participations, self._separation = participations, separation
        return 2 * self._clip

    def _begin(
        self,
        encoder: Filter | LatticeEncoder,
        limit: int | None,
        unit: float,
        sensitivity: float,
        source: NoiseSource,
    ) -> None:
        self._encoder, self._limit, self._unit = encoder, limit, unit
        self._decoder = self._factors.decoder
        scale = gaussian_scale(self._budget, sensitivity)
        self._noise = GaussianNoise("running sum", scale, sensitivity)
        self._source, self._server = source, source.server()
        shape, total = (self._width,), np.zeros(self._width)
        first, last = encoder.start(shape).memory, self._decoder.start(shape).memory
        self._progress = _Progress(0, 0, first, last, total)
        self._people: dict[int | str, tuple[int, int]] = {}  # how often, and the last round
        self._home = Home()
        self._turn = Turn()

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._refuse_copies()
        return super().__reduce_ex__(protocol)

    def _refuse_copies(self) -> None:
        if self._secure:
            raise TypeError(
                "A private counter cannot be copied or saved: "
                "the copy would publish the same round again with other noise."
            )

    def __repr__(self) -> str:
        size = f"width={self._width}, rounds={self._limit}, clip={self._clip:g}"
        source = type(self._source).__name__
        return f"<ContinualSum of {size}, {self._budget.words()}, {source}, round {self.round}>"

    @property
    def _secure(self) -> bool:
        return isinstance(self._source, SecureNoise)

    @property
    def round(self) -> int:
        """How many vectors have been added."""
        return self._progress.round

    @property
    def sum(self) -> Array:
        """The last published sum; zeros before the first."""
        return self._progress.sum.copy()

    @property
    def mean(self) -> Array:
        """The last published sum divided by the number of rounds, which is public."""
        return self._progress.sum / max(1, self.round)

    @property
    def clipped(self) -> int:
        """How many vectors were scaled down, or taken as zeros because they were not finite.

        It is not protected: do not publish it.
        """
        return self._progress.clipped

    @property
    def factorisation(self) -> Factorisation:
        """How the noise is correlated."""
        return self._factors

    @property
    def certificate(self) -> Certificate:
        """Who can learn what from all published sums together."""
        found = sum_certificate(
            noise=self._noise,
            clip=self._clip,
            participations=self._participations,
            separation=self._separation,
            identified=bool(self._people),
            horizon=self._limit,
        )
        return with_exact_noise(found) if self._secure else found

    def errors(self, rounds: int | None = None) -> Errors:
        """Return the largest and the rms standard deviation of each number in the sums.

        `rounds` counts from the first; None means all, or all so far if there is no horizon.
        """
        known = self._factors.rounds or max(1, self.round)
        count = known if rounds is None else rounds
        return self._factors.errors(count).times(self._noise.scale / self._unit)

    def add(self, vector: npt.ArrayLike, *, who: Who | None = None) -> Array:
        """Add a vector and return the private sum of all vectors so far.

        `who` is an id of the person whose vector it is. A person that was added too often or too
        recently is refused, and nothing is published. Give it in every round or never. Messages
        show neither ids nor values.
        """
        given = self._numbers(vector)
        with self._turn.take():
            self._check_turn()
            entry = self._entry(who)
            finite = bool(np.isfinite(given).all())
            short = clip_to_lattice(given if finite else np.zeros(self._width), self._clip)
            with np.errstate(over="ignore"):
                long = not finite or not np.array_equal(short, round_to_lattice(given))
            now = self._progress
            filtered, ahead = self._encoder.step(FilterState(now.round, now.encoder), short)
            released = self._server.release(self._noise, filtered)
            decoded, behind = self._decoder.step(FilterState(now.round, now.decoder), released)
            self._people.update(entry)
            total = decoded.astype(float) / self._unit
            self._progress = _Progress(
                now.round + 1, now.clipped + long, ahead.memory, behind.memory, total
            )
            return total.copy()

    def _numbers(self, vector: npt.ArrayLike) -> Array:
        given = numbers("a vector", vector)
        if given.shape != (self._width,):
            raise InvalidValue(f"Expected a vector of shape ({self._width},), got {given.shape}.")
        return given

    def _check_turn(self) -> None:
        if self._secure:
            self._home.require("counter")
        if self._limit is not None and self.round >= self._limit:
            advice = (
                "Start another counter with another budget."
                if self._factors.rounds is None
                else "For an unknown number of rounds, make the counter with rounds=None."
            )
            raise InvalidValue(
                f"This counter ends after rounds={self._limit}, got one vector more. {advice}"
            )

    def _entry(self, who: Who | None) -> dict[int | str, tuple[int, int]]:
        """Return what will be kept about this person; refuse more than was declared."""
        if self.round and (who is None) == bool(self._people):
            raise InvalidValue("Expected who= in every round or in none: other rounds differ.")
        if who is None:
            return {}
        if isinstance(who, bool) or not isinstance(who, int | str | np.integer):
            raise InvalidValue("Expected who= to be a whole number or a text.")
        person = normalize("NFC", who) if isinstance(who, str) else int(who)
        count, last = self._people.get(person, (0, -self._separation))
        if count >= self._participations:
            raise InvalidValue(
                f"This person was already added {self._participations} times, the most that was "
                "declared (participations=). Nothing was published."
            )
        if self.round - last < self._separation:
            raise InvalidValue(
                f"This person was added less than {self._separation} rounds ago, the least "
                "distance that was declared (separation=). Nothing was published."
            )
        return {person: (count + 1, self.round)}

    def to_bytes(self) -> bytes:
        """The whole state of a seeded counter, with a checksum."""
        self._refuse_copies()
        assert isinstance(self._source, SeededNoise)
        with self._turn.take():
            budget = self._budget
            head = {
                "width": self._width,
                "rounds": self._limit,
                "mu": budget.mu,
                "epsilon": budget.epsilon,
                "delta": budget.delta,
                "clip": self._clip,
                "participations": self._participations,
                "separation": self._separation,
                "factorisation": fingerprint(self._factors, "factorisation"),
                "noise": self._source.snapshot(),
                "people": [[who, *entry] for who, entry in self._people.items()],
            }
            text = json.dumps(head, separators=(",", ":")).encode()
            body = _MAGIC + len(text).to_bytes(_LENGTH, "little") + text + encode(self._progress)
        return body + blake2b(body, digest_size=_DIGEST).digest()

    @classmethod
    def from_bytes(cls, state: bytes, factorisation: Factorisation | None = None) -> ContinualSum:
        """Continue a seeded counter; raises `DamagedState` if the state was altered.

        A counter that was made with a factorisation needs the same one here.

        >>> import hedgerow as hr
        >>> counter = hr.ContinualSum(width=1, rounds=10, mu=1.0)
        >>> again = hr.ContinualSum.from_bytes(counter.to_bytes())
        >>> bool(again.add([1.0]) == counter.add([1.0]))
        True
        """
        body, digest = state[:-_DIGEST], state[-_DIGEST:]
        if not body.startswith(_MAGIC) or blake2b(body, digest_size=_DIGEST).digest() != digest:
            raise DamagedState(
                "These bytes are not the state of a running sum, or they were truncated or altered."
            )
        start = len(_MAGIC) + _LENGTH
        end = start + int.from_bytes(body[len(_MAGIC) : start], "little")
        head = json.loads(body[start:end])
        noise, people, made = (head.pop(key) for key in ("noise", "people", "factorisation"))
        counter = cls(**head, factorisation=factorisation)
        if fingerprint(counter._factors, "factorisation") != made:
            raise InvalidValue(
                "Expected factorisation= to be the one that the state was made with."
            )
        counter._source = SeededNoise.restore(noise)
        counter._server = counter._source.server()
        counter._people = {who: (count, last) for who, count, last in people}
        counter._progress = decode(_Progress, body[end:])
        return counter


def _factors(rounds: int | None, given: Factorisation | None) -> Factorisation:
    """Return the factorisation that is meant; if it has a horizon, it must be the declared one."""
    if rounds is not None:
        at_least("rounds", rounds, 1)
    if given is None:
        return Epochs() if rounds is None else BufferedToeplitz.optimised(rounds, BUFFERS)
    if None not in (rounds, given.rounds) and rounds != given.rounds:
        raise InvalidValue(f"Expected rounds={rounds!r} to be {given.rounds}, the horizon given.")
    return given


def _on_lattice(
    factors: Factorisation, width: int, clip: float, rounds: int, change: float
) -> LatticeEncoder:
    """Return an encoder that is fine enough for rounding to cost a thousandth, where possible.

    More digits only help while steps, not floating-point errors, are most of the cost.
    """
    best = LatticeEncoder(factors, width, clip, rounds=rounds)
    while best.digits < MOST_DIGITS:
        cost = best.rounding() / best.scale
        if cost <= 1e-3 * change * factors.sensitivity():
            break
        try:
            finer = replace(best, digits=best.digits + 1)
        except InvalidValue:  # values would need more than 53 bits
            break
        if finer.rounding() / finer.scale > 0.75 * cost:
            break
        best = finer
    return best
