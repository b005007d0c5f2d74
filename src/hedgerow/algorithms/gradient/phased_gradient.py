"""Phased gradient descent: a private method for one pass over the samples, in linear time.

A run has a few steps (phases). In each, every client starts at the last public point, takes one
gradient step along each of its samples, and reports the average of its points. The mean over
clients, plus noise, is the next public point. Each step has a part of the samples left and a
quarter of the rate before, so its noise is a quarter, too: the noise is nearly averaged away again.

The method is phased SGD of Feldman, Koren and Talwar 2020; privacy and excess loss are proven in
`proofs/limited_updates.md#phased-gradient-descent`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from hedgerow.algorithms.gradient.clipped import (
    assumed,
    clipped,
    farthest,
    finite,
    moved_inside,
    require_smooth,
)
from hedgerow.algorithms.gradient.subroutine import LONGEST, Law, Subroutine
from hedgerow.algorithms.shared.noisy_reports import Trust, check_honest, gaussian_noise
from hedgerow.core.certificate import Assumption
from hedgerow.core.convex import CrossEntropy
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.losses import EPS, FEW, Family
from hedgerow.core.mechanism import Mechanism
from hedgerow.core.rounding import root_up, round_up
from hedgerow.core.setting import Setting
from hedgerow.privacy.budget import Budget
from hedgerow.privacy.calibrate import laplace_scale
from hedgerow.privacy.mechanisms import AdditiveNoise
from hedgerow.privacy.mechanisms.additive import EuclideanNoise

SLACK = 2.0**-10  # what rounding may add to the sensitivity 1 of a report
MOST_STEPS, LEAST = 12, 2
PARTS = (2, 4, 8)  # Feldman, Koren and Talwar halve the samples
WIDEST = 2**16  # coordinates: with more, rounding to the lattice would cost more than the slack


@dataclass(frozen=True)
class Phase:
    """One step: its number of samples, and the rate of its gradient steps."""

    samples: int
    rate: float


@dataclass(frozen=True)
class PhasedGradient(Subroutine):
    """Phased gradient descent for one loss family, with all parameters resolved.

    A report is the sum of the moves of a client's points, divided by their number and by
    2 * rate * clip, the most that one sample can move a point. So its sensitivity is 1 in every
    step, and one mechanism serves all. `spread` is the root mean square length of the noise in the
    sum of all reports, divided by the number of clients.
    """

    family: Family
    width: int
    clients: int
    clip: float
    noise: Mechanism
    spread: float
    longest: int = LONGEST
    phases: int | None = None
    warm: bool = False

    @property
    def least(self) -> int:
        return LEAST  # the first point of a pass does not depend on its sample

    @property
    def assumes(self) -> frozenset[Assumption]:
        return assumed(self.family)

    @property
    def most(self) -> float:
        return 0.5  # point k moved by at most k * rate * clip: a quarter, and room for rounding

    @property
    def steepest(self) -> float:
        """The bound on gradients that the family declares."""
        return self.family.gradient_bound("l2", self.width)

    @property
    def deviation(self) -> float:
        """The root mean square length of the noise of a mean report, in the units of reports."""
        return self.spread

    def steps(self, samples: int) -> tuple[int, ...]:
        return tuple(phase.samples for phase in plan(self, samples)[0])

    @property
    def reach(self) -> float:
        """The largest distance of the best point from the start of a run."""
        domain = self.family.domain
        return domain.diameter if self.warm else farthest(domain, self.width)

    def start(self, last: Array) -> Array:
        if self.warm:
            return last
        return np.broadcast_to(self.family.domain.centre(self.width), last.shape)

    def empty(self, public: Array) -> Array:
        """The current point of each client, and the sum of all moves so far."""
        return np.concatenate([public, np.zeros_like(public)], axis=-1)

    def take(self, memory: Array, records: Array, public: Array, samples: int, step: int) -> Array:
        rate = plan(self, samples)[0][step].rate
        point, moved = memory[..., : self.width], memory[..., self.width :]
        gradient, domain = self.family.gradient, self.family.domain
        for record in records:
            moved = moved + (point - public)
            moving = rate * clipped(finite(gradient(record, point)), self.clip)
            point = moved_inside(domain, point - moving)
        return np.concatenate([point, moved], axis=-1)

    def report(self, memory: Array, public: Array, samples: int, step: int) -> Array:
        phase = plan(self, samples)[0][step]
        moved = memory[..., self.width :]
        return round_to_lattice(moved / (2 * phase.rate * self.clip * phase.samples))

    def answer(self, total: Array, public: Array, samples: int, step: int) -> Array:
        rate = plan(self, samples)[0][step].rate
        moved = 2 * rate * self.clip * (total / self.clients)
        return self.family.domain.project(public + moved)

    def point(self, public: Array) -> Array:
        return public

    def excess(self, samples: int) -> float | None:
        if self.clip < self.steepest:
            return None
        return plan(self, samples)[1]


def phased_gradient(
    setting: Setting,
    budget: Budget,
    trust: Trust,
    noise: Law | None = None,
    clip: float | None = None,
    *,
    phases: int | None = None,
    warm: bool = False,
    honest: int | None = None,
) -> PhasedGradient:
    """Return the method for a game: its noise for the budget, and rates for the smallest bound.

    >>> import hedgerow as hr
    >>> setting = hr.Setting(clients=10, experts=5, horizon=None, family=hr.Logistic())
    >>> method = phased_gradient(setting, hr.Budget(1.0, 1e-6), "central")
    >>> method.steps(1000), round(method.excess(1000), 3)
    ((750, 188, 47, 15), 0.034)
    """
    family, width = setting.family, setting.experts
    if not width <= WIDEST:
        raise InvalidValue(f"Expected experts={width!r} <= {WIDEST}, the most coordinates.")
    require_smooth(family)
    steepest = family.gradient_bound("l2", width)
    if clip is not None and clip < steepest and isinstance(family, CrossEntropy):
        raise Unsupported(
            f"clip={clip!r} is below {steepest:.4g}, the bound on gradients of CrossEntropy. "
            "Clipped gradients of this family are not those of a convex loss: nothing is proven."
        )
    length = steepest if clip is None else min(clip, steepest)
    check_honest(trust, honest, setting)
    mechanism = _noise(width, setting.clients, budget, trust, noise, honest)
    drawn = 1 if trust == "central" else setting.clients
    spread = sqrt(drawn * width) * mechanism.deviation(width) / setting.clients
    found = PhasedGradient(family, width, setting.clients, length, mechanism, spread)
    found = replace(found, phases=phases, warm=warm)
    while not settled(found):  # rounding would move reports too much
        if not found.longest > LEAST:
            raise InvalidValue(
                f"Expected clip={length!r} to be larger: with so short gradients, rounding would "
                "move points more than noise."
            )
        found = replace(found, longest=found.longest // 2)
    return found


def _noise(
    width: int, clients: int, budget: Budget, trust: Trust, law: Law | None, honest: int | None
) -> Any:
    """One sample moves a report by at most 1 in the l2 norm, and rounding adds a little."""
    moved = 1 + SLACK
    assert budget.epsilon is not None
    if trust == "distributed" or budget.delta:
        return gaussian_noise(trust, "points", budget, moved, clients, honest)
    if law == "laplace":
        across = root_up(width * Fraction(moved) ** 2)
        return AdditiveNoise("points", "laplace", laplace_scale(budget, across), across)
    return EuclideanNoise("points", round_up(Fraction(moved) / Fraction(budget.epsilon)), moved)


def sizes_of(samples: int, steps: int, part: int) -> list[int]:
    """Return the samples of each step: all but one `part` of those left, and the rest at last.

    >>> sizes_of(9, 3, part=2), sizes_of(100, 3, part=4)
    ([5, 2, 2], [75, 19, 6])
    """
    found = list[int]()
    for _ in range(steps - 1):
        found.append(samples - samples // part)
        samples //= part
    return [*found, samples]


@lru_cache(maxsize=4096)
def plan(method: PhasedGradient, samples: int) -> tuple[tuple[Phase, ...], float]:
    """Return the phases of a run with the smallest bound on the excess loss, and the bound.

    The bound is that of `proofs/limited_updates.md#excess-loss`; it has the form a / rate + b rate.
    """
    best: tuple[tuple[Phase, ...], float] | None = None
    wanted = range(1, MOST_STEPS + 1) if method.phases is None else (1, method.phases)
    for steps, part in product(wanted, PARTS):
        sizes = sizes_of(samples, steps, part)
        if steps > 1 and min(sizes) < LEAST:
            continue
        phases, bound = _rated(method, sizes)
        fine = all(rounding(method, phase) <= SLACK for phase in phases)
        asked = steps == method.phases  # more than the first try, one step
        if best is None or (fine and (bound < best[1] or (asked and len(best[0]) < steps))):
            best = phases, bound
    assert best is not None
    return best


def _rated(method: PhasedGradient, sizes: list[int]) -> tuple[tuple[Phase, ...], float]:
    family, width, steepest, clip = method.family, method.width, method.steepest, method.clip
    # what the noise and rounding to the lattice move a point, per rate
    noise = 2 * clip * (method.spread + sqrt(width) * 2.0**-21)
    shares = [4.0**-i for i in range(len(sizes))]
    falling = method.reach**2 / (2 * sizes[0])
    rising = sum(shares) * steepest**2 / 2 + shares[-1] * steepest * noise
    rising += sum(8 * noise**2 * s / n for s, n in zip(shares[1:], sizes[1:], strict=True))
    rate = sqrt(falling / rising)
    smooth = family.smoothness("l2", width)
    if smooth > 0:  # longer steps would not be nonexpansive; 1e-9 is for rounding
        rate = min(rate, 2 / smooth * (1 - 1e-9))
    phases = tuple(Phase(n, rate * s) for n, s in zip(sizes, shares, strict=True))
    return phases, falling / rate + rising * rate


def rounding(method: PhasedGradient, phase: Phase) -> float:
    """Return the most that rounding adds to the sensitivity of a report.

    The computed gradient step differs from the exact one by at most `off`; steps are nonexpansive,
    so errors add up over a pass (`proofs/limited_updates.md#rounding`).
    """
    family, width = method.family, method.width
    reach = family.domain.diameter + phase.rate * method.steepest
    gradient = family.rounding(width, reach).gradient + FEW * EPS * method.steepest
    off = phase.rate * gradient + (width + FEW) * sqrt(width) * EPS * reach
    apart = (phase.samples * off + 2 * phase.samples * EPS * reach) / (phase.rate * method.clip)
    return apart + sqrt(width) * 2.0**-20 + (width + FEW) * EPS


def settled(method: PhasedGradient) -> bool:
    """Whether rounding stays within the slack in the run of every block."""
    phases = (phase for samples in method.lengths for phase in plan(method, samples)[0])
    return all(rounding(method, phase) <= SLACK for phase in phases)
