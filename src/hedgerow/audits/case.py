"""An audit case: two neighbouring streams, an algorithm, a claimed curve, a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.validate import parameters

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
