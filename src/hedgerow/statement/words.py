"""The sentences of a statement, for somebody who signs but does not calculate. Pure functions from a statement to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, exp

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.certificate import IDEAL_REALS, NO_CARRY_OVER, PRESENCE_STAYS
from hedgerow.privacy.curves.pure import BOUNDED_RANGE, rounded_up
from hedgerow.records.schema import STAMP, AlgorithmRecord, CurveRecord, GuaranteeRecord, UnitRecord
from hedgerow.statement.audit import BUDGET, Audit, AuditedCase
from hedgerow.statement.details import OPEN
from hedgerow.statement.exposure import Exposure, Point, Quote, exposure
from hedgerow.statement.statement import Statement

OBSERVERS = {"server": "the server", "peer": "another site", "public": "the public"}
WHO = {"server": "Whoever runs the server", "peer": "Another site", "public": "An outsider"}
TRUST = {
    "central": "The server is trusted: sites send it exact values, and it adds the noise before it sends anything back.",
    "distributed": "The server is not trusted with single uploads: it sees only their sum, to which every site adds its share of noise.",
    "local": "Nobody is trusted: what leaves a site is already protected.",
    "none": "Nothing is protected from anybody.",
}
DROPOUT = {
    "central": "A site that drops out does not weaken the guarantee, because the noise is the server's.",
    "distributed": "Every honest site that drops out takes its share of the noise with it; the assumptions say how many must stay.",
    "local": "A site that drops out does not weaken the guarantee, because each site protects itself.",
    "none": "It makes no difference who drops out.",
}
FORMULAS = {
    "Event": "D ~ D' if, for some client i and round t, l_(j,s) = l'_(j,s) for all (j,s) other than (i,t)",
    "Person": "D ~ D' if they differ in at most {appearances} loss vectors, all of one person",
    "WholeClient": "D ~ D' if, for some client i, l_(j,s) = l'_(j,s) for all other clients j and all rounds s",
}
SHOWN = {
    "PUBLIC_PRESENCE": "in which rounds a site has a case at all: a missing play shows it",
    "PUBLIC_SLEEP": "which experts cannot be followed in which round",
    "PUBLIC_DELAYS": "how late a site's losses are reported",
}
DEFINITION = "Pr[view(D) in S] <= e^epsilon Pr[view(D') in S] + delta for all D ~ D' and all S, view(D) being all that an observer sees"
SUBJECT = "a person whose data are in one round at one site"
VOCABULARY = (
    "Words: client, a site; expert, a model or rule that a site may follow; loss vector, how badly each expert did at one site in "
    "one round; switch, a change of expert; uploads, what sites send to the server; broadcasts, what it sends back; plays, which "
    "expert each site follows; timing, when the sites talk."
)
PLAIN = {  # assumptions whose wording in a certificate is for those who check the proof
    NO_CARRY_OVER.meaning: "one person's record does not influence later rounds other than through the published choice: "
    "no readmissions, no retraining on it",
    IDEAL_REALS.meaning: "the noise is secret and independent, and computers drew and compared it without any rounding",
}
ONE_GAME = "THESE DATA ARE USED IN NO OTHER GAME: each would add its epsilon."
COMMON = {"every": "rounds between exchanges"}
WEAK = "close to no protection"
LOUD = (
    "NO GUARANTEE",
    "NOT SECURE",
    "THE CLAIM IS NOT",
    "NOT EVERY VERDICT",
    "NO OTHER GAME",
    WEAK,
    STAMP,
)
WORTHLESS = 0.99  # an even guess that is right so often leaves nothing to protect
CERTAIN = 0.999  # and beyond this no number is worth printing


def meanings(algorithm: str) -> dict[str, str]:
    """What parameters mean where their names do not say it; an algorithm's class explains its own in its traits."""
    return {**COMMON, **(ALGORITHMS[algorithm].traits.meanings if algorithm in ALGORITHMS else {})}


def is_loud(text: str) -> bool:
    """Whether a sentence must not be overlooked."""
    return any(mark in text for mark in LOUD)


def listed(items: Sequence[str], last: str = "and") -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def percent(share: float) -> str:
    """In 100, rounded upward."""
    return f"{ceil(share * 1000 - 1e-9) / 10:g}" if share <= CERTAIN else "> 99.9"


