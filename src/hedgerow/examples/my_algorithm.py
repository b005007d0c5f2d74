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
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

import hedgerow
from hedgerow.algorithms.shared.following import CHANNELS, CurrentExpert, Follower, current_expert
from hedgerow.algorithms.shared.schedule import Schedule
from hedgerow.algorithms.shared.totals import LossSums, check_interval, sums_of_losses
from hedgerow.audits.case import WHOLE, AuditCase
from hedgerow.core.certificate import Observer, Proof, trusted_server
from hedgerow.core.environment import MASKS_AND_DELAYS
from hedgerow.core.lattice import from_units
from hedgerow.core.limits import Broadcasts, Uploads
from hedgerow.core.noise import Noise
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Claims, Shortcuts
from hedgerow.core.setting import Setting
from hedgerow.core.validate import at_least, check_budget
from hedgerow.privacy.mechanisms import ExponentialMechanism


# 1. The server's state: explicit and flat, with arrays and numbers only. The client is `Follower`,
# which adds up its losses and follows the broadcast expert. Messages and a client of your own look
# like those in `algorithms/shared/following.py`.
@dataclass(frozen=True)
class ServerState:
    """The number of finished phases."""

    phases: int


# 2. The server: pure methods; noise comes from mechanisms only, through `noise.release`.
@dataclass(frozen=True)
class PhaseServer:
    """Draws the expert of the next phase from the losses of the last one."""

    state: ClassVar[type[Any]] = ServerState

    experts: int
    schedule: Schedule
    selection: ExponentialMechanism

    def open(self, noise: Noise) -> tuple[CurrentExpert, ServerState]:
        first = noise.index(self.experts, "first expert")
        return CurrentExpert(self.schedule.wait(0), first, 0), ServerState(0)

    def aggregate(
        self, state: ServerState, uploads: LossSums, noise: Noise
    ) -> tuple[CurrentExpert, ServerState]:
        expert, phases = noise.release(self.selection, from_units(uploads.losses)), state.phases + 1
        return CurrentExpert(self.schedule.wait(phases), expert, phases), ServerState(phases)

    def log_likelihood(self, broadcasts: list[CurrentExpert], reports: np.ndarray) -> float:
        """Exact log-probability of the broadcasts, for contracts and audits."""
        result = -np.log(self.experts)
        for phase, sent in enumerate(broadcasts[1:]):
            rounds = slice(self.schedule.time(phase), self.schedule.time(phase + 1))
            losses = reports[rounds].sum(axis=(0, 1))
            result += self.selection.log_probability(losses, sent.expert)
        return result


# 3. The user's side: parameters, checks, and a certificate built from the same mechanism object.
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
        check_interval(self.every, setting)
        selection = ExponentialMechanism("selection", self.epsilon)
        server = PhaseServer(setting.experts, Schedule(self.every), selection)
        return Algorithm(
            name="my_algorithm",
            setting=setting,
            client=Follower(setting.experts),
            server=server,
            certificate=trusted_server(
                setting=setting,
                curve=selection.curve,
                proof=Proof("composition.md", "disjoint-pieces"),
                channels=CHANNELS,
                mechanisms=(selection,),
            ),
            uploads=Uploads(LossSums, sums_of_losses(setting)),
            broadcasts=Broadcasts(CurrentExpert, current_expert(server.schedule, setting)),
            supports=MASKS_AND_DELAYS,
            claims=Claims(log_likelihood=server.log_likelihood),
            shortcuts=Shortcuts(common_play=attrgetter("expert")),
        )


# 4. The audit: a null case, the transcript that leaks most, and a bug that must be caught.
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
    sent = ((CurrentExpert(spec.every, 1, 0), CurrentExpert(spec.every, 0, 1)),)
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


# 5. Register the algorithm and its audit under a name.
hedgerow.ALGORITHMS.add("my_algorithm", EqualPhases)
hedgerow.AUDITS.add("my_algorithm", audit_cases)
