"""Audit cases for phased selection: those of choices from blocks, or of all that clients release.

The cases by exact likelihood are in `blocks`. Where clients add the noise, the server is attacked.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.audits.case import AuditCase, changes
from hedgerow.audits.cases.blocks import exact_cases, overlapping, parts_of
from hedgerow.audits.cases.releases import release_cases, with_mechanism
from hedgerow.core.setting import Setting
from hedgerow.privacy.mechanisms.additive import GaussianShare

if TYPE_CHECKING:
    from hedgerow.algorithms.phases.phased_selection import PhasedSelection

CLIENTS = 10  # where clients share noise


def cases(spec: PhasedSelection) -> tuple[AuditCase, ...]:
    """The null case, then the worst stream, then the bugs that must be caught."""
    if spec.trust == "central":
        return exact_cases(spec)
    return tuple(case for law in spec.laws() for case in _released(spec, law))


def _released(spec: PhasedSelection, law: PhasedSelection) -> tuple[AuditCase, ...]:
    """The server, which sees noisy sums, or their sum over all clients.

    All losses are 0, except for one datum in the last round of the second block.
    """
    played = replace(law, honest=None)
    algorithm = played.build(Setting(CLIENTS if spec.trust == "distributed" else 1, 2, 8))
    first = np.zeros((8, algorithm.setting.clients, 2))
    second = first.copy()
    second[2, 0] = 1.0
    of, parameters = "" if law is spec else f", {law.report} reports", changes(spec, played)
    whole = release_cases(algorithm, first, second, parameters=parameters, of=of)

    bug = overlapping(algorithm)
    found = [*whole, whole[1].caught("all releases, a datum in two blocks" + of, bug)]
    share = parts_of(algorithm)[0].reporting
    if isinstance(share, GaussianShare):
        secret = with_mechanism(algorithm, "client", "reporting", _all_counted(share))
        found.append(whole[1].caught("a peer's own share counted as secret" + of, secret))
    return tuple(found)


def _all_counted(share: GaussianShare) -> GaussianShare:
    """The bug: too little noise. Only the shares of all clients together protect a datum."""
    return replace(share, scale=share.scale * sqrt(share.honest / CLIENTS), honest=CLIENTS)