def at_most(share: float) -> str:
    return f"at most {percent(share)}" if share <= CERTAIN else "over 99.9"


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def quoted(epsilon: float, delta: float) -> str:
    return f"epsilon = {rounded_up(epsilon)}, delta = {rounded_up(delta)}"


def curve_words(curve: CurveRecord) -> str:
    """The curve's own parameters and, where they are others, the converted (epsilon, delta)."""
    both = quoted(curve.epsilon, curve.delta)
    return curve.words if curve.words.startswith(both) else f"{curve.words}; converted: {both}"


def observer_words(guarantee: GuaranteeRecord) -> str:
    return OBSERVERS.get(guarantee.observer, guarantee.observer)


def explained(told: Sequence[str]) -> str:
    """A word that some of these curves use and that explains itself to nobody; nothing where it is not used."""
    return (
        f"{BOUNDED_RANGE[0].upper()}{BOUNDED_RANGE[1:]}."
        if any("(bounded range)" in text for text in told)
        else ""
    )


def guarantee_words(guarantee: GuaranteeRecord) -> str:
    if guarantee.curve is None:
        return f"NO GUARANTEE: {guarantee.reason}"
    told, total = curve_words(guarantee.curve), guarantee.total
    return (
        told
        if total is None
        else f"{told}; all {total.runs} runs: {quoted(total.epsilon, total.delta)}"
    )


def formula(unit: UnitRecord) -> str:
    return FORMULAS.get(unit.kind, unit.words).format(**unit.parameters)


def neighbours(guarantee: GuaranteeRecord) -> str:
    """Adjacency in words and as a formula."""
    masks = ", and the same sites take part" if PRESENCE_STAYS in guarantee.adjacency else ""
    return f"{guarantee.adjacency}. {formula(guarantee.unit)}{masks}"


def dropout(statement: Statement) -> str:
    """What happens to the guarantee when a site drops out."""
    shows = " That it has no case in a round shows, and must not depend on the protected record."
    return DROPOUT.get(statement.algorithm.trust, "") + (
        shows if "PUBLIC_PRESENCE" in statement.assumptions else ""
    )


def _subject(statement: Statement, unit: UnitRecord) -> str:
    """Whom a bet is about; that there is a case at all may be seen."""
    known = (
        ", given that the site had a case in that round"
        if "PUBLIC_PRESENCE" in statement.assumptions
        else ""
    )
    return (SUBJECT if statement.by_person else unit.words) + known


def plain_words(statement: Statement) -> list[str]:
    """What an attacker learns, observer by observer; the stamp first."""
    told = []
    if statement.stamp is not None:
        follows = "What follows holds for the algorithm with secret noise of the stated laws, under the stated assumptions."
        told.append(
            f"{statement.stamp}. The noise came from public seeds: the run itself protected nobody. "
            + (follows if statement.protecting else "Nor does the algorithm guarantee anything.")
        )
    told += [_attacker(statement, curve, members) for curve, members in statement.protecting]
    for reason in dict.fromkeys(guarantee.reason for guarantee in statement.unguarded):
        against = [observer_words(g) for g in statement.unguarded if g.reason == reason]
        told.append(f"NO GUARANTEE against {listed(against)}: {reason}.")
    if statement.claimed is not None:
        told.append(claim_words(statement))
    return told


def _attacker(statement: Statement, curve: CurveRecord, members: Sequence[GuaranteeRecord]) -> str:
    """What an even bet becomes: first about the person who is worst off, as far as it is known who that may be."""
    who = listed(
        [WHO.get(members[0].observer, members[0].observer), *map(observer_words, members[1:])], "or"
    )
    unit, total = members[0].unit, members[0].total
    if curve.epsilon == 0 and curve.delta == 0:
        return f"{who} learns nothing about {_subject(statement, unit)}: what can be seen does not depend on the data."
    shown = {count: exposure(curve, total, count) for count in statement.counts}
    worst = shown.pop(statement.lead)
    begin, subject = "", _subject(statement, unit)
    if statement.lead > 1:
        begin, subject = f"{_worst_off(statement, worst)} ", "such a person"
    elif total is not None:
        begin = f"All {total.runs} runs on the same data together: {_numbers(worst)}. "
    seen = (
        "all rounds" if total is None else f"all rounds of all {total.runs} runs on the same data"
    )
    bet = _bet(worst, seen, said=bool(begin))
    return f"{begin}{who} may bet on which of two things is true of {subject}. {bet}{_others(statement, worst, shown)}"


