"""Private counters over time: add a vector in each round, get a private running sum."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.certificate import Certificate, with_exact_noise
from hedgerow.core.errors import InvalidValue
from hedgerow.core.fingerprint import fingerprint
from hedgerow.core.lattice import Array, clip_to_lattice, round_to_lattice
from hedgerow.core.messages import decode, encode
from hedgerow.core.noise import NoiseSource, SeededNoise
from hedgerow.core.people import People, Who
from hedgerow.core.setting import Setting
from hedgerow.core.turn import Turn
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Event, Person, Unit
from hedgerow.core.validate import at_least, numbers, positive
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import gaussian_scale
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.privacy.odometer import DamagedState
from hedgerow.privacy.secure import SecureNoise
from hedgerow.privacy.secure.process import Home
from hedgerow.privacy.secure.source import require_secure
from hedgerow.running_sums.factorisation import Errors, Factorisation
from hedgerow.running_sums.filters import FilterState
from hedgerow.running_sums.kinds import Kind, factorise
from hedgerow.running_sums.lattice import LatticeEncoder
from hedgerow.running_sums.sum_certificate import sum_certificate

LONGEST = 2**20  # rounds of a counter without a horizon: the charge for rounding needs one
_MAGIC, _DIGEST, _LENGTH = b"hedgerow running sum 4\n", 32, 8


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
    the number of rounds. Memory and time per round do not grow, except for the ids.

    Filtered vectors are rounded to a lattice, and the budget pays for it.

    The noise is seeded and serves for simulation. For real data use `ContinualSum.private`.

    Parameters
    ----------
    width
        How many numbers a vector has.
    rounds
        The most vectors that are added. None: up to 2^20, with a somewhat larger error.
    mu, epsilon, delta
        The budget of all published sums together: `mu` of Gaussian DP, or epsilon and delta.
    clip
        The largest norm of a vector, in [2^-20, 2^30]. Longer ones are scaled down. Default: 1.
    unit
        Whose secret it is. None (default): one vector. `hr.Person(records=24, apart=7)`, also
        written "person:24/7": all vectors of one person, at most 24 and 7 or more rounds apart.
    ids
        Whether `add` takes the id of the person whose vector it is, and refuses a person that was
        added too often or too recently. Default: False; then the declaration is an assumption of
        the certificate.
    factorisation
        How noise is correlated: a `Factorisation`, or the name of one (`factorise`). Default:
        "blt", and "epochs" without a horizon.
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
        unit: Unit | str | None = None,
        ids: bool = False,
        factorisation: Kind | Factorisation | None = None,
        seed: int = 0,
    ) -> None:
        at_least("width", width, 1)
        positive("clip", clip)
        if not 2.0**-20 <= clip <= 2.0**30:
            raise InvalidValue(f"Expected clip={clip!r} in [2^-20, 2^30]: use other units.")
        if not isinstance(ids, bool):
            raise InvalidValue(f"Expected ids={ids!r} to be True or False.")
        self._width, self._rounds, self._clip, self._ids = width, rounds, float(clip), ids
        self._budget = Budget(epsilon=epsilon, delta=delta, mu=mu)
        self._unit = Event() if unit is None else parse_unit(unit)
        whole = Setting(1, width, rounds or LONGEST)
        records, _, apart = self._unit.pattern(whole)
        if ids and not isinstance(self._unit, Event | Person):
            raise InvalidValue(
                f"Expected ids={ids!r} to be False with unit={self._unit.text()!r}: only people "
                "are counted."
            )
        self._people = People(records, apart)
        kind: Kind = "epochs" if rounds is None else "blt"
        chosen = kind if factorisation is None else factorisation
        self._kind = None if isinstance(chosen, Factorisation) else chosen
        self._factors = factorise(chosen, rounds)
        self._limit = rounds or self._factors.rounds or LONGEST
        change = 2 * self._clip
        self._encoder = LatticeEncoder.fine_enough(
            self._factors, width, self._clip, change, self._limit
        )
        self._decoder = self._factors.decoder
        sensitivity = self._encoder.sensitivity(change, records, apart=apart)
        scale = gaussian_scale(self._budget, sensitivity)
        self._noise = GaussianNoise("running sum", scale, sensitivity)
        first, last = self._encoder.start((width,)).memory, self._decoder.start((width,)).memory
        self._progress = _Progress(0, 0, first, last, np.zeros(width))
        self._halfway = False  # whether a call was interrupted
        self._home, self._turn = Home(), Turn()
        self._draw_from(SeededNoise(seed))

    @classmethod
    def private(
        cls, width: int, rounds: int | None = None, *, source: SecureNoise, **choices: Any
    ) -> ContinualSum:
        """Return a counter for real data: exact noise from the operating system's entropy.

        It cannot be copied or saved, or used in another process. `source` is the secure noise; the
        other parameters are those of the class.

        >>> import hedgerow as hr
        >>> counter = hr.ContinualSum.private(3, rounds=10, mu=0.5, source=hr.SecureNoise())
        >>> counter.add([1, 0, 0]).shape
        (3,)
        """
        counter = cls(width, rounds, **choices)
        counter._draw_from(require_secure(source))
        source.additive("gaussian", counter._noise.scale, 0)  # refuses a scale that is out of range
        return counter

    def _draw_from(self, source: NoiseSource) -> None:
        self._source, self._server = source, source.server()

    def __copy__(self) -> ContinualSum:
        return deepcopy(self)  # two counters must not share a memory that they write over

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._refuse_copies()
        return super().__reduce_ex__(protocol)

    def _refuse_copies(self) -> None:
        if self._secure or self._halfway:
            raise TypeError(
                "A private counter, or one whose last call was interrupted, cannot be copied or "
                "saved: the copy would publish the same round again with other noise."
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
            unit=self._unit,
            identified=self._ids,
            horizon=self._limit,
        )
        return with_exact_noise(found) if self._secure else found

    def errors(self, rounds: int | None = None) -> Errors:
        """Return the largest and the rms standard deviation of each number in the sums.

        `rounds` counts from the first; None means all, or all so far if there is no horizon.
        """
        known = self._rounds or self._factors.rounds or max(1, self.round)
        count = known if rounds is None else rounds
        return self._factors.errors(count).times(self._noise.scale / self._encoder.scale)

    def add(self, vector: npt.ArrayLike, *, who: Who | None = None) -> Array:
        """Add a vector and return the private sum of all vectors so far.

        `who` is an id of the person whose vector it is: in every round if the counter was made with
        `ids=True`, otherwise never. A person that was added too often or too recently is refused,
        and nothing is published. Messages show neither ids nor values.
        """
        given = self._numbers(vector)
        with self._turn.take():
            self._check_turn()
            person = self._person(who)
            finite = bool(np.isfinite(given).all())
            short = clip_to_lattice(given if finite else np.zeros(self._width), self._clip)
            with np.errstate(over="ignore"):
                long = not finite or not np.array_equal(short, round_to_lattice(given))
            now, self._halfway = self._progress, True  # memory is written over from here on
            before, after = (FilterState(now.round, m) for m in (now.encoder, now.decoder))
            filtered, before = self._encoder.step(before, short, in_place=True)
            released = self._server.release(self._noise, filtered)
            decoded, after = self._decoder.step(after, released, in_place=True)
            if person is not None:
                self._people.add(person, now.round)
            total = decoded.astype(float) / self._encoder.scale
            self._progress = _Progress(
                now.round + 1, now.clipped + long, before.memory, after.memory, total
            )
            self._halfway = False
            return total.copy()

    def _numbers(self, vector: npt.ArrayLike) -> Array:
        given = numbers("a vector", vector)
        if given.shape != (self._width,):
            raise InvalidValue(f"Expected a vector of shape ({self._width},), got {given.shape}.")
        return given

    def _check_turn(self) -> None:
        if self._secure:
            self._home.require("counter")
        if self._halfway:
            raise InvalidValue(
                "An earlier call was interrupted, so this counter is between two rounds. "
                "Start another counter with another budget."
            )
        if self.round >= self._limit:
            advice = (
                "Start another counter with another budget."
                if self._factors.rounds is None
                else "For an unknown number of rounds, make the counter with rounds=None."
            )
            raise InvalidValue(
                f"This counter ends after rounds={self._limit}, got one vector more. {advice}"
            )

    def _person(self, who: Who | None) -> str | None:
        """Return the id under which a person is kept; refuse more than was declared."""
        if who is None and self._ids:
            raise InvalidValue("This counter was made with ids=True: give who= in every round.")
        if who is not None and not self._ids:
            raise InvalidValue("This counter was made with ids=False: give who= in no round.")
        return None if who is None else self._people.check(who, self.round)

    def to_bytes(self) -> bytes:
        """The whole state of a seeded counter, with a checksum."""
        self._refuse_copies()
        assert isinstance(self._source, SeededNoise)
        with self._turn.take():
            budget, people = self._budget, self._people
            head = {
                "width": self._width,
                "rounds": self._rounds,
                "mu": budget.mu,
                "epsilon": budget.epsilon,
                "delta": budget.delta,
                "clip": self._clip,
                "unit": self._unit.text(),
                "ids": self._ids,
                "factorisation": self._kind,
                "factors": fingerprint(self._factors, "factorisation"),
                "noise": self._source.snapshot(),
                "people": [[who, *entry] for who, entry in people.seen.items()],
            }
            text = json.dumps(head, separators=(",", ":")).encode()
            body = _MAGIC + len(text).to_bytes(_LENGTH, "little") + text + encode(self._progress)
        return body + blake2b(body, digest_size=_DIGEST).digest()

    @classmethod
    def from_bytes(cls, state: bytes, factorisation: Factorisation | None = None) -> ContinualSum:
        """Continue a seeded counter; raises `DamagedState` if the state was altered.

        A counter that was made with a `Factorisation` needs the same one here.

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
        noise, people, made = (head.pop(key) for key in ("noise", "people", "factors"))
        if factorisation is not None:
            head["factorisation"] = factorisation
        counter = cls(**head)
        if fingerprint(counter._factors, "factorisation") != made:
            raise InvalidValue(
                "Expected factorisation= to be the one that the state was made with."
            )
        counter._draw_from(SeededNoise.restore(noise))
        counter._people.seen.update({who: (count, last) for who, count, last in people})
        counter._progress = decode(_Progress, body[end:])
        return counter
