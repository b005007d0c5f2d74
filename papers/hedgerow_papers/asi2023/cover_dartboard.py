"""The shrinking dartboard on a cover of the ball: points near every point, played as experts.

A grid of points comes so close to every point of the ball that the best of them costs little more.
Each client turns its record into the losses of all cover points, scaled to [0, 1], and the private
shrinking dartboard chooses among them. This works in few dimensions, because the number of points
grows exponentially with them. Proofs: `proofs/cover_dartboard.md`.

The algorithm is that of Theorem 12 of Asi, Feldman, Koren and Talwar 2023, whose losses are not
scaled to [0, 1] as the dartboard needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count as count_from
from math import ceil, sqrt
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.dartboard.server import DartboardServer
from hedgerow.algorithms.dartboard.shrinking_dartboard import ShrinkingDartboard
from hedgerow.algorithms.gradient.clipped import farthest
from hedgerow.algorithms.shared.following import CurrentExpert, Follower, FollowerState
from hedgerow.core.certificate import NO_CARRY_OVER, Certificate, Proof, no_carry_over
from hedgerow.core.convex import Huber, Logistic, SquaredError
from hedgerow.core.domain import Ball, length
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, round_to_lattice, to_units
from hedgerow.core.losses import Family, Linear
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context, SpecTraits
from hedgerow.core.record import Record
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.units import Event
from hedgerow.core.validate import at_least, check_budget, positive

MOST_CELLS = 2**20  # of the grid
CHUNK = 64  # rounds whose losses are computed at once
PROOF = "cover_dartboard.md"


def ball_cover(radius: float, width: int, resolution: float) -> Array:
    """Return points such that every point of the ball is within `resolution` of one of them.

    They are a cubic grid whose cells have half-diagonal `resolution`; grid points just outside are
    moved onto the rim, which brings them closer to every point of the ball.

    >>> ball_cover(1.0, 1, 0.5).ravel().tolist()
    [-1.0, 0.0, 1.0]
    >>> len(ball_cover(1.0, 2, 0.25))
    37
    """
    positive("resolution", resolution)
    if resolution >= radius:
        return np.zeros((1, width))
    count, cells = _grid(radius, width, resolution)
    if not cells <= MOST_CELLS:
        raise InvalidValue(
            f"Expected resolution={resolution!r} to be larger: a grid in {width} dimensions would "
            f"have {cells} > {MOST_CELLS} cells."
        )
    steps = 2 * resolution / sqrt(width) * np.arange(-count, count + 1)
    axes = np.meshgrid(*[steps] * width, indexing="ij")
    grid = np.stack([axis.ravel() for axis in axes], -1).astype(np.float64)
    near = length(grid) <= (radius + resolution) * (1 + 1e-9)
    return np.unique(Ball(radius).project(grid[near]), axis=0)


def _grid(radius: float, width: int, resolution: float) -> tuple[int, int]:
    """The grid points on each side of the centre along one axis, and the cells in all."""
    count = ceil((radius + resolution) / (2 * resolution / sqrt(width)))
    return count, (2 * count + 1) ** width


def finest(radius: float, width: int, points: int, wanted: float) -> float:
    """Return a resolution near `wanted`, or larger, whose cover has at most `points` points.

    It is the smallest of radius, radius / 2^(1/4), radius / 2^(1/2), ... down to `wanted`.
    """
    found = radius
    for quarter in count_from(1):
        resolution = radius * 2 ** (-quarter / 4)
        cells = _grid(radius, width, resolution)[1]
        if resolution < wanted or cells > MOST_CELLS:
            return found
        if len(ball_cover(radius, width, resolution)) > points:
            return found
        found = resolution
    return found


@dataclass(frozen=True)
class Scale:
    """How charges become losses in [0, 1]: `(charge - origin) / range`.

    The origin is the smallest charge of the family; or, if that makes the range smaller, the charge
    at the centre minus half the range (`centred`).
    """

    centred: bool
    range: float
    lowest: float

    @classmethod
    def of(cls, family: Family, width: int) -> Scale:
        low, high = family.bounds
        around = family.gradient_bound("l2", width) * family.domain.diameter
        return cls(around < high - low, min(around, high - low), low)

    def losses(self, family: Family, records: Array, cover: Array) -> Array:
        """Return the losses (*batch, points) of all cover points, on the lattice."""
        charges = family.value(records[..., None, :], cover)
        origin: Any = self.lowest
        if self.centred:
            centre = family.domain.centre(cover.shape[-1])
            origin = family.value(records, centre)[..., None] - self.range / 2
        return np.clip(round_to_lattice((charges - origin) / self.range), 0.0, 1.0)


@dataclass(frozen=True)
class CoverClient(Follower):
    """Plays the chosen cover point and adds up the scaled losses of all of them."""

    family: Family
    cover: tuple[tuple[float, ...], ...]
    scale: Scale

    @cached_property
    def points(self) -> Array:
        return np.array(self.cover)

    def losses(self, records: Array) -> Array:
        """The losses (*batch, points) of all cover points."""
        return self.scale.losses(self.family, records, self.points)

    def play(
        self, state: FollowerState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, FollowerState]:
        return self.points[state.expert], state

    def play_many(
        self, state: FollowerState, rounds: int, noise: Noise
    ) -> tuple[np.ndarray, FollowerState]:
        points = self.points[state.expert]
        return np.broadcast_to(points, (rounds, *points.shape)), state

    def observe(self, state: FollowerState, reports: Array, noise: Noise) -> FollowerState:
        return FollowerState(state.expert, state.losses + to_units(self.losses(reports)))

    def observe_many(self, state: FollowerState, reports: Array, noise: Noise) -> FollowerState:
        for some in np.split(reports, range(CHUNK, len(reports), CHUNK)):
            losses = to_units(self.losses(some).sum(axis=0))
            state = FollowerState(state.expert, state.losses + losses)
        return state


@dataclass(frozen=True)
class Likelihood:
    """The exact log-probability of the broadcasts, given the records."""

    client: CoverClient
    server: DartboardServer

    def __call__(self, broadcasts: list[CurrentExpert], reports: Array) -> float:
        return self.server.log_likelihood(broadcasts, self.client.losses(reports))


@dataclass(frozen=True)
class CoverDartboard(AlgorithmSpec):
    """Play points of a cover of the ball with the private shrinking dartboard.

    Use it in few dimensions, for losses that are fixed in advance but follow no known law. For
    linear losses of experts the cover is the experts themselves, and this is `shrinking_dartboard`.

    Parameters
    ----------
    epsilon
        The privacy budget, in [1e-6, 1e6]. Default 1.
    delta
        The second part of the budget, in [0, 1). Default 1e-6. 0 gives pure differential privacy.
    points
        The most points of the cover, at least 1. Default 1000. Fewer are taken if they are as close
        as the horizon asks for, radius / sqrt(T).
    every
        Rounds between two exchanges: from 1 to the horizon. None (default): chosen for the smallest
        proven regret.
    early
        Whether there are also exchanges before the rounds 1, 2, 4, ... up to `every`. None
        (default): yes if `every` is given.

    Guarantee
    ---------
    One record of one client in one round is protected from the public and from other clients, even
    if all of them collude, with (epsilon, delta). The server is trusted: it receives exact sums of
    losses. Proof: `proofs/cover_dartboard.md#privacy`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> game = hr.Regression(clients=10, features=2, horizon=64, loss="huber")
    >>> algorithm = CoverDartboard(delta=0.0).build(game.setting)
    >>> algorithm.parameters["points"], round(algorithm.parameters["resolution"], 3)
    (129, 0.375)
    >>> print(algorithm.certificate.peer.curve.words())
    epsilon = 1, delta = 0

    References
    ----------
    Asi, Feldman, Koren and Talwar 2023, Theorem 12.
    """

    traits: ClassVar[SpecTraits] = SpecTraits(
        forms={"pure": {"delta": 0.0}},
        meanings={
            **ShrinkingDartboard.traits.meanings,
            "points": "number of points in the cover",
            **ShrinkingDartboard.traits.meanings,
            "resolution": "largest distance of a point of the ball from the cover",
        },
        families=(SquaredError, Logistic, Huber, Linear),
    )

    epsilon: float = 1.0
    delta: float = 1e-6
    points: int = 1000
    every: int | None = None
    early: bool | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        at_least("points", self.points, 1)
        if self.every is not None:
            at_least("every", self.every, 1)

    @property
    def _dartboard(self) -> ShrinkingDartboard:
        return ShrinkingDartboard(self.epsilon, self.delta, self.every, early=self.early)

    def resolve(self, setting: Setting) -> Algorithm:
        family, width = setting.family, setting.experts
        if isinstance(family, Linear):
            plain = self._dartboard.build(setting)
            return replace(plain, name="cover_dartboard", supports=frozenset())
        radius = farthest(family.domain, width)
        resolution = finest(radius, width, self.points, radius / sqrt(setting.rounds))
        cover, scale = ball_cover(radius, width, resolution), Scale.of(family, width)
        among = Setting(setting.clients, len(cover), setting.rounds)
        inner = self._dartboard.build(among)
        points = tuple(tuple(point) for point in cover.tolist())
        client = CoverClient(len(cover), family, points, scale)
        server = inner.server
        assert isinstance(server, DartboardServer)
        apart = family.gradient_bound("l2", width) * resolution + scale.range * 2.0**-20
        bound = min(scale.range * inner.regret_at_most + setting.rounds * apart, _most(setting))
        return replace(
            inner,
            name="cover_dartboard",
            setting=setting,
            client=client,
            plays="point",
            supports=frozenset(),
            shortcuts=replace(inner.shortcuts, advance=None, common_play=None),
            claims=replace(
                inner.claims,
                log_likelihood=Likelihood(client, server),
                regret_bound=RegretBound(bound, "oblivious", Proof(PROOF, "regret")),
            ),
            certificate=_about(inner.certificate, family.record),
            parameters={**inner.parameters, "points": len(cover), "resolution": resolution},
        )

    def audit_variants(self) -> tuple[ShrinkingDartboard, ...]:
        """Variants of the dartboard inside, whose tiny games come close to the certificate."""
        return self._dartboard.audit_variants()


def _most(setting: Setting) -> float:
    low, high = setting.family.bounds
    return setting.rounds * (high - low)


def _about(certificate: Certificate, record: Record) -> Certificate:
    """The same guarantees for records from which each client computes its loss vectors."""
    unit, proof = Event(record=record), Proof(PROOF, "privacy")
    guarantees = tuple(
        replace(
            g,
            unit=unit,
            adjacency=unit.adjacency(),
            proof=None if g.proof is None else proof,
            assumes=g.assumes - {NO_CARRY_OVER} | {no_carry_over(record)}
            if g.assumes
            else g.assumes,
        )
        for g in certificate.guarantees
    )
    return replace(certificate, guarantees=guarantees)
