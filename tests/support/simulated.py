"""A study in one process over a network that fails: messages get lost, repeated, late and out of
order, and parties die at every named point and are opened again from their files.

Everything follows from one generator, so a run can be repeated.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.core.block import Block, Side, check
from hedgerow.core.messages import decode, encode
from hedgerow.core.noise import SeededNoise
from hedgerow.core.transcript import Everything
from hedgerow.deployment import simulated, veil, wire
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.database import hooked
from hedgerow.deployment.helper import StudyHelper
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.manifest import Manifest, rebuild
from hedgerow.deployment.server import DROPPED, StudyServer, Wait
from hedgerow.deployment.server_ledger import BOX
from hedgerow.engines.loop import Engine


class Crash(BaseException):
    """The process dies here: nothing after this point happens."""


class Chance(Protocol):
    """Where chance comes from: a generator of numpy."""

    def random(self) -> float: ...

    def permutation(self, x: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Faults:
    """How often things go wrong: the probability for each message, and at each named point.

    Parameters
    ----------
    lose
        A request, or its reply, is lost.
    repeat
        A request arrives twice.
    delay
        A request arrives later, perhaps after others that were sent after it.
    crash
        A party dies at a point.
    only
        Parties die only at points whose name begins with this text.
    close
        A timer closes the open exchange before a step, where the closing rule allows it.
    """

    lose: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    crash: float = 0.0
    only: str = ""
    close: float = 0.0


QUIET = Faults()


@dataclass
class Watch:
    """Everything that crossed the wire, and every death."""

    uploads: dict[tuple[int, int], set[bytes]] = field(default_factory=dict)
    answers: dict[int, set[bytes]] = field(default_factory=dict)
    sealed: dict[tuple[int, int], bytes] = field(default_factory=dict)
    payloads: dict[tuple[int, int], bytes] = field(default_factory=dict)
    broadcasts: dict[int, bytes] = field(default_factory=dict)
    messages: dict[tuple[int, int], bytes] = field(default_factory=dict)
    tasks: dict[tuple[int, int], set[bytes]] = field(default_factory=dict)
    sent: int = 0
    deaths: Counter[str] = field(default_factory=Counter)

    def request(self, data: bytes, study: bytes, opener: veil.Opener) -> None:
        """Note an upload that leaves a client, and what the server will find in it."""
        self.sent += 1
        if data[:1] == wire.Upload.kind:
            message = wire.unpack(data, study, wire.Upload)
            place = (message.client, message.exchange)
            self.uploads.setdefault(place, set()).add(wire.hash_of(data))
            self.sealed[place] = message.payload
            body = message.parts[-1]
            exchange, client = place[::-1]
            self.payloads[place] = veil.Sessions(opener, study).open(exchange, client, body)
            self.messages[place] = data
        elif data[:1] == wire.Part.kind:
            part = wire.unpack(data, study, wire.Part)
            self.tasks.setdefault((part.helper, part.exchange), set()).add(part.task)

    def reply(self, data: bytes, study: bytes) -> None:
        """Note an answer that leaves the server."""
        if data[:1] == wire.ANSWERED:
            for answer, _ in wire.Answered.read(data).answers:
                message = wire.unpack(answer, study, wire.Answer)
                self.answers.setdefault(message.exchange, set()).add(wire.hash_of(answer))
                self.broadcasts[message.exchange] = message.broadcast


class SimulatedStudy(simulated.SimulatedStudy):
    """A study whose parties and network fail as `faults` says, as often as `chance` has it."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        chance: Chance | None = None,
        faults: Faults = QUIET,
        **kinds: Any,
    ) -> None:
        super().__init__(folder, manifest, **kinds)
        self.faults, self._chance, self.watch = faults, chance, Watch()
        self.opener = veil.load_or_make(folder / "server" / BOX)
        self._late: list[bytes] = []
        self._lives = 0
        self._stepping: str | int = 0  # the client or helper that takes a step
        self._image: Path | None = None  # the folder of a party as it was when it died

    def kill(self, who: str | int) -> None:
        """Kill the server ("server"), a helper or a client (its number), as `kill -9` does.

        What was written stays, in a new folder: the file and its write-ahead log, as they were when
        the party died.
        """
        image, self._image = self._image or self._imaged(who), None
        party: StudyServer | ClientLearner | StudyHelper | None
        if who == "server":
            party, self.server = self.server, None
        elif isinstance(who, str):
            party, self.helpers[who] = self.helpers[who], None
        else:
            party, self.learners[who] = self.learners[who], None
        if party is not None:
            party.close()
        name = self._name(who)
        shutil.rmtree(self._places[name])
        self._places[name] = image

    def _imaged(self, who: str | int) -> Path:
        """Copy the folder of a party as it is."""
        place = self._places[self._name(who)]
        self._lives += 1
        return Path(shutil.copytree(place, place.with_suffix(f".{self._lives}")))

    def restore(self, who: str | int, copy: Path, whole: bool = False) -> None:
        """Kill a party and put a copy of its ledger back, as after a restored backup.

        `whole`: the copy is that of a client's account, with everything in it.
        """
        self.kill(who)
        place = self._places[self._name(who)] if whole else self.place(who)
        shutil.rmtree(place)
        shutil.copytree(copy, place)

    def _happens(self, probability: float) -> bool:
        return self._chance is not None and probability > 0 and self._chance.random() < probability

    def carry(self, request: bytes) -> bytes | None:
        """Carry a request to the server and its reply back, as well as the network allows."""
        self.watch.request(request, self.manifest.digest, self.opener)
        faults = self.faults
        if self._happens(faults.lose):
            return None
        if self._happens(faults.delay):
            self._late.append(request)
            return None
        batch = [request]
        if self._happens(faults.repeat):
            batch.append(request)
        while self._late and self._happens(0.5):
            batch.append(self._late.pop())
        order = [int(i) for i in self._chance.permutation(len(batch))] if self._chance else [0]
        try:
            replies = self.running_server().take([batch[i] for i in order])
        except Crash:
            self.kill("server")
            return None
        reply = replies[order.index(0)]
        if isinstance(reply, Wait):
            return None
        for each in replies:
            if isinstance(each, bytes):
                self.watch.reply(each, self.manifest.digest)
        return None if self._happens(faults.lose) else reply

    def _at_point(self, name: str) -> None:
        if name.startswith(self.faults.only) and self._happens(self.faults.crash):
            self.watch.deaths[name] += 1
            self._image = self._imaged("server" if name.startswith("server") else self._stepping)
            raise Crash(name)

    # -- the game ----------------------------------------------------------------------------------

    def play(self, losses: npt.NDArray[np.float64], *game: Any, **more: Any) -> None:
        with hooked(self._at_point):
            super().play(losses, *game, **more)

    def _order(self, clients: list[int]) -> list[int]:
        if self._chance is None:
            return super()._order(clients)
        return [clients[int(i)] for i in self._chance.permutation(len(clients))]

    def _attempt(self, who: str | int, step: Callable[[], bool]) -> bool:
        """A party that dies is opened again with its next step."""
        self._stepping = who
        if isinstance(who, int):
            self._timer()
        try:
            return step()
        except Crash:
            self.kill(who)
            return False

    def _timer(self) -> None:
        """Close the open exchange now and then, as a timer at the server does."""
        if self._happens(self.faults.close):
            try:
                self.running_server().close_exchange()
            except Crash:
                self.kill("server")

    def violations(
        self,
        losses: npt.NDArray[np.float64],
        present: np.ndarray | None = None,
        awake: np.ndarray | None = None,
        side: Side | None = None,
    ) -> list[str]:
        """What is wrong after a game: nothing, unless something was released twice or lost.

        A seeded game is compared with one in a single process without any faults, bit by bit.
        """
        found = [*self._broken_promises()]
        if self.manifest.seed is not None and not rule_of(self.manifest.closing).may_close:
            found += self._differences(losses, present, awake, side)
        return found

    def _broken_promises(self) -> Iterator[str]:
        own: dict[tuple[int, int], bytes] = {}
        for client in self.learners:
            yield from self._broken_by(client, own)
        if any(len(tasks) > 1 for tasks in self.watch.tasks.values()):
            yield "a helper has opened two sets for one exchange"
        for name in self.manifest.helper_names:
            self.helper(name).check()
        server, watch = self.running_server(), self.watch
        server.check()
        if server.evidence():
            yield "a client has signed two messages for one release"
        for place, hashes in watch.uploads.items():
            if hashes != {own.get(place)}:
                yield f"{len(hashes)} messages were sent for the release {place}"
        counted, out = server.uploads(), server.roster.out
        taken = {where: found for where, found in own.items() if where in counted}
        if {place: hash_ for place, (hash_, _) in counted.items()} != taken or any(
            client not in out for client, _ in own.keys() - counted.keys()
        ):
            yield "the server has counted other releases than the clients have made"
        entered = [(client, at) for (client, _), (_, at) in counted.items() if at != DROPPED]
        if len(set(entered)) != len(entered):
            yield "an exchange counts two uploads of a client"
        if not all(self._as_ruled(exchange, at) for (_, exchange), (_, at) in counted.items()):
            yield "an upload was not counted as the closing rule says"
        for exchange in {*watch.answers, *range(server.exchange + 1)}:
            stored, hashes = server.answer(exchange), watch.answers.get(exchange, set())
            if stored is None or hashes != {wire.hash_of(stored)}:
                yield f"{len(hashes)} answers were sent for exchange {exchange}"

    def _broken_by(self, client: int, own: dict[tuple[int, int], bytes]) -> Iterator[str]:
        """What the ledger of one client shows; its releases are added to `own`."""
        party, server = self.learner(client).client, self.running_server()
        party.check()
        for exchange, (hash_, done) in party.releases().items():
            own[client, exchange] = hash_
            if not done and client not in server.roster.out:
                yield f"release {exchange} of client {client} was never answered"
        answers = party.answers()
        if any({hash_} != self.watch.answers.get(at) for at, hash_ in answers.items()):
            yield f"client {client} has another answer than the server has sent"
        last = max(answers, default=0) if client in server.roster.out else server.exchange
        if sorted(answers) != list(range(last + 1)):
            yield f"client {client} has {len(answers)} of {last + 1} answers"
        charged = self.account(client).charges()
        if len(charged) != self.manifest.private:
            yield f"client {client} was charged {len(charged)} times"

    def _as_ruled(self, exchange: int, counted: int | None) -> bool:
        """Whether an upload was counted as the closing rule allows."""
        rule = rule_of(self.manifest.closing)
        if counted == DROPPED:
            return rule.may_close
        return counted is not None and rule.enters(exchange, counted) == counted

    def _differences(
        self,
        losses: npt.NDArray[np.float64],
        present: np.ndarray | None,
        awake: np.ndarray | None,
        side: Side | None,
    ) -> Iterator[str]:
        algorithm, sink = rebuild(self.manifest), Everything()
        shown = losses if present is None else losses * present[..., None]
        charged = shown if algorithm.decider is None else shown.swapaxes(1, 2)
        public = Side() if side is None else side
        block = Block(charged, shown, awake, present, public.values, public.reporting)
        block = check(block, algorithm.setting, 0, len(losses))
        engine = Engine.in_process(algorithm, SeededNoise(self.manifest.seed or 0))
        first, run = engine.open()
        engine.advance(run, block, [sink])
        plays = sink.all_plays()
        same = (plays == self.plays()).reshape(*plays.shape[:2], -1).all(axis=-1)
        if not (same if present is None else same | ~present).all():
            yield "the plays differ from those in one process"
        broadcasts = [first, *(broadcast for _, _, broadcast in sink.messages)]
        if [encode(one) for one in broadcasts] != [
            self.watch.broadcasts[exchange] for exchange in sorted(self.watch.broadcasts)
        ]:
            yield "the broadcasts differ from those in one process"
        for number, (_, uploads, _) in enumerate(sink.messages, 1):
            for client in self.learners:
                sent = decode(algorithm.uploads.kind, self.watch.payloads[client, number])
                for f in fields(uploads):
                    if not np.array_equal(getattr(uploads, f.name)[client], getattr(sent, f.name)):
                        yield f"upload {number} of client {client} differs from that in one process"


def small_study(folder: str | Path, **given: Any) -> SimulatedStudy:
    """As `hedgerow.deployment.simulated.small_study`, with `chance` and `faults`."""
    made = simulated.small_study(folder, **{"kind": SimulatedStudy, **given})
    assert isinstance(made, SimulatedStudy)
    return made
