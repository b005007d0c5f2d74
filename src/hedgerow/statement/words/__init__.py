"""The sentences of a statement, for readers who sign but do not calculate.

Every function takes a statement, or a part of one, and returns text.
"""

from hedgerow.statement.words.attackers import audit_words, person_words, plain_words
from hedgerow.statement.words.conditions import (
    assumption_words,
    code_words,
    collusion_words,
    composition_words,
    dropout,
    floating_point_words,
    horizon_words,
    purpose_words,
    recorded_words,
    trust_words,
    unprotected,
)
from hedgerow.statement.words.game import (
    follows,
    in_range,
    in_rounds,
    option,
    player,
    shown_setting,
    vocabulary,
)
from hedgerow.statement.words.guarantees import (
    DEFINITION,
    claim_words,
    curve_words,
    explained,
    guarantee_words,
    neighbours,
    observer_words,
)
from hedgerow.statement.words.ledger import budget_words, ledger_words, only_here
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
    "assumption_words",
    "audit_words",
    "budget_words",
    "claim_words",
    "code_words",
    "collusion_words",
    "composition_words",
    "counted",
    "curve_words",
    "dropout",
    "explained",
    "floating_point_words",
    "follows",
    "guarantee_words",
    "horizon_words",
    "in_range",
    "in_rounds",
    "is_loud",
    "ledger_words",
    "listed",
    "meanings",
    "neighbours",
    "number",
    "observer_words",
    "only_here",
    "option",
    "pairs",
    "percent",
    "person_words",
    "plain_words",
    "player",
    "purpose_words",
    "quoted",
    "recorded_words",
    "shown_setting",
    "trust_words",
    "unprotected",
    "vocabulary",
]
