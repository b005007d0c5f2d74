"""Under which conditions a guarantee holds, and what it leaves out."""

from __future__ import annotations

from hedgerow.core.certificate import IDEAL_REALS, NO_CARRY_OVER
from hedgerow.statement.statement import Statement
from hedgerow.statement.words.guarantees import observer_words
from hedgerow.statement.words.phrases import listed

TRUST = {
    "central": "The server is trusted: clients send it exact values, "
    "and it adds the noise before it sends anything back.",
    "distributed": "The server is not trusted with single uploads: it sees only their sum, "
    "to which every client adds its share of noise.",
    "local": "Nobody is trusted: what leaves a client is already protected.",
    "none": "Nothing is protected from anyone.",
}
DROPOUT = {
    "central": "A client that drops out does not weaken the guarantee, "
    "because the server adds the noise.",
    "distributed": "Every honest client that drops out takes its share of the noise with it; "
    "the assumptions say how many must stay.",
    "local": "A client that drops out does not weaken the guarantee, "
    "because each client protects itself.",
    "none": "It makes no difference which clients drop out.",
}
SHOWN = {
    "PUBLIC_PRESENCE": "in which rounds a client has a case at all: a missing play shows it",
    "PUBLIC_SLEEP": "which experts cannot be followed in which round",
    "PUBLIC_DELAYS": "how late the losses of a client are reported",
}
PLAIN = {  # plain words for assumptions that certificates word for readers of the proof
    NO_CARRY_OVER.meaning: "one person's record influences later rounds only through the "
    "published choice: no readmissions, no retraining on it",
    IDEAL_REALS.meaning: "the noise is secret and independent, "
    "and computers draw and compare it without any rounding",
}
ONE_GAME = "THESE DATA ARE USED IN NO OTHER GAME: each other game would add its epsilon."


def assumption_words(statement: Statement) -> list[str]:
    """What must be true, in plain words, each with the name that the proof uses."""
    return [
        f"{PLAIN.get(meaning, meaning)} ({name})" for name, meaning in statement.assumptions.items()
    ]


def one_game(statement: Statement) -> bool:
    """Whether real data are protected. Only their owner knows where else they are used."""
    return statement.algorithm.data == "real" and bool(statement.protecting)


def dropout(statement: Statement) -> str:
    """What happens to the guarantee when a client drops out."""
    shows = (
        " Observers see that it has no case in a round; "
        "this must not depend on the protected record."
    )
    return DROPOUT.get(statement.algorithm.trust, "") + (
        shows if "PUBLIC_PRESENCE" in statement.assumptions else ""
    )


def collusion_words(statement: Statement) -> str:
    """How many clients may help each observer."""
    by: dict[int, list[str]] = {}
    for _, members in statement.protecting:
        for guarantee in members:
            by.setdefault(guarantee.colluding, []).append(observer_words(guarantee))
    if not by:
        return "There is no guarantee that collusion could break."
    alone = (
        "while no other client helps them"
        if statement.algorithm.setting["clients"] > 1
        else "(there is no other client)"
    )
    parts = [
        f"against {listed(who)} " + (_helpers(count) if count else alone)
        for count, who in by.items()
    ]
    return f"The guarantee holds {listed(parts)}."


def _helpers(count: int) -> str:
    others = (
        "1 other client adds its data and its"
        if count == 1
        else f"{count} other clients add their data and their"
    )
    return f"even if {'' if count == 1 else 'up to '}{others} own random numbers"


def unprotected(statement: Statement) -> list[str]:
    """What no guarantee covers."""
    texts = []
    for guarantee in statement.unguarded:
        texts.append(f"everything {observer_words(guarantee)} sees ({', '.join(guarantee.sees)})")
    texts += [shown for name, shown in SHOWN.items() if name in statement.assumptions]
    texts.append("the numbers of clients, experts and rounds, and all parameters: public")
    texts.append("losses, and regret or tables computed from them: raw data to be kept secret")
    texts.append("what is true of many records (which expert is good): learned on purpose")
    texts.append("the time a computation takes, and the memory of the machines")
    return texts
