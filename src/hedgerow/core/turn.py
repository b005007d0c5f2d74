"""One call at a time on an object that releases private values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from hedgerow.core.errors import InvalidValue


class Turn:
    """Lets one call finish before the next begins.

    Threads wait for each other. A call from inside a running call, as a signal handler makes it, is
    refused: it would start from the same state and release the same round twice.
    """

    def __init__(self) -> None:
        self._lock, self._taken = RLock(), False

    def __reduce__(self) -> Any:
        return Turn, ()  # a copy has its own turns

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for other threads; raise if this thread is already inside."""
        with self._lock:
            if self._taken:
                raise InvalidValue(
                    "This call came while another call on the same object was running in this "
                    "thread. Call it after the other has returned, not from a signal handler."
                )
            try:
                self._taken = True
                yield
            finally:
                self._taken = False
