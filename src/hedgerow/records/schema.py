"""`privacy.json` of a run folder: all that a privacy statement rests on, taken when the run is made; no later code can change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import exp, isfinite
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from hedgerow.core.certificate import ENTROPY, IDEAL_REALS, Guarantee, NoGuarantee, PrivacyCurve
from hedgerow.core.environment import Environment
from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.protocol import Algorithm
from hedgerow.privacy.composition.repetition import repeated
from hedgerow.privacy.curves import ZeroConcentratedDP, trade_off
from hedgerow.records.provenance import Code, NoiseRecord, code, seeded_noise, versions
from hedgerow.studies.config import to_table
from hedgerow.studies.run import STAMP, Study
from hedgerow.studies.storage.unfinished import refuse_unfinished
from hedgerow.version import __version__

FILE = "privacy.json"
FORMAT = "hedgerow privacy record 3"
FALSE_ALARMS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, *(i / 20 for i in range(3, 21)))
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # of the stated epsilon: where the table of deltas is read
TANGENTS = 48  # lines by which a curve is drawn from above
STEEPEST = 700.0  # the largest epsilon of such a line


@dataclass(frozen=True)
class DeltaAt:
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Attack:
    """The best attack with this rate of false alarms detects at most so often."""

    false_alarms: float
    detections: float


@dataclass(frozen=True)
class CurveRecord:
    """A curve: the (epsilon, delta) by which it is quoted, its own parameters, and how well the best attack does.

    `even_guess` bounds how often a guess between two equally likely worlds is right. `outline` holds the corners of a polygon that
    no attack lies above: what is drawn.
    """

    kind: str
    words: str
    epsilon: float
    delta: float
    rho: float | None
    parameters: dict[str, Any]
    table: list[DeltaAt]
    attacks: list[Attack]
    outline: list[Attack]
    even_guess: float

    def detections(self, false_alarms: float) -> float:
        return next(a.detections for a in self.attacks if a.false_alarms == false_alarms)


@dataclass(frozen=True)
class Total:
    """What all runs on the same data guarantee together."""

    runs: int
    words: str
    epsilon: float
    delta: float
    rho: float | None


@dataclass(frozen=True)
class UnitRecord:
    kind: str
    words: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class GuaranteeRecord:
    """`curve` is None where nothing is guaranteed, and `reason` says why; `claim_holds`: whether `curve` lies below the claim.

    `total` is None where every run had data of its own.
    """

    observer: str
    sees: list[str]
    unit: UnitRecord
    adjacency: str
    colluding: int
    horizon: int | None
    bounds: tuple[float, float]
    curve: CurveRecord | None
    total: Total | None
    reason: str | None
    claimed: CurveRecord | None
    claim_holds: bool | None
    assumes: dict[str, str]
    proof: str | None


@dataclass(frozen=True)
class MechanismRecord:
    name: str
    purpose: str
    law: str
    scale: float | None
    sensitivity: float | None
    parameters: dict[str, Any]


@dataclass(frozen=True)
class AlgorithmRecord:
    """`choices` are what the user set, `parameters` what was derived from them.

    `data`: "drawn" anew for every seed, "recorded" (every seed counts as one more run on the same data), or "real", of a deployment.
    `losses` is a fingerprint of recorded losses as a whole; None where there is none, and then nothing says whether data differ.
    `entered` is the largest number of releases that one record enters; None where it is not known.
    """

    label: str
    algorithm: str
    calibration: str
    trust: str
    composition: str
    when_spent: str
    setting: dict[str, int]
    choices: dict[str, Any]
    parameters: dict[str, Any]
    data: Literal["drawn", "recorded", "real"]
    runs: int
    environment: dict[str, Any]
    losses: str | None
    channels: dict[str, str]
    mechanisms: list[MechanismRecord]
    guarantees: list[GuaranteeRecord]
    entered: int | None = None


@dataclass(frozen=True)
class RunRecord:
    """`played` is how many rounds were over when the record of a deployment was written; None for a simulation."""

    format: str
    title: str
    run: str
    written: str
    played: int | None
    stamp: str | None
    noise: NoiseRecord
    code: Code
    versions: dict[str, str]
    algorithms: list[AlgorithmRecord]

    def __post_init__(self) -> None:
        """A simulation is stamped; only real data with exact noise from entropy are not."""
        if self.stamp is None and not self.noise.secure:
            raise InvalidValue(f"Expected the stamp {STAMP!r} on a record whose noise is {self.noise.source}.")
        if self.noise.secure:
            promises = [g for algorithm in self.algorithms for g in algorithm.guarantees if g.curve is not None and g.curve.epsilon > 0]
            simulated = any(algorithm.data != "real" or algorithm.environment for algorithm in self.algorithms)
            if simulated or any(IDEAL_REALS.name in g.assumes or ENTROPY.name not in g.assumes for g in promises):
                rule = "for real data, under ENTROPY and not under IDEAL_REALS"
                raise InvalidValue(f"Expected secure noise only {rule}; this record says otherwise.")


def plain(value: Any) -> Any:
    """Numbers, text and structures of them; what is neither is named."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **{f.name: plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else getattr(value, "__name__", repr(value))


