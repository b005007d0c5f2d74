"""The proofs that certificates and regret bounds cite, as Markdown files with LaTeX formulas."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable

_TABLE = """
    alpha α beta β gamma γ delta δ zeta ζ eta η theta θ kappa κ lambda λ mu μ nu ν xi ξ pi π
    rho ρ sigma σ tau τ phi φ varphi φ chi χ psi ψ omega ω epsilon ε varepsilon ε Gamma Γ
    Delta Δ Theta Θ Lambda Λ Phi Φ Psi Ψ Omega Ω Sigma Σ Pi Π ell ℓ infty ∞ le ≤ leq ≤ ge ≥
    geq ≥ ne ≠ neq ≠ ll ≪ gg ≫ approx ≈ sim ∼ equiv ≡ propto ∝ in ∈ notin ∉ subseteq ⊆ subset ⊂
    cup ∪ cap ∩ emptyset ∅ setminus ∖ times × cdot · pm ± mp ∓ circ ∘ to → mapsto ↦ rightarrow →
    implies ⇒ Rightarrow ⇒ iff ⇔ sum ∑ prod ∏ int ∫ sqrt √ ldots … dots … cdots … lfloor ⌊
    rfloor ⌋ lceil ⌈ rceil ⌉ langle ⟨ rangle ⟩ lVert ‖ rVert ‖ mid | forall ∀ exists ∃ wedge ∧
    vee ∨ neg ¬ qed ∎ ast * lvert | rvert | Vert ‖ lbrace { rbrace }
"""
_NAMES = _TABLE.split()
SYMBOLS = {f"\\{name}": sign for name, sign in zip(_NAMES[::2], _NAMES[1::2], strict=True)} | {
    **{r"\|": "‖", r"\{": "{", r"\}": "}"},
    **{r"\,": " ", r"\;": " ", r"\ ": " ", r"\!": "", r"\quad": "   ", r"\qquad": "      "},
}
ACCENTS = {"tilde": "\u0303", "hat": "\u0302", "overline": "\u0304", "bar": "\u0304"}
UNSAID = (
    r"\\(left|right|[bB]igg?[lr]?|displaystyle|limits|begin\{\w+\*?\}|end\{\w+\*?\})(?![A-Za-z])"
)
NAMED = r"\\(?:text|mathrm|mathbb|mathcal|mathbf|operatorname|textbf)\{([^{}]*)\}"
FRACTION = r"\\[td]?frac\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"


def found() -> dict[str, Traversable]:
    """All proofs by name: those of the package and of the entry points `hedgerow.proofs`.

    An entry point names a package that holds Markdown files.
    """
    plugins = (point.module for point in entry_points(group="hedgerow.proofs"))
    all_files: dict[str, Traversable] = {}
    for package in (__name__, *sorted(plugins)):
        for file in files(package).iterdir():
            if file.name.endswith(".md"):
                name = file.name.removesuffix(".md")
                if name in all_files:
                    raise ValueError(f"The proof {name!r} of {package} has the name of another.")
                all_files[name] = file
    return dict(sorted(all_files.items()))


def names() -> list[str]:
    """All proofs by name."""
    return list(found())


def read(name: str, anchor: str | None = None) -> str:
    """A whole proof, or the section with the given heading anchor, as it is written.

    >>> read("sparse_vector", "whole-algorithm").splitlines()[0]
    '## Whole algorithm'
    """
    text = found()[name].read_text(encoding="utf-8")
    return text if anchor is None else section(text, anchor)


def anchor_of(heading: str) -> str:
    """The anchor that GitHub and the documentation give to a heading.

    >>> anchor_of("Pure DP, k = 1")
    'pure-dp-k--1'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def section(text: str, anchor: str) -> str:
    """The part of a document below one heading, with its subsections."""
    found, depth = [], 0
    for line in text.splitlines():
        heading = re.match(r"(#+) (.+)", line)
        if heading is not None and depth and len(heading[1]) <= depth:
            break
        if heading is not None and not depth and anchor_of(heading[2]) == anchor:
            depth = len(heading[1])
        if depth:
            found.append(line)
    if not found:
        raise KeyError(anchor)
    return "\n".join(found).rstrip() + "\n"


def in_unicode(text: str) -> str:
    r"""LaTeX formulas in plain characters, for a terminal; braces stay where they carry meaning.

    >>> in_unicode(r"If $q_j \le \frac{a + b}{2}$, then $e^{-\eta x} \in [0, 1]$.")
    'If q_j ≤ (a + b)/2, then e^{-η x} ∈ [0, 1].'
    """
    displayed = re.sub(
        r"^ *\$\$\n?(.*?)\n? *\$\$$",
        lambda m: _indented(_formula(m[1])),
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
    return re.sub(r"\$([^$]+)\$", lambda m: _formula(m[1]), displayed)


def _indented(formula: str) -> str:
    return "\n".join(f"    {line.strip()}" for line in formula.strip().splitlines())


def _formula(text: str) -> str:
    text = re.sub(r"\\(cr(?![A-Za-z])|\\(\[[^\]]*\])?) *\n?", "\n", text)
    text = re.sub(UNSAID, "", text).replace("&", "").replace("{}", "")
    text = re.sub(r"([_^]) +", r"\1", text)
    for _ in range(4):  # inner fractions and names first
        text = re.sub(NAMED, r"\1", text)
        text = re.sub(FRACTION, lambda m: f"{_grouped(m[1])}/{_grouped(m[2])}", text)
        text = re.sub(r"\\binom\{([^{}]*)\}\{([^{}]*)\}", r"C(\1, \2)", text)
    for name, accent in ACCENTS.items():
        text = re.sub(rf"\\{name}\{{([^{{}}])\}}", rf"\1{accent}", text)
    for name in sorted(SYMBOLS, key=len, reverse=True):
        end = r"(?![A-Za-z])" if name[-1].isalpha() else ""
        text = re.sub(re.escape(name) + end, lambda _, name=name: SYMBOLS[name], text)
    text = re.sub(r"\\([A-Za-z]+)", r"\1", text)  # exp, ln, max, Pr
    return re.sub(r"([_^])\{(.)\}", r"\1\2", text)


def _grouped(text: str) -> str:
    """A part of a fraction: without parentheses only if it is one number or one letter."""
    one = r"\d+|(\\[A-Za-z]+|[A-Za-z])(_\w|_\{\w\})?"
    return text if re.fullmatch(one, text.strip()) else f"({text})"
