"""Where a statement comes from: its run, its purpose, its code and its arithmetic."""

from __future__ import annotations

from hedgerow.statement.details import OPEN
from hedgerow.statement.statement import Statement
from hedgerow.statement.words.phrases import listed


def recorded_words(statement: Statement) -> str:
    """The day of the run or, for a deployment, when its record was written."""
    run, rounds = statement.run, statement.algorithm.setting["horizon"]
    if run.played is None:
        return f"run of {run.written[:10]}"
    when = (
        f"before the first of {rounds} rounds"
        if run.played == 0
        else f"after round {run.played} of {rounds}"
    )
    return f"recorded on {run.written[:10]}, {when}"


def purpose_words(statement: Statement) -> list[str]:
    """The purpose of the deployment, from the details; open details are left out."""
    details = statement.details
    texts = {
        "Curator": listed([f"{c['name']} ({c['type']})" for c in details.data_curators])
        if details.data_curators
        else OPEN,
        "Use": details.text("intended_use"),
        "Product": ", ".join(
            text
            for name in ("data_product_type", "data_product_sector", "data_product_region")
            if (text := details.text(name)) != OPEN
        )
        or OPEN,
        "Why this epsilon": details.text("justification"),
        "Security": details.text("security"),
        "Before the noise": details.text("preprocessing"),
        "Sources": details.text("sources"),
        "Published": details.text("publication_date"),
    }
    return [
        f"{what}: {text}{'' if text.endswith('.') else '.'}"
        for what, text in texts.items()
        if text != OPEN
    ]


def code_words(statement: Statement) -> str:
    """The hash, the commit and the plugins of the code."""
    code = statement.run.code
    text = f"sha256 {code.sha256} ({code.files} files)"
    if code.commit is not None:
        text += f"; commit {code.commit[:12]}" + (", changed" if code.changed else "")
    plugins = [f"{name} sha256 {sha256}" for name, sha256 in code.plugins.items()]
    return text + (f"; plugins: {', '.join(plugins)}" if plugins else "")


def floating_point_words(statement: Statement) -> str:
    """Whether the guarantee covers floating-point effects; nothing if there is no guarantee."""
    if not statement.protecting:
        return ""
    if "IDEAL_REALS" in statement.assumptions:
        return "assumed exact (IDEAL_REALS): its effects are not covered"
    if not statement.run.noise.secure:
        return "covered by the certificate"
    return (
        "exact integers; weights compared in floats within a proven margin (proofs/secure_noise.md)"
    )
