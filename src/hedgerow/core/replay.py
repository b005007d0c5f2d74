"""An environment that replays arrays: any recorded game, also one without experts."""

from __future__ import annotations

import numpy as np

from hedgerow.core.block import Block, check
from hedgerow.core.environment import Environment, Feature, Traits, fingerprint_of
from hedgerow.core.errors import InvalidValue
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.losses import Family, require_family
from hedgerow.core.setting import LOSSES, Setting
from hedgerow.core.validate import masked


class Replay(Environment):
    """A recorded game of any loss family, with its public side information.

    Parameters
    ----------
    records
        What the players are charged by, of shape (rounds, players, numbers); for `Linear` losses
        the last axis is the experts.
    family
        The loss family. Default: losses of experts in [0, 1].
    reports
        What the clients see, of shape (rounds, clients, numbers). None: every client decides, and
        sees its own records.
    side
        Public side information about the clients, of shape (rounds, clients, k).
    reporting
        Which clients report, of shape (rounds, clients). None: all of them, in every round.
    width
        The number of experts or coordinates. None: it follows from the width of the records.

    Examples
    --------
    >>> import numpy as np
    >>> import hedgerow as hr
    >>> gains = np.array([[[3.0, 1.0]], [[2.0, 2.0]]])  # one decider, two hospitals
    >>> game = hr.Replay(gains, hr.Gains(high=4.0), reports=gains.swapaxes(1, 2))
    >>> game.setting.clients, game.setting.experts, game.setting.players
    (2, 2, 1)
    """

    def __init__(
        self,
        records: Array,
        family: Family = LOSSES,
        *,
        reports: Array | None = None,
        side: Array | None = None,
        reporting: np.ndarray | None = None,
        width: int | None = None,
    ) -> None:
        parts = {"records": records, "reports": reports, "side": side, "reporting": reporting}
        for name, part in parts.items():
            if masked(part):
                raise InvalidValue(f"Expected {name} with none masked.")
        given = np.array(records, np.float64)  # its own copy
        if given.ndim != 3 or 0 in given.shape:
            raise InvalidValue(
                "Expected records of shape (rounds, players, numbers) with no empty axis, "
                f"got {given.shape}."
            )
        require_family(family)
        own = None if reports is None else np.asarray(reports, np.float64)
        if family.linear:
            given, own = round_to_lattice(given), None if own is None else round_to_lattice(own)
        given.setflags(write=False)
        self.records, self.reports, self._family, self.checked = given, own, family, False
        self.side = None if side is None else np.asarray(side, np.float64)
        self.reporting = None if reporting is None else np.asarray(reporting)
        self.width = family.point_width(given.shape[2]) if width is None else width
        if own is not None and own.ndim != 3:
            raise InvalidValue(
                f"Expected reports of shape (rounds, clients, numbers), got {own.shape}."
            )
        for name in ("reports", "side", "reporting"):
            value = getattr(self, name)
            if value is not None and len(value) != len(given):
                raise InvalidValue(f"Expected {name} of {len(given)} rounds, got {len(value)}.")
        check(self.block(0, len(given), None)[0], self.setting, 0, len(given))
        self.checked = True

    @property
    def setting(self) -> Setting:
        rounds, players, _ = self.records.shape
        if self.reports is None:
            return Setting(players, self.width, rounds, family=self._family)
        return Setting(self.reports.shape[1], self.width, rounds, players, self._family)

    @property
    def traits(self) -> Traits:
        given = {Feature.SIDE_INFORMATION: self.side, Feature.SOME_REPORT: self.reporting}
        return Traits(features=frozenset(f for f, value in given.items() if value is not None))

    def start(self, seed: int) -> int:
        return 0

    def block(self, state: int, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, int]:
        part = slice(state, state + rounds)
        records = self.records[part]
        return Block(
            records,
            records if self.reports is None else self.reports[part],
            side=None if self.side is None else self.side[part],
            reporting=None if self.reporting is None else self.reporting[part],
            checked=self.checked,
        ), state + rounds

    def fingerprint(self) -> str:
        return fingerprint_of(
            self.records, repr(self._family), self.reports, self.side, self.reporting
        )

    def __repr__(self) -> str:
        return f"Replay({self.setting})"
