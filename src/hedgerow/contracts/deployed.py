"""A game as a deployment plays it: bounded uploads, late clients, and one that may lie.

Clients and server are the objects of the algorithm. A client whose upload is late plays no round
until the exchange that it enters, or that it comes back for, is answered. Then it receives all
broadcasts that it missed, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow.contracts.outcome import NotApplicable
from hedgerow.core.block import Block
from hedgerow.core.errors import HedgerowError
from hedgerow.core.lattice import UNITS_PER_LOSS
from hedgerow.core.messages import decode, encode
from hedgerow.core.noise import NoiseSource
from hedgerow.core.protocol import Algorithm, Context
from hedgerow.deployment.closing import ClosingRule, rule_of
from hedgerow.deployment.masks import Masked
from hedgerow.engines.loop import combine, stack

NEVER = 10**9
"""The lateness of a client that does not come back."""
EXTREMES = 4
"""How many false uploads are tried."""
Late = Callable[[int, int], int]
"""`late(client, exchange)` is how many exchanges later an upload arrives; 0: in time."""
Entering = Callable[[ClosingRule, int, int], Iterable[int]]
"""The exchanges that an upload enters, given the one it is for and the one that is open."""


def in_time(client: int, exchange: int) -> int:
    """Every upload arrives in time."""
    return 0


def as_the_rule_says(rule: ClosingRule, exchange: int, opened: int) -> tuple[int, ...]:
    """At most one exchange."""
    entered = rule.enters(exchange, opened)
    return () if entered is None else (entered,)


@dataclass(frozen=True)
class Counted:
    """An upload that an exchange counts: whose it is, the exchange it was made for, its rounds."""

    client: int
    exchange: int
    rounds: int
    upload: Any


@dataclass(frozen=True)
class Exchange:
    """One exchange: what it counts, and the broadcast that answers it."""

    counted: tuple[Counted, ...]
    broadcast: Any


@dataclass
class _Party:
    """One client: its state, and the broadcast that it has received last (`at`)."""

    state: Any
    at: int = 0
    back: int | None = None  # the exchange whose answer it waits for


@dataclass
class Deployed:
    """One game: `play` returns its exchanges.

    Parameters
    ----------
    algorithm
        The algorithm; its clients play.
    rule
        The closing rule.
    late
        Which uploads are late. With "wait" lateness makes no difference.
    false
        What client 0 sends instead of its uploads. None: it is honest.
    entering
        Which exchanges an upload enters; tests plant bugs here.
    """

    algorithm: Algorithm
    rule: ClosingRule = field(default_factory=lambda: rule_of("wait"))
    late: Late = in_time
    false: Callable[[Any], Any] | None = None
    entering: Entering = as_the_rule_says

    def play(self, block: Block, source: NoiseSource) -> list[Exchange]:
        """Play all rounds of a block that does not see plays."""
        algorithm, clients = self.algorithm, self.algorithm.setting.clients
        noises = [source.single("client", i, clients) for i in range(clients)]
        broadcast, server = algorithm.server.open(source.server())
        sent, found, start = [broadcast], [Exchange((), broadcast)], 0
        parties = [_Party(algorithm.client.start(noise)) for noise in noises]
        for party in parties:
            party.state = self._received(party, 0, broadcast)
        entered: dict[int, list[Counted]] = {}
        while broadcast.rounds is not None and start + broadcast.rounds < block.rounds:
            rounds, number = broadcast.rounds, len(sent)
            for i, party in enumerate(parties):
                if party.back is None:
                    part = range(start, start + rounds)
                    upload = self._played(party, block, i, part, noises[i])
                    self._arrives(party, Counted(i, number, rounds, upload), entered)
            start += rounds
            counted = entered.pop(number, [])
            if not counted:
                raise HedgerowError("Somebody must answer every exchange.")
            whole = self._seen([one.upload for one in counted], counted[0].rounds)
            broadcast, server = algorithm.server.aggregate(server, whole, source.server())
            sent.append(broadcast)
            found.append(Exchange(tuple(counted), broadcast))
            for party in parties:
                if party.back is None or party.back == number:
                    for exchange, missed in enumerate(sent[party.at + 1 :], party.at + 1):
                        party.state = self._received(party, exchange, missed)
                    party.at, party.back = number, None
        return found

    def _received(self, party: _Party, exchange: int, broadcast: Any) -> Any:
        """The state of a client after a broadcast, through the door of every deployed client."""
        arrived = decode(type(broadcast), encode(broadcast))
        self.algorithm.broadcasts.admit(arrived, exchange)
        return self.algorithm.client.receive(party.state, arrived)

    def _played(self, party: _Party, block: Block, client: int, rounds: range, noise: Any) -> Any:
        """The upload after the client has played some rounds."""
        player = self.algorithm.client
        for t in rounds:
            _, party.state = player.play(party.state, Context(t), noise)
            party.state = player.observe(party.state, block.reports[t, client], noise)
        upload, party.state = player.upload(party.state, noise)
        if self.false is not None and client == 0:
            upload = self.false(upload)
        arrived = decode(self.algorithm.uploads.kind, encode(upload))
        if self.masked is not None:
            return arrived  # nobody can see whether it is in range
        return self.algorithm.uploads.bounded(arrived, len(rounds))

    @cached_property
    def masked(self) -> Masked | None:
        """What is hidden in uploads; None if the server sees them."""
        shared = self.algorithm.certificate.trust == "distributed"
        return Masked.of(self.algorithm) if shared else None

    def _seen(self, uploads: list[Any], rounds: int) -> Any:
        """What the server sees: every upload, their sum, or the sum under masks."""
        masked, whole = self.masked, stack(uploads)
        if masked is None:
            return combine(self.algorithm, whole)
        most = 2.0**62 / UNITS_PER_LOSS  # then sums of three wrap
        steps = np.clip(np.asarray(getattr(whole, masked.field)), -most, most) * UNITS_PER_LOSS
        words = steps.astype(np.int64).view(np.uint64)
        return masked.total(self.algorithm, words.sum(axis=0), len(uploads), rounds)

    def _arrives(self, party: _Party, one: Counted, entered: dict[int, list[Counted]]) -> None:
        """An upload arrives, perhaps late; the client waits for the answer if it is."""
        by = self.late(one.client, one.exchange) if self.rule.may_close else 0
        party.back = one.exchange + by if by else None
        for into in self.entering(self.rule, one.exchange, one.exchange + by):
            entered.setdefault(into, []).append(one)


def require_deployable(algorithm: Algorithm) -> None:
    """Raise NotApplicable unless the algorithm can be deployed as far as its roles decide."""
    if algorithm.certificate.trust == "none":
        raise NotApplicable("trust='none' cannot be deployed")
    if algorithm.decider is not None or algorithm.needs:
        raise NotApplicable("these games have no separate decider, and nothing public")
    try:
        algorithm.require_exact_noise()
    except HedgerowError as refusal:
        raise NotApplicable(f"it cannot be deployed: {refusal}") from refusal
    if fields(algorithm.uploads.kind) and not algorithm.uploads.ranges:
        raise NotApplicable("it does not say where its uploads lie, so it cannot be deployed")


def false_uploads(honest: Any) -> list[Any]:
    """Uploads of the same form that no honest client sends: far outside, and off the lattice."""
    return [
        type(honest)(**{f.name: _extreme(getattr(honest, f.name), n) for f in fields(honest)})
        for n in range(EXTREMES)
    ]


def _extreme(honest: Any, number: int) -> Any:
    array = np.asarray(honest)
    whole = array.dtype.kind == "i"
    most = np.iinfo(array.dtype).max if whole else np.finfo(array.dtype).max
    values = (most, -most, -1 if whole else np.pi * 1e-9, most)
    found = np.full_like(array, values[number])
    if number == EXTREMES - 1 and array.ndim:
        found[::2] = -most  # in turn
    return found if isinstance(honest, np.ndarray) else found.item()
