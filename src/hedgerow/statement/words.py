"""The sentences of a statement, for somebody who signs but does not calculate. Pure functions from a statement to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, exp

from hedgerow.experiments.privacy_record import CurveRecord, GuaranteeRecord, UnitRecord
from hedgerow.experiments.study import STAMP
from hedgerow.privacy.curves.pure import rounded_up
from hedgerow.statement.details import OPEN
from hedgerow.statement.statement import Statement, of_records

OBSERVERS = {"server": "the server", "peer": "another site", "public": "the public"}
WHO = {"server": "Whoever runs the server", "peer": "Another site", "public": "An outsider"}
CHANNELS = {
    "uploads": "what each site sends to the server",
    "sum of uploads": "the sum of what the sites send",
    "broadcasts": "what the server sends back",
    "plays": "which expert each site follows",
    "timing": "when the sites talk",
}
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
    "Site": "D ~ D' if, for some client i, l_(j,s) = l'_(j,s) for all other clients j and all rounds s",
}
DEFINITION = "Pr[view(D) in S] <= e^epsilon Pr[view(D') in S] + delta for all D ~ D' and every set S of views"
LOUD = ("NO GUARANTEE", "NOT SECURE", "THE CLAIM IS NOT", "NOT EVERY VERDICT", STAMP)
WORTHLESS = 0.99  # an even guess that is right so often leaves nothing to protect


def is_loud(text: str) -> bool:
    """Whether a sentence must not be overlooked."""
    return any(mark in text for mark in LOUD)


def listed(items: Sequence[str], last: str = "and") -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def percent(share: float) -> str:
    """In 100, rounded upward."""
    return f"{min(100.0, ceil(share * 1000 - 1e-9) / 10):g}"


def quoted(epsilon: float, delta: float) -> str:
    return f"epsilon = {rounded_up(epsilon)}, delta = {rounded_up(delta)}"


def curve_words(curve: CurveRecord) -> str:
    """The curve's own parameters and, where they are others, the converted (epsilon, delta)."""
    both = quoted(curve.epsilon, curve.delta)
    return both if curve.words == both else f"{curve.words}; converted: {both}"


def observer_words(guarantee: GuaranteeRecord) -> str:
    return OBSERVERS.get(guarantee.observer, guarantee.observer)


def guarantee_words(guarantee: GuaranteeRecord) -> str:
    return f"NO GUARANTEE: {guarantee.reason}" if guarantee.curve is None else curve_words(guarantee.curve)


def formula(unit: UnitRecord) -> str:
    return FORMULAS.get(unit.kind, unit.words).format(**unit.parameters)


def neighbours(guarantee: GuaranteeRecord) -> str:
    """Adjacency in words and as a formula."""
    return f"{guarantee.adjacency}. {formula(guarantee.unit)}"


def factor(epsilon: float) -> str:
    return rounded_up(exp(epsilon), 3) if epsilon < 40 else f"e^{rounded_up(epsilon)}"


def plain_words(statement: Statement) -> list[str]:
    """What an attacker learns, observer by observer; the stamp first."""
    told = []
    if statement.stamp is not None:
        follows = "What follows is what the algorithm guarantees with secret noise of the stated laws, under the stated assumptions."
        told.append(
            f"{statement.stamp}. The noise of this run came from public seeds, so the run itself protected nobody. "
            + (follows if statement.protecting else "Nor does the algorithm guarantee anything.")
        )
    told += [_attacker(curve, members) for curve, members in statement.protecting]
    for reason in dict.fromkeys(guarantee.reason for guarantee in statement.unguarded):
        seeing = [_seeing(g, OBSERVERS) for g in statement.unguarded if g.reason == reason]
        told.append(f"NO GUARANTEE against {listed(seeing)}: {reason}.")
    if statement.claimed is not None and statement.weakest is not None:
        told.append(claim_words(statement))
    if (statement.details.records_per_site or 1) * (statement.details.sites_per_person or 1) > 1 and statement.weakest is not None:
        told.append(f"This is about one record. {person_words(statement)}")
    return told


def _seeing(guarantee: GuaranteeRecord, names: Mapping[str, str]) -> str:
    """An observer and what it sees, in words."""
    sees = listed([CHANNELS.get(channel, channel) for channel in guarantee.sees])
    return f"{names.get(guarantee.observer, guarantee.observer)} (who sees {sees})"


def _attacker(curve: CurveRecord, members: Sequence[GuaranteeRecord]) -> str:
    who = listed([_seeing(g, WHO if i == 0 else OBSERVERS) for i, g in enumerate(members)], "or")
    unit = members[0].unit.words
    if curve.epsilon == 0 and curve.delta == 0:
        return f"{who} learns nothing about {unit}: what can be seen does not depend on the data."
    but = "" if curve.delta == 0 else f", but for events of probability {rounded_up(curve.delta)}"
    weak = " At this epsilon that is close to no protection." if curve.even_guess >= WORTHLESS else ""
    return (
        f"{who} may try to find out {unit}. Nothing that can be seen is more than {factor(curve.epsilon)} times likelier under "
        f"one value of it than under another{but}. So an attack that may raise 5 false alarms in 100 finds the truth in at most "
        f"{percent(curve.detections(0.05))} cases of 100 (5 without looking), and a guess between two equally likely values is right "
        f"at most {percent(curve.even_guess)} times in 100 (50 without looking).{weak}"
    )


def claim_words(statement: Statement) -> str:
    """The paper's claim beside the truth."""
    claimed, true = statement.claimed, statement.weakest
    assert claimed is not None
    assert true is not None
    holds = all(g.claim_holds is not False for g in statement.algorithm.guarantees)
    verdict = "the claim holds" if holds else "THE CLAIM IS NOT SUPPORTED by the proof cited here"
    return f"Published constants: the paper claims {curve_words(claimed)}; the truth, proven here, is {curve_words(true)}: {verdict}."


