"""An audit case: two neighbouring streams, an algorithm, a claimed curve, a verdict."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.environment import Environment
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.validate import expect

Verdict = Literal["holds", "violated", "inconclusive"]
Method = Literal["exact ratio", "glass box", "black box", "replayed releases"]
Data = Array | Environment  # an array holds the losses of a `RecordedArray`
WHOLE = "whole certificate"


@dataclass(frozen=True, eq=False)
class AuditCase:
    """One audit of one algorithm on two neighbouring streams.

    Parameters
    ----------
    name
        What the case looks at, as shown in tables.
    claim
        What `certified` is the curve of: the whole certificate, or a part of it that the streams
        single out.
    algorithm
        The audited algorithm, possibly with a planted bug.
    certified
        The curve that the finding is compared with.
    first, second
        The data of the two worlds: losses (rounds, clients, experts), or any two environments.
    transcripts
        The constructed transcripts of an "exact ratio" case.
    method
        "exact ratio" compares the likelihoods of `transcripts`. The others run the real code in
        each world: "glass box" uses the exact likelihoods of the broadcasts, "black box" only their
        frequencies, "replayed releases" the exact likelihoods of everything that was released
        (`proofs/replay.md`). Only the last one needs no likelihood and sees what clients send.
    reading
        What a "black box" attacker notes of the broadcasts of a run. None: all of them, as they
        are; then they must be discrete.
    runs
        The number of runs in each world; 0 for "exact ratio".
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
    reading: Callable[[list[Any]], Hashable] | None = None
    runs: int = 0
    delta: float = 0.0
    observer: Observer = Observer.PEER
    expected: Verdict = "holds"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole = self.algorithm.certificate.guarantee(self.observer).curve
        if self.claim == WHOLE and self.certified != whole:
            rule = (
                f"to name a part: the {self.observer.value} is certified {whole.words()},"
                f" not {self.certified.words()}"
            )
            expect(False, "claim", self.claim, rule)


def changes(requested: Any, played: Any) -> dict[str, Any]:
    """The parameters of the played spec that differ from the requested one."""
    return {
        f.name: getattr(played, f.name)
        for f in fields(requested)
        if getattr(played, f.name) != getattr(requested, f.name)
    }
