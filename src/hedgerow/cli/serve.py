"""`hedgerow serve FILE.toml`."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.options import Debug, Json, Plugins, apply_options
from hedgerow.cli.output import aside, print_json, say
from hedgerow.core.errors import InvalidValue
from hedgerow.version import __version__

if TYPE_CHECKING:
    from hedgerow.deployment.config import ServeConfig, ServerOptions
    from hedgerow.deployment.http_server import Tls
    from hedgerow.deployment.manifest import Manifest
    from hedgerow.deployment.server import StudyServer

DO = (
    "If a client of the last exchange is lost, bring the anchor back. If you cannot, see --vouch "
    "in `hedgerow serve --help`."
)


def serve(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="The study in TOML: algorithm, setting and keys of the clients. Or several.",
        ),
    ],
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port to listen on. 0: any free one.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Folder of the server's key and ledger.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Print the study, make only the key, check the certificate, and stop."
        ),
    ] = False,
    vouch: Annotated[
        bool,
        typer.Option(
            "--vouch", help="Vouch that there is no later ledger of this study; logged and stated."
        ),
    ] = False,
    json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Serve a study to clients in other organisations.

    Example: hedgerow serve study.toml

    The file has a title and tables; `hedgerow examples` writes serve.toml, an example:

    `algorithm`, such as name = "sparse_vector", epsilon = 1.0.

    `setting`, such as experts = 20, horizon = 365.

    `file`, optional: what each client's own file has, for `hedgerow client run --csv`.

    `clients`, with the line that `hedgerow client init` prints at each client.

    `roster`, optional: clients that come or are taken out while the study goes on.

    `server`, optional: host, port, folder, certificate, certificate_key and so on. Variables such
    as HEDGEROW_SERVER_PORT replace values of this table.

    Several files are several studies in one process, each below the name of its file:
    https://HOST:PORT/NAME. They have the same host, port and certificate, and different folders.

    At the first start the study gets its manifest, signed with the server's key. Later starts
    continue the study. Clients join with the printed command. The address shows a live page;
    /healthz, /readyz and /metrics are for operators. SIGTERM and Ctrl-C stop the server cleanly,
    with exit code 0; exit code 70 means that the disk failed and that nothing was sent.

    Where exchanges may close without some clients, the server names its last answer in a second
    file, the anchor, and refuses a ledger that is older. If the anchor is lost and a client of the
    last exchange is lost as well, the server waits, and says so. Only if you know that its ledger
    was never restored from a copy, start it with --vouch: it then goes on.
    """
    apply_options(plugin)
    from hedgerow.deployment.config import check_together, load
    from hedgerow.deployment.http_client import PATH

    if len(files) > 1 and (folder is not None or vouch or check):
        raise InvalidValue("--folder, --vouch and --check are for one study. Name one file.")
    changed = {"host": host, "port": port, "folder": None if folder is None else str(folder)}
    given = {key: value for key, value in changed.items() if value is not None}
    configs: dict[str, ServeConfig] = {}
    for file in files:
        found = load(file)
        prefix = f"/{file.stem}" if len(files) > 1 else ""
        if prefix in configs or not PATH.fullmatch(prefix):
            raise InvalidValue(
                f"The study of {file} would be at {prefix!r}. Give each file another name, of "
                "letters, digits, '.', '_' and '-'."
            )
        configs[prefix] = replace(found, options=replace(found.options, **given))
    if check:
        from hedgerow.deployment.server_ledger import KEY, public_keys

        config = configs[""]
        key = Path(config.options.folder) / KEY
        if not key.exists():
            aside(f"The server's key is made: {key}")
        _print(config.manifest(public_keys(config.options.folder)), "", json)
        _tls(config.options)
        return 0
    check_together([config.options for config in configs.values()])
    return _serve(configs, vouch, json)


def _serve(configs: dict[str, ServeConfig], vouch: bool, json: bool) -> int:
    from hedgerow.deployment.database import FATAL, LedgerFailed
    from hedgerow.deployment.desk import Desk
    from hedgerow.deployment.http_server import listen, make_app
    from hedgerow.deployment.http_server import serve as serve_http
    from hedgerow.deployment.logs import log, start_logs
    from hedgerow.deployment.pages.live import live_page
    from hedgerow.deployment.serving import limits_of

    options = next(iter(configs.values())).options
    options.check_encrypted()
    tls = _tls(options)
    listening = listen(options.host, options.port)  # first: a study that is made is final
    host, _, at = options.operations.rpartition(":")
    operations = listen(host, int(at)) if options.operations else None
    start_logs(options.log)
    desks: dict[str, Desk] = {}
    try:
        for prefix, config in configs.items():
            study = _opened(config, prefix, vouch)
            limits = limits_of(study, config.options)
            desks[prefix] = Desk(lambda study=study: study, limits, prefix)
            bound = listening.getsockname()[1]
            url = f"{'http' if tls is None else 'https'}://{options.host}:{bound}{prefix}"
            _print(study.manifest, url, json)
    except LedgerFailed as error:
        listening.close()
        aside(f"Error: {error}")
        return FATAL
    except BaseException:
        listening.close()
        raise
    place = None if operations is None else f"{host}:{operations.getsockname()[1]}"
    log("starting", version=__version__, studies=len(desks), operations=place)
    return serve_http(make_app(desks, live_page), desks, listening, tls, operations)


def _tls(options: ServerOptions) -> Tls | None:
    """The certificate, if one is named; `InvalidValue` if it cannot be used."""
    from hedgerow.deployment.http_server import Tls

    if options.certificate is None or options.certificate_key is None:
        return None
    ca = None if options.client_ca is None else Path(options.client_ca)
    tls = Tls(Path(options.certificate), Path(options.certificate_key), ca)
    tls.check()
    return tls


def _opened(config: ServeConfig, path: str, vouch: bool) -> StudyServer:
    """The study, changed as its file says, and what the log should say about it."""
    from hedgerow.deployment.logs import log
    from hedgerow.deployment.serving import open_study

    study = open_study(config, config.options)
    where: dict[str, Any] = {"path": path} if path else {}
    for words in study.amend(config.roster):
        log("the roster has changed", logging.WARNING, **where, change=words)
    if vouch:
        vouched = study.vouch()
        words = "the operator has vouched" if vouched else "--vouch was not needed: nobody vouched"
        log(words, logging.WARNING, **where, exchange=study.exchange)
    if study.lost_anchor is not None:
        lost = str(study.lost_anchor)
        log("the anchor is missing or old", logging.WARNING, **where, anchor=lost, do=DO)
    digest = study.manifest.digest.hex()[:16]
    log("opened", **where, title=study.manifest.title, study=digest, exchange=study.exchange)
    return study


def _print(manifest: Manifest, url: str, json: bool) -> None:
    """Print what the clients need to know."""
    if json:
        print_json(
            {
                "title": manifest.title,
                "study": manifest.digest.hex(),
                "server_key": manifest.server,
                "url": url or None,
                "clients": list(manifest.clients),
                "certificate": list(manifest.resolved["guarantees_in_words"]),
                "private": manifest.private,
            }
        )
    else:
        for line in manifest.words():
            say(line)
        say(f"server key {manifest.server}")
        if url:
            reached = url.replace("://0.0.0.0:", "://HOST:")  # all addresses of this machine
            join = f"hedgerow client join {reached} --data NAME --server-key {manifest.server}"
            say(f"listening on {url}; clients join with")
            say(f"  {join}")
    sys.stdout.flush()
