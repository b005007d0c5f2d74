"""What an audit looks at: two neighbouring streams, an algorithm, the curve it claims, and what we expect to find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm

Verdict = Literal["holds", "violated", "inconclusive"]


@dataclass(frozen=True, eq=False)
class AuditCase:
    """`transcripts` are constructed by hand for their exact ratio; without them transcripts are sampled from the real code."""

    name: str
    algorithm: Algorithm
    certified: PrivacyCurve
    first: Array
    second: Array
    transcripts: tuple[tuple[Any, ...], ...] = ()
    delta: float = 0.0
    observer: Observer = Observer.PEER
    expected: Verdict = "holds"
