"""What a tree of running sums needs to know about a game: ranges, how far one unit moves it, and
what is certified. The proofs are in `proofs/tree_leader.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, sqrt
from typing import Any, Literal

import numpy as np

from hedgerow.algorithms.correlated.running_leader import STEP, Reports, change
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import check_interval
from hedgerow.core.certificate import (
    OTHER_CLIENTS,
    Assumption,
    Certificate,
    Channel,
    Composition,
    PrivacyCurve,
    Proof,
    not_private,
    trusted_server,
)
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array
from hedgerow.core.limits import ANY_CLOSING, WAIT_ONLY, Closing
from hedgerow.core.losses import Gains, ranges
from hedgerow.core.record import Record, of_own_expert
from hedgerow.core.rounding import root_up, round_up
from hedgerow.core.setting import Setting
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Event, Part, Person, Unit
from hedgerow.core.validate import check_budget
from hedgerow.privacy.budget import given_budget
from hedgerow.running_sums.factorisation import UNIT
from hedgerow.running_sums.lattice import LatticeEncoder
from hedgerow.running_sums.tree import Tree
from hedgerow_papers.agarwal2017.tree_server import NodeNoise

PROOF = "tree_leader.md"


@dataclass(frozen=True)
class TreeGame:
    """A game on tree sums: sizes, ranges, and how far one unit moves the tree."""

    setting: Setting
    schedule: Schedule
    reports: Reports
    part: Part | None = None

    def __post_init__(self) -> None:
        setting = self.setting
        check_interval(self.every, setting)
        if self.silo and (setting.deciders is None or setting.clients != setting.experts):
            raise Unsupported(
                "reports='silo' needs separate deciders and one client for each expert, got "
                f"{setting}."
            )
        if self.part is not None and isinstance(self.part.moves, tuple):
            length = len(self.part.moves)
            if length != setting.rounds:
                raise InvalidValue(
                    f"Expected the length of moves={length!r} to have one number for each of "
                    f"{setting.rounds} rounds."
                )

    @property
    def silo(self) -> bool:
        """Whether each client reports its own expert only."""
        return self.reports == "silo"

    @property
    def closing(self) -> frozenset[Closing]:
        """How exchanges may close: with a declared move of all clients' sums, together only."""
        return WAIT_ONLY if self.silo or self.part is not None else ANY_CLOSING

    @property
    def clients(self) -> int:
        """How many vectors a round adds up: that of every client, or one from all silos."""
        return 1 if self.silo else self.setting.clients

    @property
    def every(self) -> int:
        """The rounds of the longest batch."""
        return self.schedule.every

    @property
    def batches(self) -> int:
        return self.schedule.count(self.setting.rounds) + 1

    @property
    def squares(self) -> int:
        """The sum of the squared lengths of all batches."""
        return self.schedule.squares(self.setting.rounds)

    @cached_property
    def tree(self) -> Tree:
        """The tree of all exchanges: one before each batch but the first."""
        return Tree(max(1, self.batches - 1), "naive")

    @property
    def draws(self) -> int:
        """The most nodes that a batch is in, and the draws of noise in a padded sum."""
        return self.tree.rounds.bit_length()

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """The smallest and the largest charge of each expert in one round."""
        low, high = ranges(self.setting.family, self.setting.experts)
        return (0.0 - high, 0.0 - low) if isinstance(self.setting.family, Gains) else (low, high)

    @property
    def span(self) -> float:
        """The largest minus the smallest charge of a round; above 0 also for constant gains."""
        return max(STEP, float(self.ranges[1].max() - self.ranges[0].min()))

    @property
    def encoder(self) -> LatticeEncoder:
        largest = max(1, ceil(float(np.abs(self.ranges).max()) / STEP)) * STEP  # on the lattice
        return LatticeEncoder(self.tree, self.setting.experts, largest * self.clients * self.every)

    def change(self, norm: Literal["l1", "l2"]) -> float:
        """How far one record moves the vector of a round, rounded upward."""
        if norm == "l2" or self.silo:
            return change(*self.ranges, self.silo)
        low, high = (side.tolist() for side in self.ranges)
        lengths = (Fraction(b) - Fraction(a) for a, b in zip(low, high, strict=True))
        return round_up(sum((max(Fraction(STEP), n) for n in lengths), Fraction(0)))

    @property
    def diameter(self) -> float:
        """The largest distance of two sums of a batch."""
        low, high = self.ranges
        return self.clients * self.every * float(np.sqrt(np.square(high - low).sum()))

    def own_scales(self) -> tuple[float, ...]:
        """The largest move in each node, where it differs by round; otherwise nothing."""
        if self.part is None or not isinstance(self.part.moves, tuple):
            return ()
        by_batch = self._by_batch()
        ends = range(1, self.tree.rounds + 1)
        return tuple(float(by_batch[end - (end & -end) : end].max()) for end in ends)

    def _by_batch(self) -> Array:
        """The largest declared move of a round in each batch, after records were rounded."""
        starts = [0, *self.schedule.between(1, self.setting.rounds)]
        declared = np.broadcast_to(self.part.moves if self.part else 0.0, self.setting.rounds)
        rounding = STEP * self.clients * root_up(Fraction(self.setting.experts))
        return np.nextafter(np.maximum.reduceat(declared, starts) + rounding, inf)

    def moved(self) -> float:
        """The l2 distance that one unit moves all releases of the game, rounded upward."""
        scales = self.own_scales()
        if not scales:
            change = self.change("l2") if self.part is None else float(self._by_batch().max())
            return self.encoder.sensitivity(change)
        by_batch, shares = self._by_batch(), np.zeros(self.batches)
        for end, scale in enumerate(scales, 1):
            first = end - (end & -end)
            shares[first:end] += (by_batch[first:end] / scale) ** 2
        plain = sqrt(float(shares.max())) * (1 + (8 * self.tree.rounds + 64) * UNIT)  # upward
        rounding = STEP * root_up(Fraction(self.setting.experts * self.draws))
        return round_up(Fraction(plain) + Fraction(rounding))

    def certificate(
        self,
        curve: PrivacyCurve,
        noise: NodeNoise | None,
        announced: Mapping[str, Channel],
        composition: Composition,
        **labels: Any,
    ) -> Certificate:
        """The certificate of a trusted server; without noise nothing is protected."""
        channels = {"LossSums.losses": Channel.UPLOADS, **announced}
        if noise is None:
            return not_private("no noise is added", channels, self.setting.family.record)
        found = trusted_server(
            setting=self.setting,
            curve=curve,
            proof=Proof(PROOF, "own-scales" if self.own_scales() else "privacy"),
            channels=channels,
            mechanisms=(noise,),
            composition=composition,
            entered=self.draws,
            **labels,
        )
        unit, assumed = self._unit()
        guarantees = tuple(
            replace(
                g,
                unit=unit,
                adjacency=unit.adjacency(),
                assumes=g.assumes | assumed if g.protects else g.assumes,
            )
            for g in found.guarantees
        )
        return replace(found, guarantees=guarantees)

    def _unit(self) -> tuple[Unit, frozenset[Assumption]]:
        """What is protected: a record, or the part of one person in one round."""
        record = self.setting.family.record
        if self.part is None:
            unit = Event(record=of_own_expert(record) if self.silo else record)
            return unit, frozenset()
        change = Record(
            f"{record.charge} change",
            "c",
            "",
            f"how one person changes the {record.charges} of all experts in one round",
            record.charge,
            record.bounds,
        )
        unit = replace(self.part, of=Person(1, record=change), record=change)
        return unit, frozenset({Assumption("DECLARED_PART", unit.assumption), OTHER_CLIENTS})


def declared(unit: Unit | str | None) -> Part | None:
    """The declared part, if the unit is one; by the sizes of clients no tree is scaled."""
    found = None if unit is None else parse_unit(unit)
    if not isinstance(found, Part):
        return None
    if isinstance(found.moves, str) or found.of != Person(1):
        raise InvalidValue(
            f"Expected unit={found.text()!r} to be a part of hr.Person(1), in numbers: trees have "
            "noise for one record of a person and are not scaled by sizes."
        )
    return found


def fill_in_budget(spec: Any, delta: float) -> None:
    """Set the default epsilon and delta of a spec without `mu`, and check what is given."""
    if spec.mu is None:
        for name, default in (("epsilon", 1.0), ("delta", delta)):
            if getattr(spec, name) is None:
                object.__setattr__(spec, name, default)
        check_budget(spec.epsilon, spec.delta)
    given_budget(spec.epsilon, spec.delta, spec.mu)
