"""Read a loss family from the text that it prints as."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from hedgerow.core import batch, combination, convex, domain, losses
from hedgerow.core.errors import InvalidValue
from hedgerow.core.losses import Family

FAMILIES = {
    name: value
    for module in (losses, convex, combination, batch, domain)
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__ == module.__name__
}


def family_of(text: str, stand_in: Callable[..., Any] | None = None) -> Family:
    """The loss family that prints as `text`; anything else is refused, and nothing is run.

    A model prints what its certificate depends on, but not its loss. So it is read only where
    `stand_in` makes one that can be certified and not trained.

    >>> family_of("Gains(low=0.0, high=2.0)").bounds
    (-2.0, 0.0)
    """
    try:
        found = _value(ast.parse(text, mode="eval").body, stand_in)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise InvalidValue(f"Cannot rebuild the loss family {text!r}: {error}.") from error
    if not isinstance(found, Family):
        raise InvalidValue(f"Expected family={text!r} to be a loss family.")
    return found


def _value(node: ast.expr, stand_in: Callable[..., Any] | None) -> Any:
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    given = {str(k.arg): _value(k.value, stand_in) for k in node.keywords}
    match node.args:
        case [ast.Name(id=loss)] if stand_in is not None and name == "Model":
            return stand_in(loss, **given)
        case [] if name in FAMILIES:
            return FAMILIES[name](**given)
    raise ValueError("it is not a family of this package")
