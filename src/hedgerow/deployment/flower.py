"""A study under Flower: Flower carries the messages, and all else is as in every deployment.

In a Flower run the server takes turns: it sends each SuperNode the replies that it has for it, and
the node sends its next requests back. Ledgers, accounts, signatures and the game are those of every
other deployment; Flower only carries signed bytes and keeps nothing that matters. `take_turn` and
`answer_turn` need no Flower; `client_app` and `server_app` make the two apps from them.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.core.certificate import Guarantee
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.extras import needs
from hedgerow.core.protocol import Algorithm
from hedgerow.deployment import wire
from hedgerow.deployment.account import Account, study_folder
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.client_ledger import NotJoined
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.manifest import KEY, Manifest
from hedgerow.deployment.server import StudyServer, Wait

PAUSE = 1.0  # seconds between two turns in which nothing happened
NONCE = 16  # bytes
PART = "hedgerow"  # the name of our part of a Flower message


class Target(NamedTuple):
    """The record of a round in a game of public forecasts and secret targets, and its name.

    `about` names the target, such as "Ohio, 2026-01-03": it is answered once.
    """

    record: npt.ArrayLike
    about: str


Losses = Callable[[int, np.ndarray], npt.ArrayLike | Target | None]
"""The application at a client: `losses(round, play)` are the losses of all experts in a round.

