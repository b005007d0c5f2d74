"""Audit cases for a person, a window or a client: all its records are changed at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hedgerow.audits.case import RELEASES, AuditCase
from hedgerow.audits.cases.releases import release_cases, worst_pair
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import Unsupported
from hedgerow.core.games import cells_in, cells_of
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Linear
from hedgerow.core.protocol import AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.units import Client, Unit
from hedgerow.privacy.mechanisms import GaussianNoise

ROUNDS, CLIENTS = 33, 3  # a person of up to 24 records has room; exchanges fall in between


def cases_of_unit(spec: AlgorithmSpec, unit: Unit) -> tuple[AuditCase, ...]:
    """The null case, all records of the unit as far apart as they can be, and too little noise.

    A further case is the bug that the unit was judged as one record: the budget is that of the
    unit, and all of it was spent on each record. Only what Gaussian noise hides is attacked: there
    any run shows how far the records are apart.
    """
    setting, one = Setting(CLIENTS, 2, ROUNDS if not isinstance(unit, Client) else 9), spec
    one = replace(one, unit=None)
    known = any(family is Linear for family in spec.traits.families)
    plain = one.build(setting) if known else None
    noises = () if plain is None else plain.certificate.mechanisms
    if plain is None or not noises or not all(isinstance(n, GaussianNoise) for n in noises):
        raise Unsupported(
            f"Audits of {type(spec).__name__} attack one record; the curve of unit={unit.text()!r} "
            "follows from that of one (`proofs/mechanisms.md#units`). Leave the unit out."
        )
    algorithm = spec.build(setting)
    pairs = list(_pairs(setting, unit))
    first, second = worst_pair(algorithm, pairs, Observer.PEER)
    found = release_cases(algorithm, first, second, observer=Observer.PEER, claim=RELEASES)
    judged = replace(plain, certificate=algorithm.certificate)
    bug = replace(found[1], name="judged as one record", algorithm=judged, expected="violated")
    return (*found, bug)


def _pairs(setting: Setting, unit: Unit) -> Iterator[tuple[Array, Array]]:
    """Streams of losses 0 that differ in all records of a unit, at extremes."""
    one_side = np.arange(setting.experts) % 2.0
    for when in {0, 1, setting.rounds // 2, setting.rounds - 1}:
        for turn in range(3):
            cells = cells_of(None, unit, cells_in(setting), (when, 0), turn)
            for low in (np.zeros(setting.experts), one_side):
                first = np.zeros((setting.rounds, setting.clients, setting.experts))
                second = first.copy()
                for cell in cells:
                    first[cell], second[cell] = low, 1.0 - low
                yield first, second
