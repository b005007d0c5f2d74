"""What an attacker can do in the worst case, and what audits found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from pathlib import Path

from hedgerow.core.rounding import rounded_up
from hedgerow.core.units import Client, Part, Person, Window
from hedgerow.privacy.curves import GaussianDP, Quoted
from hedgerow.records.build import curve_of
from hedgerow.records.schema import CurveRecord, GuaranteeRecord, UnitRecord
from hedgerow.statement.audit import BUDGET, Audit, AuditedCase
from hedgerow.statement.exposure import Exposure, Quote, exposure
from hedgerow.statement.statement import OPEN, Statement
from hedgerow.statement.words.phrases import (
    WEAK,
    WORTHLESS,
    at_most,
    claim_words,
    counted,
    listed,
    observer_words,
    quoted,
)

ATTACKERS = {
    "server": "The operator of the server",
    "peer": "Another client",
    "public": "An outsider",
}
SUBJECT = "a person whose data are in one round at one client"


def plain_words(statement: Statement) -> list[str]:
    """The stamp, if there is one, then what each observer can learn, then the paper's claim."""
    texts = []
    if statement.stamp is not None:
        follows = (
            "What follows holds for the algorithm with secret noise of the stated laws, "
            "under the stated assumptions."
        )
        texts.append(
            f"{statement.stamp}. "
            "The noise came from public seeds: the run itself protected nobody. "
            + (follows if statement.protecting else "The algorithm guarantees nothing either.")
        )
    texts += [_attacker(statement, curve, members) for curve, members in statement.protecting]
    for reason in dict.fromkeys(guarantee.reason for guarantee in statement.unguarded):
        against = [observer_words(g) for g in statement.unguarded if g.reason == reason]
        texts.append(f"NO GUARANTEE against {listed(against)}: {reason}.")
    if statement.claimed is not None:
        texts.append(claim_words(statement))
    return [*texts, *_account(statement)]


def _account(statement: Statement) -> list[str]:
    """How well a bet can do after everything that was charged to the account of the data set."""
    account = None if statement.ledger is None else statement.ledger.account
    if account is None or account.total is None:
        return []
    if len(account.charges) == 1:
        return [f"Nothing else was charged to the account {account.data!r} of these data."]
    worst = exposure(account.total, None, 1)
    seen = f"all {len(account.charges)} studies that were charged to the account {account.data!r}"
    bet = _bet(worst, seen, warned=False)
    return [f"All studies on these data together, about {account.unit}: {_numbers(worst)}. {bet}"]


def _subject(statement: Statement, unit: UnitRecord) -> str:
    """The person or data a bet is about. That there is a case at all may be visible."""
    known = {
        "PUBLIC_PRESENCE": ", given that the client had a case in that round",
        "PUBLIC_REPORTERS": ", given that the client reported in that round",
    }
    if not statement.by_person:
        return unit.words
    return SUBJECT + "".join(t for name, t in known.items() if name in statement.assumptions)


def _attacker(statement: Statement, curve: CurveRecord, members: Sequence[GuaranteeRecord]) -> str:
    """How well an even bet can do, first about a person with the most records that are allowed."""
    first, *others = members
    who = listed(
        [ATTACKERS.get(first.observer, first.observer), *map(observer_words, others)], "or"
    )
    unit, total = first.unit, first.total
    if curve.epsilon == 0 and curve.delta == 0:
        return (
            f"{who} learns nothing about {_subject(statement, unit)}: "
            "what can be seen does not depend on the data."
        )
    separate = statement.algorithm.separate
    shown = {count: exposure(curve, total, count, separate) for count in statement.counts}
    worst = shown.pop(statement.lead)
    begin, subject = "", _subject(statement, unit)
    if statement.lead > 1:
        begin, subject = f"{_worst_off(statement, worst)} ", "such a person"
    elif total is not None:
        begin = f"All {total.runs} runs on the same data together: {_numbers(worst)}. "
    seen = (
        "all rounds" if total is None else f"all rounds of all {total.runs} runs on the same data"
    )
    bet = _bet(worst, seen, warned=bool(begin))
    return (
        f"{begin}{who} may bet on which of two things is true of {subject}. "
        f"{bet}{_others(statement, worst, shown)}"
    )


def _worst_off(statement: Statement, worst: Exposure) -> str:
    """The most records that one person may have, and the numbers that hold for this person."""
    records, clients = statement.details.records_per_client, statement.details.clients_per_person
    if statement.most is None:
        allowed = f"{counted(worst.records, 'record')} at one client (at how many clients: {OPEN})"
    else:
        allowed = counted(worst.records, "record") + (
            f" ({records} at each of {clients} clients)"
            if clients is not None and clients > 1
            else ""
        )
    return f"A person may have {allowed}, each for one round: {_numbers(worst)}."


def _numbers(worst: Exposure) -> str:
    numbers = "NO GUARANTEE" if worst.delta >= 1 else quoted(worst.epsilon, worst.delta)
    return numbers + (f", {WEAK}" if worst.even_guess >= WORTHLESS else "")


