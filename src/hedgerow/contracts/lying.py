"""The contract on a server that lies: whatever it sends, it learns no more than is certified.

One client plays a game in two neighbouring worlds. The server is a fuzzer: it sends what an honest
server would send, what it has sent before, or messages of the right form with numbers that make no
sense. In the second world the same messages arrive, and every release has the output of the first.
Then the uploads must be the same, and what was released must differ by no more than the certificate
allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from math import sqrt
from typing import Any

import numpy as np

from hedgerow.contracts.games import built, games_of, pairs, records_between, whole
from hedgerow.contracts.guarantees import moves_are_small
from hedgerow.contracts.ledger import stays_within
from hedgerow.contracts.neighbours import SEEDED, Pair, Randomness, changed, private, units
from hedgerow.contracts.outcome import BrokenContract, NotApplicable, demand, same
from hedgerow.contracts.recording import RecordingNoise, short_noise
from hedgerow.core.block import Block
from hedgerow.core.errors import HedgerowError, Unsupported
from hedgerow.core.messages import InvalidMessage, decode, encode
from hedgerow.core.protocol import Algorithm, AlgorithmSpec, Context
from hedgerow.core.transcript import Everything
from hedgerow.deployment.masks import Masked
from hedgerow.engines.loop import combine, observe, stack
from hedgerow.privacy.mechanisms.additive import GaussianShare

GAMES = 80
AT_ONCE = 200  # games whose releases are kept at the same time
STREAMS = 40  # pairs of neighbours
INTERVAL = 3  # rounds between exchanges in every second game, where that can be chosen

Lie = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Returns a vector for a field of a broadcast, given the honest one."""


def lying_servers_learn_no_more(
    spec: AlgorithmSpec,
    noise: Randomness = SEEDED,
    games: int = GAMES,
    clever: Lie | None = None,
) -> str:
    """A server that lies learns no more than is certified, and cannot make a client fail.

    A broadcast that the algorithm does not allow is refused before the client's role sees it. After
    any other, the role plays on in both worlds alike, and what it releases about one unit costs at
    most what is promised. With distributed trust each upload is a value and one share of noise, and
    nothing happens to it after the share.

    `clever` makes vectors for a server that knows the other records, for half of the lies; tests
    plant one.
    """
    if private(spec).certificate.trust not in ("local", "distributed"):
        raise NotApplicable("its server is trusted")
    worst, lies, believed = 0.0, 0, 0
    seldom = changed(spec, interval=INTERVAL)
    kinds = [spec] if seldom == spec else [spec, seldom]
    for number, one in enumerate(kinds):
        algorithm = built(one, games_of(one).setting)
        try:
            algorithm.broadcasts.require_limits(algorithm.name)
        except Unsupported as refusal:
            raise BrokenContract(str(refusal)) from refusal
        unit = units(algorithm)[0]
        played = _games(one, algorithm, noise, range(number, games, len(kinds)), clever)
        while some := list(islice(played, AT_ONCE)):
            found = [pair for pair, _ in some]
            worst = max(worst, *(_share(algorithm, pair) for pair in found))
            moves_are_small(unit, found)
            if algorithm.certificate.composition != "joint":
                stays_within(algorithm, unit, found)
            lies += sum(liar.lies for _, liar in some)
            believed += sum(liar.believed for _, liar in some)
    return (
        f"{games:,} games with {lies:,} lies, {believed:,} of them let through: uploads move by at "
        f"most {worst:.3f} of what is certified"
    )


def _games(
    spec: AlgorithmSpec, algorithm: Algorithm, noise: Randomness, games: range, clever: Lie | None
) -> Iterator[tuple[Pair, _Liar]]:
    """Play games in turn on some neighbouring streams."""
    recorded, streams = games_of(spec).recorded, list[tuple[Block, Block, int]]()
    for _, stream, neighbour in pairs(spec, units(algorithm)[0], STREAMS):
        both = recorded(stream), recorded(neighbour)
        cells = records_between(*both)
        if cells:
            streams.append((whole(both[0]), whole(both[1]), cells[0][1]))
    demand(bool(streams), "no neighbours of its games differ in a record, so nothing was tried")
    for number, seed in enumerate(games):
        first, second, who = streams[number % len(streams)]
        liar = _Liar(algorithm, np.random.default_rng(seed), short_noise(seed).server(), clever)
        one = RecordingNoise(noise.source(seed))
        sent = _Party(algorithm, first, who, one).play(liar)
        two = RecordingNoise(noise.source(seed), one.ledger)
        also = _Party(algorithm, second, who, two).play(_Again(liar.messages))
        demand(
            len(sent) == len(also),
            "the client uploads more often in one of two neighbouring worlds",
        )
        demand(same(sent, also), "uploads or plays depend on data beyond what was released")
        if algorithm.certificate.trust == "distributed":
            _shares_are_drawn(algorithm, sent, one)
        yield Pair(one.ledger, two.ledger, Everything(), Everything()), liar


def _shares_are_drawn(algorithm: Algorithm, sent: list[Any], noise: RecordingNoise) -> None:
    """Demand that each upload is what one share of noise was added to, and is sent as it is."""
    masked = Masked.of(algorithm)
    found = [getattr(one, masked.field) for one in sent if type(one) is algorithm.uploads.kind]
    shares = [one for one in noise.ledger.releases if isinstance(one.mechanism, GaussianShare)]
    demand(len(found) == len(shares), "an upload leaves without its own share of noise")
    demand(
        all(same(one, share.output) for one, share in zip(found, shares, strict=True)),
        "an upload is changed after its share of noise was added",
    )


