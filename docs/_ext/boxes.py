"""Tables that a command draws with lines keep their lines: they scroll, and other output wraps."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LINE = "┃"  # in the heading of every such table


def mark(app: Sphinx, page: nodes.document) -> None:
    """Give blocks with such a table the class `drawn`."""
    del app
    for block in page.findall(nodes.literal_block):
        if LINE in block.astext():
            block["classes"].append("drawn")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", mark)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
