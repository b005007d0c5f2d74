"""Masked uploads: which numbers are hidden, how they are hidden, and how a sum is opened.

With `trust="distributed"` a client hides the numbers of its upload under masks modulo 2^64, one for
each helper, each from a fresh seed that is sealed to the helper. The server gets the numbers under
the masks and, from each helper, the sum of its masks over all clients of the exchange. What the
messages show is proven in `proofs/secure_sums.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hedgerow.core.certificate import Channel
from hedgerow.core.errors import Unsupported
from hedgerow.core.lattice import from_units, to_units
from hedgerow.core.protocol import Algorithm
from hedgerow.deployment import veil
from hedgerow.deployment.veil import Words

MOST_CLIENTS = 1000
"""Honest numbers are below 2^33, so with their noise the sum of these many stays below 2^43."""


@dataclass(frozen=True)
class Masked:
    """The numbers of an upload that are hidden, and those that are public and always the same.

    Parameters
    ----------
    field
        The field of the upload that is hidden; only its sum is seen.
    width
        How many numbers it has.
    known
        All other fields, with the number that each honest upload has.

    Examples
    --------
    >>> import hedgerow as hr
    >>> algorithm = hr.WalkLeader(trust="distributed").build(hr.Setting(3, 4, 9))
    >>> masked = Masked.of(algorithm)
    >>> masked.field, masked.width, sorted(masked.known)
    ('values', 4, ['variance'])
    """

    field: str
    width: int
    known: Mapping[str, float]

    @classmethod
    def of(cls, algorithm: Algorithm) -> Masked:
        """What is hidden in the uploads of an algorithm whose server may see sums only."""
        uploads, channels = algorithm.uploads, algorithm.certificate.channels
        name, ranges = uploads.kind.__name__, uploads.ranges
        hidden = [
            f.name for f in fields(uploads.kind) if channels[f"{name}.{f.name}"] is Channel.SUM
        ]
        known = {f.name: ranges[f.name] for f in fields(uploads.kind) if f.name not in hidden}
        one = len(hidden) == 1 and uploads.combine == "sum"
        if not one or any(found.low != found.high for found in known.values()):
            raise Unsupported(f"{algorithm.name} cannot be masked: its server sees more than sums.")
        width = ranges[hidden[0]].width
        return cls(hidden[0], width or 1, {key: found.high for key, found in known.items()})

    def words(self, upload: Any) -> Words:
        """The numbers of an upload in lattice steps, modulo 2^64."""
        return to_units(getattr(upload, self.field)).view(np.uint64)

    def total(self, algorithm: Algorithm, opened: Words, clients: int, rounds: int) -> Any:
        """The sum of the uploads of these many clients, moved into the range of honest sums.

        Nobody can see whether a client has sent false numbers, so the sum may be any number.
        """
        found, kind = from_units(opened.view(np.int64)), algorithm.uploads.kind
        known = {name: np.asarray(value * clients) for name, value in self.known.items()}
        limits = algorithm.uploads.ranges[self.field]
        wide = replace(limits, low=limits.low * clients, high=limits.high * clients)
        return kind(**{self.field: wide.within(self.field, found, rounds)}, **known)


def hide(
    words: Words, exchange: int, server: veil.Session, helpers: Sequence[veil.Session]
) -> tuple[bytes, ...]:
    """A sealed seed for each helper, then the masked numbers, sealed to the server.

    The seeds live in this call only.
    """
    hidden, sealed = words.copy(), []
    for helper in helpers:
        seed = veil.fresh_seed()
        hidden += veil.mask(seed, len(words))
        sealed.append(helper.seal(exchange, seed))
    return (*sealed, server.seal(exchange, hidden.tobytes()))


def mask_in(
    seal: bytes, sessions: veil.Sessions, width: int, exchange: int, client: int
) -> Words | None:
    """The mask whose seed is in a seal; None: the client has sealed something else."""
    try:
        seed = sessions.open(exchange, client, seal)
    except veil.NotOpened:
        return None
    return veil.mask(seed, width) if len(seed) == veil.FRESH else None


def opened(masked: Sequence[Words], masks: Sequence[Words]) -> Words:
    """The sum of the numbers under the masks.

    >>> one, two = (np.array([n], np.uint64) for n in (2**64 - 3, 5))
    >>> opened([one, two], [two]).view(np.int64).tolist()
    [-3]
    """
    return np.asarray(sum(masked) - sum(masks, np.zeros_like(masked[0])))


def read_words(data: bytes) -> Words:
    """Numbers modulo 2^64 from bytes; `Masked.width` of them are expected by the caller."""
    return np.frombuffer(data, "<u8") if len(data) % 8 == 0 else np.empty(0, np.uint64)
