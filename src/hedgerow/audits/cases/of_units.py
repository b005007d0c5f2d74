"""Audit cases for a person, a window or a client: all its records are changed at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hedgerow.audits.case import RELEASES, WHOLE, AuditCase, changes, exact_epsilon
from hedgerow.audits.cases.parts import peer_curve
from hedgerow.audits.cases.releases import release_cases, worst_pair
from hedgerow.contracts.neighbours import changed
from hedgerow.core.certificate import Observer
from hedgerow.core.errors import Unsupported
from hedgerow.core.games import cells_in, cells_of
from hedgerow.core.lattice import Array
from hedgerow.core.losses import Linear
from hedgerow.core.messages import encode
from hedgerow.core.noise import SeededNoise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting
from hedgerow.core.units import Client, Event, Unit
from hedgerow.engines.broadcasts import broadcasts_of
from hedgerow.privacy.mechanisms import GaussianNoise

ROUNDS, CLIENTS = 33, 3  # a person of up to 24 records has room; exchanges fall in between
CROWD, RUNS = 40, 16  # clients, where a choice is attacked; runs whose broadcasts are looked at


def cases_of_unit(spec: AlgorithmSpec, unit: Unit) -> tuple[AuditCase, ...]:
    """The null case, all records of the unit as far apart as they can be, and a bug.

    The bug is that the unit was judged as one record: the budget is that of the unit, and all of it
    was spent on each record. Gaussian noise is attacked by replaying its releases, which show how
    far the records are apart, and also with too little noise; choices by their exact likelihood.
    """
    setting = Setting(CLIENTS, 2, ROUNDS if not isinstance(unit, Client) else 9)
    one = replace(spec, unit=None)
    known = any(family is Linear for family in spec.traits.families)
    plain = one.build(setting) if known else None
    noises = () if plain is None else plain.certificate.mechanisms
    if not noises or not all(isinstance(noise, GaussianNoise) for noise in noises):
        found = () if plain is None else _exact(spec, replace(setting, clients=CROWD), unit)
        if found:
            return found
        raise Unsupported(
            f"Audits of {type(spec).__name__} attack one record; the curve of unit={unit.text()!r} "
            "follows from that of one (`proofs/mechanisms.md#units`). Leave the unit out."
        )
    assert plain is not None
    algorithm = spec.build(setting)
    pairs = list(_pairs(setting, unit))
    first, second = worst_pair(algorithm, pairs, Observer.PEER)
    found = release_cases(algorithm, first, second, observer=Observer.PEER, claim=RELEASES)
    judged = replace(plain, certificate=algorithm.certificate)
    return (*found, found[1].caught("judged as one record", judged))


def _exact(spec: AlgorithmSpec, setting: Setting, unit: Unit) -> tuple[AuditCase, ...]:
    """Cases by exact likelihood; none where it is not known, or nothing depends on the unit.

    Expert 0 is bad at all other clients, and only one world's records favour it, so a transcript in
    which it is chosen is near the worst ratio.
    """
    played = changed(spec, interval=(setting.rounds - 1) // 2)
    algorithm, plain = (made.build(setting) for made in (played, replace(played, unit=None)))
    likelihood, curve = algorithm.claims.log_likelihood, peer_curve(algorithm)
    if (
        likelihood is None
        or curve.epsilon(0.0) == np.inf
        or plain.certificate.mechanisms == algorithm.certificate.mechanisms
        or not isinstance(plain.certificate.public.unit, Event)
    ):
        return ()
    first = np.zeros((setting.rounds, setting.clients, 2))
    first[:, 1:, 0] = 1.0
    sent, worlds = _sent(algorithm, first), list[tuple[Array, Array]]()
    for when in (0, setting.rounds // 4, setting.rounds // 2):
        for turn in range(3):
            good, bad = first.copy(), first.copy()
            for cell in cells_of(None, unit, cells_in(setting), (when, 0), turn):
                good[cell], bad[cell] = (0.0, 1.0), (1.0, 0.0)
            worlds.append((good, bad))

    def shown(pair: tuple[Array, Array]) -> float:
        logs = [(likelihood(list(x), pair[0]), likelihood(list(x), pair[1])) for x in sent]
        return exact_epsilon(logs) or 0.0

    good, bad = max(worlds, key=shown)

    judged = replace(plain, certificate=algorithm.certificate)
    case = AuditCase("all records of the unit", WHOLE, algorithm, curve, good, bad, sent)
    case = replace(case, parameters=changes(spec, played))
    bug = case.caught("judged as one record", judged, transcripts=_sent(judged, first))
    return case.null(), case, bug


def _sent(algorithm: Algorithm, losses: Array) -> tuple[tuple[object, ...], ...]:
    """What real runs broadcast on these losses, on those of the other expert, and on equal ones."""
    noise, found = SeededNoise(0), dict[tuple[bytes, ...], tuple[object, ...]]()
    for data in (losses, losses[..., ::-1].copy(), np.full_like(losses, 0.5)):
        for _ in range(RUNS):
            sent = broadcasts_of(algorithm, data, noise)
            found[tuple(map(encode, sent))] = tuple(sent)
    return tuple(found.values())


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
