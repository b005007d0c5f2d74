"""Where choices from blocks leak most, and planted bugs: half the noise, blocks that overlap, blocks that are never closed.

In the worst stream everybody else finds expert 0 bad and one client, in the first round, finds it good in one world and bad in the
other. Drawing expert 0 is then near the worst ratio. It may be drawn again and again: only in the first choice does the datum count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.experts.audit_parts import peer_curve
from hedgerow.algorithms.experts.blocks import BlockClient, BlockServer, ClientState, NextBlock, ServerState
from hedgerow.algorithms.experts.totals import LossSums
from hedgerow.core.audit_case import WHOLE, AuditCase, Verdict, changes
from hedgerow.core.lattice import Array, Units, round_to_lattice, to_units
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec
from hedgerow.core.setting import Setting

if TYPE_CHECKING:
    from hedgerow.algorithms.experts.phased_selection import PhasedSelection

CLIENTS, EXPERTS, BLOCKS = 200, 50, 4
OUTSIDE = 4.0  # epsilon of the games that are seen from outside: frequencies tell little about a small one
REPORTED = 2.0  # the same where clients add the noise
READ_AT = 0.05  # the delta at which Gaussian guarantees are compared with frequencies


# Bugs


@dataclass(frozen=True)
class OverlapState(ClientState):
    last: Units


@dataclass(frozen=True)
class OverlappingClient(BlockClient):
    """Off by one: the last round of a block is reported with the next block, too."""

    def start(self, noise: Noise) -> OverlapState:
        plain = super().start(noise)
        return OverlapState(plain.expert, plain.left, plain.losses, plain.losses)

    def receive(self, state: ClientState, broadcast: NextBlock) -> OverlapState:
        assert isinstance(state, OverlapState)
        plain = super().receive(state, broadcast)
        return OverlapState(plain.expert, plain.left, state.last, state.last)

    def observe(self, state: ClientState, reports: Array, noise: Noise) -> OverlapState:
        plain = super().observe(state, reports, noise)
        return OverlapState(plain.expert, plain.left, plain.losses, to_units(reports))


@dataclass(frozen=True)
class OverlappingServer(BlockServer):
    """What the choices of overlapping blocks are made from."""

    def scores(self, block: int, counted: int, reports: Array) -> Array:
        before = reports[2**block - 2].sum(axis=0) if block > 0 else 0.0
        return super().scores(block, counted, reports) + before


@dataclass(frozen=True)
class OpenState(ServerState):
    totals: Units


@dataclass(frozen=True)
class OpenServer(BlockServer):
    """Blocks are never closed: every choice is made from all sums so far, at the price of one.

    `scores` speaks of transcripts in which all rounds of every block count.
    """

    def open(self, noise: Noise) -> tuple[NextBlock, OpenState]:
        said, state = super().open(noise)
        return said, OpenState(state.block, np.zeros(self.experts, np.int64))

    def aggregate(self, state: ServerState, uploads: Any, noise: Noise) -> tuple[NextBlock, OpenState]:
        assert isinstance(state, OpenState)
        totals = state.totals + np.asarray(uploads.losses, np.int64)
        said, after = super().aggregate(state, LossSums(totals), noise)
        return said, OpenState(after.block, totals)

    def scores(self, block: int, counted: int, reports: Array) -> Array:
        return reports[: 2**block - 1 + counted].sum(axis=(0, 1))


def _with(algorithm: Algorithm, client: BlockClient, server: BlockServer) -> Algorithm:
    likelihood = None if algorithm.log_likelihood is None else server.log_likelihood
    return replace(algorithm, client=client, server=server, advance=None, log_likelihood=likelihood)


def overlapping(algorithm: Algorithm) -> Algorithm:
    client, server = _parts(algorithm)
    wrong = OverlappingServer(server.experts, server.selection, server.counting)
    return _with(algorithm, OverlappingClient(client.experts, client.reporting), wrong)


def open_blocks(algorithm: Algorithm) -> Algorithm:
    client, server = _parts(algorithm)
    return _with(algorithm, client, OpenServer(server.experts, server.selection, server.counting))


def half_noise(algorithm: Algorithm) -> Algorithm:
    return less_noise(algorithm, 0.5)


def less_noise(algorithm: Algorithm, factor: float) -> Algorithm:
    client, server = _parts(algorithm)
    if client.reporting is not None:
        return _with(algorithm, replace(client, reporting=client.reporting.scaled(factor)), server)
    return _with(algorithm, client, replace(server, selection=server.selection.scaled(factor)))


def _parts(algorithm: Algorithm) -> tuple[BlockClient, BlockServer]:
    assert isinstance(algorithm.client, BlockClient)
    assert isinstance(algorithm.server, BlockServer)
    return algorithm.client, algorithm.server


# Streams


def _worst() -> tuple[Array, Array, tuple[tuple[NextBlock, ...], ...]]:
    """Expert 0 is drawn at the end of every block, though nearly everybody finds it bad."""
    first = np.zeros((2**BLOCKS, CLIENTS, EXPERTS))
    first[:, 1:, 0] = 1.0
    second = first.copy()
    first[0, 0, 1:] = second[0, 0, 0] = 1.0
    sent = (NextBlock(1, 1, 1), *(NextBlock(2**k, 0, 2**k) for k in range(1, BLOCKS + 1)))
    return first, second, (sent,)


def _two_experts(gap: float, rounds: int) -> tuple[Array, Array]:
    """Two clients, two experts: the second client finds expert 1 worse by `gap` in every round, the first one has the datum."""
    first = np.zeros((rounds, 2, 2))
    first[:, 1, 1] = float(round_to_lattice(gap))
    second = first.copy()
    first[0, 0], second[0, 0] = (1.0, 0.0), (0.0, 1.0)
    return first, second


def _silent(clients: int) -> tuple[Array, Array]:
    """Two experts, nobody loses anything but for a datum in the last round of the second block."""
    first = np.zeros((4, clients, 2))
    second = first.copy()
    first[2, 0], second[2, 0] = (1.0, 0.0), (0.0, 1.0)
    return first, second


def cases(spec: PhasedSelection) -> tuple[AuditCase, ...]:
    """The null first, then the worst stream, then what must be caught."""
    if spec.trust == "central":
        return *exact_cases(spec), *_from_outside(spec)
    return tuple(case for law in spec.laws() for case in _noisy_reports(spec, law))


def exact_cases(spec: AlgorithmSpec) -> tuple[AuditCase, ...]:
    """By exact likelihoods, for a server that chooses privately; these also serve `random_prefix`."""
    algorithm = spec.build(Setting(CLIENTS, EXPERTS, 2**BLOCKS))
    first, second, sent = _worst()

    def case(name: str, audited: Algorithm, other: Array, expected: Verdict) -> AuditCase:
        certified = peer_curve(algorithm)
        return AuditCase(name, WHOLE, audited, certified, first, other, sent, expected=expected)

    return (
        case("null: the same stream twice", algorithm, first, "holds"),
        case("worst transcript", algorithm, second, "holds"),
        case("half the noise", half_noise(algorithm), second, "violated"),
        case("overlapping groups: a datum in two blocks", overlapping(algorithm), second, "violated"),
        case("blocks never closed: a datum in every choice", open_blocks(algorithm), second, "violated"),
    )


def _from_outside(spec: PhasedSelection) -> tuple[AuditCase, ...]:
    """The real code, and how often each choice was made."""
    loud = replace(spec, epsilon=OUTSIDE)
    algorithm = loud.build(Setting(2, 2, 4))
    gap = min(1.0, 0.5 * _parts(algorithm)[1].selection.scale)
    case = _BlackBox(algorithm, changes(spec, loud))
    return (
        case("null, from outside", algorithm, _two_experts(gap, 2)[:1] * 2, "holds"),
        case("one choice, from outside", algorithm, _two_experts(gap, 2), "holds"),
        case("half the noise, from outside", half_noise(algorithm), _two_experts(gap, 2), "violated"),
        case("a datum in two blocks, from outside", overlapping(algorithm), _two_experts(gap, 4), "violated"),
    )


def _noisy_reports(spec: PhasedSelection, law: PhasedSelection) -> tuple[AuditCase, ...]:
    """Audits see the leader of the noisy sums, never the sums: enough to find noise that is cut in half, or for Laplace to a quarter.

    Blocks that overlap are for the contracts, which look at what clients release.
    """
    loud = replace(law, epsilon=REPORTED, honest=None)
    clients = 10 if spec.trust == "distributed" else 1  # so that shares are added up
    algorithm, streams = loud.build(Setting(clients, 2, 8)), _silent(clients)
    cut, factor = ("a quarter of", 0.25) if spec.report == "laplace" else ("half", 0.5)
    case = _BlackBox(algorithm, changes(spec, loud), 0.0 if law.delta == 0 else READ_AT)
    of = "" if law is spec else f", {law.report} reports"
    return (
        case(f"null, from outside{of}", algorithm, streams[:1] * 2, "holds"),
        case(f"one choice, from outside{of}", algorithm, streams, "holds"),
        case(f"{cut} the noise, from outside{of}", less_noise(algorithm, factor), streams, "violated"),
    )


@dataclass(frozen=True, eq=False)
class _BlackBox:
    """Cases about one algorithm that are judged by frequencies."""

    algorithm: Algorithm
    parameters: dict[str, Any]
    delta: float = 0.0

    def __call__(self, name: str, audited: Algorithm, streams: tuple[Array, ...], expected: Verdict) -> AuditCase:
        return AuditCase(
            name,
            WHOLE,
            audited,
            peer_curve(self.algorithm),
            streams[0],
            streams[1],
            method="black box",
            runs=10_000,
            delta=self.delta,
            expected=expected,
            parameters=self.parameters,
        )
