"""Fixtures that all tests share."""

from support.fixtures import hedgerow, own_cache, own_plugins

__all__ = ["hedgerow", "own_cache", "own_plugins"]
