"""The sentences of a statement, for somebody who signs but does not calculate. Pure functions from a statement to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, exp

from hedgerow.experiments.privacy_record import AlgorithmRecord, CurveRecord, GuaranteeRecord, UnitRecord
from hedgerow.experiments.study import STAMP
from hedgerow.privacy.curves.pure import rounded_up
from hedgerow.statement.details import OPEN
from hedgerow.statement.statement import Exposure, Point, Statement, exposure, of_records

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
SUBJECT = "a person whose data are in one round at one site"
PARAMETERS = {
    "every": "rounds between exchanges",
    "best_loss": "the best expert's loss per site, at most",
    "rho": "chance of missing the published accuracy; not about privacy",
    "switches": "changes of expert allowed",
    "selection_epsilon": "epsilon of each choice of an expert",
    "threshold": "loss at which a new expert is chosen",
    "threshold_scale": "noise on the threshold",
    "query_scale": "noise on each comparison with it",
    "noise_law": "law of that noise",
    "rate": "learning rate",
}
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
    if guarantee.curve is None:
        return f"NO GUARANTEE: {guarantee.reason}"
    told, total = curve_words(guarantee.curve), guarantee.total
    return told if total is None else f"{told} in one run; all {total.runs} on the same data: {quoted(total.epsilon, total.delta)}"


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
        follows = "What follows holds for the algorithm with secret noise of the stated laws, under the stated assumptions."
        told.append(
            f"{statement.stamp}. The noise came from public seeds: the run itself protected nobody. "
            + (follows if statement.protecting else "Nor does the algorithm guarantee anything.")
        )
    told += [_attacker(statement, curve, members) for curve, members in statement.protecting]
    for reason in dict.fromkeys(guarantee.reason for guarantee in statement.unguarded):
        seeing = [_seeing(g, OBSERVERS) for g in statement.unguarded if g.reason == reason]
        told.append(f"NO GUARANTEE against {listed(seeing)}: {reason}.")
    if statement.claimed is not None and statement.weakest is not None:
        told.append(claim_words(statement))
    return told


def _seeing(guarantee: GuaranteeRecord, names: Mapping[str, str]) -> str:
    """An observer and what it sees, in words."""
    sees = listed([CHANNELS.get(channel, channel) for channel in guarantee.sees])
    return f"{names.get(guarantee.observer, guarantee.observer)} (who sees {sees})"


def _attacker(statement: Statement, curve: CurveRecord, members: Sequence[GuaranteeRecord]) -> str:
    """One example: what an even bet about somebody becomes."""
    who = listed([_seeing(g, WHO if i == 0 else OBSERVERS) for i, g in enumerate(members)], "or")
    unit, total = members[0].unit, members[0].total
    subject = SUBJECT if unit.kind == "Event" else unit.words
    if curve.epsilon == 0 and curve.delta == 0:
        return f"{who} learns nothing about {subject}: what can be seen does not depend on the data."
    shown = [exposure(curve, total, count) for count in statement.counts]
    first, *more = shown
    seen = "all rounds" if total is None else f"all rounds of all {total.runs} runs on the same data"
    but = "" if first.delta == 0 else f" (but for events of probability {rounded_up(first.delta)})"
    weak = " That is close to no protection." if first.even_guess >= WORTHLESS else ""
    return (
        f"{who} may bet on which of two things is true of {subject}. If the odds were even before, they are at most "
        f"{factor(first.epsilon)} to 1 after seeing everything in {seen}{but}: the guess is right at most "
        f"{percent(first.even_guess)} times in 100, instead of 50.{weak or _more(statement, more)}"
    )


def _more(statement: Statement, shown: Sequence[Exposure]) -> str:
    """The same for somebody with several records."""
    if not shown:
        return ""
    told = listed([f"in {each.records} rounds at most {percent(each.even_guess)}" for each in shown])
    declared = statement.details.records_per_site is not None
    return f" Whoever is in more rounds is protected less: {told} times in 100" + (
        ", which is the most that one person may be." if declared else f" (in how many one person may be: {OPEN})."
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
    """What the unit means for a person."""
    unit, weakest = statement.units[0].unit, statement.weakest
    if unit.kind != "Event" or weakest is None:
        return ""
    point = statement.total or weakest
    records, sites = statement.details.records_per_site, statement.details.sites_per_person
    begin = "One record is what one site reports about one round, with everybody who is in it: not a person, not a site."
    if records is None:
        return f"{begin} Somebody in k rounds gets k times epsilon (and a larger delta). Rounds one person may be in: {OPEN}."
    counted = f"{records} {'record' if records == 1 else 'records'}"
    one = f"{begin} A person with at most {counted} at one site: {_for_records(point, records)} (per site)"
    if sites is None:
        return f"{one}; sites one person may be at: {OPEN}."
    return f"{one}; at up to {sites} {'site' if sites == 1 else 'sites'}: {_for_records(point, records * sites)} (across sites)."


def _for_records(point: Point, records: int) -> str:
    epsilon, delta = of_records(point, records)
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
    weakest, total = statement.weakest, statement.total
    if weakest is None:
        return "Nothing is guaranteed, so there is nothing to compose."
    told, one = f"All releases of a run are accounted for {how}. ", quoted(weakest.epsilon, weakest.delta)
    if total is None:
        twice = quoted(2 * weakest.epsilon, min(1.0, 2 * weakest.delta))
        told += f"Runs on the same data add up: a second one like this makes {twice}."
    else:
        told += f"The {total.runs} runs, one for each seed, had the same recorded data: one makes {one}, "
        told += f"all together {quoted(total.epsilon, total.delta)}."
    return told + _beside(statement)


def _beside(statement: Statement) -> str:
    """What the other algorithms of a study add, for somebody who sees their runs too."""
    if not statement.also:
        return ""
    labels = listed([f"{algorithm.label!r}" for algorithm in statement.also])
    points = [_most(algorithm) for algorithm in (statement.algorithm, *statement.also)]
    known = [point for point in points if point is not None]
    summed = quoted(sum(p.epsilon for p in known), min(1.0, sum(p.delta for p in known)))
    together = summed if len(known) == len(points) else "NO GUARANTEE"
    return f" The study ran {labels} on the same data too; for whoever sees everything: {together}."


def _most(algorithm: AlgorithmRecord) -> Point | None:
    """The largest (epsilon, delta) among the observers of an algorithm who get any guarantee, all runs together."""
    points = [guarantee.total or guarantee.curve for guarantee in algorithm.guarantees]
    return max((point for point in points if point is not None), key=lambda point: (point.epsilon, point.delta), default=None)


def unprotected(statement: Statement) -> list[str]:
    """What no guarantee covers."""
    told = []
    for guarantee in statement.unguarded:
        told.append(f"everything {observer_words(guarantee)} sees ({', '.join(guarantee.sees)})")
    told.append("the numbers of clients, experts and rounds, and all parameters: they are public")
    told.append("losses, and regret or tables computed from them: raw data, not to be published")
    told.append("what is true of many records at once, such as which expert is good: that is what is learned on purpose")
    return told


def audit_words(statement: Statement) -> str:
    """The result and its confidence, then what was tried."""
    audit = statement.audit
    if audit is None:
        return "not audited"
    attacks, planted = ([row for row in audit.rows if (row.expected == "violated") is bad] for bad in (False, True))
    caught = sum(row.verdict == "violated" for row in planted)
    wrong = [f"{row.case} ({row.verdict}, expected {row.expected})" for row in audit.rows if not row.passed]
    errors = f"{caught} of {len(planted)} planted errors {'was' if len(planted) == 1 else 'were'} caught."
    if wrong:
        told = [f"NOT EVERY VERDICT AS EXPECTED: {', '.join(wrong)}. {errors}"]
    else:
        sure = min((row.confidence for row in attacks), default=1.0)
        told = [f"No attack got past the guarantee: {len(attacks)} tried, confidence {sure:g} for each. {errors}"]
    for method in dict.fromkeys(row.method for row in audit.rows):
        real = [row for row in attacks if row.method == method and row.audited_epsilon is not None]
        if real:
            worst = max(real, key=lambda row: row.audited_epsilon or 0.0)
            told.append(
                f"Strongest by {method} ({worst.case}): epsilon >= {worst.audited_epsilon:.4g} shown, "
                f"{rounded_up(worst.certified_epsilon)} certified there, at delta = {worst.delta:g}, confidence {worst.confidence:g}."
            )
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
    return "assumed exact (IDEAL_REALS): its effects are not covered" if ideal else "exact integers, covered by the certificate"
