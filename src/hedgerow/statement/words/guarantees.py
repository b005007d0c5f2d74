"""What is guaranteed: the observer, the curve, the unit and its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.certificate import PRESENCE_STAYS
from hedgerow.privacy.curves.pure import BOUNDED_RANGE
from hedgerow.records.schema import CurveRecord, GuaranteeRecord
from hedgerow.statement.statement import Statement
from hedgerow.statement.words.phrases import listed, quoted

OBSERVERS = {"server": "the server", "peer": "another client", "public": "the public"}
DEFINITION = (
    "Pr[view(D) in S] <= e^epsilon Pr[view(D') in S] + delta for all D ~ D' and all S, "
    "where view(D) is all that an observer sees"
)
SAME = {  # what neighbours share, by assumption
    "PUBLIC_REPORTERS": "the same clients report",
    "PUBLIC_SIDE": "the side information is the same",
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


def neighbours(guarantee: GuaranteeRecord) -> str:
    """When two streams of records are neighbours, in words and as a formula."""
    same = ["the same clients take part"] if PRESENCE_STAYS in guarantee.adjacency else []
    same += [text for name, text in SAME.items() if name in guarantee.assumes]
    return f"{guarantee.adjacency}. {guarantee.unit.formula}" + "".join(f", and {x}" for x in same)
