"""A whole deployment on one machine: server, helpers, clients and applications, as processes.

Every client is a process `hedgerow client run`; this process is the application of all of them. It
draws the losses of a study's environment and feeds each client its own, as JSON lines.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

import numpy as np

from hedgerow.core.block import ABSENT, Block, check
from hedgerow.core.environment import Environment, numbered
from hedgerow.core.errors import HedgerowError, InvalidValue, Unsupported
from hedgerow.core.extras import needs
from hedgerow.core.noise import SeededNoise
from hedgerow.core.setting import LOSSES
from hedgerow.core.transcript import Everything, Plays, Sink
from hedgerow.deployment.account import EVENT, Account, shown_unit
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.client_ledger import ClientLedger
from hedgerow.deployment.config import ServeConfig, SettingTable, from_table
from hedgerow.deployment.helper_ledger import PUBLIC as HANDED_OUT
from hedgerow.deployment.helper_ledger import HelperLedger, make_helper
from hedgerow.deployment.home import Home, keep_route
from hedgerow.deployment.http_client import HttpLink, Route
from hedgerow.deployment.manifest import PLAYED, Manifest, build, rebuild, unfit_names
from hedgerow.deployment.server_ledger import ServerLedger
from hedgerow.deployment.serving import open_study
from hedgerow.deployment.veil import PUBLIC
from hedgerow.engines.simulate import counters_of, simulate
from hedgerow.environments.recorded.forecast_table import ForecastTable
from hedgerow.evaluation.recorder import Recorder
from hedgerow.studies.config import Entry, StudyConfig, study_table

with needs("runs"):
    import tomli_w

NO_KEYS: Any = {"server": "0" * 64, "sealing": "0" * PUBLIC}  # to build a study before it has any
HELPERS = ("helper-1", "helper-2")
BLOCK = 64  # rounds whose losses are drawn at a time
BUDGET, DELTA = "1000", "0.1"  # of each client; nobody's data are at stake
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Launched:
    """What a launched study did.

    Parameters
    ----------
    study
        The digest of the manifest.
    private
        Whether the noise was secure.
    rounds, exchanges
        How many there were.
    seconds
        From the first to the last round.
    regret
        What the clients lost on average beyond the best expert.
    spent
        What the account of each client says.
    same
        Whether the plays are those of the simulation; None with secure noise.
    heads
        The head of the log of the server and of each client.
    """

    study: str
    private: bool
    rounds: int
    exchanges: int
    seconds: float
    regret: float
    spent: dict[str, str]
    same: bool | None
    heads: dict[str, str]


def served(config: StudyConfig, label: str | None) -> tuple[Entry, ServeConfig]:
    """The entry of a study that is deployed, as a server is given it, without clients.

    Without a label it is the first entry that can be deployed.
    """
    rows = study_table(config)["algorithms"]
    refusals: list[str] = []
    for entry, row in zip(config.algorithms, rows, strict=True):
        if label is not None and entry.label != label:
            continue
        choices = {k: v for k, v in row.items() if k not in ("name", "label", "environment")}
        environment = config.environment_of(entry)
        setting, features = environment.setting, environment.traits.features
        clients, honest = setting.clients, choices.pop("honest", None)
        shared = choices.get("trust") == "distributed"
        if choices.pop("alone", False):
            refusals.append(f"{entry.label}: its clients play alone")
            continue
        family = {} if setting.family == LOSSES else {"family": repr(setting.family)}
        made = ServeConfig(
            f"{config.title}: {entry.label}",
            row["name"],
            choices,
            SettingTable(
                setting.experts,
                setting.rounds,
                setting.deciders,
                **family,
                names=_expert_names(environment),
            ),
            {f"client-{i + 1:03d}": f"{i + 1:064x}" for i in range(setting.clients)},
            features=tuple(feature.value for feature in features),
            helpers=_any_helpers() if shared else None,
            colluding=clients - (honest or clients - 1) if shared else None,
        )
        try:
            for feature in features - set(PLAYED):
                raise Unsupported(f"{feature.value} cannot be deployed.")
            made.manifest(NO_KEYS)
        except HedgerowError as error:
            refusals.append(f"{entry.label}: {error}")
            continue
        return entry, made
    labels = ", ".join(repr(entry.label) for entry in config.algorithms)
    reason = " ".join(refusals) or f"There is no algorithm {label!r}; known: {labels}."
    raise Unsupported(f"Nothing to deploy. {reason}")


def _any_helpers() -> dict[str, dict[str, str]]:
    """Helpers with keys that nobody has, to see whether a study can be deployed."""
    return {
        name: {"sign": f"{2**200 + n:064x}", "seal": f"{n:0{PUBLIC}x}"}
        for n, name in enumerate(HELPERS, 1)
    }


def _expert_names(environment: Environment) -> tuple[str, ...] | None:
    """The names of the experts, if the environment has them and a manifest takes them."""
    given = environment.expert_names
    made_up = [numbered(noun, len(given)) for noun in ("expert", "coordinate")]
    return None if given in made_up or unfit_names(given) else given


class Launch:
    """A deployment in a folder: `start`, `play`, `stop`; then `check`.

    Parameters
    ----------
    folder
        An empty folder for the server and all clients.
    config
        What is served, from `served`.
    seed
        The seed of the noise. None: secure noise, as in a real deployment.
    port
        The port of the server. 0: any free one.
    """

    def __init__(self, folder: Path, config: ServeConfig, seed: int | None, port: int = 0) -> None:
        self.folder, self.url = folder, ""
        self.home = Home(folder / "clients")
        names, algorithm = list(config.clients), build(config.manifest(NO_KEYS))
        own = (shown_unit(g).text() for g in algorithm.certificate.guarantees if g.protects)
        unit = next(own, EVENT)
        accounts = {
            name: Account.make(
                self.home.place(name), name=name, unit=unit, epsilon=BUDGET, delta=DELTA
            )
            for name in names
        }
        table: dict[str, Any] = {
            "title": config.title,
            "features": list(config.features),
            "algorithm": {"name": config.algorithm, **config.choices},
            "setting": {
                f.name: value
                for f in fields(SettingTable)
                if (value := getattr(config.setting, f.name)) is not None
            },
            "clients": {name: account.public_key for name, account in accounts.items()},
            "server": {"port": port, "folder": "server", "log": "warning"},
        }
        self._helping = [make_helper(folder / name, name) for name in config.helpers or ()]
        if self._helping:
            table["helpers"] = [f"{one.name}/{one.name}{HANDED_OUT}" for one in self._helping]
            table["colluding"] = config.colluding
        self.file = folder / "study.toml"
        self.file.write_text(tomli_w.dumps(table), encoding="utf-8")
        self._config = from_table(table, folder=folder, environ={})
        self._seeded = seed is not None
        study = open_study(self._config, self._config.options, seed)
        self.manifest: Manifest = study.manifest
        study.close()
        self._server: subprocess.Popen[str] | None = None
        self._clients: dict[str, subprocess.Popen[str]] = {}
        self._helpers: dict[str, subprocess.Popen[str]] = {}

    def start(self) -> None:
        """Start the server, let every client join, and start the clients."""
        self._server = self._process("server", "serve", str(self.file), "--json")
        self.url = json.loads(self._document(self._server))["url"]
        route = Route(self.url, proxy="")
        for name in self.manifest.clients:
            link = HttpLink(route, 30.0)
            account = self.home.account(name)
            StudyClient.join(
                account,
                link,
                server_key=self.manifest.server,
                seeded=self._seeded,
                helpers=self._helping,
            ).close()
            keep_route(account.study(self.manifest.digest), route)
            link.close()
        for one in self._helping:
            given = ("--url", self.url, "--server-key", self.manifest.server)
            listed = ("--roster", str(self.file), "--yes", "--log", "warning")
            command = ("helper", "run", str(self.folder / one.name), *given, *listed)
            self._helpers[one.name] = self._process(one.name, *command)
        for name in self.manifest.clients:
            command = ("client", "run", "--data", name, "--home", str(self.home.folder))
            self._clients[name] = self._process(name, *command)
        self.ask({name: {"do": "status"} for name in self.manifest.clients})

    def _process(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "hedgerow", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _document(self, process: subprocess.Popen[str]) -> str:
        """The JSON document that a server prints when it listens."""
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(_out(process).readline())
            if not lines[-1]:
                raise self._died("server", process)
        return "".join(lines)

    def _died(self, name: str, process: subprocess.Popen[str]) -> HedgerowError:
        code = process.wait(10)
        last = (self.folder / f"{name}.log").read_text(encoding="utf-8").strip().splitlines()
        text = last[-1] if last else "it printed nothing"
        return HedgerowError(f"{name} ended with exit code {code}: {text}")

    def pid(self, name: str) -> int:
        """The process of a client."""
        return self._clients[name].pid

    def ask(self, requests: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Send each client a request, then read all replies."""
        for name, request in requests.items():
            process = self._clients[name]
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                raise self._died(name, process) from None
        replies = {}
        for name in requests:
            line = _out(self._clients[name]).readline()
            if not line:
                raise self._died(name, self._clients[name])
            replies[name] = json.loads(line)
            if "error" in replies[name]:
                raise InvalidValue(f"{name}: {replies[name]['error']}")
        return replies

    def play(
        self, environment: Environment, seed: int, sinks: Sequence[Sink], progress: Progress
    ) -> None:
        """Play all rounds: draw losses, ask for plays, report the losses."""
        names, rounds = self.manifest.clients, environment.setting.rounds
        marks = sorted({mark for sink in sinks for mark in sink.marks})
        state, played, last = environment.start(seed), 0, None
        step = 1 if environment.traits.sees_plays else BLOCK
        while played < rounds:
            count = min(step, rounds - played)
            drawn, state = environment.block(state, count, last)
            found = marks[bisect_right(marks, played) :][:count]
            block = check(drawn, environment.setting, played, count, found)
            plays = []
            for at in range(count):
                plays.append(self._round(block, at, played + at, names, environment))
                progress(f"round {played + at + 1}", played + at + 1, rounds)
            together = np.stack(plays)
            last = together[-1]
            for sink in sinks:
                shown = Plays.of(together) if together.ndim == 3 else together
                sink.rounds(played, block, shown)
            played += count

    def _round(
        self, block: Block, at: int, number: int, names: Sequence[str], environment: Environment
    ) -> np.ndarray:
        """One round of all clients: their plays."""
        shown = {} if block.reporting is None else {"reporting": block.reporting[at].tolist()}
        asked = {
            name: {"do": "predict", **shown}
            if block.awake is None
            else {"do": "predict", "awake": block.awake[at, i].tolist()}
            for i, name in enumerate(names)
        }
        replies = self.ask(asked)
        here = block.present if block.reporting is None else block.reporting
        sides = (
            [{}] * len(names)
            if block.side is None
            else [{"side": side} for side in block.side[at].tolist()]
        )
        losses = {
            name: {"absent": True}
            if here is not None and not here[at, i]
            else {
                "losses": block.reports[at, i].tolist(),
                **_about(environment, number, i),
                **sides[i],
            }
            for i, name in enumerate(names)
        }
        self.ask({name: {"do": "observe", "round": number, **losses[name]} for name in names})
        plays = np.array([replies[name]["play"] for name in names])
        if self.manifest.setting.get("deciders") is not None:  # every client plays for the decider
            assert (plays == plays[0]).all(), "clients disagree about a public play"
            return plays[:1]
        if block.present is not None:  # what an absent client would play does not count
            plays[~block.present[at]] = ABSENT if plays.ndim == 1 else 0
        return plays

    def stop(self) -> None:
        """End all processes, the clients first."""
        for process in self._clients.values():
            _close(process)
        for process in self._helpers.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)  # it ends by itself when the study is over
            process.terminate()
            _close(process)
        if self._server is not None:
            self._server.terminate()
            _close(self._server)

    def check(self) -> tuple[int, dict[str, str]]:
        """Check every ledger; the number of exchanges and the heads of all logs."""
        server = ServerLedger(self.folder / "server")
        try:
            heads, exchanges = {"server": server.check().hex()}, server.exchange
        finally:
            server.close()
        for one in self._helping:
            helper = HelperLedger(self.folder / one.name)
            try:
                heads[one.name] = helper.check().hex()
            finally:
                helper.close()
        for joined in self.home.joined():
            ledger = ClientLedger(joined.folder)
            try:
                ledger.account.check()
                heads[ledger.name] = ledger.check().hex()
            finally:
                ledger.close()
        return exchanges, heads