def _parameters(thing: Any) -> dict[str, Any]:
    return {key: value for key, value in plain(thing).items() if key != "kind"} if is_dataclass(thing) else {}


def _outline(curve: PrivacyCurve) -> list[Attack]:
    """The corners of the region below the lines found = delta(e) + e^e alarms and found = 1 - e^-e (1 - delta(e) - alarms)."""
    stated, pure = min(curve.stated()[0], STEEPEST), curve.epsilon(0.0)
    lines = [(1.0, 0.0)]  # height without false alarms, and slope
    for place in {*(stated * i / TANGENTS for i in range(TANGENTS + 1)), pure if pure < STEEPEST else 0.0}:
        delta, growth = curve.delta(place), exp(place)
        lines += [(delta, growth), (1 - (1 - delta) / growth, 1 / growth)]
    start, slope = min(lines)
    corners = [Attack(0.0, start)]
    while slope > 0:
        at, slope, start = min(((other - start) / (slope - rise), rise, other) for other, rise in lines if rise < slope)
        if at >= 1:
            break
        corners.append(Attack(at, start + slope * at))
    return [*corners, Attack(1.0, 1.0)]


def _rho(curve: PrivacyCurve) -> float | None:
    """rho, where the guarantee is stated as zero-concentrated DP."""
    return curve.rho if isinstance(curve, ZeroConcentratedDP) else None


def _curve(curve: PrivacyCurve) -> CurveRecord | None:
    """None where no finite epsilon is guaranteed. Equal curves, which experiments have in many studies, are worked out once."""
    try:
        hash(curve)
    except TypeError:
        return _worked_out.__wrapped__(curve)
    return _worked_out(curve)


@lru_cache(maxsize=512)
def _worked_out(curve: PrivacyCurve) -> CurveRecord | None:
    epsilon, delta = curve.stated()
    if isinstance(curve, NoGuarantee) or not isfinite(epsilon):
        return None
    places = [share * epsilon for share in SHARES] if epsilon > 0 else [0.0]
    even_guess = (1 + curve.delta(0.0)) / 2
    alarms = sorted({*FALSE_ALARMS, 1 - even_guess})  # with as many misses as false alarms: where curves have their kink
    detections = [min(1.0, max(a, 1 - float(miss))) for a, miss in zip(alarms, trade_off(curve, alarms), strict=True)]
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


def _total(guarantee: Guarantee, runs: int) -> Total | None:
    if runs == 1 or not guarantee.protects:
        return None
    curve = repeated(guarantee.curve, runs)
    return Total(runs, curve.words(), *curve.stated(), _rho(curve))


