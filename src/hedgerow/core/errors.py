"""What can go wrong through the caller's doing: always one line that names the value and the rule."""

from __future__ import annotations


class HedgerowError(Exception):
    """Base of every error whose text is meant for the user; the command line prints it without a traceback."""


class Interrupted(HedgerowError):
    """Ctrl-C; the text says what is safe."""


class InvalidValue(HedgerowError, ValueError):
    """A value breaks a stated rule."""


class MissingData(HedgerowError, FileNotFoundError):
    """A data file is not where it was looked for; the text says where to get it and where to put it."""


class Unsupported(HedgerowError, NotImplementedError):
    """An algorithm is asked for a feature it does not declare."""
