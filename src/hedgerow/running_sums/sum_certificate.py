"""The certificate of a private running sum: who sees what, and who is protected how well."""

from __future__ import annotations

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


def participation(participations: int, separation: int) -> Assumption:
    """The assumption that nobody takes part more often or at a shorter distance than declared."""
    rule = f"nobody is added more than {participations} times, or twice within fewer than"
    return Assumption("PARTICIPATION", f"{rule} {separation} rounds; this is not checked")


def sum_certificate(
    *,
    noise: GaussianNoise,
    clip: float,
    participations: int,
    separation: int,
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
    once = participations == 1
    unit: Unit = (
        Event(record=record) if once and not identified else Person(participations, record=record)
    )
    apart = "" if once else f", at least {separation} rounds apart"
    assumes = {
        TRUSTED_SERVER,
        IDEAL_REALS,
        PUBLIC_PARAMETERS,
        PUBLIC_ROUNDS,
        no_carry_over(record),
    }
    if identified:
        assumes.add(IDENTITIES)
    elif not once:
        assumes.add(participation(participations, separation))
    adjacency = unit.adjacency() + apart
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
