"""Audit cases for covers: exact likelihood ratios on a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from hedgerow.algorithms.shared.following import CurrentExpert
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.ball import FLAT
from hedgerow.audits.cases.parts import less_selection, peer_curve
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.losses import Family
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow_papers.asi2023.cover_dartboard import CoverDartboard, Likelihood, Scale

CROWD = 200  # clients of the game on a line, or more: all but one favour the left end


@dataclass(frozen=True)
class Unscaled(Scale):
    """The bug: charges as they are, as in print, not scaled to [0, 1]."""

    def losses(self, family: Family, records: Array, cover: Array) -> Array:
        return round_to_lattice(family.value(records[..., None, :], cover))


def cases(spec: CoverDartboard) -> tuple[AuditCase, ...]:
    """Exact ratios of the worst transcripts on a line, and bugs that must be caught.

    One record favours one end of the line in one world and the other end in the other world. All
    others favour the left end. The left end leaves at once, and the right end is drawn
    after it as often as possible.
    """
    return tuple(_covered(spec))


def _covered(spec: CoverDartboard) -> Iterator[AuditCase]:
    played = replace(spec, points=min(spec.points, 100))

    def case(
        name: str, line: _Line, audited: Any, expected: Verdict, same: bool = False
    ) -> AuditCase:
        return AuditCase(
            name,
            WHOLE,
            replace(line.algorithm, claims=replace(line.algorithm.claims, log_likelihood=audited)),
            peer_curve(line.algorithm),
            line.first,
            line.first if same else line.second,
            transcripts=line.sent,
            expected=expected,
            parameters=changes(spec, played),
        )

    crowd = min(20 * CROWD, ceil(CROWD / min(1.0, spec.epsilon)))
    many, alone = _Line.of(played, crowd), _Line.of(played, 1)
    honest, server = many.likelihood, many.likelihood.server
    yield case("null: the same stream twice", many, honest, "holds", same=True)
    yield case("worst transcripts", many, honest, "holds")
    less = replace(honest, server=less_selection(server))
    yield case("four fifths of the selection noise", many, less, "violated")
    raw = replace(alone.likelihood.client, scale=Unscaled(False, 1.0, 0.0))
    bug = replace(alone.likelihood, client=raw)
    yield case("charges that are not scaled to [0, 1]", alone, bug, "violated")


@dataclass(frozen=True, eq=False)
class _Line:
    """A game on a line: the algorithm, its likelihood, two streams and the worst transcripts."""

    algorithm: Algorithm
    likelihood: Likelihood
    first: Array
    second: Array
    sent: tuple[tuple[CurrentExpert, ...], ...]

    @classmethod
    def of(cls, spec: CoverDartboard, clients: int) -> _Line:
        algorithm = spec.build(Setting(clients, 1, 64, family=FLAT))
        client: Any = algorithm.client
        server: Any = algorithm.server
        first = np.zeros((64, clients, 2))
        first[..., 0], first[..., 1] = -1.0, 2.0
        second = first.copy()
        first[0, 0, 0] = 1.0
        schedule: Schedule = server.schedule
        right, exchanges = len(client.points) - 1, schedule.count(64)
        draws = exchanges if server.draws is None else min(server.draws, exchanges)
        leaving = (
            CurrentExpert(schedule.wait(0), 0, 0),
            *(CurrentExpert(schedule.wait(n), right, n) for n in range(1, draws + 1)),
        )
        later = (CurrentExpert(schedule.wait(n), right, n - 1) for n in range(2, draws + 1))
        staying = (leaving[0], CurrentExpert(schedule.wait(1), 0, 0), *later)
        return cls(algorithm, Likelihood(client, server), first, second, (leaving, staying))
