"""Fixtures that all tests share."""

import gc

from support.fixtures import hedgerow, in_this_process, own_cache, own_logs, own_plugins

__all__ = ["hedgerow", "in_this_process", "own_cache", "own_logs", "own_plugins"]

gc.disable()  # nothing becomes garbage while tests are collected


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: it is not searched for garbage."""
    gc.freeze()
    gc.enable()
