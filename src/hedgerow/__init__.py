"""Hedgerow: private federated prediction from experts, proven, computed tightly and stated.

Names are imported when they are first used; `__init__.pyi` lists them.
"""

from typing import Any

import lazy_loader

_get, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except AttributeError:
        from hedgerow.core.validate import nearest

        hint = nearest(name, __all__)
        raise AttributeError(f"hedgerow has no {name!r}; {hint}", name=name) from None