def _bet(worst: Exposure, seen: str, warned: bool) -> str:
    """What an even bet becomes; `warned` says that the text before it calls a guarantee weak.

    Odds are bounded by e^epsilon only if delta is 0: otherwise they may exceed it more often
    than delta says.
    """
    if worst.even_guess >= WORTHLESS:
        right, weak = at_most(worst.even_guess), "" if warned else f" That is {WEAK}."
        return (
            f"After seeing everything in {seen} the guess may be right {right} times in 100, "
            f"instead of 50.{weak}"
        )
    right = f"the guess is right {at_most(worst.even_guess)} times in 100, instead of 50."
    if worst.delta > 0:
        return f"After seeing everything in {seen} {right}"
    odds = rounded_up(exp(worst.epsilon), 3)
    return (
        f"If the odds were even before, after seeing everything in {seen} they are never more "
        f"than {odds} to 1, and on average {right}"
    )


def _others(statement: Statement, worst: Exposure, shown: Mapping[int, Exposure]) -> str:
    """The same for a person with more or fewer records."""
    if not shown:
        return ""
    rates = listed(
        [
            f"with {counted(count, 'record')} {at_most(each.even_guess)}"
            for count, each in shown.items()
        ]
    )
    if statement.lead > 1:
        return f" A person with fewer records is protected more: {rates} times in 100."
    if statement.details.records_per_client is not None or worst.even_guess >= WORTHLESS:
        return ""
    return (
        f" A person with more records is protected less: {rates} times in 100 "
        f"(records that one person may have: {OPEN})."
    )


def person_words(statement: Statement) -> str:
    """What the unit means for a person."""
    if statement.all_runs is None:
        return ""
    if not statement.by_person:
        return _covered(statement.units[0].unit)
    records, clients = statement.details.records_per_client, statement.details.clients_per_person
    record = statement.algorithm.record
    one = (
        "what one client reports about one round, with everyone in it"
        if record.holds_charges
        else f"one such {record.name}"
    )
    begin = f"One record is {one}: not a person, not a client."
    if records is None:
        return f"{begin} {_growth(statement)} Records that one person may have: {OPEN}."
    if statement.most == 1:
        return f"{begin} A person has at most one record."
    here = _point_words(statement.of_records(records))
    most = counted(records, "record")
    one = f"{begin} A person with at most {most} at one client: {here} (per client)"
    if statement.most is None:
        return f"{one}; clients one person may be at: {OPEN}."
    across = _point_words(statement.of_records(statement.most))
    return f"{one}; at up to {counted(clients or 1, 'client')}: {across} (across clients)."


def _covered(unit: UnitRecord) -> str:
    """Which persons a unit that is not a record covers."""
    if unit.kind == Client.__name__:
        return "It covers every person whose records are all at one client."
    if unit.kind == Part.__name__:
        return (
            "A person with more records, or one who changes them by more than declared, is not "
            "covered."
        )
    if unit.kind == Window.__name__:
        return "What a client holds in other rounds is not covered together with it."
    if unit.kind != Person.__name__:
        return ""
    person = Person(**unit.parameters)
    beyond = "several" if person.clients == 1 else f"more than {person.clients}"
    if person.records is None:
        return f"A person at {beyond} clients is not covered."
    everywhere = person.clients == person.records > 1
    spread = "" if everywhere else f", or at {beyond} clients,"
    return f"A person with more records{spread} is not covered."


def _growth(statement: Statement) -> str:
    """What the records of one person cost together."""
    if not statement.algorithm.separate:
        return "A person with k records gets k times epsilon (and a larger delta)."
    curves = [curve_of(curve) for curve, _ in statement.protecting]
    inside = [curve.curve if isinstance(curve, Quoted) else curve for curve in curves]
    mus = [curve.mu for curve in inside if isinstance(curve, GaussianDP)]
    cost = "their costs compose"
    if len(mus) == len(inside):
        cost = f"k of them cost sqrt(k) times mu = {rounded_up(max(mus))}"
    return f"The records of one person enter different releases: {cost}."


def _point_words(point: Quote | None) -> str:
    return (
        "NO GUARANTEE" if point is None or point.delta >= 1 else quoted(point.epsilon, point.delta)
    )


def audit_words(statement: Statement, folder: Path | None = None) -> str:
    """The result, then the strongest attacks.

    `folder` is where the run is now; None: where it was written.
    """
    audit = statement.audit
    if audit is None:
        command = f"hedgerow statement {folder or statement.run.run} --audit"
        return f"not audited. To attack the algorithm and state the result: `{command}`"
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
        texts = [f"No attack got past the guarantee: {len(attacks)} tried. {errors}"]
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
            shown = (
                "shown" if worst.seen else "shown to an observer that sees more than this attacker"
            )
            texts.append(
                f"Strongest attack by {method} ({worst.case}{played}): "
                f"epsilon >= {worst.audited_epsilon:.4g} {shown}, "
                f"{rounded_up(worst.certified_epsilon)} certified there, "
                f"at delta = {worst.delta:g}."
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
