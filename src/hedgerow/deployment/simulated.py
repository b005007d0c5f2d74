"""A study in one process over a simulated network: messages get lost, repeated, late and out of
order, and parties die at every named point and are opened again from their files.

Everything follows from one generator, so a run can be repeated. Tests and benchmarks use it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hedgerow.core.block import Block, Side, check
from hedgerow.core.errors import HedgerowError
from hedgerow.core.messages import decode, encode
from hedgerow.core.noise import SeededNoise
from hedgerow.core.transcript import Everything
from hedgerow.deployment import veil, wire
from hedgerow.deployment.account import EVENT, Account, study_folder
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.client_ledger import NotJoined
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.database import hooked
from hedgerow.deployment.helper import StudyHelper
from hedgerow.deployment.helper_ledger import HelperKeys, make_helper
from hedgerow.deployment.helper_ledger import NotJoined as HelperNotJoined
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.manifest import Manifest, rebuild
from hedgerow.deployment.own_file import FileForm
from hedgerow.deployment.server import DROPPED, StudyServer, Wait
from hedgerow.deployment.server_ledger import BOX, NoStudy, public_keys
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
            self.payloads[place] = opener.open(body, veil.body_info(study, *place[::-1]))
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


class SimulatedLink:
    """How one client reaches the simulated server."""

    def __init__(self, study: SimulatedStudy) -> None:
        self._study = study

    def call(self, request: bytes) -> bytes | None:
        """Send a request; None if it, or its reply, is lost, late, or not there yet."""
        return self._study.carry(request)


class SimulatedStudy:
    """A server and its clients in one process, with a folder for each.

    Parameters
    ----------
    folder
        An empty folder for all ledgers.
    manifest
        The study; its keys are those that `small_study` has made in the folder.
    chance
        The generator of all faults. None: there are none.
    faults
        How often things go wrong.
    server_kind, client_kind, helper_kind
        The classes to use; tests pass mutants.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        chance: Chance | None = None,
        faults: Faults = QUIET,
        server_kind: type[StudyServer] = StudyServer,
        client_kind: type[StudyClient] = StudyClient,
        helper_kind: type[StudyHelper] = StudyHelper,
    ) -> None:
        self.folder, self.manifest, self.faults = folder, manifest, faults
        self._chance = chance
        self._server_kind, self._client_kind = server_kind, client_kind
        self._helper_kind = helper_kind
        self.watch = Watch()
        self.opener = veil.load_or_make(folder / "server" / BOX)
        self._late: list[bytes] = []
        self._places = {"server": folder / "server"}
        self._places |= {name: folder / f"data-{name}" for name in manifest.clients}
        self._places |= {name: folder / f"helper-{name}" for name in manifest.helpers}
        self.anchor = folder / "server.anchor"  # outside all folders that are restored
        self._lives = 0
        self._stepping: str | int = 0  # the client or helper that takes a step
        self._image: Path | None = None  # the folder of a party as it was when it died
        self.server: StudyServer | None = None
        self.learners: dict[int, ClientLearner | None] = dict.fromkeys(range(len(manifest.clients)))
        self.helpers: dict[str, StudyHelper | None] = dict.fromkeys(manifest.helpers)

    def account(self, client: int) -> Account:
        """The account of a client's data set."""
        return Account(self._places[self.manifest.clients[client]])

    # -- parties -----------------------------------------------------------------------------------

    def learner(self, client: int) -> ClientLearner:
        """The learner of a client; joined or opened again if it is not running."""
        running = self.learners[client]
        if running is not None:
            return running
        account, link = self.account(client), SimulatedLink(self)
        try:
            opened = self._client_kind(self.place(client), link)
        except NotJoined:
            key = self.manifest.server
            known = [HelperKeys(name, **keys) for name, keys in self.manifest.helpers.items()]
            opened = self._client_kind.join(
                account, link, server_key=key, seeded=True, helpers=known
            )
        made = ClientLearner(opened)
        self.learners[client] = made
        return made

    def helper(self, name: str) -> StudyHelper:
        """A helper; joined or opened again if it is not running."""
        running = self.helpers[name]
        if running is None:
            place, link = self._places[name], SimulatedLink(self)
            try:
                running = self._helper_kind(place, link)
            except HelperNotJoined:
                key, roster = self.manifest.server, self.manifest.roster
                running = self._helper_kind.join(place, link, server_key=key, roster=roster)
            self.helpers[name] = running
        return running

    def running_server(self) -> StudyServer:
        """The server, opened again if it is not running."""
        if self.server is None:
            place = self._places["server"]
            try:
                self.server = self._server_kind(place, self.anchor)
            except NoStudy:
                self.server = self._server_kind.create(place, self.manifest, self.anchor)
        return self.server

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

    def _name(self, who: str | int) -> str:
        return who if isinstance(who, str) else self.manifest.clients[who]

    def place(self, who: str | int) -> Path:
        """Where the ledger of a party is now."""
        own = self._places[self._name(who)]
        return own if isinstance(who, str) else study_folder(own, self.manifest.digest)

    def restore(self, who: str | int, copy: Path, whole: bool = False) -> None:
        """Kill a party and put a copy of its ledger back, as after a restored backup.

        `whole`: the copy is that of a client's account, with everything in it.
        """
        self.kill(who)
        place = self._places[self._name(who)] if whole else self.place(who)
        shutil.rmtree(place)
        shutil.copytree(copy, place)

    def close(self) -> None:
        """Close all ledgers."""
        for party in (*self.learners.values(), *self.helpers.values(), self.server):
            if party is not None:
                party.close()

    # -- network -----------------------------------------------------------------------------------

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

    def play(
        self,
        losses: npt.NDArray[np.float64],
        present: np.ndarray | None = None,
        awake: np.ndarray | None = None,
        side: Side | None = None,
        most_steps: int = 1_000_000,
    ) -> None:
        """Play all rounds (rounds, clients, experts); clients take steps in a random order.

        A party that dies is opened again, and its application feeds the round that the ledger
        names. `side` is what is public about the clients in all rounds; the records of those that
        do not report are zeros.
        """
        clients = range(len(self.manifest.clients))
        open_ones, steps = set(clients), 0
        with hooked(self._at_point):
            while open_ones:
                order = sorted(open_ones)
                if self._chance is not None:
                    order = [order[int(i)] for i in self._chance.permutation(len(order))]
                for client in order:
                    steps += 1
                    if steps > most_steps:
                        raise HedgerowError("The simulated study does not come to an end.")
                    self._stepping = client
                    self._timer()
                    try:
                        if self._step(client, losses, present, awake, side):
                            open_ones.discard(client)
                    except Crash:
                        self.kill(client)
                for name in self.manifest.helper_names:
                    self.help(name)

    def help(self, name: str) -> None:
        """One step of a helper."""
        self._stepping = name
        try:
            self.helper(name).advance()
        except Crash:
            self.kill(name)

    def _timer(self) -> None:
        """Close the open exchange now and then, as a timer at the server does."""
        if self._happens(self.faults.close):
            try:
                self.running_server().close_exchange()
            except Crash:
                self.kill("server")

    def _step(
        self,
        client: int,
        losses: npt.NDArray[np.float64],
        present: np.ndarray | None,
        awake: np.ndarray | None,
        side: Side | None = None,
    ) -> bool:
        """One step of a client; return whether it has finished."""
        learner = self.learner(client)
        if learner.over:
            return learner.client.finish()
        if not learner.client.advance():
            return False
        at, family = learner.round, learner.client.algorithm.setting.family
        one = Side() if side is None else side.row(at)
        learner.predict(None if awake is None else awake[at, client], reporting=one.reporting)
        shown = present[at] if present is not None else one.reporting
        here = shown is None or bool(shown[client])
        named = f"target {at}" if here and family.record.public else None
        public = None if one.values is None else one.values[client]
        learner.observe(at, losses[at, client] if here else None, about=named, side=public)
        return False

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
        counted = server.uploads()
        if {place: hash_ for place, (hash_, _) in counted.items()} != own:
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
        party, last = self.learner(client).client, self.running_server().exchange
        party.check()
        for exchange, (hash_, done) in party.releases().items():
            own[client, exchange] = hash_
            if not done:
                yield f"release {exchange} of client {client} was never answered"
        answers = party.answers()
        if any({hash_} != self.watch.answers.get(at) for at, hash_ in answers.items()):
            yield f"client {client} has another answer than the server has sent"
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

    def plays(self) -> np.ndarray:
        """The plays of all rounds and clients, from the ledgers."""
        return np.stack([np.stack(self.learner(c).client.plays()) for c in self.learners], axis=1)


