"""The process that holds secrets: it is not copied by a fork, and leaves no core dump."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from hedgerow.core.errors import InvalidValue

# one entry for each fork by Python: the system may reuse a process number, and forks by C code are
# not counted here
_FORKS: list[None] = []


def _forked() -> None:
    _FORKS.append(None)


os.register_at_fork(after_in_child=_forked)


_PR_SET_DUMPABLE = 4  # of <sys/prctl.h>


@cache
def leave_no_core_dump() -> None:
    """Let this process, and those that it starts, write no memory to disk when they crash.

    Called before a process reads a private key or makes one for noise. On Linux the memory also
    cannot be read through a debugger or /proc, except by root: a program that takes core dumps
    through a pipe ignores the limit.
    """
    with suppress(ImportError, OSError, ValueError):  # not on this system
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def process_identity() -> tuple[int, int]:
    """Return numbers that change in a forked process, whether Python or C code forks it."""
    return os.getpid(), len(_FORKS)


@dataclass(frozen=True)
class Home:
    """The process that made a private object. A fork of it is refused.

    Each copy would answer the same round with other noise, and the mean of many answers is the
    secret.
    """

    identity: tuple[int, int] = field(default_factory=process_identity)

    def require(self, what: str) -> None:
        """Raise in any other process; `what` names the object."""
        if process_identity() != self.identity:
            raise InvalidValue(
                f"This private {what} was made in another process. Copies in two processes would "
                "answer the same round with other noise: make it after the fork, in the one "
                "process that uses it."
            )
