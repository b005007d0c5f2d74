"""Errors that a caller can cause: one line that names the value and the rule, or what to do."""

from __future__ import annotations

from hedgerow.core.text import visible


class HedgerowError(Exception):
    """Base class of errors meant for the user; the command line prints them without traceback.

    Examples
    --------
    >>> import hedgerow as hr
    >>> try:
    ...     hr.Bernoulli(gap=2.0)
    ... except hr.HedgerowError as error:
    ...     print(error)
    Expected gap=2.0 in [0, mean=0.5].
    """

    def __str__(self) -> str:
        """The text, safe to print: it may quote a name with controls or half a character."""
        return visible(super().__str__())


class Interrupted(HedgerowError):
    """The user pressed Ctrl-C; the text says what has been saved."""


class InvalidValue(HedgerowError, ValueError):
    """A value breaks a stated rule; also a `ValueError`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Setting(clients=0, experts=3, horizon=10)
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: Expected clients=0 to be a whole number >= 1.
    """


class MissingData(HedgerowError, FileNotFoundError):
    """A data file was not found; the text says where to get it and where to put it.

    Also a `FileNotFoundError`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> try:
    ...     hr.Recorded("no_such_file.csv").setting
    ... except hr.MissingData as error:
    ...     print(error)
    Data file 'no_such_file.csv' not found...
    """


class Unsupported(HedgerowError, NotImplementedError):
    """An algorithm or environment is asked for a feature that it does not declare.

    Also a `NotImplementedError`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> environment = hr.PlayChasing(clients=2, experts=3, horizon=10)
    >>> environment.sums(environment.start(0), 5)
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.Unsupported: PlayChasing cannot draw sums of losses directly.
    """


class NotInstalled(Unsupported):
    """A feature needs a library that is not installed; the message says how to install it."""
