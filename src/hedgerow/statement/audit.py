"""The result of an audit, as a statement quotes it: run now, or read from what `hedgerow audit NAME --json` wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.audits.case import WHOLE
from hedgerow.audits.registry import AUDITS
from hedgerow.audits.runner import audit_document, audit_rows
from hedgerow.core.errors import InvalidValue
from hedgerow.records.schema import AlgorithmRecord
from hedgerow.studies.config import typed

Progress = Callable[[str], None]
BUDGET = frozenset({"epsilon", "delta", "rho", "mu"})


@dataclass(frozen=True)
class AuditedCase:
    """`claim` says of what `certified_epsilon` is; `parameters` are those of the game that differ from the run's."""

    case: str
    claim: str
    parameters: dict[str, Any]
    method: str
    delta: float
    certified_epsilon: float
    audited_epsilon: float | None
    confidence: float
    verdict: Literal["holds", "violated", "inconclusive"]
    expected: Literal["holds", "violated", "inconclusive"]
    passed: bool

    @property
    def of_the_promise(self) -> bool:
        """Whether the whole guarantee was attacked, with the budget of the run: then its numbers stand beside those promised."""
        return self.claim == WHOLE and not BUDGET & set(self.parameters)


@dataclass(frozen=True)
class Audit:
    """`code` is the hash of the sources that were audited."""

    algorithm: str
    choices: dict[str, Any]
    code: str
    rows: list[AuditedCase]

    @property
    def passed(self) -> bool:
        return all(row.passed for row in self.rows)


def choices_of(algorithm: AlgorithmRecord) -> dict[str, Any]:
    """The parameters the user chose, without the algorithm's name."""
    return {key: value for key, value in algorithm.choices.items() if key != "name"}


def audit_now(algorithm: AlgorithmRecord, progress: Progress) -> Audit | None:
    """Attack the algorithm with the parameters of the run; None where it has no audit cases."""
    name = str(algorithm.choices["name"])
    if name not in AUDITS:
        return None
    spec = typed(ALGORITHMS[name], choices_of(algorithm), name)
    return TypeAdapter(Audit).validate_python(
        audit_document(name, spec, audit_rows(name, spec, progress))
    )


def read_audit(path: Path) -> Audit:
    """An audit from a file."""
    if not path.is_file():
        raise InvalidValue(
            f"Expected an audit at {path}, there is none; `hedgerow audit NAME --json` writes one."
        )
    try:
        audit = TypeAdapter(Audit).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InvalidValue(
            f"Expected {path} as `hedgerow audit NAME --json` writes it; {where}: {first['msg']}."
        ) from error
    if not audit.rows:
        raise InvalidValue(f"Expected {path} to hold at least one audit case, it has none.")
    return audit


def difference(audit: Audit, algorithm: AlgorithmRecord) -> str | None:
    """Why an audit is not one of this algorithm with these parameters; None where it is."""
    ran = {"algorithm": algorithm.choices["name"], **choices_of(algorithm)}
    seen = {"algorithm": audit.algorithm, **audit.choices}
    for key in dict.fromkeys((*ran, *seen)):
        if ran.get(key) != seen.get(key):
            return f"it audited {key}={seen.get(key)!r}, the run has {key}={ran.get(key)!r}"
    return None
