"""The choices that all walks share: the budget, who reports, trust; and the certificate.

Every report is mu-GDP by itself (`proofs/walks.md#reports`). With local trust a person with k
records pays sqrt(k) mu, because each record enters its own report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from hedgerow.algorithms.shared.noisy_reports import check_honest, gaussian_noise, noisy_reports
from hedgerow.algorithms.walks import games
from hedgerow.algorithms.walks.reports import LEAST_SIZE, SIZED_MOVE, NoisyReport
from hedgerow.core.certificate import (
    Assumption,
    Certificate,
    Channel,
    Proof,
    not_private,
)
from hedgerow.core.environment import MASKS_AND_DELAYS, Feature
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.games import Games
from hedgerow.core.limits import Range
from hedgerow.core.losses import ranges
from hedgerow.core.protecting import protecting
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.record import Record, of_own_expert
from hedgerow.core.rounding import root_up
from hedgerow.core.setting import Setting
from hedgerow.core.units import BY_SIZE, Event, Part, Person, Unit
from hedgerow.core.validate import one_of
from hedgerow.privacy.budget import Budget, given_budget
from hedgerow.privacy.curves import Quoted
from hedgerow.privacy.mechanisms import GaussianNoise

PROOF = "walks.md"
ReportModel = Literal["each", "slot", "silo"]
Trust = Literal["local", "distributed"]
PURPOSE = "report"
UPLOADED = ("NoisyReport.values", "NoisyReport.variance")

MEANINGS = {
    "mu": "privacy budget in Gaussian DP; inf: no noise",
    "reports": "who reports in a round: each client, one client, or each about its own expert",
    "honest": "number of clients whose shares of noise are enough",
    "sized": "whether noise is scaled by the public size of each client",
    "report_mu": "mu of a single report",
    "report_deviation": "standard deviation of the noise in each number of a report",
}


@dataclass(frozen=True)
class WalkSpec(AlgorithmSpec):
    """The choices of a walk, the noise of its reports and its certificate.

    A subclass documents the parameters again. `noise` is None if `mu` is infinite.
    """

    mu: float | None = None
    epsilon: float | None = None
    delta: float = 1e-6
    reports: ReportModel = "each"
    trust: Trust = "local"
    sized: bool = False
    honest: int | None = None

    def __post_init__(self) -> None:
        one_of(self, reports=get_args(ReportModel), trust=get_args(Trust))
        if self.mu is not None:
            if self.epsilon is not None:
                raise InvalidValue(
                    f"Expected epsilon={self.epsilon!r} to be absent: give mu, or epsilon and "
                    "delta."
                )
            number = isinstance(self.mu, int | float) and not isinstance(self.mu, bool)
            if not number or not self.mu > 0:
                raise InvalidValue(f"Expected mu={self.mu!r} > 0 (or inf: no noise).")
        if not 0 < self.delta < 1:
            raise InvalidValue(f"Expected delta={self.delta!r} in (0, 1), for example 1e-6.")
        check_honest(self.trust, self.honest)
        self.budget()  # refuses a wrong one
        if self.trust != "local" and self.reports != "each":
            raise InvalidValue(
                f"Expected trust={self.trust!r} to be 'local' with reports={self.reports!r}: only "
                "one client reports about each expert."
            )
        if self.trust != "local" and self.sized:
            raise InvalidValue(
                f"Expected sized={self.sized!r} only with trust='local': shares of noise have one "
                "size."
            )

    def budget(self) -> Budget | None:
        """Return the budget; None if there is no noise."""
        if self.epsilon is not None:
            return given_budget(self.epsilon, self.delta, None)
        return given_budget(None, None, 1.0 if self.mu is None else self.mu)

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        mu = 1.0 if self.mu is None and self.epsilon is None else self.mu
        return protecting(replace(self, mu=mu), unit, setting)

    @property
    def silo(self) -> bool:
        """Whether each client reports about its own expert only."""
        return self.reports == "silo"

    def width(self, setting: Setting) -> int:
        """Return how many numbers a report has."""
        return 1 if self.silo else setting.experts

    def silent(self, setting: Setting) -> float:
        """Return what the number of a silent silo counts as: the worst in the range."""
        if not self.silo:
            return 0.0
        lows, highs = zip(*_ranges(setting), strict=True)
        return min(lows) if setting.family.gains else max(highs)

    def check_setting(self, setting: Setting) -> None:
        """Refuse a setting that does not fit the reports."""
        if self.silo and (setting.deciders != 1 or setting.clients != setting.experts):
            raise Unsupported(
                "reports='silo' needs one decider, and one client for each expert. "
                f"Got deciders={setting.deciders}, clients={setting.clients}, "
                f"experts={setting.experts}."
            )
        if self.reports == "slot" and setting.deciders != 1 and setting.clients != 1:
            raise Unsupported(
                "reports='slot' needs one decider, or one client that stands for all. "
                f"Got deciders={setting.deciders}, clients={setting.clients}."
            )

    def sensitivity(self, setting: Setting) -> float:
        """Return how far one record moves the value of a report (l2 norm), rounded up.

        With sizes, it is the number times the size that moves, by little more than 1.
        """
        if self.sized:
            return root_up(self.width(setting) * SIZED_MOVE**2)
        spans = [Fraction(high) - Fraction(low) for low, high in _ranges(setting)]
        squares = [span**2 for span in spans]
        moved = root_up(max(squares) if self.silo else Fraction(sum(squares)))
        if not moved > 0:
            raise InvalidValue(
                f"Expected the range of all losses or gains={moved!r} > 0: nothing can be learned."
            )
        return moved

    def noise(self, setting: Setting) -> GaussianNoise | None:
        """Return the noise of one report, or the share of one client; None if there is none."""
        budget, moved = self.budget(), self.sensitivity(setting)
        if budget is None:
            return None
        check_honest(self.trust, self.honest, setting)
        return gaussian_noise(self.trust, PURPOSE, budget, moved, setting.clients, self.honest)

    def protected(self, setting: Setting) -> Unit:
        """Return what is protected: one record, or what one person may move in it."""
        record = self._record(setting)
        return (
            Part(Person(1, record=record), BY_SIZE, record=record)
            if self.sized
            else Event(record=record)
        )

    def _record(self, setting: Setting) -> Record:
        record = setting.family.record
        return of_own_expert(record) if self.silo else record

    def certificate(
        self, setting: Setting, noise: GaussianNoise | None, announced: Mapping[str, Channel]
    ) -> Certificate:
        """Return the certificate: all views are computed from noisy reports.

        `announced` are the channels of the fields of the broadcast.
        """
        if noise is None:
            channels = {**dict.fromkeys(UPLOADED, Channel.UPLOADS), **announced}
            reason = "mu is infinite: clients send their records without noise"
            return not_private(reason, channels, self._record(setting))
        curve, unit = noise.curve, self.protected(setting)
        anchor = {"each": "reports", "slot": "reports", "silo": "silos"}[self.reports]
        return noisy_reports(
            setting=setting,
            reporting=noise,
            report=UPLOADED[0],
            announced={UPLOADED[1]: Channel.TIMING, **announced},
            curve=curve if self.epsilon is None else Quoted(curve, self.delta),
            proof=Proof(PROOF, "sizes" if self.sized else anchor),
            composition="sum",
            entered=1,
            unit=unit,
            adjacency=unit.adjacency(),
            assumes=frozenset({_public_sizes(unit.record)} if self.sized else ()),
            separate=self.trust == "local",
        )

    def ranges(self, setting: Setting, noise: GaussianNoise | None) -> dict[str, Range]:
        """Return where honest reports lie; without noise nothing is known."""
        if noise is None:
            return {}
        most = float(np.square(noise.scale / self.least))
        least = most if self.trust == "distributed" else 0.0  # then each client reports each time
        variance = Range(None, least, most, per_round=False, exact=False)
        return {"values": Range.noisy(self.width(setting), self.least), "variance": variance}

    @property
    def least(self) -> float:
        """The smallest number by which a report may be divided."""
        return LEAST_SIZE if self.sized else 1.0

    def supports(self, setting: Setting) -> frozenset[Feature]:
        """Return the features of games that the reports allow.

        A late record would be scaled by the size of another round. A sleeping expert is charged
        what another expert costs, so its range must be the same.
        """
        public = {Feature.SIDE_INFORMATION}
        if self.reports != "each":
            return frozenset({*public, Feature.SOME_REPORT})
        if setting.deciders is not None:
            return frozenset(public)
        refused = {Feature.LATE_REPORTS} if self.sized else set[Feature]()
        if not self.sized and len(set(_ranges(setting))) > 1:
            refused.add(Feature.SLEEPING_EXPERTS)
        return MASKS_AND_DELAYS.union(public) - refused

    def needs(self, setting: Setting) -> frozenset[Feature]:
        """Return the features of games without which clients cannot report."""
        found = {Feature.SIDE_INFORMATION} if self.sized else set[Feature]()
        if self.reports == "slot" and setting.clients > 1:
            found.add(Feature.SOME_REPORT)
        return frozenset(found)

    def report_parameters(self, noise: GaussianNoise | None) -> dict[str, float]:
        """Return what follows from the choices about one report."""
        if noise is None:
            return {}
        found = {"report_deviation": noise.scale}
        return {"report_mu": noise.curve.mu, **found} if self.trust == "local" else found

    def games(self) -> Games | None:
        """Return games of silos or of one reporter in each round."""
        if self.silo:
            return games.silos(self.sized)
        return games.slots() if self.reports == "slot" else None


def _ranges(setting: Setting) -> list[tuple[float, float]]:
    """Return the range of the losses or gains of each expert."""
    low, high = ranges(setting.family, setting.experts)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def span(setting: Setting) -> float:
    """Return the largest difference of the losses or gains of two experts in one round."""
    low, high = ranges(setting.family, setting.experts)
    return float(high.max() - low.min())


def _public_sizes(record: Record) -> Assumption:
    text = (
        f"one person moves each {record.charge} of a client by at most 1 / size, and the size is "
        "public and does not depend on the person"
    )
    return Assumption("PUBLIC_SIZES", text)


__all__ = ["PROOF", "NoisyReport", "ReportModel", "Trust", "WalkSpec", "span"]
