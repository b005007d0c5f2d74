"""Fixtures that all tests share."""

from support.fixtures import hedgerow, in_this_process, own_cache, own_logs, own_plugins

__all__ = ["hedgerow", "in_this_process", "own_cache", "own_logs", "own_plugins"]
