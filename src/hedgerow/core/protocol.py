"""The roles. Algorithms implement `Client`, `Server` and perhaps `Decider`; environments hand out blocks; engines drive.

Methods are pure: they take a state and return the next one, and draw randomness only from the noise they are handed. Client
arrays have shape (*batch, width) with `batch = noise.batch`: one client, or all clients at once, in the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.certificate import PRESENCE_STAYS, PUBLIC_DELAYS, PUBLIC_PRESENCE, PUBLIC_SLEEP, Certificate, with_public_mask
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.lattice import Units
from hedgerow.core.losses import Family
from hedgerow.core.messages import Broadcast, Upload, field_names
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting


class Feature(Enum):
    """What an algorithm may support beyond the plain game; anything else is refused by name."""

    SLEEPING_EXPERTS = "sleeping experts"
    ABSENT_CLIENTS = "absent clients"
    LATE_REPORTS = "late reports"


SHOWN_BY_THE_GAME = {
    Feature.SLEEPING_EXPERTS: (PUBLIC_SLEEP, ""),
    Feature.ABSENT_CLIENTS: (PUBLIC_PRESENCE, PRESENCE_STAYS),
    Feature.LATE_REPORTS: (PUBLIC_DELAYS, ""),
}
MASKS_AND_DELAYS = frozenset({Feature.SLEEPING_EXPERTS, Feature.ABSENT_CLIENTS, Feature.LATE_REPORTS})
"""What `proofs/masks.md` covers, for every algorithm that uses nothing of a client but its reports."""


@dataclass(frozen=True)
class Context:
    """What is known before a round is played: its number, and which experts may be chosen (None: all)."""

    round: int
    awake: np.ndarray | None = None


class Decider(Protocol):
    """Plays. Every client is one, unless an algorithm names a separate decider (local trust, silos)."""

    def start(self, noise: Noise) -> Any: ...

    def receive(self, state: Any, broadcast: Any) -> Any: ...

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[np.ndarray, Any]:
        """The play and the next state, before the losses are known."""
        ...


class Client(Decider, Protocol):
    """A site: sees its own reports, and everything that leaves it leaves through `upload`."""

    def observe(self, state: Any, reports: np.ndarray, noise: Noise) -> Any: ...

    def upload(self, state: Any, noise: Noise) -> tuple[Any, Any]: ...


@runtime_checkable
class SpanClient(Client, Protocol):
    """A client whose plays between two exchanges do not depend on its reports may play and observe many rounds at once.

    The result must be that of `play` and `observe` round by round, bit for bit; arrays have a leading axis of rounds.
    """

    def play_many(self, state: Any, rounds: int, noise: Noise) -> tuple[np.ndarray, Any]: ...

    def observe_many(self, state: Any, reports: np.ndarray, noise: Noise) -> Any: ...


class Server(Protocol):
    """Sees uploads (or their sum), sends broadcasts."""

    def open(self, noise: Noise) -> tuple[Any, Any]: ...

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class RunState:
    """Everything needed to go on, beside the noise: `remaining` rounds until the next exchange, None for never."""

    round: int
    clients: Any
    deciders: Any
    server: Any
    remaining: int | None


@dataclass(frozen=True)
class Trace:
    """What a fused fast path reports: plays (rounds, deciders) and how many exchanges were made."""

    plays: np.ndarray
    exchanges: int


Advance = Callable[[RunState, Block, NoiseSource], tuple[RunState, Trace]]


@dataclass(frozen=True)
class Algorithm:
    """An algorithm with all its public parameters resolved for one setting.

    `combine="sum"` means that the server sees only the sum of the uploads. `advance`, where given, is a fused fast path over
    many exchanges that must agree with the plain loop bit for bit.
    `common_play(broadcast)` is the expert that all clients play until the next exchange, for algorithms that know one and whose
    summed upload is `upload(losses of all clients since the last exchange)`: these can be played by sums alone (`engines.summed`).
    Where only the first rounds after a broadcast enter the upload, `common_rounds(broadcast)` says how many.
    `log_likelihood(broadcasts, reports)` is the exact log-probability of a sequence of broadcasts on given data, for audits.
    `parameters` are what was chosen or follows; those that end with `_at_most` are bounds proven for losses fixed in advance.
    `regret_bound` is what is proven about its regret, against whom and where; None: nothing, or nothing in this game.
    `reference` is the algorithm that this one is without noise.
    """

    name: str
    setting: Setting
    client: Client
    server: Server
    certificate: Certificate
    upload: type[Upload]
    broadcast: type[Broadcast]
    decider: Decider | None = None
    plays: Literal["expert", "point"] = "expert"
    combine: Literal["each", "sum"] = "sum"
    supports: frozenset[Feature] = frozenset()
    advance: Advance | None = None
    common_play: Callable[[Any], int] | None = None
    common_rounds: Callable[[Any], int] | None = None
    log_likelihood: Callable[[list[Any], np.ndarray], float] | None = None
    regret_bound: RegretBound | None = None
    reference: Algorithm | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*field_names(self.upload), *field_names(self.broadcast)):
            if name not in self.certificate.channels:
                raise InvalidValue(f"Expected the certificate of {self.name} to cover the message field {name}; give it a channel.")

    @property
    def has_mechanisms(self) -> bool:
        return bool(self.certificate.mechanisms)

    @property
    def regret_at_most(self) -> float:
        """The value of the regret bound, for whoever cannot do without one."""
        if self.regret_bound is None:
            raise InvalidValue(f"Expected {self.name} to have a proven regret bound, it has none.")
        return self.regret_bound.value


class AlgorithmSpec(Protocol):
    """The user's side of an algorithm: a frozen dataclass of choices that can be built for any setting.

    A private one may offer `audit_variants()`: parameters under which a tiny game comes close to the certificate, for the
    contract that enumerates all its transcripts; and `audit_cases()` (see `audit_case`): attacks for `hedgerow audit`.

    Class attributes say more, if there is more to say: `FORMS`, the choices of each further form by its name, which tests and the
    README then know of; `MEANINGS`, words for those names of fields and of `Algorithm.parameters` that do not explain themselves;
    `EXACT`, which choices have an exact sampler, where not all have.
    Two names of fields have a meaning of their own: `epsilon` is the budget, and `every` the rounds between exchanges. Contracts
    change them, to make a tiny game loud and a long one quick.
    """

    def build(self, setting: Setting) -> Algorithm: ...


class Environment(Protocol):
    """Where losses come from. `block` is pure; an adaptive environment sees past plays and gives one round at a time.

    One whose game is not the plain one says so in `features` (a set of `Feature`), which others leave out. One whose losses are drawn
    anew in every round from one law, independently at every client, says so by `adversary = "stochastic"` (see `regret_bound`): some
    regret bounds hold only there. Others leave it out and are oblivious; whoever is `adaptive` is an adaptive adversary.
    """

    @property
    def setting(self) -> Setting: ...

    @property
    def family(self) -> Family: ...

    adaptive: ClassVar[bool]

    def start(self, seed: int) -> Any: ...

    def block(self, state: Any, rounds: int, past_plays: np.ndarray | None) -> tuple[Block, Any]: ...


@runtime_checkable
class SummedEnvironment(Environment, Protocol):
    """An environment that can draw the sums of many rounds directly, with the law that adding up its losses would give."""

    def sums(self, state: Any, rounds: int) -> tuple[Units, Any]:
        """Losses of every expert in the next rounds, summed over all clients, in lattice units."""
        ...


def features_of(environment: Environment) -> frozenset[Feature]:
    """What the environment's game has beyond the plain one."""
    return getattr(environment, "features", frozenset())


