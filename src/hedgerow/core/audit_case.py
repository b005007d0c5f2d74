"""What an audit looks at: two neighbouring streams, an algorithm, the curve it claims, and what we expect to find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hedgerow.core.certificate import Observer, PrivacyCurve
from hedgerow.core.lattice import Array
from hedgerow.core.protocol import Algorithm

Verdict = Literal["holds", "violated", "inconclusive"]
Method = Literal["exact ratio", "glass box", "black box"]


@dataclass(frozen=True, eq=False)
class AuditCase:
    """ "exact ratio" compares the likelihoods of `transcripts` made by hand; the others run the real code `runs` times in each world.

    "glass box" uses the exact likelihoods of what came out, "black box" only how often it did.
    """

    name: str
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