def _worst_off(statement: Statement, worst: Exposure) -> str:
    """Who that is, and the numbers that hold for such a person."""
    records, sites = statement.details.records_per_site, statement.details.sites_per_person
    if statement.most is None:
        allowed = f"{counted(worst.records, 'record')} at one site (at how many sites: {OPEN})"
    else:
        allowed = counted(worst.records, "record") + (
            f" ({records} at each of {sites} sites)" if sites is not None and sites > 1 else ""
        )
    return f"A person may have {allowed}, one for every round: {_numbers(worst)}."


def _numbers(worst: Exposure) -> str:
    numbers = "NO GUARANTEE" if worst.delta >= 1 else quoted(worst.epsilon, worst.delta)
    return numbers + (f", {WEAK}" if worst.even_guess >= WORTHLESS else "")


def _bet(worst: Exposure, seen: str, said: bool) -> str:
    """Odds are bounded by e^epsilon only where delta is 0: otherwise they may be exceeded more often than delta says."""
    if worst.even_guess >= WORTHLESS:
        right, weak = at_most(worst.even_guess), "" if said else f" That is {WEAK}."
        return f"After seeing everything in {seen} the guess may be right {right} times in 100, instead of 50.{weak}"
    right = f"the guess is right {at_most(worst.even_guess)} times in 100, instead of 50."
    if worst.delta > 0:
        return f"After seeing everything in {seen} {right}"
    odds = rounded_up(exp(worst.epsilon), 3)
    return f"If the odds were even before, after seeing everything in {seen} they are never more than {odds} to 1, and on average {right}"


def _others(statement: Statement, worst: Exposure, shown: Mapping[int, Exposure]) -> str:
    """The same for people with more or fewer records."""
    if not shown:
        return ""
    told = listed(
        [
            f"in {counted(count, 'round')} {at_most(each.even_guess)}"
            for count, each in shown.items()
        ]
    )
    if statement.lead > 1:
        return f" For somebody with fewer: {told} times in 100."
    if statement.details.records_per_site is not None or worst.even_guess >= WORTHLESS:
        return ""
    return f" Whoever is in more rounds is protected less: {told} times in 100 (in how many one person may be: {OPEN})."


def claim_words(statement: Statement) -> str:
    """The paper's claim beside the truth."""
    claimed = statement.claimed
    assert claimed is not None
    holds = all(g.claim_holds is not False for g in statement.algorithm.guarantees)
    verdict = "the claim holds" if holds else "THE CLAIM IS NOT SUPPORTED by the proof cited here"
    true = [curve_words(curve) for curve, _ in statement.protecting]
    truth = f"the truth, proven here, is {listed(true)}" if true else "proven here is NO GUARANTEE"
    return f"Published constants: the paper claims {curve_words(claimed)}; {truth}: {verdict}."


def person_words(statement: Statement) -> str:
    """What the unit means for a person."""
    if not statement.by_person or statement.all_runs is None:
        return ""
    records, sites = statement.details.records_per_site, statement.details.sites_per_person
    begin = "One record is what one site reports about one round, with everybody who is in it: not a person, not a site."
    if records is None:
        return f"{begin} Somebody in k rounds gets k times epsilon (and a larger delta). Rounds one person may be in: {OPEN}."
    if statement.most == 1:
        return f"{begin} A person has at most one."
    here = _point_words(statement.of_records(records))
    one = (
        f"{begin} A person with at most {counted(records, 'record')} at one site: {here} (per site)"
    )
    if statement.most is None:
        return f"{one}; sites one person may be at: {OPEN}."
    return f"{one}; at up to {counted(sites or 1, 'site')}: {_point_words(statement.of_records(statement.most))} (across sites)."


def _point_words(point: Quote | None) -> str:
    return (
        "NO GUARANTEE" if point is None or point.delta >= 1 else quoted(point.epsilon, point.delta)
    )


def assumption_words(statement: Statement) -> list[str]:
    """What must be true: in plain words, with the name by which the proof knows it."""
    return [
        f"{PLAIN.get(meaning, meaning)} ({name})" for name, meaning in statement.assumptions.items()
    ]


