"""Audit cases for phased selection: those of choices from blocks, and frequencies of choices.

The cases by exact likelihood are in `blocks`. Where clients add the noise, the server is attacked
by replaying what clients release, and the peer from outside: it sees the leader of noisy sums,
never the sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.algorithms.phases.blocks import BlockClient, ClientState, NoisySums
from hedgerow.algorithms.shared.totals import LossSums
from hedgerow.audits.case import WHOLE, AuditCase, Verdict, changes
from hedgerow.audits.cases.blocks import (
    exact_cases,
    half_noise,
    less_block_noise,
    overlapping,
    parts_of,
)
from hedgerow.audits.cases.parts import peer_curve
from hedgerow.audits.cases.releases import release_cases
from hedgerow.core.lattice import Array, from_units, round_to_lattice
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm
from hedgerow.core.setting import Setting
from hedgerow.privacy.mechanisms.shares import GaussianShare

if TYPE_CHECKING:
    from hedgerow.algorithms.phases.phased_selection import PhasedSelection

OUTSIDE = 4.0  # epsilon of black-box games: frequencies show little about a small one
REPORTED = 2.0  # the same, where clients add the noise
READ_AT = 0.05  # the delta at which Gaussian guarantees are compared with frequencies
BETWEEN_TWO = {"epsilon": 4.0, "delta": 1e-6}  # budget of the game with a curious peer


def cases(spec: PhasedSelection) -> tuple[AuditCase, ...]:
    """The null case, then the worst stream, then the bugs that must be caught."""
    if spec.trust == "central":
        return *exact_cases(spec), *_from_outside(spec)
    shared = _curious_peer(spec) if spec.trust == "distributed" else ()
    return (
        *(case for law in spec.laws() for case in _noisy_reports(spec, law)),
        *shared,
        *(case for law in spec.laws() for case in _replayed(spec, law)),
    )


def _two_experts(gap: float, rounds: int) -> tuple[Array, Array]:
    """Two clients and two experts; the datum belongs to the first client.

    At the second client, expert 1 loses `gap` more in every round.
    """
    first = np.zeros((rounds, 2, 2))
    first[:, 1, 1] = float(round_to_lattice(gap))
    second = first.copy()
    first[0, 0], second[0, 0] = (1.0, 0.0), (0.0, 1.0)
    return first, second


def _silent(clients: int, rounds: int = 4) -> tuple[Array, Array]:
    """Two experts and zero losses, except for one datum in the last round of the second block."""
    first = np.zeros((rounds, clients, 2))
    second = first.copy()
    first[2, 0], second[2, 0] = (1.0, 0.0), (0.0, 1.0)
    return first, second


def _from_outside(spec: PhasedSelection) -> tuple[AuditCase, ...]:
    """Black-box cases: the real code and the frequency of each choice."""
    played = replace(spec, epsilon=OUTSIDE)
    algorithm = played.build(Setting(2, 2, 4))
    gap = min(1.0, 0.5 * parts_of(algorithm)[1].selection.scale)
    case = _BlackBox(algorithm, changes(spec, played))
    return (
        case("null, from outside", algorithm, _two_experts(gap, 2)[:1] * 2, "holds"),
        case("one choice, from outside", algorithm, _two_experts(gap, 2), "holds"),
        case(
            "half the noise, from outside", half_noise(algorithm), _two_experts(gap, 2), "violated"
        ),
        case(
            "a datum in two blocks, from outside",
            overlapping(algorithm),
            _two_experts(gap, 4),
            "violated",
        ),
    )


def _noisy_reports(spec: PhasedSelection, law: PhasedSelection) -> tuple[AuditCase, ...]:
    """Black-box cases on the leader of noisy sums.

    The leader is enough to find half of the noise or, for Laplace, a quarter of it.
    """
    played = replace(law, epsilon=REPORTED, honest=None)
    clients = 10 if spec.trust == "distributed" else 1  # so that shares are added up
    algorithm, streams = played.build(Setting(clients, 2, 8)), _silent(clients)
    cut, factor = ("a quarter of", 0.25) if law.report == "laplace" else ("half", 0.5)
    case = _BlackBox(algorithm, changes(spec, played), 0.0 if law.delta == 0 else READ_AT)
    of = "" if law is spec else f", {law.report} reports"
    return (
        case(f"null, from outside{of}", algorithm, streams[:1] * 2, "holds"),
        case(f"one choice, from outside{of}", algorithm, streams, "holds"),
        case(
            f"{cut} the noise, from outside{of}",
            less_block_noise(algorithm, factor),
            streams,
            "violated",
        ),
    )


def _replayed(spec: PhasedSelection, law: PhasedSelection) -> tuple[AuditCase, ...]:
    """The server, which sees noisy sums, or their sum over all clients."""
    played = replace(law, honest=None)
    clients = 10 if spec.trust == "distributed" else 1
    algorithm, streams = played.build(Setting(clients, 2, 8)), _silent(clients, rounds=8)
    of, parameters = "" if law is spec else f", {law.report} reports", changes(spec, played)
    runs = 200 if law.delta == 0 else 1000
    whole = release_cases(algorithm, *streams, runs=runs, parameters=parameters, of=of)
    overlap = replace(
        whole[1],
        name=f"all releases, a datum in two blocks{of}",
        algorithm=overlapping(algorithm),
        expected="violated",
    )
    return *whole, overlap


class CuriousPeer(BlockClient):
    """The last client removes its own noise share, which it knows; the datum is not its own."""

    def upload(self, state: ClientState, noise: Noise) -> tuple[LossSums | NoisySums, ClientState]:
        sent, state = super().upload(state, noise)
        own = np.arange(len(sent.losses)) == len(sent.losses) - 1
        return NoisySums(np.where(own[:, None], from_units(state.losses), sent.losses)), state


def _by_peer(algorithm: Algorithm, reporting: Any) -> Algorithm:
    return replace(
        algorithm, client=CuriousPeer(algorithm.setting.experts, reporting), advance=None
    )


def _all_counted(share: GaussianShare, clients: int) -> GaussianShare:
    """The bug: too little noise. Only the shares of all clients together protect a datum."""
    return replace(share, scale=share.scale * sqrt(share.honest / clients), honest=clients)


def _curious_peer(spec: PhasedSelection) -> tuple[AuditCase, ...]:
    """Cases with two clients, of which one is a curious peer.

    Expert 1 loses at the peer in both rounds of the block, so choosing it reveals much.
    """
    played = replace(spec, **BETWEEN_TWO, honest=None)
    algorithm = played.build(Setting(2, 2, 8))
    share = parts_of(algorithm)[0].reporting
    streams = _silent(2)
    for stream in streams:
        stream[1:3, 1, 1] = 1.0
    case = _BlackBox(algorithm, changes(spec, played), READ_AT)
    too_little = _all_counted(share, algorithm.setting.clients)
    return (
        case("a peer that takes its own share off", _by_peer(algorithm, share), streams, "holds"),
        case(
            "a peer's own share counted as secret",
            _by_peer(algorithm, too_little),
            streams,
            "violated",
        ),
    )


@dataclass(frozen=True, eq=False)
class _BlackBox:
    """Makes black-box cases about one algorithm."""

    algorithm: Algorithm
    parameters: dict[str, Any]
    delta: float = 0.0

    def __call__(
        self, name: str, audited: Algorithm, streams: tuple[Array, ...], expected: Verdict
    ) -> AuditCase:
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
