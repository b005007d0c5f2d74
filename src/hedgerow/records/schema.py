"""The record of a run on disk, `privacy.json`: what it holds, and how it is read back.

Beside it, what a statement says about the ledger of a deployment: who signed, what was spent.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from hedgerow.core.certificate import ENTROPY, IDEAL_REALS
from hedgerow.core.errors import InvalidValue
from hedgerow.core.record import LOSS_VECTOR, Record
from hedgerow.records.provenance import Code, NoiseRecord
from hedgerow.version import __version__

FILE = "privacy.json"
FORMAT = "hedgerow privacy record 5"
STAMP = "simulation: not private"
OF_THE_GAME = (
    "name",
    "alone",
    "absent",
    "sleeping",
)  # choices that are not parameters of the algorithm


@dataclass(frozen=True)
class DeltaAt:
    """One point of a privacy curve."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Attack:
    """The highest rate of detections that any attack with this rate of false alarms reaches."""

    false_alarms: float
    detections: float


@dataclass(frozen=True)
class CurveRecord:
    """A privacy curve: its stated (epsilon, delta), its parameters and the best attacks.

    Parameters
    ----------
    kind
        The name of the curve's class.
    words
        The guarantee in words.
    epsilon, delta
        The pair by which the curve is stated.
    rho
        rho, if the guarantee is stated as zero-concentrated DP.
    parameters
        The parameters of the curve.
    table
        delta at several epsilons.
    attacks
        The best attack at several rates of false alarms.
    outline
        The corners of a polygon that no attack lies above; pictures draw it.
    even_guess
        A bound on how often a guess between two equally likely worlds is right.
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
        """The detections of the best attack at a rate of false alarms that is in `attacks`."""
        return next(a.detections for a in self.attacks if a.false_alarms == false_alarms)


@dataclass(frozen=True)
class Total:
    """The joint guarantee of all runs on the same data."""

    runs: int
    words: str
    epsilon: float
    delta: float
    rho: float | None


@dataclass(frozen=True)
class UnitRecord:
    """What a guarantee protects, such as one loss vector; `noun` is a record, person or client."""

    kind: str
    noun: str
    words: str
    formula: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class GuaranteeRecord:
    """The guarantee against one observer.

    Parameters
    ----------
    observer
        The observer.
    sees
        The channels that the observer sees.
    unit
        What is protected.
    adjacency
        Which data sets are neighbours.
    colluding
        How many clients may pool their data and coins with what the observer sees.
    horizon
        The rounds that the guarantee covers; None: any number.
    bounds
        The range of a single loss or gain.
    curve
        The guarantee of one run; None if nothing is guaranteed.
    total
        The guarantee of all runs on the same data; None if every run had new data.
    reason
        Why nothing is guaranteed; None if something is.
    claimed
        The guarantee that the paper claims.
    claim_holds
        Whether `curve` implies the claim.
    assumes
        The assumptions by name, with their meaning.
    proof
        The proof that is cited.
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
    """One noise mechanism: its purpose, law, scale and sensitivity."""

    name: str
    purpose: str
    law: str
    scale: float | None
    sensitivity: float | None
    parameters: dict[str, Any]


@dataclass(frozen=True)
class AlgorithmRecord:
    """The certificate of one algorithm, with its parameters and its data.

    `choices` are the parameters that the user set; `parameters` are derived from them.

    `data` is "drawn" (again for every seed), "recorded" (every seed counts as one more run on the
    same data) or "real" (a deployment). `losses` is a fingerprint of all recorded losses; if it is
    None, the record does not show whether data differ. `entered` is the largest number of releases
    that one data record enters; None if it is unknown. `record` says what a data record is, and
    `separate` that those of one person enter different releases. The horizon in `setting` is None
    if the game has none; `deciders` is there only if the clients do not play themselves.
    """

    label: str
    algorithm: str
    calibration: str
    trust: str
    composition: str
    when_spent: str
    setting: dict[str, Any]
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
    separate: bool = False
    plays: Literal["expert", "point"] = "expert"
    record: Record = LOSS_VECTOR

    @property
    def clients(self) -> int:
        """The number of clients."""
        return self.setting["clients"] or 0

    @property
    def horizon(self) -> int | None:
        """The number of rounds; None if the game has no last round."""
        return self.setting["horizon"]

    @property
    def deciders(self) -> int | None:
        """The number of players, if they are not the clients."""
        return self.setting.get("deciders")


@dataclass(frozen=True)
class RunRecord:
    """The record of a run: its certificates and its provenance.

    `played` is the number of rounds that were over when the record of a deployment was written; it
    is None for a simulation. `stamp` marks a simulation; it is None for a deployment.
    """

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
        """Require the stamp, except for real data with exact noise from the system's entropy."""
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
                raise InvalidValue(
                    "Expected secure noise only for real data, under ENTROPY and not under "
                    "IDEAL_REALS. This record is different."
                )


