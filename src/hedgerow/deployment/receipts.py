"""Receipts: which uploads an answer counts, in 32 bytes for all clients together.

The server signs the root of a hash tree whose leaf number i is what it counts of client i. A client
gets the few hashes beside the path from its leaf to the root, and so checks its own leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

SIZE = 32
"""The bytes of a root, and of each hash of a path."""
NOT_COUNTED = bytes(SIZE)
"""What stands for a client of which nothing is counted."""


class Receipts:
    """The hash tree over what an answer counts.

    Parameters
    ----------
    counted
        For every client the hash of its upload, or `NOT_COUNTED`.

    Examples
    --------
    >>> uploads = [bytes([client + 1]) * 32 for client in range(5)]
    >>> tree = Receipts(uploads)
    >>> path = tree.path(3)
    >>> root_of(path, 3, 5, uploads[3]) == tree.root, len(path) // SIZE
    (True, 3)
    >>> root_of(path, 3, 5, NOT_COUNTED) == tree.root
    False
    """

    def __init__(self, counted: Sequence[bytes]) -> None:
        row = [_leaf(client, found) for client, found in enumerate(counted)]
        self._rows = [row]
        while len(row) > 1:
            pairs = zip(row[::2], row[1::2], strict=False)
            row = [_above(left, right) for left, right in pairs] + row[len(row) & ~1 :]
            self._rows.append(row)

    @property
    def root(self) -> bytes:
        """The hash that covers all leaves."""
        return self._rows[-1][0]

    def path(self, client: int) -> bytes:
        """The hashes beside the path from the leaf of a client to the root."""
        found, at = [], client
        for row in self._rows[:-1]:
            if (at ^ 1) < len(row):  # the last one of an odd number goes up alone
                found.append(row[at ^ 1])
            at >>= 1
        return b"".join(found)


def root_of(path: bytes, client: int, clients: int, counted: bytes) -> bytes | None:
    """The root over `clients` leaves, if this is counted of this client; None: no such path."""
    found, at, size, used = _leaf(client, counted), client, clients, 0
    while size > 1:
        if (at ^ 1) < size:
            beside, used = path[used : used + SIZE], used + SIZE
            found = _above(beside, found) if at & 1 else _above(found, beside)
        at, size = at >> 1, (size + 1) >> 1
    return found if len(path) == used else None


def _leaf(client: int, counted: bytes) -> bytes:
    return sha256(b"\0" + client.to_bytes(4, "little") + counted).digest()


def _above(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()
