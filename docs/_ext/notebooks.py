"""The pages with Python examples as notebooks, made when the documentation is built.

A notebook has the text and the code of its page, and no outputs: what it prints is what the page
shows, which `tools/documents.py` keeps current. Every block of a page runs alone, so the notebook
runs, too. A notebook is downloaded alone, so links to other pages are left out as links, and
pictures too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"<!-- run:python[^>]*-->\n.*?<!-- end -->\n", re.DOTALL)
LEFT_OUT = re.compile(
    r"^(```\{.*?^```|:::\{.*?^:::|<!-- [^>]+ -->)\n", re.DOTALL | re.MULTILINE
)
PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n", re.MULTILINE)
NEAR = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")  # a link to a page, or to a part of this one
TUTORIALS = (
    *("quickstart", "combine", "flusight", "units", "choose", "your_data", "games"),
    *("running_sums", "learning", "hospitals"),
)


def cells(text: str) -> list[dict[str, Any]]:
    """The cells of a page, in order.

    >>> [cell["cell_type"] for cell in cells("# A page\\n\\n```python\\n1\\n```\\n")]
    ['markdown', 'code']
    """
    made: list[dict[str, Any]] = []
    for place, part in enumerate(BLOCK.split(OUTPUT.sub("", text))):
        kept = part.strip("\n") if place % 2 else _alone(part)
        if not kept:
            continue
        source = kept.splitlines(keepends=True)
        cell: dict[str, Any] = {"id": f"cell-{len(made)}", "metadata": {}, "source": source}
        if place % 2:
            made.append({"cell_type": "code", "execution_count": None, "outputs": [], **cell})
        else:
            made.append({"cell_type": "markdown", **cell})
    return made


def _alone(text: str) -> str:
    """The text without what needs the other files of the documentation.

    >>> _alone("See [Deploy](deploy.md).\\n\\n![A picture](demo.png)\\n\\nAnd <https://a.b>.")
    'See Deploy.\\n\\n\\nAnd <https://a.b>.'
    """
    return NEAR.sub(r"\1", PICTURE.sub("", LEFT_OUT.sub("", f"{text}\n"))).strip()


def notebook(text: str) -> str:
    """The notebook of a page, as JSON."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    table = {"cells": cells(text), "metadata": {"kernelspec": kernel}}
    return json.dumps({**table, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def notebooks(home: Path) -> dict[str, str]:
    """The notebook of every tutorial, by file name."""
    texts = {name: (home / f"{name}.md").read_text(encoding="utf-8") for name in TUTORIALS}
    return {f"{name}.ipynb": notebook(text) for name, text in texts.items()}


def with_link(page: str, text: str) -> str:
    """A tutorial with a link to its notebook below its first paragraph."""
    if page not in TUTORIALS:
        return text
    head, first, rest = text.split("\n\n", 2)
    link = f"{{download}}`As a notebook <made/notebooks/{page}.ipynb>`"
    return f"{head}\n\n{first}\n\n{link}\n\n{rest}"
