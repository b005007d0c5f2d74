"""`hedgerow certify NAME`."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Annotated, Any

import typer

from hedgerow.algorithms import printed
from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.cli.options import Debug, Json, Plugins, Settings, apply_options
from hedgerow.cli.output import OUT, print_indented, print_json
from hedgerow.core.batch import Batch
from hedgerow.core.convex import FAMILIES
from hedgerow.core.errors import InvalidValue
from hedgerow.core.losses import Family
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.core.validate import nearest, parameters
from hedgerow.engines.communication import communication
from hedgerow.engines.learner import Learner
from hedgerow.environments.adversaries import bound_for
from hedgerow.evaluation.summary import bound_words
from hedgerow.privacy.curves import GaussianDP
from hedgerow.privacy.curves.pure import bounded_range_words
from hedgerow.privacy.secure import SecureNoise
from hedgerow.records.build import algorithm_record, choices_of
from hedgerow.records.plain import typed
from hedgerow.records.schema import AlgorithmRecord, CurveRecord, GuaranteeRecord, record_to_json
from hedgerow.statement.page import pairs
from hedgerow.statement.words.phrases import player, quoted, shown_setting
from hedgerow.studies.config import parse_setting
from hedgerow.studies.study import budget_notes

MU = (
    "mu: telling two neighbouring data sets apart is as hard as telling a normal variable with mean"
    " 0 from one with mean mu. Small is private."
)
FRAME: dict[str, Any] = {"clients": 10, "experts": 100, "horizon": 512}


def build_from_settings(
    name: str, settings: list[str], secure: bool = False
) -> tuple[AlgorithmSpec, Algorithm]:
    """Build a specification and its algorithm from `key=value` texts.

    The keys clients, experts, horizon (`none` for a game without one), deciders and family (such as
    `family=logistic`, `family.radius=2`, and `family.size=5` for five records of a client in every
    round) belong to the setting.
    With `secure`, the algorithm is that of a learner on real data.
    """
    kind = ALGORITHMS[name]
    given = dict(parse_setting(text) for text in settings)
    frame = {key: given.pop(key, value) for key, value in FRAME.items()}
    if str(frame["horizon"]).lower() == "none":
        frame["horizon"] = None
    family = _family(given, kind.traits.family or LOSSES)
    known = [*(f.name for f in fields(kind) if f.init), *FRAME, "deciders", "family"]
    frame |= {key: given.pop(key) for key in ("deciders",) if key in given}
    for key in given:
        if key not in known:
            raise InvalidValue(f"Unknown key {key} for {name}; {nearest(key, known)}")
    spec = typed(kind, given, name)
    setting = replace(typed(Setting, frame, "setting"), family=family)
    if not secure:
        return spec, spec.build(setting)
    game = {f.name: getattr(setting, f.name) for f in fields(setting)}
    return spec, Learner.private(spec, **game, source=SecureNoise()).algorithm


def _family(given: dict[str, Any], usual: Family) -> Family:
    """Take the loss family out of the settings: `family=logistic`, `family.radius=2`.

    Where no family is named, it is the usual one of the algorithm.
    """
    prefix, size = "family.", given.pop("family.size", None)
    names = [key for key in given if key.startswith(prefix)]
    choices = {key.removeprefix(prefix): given.pop(key) for key in names}
    one: Any = usual.of if isinstance(usual, Batch) else usual
    name = given.pop("family", None)
    if name is None:
        one = typed(type(one), {**parameters(one), **choices}, "family") if choices else one
        size = usual.size if size is None and isinstance(usual, Batch) else size
    elif not isinstance(name, str) or name not in FAMILIES:
        hint = nearest(str(name), FAMILIES)
        raise InvalidValue(
            f"Unknown family {name}; {hint} Its parameters are set by family.NAME=VALUE."
        )
    else:
        one = typed(FAMILIES[name], choices, "family")
    return one if size is None else Batch(one, size)


def _collusion(others: int) -> str:
    return (
        f", also if {others} other {'client colludes' if others == 1 else 'clients collude'}"
        if others
        else ""
    )


def _bound_table(bound: RegretBound | None, family: Family) -> dict[str, Any]:
    if bound is None:
        return {"regret_bound": None, "regret_bound_for": None, "regret_bound_proof": None}
    return {
        "regret_bound": bound.value,
        "regret_bound_for": bound_for(bound, family),
        "regret_bound_proof": bound.proof.words(),
    }


def certify(
    name: Annotated[str, typer.Argument(help="An algorithm; see `hedgerow list`.")],
    settings: Settings = None,
    json: Json = False,
    plugin: Plugins = None,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="Certify for real data: noise from the system's entropy."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Print the certificate: what each observer can learn.

    For every observer: the epsilon and delta, what is protected, the assumptions and the proof.
    Also the regret bound, and how many numbers and bytes are sent.

    Example: hedgerow certify sparse_vector --set epsilon=1 --set clients=10 --set horizon=1000

    Keys of --set: the parameters of the algorithm, and clients, experts, horizon (`none` for a game
    without one), deciders, family (such as logistic) and its parameters (such as family.radius);
    family.size is the number of records of a client in every round.
    """
    apply_options(plugin)
    spec, algorithm = build_from_settings(name, settings or [], secure)
    record = algorithm_record(
        name, algorithm, {"name": name, **choices_of(spec)}, "real" if secure else "drawn"
    )
    bound = _bound_table(algorithm.claims.regret_bound, algorithm.setting.family)
    printed.load()
    theirs = printed.printed_regret(spec, algorithm.setting)
    bound["printed_regret_bound"] = None if theirs is None else asdict(theirs)
    sent = _communication(spec, algorithm)
    notes = budget_notes(algorithm)
    if json:
        print_json({**record_to_json(record), **bound, "communication": sent, "notes": notes})
        return
    other = f"proven_{name}" if f"proven_{name}" in ALGORITHMS else None
    _show(record, bound, sent, notes, other)


