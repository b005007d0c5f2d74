"""The measured table of `choose` as one plain document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

from hedgerow.core.environment import Environment
from hedgerow.core.validate import parameters
from hedgerow.evaluation.statistics import Estimate
from hedgerow.studies.choose.candidates import (
    EPSILON,
    KINDS,
    TALKS,
    TRUSTS,
    Row,
    charted,
    choices,
)
from hedgerow.version import __version__

FORMAT = 1


def document(rows: Sequence[Row], seeds: int) -> dict[str, Any]:
    """Everything `hedgerow choose --chart --json` prints."""
    return {
        "format": FORMAT,
        "version": __version__,
        "command": f"hedgerow choose --chart --seeds {seeds} --json",
        "seeds": seeds,
        "epsilon": EPSILON,
        "trusts": list(TRUSTS),
        "talks": list(TALKS),
        "streams": {name: _stream(environment) for name, environment in charted().items()},
        "kinds": [asdict(kind) for kind in KINDS],
        "rows": [_row(row) for row in rows],
        "choices": [asdict(choice) for choice in choices(rows)],
    }


def _stream(environment: Environment) -> dict[str, Any]:
    return {"adversary": environment.traits.adversary, **parameters(environment)}


def _row(row: Row) -> dict[str, Any]:
    candidate = row.candidate
    return {
        "label": candidate.label,
        "algorithm": candidate.name,
        "trust": candidate.trust,
        "talk": candidate.talk,
        "delta": candidate.delta,
        "only": candidate.only,
        "private": candidate.private,
        "regret": {name: _cell(estimate) for name, estimate in row.regret.items()},
        "bound": dict(row.bound),
    }


def _cell(estimate: Estimate) -> dict[str, float | None]:
    return {
        "mean": estimate.mean,
        "half_width": None if isnan(estimate.half_width) else estimate.half_width,
    }
