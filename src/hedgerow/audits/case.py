"""An audit case, two neighbouring streams and a claimed curve, and what an attack on it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

import numpy as np

from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.validate import at_least, between, parameters
from hedgerow.privacy.search import closest

Verdict = Literal["holds", "violated", "inconclusive"]
Method = Literal["exact ratio", "exact releases"]
Data = Array | Environment  # an array holds the losses of a `RecordedArray`
WHOLE = "whole certificate"
RELEASES = "all releases"


@dataclass(frozen=True, eq=False)
class AuditCase:
    """One audit of one algorithm on two neighbouring streams.

    Parameters
    ----------
    name
        What the case looks at, as shown in tables.
    claim
        What `certified` is the curve of: the whole certificate; all releases, where the proof
        promises as much to an observer that sees them, and this observer sees less; or a part
        that the streams single out.
    algorithm
        The audited algorithm, possibly with a planted bug.
    certified
        The curve that the finding is compared with.
    first, second
        The data of the two worlds: losses (rounds, clients, experts), or any two environments.
    transcripts
        The constructed transcripts of an "exact ratio" case.
    method
        "exact ratio" compares the likelihoods of `transcripts`. "exact releases" replays real runs
        and computes what all that they release shows (`proofs/replay.md`). It needs no likelihood
        and sees what clients send. Neither depends on sampling.
    runs
        With "exact ratio": the real runs on `first` whose broadcasts must follow the likelihood.
    delta
        The delta at which the certificate and the finding are compared.
    observer
        The observer whose guarantee is audited.
    expected
        The verdict that passes: "violated" for a planted bug.
    parameters
        The parameters of the game that differ from the requested ones (see `changes`).
    """

    name: str
    claim: str
    algorithm: Algorithm
    certified: PrivacyCurve
    first: Data
    second: Data
    transcripts: tuple[tuple[Any, ...], ...] = ()
    method: Method = "exact ratio"
    runs: int = 0
    delta: float = 0.0
    observer: Observer = Observer.PEER
    expected: Verdict = "holds"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        certificate = self.algorithm.certificate
        whole = certificate.guarantee(self.observer).curve
        if self.claim in (WHOLE, RELEASES) and self.certified != whole:
            raise InvalidValue(
                f"Expected claim={self.claim!r} to name a part: the {self.observer.value} is "
                f"certified {whole.words()}, not {self.certified.words()}."
            )
        if self.claim == RELEASES and certificate.composition == "joint":
            raise InvalidValue(
                f"Expected claim={self.claim!r} to name something else: the proof of "
                f"{self.algorithm.name} adds up no releases."
            )

    def null(self) -> AuditCase:
        """The same stream in both worlds: nothing may be found."""
        return replace(self, name="null: the same stream twice", second=self.first)

    def caught(self, name: str, bug: Algorithm, **more: Any) -> AuditCase:
        """The case with a planted bug, which must be found."""
        return replace(self, name=name, algorithm=bug, expected="violated", **more)


def changes(requested: Any, played: Any) -> dict[str, Any]:
    """The parameters of the played spec that differ from the requested one."""
    before, after = _flat(requested), _flat(played)
    return {name: after[name] for name in after if after[name] != before.get(name)}


def _flat(spec: Any) -> dict[str, Any]:
    """The parameters of a spec, with those of its plan among them."""
    found = parameters(spec)
    plan = found.pop("plan", None)
    return found if plan is None else found | parameters(plan)


@dataclass(frozen=True)
class Finding:
    """The result of an audit method.

    Parameters
    ----------
    epsilon
        What is shown at `delta`: a lower bound on the loss, without sampling error. None: every
        transcript is impossible in both worlds.
    delta
        The delta at which epsilon is shown.
    seen
        Whether the observer sees what was judged. If not, epsilon is about an observer that sees
        more.
    wrong
        How real runs differ from the stated laws, on which epsilon rests; None if they do not.
    """

    epsilon: float | None
    delta: float
    seen: bool = True
    wrong: str | None = None


def exact_epsilon(pairs: Sequence[tuple[float, float]], delta: float = 0.0) -> float | None:
    """Return the largest epsilon that these transcripts show at a delta.

    `pairs` are the exact log-likelihoods of different transcripts in the two worlds. With delta = 0
    the result is the largest |ln P - ln Q|. With delta > 0 it is the largest epsilon for which
    sum (P - e^epsilon Q)_+ reaches delta, in one of the directions; 0 if none does. Transcripts
    that are left out only make it smaller.
    """
    at_least("transcripts", len(pairs), 1)
    between("delta", delta, 0.0, 1.0)
    logs = np.array(pairs, float)
    if np.isnan(logs).any():
        raise InvalidValue("Expected log-likelihoods to be numbers, got nan.")
    possible = logs[(logs > -inf).any(axis=1)]
    if not len(possible):
        return None
    if delta == 0:
        return float(np.abs(possible[:, 0] - possible[:, 1]).max())
    return max(_shown(possible, delta), _shown(possible[:, ::-1], delta))


def _shown(logs: Array, delta: float) -> float:
    def reached(epsilon: float) -> bool:
        apart = np.minimum(epsilon + logs[:, 1] - logs[:, 0], 0.0)  # Q may be 0: -inf
        return float((np.exp(logs[:, 0]) * -np.expm1(apart)).sum()) >= delta

    logs = logs[logs[:, 0] > -inf]
    if not len(logs) or not reached(0.0):
        return 0.0
    largest = float((logs[:, 0] - logs[:, 1]).max())
    high = 1e3 if largest == inf else largest
    return inf if reached(1e3) else closest(reached, 0.0, high, 1e-12)