def _communication(spec: AlgorithmSpec, algorithm: Algorithm) -> dict[str, Any] | None:
    """What the whole game sends, and what the theorem says; None without a horizon."""
    found = communication(algorithm)
    if found is None:
        return None
    theirs = printed.printed_numbers(spec, algorithm.setting)
    return {**asdict(found), "printed": None if theirs is None else asdict(theirs)}


def _sent_words(sent: dict[str, Any]) -> list[str]:
    about = "" if sent["counted"] else "about "
    counts = f"{sent['numbers']:,} numbers and {sent['bytes']:,} bytes"
    lines = [f"sends {about}{counts} in {sent['exchanges']:,} exchanges, if it does not end early"]
    if sent["printed"] is not None:
        formula, value, source = (sent["printed"][key] for key in ("formula", "value", "source"))
        theirs = f"{formula} = {value:,.0f} numbers, times a hidden constant"
        lines.append(f"Gao et al. 2024, {source}: {theirs}")
    return lines


def _printed_words(theirs: dict[str, Any], rounds: int) -> str:
    text = f"{theirs['source']}: regret at most {theirs['formula']} = {theirs['value']:,.0f}"
    if theirs["hidden_constant"]:
        return f"{text}, times a hidden constant"
    return text if theirs["value"] < rounds else f"{text} (vacuous: there are {rounds:,} rounds)"


def _show(
    record: AlgorithmRecord,
    bound: dict[str, Any],
    sent: dict[str, Any] | None,
    notes: list[str],
    proved: str | None,
) -> None:
    frame = ", ".join(f"{key} = {value}" for key, value in shown_setting(record).items())
    certified = f"calibration {record.calibration}, trust {record.trust}"
    OUT.print(f"[bold]{record.label}[/bold], {certified}; {frame}")
    for key, value in record.parameters.items():
        if bound.get(key) is None:  # otherwise stated below, with its source
            print_indented(f"{pairs({key: value}, record.label)}")
    if bound["regret_bound"] is not None:
        value, losses = bound_words(bound["regret_bound"]), bound["regret_bound_for"]
        print_indented(f"expected regret per {player(record)} at most {value}, for {losses}")
        print_indented(f"proof of this bound: {bound['regret_bound_proof']}")
    else:
        hint = "" if proved is None else f"; {proved} has one"
        print_indented(f"no bound on the regret is proven for these choices{hint}")
    if bound["printed_regret_bound"] is not None:
        print_indented(_printed_words(bound["printed_regret_bound"], record.setting["horizon"]))
    for line in () if sent is None else _sent_words(sent):
        print_indented(line)
    for note in notes:
        print_indented(f"note: {note}")
    for guarantee in record.guarantees:
        _show_guarantee(guarantee)
    meaning = bounded_range_words(
        [guarantee.curve.words for guarantee in record.guarantees if guarantee.curve is not None]
    )
    if meaning:
        OUT.print(f"\n{meaning}", markup=False)
    if any(_gaussian(guarantee.curve) for guarantee in record.guarantees):
        OUT.print(f"\n{MU}", markup=False)


def _gaussian(curve: CurveRecord | None) -> bool:
    return curve is not None and curve.kind == GaussianDP.__name__


def _curve(curve: CurveRecord) -> str:
    """The guarantee in words; mu also as epsilon and delta."""
    if not _gaussian(curve):
        return curve.words
    return f"{curve.words}: {quoted(curve.epsilon, curve.delta)}"


def _show_guarantee(guarantee: GuaranteeRecord) -> None:
    OUT.print(f"\n[bold]{guarantee.observer}[/bold] sees {', '.join(guarantee.sees)}")
    curve = (
        f"no guarantee ({guarantee.reason})" if guarantee.curve is None else _curve(guarantee.curve)
    )
    print_indented(curve, style="red" if guarantee.curve is None else "green")
    if guarantee.claimed is not None:
        claim = f"epsilon = {guarantee.claimed.epsilon:.4g}, delta = {guarantee.claimed.delta:.4g}"
        print_indented(f"the paper claims {claim}")
    if guarantee.curve is None:
        return
    print_indented(f"protects {guarantee.unit.words}{_collusion(guarantee.colluding)}")
    print_indented(f"neighbours: {guarantee.adjacency}")
    for assumption, meaning in guarantee.assumes.items():
        print_indented(f"assumes {assumption}: {meaning}")
    print_indented(f"proof: {guarantee.proof}")
