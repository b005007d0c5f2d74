"""Noisy reports: what clients send in a walk, and what the server gets.

In every round a client adds Gaussian noise to its record and sends it. All that follows is computed
from these reports. Reports may have public sizes, such as bed counts: noise is then added to record
times size, and the server gets the result divided by the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.block import Block, Side
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Array, round_to_lattice
from hedgerow.core.layout import Flag, Value, Vector
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.protocol import Context
from hedgerow.privacy.mechanisms import GaussianNoise

MOST_SIZE = 2.0**10  # larger public sizes count as this one
LEAST_SIZE = 2.0**-10  # smaller public sizes are refused
SIZED_MOVE = 1 + Fraction(1, 2**10) + Fraction(1, 2**20) + Fraction(1, 2**32)
"""How far one person moves a number times its size: 1, and what rounding adds."""
PIECE = 2**15  # numbers of noise in one piece of a fast path, so that it stays in the cache


@dataclass(frozen=True)
class NoisyReport(Upload):
    """The record of one client with noise, and the public variance of the noise in each number.

    The variance is 0 if there is no noise. A client that does not report sends zeros.
    """

    values: Vector
    variance: Value | float


@dataclass(frozen=True)
class ReporterState:
    """The record to report, its public size, and whether the client reports it.

    The record is zeros once it is reported.
    """

    record: Vector
    size: Value
    reporting: Flag


@dataclass(frozen=True)
class Reporter:
    """A client that reports its record with noise after every round, and does not play.

    `width` is the number of numbers in a record. `noise` is None if reports are exact. `sized`:
    the first public number about a client is its size.
    """

    state: ClassVar[type[Any]] = ReporterState

    width: int
    noise: GaussianNoise | None
    sized: bool = False
    silent: float = 0.0  # what the number of a client that does not report counts as

    def start(self, noise: Noise) -> Any:
        batch = noise.batch
        return ReporterState(np.zeros((*batch, self.width)), np.ones(batch), np.ones(batch, bool))

    def receive(self, state: Any, broadcast: Broadcast) -> Any:
        return state

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[np.ndarray, Any]:
        raise Unsupported("A client that only reports does not play.")

    def observe(self, state: Any, reports: Array, noise: Noise, side: Side | None = None) -> Any:
        if reports.shape[-1] != self.width:
            raise InvalidValue(
                f"Expected {self.width} numbers in a report, got {reports.shape[-1]}."
            )
        if side is None and not self.sized:  # nothing is public, as in all earlier rounds
            return replace(state, record=reports)
        size, reporting = self.public(side, reports.shape[:-1])
        return replace(state, record=reports, size=size, reporting=reporting)

    def public(self, side: Side | None, batch: tuple[int, ...]) -> tuple[Array, np.ndarray]:
        """Return the size of each report and whether it is sent, from what is public."""
        reporting = None if side is None else side.reporting
        shown = np.ones(batch, bool) if reporting is None else np.asarray(reporting)
        if not self.sized:
            return np.ones(batch), shown
        values = None if side is None else side.values
        if values is None or values.shape[-1] < 1:
            raise InvalidValue("Expected the public size of every client as side information.")
        given = np.asarray(values[..., 0])
        small = shown & ~(given >= LEAST_SIZE)
        if small.any():
            raise InvalidValue(
                f"Expected the public size={float(given[small].flat[0])!r} of a client that "
                f"reports to be at least {LEAST_SIZE}. "
                "A client without a size must not report in this round (`reporting`)."
            )
        return np.asarray(np.where(shown, np.minimum(given, MOST_SIZE), 1.0)), shown

    def upload(self, state: Any, noise: Noise) -> tuple[NoisyReport, Any]:
        if self.noise is None:
            values, variance = state.record, np.zeros_like(state.size)
        else:
            released = noise.release(self.noise, self.scaled(state.record, state.size))
            values, variance = self.unscaled(released, state.size), self.variance(state.size)
        shown = state.reporting
        if not shown.all():
            values, variance = np.where(shown[..., None], values, self.silent), shown * variance
        sent = NoisyReport(values, variance[()])  # a number for one client, not an array
        # A server that asks again at once gets noise alone.
        return sent, replace(state, record=np.zeros_like(state.record))

    def scaled(self, record: Array, size: Array) -> Array:
        """Return the value to which noise is added; with sizes it is rounded to the lattice."""
        return round_to_lattice(record * size[..., None]) if self.sized else record

    def unscaled(self, released: Array, size: Array) -> Array:
        """Return a release in the units of the record."""
        return released / size[..., None] if self.sized else released

    def variance(self, size: Array) -> Array:
        """Return the variance of the noise in each number of a report of this size."""
        return np.zeros_like(size) if self.noise is None else np.square(self.noise.scale / size)


def received(sent: NoisyReport, silo: bool) -> NoisyReport:
    """Return what the server gets of the reports of all clients: their sum, except in a silo."""
    if silo:
        return sent
    return NoisyReport(sent.values.sum(axis=0), np.asarray(sent.variance).sum(axis=0))


def noisy_vector(uploads: NoisyReport, experts: int, silo: bool) -> tuple[Array, Array]:
    """Return the noisy vector of one round, and the variance of each of its entries.

    In a silo the server gets every upload, and client i reports entry i. Elsewhere it gets the sum
    of all reports.
    """
    if silo:
        return np.asarray(uploads.values)[:, 0], np.asarray(uploads.variance)
    return np.asarray(uploads.values), np.full(experts, float(uploads.variance))


def noisy_vectors(
    reporter: Reporter, block: Block, rounds: range, source: NoiseSource, silo: bool
) -> Iterator[Array]:
    """Yield the noisy vectors (rounds, experts) of some rounds of a block, in small pieces.

    This is the fast path of `Reporter.observe` and `upload`. The arrays are new and may be changed.
    """
    clients, width = block.reports.shape[1:]
    noise, step = source.everyone("client", clients), max(1, PIECE // (clients * width))
    plain = not reporter.sized and block.reporting is None
    for first in range(rounds.start, rounds.stop, step):
        part = slice(first, min(first + step, rounds.stop))
        records, count = block.reports[part], part.stop - part.start
        side = Side(
            None if block.side is None else block.side[part],
            None if block.reporting is None else block.reporting[part],
        )
        if reporter.noise is None:
            values = np.array(records)
        else:
            values = noise.draw(
                "gaussian",
                reporter.noise.purpose,
                (width,),
                rounds=count,
                scale=reporter.noise.scale,
            )
            if plain:
                values += records
        if not plain:
            size, shown = reporter.public(side, records.shape[:2])
            if reporter.noise is not None:
                values = reporter.unscaled(reporter.scaled(records, size) + values, size)
            values = np.where(shown[..., None], values, reporter.silent)
        yield values[..., 0] if silo else values[:, 0] if clients == 1 else values.sum(axis=1)


def add_up(rows: Array) -> None:
    """Replace rows by their running sums, as if they were added one by one.

    Two columns at a time are added as one complex number: the same bits in half the time.

    >>> rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> add_up(rows)
    >>> rows.tolist()
    [[1.0, 2.0], [4.0, 6.0]]
    """
    pairs = rows.shape[-1] % 2 == 0 and rows.flags.c_contiguous
    columns = rows.view(np.complex128) if pairs else rows
    np.cumsum(columns, axis=0, out=columns)