def _guarantee(guarantee: Guarantee, runs: int) -> GuaranteeRecord:
    table = guarantee.to_dict()
    claimed = None if guarantee.claimed is None else _curve(guarantee.claimed)
    return GuaranteeRecord(
        observer=table["observer"],
        sees=table["sees"],
        unit=UnitRecord(type(guarantee.unit).__name__, guarantee.unit.words(), _parameters(guarantee.unit)),
        adjacency=guarantee.adjacency,
        colluding=guarantee.colluding,
        horizon=guarantee.horizon,
        bounds=guarantee.bounds,
        curve=_curve(guarantee.curve),
        total=_total(guarantee, runs),
        reason=table["reason"],
        claimed=claimed,
        claim_holds=None if claimed is None else guarantee.curve.delta(claimed.epsilon) <= claimed.delta,
        assumes=table["assumes"],
        proof=table["proof"],
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


def algorithm_record(
    label: str,
    algorithm: Algorithm,
    choices: dict[str, Any],
    data: Literal["drawn", "recorded", "real"],
    runs: int = 1,
    environment: Mapping[str, Any] | None = None,
    losses: str | None = None,
) -> AlgorithmRecord:
    """What one algorithm guarantees; `runs` counts those on the same data."""
    certificate, setting = algorithm.certificate, algorithm.setting
    return AlgorithmRecord(
        label=label,
        algorithm=algorithm.name,
        calibration=certificate.calibration,
        trust=certificate.trust,
        composition=certificate.composition,
        when_spent=certificate.when_spent,
        setting={"clients": setting.clients, "experts": setting.experts, "horizon": setting.horizon},
        choices=plain(choices),
        parameters=plain(algorithm.parameters),
        data=data,
        runs=runs,
        environment=plain(environment or {}),
        losses=losses,
        channels={name: channel.value for name, channel in certificate.channels.items()},
        mechanisms=[_mechanism(mechanism) for mechanism in certificate.mechanisms],
        guarantees=[_guarantee(guarantee, runs) for guarantee in certificate.guarantees],
        entered=certificate.entered,
    )


def draws_afresh(environment: Environment) -> bool:
    """Whether every seed has data of its own: only if the environment says so in its traits."""
    return environment.traits.fresh


def _whole_losses(environment: Environment) -> str | None:
    """A fingerprint of all losses, where the environment can tell them all."""
    return None if environment.traits.sees_plays else environment.fingerprint()


def record_of(study: Study, final: Path) -> RunRecord:
    """The privacy record of a study that was just run into the folder `final`: always that of a simulation."""
    config = to_table(study.config)
    algorithms = []
    for row, entry in zip(config["algorithms"], study.config.algorithms, strict=True):
        choices = {key: value for key, value in row.items() if key not in ("label", "environment")}
        table, environment = row.get("environment", config["environment"]), study.config.environment_of(entry)
        algorithm, fresh = study.algorithms[row["label"]], draws_afresh(environment)
        data, runs = ("drawn", 1) if fresh else ("recorded", study.config.seeds)
        losses = None if fresh else _whole_losses(environment)
        algorithms.append(algorithm_record(row["label"], algorithm, choices, data, runs, table, losses))
    return RunRecord(
        format=FORMAT,
        title=study.config.title,
        run=str(final),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        played=None,
        stamp=STAMP,
        noise=seeded_noise(study.config.first_seed, study.config.seeds),
        code=code(),
        versions=versions(),
        algorithms=algorithms,
    )


def to_json(record: RunRecord) -> dict[str, Any]:
    return asdict(record)


def check_format(file: Path, known: str) -> None:
    """Another version's file is named as such, before anything in it is found wrong."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        return  # not a record at all: whoever validates it says where
    if isinstance(found, dict) and found.get("format") != known:
        rule = f"to be {known!r}, which hedgerow {__version__} reads"
        raise InvalidValue(f"Expected format={found.get('format')!r} in {file} {rule}: run it again, or use the version that wrote it.")


def read_record(run: Path) -> RunRecord:
    """The record of a finished run folder; whatever is missing, broken or of another version is named."""
    refuse_unfinished(run)
    if run.is_file():
        raise InvalidValue(f"Expected a run folder, {run} is a file: give the folder, {run.parent}.")
    if not run.is_dir():
        raise InvalidValue(f"Expected a run folder at {run}, there is none.")
    file = run / FILE
    if not file.is_file():
        if not (run / "config.toml").is_file():
            inside = sorted(str(found.parent) for found in run.glob(f"*/{FILE}"))
            hint = f"; it holds the runs {', '.join(inside)}" if inside else ""
            raise InvalidValue(
                f"Expected {run} to be a run folder, as `hedgerow run` or `record_deployment` writes it: it has no {FILE}{hint}."
            )
        raise InvalidValue(
            f"Expected a certificate in {file}, there is none: the run is incomplete or older than statements. Run it again."
        )
    try:
        check_format(file, FORMAT)
        record = TypeAdapter(RunRecord).validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        told = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise InvalidValue(f"Expected {file} as `hedgerow run` writes it; {where}: {told}.") from error
    for algorithm in record.algorithms:
        if not algorithm.guarantees:
            raise InvalidValue(f"Expected a certificate for {algorithm.label!r} in {file}, it has no guarantee for anybody.")
    if not record.algorithms:
        raise InvalidValue(f"Expected a certificate in {file}, it names no algorithm.")
    return record
