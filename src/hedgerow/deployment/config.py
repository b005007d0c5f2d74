"""The configuration of a study server: a TOML file, and environment variables that override it.

title = "Forecasts at three hospitals"
closing = "wait"

helpers = ["north.helper", "south.helper"]  # with trust = "distributed"
colluding = 2        # then: how many clients may work with the server
least = 8            # then, with closing = "drop": the least number of clients in a sum

[algorithm]
name = "sparse_vector"
epsilon = 1.0

[setting]
experts = 20
horizon = 365

names = ["persistence", ...]  # optional: the experts, in order

[file]               # optional: what each client's own file has (`hedgerow client run --csv`)
round = "date"
first = 2026-01-05   # the first round
target = "measured"
largest_error = 50.0

[clients]            # what `hedgerow client init` prints at each client
north = "6f5a..."
south = "03c1..."

[roster]             # optional, later: who comes, and who is taken out (closing = "fold" or "drop")
spare = "9d41..."    # under [clients] it is an open seat: spare = ""
south = "out"

[server]             # optional; HEDGEROW_SERVER_PORT=8443 and so on change it
host = "0.0.0.0"
port = 8443
certificate = "server.pem"
certificate_key = "server.key"
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from hedgerow.algorithms.registry import ALGORITHMS
from hedgerow.core.combination import PublicForecasts
from hedgerow.core.errors import InvalidValue
from hedgerow.core.validate import at_least, nearest, one_of, positive
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.helper_ledger import HelperKeys
from hedgerow.deployment.loopback import is_loopback
from hedgerow.deployment.manifest import Manifest
from hedgerow.deployment.own_file import COMBINED, FileForm
from hedgerow.deployment.server_ledger import PublicKeys
from hedgerow.records.plain import typed
from hedgerow.studies.config import read_toml

KEYS = (
    *("title", "closing", "features", "helpers", "colluding", "least"),
    *("algorithm", "setting", "file", "clients", "roster", "server"),
)
SERVER = "HEDGEROW_SERVER_"
SECONDS = ("wait", "slow", "close_after")
SHARED = (
    *("host", "port", "certificate", "certificate_key", "client_ca", "unencrypted"),
    *("slow", "operations", "log"),
)
"""Options of a process, which all its studies share."""
FILES = ("folder", "anchor", "certificate", "certificate_key", "client_ca")


@dataclass(frozen=True)
class ServerOptions:
    """How a study is served. Nothing here changes what is computed or guaranteed.

    Parameters
    ----------
    host, port
        Where to listen. Port 0: any free one.
    folder
        Where the server's key and database are kept.
    anchor
        With closing = "fold" or "drop": a file that names the last answer, best on another disk
        than the folder. None: `FOLDER.anchor`, beside the folder.
    certificate, certificate_key
        The certificate of the server and its key, in PEM files. Without them: plain HTTP, which
        only this machine may reach.
    client_ca
        The authority of client certificates; with it every client needs one.
    unencrypted
        Whether plain HTTP may be reached from other machines, because a proxy or the network in
        front of the server encrypts. Default False.
    wait
        Seconds until a waiting client is asked to call again.
    slow
        Seconds that a client may take to send headers, and a message.
    lane
        Requests of one client at one address that may be queued.
    queue
        Requests of all clients that may be queued.
    connections
        Open connections of one address. 0: enough for all clients behind one address.
    close_after
        Seconds until an exchange is closed without the clients that are late, where the closing
        rule of the study allows it. 0: never.
    operations
        An address such as "0.0.0.0:9420" where operators find /healthz, /readyz and /metrics
        without TLS and client certificates. Empty: only at `port`.
    log
        How much is logged: "debug", "info", "warning" or "error".

    Examples
    --------
    >>> ServerOptions(port=8443).host
    '127.0.0.1'
    """

    host: str = "127.0.0.1"
    port: int = 8420
    folder: str = "server"
    anchor: str | None = None
    certificate: str | None = None
    certificate_key: str | None = None
    client_ca: str | None = None
    unencrypted: bool = False
    wait: float = 20.0
    slow: float = 10.0
    lane: int = 8
    queue: int = 4096
    connections: int = 0
    close_after: float = 0.0
    operations: str = ""
    log: str = "info"

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise InvalidValue(f"Expected port={self.port!r} in [0, 65535].")
        for name in ("lane", "queue"):
            at_least(name, getattr(self, name), 1)
        at_least("connections", self.connections, 0)
        for name in ("wait", "slow"):
            positive(name, getattr(self, name))
        if not self.close_after >= 0:
            raise InvalidValue(f"Expected close_after={self.close_after!r} >= 0.")
        one_of(self, log=("debug", "info", "warning", "error"))
        host, _, port = self.operations.rpartition(":")
        fits = not self.operations or (bool(host) and port.isdecimal() and int(port) < 2**16)
        if not fits:
            raise InvalidValue(
                f"Expected operations={self.operations!r} to be HOST:PORT, such as "
                '"127.0.0.1:9420".'
            )
        if (self.certificate is None) != (self.certificate_key is None):
            raise InvalidValue("Give both certificate and certificate_key, or neither.")
        if self.client_ca is not None and self.certificate is None:
            raise InvalidValue("client_ca needs certificate and certificate_key.")

    def check_encrypted(self) -> None:
        """Raise `InvalidValue` if other machines would reach the server without encryption."""
        if self.certificate is None and not self.unencrypted and not is_loopback(self.host):
            raise InvalidValue(
                f"On {self.host} other machines would reach this server without encryption. Set "
                "certificate and certificate_key in [server], or unencrypted = true if something "
                "in front of the server encrypts."
            )


def check_together(several: Sequence[ServerOptions]) -> None:
    """Refuse studies that one process cannot serve: with other addresses, or in one folder."""
    first = several[0]
    for options in several[1:]:
        for name in SHARED:
            one, other = getattr(first, name), getattr(options, name)
            if one != other:
                raise InvalidValue(
                    f"Studies in one process have the same {name}, and here it is {one!r} and "
                    f"{other!r}. Write it alike in each file, or start two servers."
                )
    if len({Path(options.folder).resolve() for options in several}) < len(several):
        raise InvalidValue(
            "Two studies have the same folder. Give each its own, with folder under [server]."
        )


@dataclass(frozen=True)
class SettingTable:
    """The size of the game; its clients are those of the roster."""

    experts: int
    horizon: int
    deciders: int | None = None
    family: str | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ServeConfig:
    """What `hedgerow serve FILE.toml` serves.

    Parameters
    ----------
    title
        What the study is called.
    algorithm, choices
        The name of the algorithm and its choices.
    setting
        Experts and rounds of the game, 1 decider if a separate role plays, its family unless losses
        are in [0, 1], and names of the experts, in order, if pages are to show them.
    file
        What the file of every client has, for `hedgerow client run --csv`.
    helpers, colluding, least
        With `trust="distributed"`: the public keys of the helpers by name, how many clients may
        work with the server, and, with closing "drop", how many are in a sum at least.
    clients
        The public key of each client by name, in hexadecimal digits. Empty: an open seat.
    roster
        Changes while the study goes on: by name the key of the client that gets an open seat, or
        "out" if a client is taken out.
    closing
        What happens if a client is silent.
    features
        What goes beyond the plain game, such as "absent clients".
    options
        How the study is served.
    """

    title: str
    algorithm: str
    choices: Mapping[str, Any]
    setting: SettingTable
    clients: Mapping[str, str]
    closing: str = "wait"
    features: tuple[str, ...] = ()
    options: ServerOptions = ServerOptions()
    file: FileForm | None = None
    helpers: Mapping[str, Mapping[str, str]] | None = None
    colluding: int | None = None
    roster: Mapping[str, str] = field(default_factory=dict[str, str])
    least: int | None = None

    def manifest(self, keys: PublicKeys, seed: int | None = None) -> Manifest:
        """The manifest of the study, for the server with these `public_keys`."""
        return Manifest.make(
            title=self.title,
            algorithm=self.algorithm,
            choices=self.choices,
            experts=self.setting.experts,
            horizon=self.setting.horizon,
            deciders=self.setting.deciders,
            family=self._family,
            names=self.setting.names,
            file=self.file,
            features=self.features,
            closing=self.closing,
            server=keys["server"],
            sealing=keys["sealing"],
            roster=self.clients,
            seed=seed,
            helpers=self.helpers,
            colluding=self.colluding,
            least=self.least,
        )

    @property
    def _family(self) -> str | None:
        """The family; where forecasts from files are combined, by default their absolute error."""
        families = ALGORITHMS[self.algorithm].traits.families
        combines = any(issubclass(kind, PublicForecasts) for kind in families)
        if self.setting.family is None and self.file is not None and combines:
            return COMBINED
        return self.setting.family


def load(path: Path, environ: Mapping[str, str] = os.environ) -> ServeConfig:
    """Read a TOML file and the variables HEDGEROW_SERVER_*. Paths are relative to the file."""
    return from_table(read_toml(path), path.stem, path.parent, environ)


def from_table(
    table: Mapping[str, Any],
    title: str = "Untitled",
    folder: Path = Path(),
    environ: Mapping[str, str] = os.environ,
) -> ServeConfig:
    """A configuration from plain values.

    >>> rows = {"algorithm": {"name": "sparse_vector"}, "setting": {"experts": 3, "horizon": 9}}
    >>> from_table({**rows, "clients": {"north": 64 * "a"}}, environ={}).setting.horizon
    9
    """
    for key in ("environment", "algorithms"):
        if key in table:
            raise InvalidValue(
                f"A file with the key {key} is a study to simulate. Use `hedgerow launch` with it."
            )
    for key in table:
        if key not in KEYS:
            raise InvalidValue(f"Unknown key {key}; {nearest(key, KEYS)}")
    choices = dict(_table(table, "algorithm"))
    name = choices.pop("name", None)
    if not isinstance(name, str):
        raise InvalidValue(f"Expected [algorithm] to have a name; valid: {', '.join(ALGORITHMS)}.")
    text = {"title": table.get("title", title), "closing": table.get("closing", "wait")}
    for key, value in text.items():
        if not isinstance(value, str):
            raise InvalidValue(f"Expected {key}={value!r} to be text.")
    features = table.get("features", [])
    several = isinstance(features, list) and all(isinstance(one, str) for one in features)
    if not several:
        raise InvalidValue(f"Expected features={features!r} to be a list of texts.")
    options = server_options(table.get("server", {}), folder, environ)
    if options.close_after and not rule_of(text["closing"]).may_close:
        raise InvalidValue(
            f"closing = {text['closing']!r} never closes an exchange early. Leave out close_after, "
            "or choose closing = 'fold' or 'drop'."
        )
    return ServeConfig(
        text["title"],
        name,
        choices,
        typed(SettingTable, _table(table, "setting"), "setting"),
        dict(_table(table, "clients")),
        text["closing"],
        tuple(features),
        options,
        None if "file" not in table else FileForm.read(_table(table, "file")),
        _helpers(table.get("helpers"), folder),
        table.get("colluding"),
        {n: str(key) for n, key in _table(table, "roster").items()} if "roster" in table else {},
        table.get("least"),
    )


def _helpers(files: Any, folder: Path) -> dict[str, dict[str, str]] | None:
    """The public keys in files NAME.helper, by name."""
    if files is None:
        return None
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise InvalidValue('Expected helpers to be a list of files, such as ["north.helper"].')
    found = [HelperKeys.read(folder / file) for file in files]
    return {keys.name: {"sign": keys.sign, "seal": keys.seal} for keys in found}


def server_options(
    table: Mapping[str, Any], folder: Path = Path(), environ: Mapping[str, str] = os.environ
) -> ServerOptions:
    """Options from a table, with variables HEDGEROW_SERVER_* over it.

    >>> server_options({"port": 1}, environ={"HEDGEROW_SERVER_PORT": "8443"}).port
    8443
    """
    if not isinstance(table, Mapping):
        raise InvalidValue(f"Expected [server] to be a table, got {table!r}.")
    beside = {key: str(folder / table[key]) for key in FILES if isinstance(table.get(key), str)}
    kinds = get_type_hints(ServerOptions)
    known = {f"{SERVER}{field.name.upper()}": field.name for field in fields(ServerOptions)}
    given = {}
    for variable, text in environ.items():
        if not variable.startswith(SERVER):
            continue
        if variable not in known:
            raise InvalidValue(f"Unknown variable {variable}; {nearest(variable, known)}")
        given[known[variable]] = _read(variable, text, kinds[known[variable]])
    whole = {key: float(table[key]) for key in SECONDS if type(table.get(key)) is int}
    return typed(ServerOptions, {**table, **whole, **beside, **given}, "server")


def _read(variable: str, text: str, kind: Any) -> Any:
    """The value of a variable of the environment."""
    if kind is bool:
        if text not in ("true", "false"):
            raise InvalidValue(f"Expected {variable}={text!r} to be true or false.")
        return text == "true"
    try:
        return kind(text) if kind in (int, float) else text
    except ValueError:
        raise InvalidValue(f"Expected {variable}={text!r} to be a number.") from None


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    if not isinstance(found, Mapping) or not found:
        raise InvalidValue(
            f"Expected a table [{name}]; `hedgerow examples` writes serve.toml, an example."
        )
    return found
