"""Record the loss of an algorithm, of comparators on the same losses, and the changes of expert.

Regret is that of Gao et al.: (1/m) (the losses paid, summed over clients and rounds, minus the
least total loss of one expert common to all m clients). The own-best regret compares every client
with its own best expert. Comparators are the best expert, the best expert of each client, the mean
of all experts and the best sequence of experts with few changes. For linear losses no mixture beats
the best expert, so mixtures are not listed. Gains are charges with the sign turned.

For other families regret is measured against the best point of the whole game, which is found after
the last round (`evaluation/best_point.py`). The regret at an earlier round is the loss so far minus
the loss so far of that same point. Nobody can certify the best weights of a trained model, so there
regret is not measured: it is NaN.

A client pays and is compared only in rounds in which it takes part. A client that never takes part
counts as one without loss. If experts sleep, regret is that of Freund et al. 1997: each expert is
compared on the rounds in which it is awake. The regret is the largest, over experts, of what was
paid in these rounds minus the expert's loss (`proofs/masks.md#sleeping-experts`). A sleeping expert
pays what the client pays, so comparators then depend on the algorithm. The mean is over awake
experts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan

import numpy as np

from hedgerow.core.block import ABSENT, Block
from hedgerow.core.environment import fingerprint_of
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import (
    MOST_LOSSES,
    UNITS_PER_LOSS,
    Array,
    Units,
    from_units,
    to_units,
)
from hedgerow.core.losses import Family, common_plays
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Counters, Plays, Sink, charges
from hedgerow.evaluation.best_point import BestPoint, best_point
from hedgerow.evaluation.best_sequence import BestSequence
from hedgerow.evaluation.following import Following

CURVE_POINTS = 256
TOLERANCE = 1e-6  # of the best point's mean charge
BEST_EXPERT = "best expert"
OWN_BEST = "best expert of each client"
MEAN_EXPERT = "a random expert"
BEST_POINT = "best point"
FOUND = 16  # best points that are kept, by what they depend on
_found: dict[str, BestPoint] = {}


def with_switches(count: int) -> str:
    """The name of the best sequence with this many changes.

    >>> with_switches(1), with_switches(4)
    ('best with 1 switch', 'best with 4 switches')
    """
    return f"best with {count} switch{'' if count == 1 else 'es'}"


@dataclass(frozen=True)
class RunResult:
    """The result of one algorithm on one seed: thinned curves and final figures.

    Curves are cumulative means over players. `own_best_regret` is NaN if only sums are known, and
    for families that are not linear. `switches` is NaN where points are played. `comparators` are
    losses by name, as means over players. `figures` are the curves of measures by name, such as
    accuracy.

    `regret_error` is 0 for linear losses and gains. For other families the best point is found up
    to a certified gap: the least total loss of a point is at most the gap below that of the point
    that was found, and never above it. So the regret against the best point, after the last round,
    lies in [final_regret, final_regret + regret_error].

    `following` says who followed what; it is None for points that are no weights.

    `segments` has a row for each segment of the best sequence with most changes, if one is
    compared: first round, expert, what the expert loses in it and what was paid, as means over
    players.
    """

    label: str
    seed: int
    rounds: np.ndarray
    loss: np.ndarray
    regret: np.ndarray
    own_best_regret: float
    switches: float
    exchanges: int
    uploaded_scalars: int
    uploaded_bytes: int
    broadcast_scalars: int
    broadcast_bytes: int
    comparators: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, np.ndarray] = field(default_factory=dict)
    regret_error: float = 0.0
    following: Following | None = None
    segments: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))

    @property
    def final_regret(self) -> float:
        """The regret after the last round."""
        return float(self.regret[-1])

    def regret_with(self, changes: int) -> float:
        """The regret against the best sequence of experts with this many changes, if recorded."""
        best = self.comparators[with_switches(changes)] if changes else None
        return self.final_regret if best is None else float(self.loss[-1]) - best


def _last_known(plays: np.ndarray) -> np.ndarray:
    """The plays (rounds, players), with every missing play replaced by the last one before it."""
    at = np.where(plays != ABSENT, np.arange(len(plays))[:, None], 0)
    return np.take_along_axis(plays, np.maximum.accumulate(at, axis=0), axis=0)


def _mean_of_awake(losses: Array, awake: np.ndarray) -> float:
    """The mean loss of awake experts, summed over rounds, in lattice units; 0 if none is awake."""
    count = awake.sum(axis=-1)
    return (
        float((np.where(awake, losses, 0.0).sum(axis=-1) / np.maximum(count, 1)).sum())
        * UNITS_PER_LOSS
    )


def _taking_part(block: Block) -> Array:
    """The records (count, width) of the clients that take part."""
    if block.present is None:
        return block.losses.reshape(-1, block.losses.shape[-1])
    return block.losses[block.present]


def _charged(family: Family, block: Block, plays: np.ndarray | Plays) -> np.ndarray:
    """What all clients together pay in each round; an absent client pays nothing."""
    if block.present is None or family.linear:  # absent clients have zero losses
        return charges(family, block.losses, plays)
    points = plays.dense() if isinstance(plays, Plays) else plays
    paid = np.zeros(block.present.shape)
    paid[block.present] = family.value(block.losses[block.present], points[block.present])
    return paid.sum(axis=1)


def _charged_between(family: Family, block: Block, plays: Plays) -> np.ndarray:
    """What all clients pay between the cuts of a block of linear losses.

    Where one point is played between two cuts, the block's sums suffice, and nothing is read again.
    """
    assert block.segments is not None
    ends, cuts = np.cumsum(plays.lengths), np.array(block.cuts)
    starts = np.append(0, cuts[:-1])
    first, last = (np.searchsorted(ends, at, side="right") for at in (starts, cuts - 1))
    if plays.common:
        sums, points = from_units(block.common_segments)[:, None], plays.values[:, :1][first]
    else:
        sums, points = from_units(block.segments), plays.values[first]
    paid = np.einsum("kid,kid->k", -sums if family.gains else sums, points)
    for at in np.flatnonzero(first != last):
        rounds = slice(starts[at], cuts[at])
        pieces = slice(first[at], last[at] + 1)
        lengths = np.minimum(ends[pieces], cuts[at]) - np.maximum(
            ends[pieces] - plays.lengths[pieces], starts[at]
        )
        paid[at] = charges(family, block.losses[rounds], Plays(plays.values[pieces], lengths)).sum()
    return paid


class Recorder(Sink):
    """A sink that keeps exact sums and about `points` values of each curve.

    Comparators that change their expert are found only for the numbers of changes in `switches`,
    because they cost another pass. The best point of a family that is not linear needs several
    passes over the whole stream: `replay` returns its blocks again, from the first round on, each
    time it is called. Without it the recorder keeps the records. `rounds` is the number of rounds
    of a game without a horizon.
    """

    def __init__(
        self,
        setting: Setting,
        points: int = CURVE_POINTS,
        switches: Sequence[int] = (),
        replay: Callable[[], Iterable[Block]] | None = None,
        rounds: int | None = None,
    ) -> None:
        horizon = setting.rounds if rounds is None else rounds
        self.players, self.experts = setting.players, setting.experts
        self.family = family = setting.family
        self.linear = family.linear
        if family.gains:
            largest = setting.players * horizon * max(map(abs, family.bounds))
            if not largest <= MOST_LOSSES:
                raise InvalidValue(
                    f"Expected clients * horizon * largest gain={largest!r} <= {MOST_LOSSES} "
                    "(64-bit sums)."
                )
        self.switches = tuple(switches)
        few = min(points, horizon)
        grid = np.linspace(horizon / few, horizon, few).round().astype(np.int64)
        self.marks = tuple(np.unique(grid).tolist())
        self._paid: float = 0
        self._totals = np.zeros(setting.experts, np.int64)
        self._own: Units | None = None
        self._plain_losses, self._mean_awake = 0, 0.0
        self._sequence = (
            BestSequence(self.experts, min(max(self.switches), horizon - 1))
            if self.switches
            else None
        )
        self._charges: list[np.ndarray] = []  # of each round, where a sequence is compared
        self._replay, self._kept, self._seen = replay, list[Block](), 0
        self._loss: list[float] = []
        self._best: list[float] = []
        self._changes, self._points = 0, False
        self._last: np.ndarray | None = None

    def rounds(self, first_round: int, block: Block, plays: np.ndarray | Plays) -> None:
        low, high = (
            bisect_right(self.marks, first_round),
            bisect_right(self.marks, first_round + block.rounds),
        )
        marks = np.array(self.marks[low:high], np.int64) - first_round
        if self.linear:
            pieces = np.searchsorted(block.cuts, marks) + 1
            if isinstance(plays, Plays):
                self._pay(_charged_between(self.family, block, plays), pieces)
            else:
                charged = _charged(self.family, block, plays)
                paid = np.add.reduceat(charged, (0, *block.cuts[:-1]))
                self._pay(paid, pieces, exact=True)
        else:
            self._pay(_charged(self.family, block, plays), marks)
        if self.linear:
            self._compare(block, plays, marks)
        elif self._replay is None and not self.family.trained:
            self._kept.append(Block(block.losses, block.losses, present=block.present))
        self._seen += block.rounds
        if isinstance(plays, Plays):
            self._points = True
        else:
            self._count_changes(plays, absent=block.present is not None)

    def span(self, first_round: int, rounds: int, play: int, totals: Units) -> None:
        if self._sequence is not None:
            raise Unsupported(
                "Comparators that change their expert need every loss, but only sums are drawn "
                "here. Remove comparator_switches or use another engine."
            )
        if self.family.gains:
            totals = -totals
        self._paid = int(self._paid) + int(totals[play])
        self._totals = self._totals + totals
        self._plain_losses += int(totals.sum())
        if first_round + rounds in self.marks:
            self._loss.append(float(from_units(int(self._paid))) / self.players)
            self._best.append(float(from_units(int(self._totals.min()))) / self.players)
        if self._last is not None and play != self._last[0]:
            self._changes += self.players
        self._last = np.array([play])

    def _pay(self, charged: np.ndarray, marks: np.ndarray, exact: bool = False) -> None:
        """Cumulative charges: exact lattice units for experts, floats for points.

        `charged` may be the charges of single rounds or of longer pieces, and `marks` count them.
        """
        if exact:
            paid = int(self._paid) + np.cumsum(to_units(charged))
            self._loss += (from_units(paid[marks - 1]) / self.players).tolist()
            self._paid = int(paid[-1])
        else:
            cumulative = self._paid + np.cumsum(charged) * UNITS_PER_LOSS
            self._loss += (cumulative[marks - 1] / UNITS_PER_LOSS / self.players).tolist()
            self._paid = float(cumulative[-1])

    def _compare(self, block: Block, plays: np.ndarray | Plays, marks: np.ndarray) -> None:
        sign = -1 if self.family.gains else 1
        if block.awake is None:
            common, own = block.common_segments, block.own_totals
            self._plain_losses += sign * int(common.sum())
        else:
            sums = block.sums(plays)
            common, own = sums.sum(axis=1), sums.sum(axis=0)
            self._mean_awake += sign * _mean_of_awake(block.losses, block.awake)
        common, own = (-common, -own) if self.family.gains else (common, own)
        reached = self._totals + np.cumsum(common, axis=0)
        best = reached[np.searchsorted(block.cuts, marks)].min(axis=1)
        self._best += (from_units(best) / self.players).tolist()
        self._totals = reached[-1]
        self._own = own if self._own is None else self._own + own
        if self._sequence is not None:
            self._charges.append(_charged(self.family, block, plays))
            answered = block.answered(plays)
            self._sequence.add(-answered if self.family.gains else answered)

    def _count_changes(self, plays: np.ndarray, absent: bool) -> None:
        if absent:
            known = _last_known(plays if self._last is None else np.vstack([self._last, plays]))
            # A first play is not a change.
            self._changes += int(((known[1:] != known[:-1]) & (known[:-1] != ABSENT)).sum())
            self._last = known[-1]
            return
        if self._last is not None:
            self._changes += int((plays[0] != self._last).sum())
        common = common_plays(plays)
        if common is None:
            self._changes += int((plays[1:] != plays[:-1]).sum())
        else:
            self._changes += int((common[1:] != common[:-1]).sum()) * self.players
        self._last = plays[-1]

    def _blocks(self) -> Iterator[Block]:
        """The blocks that were played, again."""
        left = self._seen
        for block in self._kept if self._replay is None else self._replay():
            if block.rounds >= left:
                present = None if block.present is None else block.present[:left]
                yield Block(block.losses[:left], block.losses[:left], present=present)
                return
            yield block
            left -= block.rounds

    @cached_property
    def _best_point(self) -> BestPoint:
        """The best point; seeds with the same records, as of a recorded game, share it."""
        key = f"{self.family!r} {self.experts}"
        for block in self._blocks():
            key = fingerprint_of(key, _taking_part(block))
        if key not in _found:
            if len(_found) >= FOUND:
                _found.clear()
            _found[key] = best_point(
                self.family, self.experts, lambda: map(_taking_part, self._blocks()), TOLERANCE
            )
        return _found[key]

    def share_best_point(self, other: Recorder) -> None:
        """Use the best point of another recorder of the same losses: it is found only once."""
        if not self.linear and not self.family.trained and other is not self:
            self.__dict__["_best_point"] = other._best_point
            if self.marks == other.marks and self._seen == other._seen:
                self.__dict__["_point_curve"] = other._point_curve

    @cached_property
    def _point_curve(self) -> list[float]:
        """The mean loss of the best point so far, at the marks that were reached."""
        marks = np.array(self.marks[: len(self._loss)], np.int64)
        curve, first, paid = list[float](), 0, 0.0
        for block in self._blocks():
            point = np.broadcast_to(self._best_point.point, (1, self.players, self.experts))
            plays = Plays(point, np.array([block.rounds]))
            total = paid + np.cumsum(_charged(self.family, block, plays))
            reached = marks[(marks > first) & (marks <= first + block.rounds)] - first
            curve += (total[reached - 1] / self.players).tolist()
            first, paid = first + block.rounds, float(total[-1])
        return curve

    @property
    def best(self) -> tuple[int, Units | None]:
        """The best expert in hindsight (-1: there is none), and each player's losses by expert."""
        return (int(self._totals.argmin()) if self.linear else -1), self._own

    def comparators(self) -> dict[str, float]:
        """The mean loss over clients of every comparator; the best point's is an upper bound."""
        if self.family.trained:
            return {}
        if not self.linear:
            return {BEST_POINT: self._best_point.total / self.players} if self._seen else {}
        units: dict[str, float] = {BEST_EXPERT: int(self._totals.min())}
        if self._own is not None:
            units[OWN_BEST] = int(self._own.min(axis=1).sum())
        units[MEAN_EXPERT] = self._plain_losses / self.experts + self._mean_awake
        if self._sequence is not None:
            units |= {with_switches(count): self._sequence.total(count) for count in self.switches}
        return {name: value / UNITS_PER_LOSS / self.players for name, value in units.items()}

    def result(self, label: str, seed: int, counters: Counters) -> RunResult:
        """The result after the last round."""
        loss = np.array(self._loss)
        if self.family.trained:
            best, error = np.full(len(loss), nan), 0.0
        elif self.linear:
            best, error = np.array(self._best), 0.0
        else:
            best, error = np.array(self._point_curve), self._best_point.gap / self.players
        own = float("nan")
        if self._own is not None:
            own = (self._paid - int(self._own.min(axis=1).sum())) / UNITS_PER_LOSS / self.players
        return RunResult(
            label=label,
            seed=seed,
            rounds=np.array(self.marks[: len(loss)]),
            loss=loss,
            regret=loss - best,
            own_best_regret=own,
            switches=nan if self._points else self._changes / self.players,
            exchanges=counters.exchanged,
            uploaded_scalars=counters.uploaded_scalars,
            uploaded_bytes=counters.uploaded_bytes,
            broadcast_scalars=counters.broadcast_scalars,
            broadcast_bytes=counters.broadcast_bytes,
            comparators=self.comparators(),
            regret_error=error,
            segments=self._segments(),
        )

    def _segments(self) -> np.ndarray:
        """The segments of the best sequence with most changes, and what was paid in them."""
        if self._sequence is None:
            return np.zeros((0, 4))
        most = max(self.switches)
        path = np.array(self._sequence.segments(most), float)
        best = np.diff([*path[:, 2], self._sequence.total(most)]) / UNITS_PER_LOSS
        paid = np.add.reduceat(np.concatenate(self._charges), path[:, 0].astype(int))
        return np.column_stack([path[:, :2], best / self.players, paid / self.players])
