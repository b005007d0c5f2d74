"""Which process this is: a forked copy of a private object must not answer again."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hedgerow.core.errors import InvalidValue

# one entry for each fork by Python: the system may reuse a process number, and forks by C code are
# not counted here
_FORKS: list[None] = []


def _forked() -> None:
    _FORKS.append(None)


os.register_at_fork(after_in_child=_forked)


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