def one_game(statement: Statement) -> bool:
    """Whether real data are protected, of which nobody but their owner knows where else they are used."""
    return statement.algorithm.data == "real" and bool(statement.protecting)


def recorded_words(statement: Statement) -> str:
    """When the run was made, or its record written: before the game, or when."""
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
    """For whom and for what: what people filled in, and nothing of what is open."""
    details = statement.details
    told = {
        "Curator": listed([f"{c['name']} ({c['type']})" for c in details.data_curators])
        if details.data_curators
        else OPEN,
        "Use": details.said("intended_use"),
        "Product": ", ".join(
            text
            for name in ("data_product_type", "data_product_sector", "data_product_region")
            if (text := details.said(name)) != OPEN
        )
        or OPEN,
        "Why this epsilon": details.said("justification"),
        "Security": details.said("security"),
        "Before the noise": details.said("preprocessing"),
        "Sources": details.said("sources"),
        "Published": details.said("publication_date"),
    }
    return [
        f"{what}: {text}{'' if text.endswith('.') else '.'}"
        for what, text in told.items()
        if text != OPEN
    ]


def collusion_words(statement: Statement) -> str:
    by: dict[int, list[str]] = {}
    for _, members in statement.protecting:
        for guarantee in members:
            by.setdefault(guarantee.colluding, []).append(observer_words(guarantee))
    if not by:
        return "There is no guarantee that collusion could break."
    alone = (
        "while no other site helps them"
        if statement.algorithm.setting["clients"] > 1
        else "(there is no other site)"
    )
    told = [
        f"against {listed(who)} " + (_helpers(count) if count else alone)
        for count, who in by.items()
    ]
    return f"The guarantee holds {listed(told)}."


def _helpers(count: int) -> str:
    others = (
        "1 other site adds its data and its"
        if count == 1
        else f"{count} other sites add their data and their"
    )
    return f"also if {'' if count == 1 else 'up to '}{others} own random numbers"


def horizon_words(statement: Statement) -> list[str]:
    """How long it holds, what comes then, and when the budget is spent."""
    rounds, guaranteed = statement.algorithm.setting["horizon"], bool(statement.protecting)
    told = [
        f"Horizon: {rounds} rounds"
        + ("; the stated numbers cover all of them together. " if guaranteed else ". ")
        + f"After round {rounds} the game is over; a new game, or going on, needs a statement of its own.",
    ]
    if statement.algorithm.when_spent:
        told.append(
            f"When the budget is spent: {statement.algorithm.when_spent}; nothing further is charged."
        )
    elif guaranteed:
        told.append(
            "When the budget is spent: the stated numbers cover every release up to the horizon, so that none goes beyond them."
        )
    if statement.algorithm.data == "real" and guaranteed:
        told.append(
            "If the process dies the game is over too: it cannot be saved; the stated numbers cover what was released. A new learner on "
            "later rounds is a new game: whoever is in both gets the sum of both."
        )
    return told


def composition_words(statement: Statement) -> str:
    one, together = statement.one_run, statement.all_runs
    if one is None or together is None:
        return "Nothing is guaranteed, so there is nothing to compose."
    told, single = f"{_within_a_run(statement.algorithm)} ", quoted(one.epsilon, one.delta)
    if not statement.repeats:
        twice = quoted(2 * one.epsilon, min(1.0, 2 * one.delta))
        told += f"Runs on the same data add up: a second one like this makes {twice}."
    else:
        told += f"The {statement.algorithm.runs} runs, one for each seed, count as runs on the same data: one makes {single}, "
        told += f"all together {quoted(together.epsilon, together.delta)}."
    return told + _beside(statement)


def _within_a_run(algorithm: AlgorithmRecord) -> str:
    """Why a run costs no more than is stated, however many releases it has."""
    if not algorithm.mechanisms:
        return "Nothing that is released depends on the data."
    if algorithm.composition == "joint":
        return "All releases of a run are accounted for together, by a joint proof."
    if algorithm.entered == 1:
        return "One record enters at most one release of a run, so that the run costs it what that one release costs."
    most = "" if algorithm.entered is None else f", at most {algorithm.entered}"
    return f"A run costs one record what those releases cost together that the record enters{most}; the others cost it nothing."


