"""Text from files and users, made safe to show: control characters are shown, not obeyed."""

from __future__ import annotations

import html
import re

# Controls, marks that turn the direction of text, line separators and lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return the text with a sign in place of every control character except tab and newline.

    A terminal obeys such characters, and HTML and SVG do not allow them.

    >>> visible("a\\x1b[2Jb"), visible("plain text")
    ('a␛[2Jb', 'plain text')
    """
    return _HIDDEN.sub(_sign, text)


def one_line(text: str) -> str:
    """Return the text as `visible` does, with signs for tabs and newlines, too.

    >>> one_line("two\\nlines")
    'two␊lines'
    """
    return visible(text).replace("\n", "␊").replace("\t", "␉")


def _sign(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"


def escape(text: object) -> str:
    """The text for HTML: markup is escaped, and control characters are shown.

    >>> escape("<b>\\x1b")
    '&lt;b&gt;␛'
    """
    return html.escape(visible(str(text)))
