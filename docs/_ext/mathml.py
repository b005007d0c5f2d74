"""Formulas become MathML when the pages are built: browsers show it without a script, and nothing
is loaded.

`latex2mathml` does the work. What it leaves undone is done here: aligned lines become a table,
limits of min and max go below in
displayed formulas, bars have no space around them. A command that it does not know stops the build.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ALIGNED = re.compile(r"\\(begin|end)\{(?:aligned|align\*?|split|gathered|eqnarray\*?)\}")
BELOW = {"min", "max", "sup", "inf", "lim", "arg min", "arg max", "argmin", "argmax"}
BARS = {"|", "‖", "∥"}
JOIN = "\u2060"  # no line break between a formula and the full stop after it
LONG = 40  # characters of LaTeX from which an inline formula may be wider than a phone


def mathml(latex: str, display: str) -> str:
    """One formula, ready for the page."""
    source = ALIGNED.sub(
        lambda found: r"\begin{array}{rl}" if found.group(1) == "begin" else r"\end{array}", latex
    )
    try:
        tree = ElementTree.fromstring(convert(source, display=display))
    except Exception as error:
        raise ExtensionError(
            f"Cannot convert the formula {latex!r}: {type(error).__name__}: {error}"
        ) from error
    for node in tree.iter():
        node.tag = node.tag.removeprefix(f"{{{NAMESPACE}}}")
        text = node.text or ""
        if "\\" in text or "&" in text:
            raise ExtensionError(f"The formula {latex!r} has a command that is not known: {text}")
    for node in tree.iter():
        if display == "block" and node.tag == "msub" and (node[0].text or "").strip() in BELOW:
            node.tag = "munder"
        if node.tag == "mo" and node.text in BARS and node.get("fence") != "true":
            node.attrib |= {"stretchy": "false", "lspace": "0", "rspace": "0"}
    if source != latex:
        for cell in (cell for row in tree.iter("mtr") for cell in row[1:]):
            cell.set("style", "text-align: left; padding-left: 0")
        for cell in (row[0] for row in tree.iter("mtr")):
            cell.set("style", "text-align: right; padding-right: 0")
    return ElementTree.tostring(tree, encoding="unicode")


def inline(self: Any, node: nodes.math) -> None:
    latex = node.astext()
    kind = "formula long" if len(latex) > LONG else "formula"
    self.body.append(f'<span class="{kind}">{JOIN}{mathml(latex, "inline")}{JOIN}</span>')
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    self.body.append(
        f'<div class="formula-block" tabindex="0">{mathml(node.astext(), "block")}</div>\n'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
