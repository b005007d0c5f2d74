"""Read a loss family from the text that it prints as."""

from __future__ import annotations

import ast
from typing import Any

from hedgerow.core import convex, domain, losses
from hedgerow.core.errors import InvalidValue
from hedgerow.core.losses import Family

FAMILIES = {
    name: value
    for module in (losses, convex, domain)
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__ == module.__name__
}


def family_of(text: str) -> Family:
    """The loss family that prints as `text`; anything else is refused, and nothing is run.

    >>> family_of("Gains(low=0.0, high=2.0)").bounds
    (-2.0, 0.0)
    """
    try:
        found = _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        raise InvalidValue(f"Cannot rebuild the loss family {text!r}: {error}.") from error
    if not isinstance(found, Family):
        raise InvalidValue(f"Expected family={text!r} to be a loss family.")
    return found


def _value(node: ast.expr) -> Any:
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    if not isinstance(node.func, ast.Name) or node.func.id not in FAMILIES or node.args:
        raise ValueError("it is not a family of this package")
    return FAMILIES[node.func.id](**{str(k.arg): _value(k.value) for k in node.keywords})
