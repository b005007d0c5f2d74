"""The sentences of a statement, for readers who sign but do not calculate.

Every function takes a statement, or a part of one, and returns text.
"""

from hedgerow.statement.words.attackers import VOCABULARY, audit_words, person_words, plain_words
from hedgerow.statement.words.conditions import (
    ONE_GAME,
    TRUST,
    assumption_words,
    code_words,
    collusion_words,
    composition_words,
    dropout,
    floating_point_words,
    horizon_words,
    one_game,
    purpose_words,
    recorded_words,
    unprotected,
)
from hedgerow.statement.words.guarantees import (
    DEFINITION,
    claim_words,
    curve_words,
    explained,
    formula,
    guarantee_words,
    neighbours,
    observer_words,
)
from hedgerow.statement.words.phrases import (
    counted,
    is_loud,
    listed,
    meanings,
    number,
    pairs,
    percent,
    quoted,
)

__all__ = [
    "DEFINITION",
    "ONE_GAME",
    "TRUST",
    "VOCABULARY",
    "assumption_words",
    "audit_words",
    "claim_words",
    "code_words",
    "collusion_words",
    "composition_words",
    "counted",
    "curve_words",
    "dropout",
    "explained",
    "floating_point_words",
    "formula",
    "guarantee_words",
    "horizon_words",
    "is_loud",
    "listed",
    "meanings",
    "neighbours",
    "number",
    "observer_words",
    "one_game",
    "pairs",
    "percent",
    "person_words",
    "plain_words",
    "purpose_words",
    "quoted",
    "recorded_words",
    "unprotected",
]
