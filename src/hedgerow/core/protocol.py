"""The roles in a game: client, server and decider, and the algorithm that combines them.

Algorithms implement `Client`, `Server` and sometimes `Decider`; engines call them. An
`AlgorithmSpec` holds the user's choices. Methods are pure: they take a state and return the next
one, and draw randomness only from the noise that they are given. Client arrays have shape (*batch,
width) with `batch = noise.batch`, so the same code serves one client or all clients at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from hedgerow.core.block import Block, Side
from hedgerow.core.certificate import (
    ANSWERS_STAY,
    PRESENCE_STAYS,
    PUBLIC_ANSWERS,
    PUBLIC_DELAYS,
    PUBLIC_PRESENCE,
    PUBLIC_REPORTERS,
    PUBLIC_SIDE,
    PUBLIC_SLEEP,
    Certificate,
    Channel,
    with_public_mask,
)
from hedgerow.core.environment import Feature, Traits
from hedgerow.core.errors import InvalidValue, Unsupported
from hedgerow.core.fingerprint import fingerprint
from hedgerow.core.games import Games
from hedgerow.core.limits import Broadcasts, Closing, Uploads
from hedgerow.core.losses import Family, Linear
from hedgerow.core.measure import Measure
from hedgerow.core.messages import field_names
from hedgerow.core.noise import Noise, NoiseSource, SeededNoise
from hedgerow.core.protecting import protecting
from hedgerow.core.regret_bound import RegretBound
from hedgerow.core.setting import Setting
from hedgerow.core.transcript import Plays
from hedgerow.core.unit_text import parse_unit
from hedgerow.core.units import Event, Unit


@dataclass(frozen=True)
class Context:
    """What is known before a round is played.

    `round` is its number. `awake` marks the experts that may be chosen (None: all). `side` is what
    is public in this round (None: nothing): about a client for the client itself, about all clients
    for deciders.
    """

    round: int
    awake: np.ndarray | None = None
    side: Side | None = None


class Decider(Protocol):
    """A role that plays.

    Every client is a decider unless an algorithm names a separate one (local trust, silos). `state`
    is the type of all its states: a flat dataclass, or `type(None)`.
    """

    state: ClassVar[type[Any]]

    def start(self, noise: Noise) -> Any: ...

    def receive(self, state: Any, broadcast: Any) -> Any: ...

    def play(self, state: Any, context: Context, noise: Noise) -> tuple[np.ndarray, Any]:
        """Return the play and the next state, before the losses are known."""
        ...


class Client(Decider, Protocol):
    """A client (a site: hospital, bank, phone). Its data leave it only through `upload`.

    Where the game has public side information, or only some clients report, `observe` takes it as
    `side`, a fourth argument.
    """

    def observe(self, state: Any, reports: np.ndarray, noise: Noise) -> Any: ...

    def upload(self, state: Any, noise: Noise) -> tuple[Any, Any]: ...


@runtime_checkable
class SpanClient(Client, Protocol):
    """A client that can play and observe many rounds at once.

    Its plays between two exchanges must not depend on its reports. The result must equal that of
    `play` and `observe` round by round, bit for bit. Arrays have a leading axis of rounds.
    """

    def play_many(self, state: Any, rounds: int, noise: Noise) -> tuple[np.ndarray, Any]: ...

    def observe_many(self, state: Any, reports: np.ndarray, noise: Noise) -> Any: ...


@runtime_checkable
class ReportingClient(Client, Protocol):
    """A client that only reports, `width` numbers in a round: a decider plays."""

    @property
    def width(self) -> int: ...


class Server(Protocol):
    """The server sees the uploads, or only their sum, and sends broadcasts.

    `state` is the type of all its states: a flat dataclass, or `type(None)`.
    """

    state: ClassVar[type[Any]]

    def open(self, noise: Noise) -> tuple[Any, Any]: ...

    def aggregate(self, state: Any, uploads: Any, noise: Noise) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class RunState:
    """Everything needed to continue a game, apart from the noise.

    `remaining` counts the rounds until the next exchange; None means there is no further exchange.
    `exchanges` counts those made so far; an engine adds those of a fast path.
    """

    round: int
    clients: Any
    deciders: Any
    server: Any
    remaining: int | None
    exchanges: int = 0


@dataclass(frozen=True)
class Trace:
    """The report of a fused fast path: the plays and the number of exchanges.

    Experts are an array (rounds, deciders); points are `Plays`.
    """

    plays: np.ndarray | Plays
    exchanges: int


Advance = Callable[[RunState, Block, NoiseSource], tuple[RunState, Trace]]


class Resident(Protocol):
    """Plays whole games at once, without messages and states of single clients.

    It agrees with the plain loop on the same noise up to rounding errors. A state has the `round`
    and what measures may know of the `clients`. Games of one `kind` can be played `together`, for
    each seed all its games on its block; None: alone. That pays from `worth` rounds of all games
    on; `most` bounds how many there are, for blocks of this length.
    """

    @property
    def kind(self) -> Any: ...

    @property
    def worth(self) -> int: ...

    def most(self, rounds: int) -> int: ...

    def start(self, source: SeededNoise) -> Any: ...

    def advance(self, run: Any, block: Block) -> tuple[Any, Trace]: ...

    def together(
        self,
        games: Sequence[Sequence[Any]],
        runs: Sequence[Sequence[Any]],
        blocks: Sequence[Block],
    ) -> list[list[tuple[Any, Trace]]]: ...


SHOWN_BY_THE_GAME = {
    Feature.SLEEPING_EXPERTS: (PUBLIC_SLEEP, ""),
    Feature.ABSENT_CLIENTS: (PUBLIC_PRESENCE, PRESENCE_STAYS),
    Feature.LATE_REPORTS: (PUBLIC_DELAYS, ""),
    Feature.SIDE_INFORMATION: (PUBLIC_SIDE, ""),
    Feature.SOME_REPORT: (PUBLIC_REPORTERS, ""),
}


ROLES = ("client", "server", "decider")
MOST_MOVED = 2**40  # values that depend on one unit, where neither horizon nor entries are known
FINGERPRINTED = (
    *("name", "setting", *ROLES, "certificate", "uploads", "broadcasts"),
    *("plays", "supports", "parameters"),
)
"""The fields of an algorithm that its fingerprint covers, besides two of its claims."""


@dataclass(frozen=True)
class Claims:
    """What an algorithm claims besides its certificate, and what lets others check its claims.

    Parameters
    ----------
    regret_bound
        The proven regret bound and the adversaries that it covers. None: nothing is proven, or
        nothing in this game.
    measures
        Returns the measures that the algorithm adds to a run.
    log_likelihood
        `log_likelihood(broadcasts, reports)` is the exact log-probability of a sequence of
        broadcasts on given data; audits use it.
    reference
        The same algorithm without noise.
    free_noise
        The purposes of noise that protects nothing and is drawn outside any mechanism, such as
        that of a first play.
    """

    regret_bound: RegretBound | None = None
    measures: Callable[[], tuple[Measure, ...]] | None = None
    log_likelihood: Callable[[list[Any], np.ndarray], float] | None = None
    reference: Algorithm | None = None
    free_noise: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Shortcuts:
    """What can be known of a game without playing it round by round.

    Parameters
    ----------
    advance
        A fused fast path over many exchanges. It must agree with the plain loop bit for bit.
    resident
        Plays whole games of seeded noise, where nobody watches messages. None: there is no such
        way to play.
    common_play
        `common_play(broadcast)` is the expert that all clients play until the next exchange. Give
        it only if the summed upload is that of the losses of all clients since the last exchange;
        the game can then be played from sums alone (`engines.summed`).
    common_rounds
        `common_rounds(broadcast)` is the number of rounds after a broadcast that enter the upload.
        None: all of them.
    switches_left
        `switches_left(state)` is the number of changes of expert that the budget still allows after
        this state of the server, or None if there is no limit; `Learner.status` shows it.
    """

    advance: Advance | None = None
    resident: Resident | None = None
    common_play: Callable[[Any], int] | None = None
    common_rounds: Callable[[Any], int] | None = None
    switches_left: Callable[[Any], int | None] | None = None


@dataclass(frozen=True)
class Algorithm:
    """An algorithm with all its public parameters resolved for one setting.

    Parameters
    ----------
    name
        The registered name.
    setting
        The number of clients, experts and rounds.
    client, server
        The two roles; their methods are pure.
    certificate
        Who can learn what. It must give every message field a channel.
    uploads, broadcasts
        What clients and the server send: types of messages, and the limits of honest ones.
    decider
        The role that plays, if it is not the client. None: every client plays.
    plays
        `"expert"` for the index of an expert, `"point"` for a vector.
    supports
        The features beyond the plain game with which the algorithm works.
    needs
        The features without which it cannot play, such as public side information.
    claims
        What it claims besides its certificate, and what checks its claims.
    shortcuts
        What can be known without playing round by round, such as a fast path.
    parameters
        The parameters that were chosen or follow from choices. Names that end with `_at_most` are
        bounds proven for losses fixed in advance.

    Examples
    --------
    >>> import hedgerow as hr
    >>> algorithm = hr.SparseVector(epsilon=1.0).build(hr.Setting(10, 100, 512))
    >>> algorithm.name, algorithm.uploads.combine, algorithm.certificate.trust
    ('sparse_vector', 'sum', 'central')
    """

    name: str
    setting: Setting
    client: Client
    server: Server
    certificate: Certificate
    uploads: Uploads
    broadcasts: Broadcasts
    decider: Decider | None = None
    plays: Literal["expert", "point"] = "expert"
    supports: frozenset[Feature] = frozenset()
    needs: frozenset[Feature] = frozenset()
    claims: Claims = Claims()
    shortcuts: Shortcuts = Shortcuts()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.setting.deciders is None) != (self.decider is None):
            raise Unsupported(
                f"{self.name} lets the clients play, but this game has separate deciders."
                if self.decider is None
                else f"{self.name} needs separate deciders, but in this game the clients play."
            )
        sent = field_names(self.uploads.kind)
        for name in (*sent, *field_names(self.broadcasts.kind)):
            if name not in self.certificate.channels:
                raise InvalidValue(
                    f"The certificate of {self.name} does not cover the message field {name}. "
                    "Give it a channel."
                )
        combine = self.uploads.combine
        for name in sent:
            if self.certificate.channels[name] is Channel.SUM and combine != "sum":
                raise InvalidValue(
                    f"The certificate of {self.name} says that only the sum of {name} is seen, but "
                    f"combine={combine!r} shows each. Choose combine='sum'."
                )

    def fingerprint(self) -> str:
        """Return a hash of all that decides what the algorithm does and what it promises.

        Algorithms with the same resolved parameters have the same fingerprint in every process. A
        long test compares two versions of numpy and scipy. Shortcuts, and claims but the regret
        bound and free noise, do not count: they add nothing.

        >>> from hedgerow.algorithms.baselines.hedge import Hedge
        >>> built, again = (Hedge().build(Setting(10, 100, 512)) for _ in range(2))
        >>> built.fingerprint() == again.fingerprint()
        True
        >>> Hedge(every=2).build(Setting(10, 100, 512)).fingerprint() == built.fingerprint()
        False
        """
        roles = [getattr(self, name) for name in ROLES]
        states = {
            name: role.state for name, role in zip(ROLES, roles, strict=True) if role is not None
        }
        counted = {name: getattr(self, name) for name in FINGERPRINTED}
        claimed = (self.claims.regret_bound, self.claims.free_noise)
        return fingerprint({**counted, "states": states, "claims": claimed}, self.name)

    def require_limits(self) -> None:
        """Raise unless deployed clients and servers can tell what an honest one sends."""
        self.broadcasts.require_limits(self.name)
        self.uploads.require_limits(self.name, self.setting)

    @property
    def fast_path(self) -> Advance | None:
        """`shortcuts.advance`, unless it was made for other roles than those of this algorithm.

        A fast path that is a method of an object with roles serves these roles only, so an
        algorithm in which a role was replaced plays the plain loop.
        """
        advance = self.shortcuts.advance
        made_for = getattr(advance, "__self__", None)
        roles = {name: getattr(self, name) for name in ROLES}
        same = all(getattr(made_for, name, role) is role for name, role in roles.items())
        return advance if same else None

    @property
    def has_mechanisms(self) -> bool:
        """Whether the algorithm draws noise through mechanisms."""
        return bool(self.certificate.mechanisms)

    def require_exact_noise(self, instead: str = "") -> None:
        """Raise unless secure noise can be used in this game, whatever the records are.

        Every mechanism needs an exact sampler (`exact = True`; `instead` names the choices that
        have one), and no sum of records may reach 2^33: noise is refused there, and a refusal that
        depends on the records would show them (`proofs/secure_noise.md`). Secure noise must be
        able to draw the scale of every mechanism: otherwise the first draw would fail.
        """
        self.setting.require_exact_sums(self.setting.horizon or 1)
        for mechanism in self.certificate.mechanisms:
            if mechanism.exact is not True:
                hint = f" Choose {instead}." if instead else ""
                raise Unsupported(
                    f"{self.name} needs {type(mechanism).__name__}, "
                    f"which has no exact sampler for secure noise.{hint}"
                )
            moved = self.certificate.entered or self.setting.horizon or MOST_MOVED
            scale = mechanism.noise_scale()
            limits = mechanism.exact_scales(self.setting.experts, moved)
            if scale is None:
                continue
            needs = f"{self.name} needs noise of scale {scale:g} ({mechanism.purpose})"
            if not scale >= limits[0]:
                raise Unsupported(
                    f"{needs}, and secure noise has a scale of at least {limits[0]:g}; choose a "
                    "smaller budget."
                )
            if scale > limits[1]:
                raise Unsupported(
                    f"{needs}, and secure noise has a scale of at most {limits[1]:g}; choose a "
                    "larger budget."
                )

    def in_game(self, traits: Traits) -> Algorithm:
        """Return the algorithm with the certificate that holds in a game with these traits.

        The certificate states what the game itself reveals: which clients take part, which experts
        sleep, which reports are late. Bounds that are proven only for the plain game are removed;
        what the algorithm needs is part of its plain game.
        """
        traits.require_support(self.name, self.supports)
        if not traits.features and traits.adversary != "adaptive":
            return self
        certificate = self.certificate
        for feature, (assumption, narrower) in SHOWN_BY_THE_GAME.items():
            if feature in traits.features:
                certificate = with_public_mask(certificate, assumption, narrower)
        beyond = {Feature.LATE_REPORTS, Feature.SOME_REPORT} - self.needs
        bound = self.claims.regret_bound
        if bound is not None and bound.best_loss is not None:
            # a sleeping expert is charged what others lose, so none is known to lose little
            beyond |= {Feature.SLEEPING_EXPERTS}
        return self._beyond(certificate, None if beyond & traits.features else bound)

    def closed_by(self, rule: Closing) -> Algorithm:
        """Return the algorithm with what holds in a deployment whose exchanges close by this rule.

        Unless an exchange waits for all clients, the certificate states that answers are public,
        and bounds that are proven only for the plain game are removed (`proofs/closing.md`).
        """
        if rule not in self.uploads.closing:
            raise Unsupported(
                f"{self.name} does not support closing={rule!r} with these choices. "
                f"It supports {', '.join(sorted(self.uploads.closing))} (`proofs/closing.md`)."
            )
        if rule == "wait":
            return self
        return self._beyond(with_public_mask(self.certificate, PUBLIC_ANSWERS, ANSWERS_STAY), None)

    def _beyond(self, certificate: Certificate, bound: RegretBound | None) -> Algorithm:
        """Return the algorithm without the bounds that are proven for the plain game only."""
        kept = {name: v for name, v in self.parameters.items() if not name.endswith("_at_most")}
        claims = replace(self.claims, regret_bound=bound)
        return replace(self, certificate=certificate, parameters=kept, claims=claims)

    @property
    def regret_at_most(self) -> float:
        """The value of the regret bound. Raises if no bound is proven."""
        bound = self.claims.regret_bound
        if bound is None:
            raise InvalidValue(
                f"No regret bound is proven for {self.name} here. Check that `claims` has one."
            )
        return bound.value


@dataclass(frozen=True)
class SpecTraits:
    """What a spec declares about itself besides its choices.

    * `forms` maps the name of each further form to its choices; tests and documents cover them.
    * `meanings` explains names of fields and of `Algorithm.parameters` that are not obvious.
    * `exact` states which choices have an exact sampler, if not all do.
    * `epsilon` and `delta` name the fields with the budget.
    * `interval` names the field with the rounds between exchanges.
    * `anytime`: the algorithm needs no horizon.
    * `families` are the loss families that it can play.
    * `family` is the one that `hedgerow certify` and the documents show; None: losses in [0, 1].

    For `epsilon`, `delta` and `interval`, a spec without a field of that name has none, and None
    means that a field of that name means something else. Contracts change these fields, so that a
    tiny game reveals much and a long game runs fast.
    """

    forms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    exact: str = ""
    epsilon: str | None = "epsilon"
    delta: str | None = "delta"
    interval: str | None = "every"
    anytime: bool = False
    families: tuple[type[Family], ...] = (Linear,)
    family: Family | None = None


@dataclass(frozen=True)
class AlgorithmSpec(ABC):
    """The user's choices for an algorithm: a frozen dataclass, built for any setting.

    `unit` is what the budget protects (`hedgerow.core.units`), also as text such as "person:24".
    None: one record.
    """

    traits: ClassVar[SpecTraits] = SpecTraits()
    unit: Unit | str | None = field(default=None, kw_only=True, repr=False)

    def build(self, setting: Setting) -> Algorithm:
        """Return the algorithm for a setting; refuse, by name, what it cannot play."""
        name = type(self).__name__
        if setting.horizon is None and not self.traits.anytime:
            raise Unsupported(
                f"{name} needs a horizon. Give the number of rounds, or choose an algorithm that "
                "needs none (`hedgerow list algorithms`)."
            )
        if not isinstance(setting.family, self.traits.families):
            able = ", ".join(family.__name__ for family in self.traits.families)
            raise Unsupported(
                f"{name} does not support the loss family {type(setting.family).__name__}. "
                f"It supports {able}; `hedgerow list algorithms` shows which do."
            )
        unit = Event() if self.unit is None else parse_unit(self.unit)
        return self.resolve(setting) if type(unit) is Event else self.protecting(unit, setting)

    def pattern(self, setting: Setting, every: int = 1) -> tuple[int, int, int]:
        """How the records of the unit enter a running sum (`Unit.pattern`)."""
        unit = Event() if self.unit is None else parse_unit(self.unit)
        return unit.pattern(setting, every)

    def protecting(self, unit: Unit, setting: Setting) -> Algorithm:
        """Return the algorithm whose budget is that of `unit`, by the rule for several records."""
        return protecting(self, unit, setting)

    @abstractmethod
    def resolve(self, setting: Setting) -> Algorithm:
        """Return the algorithm with all its public parameters; called by `build`."""

    def games(self) -> Games | None:
        """Return games for the contracts, if the algorithm does not choose experts with losses."""
        return None

    def audit_variants(self) -> tuple[AlgorithmSpec, ...]:
        """Return choices under which a tiny game comes close to the certificate.

        They serve the contract that enumerates all transcripts of that game. Without any, the
        contract takes a large and a small epsilon, and an exchange after every round.
        """
        return ()
