"""The certificate of a private running sum: who sees what, and who is protected how well."""

from __future__ import annotations

from dataclasses import replace

from hedgerow.core.certificate import (
    IDEAL_REALS,
    PUBLIC_PARAMETERS,
    TRUSTED_SERVER,
    Assumption,
    Certificate,
    Channel,
    Guarantee,
    Observer,
    Proof,
    no_carry_over,
)
from hedgerow.core.mechanism import NoGuarantee
from hedgerow.core.record import Record
from hedgerow.core.units import Event, Person, Unit
from hedgerow.privacy.mechanisms import GaussianNoise

PUBLIC_ROUNDS = Assumption(
    "PUBLIC_ROUNDS",
    "how many vectors are added, and when, is not protected and does not depend on the protected "
    "record",
)
IDENTITIES = Assumption(
    "IDENTITIES", "every person is added under one id; who is added when is not protected"
)
PROOF = Proof("correlated_noise.md", "continual-sums")
SEEN = frozenset({Channel.BROADCASTS, Channel.TIMING})


def declared(person: Person) -> Assumption:
    """The assumption that nobody is added more often or at a shorter distance than declared."""
    return Assumption(
        "DECLARED_RECORDS",
        f"nobody is added more than {person.records} times, or twice within fewer than "
        f"{person.apart} rounds; this is not checked",
    )


def sum_certificate(
    *,
    noise: GaussianNoise,
    clip: float,
    unit: Unit,
    identified: bool,
    horizon: int | None,
) -> Certificate:
    """Return the certificate of a running sum; `identified`: participation is checked by ids."""
    record = Record(
        "vector",
        "g",
        f"of norm at most {clip:g}",
        "what is counted in one round",
        "number",
        (-clip, clip),
    )
    if identified and isinstance(unit, Event):
        unit = Person(1)
    unit = replace(unit, record=record)
    assumes = {
        TRUSTED_SERVER,
        IDEAL_REALS,
        PUBLIC_PARAMETERS,
        PUBLIC_ROUNDS,
        no_carry_over(record),
    }
    if identified:
        assumes.add(IDENTITIES)
    elif isinstance(unit, Person) and unit.records != 1:
        assumes.add(declared(unit))
    adjacency = unit.adjacency()
    raw = NoGuarantee("the server is given the vectors as they are")
    server = Guarantee(
        Observer.SERVER, SEEN | {Channel.UPLOADS}, unit, adjacency, raw, horizon=horizon
    )
    others = (
        Guarantee(
            observer,
            SEEN,
            unit,
            adjacency,
            noise.curve,
            PROOF,
            horizon=horizon,
            assumes=frozenset(assumes),
        )
        for observer in (Observer.PEER, Observer.PUBLIC)
    )
    channels = {
        "ContinualSum.vector": Channel.UPLOADS,
        "ContinualSum.clipped": Channel.UPLOADS,
        "ContinualSum.sum": Channel.BROADCASTS,
        "ContinualSum.round": Channel.TIMING,
    }
    return Certificate(
        "central", "certified", (server, *others), channels, (noise,), composition="shifts"
    )
