"""Build the record of an algorithm: its curves and attacks, mechanisms and guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from math import exp, isfinite
from typing import Any, Literal

from hedgerow.core.certificate import Guarantee, NoGuarantee, PrivacyCurve
from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.protocol import Algorithm
from hedgerow.core.record import Record
from hedgerow.core.setting import LOSSES
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Unit
from hedgerow.core.validate import parameters
from hedgerow.privacy.composition.groups import repeated
from hedgerow.privacy.curves import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    LaplaceDP,
    PureDP,
    Quoted,
    ZeroConcentratedDP,
    trade_off,
)
from hedgerow.records.plain import plain
from hedgerow.records.schema import (
    AlgorithmRecord,
    Attack,
    CurveRecord,
    DeltaAt,
    GuaranteeRecord,
    MechanismRecord,
    Total,
    UnitRecord,
)

FALSE_ALARMS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, *(i / 20 for i in range(3, 21)))
# The table of deltas is read at these multiples of the stated epsilon.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
TANGENTS = 48  # lines that bound the drawn curve from above
STEEPEST = 700.0  # the largest epsilon of such a line
READ_BACK = {
    kind.__name__: kind
    for kind in (PureDP, LaplaceDP, BoundedRange, GaussianDP, ZeroConcentratedDP, ApproximateDP)
}


def _parameters(thing: Any) -> dict[str, Any]:
    return (
        {key: value for key, value in plain(thing).items() if key != "kind"}
        if is_dataclass(thing)
        else {}
    )


def _outline(curve: PrivacyCurve) -> list[Attack]:
    """The corners of the region that no attack leaves.

    With `a` false alarms and privacy (x, delta(x)), detections are at most delta(x) + exp(x) a and
    at most 1 - exp(-x) (1 - delta(x) - a).
    """
    stated, pure = min(curve.stated()[0], STEEPEST), curve.epsilon(0.0)
    lines = [(1.0, 0.0)]  # (height without false alarms, slope)
    for place in {
        *(stated * i / TANGENTS for i in range(TANGENTS + 1)),
        pure if pure < STEEPEST else 0.0,
    }:
        delta, growth = curve.delta(place), exp(place)
        lines += [(delta, growth), (1 - (1 - delta) / growth, 1 / growth)]
    start, slope = min(lines)
    corners = [Attack(0.0, start)]
    while slope > 0:
        at, slope, start = min(
            ((other - start) / (slope - rise), rise, other) for other, rise in lines if rise < slope
        )
        if at >= 1:
            break
        corners.append(Attack(at, start + slope * at))
    return [*corners, Attack(1.0, 1.0)]


def _rho(curve: PrivacyCurve) -> float | None:
    """rho, if the guarantee is stated as zero-concentrated DP; otherwise None."""
    return curve.rho if isinstance(curve, ZeroConcentratedDP) else None


def curve_record(curve: PrivacyCurve) -> CurveRecord | None:
    """The record of a curve; None if no finite epsilon is guaranteed.

    Equal curves, which are common in experiments, are computed once.
    """
    try:
        hash(curve)
    except TypeError:
        return _computed.__wrapped__(curve)
    return _computed(curve)


@lru_cache(maxsize=512)
def _computed(curve: PrivacyCurve) -> CurveRecord | None:
    epsilon, delta = curve.stated()
    if isinstance(curve, NoGuarantee) or not isfinite(epsilon):
        return None
    places = [share * epsilon for share in SHARES] if epsilon > 0 else [0.0]
    even_guess = (1 + curve.delta(0.0)) / 2
    # Curves have a kink where misses and false alarms are equally likely.
    alarms = sorted({*FALSE_ALARMS, 1 - even_guess})
    detections = [
        min(1.0, max(a, 1 - float(miss)))
        for a, miss in zip(alarms, trade_off(curve, alarms), strict=True)
    ]
    return CurveRecord(
        kind=type(curve).__name__,
        words=curve.words(),
        epsilon=epsilon,
        delta=delta,
        rho=_rho(curve),
        parameters=_parameters(curve),
        table=[DeltaAt(place, curve.delta(place)) for place in places],
        attacks=[Attack(a, found) for a, found in zip(alarms, detections, strict=True)],
        outline=_outline(curve),
        even_guess=even_guess,
    )


def curve_of(record: CurveRecord) -> PrivacyCurve | None:
    """The curve of a record, for rules that need all of it; None if its kind is not read back."""
    curve = _read_back({"kind": record.kind, **record.parameters})
    same = curve is not None and curve.stated() == (record.epsilon, record.delta)
    return curve if same else None


def _read_back(values: Mapping[str, Any]) -> PrivacyCurve | None:
    kind, rest = values["kind"], {name: v for name, v in values.items() if name != "kind"}
    if kind == Quoted.__name__:
        inside = _read_back(rest["curve"])
        return None if inside is None else Quoted(inside, rest["at_delta"])
    return READ_BACK[kind](**rest) if kind in READ_BACK else None


def _total(guarantee: Guarantee, runs: int) -> Total | None:
    if runs == 1 or not guarantee.protects:
        return None
    curve = repeated(guarantee.curve, runs)
    return Total(runs, curve.words(), *curve.stated(), _rho(curve))


def _reason(curve: PrivacyCurve) -> str | None:
    """Why there is no finite epsilon; None if there is one."""
    if isinstance(curve, NoGuarantee):
        return curve.reason
    return None if isfinite(curve.stated()[0]) else "epsilon is unbounded"


def unit_record(unit: Unit) -> UnitRecord:
    """The record of a unit, with its words and its formula."""
    parameters = {name: value for name, value in _parameters(unit).items() if name != "record"}
    return UnitRecord(type(unit).__name__, unit.noun, unit.words(), unit.formula(), parameters)


def guarantee_record(guarantee: Guarantee, runs: int = 1) -> GuaranteeRecord:
    """The guarantee against one observer, after one run and after all `runs` on the same data."""
    claimed = None if guarantee.claimed is None else curve_record(guarantee.claimed)
    return GuaranteeRecord(
        observer=guarantee.observer.value,
        sees=sorted(channel.value for channel in guarantee.view),
        unit=unit_record(guarantee.unit),
        adjacency=guarantee.adjacency,
        colluding=guarantee.colluding,
        horizon=guarantee.horizon,
        bounds=guarantee.bounds,
        curve=curve_record(guarantee.curve),
        total=_total(guarantee, runs),
        reason=_reason(guarantee.curve),
        claimed=claimed,
        claim_holds=None
        if claimed is None
        else guarantee.curve.delta(claimed.epsilon) <= claimed.delta,
        assumes={a.name: a.meaning for a in sorted(guarantee.assumes, key=lambda a: a.name)},
        proof=None if guarantee.proof is None else guarantee.proof.words(),
    )


def _mechanism(mechanism: Mechanism) -> MechanismRecord:
    return MechanismRecord(
        name=type(mechanism).__name__,
        purpose=mechanism.purpose,
        law=mechanism.words(),
        scale=mechanism.noise_scale(),
        sensitivity=mechanism.sensitivity,
        parameters=_parameters(mechanism),
    )


def choices_of(spec: Any) -> dict[str, Any]:
    """The parameters of a specification that are not None; its plan is a table."""
    found = {name: value for name, value in parameters(spec).items() if value is not None}
    if "unit" in found:
        found["unit"] = parse_unit(found["unit"]).text()
    return found | {"plan": choices_of(found["plan"])} if "plan" in found else found


def _record_of(algorithm: Algorithm) -> Record:
    """What a record is in the certificate; it must fit the loss family of the game."""
    family = algorithm.setting.family
    for record in {guarantee.unit.record for guarantee in algorithm.certificate.guarantees}:
        named = record.holds_charges if family.linear else record.name == family.record.name
        if not named or (record.charge, record.bounds) != (
            family.record.charge,
            family.record.bounds,
        ):
            raise InvalidValue(
                f"The certificate of {algorithm.name} is about a record called {record.name!r}, "
                f"but in this game it is {family.record.name!r}. "
                "Make its units with record=setting.family.record."
            )
    return algorithm.certificate.guarantees[0].unit.record


def algorithm_record(
    label: str,
    algorithm: Algorithm,
    choices: dict[str, Any],
    data: Literal["drawn", "recorded", "real"],
    runs: int = 1,
    environment: Mapping[str, Any] | None = None,
    losses: str | None = None,
) -> AlgorithmRecord:
    """The record of one algorithm.

    Parameters
    ----------
    label
        The name of the algorithm in the run.
    algorithm
        The algorithm.
    choices
        The parameters that the user set.
    data
        Drawn again for every seed, recorded, or real (a deployment).
    runs
        The number of runs on the same data.
    environment
        The environment as plain values.
    losses
        A fingerprint of all recorded losses, if there is one.
    """
    certificate, setting = algorithm.certificate, algorithm.setting
    record = _record_of(algorithm)
    deciders = {} if algorithm.decider is None else {"deciders": setting.players}
    return AlgorithmRecord(
        label=label,
        algorithm=algorithm.name,
        calibration=certificate.calibration,
        trust=certificate.trust,
        composition=certificate.composition,
        when_spent=certificate.when_spent,
        setting={
            "clients": setting.clients,
            "experts" if setting.family.linear else "coordinates": setting.experts,
            "horizon": setting.horizon,
            **deciders,
            **({} if setting.family == LOSSES else {"family": repr(setting.family)}),
        },
        choices=plain(choices),
        parameters=plain(algorithm.parameters),
        data=data,
        runs=runs,
        environment=plain(environment or {}),
        losses=losses,
        channels={name: channel.value for name, channel in certificate.channels.items()},
        mechanisms=[_mechanism(mechanism) for mechanism in certificate.mechanisms],
        guarantees=[guarantee_record(guarantee, runs) for guarantee in certificate.guarantees],
        entered=certificate.entered,
        separate=certificate.separate,
        plays=algorithm.plays,
        record=record,
    )
