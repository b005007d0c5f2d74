"""A plugin to copy: a private algorithm with its certificate and its audit, in one file.

    hedgerow contracts my_algorithm --plugin examples/my_algorithm.py
    hedgerow audit my_algorithm --plugin examples/my_algorithm.py
    hedgerow run examples/plugin.toml --plugin examples/my_algorithm.py

The game is divided into phases of `every` rounds. After each phase the server draws the next expert
with the exponential mechanism, from the losses of that phase only. A loss vector belongs to one
phase and moves each score of one draw by at most 1, so the whole transcript is epsilon-DP
(proofs/composition.md#disjoint-pieces).
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

import hedgerow
from hedgerow.audits.case import WHOLE, AuditCase
from hedgerow.core.certificate import Certificate, Channel, Observer, Proof, trusted_server
from hedgerow.core.lattice import from_units, to_units
from hedgerow.core.layout import UnitVector, Whole
from hedgerow.core.limits import Between, Broadcasts, Range, Uploads
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Context
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget, expect
from hedgerow.privacy.mechanisms import ExponentialMechanism


# 1. Messages: everything that leaves a client, and everything that comes back.
@dataclass(frozen=True)
class PhaseLosses(Upload):
    """The losses of every expert at one client in the last phase, in lattice units."""

    losses: UnitVector


@dataclass(frozen=True)
class NextExpert(Broadcast):
    """The expert to follow in the next phase."""

    expert: int


# 2. States: explicit and flat, with arrays and numbers only. Each role declares its own.
@dataclass(frozen=True)
class ClientState:
    """The expert to follow, and the losses in this phase."""

    expert: Whole
    losses: UnitVector


@dataclass(frozen=True)
class ServerState:
    """The number of finished phases."""

    phases: int


# 3. The client: pure methods. Arrays have shape (*batch, width), for one client or for all of them.
@dataclass(frozen=True)
class PhaseClient:
    """Follows the announced expert and adds up the losses of the phase."""

    state: ClassVar[type[Any]] = ClientState

    experts: int

    def start(self, noise: Noise) -> ClientState:
        return ClientState(
            np.zeros(noise.batch, np.int64), np.zeros((*noise.batch, self.experts), np.int64)
        )

    def receive(self, state: ClientState, broadcast: NextExpert) -> ClientState:
        return ClientState(
            np.full_like(state.expert, broadcast.expert), np.zeros_like(state.losses)
        )

    def play(
        self, state: ClientState, context: Context, noise: Noise
    ) -> tuple[np.ndarray, ClientState]:
        return state.expert, state

    def observe(self, state: ClientState, reports: np.ndarray, noise: Noise) -> ClientState:
        return replace(state, losses=state.losses + to_units(reports))

    def upload(self, state: ClientState, noise: Noise) -> tuple[PhaseLosses, ClientState]:
        return PhaseLosses(state.losses), state


# 4. The server: noise comes from mechanisms only; `noise.release` lets every release be recorded.
@dataclass(frozen=True)
class PhaseServer:
    """Draws the expert of the next phase from the losses of the last one."""

    state: ClassVar[type[Any]] = ServerState

    experts: int
    every: int
    selection: ExponentialMechanism

    def open(self, noise: Noise) -> tuple[NextExpert, ServerState]:
        first = noise.index(self.experts, "first expert")
        return NextExpert(self.every, first), ServerState(0)

    def aggregate(
        self, state: ServerState, uploads: PhaseLosses, noise: Noise
    ) -> tuple[NextExpert, ServerState]:
        expert = noise.release(self.selection, from_units(uploads.losses))
        return NextExpert(self.every, expert), ServerState(state.phases + 1)

    def log_likelihood(self, broadcasts: list[NextExpert], reports: np.ndarray) -> float:
        """Exact log-probability of the broadcasts, for the audit."""
        result = -np.log(self.experts)
        for phase, sent in enumerate(broadcasts[1:]):
            losses = reports[phase * self.every : (phase + 1) * self.every].sum(axis=(0, 1))
            result += self.selection.log_probability(losses, sent.expert)
        return result


# 5. The user's side: parameters, checks, and a certificate built from the same mechanism object.
@dataclass(frozen=True)
class EqualPhases(AlgorithmSpec):
    """Draw a new expert every `every` rounds, privately, from the losses of the last phase.

    Parameters
    ----------
    epsilon
        The privacy budget, > 0. Default 1.
    every
        Rounds in a phase: from 1 to the horizon. Default 2.

    Guarantee
    ---------
    One loss vector of one client in one round is protected from the public and from other clients,
    even if all of them collude, with epsilon and delta = 0. The server is trusted: it receives
    exact sums of losses. Proof: `proofs/composition.md#disjoint-pieces`.

    Examples
    --------
    >>> EqualPhases(epsilon=2.0).build(Setting(2, 3, 10)).certificate.public.curve.words()
    'epsilon = 2, delta = 0 (bounded range)'
    """

    epsilon: float = 1.0
    every: int = 2

    def __post_init__(self) -> None:
        check_budget(self.epsilon)
        at_least("every", self.every, 1)

    def resolve(self, setting: Setting) -> Algorithm:
        expect(self.every <= setting.rounds, "every", self.every, f"<= horizon={setting.rounds}")
        selection = ExponentialMechanism("selection", self.epsilon)
        server = PhaseServer(setting.experts, self.every, selection)
        return Algorithm(
            name="my_algorithm",
            setting=setting,
            client=PhaseClient(setting.experts),
            server=server,
            certificate=self._certificate(setting, selection),
            uploads=Uploads(PhaseLosses, {"losses": Range(setting.experts, 0.0, 1.0)}),
            broadcasts=Broadcasts(
                NextExpert,
                {
                    "rounds": Between(self.every, self.every),
                    "expert": Between(0, setting.experts - 1),
                },
            ),
            claims=Claims(log_likelihood=server.log_likelihood),
        )

    def _certificate(self, setting: Setting, selection: ExponentialMechanism) -> Certificate:
        return trusted_server(
            setting=setting,
            curve=selection.curve,
            proof=Proof("composition.md", "disjoint-pieces"),
            channels={
                "PhaseLosses.losses": Channel.UPLOADS,
                "NextExpert.rounds": Channel.TIMING,
                "NextExpert.expert": Channel.BROADCASTS,
            },
            mechanisms=(selection,),
        )


# 6. The audit: a null case, the transcript that leaks most, and a bug that must be caught.
def audit_cases(spec: EqualPhases) -> tuple[AuditCase, ...]:
    """One phase in which expert 0 is drawn although all other clients find it bad.

    Client 0 finds expert 0 good in the first world and bad in the second.
    """
    algorithm = spec.build(Setting(clients=50, experts=50, horizon=spec.every + 1))
    assert isinstance(algorithm.server, PhaseServer)
    first = np.zeros((spec.every + 1, 50, 50))
    first[0, 1:, 0] = 1.0
    second = first.copy()
    first[0, 0, 1:] = second[0, 0, 0] = 1.0
    sent = ((NextExpert(spec.every, 1), NextExpert(spec.every, 0)),)
    less = replace(algorithm.server, selection=algorithm.server.selection.scaled(0.8))
    bug = replace(
        algorithm, server=less, claims=replace(algorithm.claims, log_likelihood=less.log_likelihood)
    )
    certified = algorithm.certificate.guarantee(Observer.PEER).curve
    return (
        AuditCase("null: the same stream twice", WHOLE, algorithm, certified, first, first, sent),
        AuditCase("worst transcript", WHOLE, algorithm, certified, first, second, sent),
        AuditCase(
            "four fifths of the noise",
            WHOLE,
            bug,
            certified,
            first,
            second,
            sent,
            expected="violated",
        ),
    )


# 7. Register the algorithm and its audit under a name.
hedgerow.ALGORITHMS.add("my_algorithm", EqualPhases)
hedgerow.AUDITS.add("my_algorithm", audit_cases)
