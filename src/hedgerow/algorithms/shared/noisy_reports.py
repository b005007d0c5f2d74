"""Noisy reports of clients: the certificate without a trusted server, and shares of noise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from hedgerow.core.certificate import (
    DEFAULT_VIEWS,
    IDEAL_REALS,
    PUBLIC_PARAMETERS,
    Assumption,
    Certificate,
    Channel,
    Composition,
    Guarantee,
    Observer,
    PrivacyCurve,
    Proof,
    no_carry_over,
)
from hedgerow.core.errors import InvalidValue
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.rounding import root_up
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event, Unit
from hedgerow.core.validate import at_least
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import gaussian_scale, settled
from hedgerow.privacy.mechanisms import GaussianNoise
from hedgerow.privacy.mechanisms.additive import RAISED, GaussianShare

Trust = Literal["central", "distributed", "local"]


def all_but_one(clients: int) -> int:
    """Return how many clients keep their share of noise secret from a client, at most."""
    return max(1, clients - 1)


def gaussian_noise(
    trust: Trust,
    purpose: str,
    budget: Budget,
    sensitivity: float,
    clients: int,
    honest: int | None = None,
) -> GaussianNoise:
    """Return noise for the budget; in distributed trust the share of one of `honest` clients."""
    if trust == "distributed":
        return gaussian_share(purpose, budget, sensitivity, honest or all_but_one(clients))
    return GaussianNoise(purpose, gaussian_scale(budget, sensitivity), sensitivity)


def check_honest(trust: str, honest: int | None, setting: Setting | None = None) -> None:
    """Refuse a number of honest clients that cannot be; None is all but one."""
    if honest is None:
        return
    if trust != "distributed":
        raise InvalidValue(
            f"Expected honest={honest!r} only with trust='distributed', where noise is shared."
        )
    at_least("honest", honest, 1)
    most = honest if setting is None else all_but_one(setting.clients)
    if honest > most:
        raise InvalidValue(
            f"Expected honest={honest!r} <= {most}, all but one: a peer knows its own share."
        )


def gaussian_share(purpose: str, budget: Budget, sensitivity: float, honest: int) -> GaussianShare:
    """The share of noise of one client: `honest` shares together are enough for the budget."""

    def share(scale: float) -> GaussianShare:
        return GaussianShare(purpose, scale, sensitivity, honest)

    least = root_up((Fraction(gaussian_scale(budget, sensitivity)) * RAISED) ** 2 / honest)
    return share(settled(least, lambda scale: share(scale).curve, budget))


def noisy_reports(
    *,
    setting: Setting,
    reporting: Mechanism,
    report: str,
    announced: Mapping[str, Channel],
    curve: PrivacyCurve,
    proof: Proof,
    composition: Composition,
    entered: int | None = None,
    unit: Unit | None = None,
    adjacency: str | None = None,
    assumes: frozenset[Assumption] = frozenset(),
    separate: bool = False,
    calibration: str = "certified",
    claimed: PrivacyCurve | None = None,
) -> Certificate:
    """Return the certificate for noisy reports: all views are computed from protected uploads.

    `report` is the message field that holds the report (`"Type.field"`), and `announced` are the
    channels of all other fields. Trust is local, or distributed if clients add shares of noise,
    which protect only in the sum of the uploads. `unit` is what the curve protects (None: one
    record), and `adjacency` its change in words, if they differ from those of the unit. `assumes`
    are further assumptions. `separate`: no two records enter one report. `claimed` is what a paper
    claims, where `calibration` is that of the paper.
    """
    protected = Event(record=setting.family.record) if unit is None else unit
    carry_over = no_carry_over(protected.record)
    conditions = {IDEAL_REALS, PUBLIC_PARAMETERS, carry_over, *assumes}
    trust: Literal["local", "distributed"] = "local"
    colluding, seen = setting.clients - 1, Channel.UPLOADS
    if isinstance(reporting, GaussianShare):
        trust, seen = "distributed", Channel.SUM
        colluding = setting.clients - reporting.honest
        conditions.add(_secure_aggregation(reporting.honest))
    server = DEFAULT_VIEWS[Observer.SERVER] - {Channel.UPLOADS} | {seen}
    guarantees = tuple(
        Guarantee(
            observer,
            view,
            protected,
            protected.adjacency() if adjacency is None else adjacency,
            curve,
            proof,
            colluding=colluding,
            horizon=setting.horizon,
            claimed=claimed,
            assumes=frozenset(conditions),
        )
        for observer, view in {**DEFAULT_VIEWS, Observer.SERVER: server}.items()
    )
    channels = {report: seen, **announced}
    return Certificate(
        trust,
        calibration,
        guarantees,
        channels,
        (reporting,),
        composition,
        entered=entered,
        separate=separate,
    )


def _secure_aggregation(honest: int) -> Assumption:
    text = (
        "only the sum of the uploads is visible, and at least "
        f"{honest} clients draw their share of noise and keep it secret"
    )
    return Assumption("SECURE_AGGREGATION", text)
