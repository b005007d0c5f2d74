"""`hedgerow serve FILE.toml`."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.options import Debug, Json, Plugins, prepare
from hedgerow.cli.output import ERR, OUT, print_json
from hedgerow.version import __version__

if TYPE_CHECKING:
    from hedgerow.deployment.config import ServeConfig, ServerOptions
    from hedgerow.deployment.manifest import Manifest

DO = (
    "If a client of the last exchange is lost, bring the anchor back. If you cannot, see --vouch "
    "in `hedgerow serve --help`."
)


def serve(
    file: Annotated[
        Path, typer.Argument(help="The study in TOML: algorithm, setting and keys of the clients.")
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
        typer.Option("--check", help="Print the study, make only the key, and stop."),
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

    The file has a title and four tables; `hedgerow examples` writes serve.toml, an example:

    `algorithm`, such as name = "sparse_vector", epsilon = 1.0.

    `setting`, such as experts = 20, horizon = 365.

    `clients`, with the line that `hedgerow client init` prints at each client.

    `roster`, optional: clients that come or are taken out while the study goes on.

    `server`, optional: host, port, folder, certificate, certificate_key and so on. Variables such
    as HEDGEROW_SERVER_PORT replace values of this table.

    At the first start the study gets its manifest, signed with the server's key. Later starts
    continue the study. Clients join with the printed command. The address shows a live page;
    /healthz, /readyz and /metrics are for operators. SIGTERM and Ctrl-C stop the server cleanly,
    with exit code 0; exit code 70 means that the disk failed and that nothing was sent.

    Where exchanges may close without some clients, the server names its last answer in a second
    file, the anchor, and refuses a ledger that is older. If the anchor is lost and a client of the
    last exchange is lost as well, the server waits, and says so. Only if you know that its ledger
    was never restored from a copy, start it with --vouch: it then goes on.
    """
    prepare(plugin)
    from hedgerow.deployment.config import load

    config = load(file)
    changed = {"host": host, "port": port, "folder": None if folder is None else str(folder)}
    options = replace(config.options, **{k: v for k, v in changed.items() if v is not None})
    if check:
        from hedgerow.deployment.server_ledger import KEY, public_keys

        key = Path(options.folder) / KEY
        if not key.exists():
            ERR.print(f"The server's key is made: {key}", markup=False, soft_wrap=True)
        _print(config.manifest(public_keys(options.folder)), "", json)
        return 0
    return _serve(config, options, vouch, json)


def _serve(config: ServeConfig, options: ServerOptions, vouch: bool, json: bool) -> int:
    from hedgerow.deployment.anchor import AnchorFailed
    from hedgerow.deployment.database import FATAL
    from hedgerow.deployment.desk import Desk
    from hedgerow.deployment.http_server import Tls, listen, make_app
    from hedgerow.deployment.http_server import serve as serve_http
    from hedgerow.deployment.logs import log, start_logs
    from hedgerow.deployment.pages.live import live_page
    from hedgerow.deployment.serving import limits_of, open_study

    options.check_encrypted()
    tls = None
    if options.certificate is not None and options.certificate_key is not None:
        ca = None if options.client_ca is None else Path(options.client_ca)
        tls = Tls(Path(options.certificate), Path(options.certificate_key), ca)
        tls.check()
    listening = listen(options.host, options.port)  # first: a study that is made is final
    host, _, at = options.operations.rpartition(":")
    operations = listen(host, int(at)) if options.operations else None
    try:
        study = open_study(config, options)
        changed = study.amend(config.roster)
        vouched = vouch and study.vouch()
    except AnchorFailed as error:
        listening.close()
        ERR.print(f"Error: {error}", markup=False, soft_wrap=True)
        return FATAL
    except BaseException:
        listening.close()
        raise
    start_logs(options.log)
    for words in changed:
        log("the roster has changed", logging.WARNING, change=words)
    if vouch:
        words = "the operator has vouched" if vouched else "--vouch was not needed: nobody vouched"
        log(words, logging.WARNING, exchange=study.exchange)
    if study.lost_anchor is not None:
        log("the anchor is missing or old", logging.WARNING, anchor=str(study.lost_anchor), do=DO)
    facts = {"study": study.manifest.digest.hex()[:16], "exchange": study.exchange}
    place = None if operations is None else f"{host}:{operations.getsockname()[1]}"
    log("starting", version=__version__, title=study.manifest.title, **facts, operations=place)
    desk = Desk(lambda: study, limits_of(study, options))
    app = make_app(desk, live_page)
    bound = listening.getsockname()[1]
    url = f"{'http' if tls is None else 'https'}://{options.host}:{bound}"
    _print(study.manifest, url, json)
    return serve_http(app, desk, listening, tls, operations)


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
            OUT.print(line, markup=False, soft_wrap=True)
        OUT.print(f"server key {manifest.server}", markup=False, soft_wrap=True)
        if url:
            reached = url.replace("://0.0.0.0:", "://HOST:")  # all addresses of this machine
            join = f"hedgerow client join {reached} --data NAME --server-key {manifest.server}"
            OUT.print(f"listening on {url}; clients join with", markup=False, soft_wrap=True)
            OUT.print(f"  {join}", markup=False, soft_wrap=True)
    sys.stdout.flush()
