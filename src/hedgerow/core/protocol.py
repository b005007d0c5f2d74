"""The roles. Algorithms implement `Client`, `Server` and perhaps `Decider`; engines drive; a spec is what the user chooses.

Methods are pure: they take a state and return the next one, and draw randomness only from the noise they are handed. Client
arrays have shape (*batch, width) with `batch = noise.batch`: one client, or all clients at once, in the same code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from hedgerow.core.block import Block
from hedgerow.core.certificate import Certificate
from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.core.messages import Broadcast, Upload, field_names
from hedgerow.core.noise import Noise, NoiseSource
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting


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
                raise InvalidValue(
                    f"Expected the certificate of {self.name} to cover the message field {name}; give it a channel."
                )

    @property
    def has_mechanisms(self) -> bool:
        return bool(self.certificate.mechanisms)

    @property
    def regret_at_most(self) -> float:
        """The value of the regret bound, for whoever cannot do without one."""
        if self.regret_bound is None:
            raise InvalidValue(f"Expected {self.name} to have a proven regret bound, it has none.")
        return self.regret_bound.value


@dataclass(frozen=True)
class SpecTraits:
    """What a spec says of itself beside its choices.

    `forms` are the choices of each further form by its name, which tests and the README then know of. `meanings` are words for those
    names of fields and of `Algorithm.parameters` that do not explain themselves. `exact` says which choices have an exact sampler,
    where not all have.
    `epsilon` and `delta` name the fields with the budget, `interval` the field with the rounds between exchanges. A spec without a
    field of that name has none; None where a field of that name means something else. Contracts change them, to make a tiny game
    loud and a long one quick.
    """

    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    exact: str = ""
    epsilon: str | None = "epsilon"
    delta: str | None = "delta"
    interval: str | None = "every"


class AlgorithmSpec(ABC):
    """The user's side of an algorithm: a frozen dataclass of choices that can be built for any setting."""

    traits: ClassVar[SpecTraits] = SpecTraits()

    @abstractmethod
    def build(self, setting: Setting) -> Algorithm:
        """The algorithm with all its public parameters resolved."""

    def audit_variants(self) -> tuple[AlgorithmSpec, ...]:
        """Choices under which a tiny game comes close to the certificate, for the contract that enumerates all its transcripts.

        Without any, the contract takes a large and a small epsilon, and an exchange after every round.
        """
        return ()
