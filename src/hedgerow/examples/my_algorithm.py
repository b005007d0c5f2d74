"""A plugin to copy: an algorithm in one file. Private follow-the-leader by phases, with its certificate.

    hedgerow contracts my_algorithm --plugin examples/my_algorithm.py
    hedgerow audit my_algorithm --plugin examples/my_algorithm.py
    hedgerow run examples/plugin.toml --plugin examples/my_algorithm.py

The horizon is cut into phases of `every` rounds. After each phase the server draws the next expert by the exponential
mechanism on the losses of that phase alone. A datum lies in one phase and moves each score of one draw by at most 1, so the
whole transcript is epsilon-DP (proofs/composition.md#disjoint-pieces).
"""

from dataclasses import dataclass, replace

import numpy as np

import hedgerow
from hedgerow.audits.case import WHOLE, AuditCase
from hedgerow.core.certificate import Certificate, Channel, Observer, Proof, trusted_server
from hedgerow.core.lattice import from_units, to_units
from hedgerow.core.messages import Broadcast, Upload
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, expect, positive
from hedgerow.privacy.mechanisms import ExponentialMechanism


# 1. Messages: everything that leaves a client, everything that comes back.
@dataclass(frozen=True)
class PhaseLosses(Upload):
    losses: np.ndarray


@dataclass(frozen=True)
class NextExpert(Broadcast):
    expert: int


# 2. States: explicit, flat, arrays and numbers only.
@dataclass(frozen=True)
class ClientState:
    expert: np.ndarray
    losses: np.ndarray


@dataclass(frozen=True)
class ServerState:
    phases: int


# 3. The client: pure methods on arrays (*batch, width); one client or all of them.
@dataclass(frozen=True)
class PhaseClient:
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


# 4. The server: noise only through mechanisms, and `noise.release` so that every release can be recorded.
@dataclass(frozen=True)
class PhaseServer:
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


# 5. The user's side: parameters, checks, and the certificate built from the same mechanism object.
@dataclass(frozen=True)
class EqualPhases(AlgorithmSpec):
    """Every `every` rounds the next expert is drawn privately from the losses of the phase just ended."""

    epsilon: float = 1.0
    every: int = 2

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        at_least("every", self.every, 1)

    def build(self, setting: Setting) -> Algorithm:
        expect(self.every <= setting.horizon, "every", self.every, f"<= horizon={setting.horizon}")
        selection = ExponentialMechanism("selection", self.epsilon)
        server = PhaseServer(setting.experts, self.every, selection)
        return Algorithm(
            name="my_algorithm",
            setting=setting,
            client=PhaseClient(setting.experts),
            server=server,
            certificate=self._certificate(setting, selection),
            upload=PhaseLosses,
            broadcast=NextExpert,
            log_likelihood=server.log_likelihood,
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


# 6. Where it leaks most: the null, the worst transcript, and a bug that must be caught.
def audit_cases(spec: EqualPhases) -> tuple[AuditCase, ...]:
    """One phase: expert 0, whom everybody else finds bad, is drawn; only one world has a client in its favour."""
    algorithm = spec.build(Setting(clients=50, experts=50, horizon=spec.every + 1))
    assert isinstance(algorithm.server, PhaseServer)
    first = np.zeros((spec.every + 1, 50, 50))
    first[0, 1:, 0] = 1.0
    second = first.copy()
    first[0, 0, 1:] = second[0, 0, 0] = 1.0
    sent = ((NextExpert(spec.every, 1), NextExpert(spec.every, 0)),)
    half = replace(algorithm.server, selection=algorithm.server.selection.scaled(0.5))
    bug = replace(algorithm, server=half, log_likelihood=half.log_likelihood)
    certified = algorithm.certificate.guarantee(Observer.PEER).curve
    return (
        AuditCase("null: the same stream twice", WHOLE, algorithm, certified, first, first, sent),
        AuditCase("worst transcript", WHOLE, algorithm, certified, first, second, sent),
        AuditCase(
            "half the noise", WHOLE, bug, certified, first, second, sent, expected="violated"
        ),
    )


# 7. A name to call it by.
hedgerow.ALGORITHMS.add("my_algorithm", EqualPhases)
hedgerow.AUDITS.add("my_algorithm", audit_cases)