def _share(algorithm: Algorithm, pair: Pair) -> float:
    """How far the releases move, as a share of the declared sensitivity."""
    moves = [
        a.mechanism.distance(a.value, b.value) / a.mechanism.sensitivity for a, b in pair.releases()
    ]
    if algorithm.certificate.composition == "shifts":
        return sqrt(sum(move * move for move in moves))
    return max(moves, default=0.0)


@dataclass
class _Party:
    """One client, up to the end of the game or the first broadcast that it refuses."""

    algorithm: Algorithm
    block: Block
    who: int
    source: RecordingNoise

    def play(self, server: Any) -> list[Any]:
        """Return all that others may see: uploads, and plays unless they stay at home."""
        algorithm, shown, at = self.algorithm, list[Any](), 0
        player, seen = algorithm.client, not algorithm.certificate.plays_at_home
        noise = self.source.single("client", self.who, algorithm.setting.clients)
        state, exchange, upload = player.start(noise), 0, None
        while (broadcast := server.message(exchange, upload)) is not None:
            try:
                state = player.receive(state, broadcast)
                left = self.block.rounds - at
                rounds = left if broadcast.rounds is None else min(left, broadcast.rounds)
                for t in range(at, at + rounds):
                    side = self.block.side_of(t)
                    own = None if side is None else side.row(self.who)
                    if algorithm.decider is None:
                        play, state = player.play(state, Context(t, None, own), noise)
                        shown += [play] if seen else []
                    state = observe(player, state, self.block.reports[t, self.who], noise, own)
                at += rounds
                if at >= self.block.rounds:
                    break  # nothing is sent after the last round
                upload, state = player.upload(state, noise)
            except Exception as error:
                raise BrokenContract(
                    f"a client that let a broadcast in fails ({type(error).__name__}: {error}), "
                    "and a failure may depend on its records"
                ) from error
            shown.append(upload)
            exchange += 1
        return shown


@dataclass
class _Again:
    """A server that sends the same messages again."""

    messages: list[Any]

    def message(self, exchange: int, upload: Any) -> Any:
        return self.messages[exchange] if exchange < len(self.messages) else None


@dataclass
class _Liar:
    """A server that lies. `message` returns what the client lets in; None: it refuses and stops."""

    algorithm: Algorithm
    rng: np.random.Generator
    noise: Any
    clever: Lie | None = None
    messages: list[Any] = field(default_factory=list)
    lies: int = 0
    believed: int = 0
    _state: Any = None
    _honest: Any = None

    def message(self, exchange: int, upload: Any) -> Any:
        algorithm = self.algorithm
        self._step(upload)
        sent = self._lie(exchange)
        lied = not same(sent, self._honest)
        self.lies += lied
        try:
            found = decode(algorithm.broadcasts.kind, encode(sent))
            algorithm.broadcasts.admit(found, exchange)
        except InvalidMessage:
            return None
        self.believed += lied
        self.messages.append(found)
        return found

    def _step(self, upload: Any) -> None:
        """What an honest server would send if all clients had sent this upload."""
        server, clients = self.algorithm.server, self.algorithm.setting.clients
        try:
            if upload is None:
                self._honest, self._state = server.open(self.noise)
            else:
                whole = combine(self.algorithm, stack([upload] * clients))
                self._honest, self._state = server.aggregate(self._state, whole, self.noise)
        except HedgerowError:  # after lies there may be no honest answer
            return

    def _lie(self, exchange: int) -> Any:
        """The honest broadcast, an earlier one, or one with some fields changed."""
        honest, choice = self._honest, self.rng.integers(6)
        if choice < 2:
            return honest
        if choice == 2 and self.messages:
            old = self.messages[self.rng.integers(len(self.messages))]
            return replace(old, rounds=honest.rounds) if self.rng.random() < 0.8 else old
        names = [f.name for f in fields(honest)]
        odds = np.array([0.1 if name == "rounds" else 1.0 for name in names])
        changed = self.rng.choice(names, self.rng.integers(1, 3), p=odds / odds.sum())
        return replace(honest, **{name: self._wild(getattr(honest, name)) for name in changed})

    def _wild(self, value: Any) -> Any:
        """A value of the same type; sometimes not of the same size, or not a number."""
        rng, width = self.rng, self.algorithm.setting.experts
        if not isinstance(value, np.ndarray):
            near = value or 0
            odd = (None, -1, 0, 1, near + 1, near - 1, 2 * near, width - 1, 2**31, 2**62, -(2**63))
            small = int(rng.integers(width))
            return small if rng.random() < 0.5 else odd[rng.integers(len(odd))]
        if self.clever is not None and rng.random() < 0.5:
            return self.clever(rng, value)
        if value.dtype.kind != "f":
            return rng.integers(-(2**62), 2**62, value.shape)
        direction = rng.normal(size=value.shape) * (rng.random(value.shape) < rng.random())
        length = np.sqrt((direction * direction).sum()) or 1.0
        found = direction / length * 2.0 ** rng.uniform(-30, 40)
        kind = rng.integers(12)
        if kind == 0:
            found = np.full(value.shape, rng.choice([np.nan, np.inf, 1e308, -1e308]))
        elif kind == 1:
            found = np.resize(found, rng.integers(3) + len(value) - 1)
        elif kind < 5:  # as large as it may be
            found = direction / length * self._largest(value)
        elif kind < 8 and len(value) > 1:  # large numbers that cancel, so that small ones vanish
            found = rng.uniform(-16, 16, value.shape)
            large = 2.0 ** rng.integers(27)
            found[rng.choice(len(value), 2, replace=False)] = large, -large
        return found

    def _largest(self, value: Any) -> float:
        """The norm of the largest point of the domain, or of the honest value."""
        radius = getattr(self.algorithm.setting.family.domain, "radius", None)
        return float(radius or np.sqrt((value * value).sum()) or 1.0)
