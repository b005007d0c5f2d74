"""Closing rules: when an exchange is complete, and what happens to a late upload.

The rule is part of the manifest and knows no clock. An operator, or a timer outside the engine, may
call `StudyServer.close_exchange`, which only some rules allow. What each rule needs and costs is
proven in `proofs/closing.md`.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import get_args

from hedgerow.core.errors import Unsupported
from hedgerow.core.limits import Closing


@dataclass(frozen=True)
class ClosingRule:
    """What the server does about clients that are silent.

    Parameters
    ----------
    name
        "wait", "fold" or "drop".

    Examples
    --------
    >>> [ClosingRule(name).enters(3, opened=5) for name in ("fold", "drop")]
    [5, None]
    """

    name: Closing

    @property
    def words(self) -> str:
        """What happens if a client is silent.

        >>> ClosingRule("wait").words
        'the others wait for it'
        """
        return WORDS[self.name]

    @property
    def may_close(self) -> bool:
        """Whether an exchange may be closed while uploads are missing."""
        return self.name != "wait"

    def complete(
        self, uploaded: AbstractSet[int], clients: int, closing: bool, least: int = 1
    ) -> bool:
        """Whether the open exchange is complete; `closing`: somebody asked to close it now.

        An exchange with fewer uploads than `least` is never complete.
        """
        found = len(uploaded)
        return found >= least and (found == clients or (self.may_close and closing))

    def enters(self, exchange: int, opened: int) -> int | None:
        """Return the exchange that the upload for one exchange enters while another is open.

        It is one exchange or, for an upload that is never counted, None.
        """
        if exchange == opened:
            return opened
        return opened if self.name == "fold" and exchange < opened else None


WORDS: dict[Closing, str] = {
    "wait": "the others wait for it",
    "fold": "exchanges may close without it, and a late upload enters the open exchange",
    "drop": "exchanges may close without it, and a late upload is never counted",
}
"""What each rule does about a silent client."""
RULES: dict[str, ClosingRule] = {name: ClosingRule(name) for name in get_args(Closing)}
"""The closing rules by name."""


def rule_of(name: str) -> ClosingRule:
    """Return a closing rule by name.

    >>> rule_of("wait").may_close
    False
    """
    if name not in RULES:
        raise Unsupported(f"There is no closing rule {name!r}; known: {', '.join(sorted(RULES))}.")
    return RULES[name]