def person_words(statement: Statement) -> str:
    """What the guarantee means for a person with several records."""
    unit, weakest = statement.units[0].unit, statement.weakest
    if unit.kind != "Event" or weakest is None:
        return f"The unit is {unit.words}."
    records, sites = statement.details.records_per_site, statement.details.sites_per_person
    begin = "The unit is one record: not a person, not a site."
    if records is None:
        return f"{begin} Somebody with k records gets k times epsilon (and a larger delta). Records of one person per site: {OPEN}."
    counted = f"{records} {'record' if records == 1 else 'records'}"
    one = f"{begin} A person with at most {counted} at one site: {_for_records(weakest, records)} (per site)"
    if sites is None:
        return f"{one}; sites one person may be at: {OPEN}."
    return f"{one}; at up to {sites} {'site' if sites == 1 else 'sites'}: {_for_records(weakest, records * sites)} (across sites)."


def _for_records(curve: CurveRecord, records: int) -> str:
    epsilon, delta = of_records(curve, records)
    return "NO GUARANTEE" if delta >= 1 else quoted(epsilon, delta)


def collusion_words(statement: Statement) -> str:
    by: dict[int, list[str]] = {}
    for _, members in statement.protecting:
        for guarantee in members:
            by.setdefault(guarantee.colluding, []).append(observer_words(guarantee))
    if not by:
        return "There is no guarantee that collusion could break."
    alone = "while no other site helps them" if statement.algorithm.setting["clients"] > 1 else "(there is no other site)"
    told = [
        f"against {listed(who)} " + (f"also if up to {count} other sites add their data and coins" if count else alone)
        for count, who in by.items()
    ]
    return f"The guarantee holds {listed(told)}."


def horizon_words(statement: Statement) -> list[str]:
    """How long it holds, what comes then, and when the budget is spent."""
    rounds = statement.algorithm.setting["horizon"]
    told = [
        f"Horizon: {rounds} rounds; the stated numbers cover all of them together.",
        f"After round {rounds} the game is over and nothing more is released; a new game, or going on, needs a statement of its own.",
    ]
    if statement.algorithm.when_spent:
        told.append(f"When the budget is spent: {statement.algorithm.when_spent}; nothing further is charged.")
    elif statement.protecting:
        told.append("When the budget is spent: the stated numbers cover every release up to the horizon, so that none goes beyond them.")
    return told


def composition_words(statement: Statement) -> str:
    how = "by a joint proof" if statement.algorithm.composition == "joint" else "as the sum of the single releases"
    weakest = statement.weakest
    if weakest is None:
        return "Nothing is guaranteed, so there is nothing to compose."
    twice = quoted(2 * weakest.epsilon, min(1.0, 2 * weakest.delta))
    return (
        f"All releases of the run are accounted for {how}. Runs on the same data add up, seeds of one study included: "
        f"a second such run makes {twice}."
    )


def unprotected(statement: Statement) -> list[str]:
    """What no guarantee covers."""
    told = []
    for guarantee in statement.unguarded:
        told.append(f"everything {observer_words(guarantee)} sees ({', '.join(guarantee.sees)})")
    told.append("the numbers of clients, experts and rounds, and all parameters: they are public")
    told.append("losses and regret in this run folder: computed from raw data, not to be published")
    told.append("what is true of many records at once, such as which expert is good: that is what is learned on purpose")
    return told


def audit_words(statement: Statement) -> str:
    audit = statement.audit
    if audit is None:
        return "not audited"
    planted = [row for row in audit.rows if row.expected == "violated"]
    caught = sum(row.verdict == "violated" for row in planted)
    wrong = [f"{row.case} ({row.verdict}, expected {row.expected})" for row in audit.rows if not row.passed]
    told = [
        f"{len(audit.rows)} cases, " + (f"NOT EVERY VERDICT AS EXPECTED: {', '.join(wrong)}." if wrong else "every verdict as expected.")
    ]
    if not wrong:
        told.append("No attack got past what is guaranteed. Each number below stands beside what is certified at the same delta.")
    for method in dict.fromkeys(row.method for row in audit.rows):
        real = [row for row in audit.rows if row.method == method and row.expected == "holds" and row.audited_epsilon is not None]
        if real:
            worst = max(real, key=lambda row: row.audited_epsilon or 0.0)
            told.append(
                f"Strongest attack, {method} ({worst.case}): epsilon >= {worst.audited_epsilon:.4g} shown, "
                f"{rounded_up(worst.certified_epsilon)} certified there, at delta = {worst.delta:g}, confidence {worst.confidence:g}."
            )
    told.append(f"{caught} of {len(planted)} planted errors were caught.")
    if audit.code != statement.run.code.sha256:
        told.append(f"The audited code (sha256 {audit.code[:12]}) is not that of the run.")
    told.append("Audits attack small worst cases with these parameters, not this run; they support the proof and never replace it.")
    return " ".join(told)


def code_words(statement: Statement) -> str:
    code = statement.run.code
    told = f"sha256 {code.sha256} of {code.files} source files"
    if code.commit is not None:
        told += f"; commit {code.commit}" + (" with local changes" if code.changed else "")
    plugins = [f"{name} sha256 {sha256}" for name, sha256 in code.plugins.items()]
    return told + (f"; plugins: {', '.join(plugins)}" if plugins else "")


def floating_point_words(statement: Statement) -> str:
    ideal = "IDEAL_REALS" in statement.assumptions
    return "assumed exact (IDEAL_REALS): floating-point effects are not covered" if ideal else "covered by the certificate"
