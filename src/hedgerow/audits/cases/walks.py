"""Audit cases for walks: all reports of one person are attacked, as released to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hedgerow.audits.case import AuditCase
from hedgerow.audits.cases.parts import with_curve
from hedgerow.audits.cases.releases import release_cases
from hedgerow.core.environment import Environment
from hedgerow.core.losses import Gains
from hedgerow.core.replay import Replay
from hedgerow.environments.recorded.losses import RecordedArray
from hedgerow.privacy.composition.groups import of_one_person

if TYPE_CHECKING:
    from hedgerow.algorithms.walks.choices import WalkSpec

MORE = 4  # how many records a person with several has


def cases(spec: WalkSpec) -> tuple[AuditCase, ...]:
    """A record as far from another as it can be, and four records of a person.

    Each group has a null case, the certificate, and too little noise, to be caught. Four
    records shift the releases by twice the certified mu, and not more.
    """
    if spec.budget() is None:
        return ()
    none, all_of_them = (_game(spec, 1, value) for value in (0.0, 1.0))
    found = release_cases(spec.build(none.setting), none, all_of_them)
    if spec.trust == "distributed":  # more records at several clients add up in one sum
        return found
    none, more = (_game(spec, MORE, value) for value in (0.0, 1.0))
    algorithm = spec.build(none.setting)
    curve = of_one_person(algorithm.certificate.server.curve, MORE, separate_reports=True)
    text = f", {MORE} records"
    return (*found, *release_cases(with_curve(algorithm, curve), none, more, of=text))


def _game(spec: WalkSpec, records: int, value: float) -> Environment:
    """All records are 0, but those of one person have a value.

    They are in consecutive rounds. In a silo the person moves between two clients within a round;
    where clients share noise, the records are at several clients in one round.
    """
    if spec.trust == "distributed":
        losses = np.zeros((2, records + 3, 2))
        losses[0, :records] = value
        return RecordedArray(losses)
    clients = 2 if spec.silo else 1
    rounds = -(-records // clients) + 1  # the reports of the last round are not sent
    side = np.ones((rounds, clients, 1)) if spec.sized else None
    if not spec.silo:
        losses = np.zeros((rounds, 1, 2))
        losses[:records] = value
        return RecordedArray(losses) if side is None else Replay(losses, side=side)
    gains = np.zeros((rounds, 2))
    gains.flat[:records] = value
    return Replay(gains[:, None, :], Gains(), reports=gains[..., None], side=side)
