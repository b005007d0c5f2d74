"""Plain English: phrases that keep a reader from understanding stay out of code, messages and
documents.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.paths import PACKAGE, PLUGINS, ROOT

PHRASES = {
    r"\bwhoever\b|\bwhomever\b": "name the person, or use the passive",
    r"\bof (its|their|his|her|your|our) own(?! [a-z])": "'its own ...' or nothing",
    r"\banew\b": "again, or in every round",
    r"\bso (many|often|much)\b": "that many, a number, or how many",
    r"\btold\b": "reported, printed, named; a variable is called `text` or `lines`",
    r"\bsaid (=|in)|\bsaid\)": "a variable is called `text`, `lines` or `words`",
    r"\bstands? (on|in|beside|for itself)\b": "rests on, is in",
    r"\bexplains? itself\b|\bexplain themselves\b": "is clear",
    r"\bfor want of\b": "because there is no",
    r"\bthe way (a|an|the) \w+ takes\b": "how it travels",
    r"\bnobody who\b|\beverybody who\b|\bsomebody who\b|\banybody who\b": "a client that",
    r"\bis to be (known|seen|found|read)\b": "can be",
    r"\b(?-i:sites?)\b": "client",
    r"\bdeaf\b|\briddles?\b|\bat rest\b": "plain words",
    r"Expected [^\"]*(, it (is|has|exists|asked|sent)|, there is none)": "no comma splice: two sentences",
}
INTRODUCED = ("a site: hospital, bank, phone", "docs site", "site-packages", "documentation site")


def files() -> list[Path]:
    """Everything a user or a reader of the code looks at."""
    found = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.md"), *PACKAGE.glob("examples/*.toml")]
    found += [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "tools").glob("*.py")]
    found += [file for part in PLUGINS for file in part.rglob("*.py")]
    return sorted(file for file in found if file.name not in ("CHANGELOG.md", "tried.md"))


def faults(text: str) -> list[str]:
    """
    >>> faults("Whoever is in one of the games has a guarantee of its own.")
    ['Whoever: name the person, or use the passive', "of its own: 'its own ...' or nothing"]
    """
    for allowed in INTRODUCED:
        text = text.replace(allowed, "")
    return [
        f"{found[0]}: {advice}"
        for phrase, advice in PHRASES.items()
        for found in re.finditer(phrase, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_phrases_stay_out(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [f"line {n}: {fault}" for n, line in enumerate(lines, 1) for fault in faults(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "bad",
    [
        "for whoever cannot do without one",
        "Refused, for want of an exact sampler",
        "drawn anew in every round",
        "Expected --out X to be new, it exists.",
        "The way a loss takes",
        "Every site sends its sums",
    ],
)
def test_the_check_catches(bad: str) -> None:
    assert faults(bad)


def test_the_check_accepts_plain_words() -> None:
    assert not faults(
        "A client (a site: hospital, bank, phone) sends its sums. --out X already exists."
    )


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700
