"""`hedgerow helper init`, `run` and `verify`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.client import (
    Ca,
    Certificate,
    CertificateKey,
    Proxy,
    Unencrypted,
    agreed,
    changes_of_route,
)
from hedgerow.cli.options import Debug, Json, Plugins, apply_options
from hedgerow.cli.output import aside, print_json, say

if TYPE_CHECKING:
    from hedgerow.core.protocol import Algorithm
    from hedgerow.deployment.helper import StudyHelper
    from hedgerow.deployment.manifest import Manifest

Folder = Annotated[Path, typer.Argument(help="The folder of the helper's keys and ledger.")]


def helper() -> None:
    """Open the sums of a study, and nothing else (experimental).

    With trust = "distributed" clients hide their uploads under masks, and helpers open nothing but
    the sum of an exchange. A helper sees no numbers and only calls out. While at least one
    helper does not work with the server, nobody sees a single upload. Not yet reviewed by outside
    cryptographers.

    Example: hedgerow helper init north --name north

    Then use `run`, and `verify` at the end. `init` and `verify` have --json.
    """


def init(
    folder: Folder,
    name: Annotated[str, typer.Option("--name", help="What the helper is called in the study.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make the keys of a helper, for one study.

    Example: hedgerow helper init north --name north

    Send the file NAME.helper to the operator of the server and, by another way, to the clients.
    Read the fingerprint to them on the telephone. Never copy the folder.
    """
    from hedgerow.deployment.helper_ledger import PUBLIC, make_helper

    keys = make_helper(folder, name)
    file = folder / f"{name}{PUBLIC}"
    if json:
        print_json({"name": name, "file": str(file), "fingerprint": keys.fingerprint})
        return
    say(f"helper {name}; kept in {folder}, which must never be copied")
    say(f"hand out {file}")
    say(f"fingerprint {keys.fingerprint}")


def run(
    folder: Folder,
    url: Annotated[
        str | None, typer.Option("--url", help="The address of the server, to join, or a new one.")
    ] = None,
    server_key: Annotated[
        str | None,
        typer.Option(
            "--server-key", metavar="HEX", help="The server's public key, from a source you trust."
        ),
    ] = None,
    roster: Annotated[
        Path | None,
        typer.Option(
            "--roster",
            metavar="FILE",
            help="TOML with the public key of each client, from the clients and not from the "
            "server.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Join without asking.")] = False,
    ca: Ca = None,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    proxy: Proxy = None,
    unencrypted: Unencrypted = False,
    log: Annotated[
        str, typer.Option("--log", help="debug, info, warning or error: what is printed.")
    ] = "info",
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Join a study, then open its sums until it is over.

    Example: hedgerow helper run north --url https://study.example.org:8420 --server-key HEX
    --roster clients.toml

    The first start shows the study and asks. The helper compares its clients with the roster, so
    that the server cannot invent any. Later starts need the folder, and what has changed. At the
    end of the study the key that opens seeds is deleted; the ledger stays.
    """
    apply_options(plugin)
    from dataclasses import replace

    from hedgerow.core.errors import Interrupted, InvalidValue
    from hedgerow.deployment.database import FATAL, LedgerFailed
    from hedgerow.deployment.helper import StudyHelper
    from hedgerow.deployment.helper_ledger import FILE, KEY
    from hedgerow.deployment.home import ROUTE, keep_route, kept_route
    from hedgerow.deployment.http_client import HttpLink, Route
    from hedgerow.deployment.logs import start_logs

    if not (folder / KEY).is_file():
        raise InvalidValue(
            f"{folder} has no keys of a helper. Make them with `hedgerow helper init`."
        )
    joined = (folder / FILE).is_file() and (folder / ROUTE).is_file()
    if not joined and (url is None or server_key is None or roster is None):
        raise InvalidValue("To join a study, give --url, --server-key and --roster.")
    start_logs(log)
    changed = changes_of_route(url, ca, certificate, certificate_key, proxy, unencrypted)
    route = replace(kept_route(folder), **changed) if joined else Route(**changed)
    try:
        with closing(HttpLink(route)) as link:
            if joined or server_key is None or roster is None:
                found = StudyHelper(folder, link)
            else:
                found = _joined(folder, link, server_key, roster, yes)
                keep_route(folder, route)
            with closing(found):
                _open_sums(found)
    except LedgerFailed as error:
        aside(f"Error: {error}")
        return FATAL
    except KeyboardInterrupt as stop:
        raise Interrupted("Stopped. Start again to go on.") from stop
    return 0


def _joined(folder: Path, link: Any, server_key: str, roster: Path, yes: bool) -> StudyHelper:
    """Join a study, once its manifest is shown and somebody agrees."""
    from hedgerow.core.errors import InvalidValue
    from hedgerow.deployment.helper import StudyHelper
    from hedgerow.studies.config import read_toml

    table = read_toml(roster)
    clients: Any = table.get("clients", table)
    if not isinstance(clients, dict) or not all(isinstance(key, str) for key in clients.values()):
        raise InvalidValue(f'Expected {roster} to have lines such as north = "6f5a...".')

    def agree(manifest: Manifest, algorithm: Algorithm) -> bool:
        for line in manifest.words():
            aside(line)
        return agreed(yes, "Help this study?")

    return StudyHelper.join(folder, link, server_key=server_key, roster=clients, agree=agree)


def _open_sums(found: StudyHelper) -> None:
    """Call the server until the study is over."""
    from hedgerow.deployment.logs import log

    last = found.exchange
    log("helping", helper=found.name, study=found.study.hex()[:16], exchange=last)
    while not found.advance():
        if found.exchange != last:
            last = found.exchange
            log("opened", exchange=last)
    log("the study is over", exchange=found.exchange, erased="helper.box")


def verify(folder: Folder, json: Json = False, debug: Debug = False) -> None:
    """Check the ledger of a helper: one set was opened for each exchange.

    Example: hedgerow helper verify north

    Every hash is computed again, and the table is compared with the log. Stop `helper run` first.
    """
    from hedgerow.deployment.helper_ledger import HelperLedger

    with closing(HelperLedger(folder)) as ledger:
        head, opened = ledger.check().hex(), len(ledger.opened())
        document = {"helper": ledger.name, "study": ledger.study.hex(), "opened": opened}
        if json:
            print_json({**document, "over": ledger.over, "head": head})
            return
        say(f"helper {ledger.name} of {ledger.manifest.title}: ok, head {head}")
        say(f"{opened} exchanges, one set each; {'over' if ledger.over else 'not over'}")


HELPER = {"": helper, "init": init, "run": run, "verify": verify}
