"""Certificates and runs on disk: the one schema, for a run folder's `privacy.json` and for everything that prints a certificate."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from hedgerow.core.certificate import ENTROPY, IDEAL_REALS
from hedgerow.core.errors import InvalidValue
from hedgerow.records.provenance import Code, NoiseRecord

FILE = "privacy.json"
FORMAT = "hedgerow privacy record 4"
STAMP = "simulation: not private"


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
            raise InvalidValue(
                f"Expected the stamp {STAMP!r} on a record whose noise is {self.noise.source}."
            )
        if self.noise.secure:
            promises = [
                g
                for algorithm in self.algorithms
                for g in algorithm.guarantees
                if g.curve is not None and g.curve.epsilon > 0
            ]
            simulated = any(
                algorithm.data != "real" or algorithm.environment for algorithm in self.algorithms
            )
            if simulated or any(
                IDEAL_REALS.name in g.assumes or ENTROPY.name not in g.assumes for g in promises
            ):
                rule = "for real data, under ENTROPY and not under IDEAL_REALS"
                raise InvalidValue(
                    f"Expected secure noise only {rule}; this record says otherwise."
                )


def to_json(record: RunRecord | AlgorithmRecord) -> dict[str, Any]:
    return asdict(record)
