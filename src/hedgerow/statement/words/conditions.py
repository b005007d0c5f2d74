"""What must be true for a guarantee to hold, what happens later, and where a run comes from.

For a deployment, this includes what its ledger shows: budget, signatures, log, silent clients.
"""

from __future__ import annotations

from hedgerow.core.certificate import IDEAL_REALS, NO_CARRY_OVER, PUBLIC_DELAYS, no_carry_over
from hedgerow.core.record import Record
from hedgerow.deployment.closing import rule_of
from hedgerow.records.schema import AccountRecord, AlgorithmRecord, LedgerRecord, SharedRecord
from hedgerow.statement.exposure import Point
from hedgerow.statement.statement import OPEN, Statement
from hedgerow.statement.words.phrases import counted, listed, observer_words, option, quoted

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


TRUST = {
    "central": "The server is trusted: clients send it exact values, "
    "and it adds the noise before it sends anything back. A server that adds no noise, or too "
    "little, could not be detected afterwards.",
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
    "PUBLIC_DELAYS": "how late the {records} of a client are reported",
    "PUBLIC_REPORTERS": "which clients report in which round: public",
    "PUBLIC_ANSWERS": "which clients answer which exchange, and how late",
    "PUBLIC_SIDE": "the side information of each client and round: public",
}
PLAIN = {  # plain words for assumptions that certificates word for readers of the proof
    NO_CARRY_OVER.name: "one person's record influences later rounds only through {published}: "
    "no readmissions, no retraining on it",
    IDEAL_REALS.name: "the noise is secret and independent, "
    "and computers draw and compare it without any rounding",
    PUBLIC_DELAYS.name: "when a {charge} is reported is not protected and does not depend on the "
    "protected record",
}


def assumption_words(statement: Statement) -> list[str]:
    """What must be true, in plain words, each with the name that the proof uses."""
    return [
        f"{_plain(statement.algorithm, name, meaning)} ({name})"
        for name, meaning in statement.assumptions.items()
    ]


def _plain(algorithm: AlgorithmRecord, name: str, meaning: str) -> str:
    """Plain words for an assumption of the library; others say what they mean themselves."""
    known = (IDEAL_REALS, NO_CARRY_OVER, no_carry_over(algorithm.record), PUBLIC_DELAYS)
    if all((name, meaning) != (each.name, each.meaning) for each in known):
        return meaning
    published = "the published choice" if algorithm.plays == "expert" else "what is published"
    return PLAIN[name].format(published=published, charge=_held(algorithm.record)[0])


def _held(record: Record) -> tuple[str, str]:
    """What a client holds and reports, such as a loss; one and several."""
    vector = record.holds_charges
    return (record.charge, record.charges) if vector else (record.name, record.plural)


def trust_words(statement: Statement) -> str:
    """Who is trusted with what, and what the deciders see."""
    algorithm = statement.algorithm
    text = TRUST.get(algorithm.trust, algorithm.trust)
    peer = next((g for g in algorithm.guarantees if g.observer == "peer"), None)
    if algorithm.deciders is None or peer is None or "broadcasts" not in peer.sees:
        return text
    return f"{text} A decider sees no more than another client does."


def dropout(statement: Statement) -> str:
    """What happens to the guarantee when a client drops out."""
    shows = (
        " Observers see that it has no case in a round; "
        "this must not depend on the protected record."
    )
    usual = DROPOUT.get(statement.algorithm.trust, "")
    if statement.ledger is not None and (shared := statement.ledger.shared) is not None:
        silent = shared.clients - shared.least
        usual = "Nobody can drop out: an exchange waits for all."
        if silent:
            usual = (
                f"{counted(silent, 'client', 'clients')} may drop out of an exchange; helpers open "
                "no smaller sum."
            )
    return usual + (shows if "PUBLIC_PRESENCE" in statement.assumptions else "")


