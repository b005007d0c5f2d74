"""What an audit showed."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.privacy.curves.pure import rounded_up
from hedgerow.statement.audit import BUDGET, Audit, AuditedCase
from hedgerow.statement.statement import Statement


def audit_words(statement: Statement) -> str:
    """The result and its confidence, then the strongest attacks."""
    audit = statement.audit
    if audit is None:
        return "not audited"
    attacks, planted = (
        [row for row in audit.rows if (row.expected == "violated") is bad] for bad in (False, True)
    )
    caught = sum(row.verdict == "violated" for row in planted)
    wrong = [
        f"{row.case} ({row.verdict}, expected {row.expected})"
        for row in audit.rows
        if not row.passed
    ]
    were = "was" if len(planted) == 1 else "were"
    errors = f"{caught} of {len(planted)} planted errors {were} caught."
    if wrong:
        texts = [f"NOT EVERY VERDICT IS AS EXPECTED: {', '.join(wrong)}. {errors}"]
    else:
        sure = min((row.confidence for row in attacks), default=1.0)
        texts = [
            f"No attack got past the guarantee: {len(attacks)} tried, "
            f"confidence {sure:g} for each. {errors}"
        ]
    texts += [*_strongest(attacks), *_with_other_budgets(audit, attacks)]
    if audit.code != statement.run.code.sha256:
        texts.append(f"The audited code (sha256 {audit.code[:12]}) is not that of the run.")
    texts.append(
        "Audits play small worst cases with seeded noise, not this run; "
        "they support the proof and never replace it."
    )
    return " ".join(texts)


def _strongest(attacks: Sequence[AuditedCase]) -> list[str]:
    """The strongest attack of each method on the guarantee itself."""
    texts = []
    for method in dict.fromkeys(row.method for row in attacks):
        rows = [
            row
            for row in attacks
            if row.method == method and row.of_the_promise and row.audited_epsilon is not None
        ]
        if rows:
            worst = max(rows, key=lambda row: row.audited_epsilon or 0.0)
            played = f", played with {_values(worst)}" if worst.parameters else ""
            texts.append(
                f"Strongest attack by {method} ({worst.case}{played}): "
                f"epsilon >= {worst.audited_epsilon:.4g} shown, "
                f"{rounded_up(worst.certified_epsilon)} certified there, "
                f"at delta = {worst.delta:g}, confidence {worst.confidence:g}."
            )
    return texts


def _with_other_budgets(audit: Audit, attacks: Sequence[AuditedCase]) -> list[str]:
    """Games with another budget: they show that the method works, not that these numbers hold."""
    texts = []
    for method in dict.fromkeys(row.method for row in audit.rows):
        rows = [row for row in attacks if row.method == method and BUDGET & set(row.parameters)]
        if rows:
            held = (
                "it held"
                if all(row.verdict == "holds" for row in rows)
                else "it did not hold everywhere"
            )
            texts.append(
                f"By {method}, a version with other parameters ({_values(rows[-1])}) "
                f"was attacked: {held}."
            )
    return texts


def _values(row: AuditedCase) -> str:
    return ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in row.parameters.items()
    )