def require_exact_noise(algorithm: Algorithm, instead: str = "") -> None:
    """Secure noise is exact, so every mechanism needs an exact sampler (`exact = True`). `instead`: which choices have one."""
    for mechanism in algorithm.certificate.mechanisms:
        if getattr(mechanism, "exact", False) is not True:
            hint = f"; take {instead}" if instead else ""
            raise Unsupported(f"{algorithm.name} needs {type(mechanism).__name__}, which has no exact sampler for secure noise{hint}.")


def require_support(algorithm: Algorithm, environment: Environment, able: Callable[[Feature], Iterable[str]] | None = None) -> None:
    """Refuse a game that the algorithm does not support, by name. `able`: who does, where the caller knows them."""
    for feature in sorted(features_of(environment) - algorithm.supports, key=lambda feature: feature.value):
        others = "`hedgerow list` shows which algorithms do" if able is None else f"take one of {', '.join(able(feature))}"
        raise Unsupported(f"{algorithm.name} does not support {feature.value}; {others}.")


def certified_for(algorithm: Algorithm, environment: Environment) -> Algorithm:
    """The algorithm as it is in this game: its certificate says what the game shows of its own (who takes part, who sleeps, who is
    late), and bounds that are proven for the plain game alone are gone.
    """
    require_support(algorithm, environment)
    features = features_of(environment)
    if not features and not environment.adaptive:
        return algorithm
    certificate = algorithm.certificate
    for feature, (assumption, narrower) in SHOWN_BY_THE_GAME.items():
        if feature in features:
            certificate = with_public_mask(certificate, assumption, narrower)
    plain_only = {name: value for name, value in algorithm.parameters.items() if not name.endswith("_at_most")}
    bound = None if Feature.LATE_REPORTS in features else algorithm.regret_bound
    return replace(algorithm, certificate=certificate, parameters=plain_only, regret_bound=bound)
