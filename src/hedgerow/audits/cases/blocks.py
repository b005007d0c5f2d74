"""Audit cases for private choices from blocks: the worst stream and planted bugs.

The bugs are a fifth less noise, overlapping blocks and blocks that are never closed. In the worst
stream, expert 0 loses at all other clients. In the first round, it is good for the first client in
one world and bad in the other. Drawing expert 0 is then near the worst ratio. It may be drawn in
every block, but the datum counts only in the first choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hedgerow.algorithms.phases.blocks import (
    BlockClient,
    BlockClientState,
    BlockServer,
    BlockServerState,
    NextBlock,
)
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.audits.case import WHOLE, AuditCase, changes
from hedgerow.audits.cases.parts import (
    DRAWN,
    all_transcripts,
    less_selection,
    peer_curve,
    quiet_selection,
)
from hedgerow.core.lattice import Array, to_units
from hedgerow.core.layout import UnitVector
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting

CLIENTS, EXPERTS, BLOCKS = 200, 50, 4
LOUD, RUNS = 4.0, 5000  # epsilon of the tiny game, where losses matter more than noise; its runs


@dataclass(frozen=True)
class OverlapState(BlockClientState):
    last: UnitVector


@dataclass(frozen=True)
class OverlappingClient(BlockClient):
    """The bug: off by one. The last round of a block is also reported with the next block."""

    state: ClassVar[type[Any]] = OverlapState

    def start(self, noise: Noise) -> OverlapState:
        plain = super().start(noise)
        return OverlapState(plain.expert, plain.left, plain.losses, plain.losses)

    def receive(self, state: BlockClientState, broadcast: NextBlock) -> OverlapState:
        assert isinstance(state, OverlapState)
        plain = super().receive(state, broadcast)
        return OverlapState(plain.expert, plain.left, state.last, state.last)

    def observe(self, state: BlockClientState, reports: Array, noise: Noise) -> OverlapState:
        plain = super().observe(state, reports, noise)
        return OverlapState(plain.expert, plain.left, plain.losses, to_units(reports))


@dataclass(frozen=True)
class OverlappingServer(BlockServer):
    """The scores that belong to `OverlappingClient`, for the exact likelihood."""

    def scores(self, block: int, counted: int, reports: Array) -> Array:
        before = reports[2**block - 2].sum(axis=0) if block > 0 else 0.0
        return super().scores(block, counted, reports) + before


@dataclass(frozen=True)
class OpenState(BlockServerState):
    totals: UnitVector


@dataclass(frozen=True)
class OpenServer(BlockServer):
    """The bug: blocks are never closed. Every choice uses all sums so far but is charged for one.

    `scores` is right for transcripts in which all rounds of every block count.
    """

    state: ClassVar[type[Any]] = OpenState

    def open(self, noise: Noise) -> tuple[NextBlock, OpenState]:
        sent, state = super().open(noise)
        return sent, OpenState(state.block, np.zeros(self.experts, np.int64))

    def aggregate(
        self, state: BlockServerState, uploads: Any, noise: Noise
    ) -> tuple[NextBlock, OpenState]:
        assert isinstance(state, OpenState)
        totals = state.totals + np.asarray(uploads.losses, np.int64)
        sent, after = super().aggregate(state, LossSums(totals), noise)
        return sent, OpenState(after.block, totals)

    def scores(self, block: int, counted: int, reports: Array) -> Array:
        return reports[: 2**block - 1 + counted].sum(axis=(0, 1))


def _with(algorithm: Algorithm, client: BlockClient, server: BlockServer) -> Algorithm:
    likelihood = None if algorithm.claims.log_likelihood is None else server.log_likelihood
    return replace(
        algorithm,
        client=client,
        server=server,
        shortcuts=replace(algorithm.shortcuts, advance=None),
        claims=replace(algorithm.claims, log_likelihood=likelihood),
    )


def overlapping(algorithm: Algorithm) -> Algorithm:
    client, server = parts_of(algorithm)
    wrong = OverlappingServer(server.experts, server.selection, server.counting)
    return _with(algorithm, OverlappingClient(client.experts, client.reporting), wrong)


def open_blocks(algorithm: Algorithm) -> Algorithm:
    client, server = parts_of(algorithm)
    return _with(algorithm, client, OpenServer(server.experts, server.selection, server.counting))


def less_block_noise(algorithm: Algorithm) -> Algorithm:
    """The bug: four fifths of the noise in every choice."""
    client, server = parts_of(algorithm)
    return _with(algorithm, client, less_selection(server))


def quiet_block_noise(algorithm: Algorithm) -> Algorithm:
    """The bug: choices are drawn with a fifth less noise than their likelihood says."""
    client, server = parts_of(algorithm)
    return _with(algorithm, client, quiet_selection(server))


def parts_of(algorithm: Algorithm) -> tuple[BlockClient, BlockServer]:
    assert isinstance(algorithm.client, BlockClient)
    assert isinstance(algorithm.server, BlockServer)
    return algorithm.client, algorithm.server


def _worst() -> tuple[Array, Array, tuple[tuple[NextBlock, ...], ...]]:
    """Expert 0 is drawn at the end of every block, although it is bad for nearly all clients."""
    first = np.zeros((2**BLOCKS, CLIENTS, EXPERTS))
    first[:, 1:, 0] = 1.0
    second = first.copy()
    first[0, 0, 1:] = second[0, 0, 0] = 1.0
    sent = (NextBlock(1, 1, 1), *(NextBlock(2**k, 0, 2**k) for k in range(1, BLOCKS + 1)))
    return first, second, (sent,)


def exact_cases(spec: AlgorithmSpec) -> tuple[AuditCase, ...]:
    """Cases by exact likelihood, for a server that chooses privately.

    The null case comes first, then the worst stream, then the bugs that must be caught.
    """
    algorithm = spec.build(Setting(CLIENTS, EXPERTS, 2**BLOCKS))
    case = AuditCase("worst transcript", WHOLE, algorithm, peer_curve(algorithm), *_worst())
    return (
        case.null(),
        case,
        case.caught("four fifths of the noise", less_block_noise(algorithm)),
        case.caught("overlapping groups: a datum in two blocks", overlapping(algorithm)),
        case.caught("blocks never closed: a datum in every choice", open_blocks(algorithm)),
        *_real_runs(spec),
    )


def _real_runs(spec: AlgorithmSpec) -> tuple[AuditCase, ...]:
    """A tiny game, whose real runs must follow the likelihood.

    Expert 1 loses more at the second client; the datum is that of the first.
    """
    played = replace(spec, epsilon=LOUD)
    algorithm = played.build(Setting(2, 2, 4))
    first = np.zeros((4, 2, 2))
    first[:, 1, 1] = 0.5
    second = first.copy()
    first[0, 0], second[0, 0] = (1.0, 0.0), (0.0, 1.0)
    sent, name = all_transcripts(algorithm, first), "all transcripts of a tiny game"
    case = AuditCase(name, WHOLE, algorithm, peer_curve(algorithm), first, second, sent)
    case = replace(case, runs=RUNS, parameters=changes(spec, played))
    return case, case.caught(DRAWN, quiet_block_noise(algorithm))