def _beside(statement: Statement) -> str:
    """What the other algorithms of a study add, for an observer who sees their runs too."""
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
    return f" The study ran {labels} on the same data too; together, {together}."


def _against(algorithm: AlgorithmRecord, observer: str) -> Point | None:
    """What an algorithm guarantees against one observer, all runs together."""
    return next((g.total or g.curve for g in algorithm.guarantees if g.observer == observer), None)


def unprotected(statement: Statement) -> list[str]:
    """What no guarantee covers."""
    told = []
    for guarantee in statement.unguarded:
        told.append(f"everything {observer_words(guarantee)} sees ({', '.join(guarantee.sees)})")
    told += [shown for name, shown in SHOWN.items() if name in statement.assumptions]
    told.append("the numbers of sites, experts and rounds, all parameters: public")
    told.append("losses, and regret or tables made of them: raw data, keep them secret")
    told.append("what is true of many records (which expert is good): learned on purpose")
    told.append("the time a computation takes, and the memory of the machines")
    return told


def audit_words(statement: Statement) -> str:
    """The result and its confidence, then what was tried."""
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
    errors = f"{caught} of {len(planted)} planted errors {'was' if len(planted) == 1 else 'were'} caught."
    if wrong:
        told = [f"NOT EVERY VERDICT AS EXPECTED: {', '.join(wrong)}. {errors}"]
    else:
        sure = min((row.confidence for row in attacks), default=1.0)
        told = [
            f"No attack got past the guarantee: {len(attacks)} tried, confidence {sure:g} for each. {errors}"
        ]
    told += [*_strongest(attacks), *_louder(audit, attacks)]
    if audit.code != statement.run.code.sha256:
        told.append(f"The audited code (sha256 {audit.code[:12]}) is not that of the run.")
    told.append(
        "Audits play small worst cases with seeded noise, not this run; they support the proof and never replace it."
    )
    return " ".join(told)


def _strongest(attacks: Sequence[AuditedCase]) -> list[str]:
    """The attack that showed most, by method, among those on the promise itself."""
    told = []
    for method in dict.fromkeys(row.method for row in attacks):
        rows = [
            row
            for row in attacks
            if row.method == method and row.of_the_promise and row.audited_epsilon is not None
        ]
        if rows:
            worst = max(rows, key=lambda row: row.audited_epsilon or 0.0)
            played = f", played with {_values(worst)}" if worst.parameters else ""
            told.append(
                f"Strongest by {method} ({worst.case}{played}): epsilon >= {worst.audited_epsilon:.4g} shown, "
                f"{rounded_up(worst.certified_epsilon)} certified there, at delta = {worst.delta:g}, confidence {worst.confidence:g}."
            )
    return told


def _louder(audit: Audit, attacks: Sequence[AuditedCase]) -> list[str]:
    """Games with another budget show that the method works, and nothing about the numbers promised here."""
    told = []
    for method in dict.fromkeys(row.method for row in audit.rows):
        rows = [row for row in attacks if row.method == method and BUDGET & set(row.parameters)]
        if rows:
            held = (
                "it held"
                if all(row.verdict == "holds" for row in rows)
                else "it did not hold everywhere"
            )
            told.append(
                f"By {method} a version with other parameters ({_values(rows[-1])}) was attacked: {held}."
            )
    return told


def _values(row: AuditedCase) -> str:
    return ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in row.parameters.items()
    )


def code_words(statement: Statement) -> str:
    code = statement.run.code
    told = f"sha256 {code.sha256} ({code.files} files)"
    if code.commit is not None:
        told += f"; commit {code.commit[:12]}" + (", changed" if code.changed else "")
    plugins = [f"{name} sha256 {sha256}" for name, sha256 in code.plugins.items()]
    return told + (f"; plugins: {', '.join(plugins)}" if plugins else "")


def floating_point_words(statement: Statement) -> str:
    """Nothing where nothing is guaranteed."""
    if not statement.protecting:
        return ""
    if "IDEAL_REALS" in statement.assumptions:
        return "assumed exact (IDEAL_REALS): its effects are not covered"
    if not statement.run.noise.secure:
        return "covered by the certificate"
    return (
        "exact integers; weights compared in floats within a proven margin (proofs/secure_noise.md)"
    )
