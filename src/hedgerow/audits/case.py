"""What an audit looks at: two neighbouring streams, an algorithm, the curve it claims, and what we expect to find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm
from hedgerow.core.validate import expect

Verdict = Literal["holds", "violated", "inconclusive"]
Method = Literal["exact ratio", "glass box", "black box"]
WHOLE = "whole certificate"


@dataclass(frozen=True, eq=False)
class AuditCase:
    """ "exact ratio" compares the likelihoods of `transcripts` made by hand; the others run the real code `runs` times in each world.

    "glass box" uses the exact likelihoods of what came out, "black box" only how often it did.

    `claim` names what `certified` is the curve of: the whole certificate, or a part of it that the streams single out.
    `parameters` are those of the game that its user did not ask for (see `changes`).
    """

    name: str
    claim: str
    algorithm: Algorithm
    certified: PrivacyCurve
    first: Array
    second: Array
    transcripts: tuple[tuple[Any, ...], ...] = ()
    method: Method = "exact ratio"
    runs: int = 0
    delta: float = 0.0
    observer: Observer = Observer.PEER
    expected: Verdict = "holds"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole = self.algorithm.certificate.guarantee(self.observer).curve
        if self.claim == WHOLE and self.certified != whole:
            rule = f"to name a part: the {self.observer.value} is certified {whole.words()}, not {self.certified.words()}"
            expect(False, "claim", self.claim, rule)


def changes(asked: Any, played: Any) -> dict[str, Any]:
    """The parameters in which the spec of a game differs from the one its user asked for."""
    return {
        f.name: getattr(played, f.name)
        for f in fields(asked)
        if getattr(played, f.name) != getattr(asked, f.name)
    }