Where forecasts are public and targets secret, it returns a `Target`. None: the round is not over
yet; the game waits for the next turn.
"""
Replies = Mapping[bytes, bytes]
"""Replies by the hash of the request that they answer."""


def need_flower(module: str) -> Any:
    """Return a module of Flower, or say how to install it."""
    with needs("flower"):
        return import_module(module)


@dataclass(frozen=True)
class Place:
    """Where a client keeps its study, and what it agrees to.

    Parameters
    ----------
    account
        The folder of the account of the data set. The ledger of the study is inside it.
    server_key
        The server's public key, from a source you trust.
    study
        The digest of the manifest that was read and agreed to, 64 hexadecimal digits.
    seeded
        Whether the noise may come from a seed, for tests; then nothing is private. Default False.
    """

    account: Path
    server_key: str
    study: str
    seeded: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Place:
        """The place that the configuration of a SuperNode names.

        >>> given = {"account": "/srv/ward-3", "server-key": "c", "study": "d"}
        >>> Place.of(given).account.name
        'ward-3'
        """
        missing = [key for key in ("account", "server-key", "study") if key not in config]
        if missing:
            raise InvalidValue(
                f"The SuperNode does not name {missing[0]!r}. Start it with --node-config "
                '\'account="..." server-key="..." study="..."\'.'
            )
        if "ledger" in config:
            raise InvalidValue(
                "The SuperNode names a folder for the ledger. A ledger is always inside the folder "
                "of its account. Leave `ledger` out of --node-config."
            )
        account, seeded = Path(str(config["account"])), config.get("seeded", False) is True
        return cls(account, str(config["server-key"]), str(config["study"]), seeded)

    @property
    def ledger(self) -> Path:
        """The folder of the ledger of the study."""
        known = bool(KEY.fullmatch(self.study.lower()))
        if not known:
            raise InvalidValue(
                f"Expected study={self.study[:80]!r} to be the digest of a manifest, 64 hex digits."
            )
        return study_folder(self.account, bytes.fromhex(self.study))


@dataclass
class TurnLink:
    """Replies that came with this turn; a request without one goes out with it."""

    replies: dict[bytes, bytes]
    requests: list[bytes] = field(default_factory=list)

    def call(self, request: bytes) -> bytes | None:
        reply = self.replies.pop(hashlib.sha256(request).digest(), None)
        if reply is None and request not in self.requests:
            self.requests.append(request)
        return reply


class TurnClient(StudyClient):
    """A client that is opened for one turn; `challenge` is the nonce of the hello of this turn."""

    challenge: bytes = b""

    def nonce(self) -> bytes:
        return self.challenge

    def first_requests(self) -> list[bytes]:
        """All that comes before the first round: join, hello, and the opening broadcast."""
        opening = wire.Ask(self.index, 0)
        return [
            self._pack(wire.Join(self.index)),
            self.greeting(self.challenge),
            self._pack(opening),
        ]


@dataclass(frozen=True)
class Turn:
    """What a client sends at the end of a turn.

    `challenge` is for the next turn: the nonce of its hello, and what the server drew when it
    started. It is kept outside the ledger, so that a ledger restored from a copy does not bring an
    old one back.
    """

    requests: tuple[bytes, ...]
    challenge: bytes
    over: bool


def take_turn(place: Place, replies: Replies, challenge: bytes, losses: Losses) -> Turn:
    """Open the ledger, go on as far as these replies allow, close it, and return what to send.

    Parameters
    ----------
    place
        Where the client keeps its study.
    replies
        The server's replies to the requests of the last turn.
    challenge
        What the last turn returned; empty: this is the first.
    losses
        The application.
    """
    link = TurnLink(dict(replies))
    client = _opened(place, link)
    if client is None:
        return Turn(tuple(link.requests), challenge, over=False)
    challenge = challenge or secrets.token_bytes(NONCE) + wire.UNKNOWN
    client.challenge, client.boot = challenge[:NONCE], challenge[NONCE:]
    try:
        over = _advance(ClientLearner(client), link, losses)
        if not client.greeted and client.exchange < 0:
            return Turn(tuple(client.first_requests()), client.challenge + client.boot, over)
        if not client.greeted or not link.requests:
            return Turn(tuple(link.requests), client.challenge + client.boot, over)
        fresh = secrets.token_bytes(NONCE)  # the next turn begins with a welcome
        return Turn((*link.requests, client.greeting(fresh)), fresh + client.boot, over)
    finally:
        client.close()


def _opened(place: Place, link: TurnLink) -> TurnClient | None:
    """The client; joined first if it has not joined yet. None: the manifest is not here yet."""
    try:
        return TurnClient(place.ledger, link)
    except NotJoined:
        pass

    def agreed(manifest: Manifest, algorithm: Algorithm, cost: Guarantee | None) -> bool:
        return manifest.digest.hex() == place.study.lower()

    try:
        return TurnClient.join(
            Account(place.account),
            link,
            server_key=place.server_key,
            agree=agreed,
            tries=1,
            seeded=place.seeded,
        )
    except HedgerowError:
        if link.requests:
            return None
        raise


def _advance(learner: ClientLearner, link: TurnLink, losses: Losses) -> bool:
    """Play until a request has no reply, or the losses of a round are not there yet."""
    client = learner.client
    while not learner.over:
        waiting = len(link.requests)
        if client.advance():
            number, play = learner.round, learner.predict()
            given = losses(number, play)
            if given is None:
                return False
            if isinstance(given, Target):
                learner.observe(number, given.record, about=given.about)
            else:
                learner.observe(number, given)
        elif len(link.requests) > waiting:
            return False
    while not client.finish():
        if link.requests:
            return False
    return True


def answer_turn(
    server: StudyServer, requests: Mapping[int, Sequence[bytes]]
) -> dict[int, dict[bytes, bytes]]:
    """Give the server all requests of a turn, by node, and return the replies that it has.

    A request that waits has no reply yet; its client sends it again in the next turn.
    """
    asked = [(node, request) for node, some in requests.items() for request in some]
    taken = server.take([request for _, request in asked])
    found: dict[int, dict[bytes, bytes]] = {node: {} for node in requests}
    for (node, request), reply in zip(asked, taken, strict=True):
        ready = server.reply(reply) if isinstance(reply, Wait) else reply
        if ready is not None:
            found[node][hashlib.sha256(request).digest()] = ready
    return found


# -- Flower ----------------------------------------------------------------------------------------


def client_app(losses: Losses) -> Any:
    """Return a Flower ClientApp that takes part in a study.

    The SuperNode names the folders and what it agrees to (`Place`) in its `--node-config`.

    Parameters
    ----------
    losses
        The application: `losses(round, play)` are the losses of all experts in a round, a `Target`
        where forecasts are public, or None if the round is not over yet.
    """
    flwr = need_flower("flwr.app")
    app = need_flower("flwr.clientapp").ClientApp()

    @app.query()
    def turn(message: Any, context: Any) -> Any:
        given, kept = message.content[PART], context.state.get(PART)
        replies = dict(zip(given["keys"], given["replies"], strict=True))
        challenge = bytes(kept["challenge"]) if kept is not None else b""
        done = take_turn(Place.of(context.node_config), replies, challenge, losses)
        context.state[PART] = flwr.ConfigRecord({"challenge": done.challenge})
        sent = flwr.ConfigRecord({"requests": list(done.requests), "over": done.over})
        return flwr.Message(flwr.RecordDict({PART: sent}), reply_to=message)

    return app


def server_app() -> Any:
    """Return a Flower ServerApp that serves the study in the folder `study` of the run's config.

    `deadline` in the run's config is the number of seconds after which a turn ends without the
    nodes that have not answered; 0: never. Where the closing rule allows it, the open exchange is
    then closed without them.
    """
    app = need_flower("flwr.serverapp").ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        config = context.run_config
        server = StudyServer(str(config["study"]))
        if server.manifest.helpers:
            raise Unsupported(
                "Helpers call the server of a study themselves, and Flower has no place for them. "
                "Serve a study with trust='distributed' with `hedgerow serve`."
            )
        try:
            serve(server, grid, float(config.get("deadline", 0)) or None)
        finally:
            server.close()

    return app


def serve(server: StudyServer, grid: Any, deadline: float | None = None) -> None:
    """Take turns with the nodes of a Flower grid until every client is done."""
    replies: dict[int, dict[bytes, bytes]] = {}
    first = answer_turn(server, {0: [wire.MANIFEST]})[0]
    while not server.over:
        nodes = list(grid.get_node_ids())
        messages = [_message(node, replies.get(node, first)) for node in nodes]
        back = list(grid.send_and_receive(messages, timeout=deadline)) if messages else []
        requests = {
            one.metadata.src_node_id: list(one.content[PART]["requests"])
            for one in back
            if not one.has_error()
        }
        before = server.exchange
        replies = answer_turn(server, requests)
        if server.may_close and len(requests) < len(server.roster.active):
            server.close_exchange()
        if server.exchange == before and not any(replies.values()):
            time.sleep(PAUSE)


def _message(node: int, replies: Mapping[bytes, bytes]) -> Any:
    flwr = need_flower("flwr.app")
    part = flwr.ConfigRecord({"keys": list(replies), "replies": list(replies.values())})
    content = flwr.RecordDict({PART: part})
    return flwr.Message(content, dst_node_id=node, message_type=flwr.MessageType.QUERY)