def small_study(
    folder: str | Path,
    *,
    clients: int,
    experts: int,
    horizon: int | None,
    algorithm: str = "sparse_vector",
    choices: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    deciders: int | None = None,
    family: str | None = None,
    names: Sequence[str] | None = None,
    file: FileForm | None = None,
    features: Sequence[str] = (),
    budget: str = "10",
    unit: str = EVENT,
    closing: str = "wait",
    helpers: int = 0,
    colluding: int = 1,
    chance: Chance | None = None,
    faults: Faults = QUIET,
    **kinds: Any,
) -> SimulatedStudy:
    """Make keys, accounts and a manifest in an empty folder, and a study over them.

    Parameters
    ----------
    folder
        An empty folder.
    clients, experts, horizon
        The size of the game.
    algorithm, choices
        The registered name and its choices.
    seed
        The seed of the noise; None: secure noise, and every account is charged.
    deciders, family, names, file, features
        As in `Manifest`.
    budget, unit
        The epsilon of every account, and its unit; its delta is 0.001.
    closing
        The closing rule.
    helpers, colluding
        How many helpers open sums, and how many clients may work with the server.
    chance, faults, kinds
        As in `SimulatedStudy`.

    Examples
    --------
    >>> import tempfile
    >>> study = small_study(tempfile.mkdtemp(), clients=2, experts=3, horizon=5)
    >>> study.play(np.zeros((5, 2, 3)))
    >>> study.plays().shape, study.running_server().over
    ((5, 2), True)
    >>> study.close()
    """
    out = Path(folder)
    parties = [f"client-{i:03d}" for i in range(clients)]
    accounts = [
        Account.make(out / f"data-{name}", name=name, unit=unit, epsilon=budget, delta="0.001")
        for name in parties
    ]
    manifest = Manifest.make(
        title="A simulated study",
        algorithm=algorithm,
        choices=choices,
        experts=experts,
        horizon=horizon,
        deciders=deciders,
        family=family,
        names=names,
        file=file,
        **public_keys(out / "server"),
        roster={name: a.public_key for name, a in zip(parties, accounts, strict=True)},
        features=tuple(features),
        closing=closing,
        seed=seed,
        **_helped(out, helpers, colluding),
    )
    return SimulatedStudy(out, manifest, chance, faults, **kinds)


def _helped(folder: Path, helpers: int, colluding: int) -> dict[str, Any]:
    """The keys of helpers in the folder, as `Manifest.make` takes them."""
    made = [make_helper(folder / f"helper-h{n}", f"h{n}") for n in range(helpers)]
    keys = {one.name: {"sign": one.sign, "seal": one.seal} for one in made}
    return {"helpers": keys, "colluding": colluding} if made else {}
