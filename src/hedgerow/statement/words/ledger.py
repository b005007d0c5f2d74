"""What the ledger of a deployment shows: budget, signatures, log, and silent clients."""

from __future__ import annotations

from hedgerow.deployment.closing import rule_of
from hedgerow.records.ledger import AccountRecord, LedgerRecord, SharedRecord
from hedgerow.statement.statement import Statement
from hedgerow.statement.words.phrases import counted, listed

ONE_GAME = "These data are used in no other game: each other game would add its epsilon."
CHARGED = (
    "These data are used only in studies that are charged to the account of the data set: each "
    "other use would add its epsilon."
)


def only_here(statement: Statement) -> str:
    """What else may be done with real data; nothing if nothing is protected or it is simulated.

    Only the owner of the data knows where else they are used.
    """
    if statement.algorithm.data != "real" or not statement.protecting:
        return ""
    return ONE_GAME if statement.ledger is None else CHARGED


def after_a_crash(statement: Statement) -> str:
    """What happens if a process dies."""
    if statement.ledger is None:
        return (
            "If the process dies, the game is over too, because it cannot be saved; "
            "the stated numbers cover what was released. "
            "A new learner on later rounds is a new game: "
            "for a person in both games, the numbers of both add up."
        )
    return (
        "If a process dies, it goes on from its ledger and sends the same bytes again: nothing is "
        "released twice. A ledger that was restored from a copy is refused, by the other side or "
        "by the account, which counts releases. Then a new study is needed, and for a person in "
        "both the numbers of both add up."
    )


def budget_words(statement: Statement) -> str:
    """Whether a budget ledger is kept, and what it says."""
    ledger = statement.ledger
    if ledger is None:
        return "Budget ledger: none is kept for this run."
    if ledger.account is None:
        return (
            "A budget ledger is kept: each client charges the study to the account of its data "
            "set. The server does not see these accounts."
        )
    account = ledger.account
    whole = f"A budget ledger is kept for the data set {account.data!r}: {_spent(ledger)}."
    return f"{whole} The budget is for {account.unit}; a study that protects less is refused."


def _spent(ledger: LedgerRecord) -> str:
    account = ledger.account
    assert account is not None
    if all(charge.study != ledger.study for charge in account.charges):
        return f"{account.spent} is spent; this study is not private and was not charged"
    return f"{account.spent} is spent, by {counted(len(account.charges), 'study', 'studies')}"


def ledger_words(statement: Statement) -> list[str]:
    """Who signed, what was checked, and what happens to silent clients."""
    ledger = statement.ledger
    if ledger is None:
        return []
    parties = listed([f"{name} ({key})" for name, key in ledger.signed.items()])
    texts = [
        budget_words(statement),
        f"The manifest of study {ledger.study} is signed by {parties}.",
    ]
    if ledger.unsigned:
        missing = listed(ledger.unsigned)
        known = "Not signed yet" if ledger.party is None else "Signatures that only the server has"
        texts.append(f"{known}: {missing}.")
    if ledger.roster:
        texts.append(
            f"The server has signed these changes of the clients: {listed(ledger.roster)}."
        )
    if ledger.refused:
        texts.append(
            f"REFUSED, because two messages were signed for one release: {listed(ledger.refused)}."
        )
    if ledger.vouched:
        when = listed([str(exchange) for exchange in ledger.vouched])
        texts.append(
            "THE OPERATOR HAS VOUCHED that the server's ledger was the latest and not a restored "
            f"copy; nothing else proved it. This was after exchange {when}."
        )
    whose = "the server" if ledger.party is None else f"client {ledger.party!r}"
    logs = [f"of {whose} has {counted(ledger.entries, 'entry', 'entries')}, head {ledger.head}"]
    if ledger.account is not None:
        logs.append(_account_log(ledger.account))
    texts.append(
        f"The log {'; that '.join(logs)}. Every hash was computed again for this statement."
    )
    texts += [] if ledger.shared is None else _shared(ledger, ledger.shared)
    texts += [_carried(ledger), _kept(statement)]
    return [*texts, f"If a client is silent, {rule_of(ledger.closing).words}."]


def _carried(ledger: LedgerRecord) -> str:
    """Who could read messages on their way."""
    tls = {
        True: "This client reached the server by TLS.",
        False: "This client reached the server WITHOUT TLS.",
        None: "This ledger does not say whether connections had TLS: their operators know.",
    }[ledger.tls]
    if not ledger.sealed:
        return tls
    return f"{tls} Uploads are sealed to the server's key: who carries them sees their length only."


def _kept(statement: Statement) -> str:
    """What a client keeps, and how long the server keeps the upload of one client."""
    own = (
        "A client keeps its plays, hashes of its data and what the algorithm needs between rounds, "
        "until its folder is deleted; the data themselves are not in its ledger. "
    )
    if statement.algorithm.trust == "local":
        return f"{own}The server keeps every upload; it contains the client's noise."
    if statement.algorithm.trust == "distributed":
        return (
            f"{own}The server keeps an upload, under its masks, only until its exchange is "
            "answered; then it is overwritten, and only the sum over all clients remains."
        )
    return (
        f"{own}The server keeps the exact upload of a client only until its exchange is answered; "
        "then it is overwritten, and only sums over clients remain. If the server is killed at "
        "that moment, this happens when it starts again."
    )


def _shared(ledger: LedgerRecord, shared: SharedRecord) -> list[str]:
    """What the server saw of uploads, and who must not work with it."""
    honest, helpers = shared.least - shared.colluding, listed(shared.helpers)
    every, drop = f"all {shared.clients} clients", shared.least < shared.clients
    counts = f"at least {shared.least} of {every}" if drop else every
    one = f"{helpers} does" if len(shared.helpers) == 1 else f"at least one of {helpers} does"
    texts = [
        "The protocol that hides uploads is EXPERIMENTAL: NOT YET REVIEWED BY OUTSIDE "
        "CRYPTOGRAPHERS.",
        f"The server never had a single upload in readable form. It got {ledger.exchanges} sums, "
        f"each over {counts}, each with the noise of at least "
        f"{counted(honest, 'client', 'clients')}, if at most "
        f"{counted(shared.colluding, 'client works', 'clients work')} with it.",
        f"This holds if {one} not work with the server. If all helpers do, each upload is "
        f"protected by 1/{honest} of the planned variance of the noise only.",
        f"No sum is opened without {counts} and every helper: then the study ends.",
        "A client can falsify sums, and nobody can notice.",
    ]
    if ledger.closing == "drop":
        texts.append(
            "A helper must never run from an old copy of its folder, or twice at the same time: "
            "the server could then read single uploads."
        )
    if shared.damaged:
        shown = [f"{k} ({listed(names)})" for k, names in shared.damaged.items()]
        texts.append(f"Exchanges whose sum is spoiled by damaged seals: {listed(shown)}.")
    return texts


def _account_log(account: AccountRecord) -> str:
    entries = counted(account.entries, "entry", "entries")
    return f"of the account has {entries}, head {account.head}"
