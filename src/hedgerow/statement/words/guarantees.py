"""What is guaranteed: the observer, the curve, the unit and its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from hedgerow.core.certificate import PRESENCE_STAYS, Unit
from hedgerow.privacy.curves.pure import BOUNDED_RANGE
from hedgerow.records.schema import CurveRecord, GuaranteeRecord, UnitRecord
from hedgerow.statement.statement import Statement
from hedgerow.statement.words.phrases import listed, quoted

OBSERVERS = {"server": "the server", "peer": "another client", "public": "the public"}
DEFINITION = (
    "Pr[view(D) in S] <= e^epsilon Pr[view(D') in S] + delta for all D ~ D' and all S, "
    "where view(D) is all that an observer sees"
)
EVENT, PERSON, WHOLE_CLIENT = (unit.__name__ for unit in get_args(Unit))
FORMULAS = {
    EVENT: "D ~ D' if, for some client i and round t, "
    "l_(j,s) = l'_(j,s) for all (j,s) other than (i,t)",
    PERSON: "D ~ D' if they differ in at most {appearances} loss vectors, all of one person",
    WHOLE_CLIENT: "D ~ D' if, for some client i, "
    "l_(j,s) = l'_(j,s) for all other clients j and all rounds s",
}


def observer_words(guarantee: GuaranteeRecord) -> str:
    """The observer of a guarantee, inside a sentence."""
    return OBSERVERS.get(guarantee.observer, guarantee.observer)


def curve_words(curve: CurveRecord) -> str:
    """The curve's parameters and, if they are not (epsilon, delta), the converted pair."""
    both = quoted(curve.epsilon, curve.delta)
    return curve.words if curve.words.startswith(both) else f"{curve.words}; converted: {both}"


def explained(texts: Sequence[str]) -> str:
    """The meaning of "bounded range" if one of the texts uses it; otherwise nothing."""
    return (
        f"{BOUNDED_RANGE[0].upper()}{BOUNDED_RANGE[1:]}."
        if any("(bounded range)" in text for text in texts)
        else ""
    )


def guarantee_words(guarantee: GuaranteeRecord) -> str:
    """The numbers of a guarantee, for one run and for all runs together, or why there is none."""
    if guarantee.curve is None:
        return f"NO GUARANTEE: {guarantee.reason}"
    text, total = curve_words(guarantee.curve), guarantee.total
    return (
        text
        if total is None
        else f"{text}; all {total.runs} runs: {quoted(total.epsilon, total.delta)}"
    )


def claim_words(statement: Statement) -> str:
    """The claim of the paper, next to what is proven."""
    claimed = statement.claimed
    assert claimed is not None
    holds = all(g.claim_holds is not False for g in statement.algorithm.guarantees)
    verdict = "the claim holds" if holds else "THE CLAIM IS NOT SUPPORTED by the proof cited here"
    true = [curve_words(curve) for curve, _ in statement.protecting]
    proven = listed(true) if true else "NO GUARANTEE"
    return (
        f"Published constants: the paper claims {curve_words(claimed)}; "
        f"proven here is {proven}: {verdict}."
    )


def formula(unit: UnitRecord) -> str:
    """When two streams of losses are neighbours, as a formula."""
    return FORMULAS.get(unit.kind, unit.words).format(**unit.parameters)


def neighbours(guarantee: GuaranteeRecord) -> str:
    """When two streams of losses are neighbours, in words and as a formula."""
    masks = ", and the same clients take part" if PRESENCE_STAYS in guarantee.adjacency else ""
    return f"{guarantee.adjacency}. {formula(guarantee.unit)}{masks}"
