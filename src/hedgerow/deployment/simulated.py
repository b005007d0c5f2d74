"""A study in one process: server, clients and helpers with their ledgers, and calls between them.

Examples, benchmarks and tests use it. Tests add a network and processes that fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.block import Side
from hedgerow.core.errors import HedgerowError
from hedgerow.deployment.account import EVENT, Account, study_folder
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.client_ledger import NotJoined
from hedgerow.deployment.helper import StudyHelper
from hedgerow.deployment.helper_ledger import HelperKeys, make_helper
from hedgerow.deployment.helper_ledger import NotJoined as HelperNotJoined
from hedgerow.deployment.learner import ClientLearner
from hedgerow.deployment.manifest import Manifest
from hedgerow.deployment.own_file import FileForm
from hedgerow.deployment.server import StudyServer, Wait
from hedgerow.deployment.server_ledger import NoStudy, public_keys


class SimulatedLink:
    """How one client reaches the simulated server."""

    def __init__(self, study: SimulatedStudy) -> None:
        self._study = study

    def call(self, request: bytes) -> bytes | None:
        """Send a request; None if there is no reply yet."""
        return self._study.carry(request)


class SimulatedStudy:
    """A server and its clients in one process, with a folder for each.

    Parameters
    ----------
    folder
        An empty folder for all ledgers.
    manifest
        The study; its keys are those that `small_study` has made in the folder.
    server_kind, client_kind, helper_kind
        The classes to use; tests pass mutants.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        server_kind: type[StudyServer] = StudyServer,
        client_kind: type[StudyClient] = StudyClient,
        helper_kind: type[StudyHelper] = StudyHelper,
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self._server_kind, self._client_kind = server_kind, client_kind
        self._helper_kind = helper_kind
        self._places = {"server": folder / "server"}
        self._places |= {name: folder / f"data-{name}" for name in manifest.clients}
        self._places |= {name: folder / f"helper-{name}" for name in manifest.helpers}
        self.anchor = folder / "server.anchor"  # outside all folders that are restored
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

    def place(self, who: str | int) -> Path:
        """Where the ledger of a party is now."""
        own = self._places[self._name(who)]
        return own if isinstance(who, str) else study_folder(own, self.manifest.digest)

    def _name(self, who: str | int) -> str:
        return who if isinstance(who, str) else self.manifest.clients[who]

    def close(self) -> None:
        """Close all ledgers."""
        for party in (*self.learners.values(), *self.helpers.values(), self.server):
            if party is not None:
                party.close()

    # -- network -----------------------------------------------------------------------------------

    def carry(self, request: bytes) -> bytes | None:
        """Carry a request to the server and its reply back; None: there is none yet."""
        (reply,) = self.running_server().take([request])
        return None if isinstance(reply, Wait) else reply

    # -- the game ----------------------------------------------------------------------------------

    def play(
        self,
        losses: npt.NDArray[np.float64],
        present: np.ndarray | None = None,
        awake: np.ndarray | None = None,
        side: Side | None = None,
        most_steps: int = 1_000_000,
    ) -> None:
        """Play all rounds (rounds, clients, experts).

        An application feeds the round that its ledger names. `side` is what is public about the
        clients in all rounds; the records of those that do not report are zeros.
        """
        open_ones, steps = list(self.learners), 0
        while open_ones:
            for client in self._order(open_ones):
                steps += 1
                if steps > most_steps:
                    raise HedgerowError("The simulated study does not come to an end.")
                step = partial(self._step, client, losses, present, awake, side)
                if self._attempt(client, step):
                    open_ones.remove(client)
            for name in self.manifest.helper_names:
                self.help(name)

    def help(self, name: str) -> None:
        """One step of a helper."""
        self._attempt(name, lambda: self.helper(name).advance())

    def _order(self, clients: list[int]) -> list[int]:
        """The clients in the order of their next steps."""
        return list(clients)

    def _attempt(self, who: str | int, step: Callable[[], bool]) -> bool:
        """One step of a client or helper; return whether it has finished."""
        return step()

    def _step(
        self,
        client: int,
        losses: npt.NDArray[np.float64],
        present: np.ndarray | None = None,
        awake: np.ndarray | None = None,
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
    seats: int = 0,
    helpers: int = 0,
    colluding: int = 1,
    least: int | None = None,
    kind: type[SimulatedStudy] = SimulatedStudy,
    **more: Any,
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
    seats
        How many of the clients, the last ones, are open seats.
    helpers, colluding, least
        How many helpers open sums, how many clients may work with the server, and how many are in
        a sum at least.
    kind, more
        The class of the study, and what else it takes.

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
    keys = [account.public_key for account in accounts[: clients - seats]] + [""] * seats
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
        roster=dict(zip(parties, keys, strict=True)),
        features=tuple(features),
        closing=closing,
        seed=seed,
        least=least,
        **_helped(out, helpers, colluding),
    )
    return kind(out, manifest, **more)


def _helped(folder: Path, helpers: int, colluding: int) -> dict[str, Any]:
    """The keys of helpers in the folder, as `Manifest.make` takes them."""
    made = [make_helper(folder / f"helper-h{n}", f"h{n}") for n in range(helpers)]
    keys = {one.name: {"sign": one.sign, "seal": one.seal} for one in made}
    return {"helpers": keys, "colluding": colluding} if made else {}
