"""Colours by role: private, printed constants, not private; a name has one colour in all panels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from hedgerow.core.certificate import Certificate

Role = Literal["private", "printed constants", "not private"]
PALETTES: dict[Role, tuple[str, ...]] = {
    "private": (
        *("#0b6e4f", "#30638e", "#43aa8b", "#1b3a4b"),
        *("#76b77a", "#4d7ea8", "#014f86", "#7aa095"),
    ),
    "printed constants": (
        *("#d1495b", "#c9861a", "#8f1d2c", "#e07a5f"),
        *("#a6611a", "#d87093", "#7f5539", "#b5838d"),
    ),
    "not private": (
        *("#5c677d", "#9aa3ad", "#212529", "#7d8597"),
        *("#45494e", "#adb5bd", "#33415c", "#6c757d"),
    ),
}
WORDS: dict[Role, str] = {
    "private": "green and blue",
    "printed constants": "red and brown",
    "not private": "grey",
}


def role_of(certificate: Certificate) -> Role:
    """The role of an algorithm: whether it protects, and with whose constants.

    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=2, experts=3, horizon=10)
    >>> [role_of(spec.build(setting).certificate) for spec in (hr.SparseVector(), hr.Hedge())]
    ['private', 'not private']
    """
    if not any(guarantee.protects for guarantee in certificate.guarantees):
        return "not private"
    return "printed constants" if certificate.calibration == "published" else "private"


def coloured(names: Iterable[tuple[Role, str]]) -> dict[tuple[Role, str], str]:
    """A colour for every name and role, from the palette of the role.

    >>> coloured([("private", "a"), ("not private", "b"), ("private", "a")])
    {('private', 'a'): '#0b6e4f', ('not private', 'b'): '#5c677d'}
    """
    found: dict[tuple[Role, str], str] = {}
    for role, name in names:
        if (role, name) not in found:
            palette = PALETTES[role]
            found[role, name] = palette[sum(r == role for r, _ in found) % len(palette)]
    return found


def legend(roles: Iterable[Role]) -> str:
    """What the colours mean, if there are several roles."""
    given = {*roles}
    present: list[Role] = [role for role in PALETTES if role in given]
    return ", ".join(f"{WORDS[role]}: {role}" for role in present) if len(present) > 1 else ""
