"""Where a client keeps what it must not lose: the account and key of a data set, and its studies.

HOME/NAME/                     the account and the key of one data set
HOME/NAME/studies/DIGEST/      the ledger of one study on it, and how to reach its server (under
                               Flower nobody needs to know)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import client_ledger
from hedgerow.deployment.account import CHARGED, FILE, STUDIES, Account
from hedgerow.deployment.client import StudyClient
from hedgerow.deployment.http_client import HttpLink, Route
from hedgerow.deployment.learner import ClientLearner

VARIABLE = "HEDGEROW_CLIENT_HOME"
ROUTE = client_ledger.ROUTE
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Joined:
    """A study that was joined: its folder, its data set, and the beginning of its digest."""

    folder: Path
    data: str
    study: str

    def route(self) -> Route:
        """How to reach the server."""
        return kept_route(self.folder)


PATHS = ("ca", "certificate", "key")


def kept_route(folder: Path) -> Route:
    """How to reach the server of the study in a folder, as `keep_route` has kept it."""
    try:
        table = json.loads((folder / ROUTE).read_text(encoding="utf-8"))
        paths = {k: Path(v) for k, v in table.items() if k in PATHS and v is not None}
        return Route(**{**table, **paths})
    except (OSError, ValueError, TypeError) as error:
        raise InvalidValue(
            f"{folder / ROUTE} cannot be read. Join the study again: it costs nothing."
        ) from error


def keep_route(folder: Path, route: Route) -> None:
    """Remember in a folder how to reach the server of a study."""
    table = {k: str(v.resolve()) if isinstance(v, Path) else v for k, v in asdict(route).items()}
    part = folder / f".{ROUTE}"
    part.write_text(json.dumps(table, indent=2), encoding="utf-8")
    part.chmod(0o600)  # a proxy may need a password
    part.replace(folder / ROUTE)


class Home:
    """The folder of a client.

    Parameters
    ----------
    folder
        None: the folder in the variable HEDGEROW_CLIENT_HOME, or your user data folder.

    Examples
    --------
    >>> import tempfile
    >>> home = Home(Path(tempfile.mkdtemp()))
    >>> home.accounts(), list(home.joined())
    ([], [])
    """

    def __init__(self, folder: Path | None = None) -> None:
        given = os.environ.get(VARIABLE)
        usual = Path(given) if given else platformdirs.user_data_path("hedgerow") / "client"
        self.folder = usual if folder is None else folder

    def place(self, data: str) -> Path:
        """The folder of a data set."""
        if not _NAME.fullmatch(data):
            raise InvalidValue(
                f"Expected data={data!r} to be a name of letters, digits, '.', '_' and '-'."
            )
        return self.folder / data

    def account(self, data: str) -> Account:
        """The account of a data set."""
        if not (self.place(data) / FILE).is_file():
            known = ", ".join(self.accounts()) or "none yet"
            raise InvalidValue(
                f"There is no account of {data!r} in {self.folder}; known: {known}. "
                f"Make one with `hedgerow client init --data {data} --budget EPSILON --unit UNIT`."
            )
        return Account(self.place(data))

    def accounts(self) -> list[str]:
        """The data sets that have an account."""
        return sorted(file.parent.name for file in self.folder.glob(f"*/{FILE}"))

    def ledgers(self, data: str | None = None) -> Iterator[Joined]:
        """The studies that were joined, of one data set or of all, over HTTP or Flower."""
        kept = sorted(self.folder.glob(f"*/{STUDIES}/*/{client_ledger.FILE}"))
        for folder in (file.parent for file in kept):
            found = Joined(folder, folder.parent.parent.name, folder.name)
            whole = (folder / ROUTE).is_file() or (folder / CHARGED).is_file()
            if whole and data in (None, found.data):
                yield found

    def joined(self, data: str | None = None, study: str = "") -> Iterator[Joined]:
        """The studies that `hedgerow client join` has joined, of one data set or of all."""
        for file in sorted(self.folder.glob(f"*/{STUDIES}/*/{ROUTE}")):
            found = Joined(file.parent, file.parent.parent.parent.name, file.parent.name)
            if data in (None, found.data) and found.study.startswith(study.lower()[:16]):
                yield found

    def open(self, joined: Joined, route: Route | None = None) -> ClientLearner:
        """Open a study that was joined; `route` replaces the way to its server."""
        link = HttpLink(joined.route() if route is None else route)
        return _Opened(StudyClient(joined.folder, link), link)

    def one(self, data: str | None = None, study: str = "") -> Joined:
        """The only study that was joined; raises if there are none or several."""
        found = list(self.joined(data, study))
        if not found:
            who = "No data set" if data is None else data
            which = f"the study {study}" if study else "a study"
            raise InvalidValue(
                f"{who} has {'' if data is None else 'not '}joined {which} in {self.folder}. "
                "Join one with `hedgerow client join URL --data NAME --server-key HEX`."
            )
        if len(found) > 1:
            listed = ", ".join(f"{one.study} (data {one.data})" for one in found)
            raise InvalidValue(f"Several studies were joined: {listed}. Choose with --study.")
        return found[0]


class _Opened(ClientLearner):
    """A client with its own link, which it closes."""

    def __init__(self, client: StudyClient, link: HttpLink) -> None:
        super().__init__(client)
        self._link = link

    def close(self) -> None:
        super().close()
        self._link.close()


def open_client(
    data: str | None = None, study: str = "", home: str | Path | None = None
) -> ClientLearner:
    """Open a study that `hedgerow client join` has joined, and play it from Python.

    Close it at the end. After a crash, open it again and go on with `round`.

    Parameters
    ----------
    data
        The data set. None: the only one with a joined study.
    study
        The digest of the study, or its beginning. Empty: the only study of the data set.
    home
        The folder of accounts and ledgers. None: the folder in the variable HEDGEROW_CLIENT_HOME,
        or your user data folder.

    Examples
    --------
    >>> import tempfile
    >>> open_client("ward-3", home=tempfile.mkdtemp())
    Traceback (most recent call last):
    ...
    hedgerow.core.errors.InvalidValue: ward-3 has not joined a study in ...
    """
    place = Home(None if home is None else Path(home))
    return place.open(place.one(data, study))
