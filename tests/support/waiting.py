"""Waiting for a condition: as long as it takes on a busy machine, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 120.0
"""Seconds after which a test that waits has failed; what is waited for takes a few at most."""


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
    """Ask again and again until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} has not come within {seconds:g} s"
        time.sleep(0.005)
