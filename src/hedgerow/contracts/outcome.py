"""How a contract ends: it holds, it does not apply (with a reason, never counted as passed), or it is broken."""

from __future__ import annotations


class BrokenContract(AssertionError):
    """The algorithm does not keep the contract."""


class NotApplicable(Exception):
    """The contract says nothing about this algorithm; the text says why."""


def demand(holds: bool, text: str) -> None:
    if not holds:
        raise BrokenContract(text)