def launch(
    folder: Path,
    study: StudyConfig,
    label: str | None,
    seed: int | None,
    port: int,
    progress: Progress,
    started: Callable[[Launch], None],
    ended: Callable[[], None] = lambda: None,
) -> Launched:
    """Run a study as a deployment on this machine, from the first to the last round.

    `started` is called before the first round, `ended` after the last one, while all processes run.
    """
    entry, config = served(study, label)
    environment = study.environment_of(entry)
    recorder, seen = Recorder(environment.setting), Everything(wants_messages=False)
    whole = Launch(folder, config, seed, port)
    try:
        whole.start()
        started(whole)
        began = time.perf_counter()
        whole.play(environment, study.first_seed, [recorder, seen], progress)
        seconds = time.perf_counter() - began
        ended()
    finally:
        whole.stop()
    exchanges, heads = whole.check()
    algorithm = rebuild(whole.manifest)
    same = None
    if seed is not None:
        again, source = Everything(wants_messages=False), SeededNoise(seed)
        simulate(
            algorithm,
            environment,
            study.first_seed,
            sinks=[again],
            noise=source,
            engine="in_process",
        )
        same = np.array_equal(seen.all_plays(), again.all_plays())
    result = recorder.result(entry.label, study.first_seed, counters_of(algorithm))
    spent = {name: whole.home.account(name).spent_words() for name in whole.manifest.clients}
    return Launched(
        whole.manifest.digest.hex(),
        whole.manifest.private,
        environment.setting.rounds,
        exchanges,
        seconds,
        float(result.regret[-1]),
        spent,
        same,
        heads,
    )


def _about(environment: Environment, number: int, client: int) -> dict[str, str]:
    """The name of a target, where records have one and the rest of them is public."""
    if not environment.family.record.public:
        return {}
    table = getattr(environment, "table", None)
    named = table.name_of if isinstance(table, ForecastTable) else "{1}, round {0}".format
    return {"about": named(number, client)}


def _out(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _close(process: subprocess.Popen[str]) -> None:
    """Close the pipes of a process and wait for its end; one that hangs is killed."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