def collusion_words(statement: Statement) -> str:
    """How many clients may help each observer."""
    by: dict[int, list[str]] = {}
    for _, members in statement.protecting:
        for guarantee in members:
            by.setdefault(guarantee.colluding, []).append(observer_words(guarantee))
    if not by:
        return "There is no guarantee, so collusion does not matter."
    alone = (
        "while no other client helps them"
        if statement.algorithm.clients > 1
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
    algorithm, (_, held) = statement.algorithm, _held(statement.algorithm.record)
    shown = [text for name, text in SHOWN.items() if name in statement.assumptions]
    texts += [text.format(records=held) for text in shown]
    sizes = ["clients", *(["deciders"] if algorithm.deciders else []), f"{option(algorithm)}s"]
    texts.append(f"the numbers of {listed([*sizes, 'rounds'])}, and all parameters: public")
    computed = "and" if held == algorithm.record.charges else f"and {algorithm.record.charges},"
    texts.append(
        f"{held}, {computed} regret or tables computed from them: raw data to be kept secret"
    )
    texts.append(
        f"what is true of many records (which {algorithm.plays} is good): learned on purpose"
    )
    texts.append("the time a computation takes, and the memory of the machines")
    return texts


def horizon_words(statement: Statement) -> list[str]:
    """How long the guarantee lasts, what comes then, and when the budget is spent."""
    rounds, guaranteed = statement.covered, bool(statement.protecting)
    if rounds is None:
        texts = [
            "Horizon: none; the game has no last round."
            + (" The stated numbers hold for any number of rounds." if guaranteed else "")
        ]
    else:
        texts = [
            f"Horizon: {rounds} rounds"
            + ("; the stated numbers cover all of them together. " if guaranteed else ". ")
            + f"After round {rounds} nothing more is learned or released; "
            "the last plays may stay in use at no further cost. "
            "A new game needs a new statement.",
        ]
    if statement.algorithm.when_spent:
        spent = statement.algorithm.when_spent
        texts.append(f"When the budget is spent: {spent}; nothing further is charged.")
    elif guaranteed:
        texts.append(
            "When the budget is spent: the stated numbers cover every release up to the horizon; "
            "no release goes beyond them."
            if rounds is not None
            else "The budget is never exceeded: the stated numbers cover every release, "
            "however long the game lasts."
        )
    if statement.algorithm.data == "real":
        texts.append(
            "What was released cannot be recalled, and nobody's data can be taken out of it later."
        )
        texts += [after_a_crash(statement)] if guaranteed else []
    return texts


def composition_words(statement: Statement) -> str:
    """What the releases of a run, and several runs on the same data, cost together."""
    one, together = statement.one_run, statement.all_runs
    if one is None or together is None:
        return "Nothing is guaranteed, so there is nothing to compose."
    text, single = f"{_within_a_run(statement)} ", quoted(one.epsilon, one.delta)
    if not statement.repeats:
        twice = quoted(2 * one.epsilon, min(1.0, 2 * one.delta))
        text += f"Runs on the same data add up: with a second one like this the sum is {twice}."
    else:
        text += (
            f"The {statement.algorithm.runs} runs, one for each seed, count as runs on the same "
            f"data: one costs {single}, all together {quoted(together.epsilon, together.delta)}."
        )
    if statement.ledger is not None:
        text += f" {budget_words(statement)}"
    return text + _beside(statement)


def _within_a_run(statement: Statement) -> str:
    """Why a run costs no more than is stated, no matter how many releases it has."""
    algorithm, noun = statement.algorithm, statement.units[0].unit.noun
    if not algorithm.mechanisms:
        return "Nothing that is released depends on the data."
    if algorithm.composition == "joint":
        return "All releases of a run are accounted for together, by a joint proof."
    if algorithm.composition == "shifts":
        return (
            f"All releases of a run together are one Gaussian vector, and one {noun} changes only "
            "its mean. The cost is the length of that change divided by the scale of the noise."
        )
    if algorithm.composition == "moves":
        return (
            f"A run costs one {noun} what the releases that it enters cost together. A release "
            f"costs less if this {noun} can change it only a little."
        )
    enters, it = ("One record enters", "it")
    if not statement.by_person:
        enters, it = f"The data of one {noun} enter", f"this {noun}"
    if algorithm.entered == 1:
        return (
            f"{enters} at most one release of a run, "
            f"so the run costs {it} what that one release costs."
        )
    most = "" if algorithm.entered is None else f" (at most {algorithm.entered})"
    return (
        f"A run costs one {noun} what the releases that {it} enters{most} cost together; "
        f"the others cost {it} nothing."
    )


def _beside(statement: Statement) -> str:
    """What the other algorithms of a study add for an observer that sees their runs too."""
    if not statement.also:
        return ""
    labels = listed([f"{algorithm.label!r}" for algorithm in statement.also])
    by: dict[str, list[str]] = {}
    for guarantee in statement.algorithm.guarantees:
        points = [
            _against(algorithm, guarantee.observer)
            for algorithm in (statement.algorithm, *statement.also)
        ]
        known = [point for point in points if point is not None]
        summed = quoted(sum(p.epsilon for p in known), min(1.0, sum(p.delta for p in known)))
        by.setdefault(summed if len(known) == len(points) else "NO GUARANTEE", []).append(
            observer_words(guarantee)
        )
    together = "; ".join(f"for {listed(who)}: {numbers}" for numbers, who in by.items())
    return f" The study also ran {labels} on the same data; together, {together}."


def _against(algorithm: AlgorithmRecord, observer: str) -> Point | None:
    """What an algorithm guarantees against one observer, all runs together."""
    return next((g.total or g.curve for g in algorithm.guarantees if g.observer == observer), None)


def recorded_words(statement: Statement) -> str:
    """The day of the run or, for a deployment, when its record was written."""
    run, rounds = statement.run, statement.algorithm.horizon
    if run.played is None:
        return f"run of {run.written[:10]}"
    if rounds is None:
        when = "before the first round" if run.played == 0 else f"after round {run.played}"
    else:
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
        "Legal basis": details.text("legal_basis"),
        "Kept and erased": details.text("retention"),
        "Contact": details.text("contact"),
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
    text = f"sha256 {code.sha256} ({counted(code.files, 'file')})"
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
    weights = "; weights compared in floats within a proven margin"
    expert = statement.algorithm.plays == "expert"
    return f"exact integers{weights if expert else ''} (proofs/secure_noise.md)"
