"""The fast path of online learning: many rounds in one compiled function."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgerow.algorithms.learning.model import Model
from hedgerow.algorithms.learning.roles import (
    GradientSums,
    LearnerState,
    LearningClient,
    TrainerState,
    TrainingServer,
    common_row,
)
from hedgerow.algorithms.learning.rounds import compiled
from hedgerow.core.block import Block
from hedgerow.core.lattice import UNITS_PER_LOSS, Array, Units
from hedgerow.core.noise import NoiseSource
from hedgerow.core.plays import Plays
from hedgerow.core.protocol import Context, RunState, Trace
from hedgerow.running_sums.filters import Filter, FilterState

CHUNK = 64  # rounds that are compiled together, at most
CHUNK_NUMBERS = 2**18  # in the round sums of these rounds: more do not fit into caches
LEAST, MOST_NUMBERS = 4, 2**22  # rounds of large models, whose filters cost less together


@dataclass(frozen=True)
class Training:
    """The fast path: many rounds in one compiled function, and all their noise at once.

    Filters are linear, and decoding undoes encoding: the decoded sum is the exact sum plus what
    noise and the past add. So the compiled part only adds up gradients. It agrees with the plain
    loop up to rounding errors of 24 bits.

    Where the model that is trained is also played (`judged`), its losses come with its gradients,
    and the recorder need not compute them again. Losses of models have 24 bits in any case; other
    families have a certified regret, so their losses are left to the recorder.
    """

    client: LearningClient
    server: TrainingServer
    clients: int

    @property
    def judged(self) -> Model | None:
        """The model whose losses in training are those of the plays; None if there is none."""
        work, family = self.client.work, self.client.work.family
        same = work.steps == "start" and self.client.average is None
        return family if same and isinstance(family, Model) else None

    @property
    def length(self) -> int:
        """How many rounds are compiled together."""
        numbers = self.clients * self.client.work.width
        some, least = CHUNK_NUMBERS // numbers, min(LEAST, MOST_NUMBERS // numbers)
        return max(1, min(CHUNK, max(some, least)))

    def advance(self, run: RunState, block: Block, source: NoiseSource) -> tuple[RunState, Trace]:
        at, exchanges, played, paid = 0, 0, list[Array](), list[Array]()
        while at < block.rounds:
            rounds = min(self.length, block.rounds - at)
            part = block.reports[at : at + rounds]
            if run.remaining == 0 and 4 * rounds > self.length:
                run, plays, losses = self._chunk(run, part, source)
                exchanges += rounds
            else:
                run, plays, losses, made = self._one(run, part[0], source)
                rounds, exchanges = 1, exchanges + made
            played.append(plays)
            paid.append(losses)
            at += rounds
        points = np.concatenate(played)
        shape = (len(points), self.clients, points.shape[-1])
        found = Plays.of(np.broadcast_to(points[:, None], shape))
        if self.judged is not None:
            charged = self.judged.charged(np.concatenate(paid))
            found = replace(found, paid=charged.mean(axis=-1).sum(axis=-1))
        return run, Trace(found, exchanges)

    def _one(
        self, run: RunState, reports: Array, source: NoiseSource
    ) -> tuple[RunState, Array, Array, int]:
        """Play one round by the roles."""
        everyone, due = source.everyone("client", self.clients), run.remaining == 0
        state = run.clients
        if due:
            sent, state = self.client.upload(state, everyone)
            summed = GradientSums(sent.sums.sum(axis=0))
            broadcast, server = self.server.aggregate(run.server, summed, source.server())
            run = replace(run, server=server)
            state = self.client.receive(state, broadcast)
        point, state = self.client.play(state, Context(run.round), everyone)
        state = self.client.observe(state, reports, everyone)
        run = replace(run, round=run.round + 1, clients=state, remaining=0)
        play, losses = common_row(point), np.zeros(0)
        if self.judged is not None:
            losses = self.judged.value(
                reports.reshape(self.clients, self.client.work.size, -1), play
            )
        return run, play[None], losses[None], int(due)

    def _chunk(
        self, run: RunState, reports: Array, source: NoiseSource
    ) -> tuple[RunState, Array, Array]:
        """Play rounds of which each begins with an exchange."""
        client, server, state, own = self.client, self.server, run.clients, run.server
        count, width = len(reports), self.client.work.width
        noise = self._noise(count, source)
        decoder, past = server.factorisation.decoder, FilterState(own.exchanges, own.decoded)
        entering = self._memory(run)
        quiet = np.zeros((count, width))
        if noise is None:
            base = decoder.filtered(past, quiet)
        else:
            base = decoder.filtered(past, self._encoder.filtered(entering, quiet) + noise)
        steady = _faded(base, own.trail, server.momentum)
        first = server.first - server.rate * steady
        units, odd, losses = self._compiled(first, reports, state.sums.sum(axis=0))
        sums = np.concatenate([state.sums[None], units / UNITS_PER_LOSS])
        total = sums.sum(axis=1)
        trails = steady + _faded(np.cumsum(total[:-1], axis=0), np.zeros(width), server.momentum)
        models = server.domain.project(server.first - server.rate * trails)
        released = total[:-1]
        if noise is not None:
            released = self._encoder.filtered(entering, released) + noise
        clients, memory = self._filters_after(run, sums[:-1], total[:-1])
        after = TrainerState(
            own.exchanges + count, memory, decoder.after(past, released).memory, trails[-1]
        )
        plays, trail = models, state.trail
        shape = state.sums.shape
        if client.average is not None:
            averages = _faded(models, common_row(trail), client.average)
            ages = int(state.models.flat[0]) + 1 + np.arange(count)
            plays = averages / (1 - client.average**ages)[:, None]
            trail = np.broadcast_to(averages[-1].copy(), shape)
        then = LearnerState(
            np.broadcast_to(models[-1].copy(), shape),
            trail,
            np.asarray(state.models + count),
            sums[-1],
            clients,
            np.asarray(state.odd + odd.sum(axis=0)),
        )
        return replace(run, round=run.round + count, clients=then, server=after), plays, losses

    def _compiled(self, base: Array, reports: Array, pending: Array) -> tuple[Array, Units, Array]:
        """Return the round sums in whole steps, (rounds, clients, width), how many losses or
        gradients are not finite, (rounds, clients), and all losses, (rounds, clients, examples).

        Missing rounds are filled up, so that one length is compiled.
        """
        work, count = self.client.work, len(reports)
        examples = reports.astype(np.float32).reshape(
            count, self.clients, work.size, work.family.record_width(work.width)
        )
        models, missing = base.astype(np.float32), self.length - count
        if missing:
            models, examples = (
                np.concatenate([given, np.repeat(given[-1:], missing, axis=0)])
                for given in (models, examples)
            )
        run = compiled(work).chunk(self.server.domain)
        rate = np.float32(self.server.rate)
        found = run(
            models,
            examples,
            pending.astype(np.float32) * np.float32(UNITS_PER_LOSS),
            rate / np.float32(UNITS_PER_LOSS),
            np.float32(self.server.momentum),
        )
        units, odd, losses = (np.asarray(x)[:count] for x in found)
        return units.astype(np.float64), odd.astype(np.int64), losses.astype(np.float64)

    @property
    def _encoder(self) -> Filter:
        encoder = self.client.encoder or self.server.encoder
        assert encoder is not None
        return encoder.factorisation.encoder

    def _noise(self, count: int, source: NoiseSource) -> Array | None:
        """The noise of all clients together in each round; None if there is none."""
        width = self.client.work.width
        if self.client.reporting is not None:
            mechanism, noise = self.client.reporting, source.everyone("client", self.clients)
        elif self.server.releasing is not None:
            mechanism, noise = self.server.releasing, source.server()
        else:
            return None
        drawn = noise.draw(
            "gaussian", mechanism.purpose, (width,), rounds=count, scale=mechanism.scale
        )
        return drawn.sum(axis=1) if noise.batch else drawn

    def _memory(self, run: RunState) -> FilterState:
        """The state of the encoder, summed over clients."""
        if self.client.encoder is None:
            return FilterState(run.server.exchanges, run.server.filtered)
        return FilterState(run.server.exchanges, run.clients.memory.sum(axis=0))

    def _filters_after(self, run: RunState, sums: Array, total: Array) -> tuple[Array, Array]:
        """The memories of the clients and of the server after some rounds."""
        clients, server, count = run.clients.memory, run.server.filtered, run.server.exchanges
        if self.client.encoder is not None:
            rows = np.moveaxis(clients, -2, 0)
            after = self._encoder.after(FilterState(count, rows), sums)
            clients = np.ascontiguousarray(np.moveaxis(after.memory, 0, -2))
        elif self.server.encoder is not None:
            server = self._encoder.after(FilterState(count, server), total).memory
        return clients, server


def _faded(rows: Array, before: Array, keep: float) -> Array:
    """Return t_k = keep t_(k-1) + (1 - keep) row_k for all rows."""
    if keep == 0:
        return rows
    found, last = np.empty_like(rows), before
    for k, row in enumerate(rows):
        last = np.add(keep * last, (1 - keep) * row, out=found[k])
    return found