def spec_choices(record: AlgorithmRecord) -> dict[str, Any]:
    """The chosen parameters of the algorithm itself: without its name and what is of the game."""
    return {key: value for key, value in record.choices.items() if key not in OF_THE_GAME}


def record_to_json(record: RunRecord | AlgorithmRecord) -> dict[str, Any]:
    """The record as plain values."""
    return asdict(record)


def check_format(file: Path, known: str) -> None:
    """Raise if another version wrote the file. This comes before its content is checked."""
    try:
        found = json.loads(file.read_bytes())
    except ValueError:
        return  # not JSON: the validation that follows says where
    if isinstance(found, dict) and found.get("format") != known:
        raise InvalidValue(
            f"Expected format={found.get('format')!r} in {file} to be {known!r}, which hedgerow "
            f"{__version__} reads. Run it again, or use the version that wrote it."
        )


def read_record(run: Path) -> RunRecord:
    """Read the record of a run folder."""
    if run.is_file():
        parent = run.parent if run.parent.name else run.parent.absolute()
        raise InvalidValue(f"{run} is a file, not a run folder. Give the folder {parent}.")
    if not run.is_dir():
        raise InvalidValue(f"There is no run folder at {run}. Check the path.")
    file = run / FILE
    if not file.is_file():
        if not (run / "config.toml").is_file():
            inside = sorted(str(found.parent) for found in run.glob(f"*/{FILE}"))
            hint = (
                f"Choose one of the runs in it: {', '.join(inside)}."
                if inside
                else "Give a folder that `hedgerow run` or `record_deployment` wrote."
            )
            raise InvalidValue(f"{run} is not a run folder: it has no {FILE}. {hint}")
        raise InvalidValue(
            f"There is no certificate at {file}: the run is incomplete or older than statements. "
            "Run it again."
        )
    try:
        check_format(file, FORMAT)
        record = TypeAdapter(RunRecord).validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        text = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise InvalidValue(
            f"{file} is not as `hedgerow run` writes it: {where}: {text}. Run it again."
        ) from error
    for algorithm in record.algorithms:
        if not algorithm.guarantees:
            raise InvalidValue(
                f"{file} has no certificate for {algorithm.label!r}: its guarantees are missing. "
                "Run it again."
            )
    if not record.algorithms:
        raise InvalidValue(f"{file} has no certificate: it names no algorithm. Run it again.")
    return record


@dataclass(frozen=True)
class ChargeRecord:
    """What one study has cost a data set, and when it was joined."""

    study: str
    title: str
    words: str
    time: str


@dataclass(frozen=True)
class AccountRecord:
    """The account of a data set.

    Parameters
    ----------
    data
        The data set.
    budget
        What all studies together may spend; decimals.
    unit
        What the budget is for, in words; every study protects it, or more.
    spent
        What they have spent, in words.
    total
        What all of it guarantees together; None if nothing was charged.
    charges
        By which studies, in order.
    entries, head
        The length of the account's log, and the hash that covers all of it.
    """

    data: str
    budget: dict[str, str]
    unit: str
    spent: str
    total: CurveRecord | None
    charges: list[ChargeRecord]
    entries: int
    head: str


@dataclass(frozen=True)
class SharedRecord:
    """Who opens the sums of a study whose server sees nothing else.

    Parameters
    ----------
    helpers
        The names of the helpers.
    colluding
        How many clients may work with the server.
    clients
        How many clients there are.
    least
        How many of them every sum counts at least.
    damaged
        The clients whose seals a helper could not open, by exchange; None where it is not known.
    """

    helpers: list[str]
    colluding: int
    clients: int
    least: int
    damaged: dict[str, list[str]] | None


@dataclass(frozen=True)
class LedgerRecord:
    """The checked ledger of one party of a study.

    Parameters
    ----------
    study
        The digest of the manifest, which names the study.
    party
        The name of the client; None: the server.
    closing
        What happens if a client is silent.
    signed
        The public key of each party whose signature under the manifest was checked here. A client
        has its own key and the server's signature; the server has all signatures.
    unsigned
        The other clients of the study.
    refused
        Clients that signed two messages for one release.
    vouched
        After which exchanges the operator vouched that the server's ledger was the latest, since
        nothing else proved it.
    exchanges
        The exchanges that are complete.
    entries, head
        The length of the log, and the hash that covers all of it.
    account
        The account of the data set; None at the server, which has none.
    sealed
        Whether uploads are sealed to the server's key.
    tls
        Whether this client reaches the server by TLS; None if the ledger does not say.
    shared
        Who opens sums; None if the server sees every upload.
    roster
        Which seats were given or emptied since the manifest was signed; a client knows its own.
    """

    study: str
    party: str | None
    closing: str
    signed: dict[str, str]
    unsigned: list[str]
    refused: list[str]
    vouched: list[int]
    exchanges: int
    entries: int
    head: str
    account: AccountRecord | None
    sealed: bool
    tls: bool | None
    shared: SharedRecord | None = None
    roster: list[str] = field(default_factory=list[str])
