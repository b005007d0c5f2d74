"""The result of an audit for a statement: run now, or read from a file.

`hedgerow audit NAME --json` writes such a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.audits.case import RELEASES, WHOLE
from hedgerow.audits.registry import AUDITS
from hedgerow.audits.runner import audit_document, audit_rows
from hedgerow.core.errors import InvalidValue
from hedgerow.records.plain import typed
from hedgerow.records.schema import AlgorithmRecord, spec_choices

Progress = Callable[[str], None]
BUDGET = frozenset({"epsilon", "delta", "rho", "mu"})


@dataclass(frozen=True)
class AuditedCase:
    """One attack and its verdict.

    `claim` names what `certified_epsilon` bounds. `parameters` holds the parameters of the game
    that differ from those of the run. `seen` is False if `audited_epsilon` is what an observer
    would learn that sees everything that was released.
    """

    case: str
    claim: str
    parameters: dict[str, Any]
    method: str
    delta: float
    certified_epsilon: float
    audited_epsilon: float | None
    verdict: Literal["holds", "violated", "inconclusive"]
    expected: Literal["holds", "violated", "inconclusive"]
    passed: bool
    seen: bool = True

    @property
    def of_the_promise(self) -> bool:
        """Whether this attacks the whole guarantee with the run's budget.

        Only then may its numbers be compared with the promised ones.
        """
        return self.claim in (WHOLE, RELEASES) and not BUDGET & set(self.parameters)


@dataclass(frozen=True)
class Audit:
    """All attacks on one algorithm; `code` is the hash of the audited sources."""

    algorithm: str
    choices: dict[str, Any]
    code: str
    rows: list[AuditedCase]

    @property
    def passed(self) -> bool:
        """Whether every verdict is the expected one."""
        return all(row.passed for row in self.rows)


def audit_now(algorithm: AlgorithmRecord, progress: Progress) -> Audit | None:
    """Attack the algorithm with the parameters of the run; None if it has no audit cases."""
    name = str(algorithm.choices["name"])
    if name not in AUDITS:
        return None
    spec = typed(ALGORITHMS[name], spec_choices(algorithm), name)
    return TypeAdapter(Audit).validate_python(
        audit_document(name, spec, audit_rows(name, spec, progress))
    )


def read_audit(path: Path) -> Audit:
    """Read an audit from a file."""
    if not path.is_file():
        raise InvalidValue(
            f"{path} does not exist. Write an audit with `hedgerow audit NAME --json > {path}`."
        )
    try:
        audit = TypeAdapter(Audit).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InvalidValue(
            f"{path} is not an audit ({where}: {first['msg']}). "
            f"Write one with `hedgerow audit NAME --json`."
        ) from error
    if not audit.rows:
        raise InvalidValue(
            f"{path} holds no audit case. Write the audit again with `hedgerow audit NAME --json`."
        )
    return audit


def audit_difference(audit: Audit, algorithm: AlgorithmRecord) -> str | None:
    """Why an audit is not of this algorithm with these parameters; None if it is."""
    ran = {"algorithm": algorithm.choices["name"], **spec_choices(algorithm)}
    seen = {"algorithm": audit.algorithm, **audit.choices}
    for key in dict.fromkeys((*ran, *seen)):
        if ran.get(key) != seen.get(key):
            return f"it audited {key}={seen.get(key)!r} but the run has {key}={ran.get(key)!r}"
    return None
