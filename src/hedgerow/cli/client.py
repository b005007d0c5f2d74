"""`hedgerow client init`, `join`, `run`, `ledger` and `verify`."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli.options import Debug, Json, Plugins, apply_options
from hedgerow.cli.output import ERR, aside, print_json, say

if TYPE_CHECKING:
    from hedgerow.core.certificate import Guarantee
    from hedgerow.core.protocol import Algorithm
    from hedgerow.deployment.account import Account
    from hedgerow.deployment.home import Home, Joined
    from hedgerow.deployment.http_client import Route
    from hedgerow.deployment.learner import ClientLearner
    from hedgerow.deployment.manifest import Manifest

HomeFolder = Annotated[
    Path | None,
    typer.Option(
        "--home",
        help="Folder of accounts and ledgers. Default: HEDGEROW_CLIENT_HOME, or your user data "
        "folder.",
    ),
]
DataName = Annotated[str, typer.Option("--data", metavar="NAME", help="The data set.")]
Chosen = Annotated[
    str | None,
    typer.Option("--data", metavar="NAME", help="The data set, if several have joined studies."),
]
Study = Annotated[
    str, typer.Option("--study", metavar="DIGEST", help="The study, if several were joined.")
]
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca", envvar="HEDGEROW_CLIENT_CA", help="Authority of the server's certificate."
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        envvar="HEDGEROW_CLIENT_CERTIFICATE",
        help="This client's certificate, if the server asks for one.",
    ),
]
CertificateKey = Annotated[
    Path | None,
    typer.Option(
        "--certificate-key", envvar="HEDGEROW_CLIENT_CERTIFICATE_KEY", help="Its private key."
    ),
]
Proxy = Annotated[
    str | None,
    typer.Option(
        "--proxy",
        envvar="HEDGEROW_CLIENT_PROXY",
        help="A proxy, http://host:port. Default: HTTPS_PROXY.",
    ),
]
Unencrypted = Annotated[
    bool,
    typer.Option(
        "--unencrypted",
        envvar="HEDGEROW_CLIENT_UNENCRYPTED",
        help="Allow http:// to another machine, if the network encrypts by itself.",
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="Your own CSV or Parquet file, or a folder of them, as the study describes it.",
    ),
]
TRUST = "Do you trust the operator of the server with exact data?"
Helper = Annotated[
    list[Path] | None,
    typer.Option(
        "--helper",
        metavar="FILE",
        help="NAME.helper of a helper that you trust, which you got from the helper itself.",
    ),
]
PATIENCE = 30.0  # seconds that `join` waits for a server


def client() -> None:
    """Take part in a study, within the budget of a data set.

    Each data set has an account with a budget that holds for all studies together. Joining a study
    charges what the study may reveal, before anything is computed. A ledger records everything
    that leaves this machine, in a log that is chained by hashes.

    Example: hedgerow client init --data ward-3 --budget 2.0 --unit person:24

    Then use `join` and `run`. Each command has --help, and most have --json.
    """


def init(
    data: DataName,
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="EPSILON", help="Epsilon that all studies may spend."),
    ],
    delta: Annotated[
        str | None, typer.Option("--delta", help="Delta that all studies may spend. Default: 0.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            metavar="UNIT",
            help="Whose secret it is, such as event, person:24, window:7 or client.",
        ),
    ] = None,
    home: HomeFolder = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make the account and the key of a data set.

    Example: hedgerow client init --data ward-3 --budget 2.0 --unit person:24

    The budget is a decimal number. It is set once and holds for all studies together. The printed
    public key goes into the study file of the server.

    The unit says whose secret the budget is for. It is set once, too, and is asked for at a
    terminal: event is all that this client reports in one round, person:24 a person with at most 24
    records (`hedgerow people` counts them), window:7 all that it reports in 7 rounds in a row, and
    client all of it. A study that protects less is refused, with what it would cost. event:8 is one
    of 8 records in a round, part:0.001 a person who is declared to move the losses of a round by at
    most 0.001; with event,public=forecasts the rest of a record is secret.
    """
    from hedgerow.core.errors import InvalidValue
    from hedgerow.deployment.account import Account
    from hedgerow.deployment.home import Home
    from hedgerow.deployment.manifest import decimal_of

    place = Home(home).place(data)
    if not decimal_of(budget) > 0:
        raise InvalidValue(f"Expected --budget={budget!r} > 0.")
    unit = _asked_unit() if unit is None else unit
    account = Account.make(place, name=data, epsilon=budget, delta=delta, unit=unit)
    document = {"data": data, "public_key": account.public_key, "folder": str(place)}
    if json:
        print_json({**document, "budget": account.budget, "unit": account.unit.words()})
        return
    say(f"{data}: {account.spent_words()} is spent for {account.unit.words()}; kept in {place}")
    say("public key, for the server's study file:")
    say(f'  {data} = "{account.public_key}"')


def _asked_unit() -> str:
    """Whose secret the budget is for, from a person at a terminal."""
    from hedgerow.core.errors import InvalidValue

    if not sys.stdin.isatty():
        raise InvalidValue(
            "Say whose secret the budget is for: --unit event (one record), person:24 (a person "
            "with at most 24 records), window:7 (7 rounds of this client) or client (all of it)."
        )
    aside("Whose secret is it? The budget is for one of these, and that cannot be changed later:")
    aside("  event   what this client reports in one round")
    aside("  person  a person with several records (`hedgerow people` counts them)")
    aside("  window  all that this client reports in some rounds in a row")
    aside("  client  all that this client ever reports")
    unit = typer.prompt("Unit", err=True).strip()
    ask = {"person": "Most records of one person", "window": "How many rounds"}.get(unit)
    return f"{unit}:{typer.prompt(ask, type=int, err=True)}" if ask else unit


def join(
    url: Annotated[
        str, typer.Argument(help="The address of the server, such as https://host:8420.")
    ],
    data: DataName,
    server_key: Annotated[
        str,
        typer.Option(
            "--server-key", metavar="HEX", help="The server's public key, from a source you trust."
        ),
    ],
    csv: Csv = None,
    helper: Helper = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Join without asking, also if the server must be trusted.")
    ] = False,
    convert: Annotated[
        bool,
        typer.Option(
            "--convert", help="Join a study of a smaller unit, for what it costs in yours."
        ),
    ] = False,
    seeded: Annotated[
        bool,
        typer.Option("--seeded", help="Also join a test study, whose noise protects nothing."),
    ] = False,
    ca: Ca = None,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    proxy: Proxy = None,
    unencrypted: Unencrypted = False,
    home: HomeFolder = None,
    json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """Check a study, show what it may reveal, charge the account and sign.

    Example: hedgerow client join https://study.example.org:8420 --data ward-3 --server-key HEX

    The algorithm is built again on this machine from the choices in the server's manifest. Any
    difference, down to the last bit of a noise scale, is refused by name. With --csv so is a file
    that lacks a column. Joining again after an interruption costs nothing more. A study that hides
    uploads from its server needs --helper.
    """
    apply_options(plugin)
    from hedgerow.deployment.home import Home
    from hedgerow.deployment.http_client import Route

    place = Home(home)
    route = Route(url, ca, certificate, certificate_key, proxy, unencrypted=unencrypted)
    manifest, name, folder = _join(
        place, data, route, server_key, csv, yes, seeded, convert, helper
    )
    words = place.account(data).spent_words()
    if json:
        print_json(
            {"study": manifest.digest.hex(), "title": manifest.title, "client": name}
            | {"folder": str(folder), "spent": words, "private": manifest.private}
        )
        return
    say(f"joined {manifest.title} as {name}; {words} is spent")
    several = len(list(place.joined(data))) > 1
    which = f" --study {folder.name}" if several else ""
    say(f"go on with: hedgerow client run --data {data}{which}")


def changes_of_route(
    url: str | None,
    ca: Path | None,
    certificate: Path | None,
    key: Path | None,
    proxy: str | None,
    unencrypted: bool,
) -> dict[str, Any]:
    """What options say about the way to the server, by the names of `Route`."""
    given = {"url": url, "ca": ca, "certificate": certificate, "key": key, "proxy": proxy}
    given |= {"unencrypted": unencrypted or None}
    return {name: value for name, value in given.items() if value is not None}


def _join(
    place: Home,
    data: str,
    route: Route,
    server_key: str,
    csv: Path | None,
    yes: bool,
    seeded: bool = False,
    convert: bool = False,
    helper: list[Path] | None = None,
) -> tuple[Manifest, str, Path]:
    """Join a study; return its manifest, the client's name in it, and the folder of its ledger."""
    from hedgerow.core.errors import Interrupted
    from hedgerow.deployment.client import StudyClient
    from hedgerow.deployment.helper_ledger import HelperKeys
    from hedgerow.deployment.home import keep_route
    from hedgerow.deployment.http_client import HttpLink

    account = place.account(data)

    def agree(manifest: Manifest, algorithm: Algorithm, cost: Guarantee | None) -> bool:
        if csv is not None:
            from hedgerow.deployment.own_file import OwnFile

            for note in OwnFile(csv, manifest).notes:
                aside(f"note: {note}")
        for line in manifest.words():
            aside(line)
        aside(f"server key {manifest.server}")
        if not (route.secure or route.local):
            aside("not encrypted: everyone on the way to the server sees what the server sees")
        aside(f"this data set: {account.spent_words()} is spent, for {account.unit.words()}")
        aside(
            "nothing is charged"
            if cost is None
            else f"joining charges {cost.curve.words()} for {cost.unit.words()}"
        )
        return agreed(yes, *([TRUST] if manifest.trusts_server else []), "Join?")

    before = account.spent_words()
    try:
        with closing(HttpLink(route, PATIENCE)) as link:
            study = StudyClient.join(
                account,
                link,
                server_key=server_key,
                agree=agree,
                seeded=seeded,
                convert=convert,
                helpers=[HelperKeys.read(file) for file in helper or ()],
            )
            with closing(study):
                keep_route(study.folder, route)
                study.advance()  # the server gets the signature
                return study.manifest, study.name, study.folder
    except (KeyboardInterrupt, typer.Abort) as stop:
        words = account.spent_words()
        if words == before:
            raise Interrupted("Interrupted. Nothing was charged.") from stop
        raise Interrupted(
            f"Interrupted, but charged: {words} is spent. Join again to go on, at no further cost."
        ) from stop


def agreed(yes: bool, *questions: str) -> bool:
    """Whether a person says yes to each question; with `yes` nobody is asked."""
    from hedgerow.core.errors import InvalidValue

    if not (yes or sys.stdin.isatty()):
        raise InvalidValue(
            "Cannot ask, because standard input is not a terminal. Read the lines above, then "
            "join with --yes."
        )
    return yes or all(typer.confirm(question, err=True) for question in questions)


def run(
    data: Chosen = None,
    study: Study = "",
    csv: Csv = None,
    server_key: Annotated[
        str | None,
        typer.Option(
            "--server-key", metavar="HEX", help="Join the study at --url first, if none is joined."
        ),
    ] = None,
    helper: Helper = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --server-key: do not ask.")] = False,
    every: Annotated[
        float | None,
        typer.Option(
            "--every",
            metavar="SECONDS",
            help="With --csv: seconds until it is read again, to the end.",
        ),
    ] = None,
    through: Annotated[
        str | None,
        typer.Option(
            "--through",
            metavar="ROUND",
            help="With --csv whose rows name persons: the last round that is over.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            envvar="HEDGEROW_CLIENT_PORT",
            help="Listen on this local port instead of reading lines. 0: any free one.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", envvar="HEDGEROW_CLIENT_URL", help="Another address of the same server."
        ),
    ] = None,
    ca: Ca = None,
    certificate: Certificate = None,
    certificate_key: CertificateKey = None,
    proxy: Proxy = None,
    unencrypted: Unencrypted = False,
    log: Annotated[
        str,
        typer.Option(
            "--log",
            envvar="HEDGEROW_CLIENT_LOG",
            help="Least severe messages that are printed: debug, info, warning or error.",
        ),
    ] = "info",
    home: HomeFolder = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Play a study that was joined, from a file or for an application on this machine.

    Example: hedgerow client run --data ward-3 --csv ward-3.csv

    The application writes JSON lines to standard input and reads one line of reply for each:

    {"do": "predict"} gives {"round": 0, "play": 3, "over": false}.
    {"do": "observe", "round": 0, "losses": [0.1, 0.7]} gives {"round": 1, "over": false}; instead
    of losses, "absent": true if the study allows it. {"do": "status"} gives the progress, without
    losses. A wrong request gives {"error": "..."} and changes nothing.

    With --csv no application is needed: rounds are played from a file, and lines of CSV say which
    expert to follow in each round, or the combined forecast. At the end of the file it prints what
    to follow next and stops; start it again when there are new rows, or use --every.

    With --port the same requests are GET /predict, POST /observe and GET /status, with the header
    "Authorization: Bearer TOKEN", and / is the client's own page. The token is in the printed file,
    or in the variable HEDGEROW_CLIENT_TOKEN: every user of this machine can reach the port. After a
    crash, start the command again and continue with the round that it names: nothing is released
    twice, and losses that are sent twice are counted once. Exit code 70 means that the disk failed.
    """
    apply_options(plugin)
    from dataclasses import replace

    from hedgerow.core.errors import Interrupted, InvalidValue
    from hedgerow.deployment.application import (
        TOKEN,
        Application,
        Port,
        answer_lines,
        kept_token,
    )
    from hedgerow.deployment.database import FATAL, LedgerFailed
    from hedgerow.deployment.home import Home
    from hedgerow.deployment.http_client import Route
    from hedgerow.deployment.logs import start_logs
    from hedgerow.deployment.metrics import MEDIA, of_client
    from hedgerow.deployment.pages.own import client_pages

    place = Home(home)
    changed = changes_of_route(url, ca, certificate, certificate_key, proxy, unencrypted)
    if server_key is not None and not list(place.joined(data, study)):
        if data is None or url is None:
            raise InvalidValue("To join a study first, give --data and --url with --server-key.")
        _join(place, data, Route(**changed), server_key, csv, yes, helper=helper)
    found = place.one(data, study)
    start_logs(log)
    try:
        learner = place.open(found, replace(found.route(), **changed))
    except LedgerFailed as error:
        aside(f"Error: {error}")
        return FATAL
    except KeyboardInterrupt as stop:
        raise Interrupted("Stopped before the first request. Start again to go on.") from stop
    try:
        if csv is not None:
            _play(learner, csv, every, through)
        elif port is None:
            answer_lines(Application(learner), sys.stdin, sys.stdout)
        else:
            chosen = os.environ.get("HEDGEROW_CLIENT_TOKEN")
            local = Port(Application(learner), port, token=chosen or kept_token(found.folder))
            local.pages |= client_pages(learner.client)
            local.pages["/metrics"] = lambda: (MEDIA, (of_client(learner) + "\n").encode())
            aside(f"listening on http://127.0.0.1:{local.server_port}")
            if not chosen:
                aside(f"token in {found.folder / TOKEN}")
            if sys.stderr.isatty():
                aside(f"page {local.page}")
            local.serve()
    except LedgerFailed as error:
        aside(f"Error: {error}")
        return FATAL
    except KeyboardInterrupt:
        ERR.print(f"Stopped before round {learner.round}. Start again to go on.")
    finally:
        learner.close()
    return 0


def ledger(
    name: Annotated[str | None, typer.Argument(help="The data set. Default: all.")] = None,
    export: Annotated[
        bool,
        typer.Option("--export", help="Print the log as JSON lines, for `client verify`."),
    ] = False,
    home: HomeFolder = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what was spent on a data set, and by which study.

    Example: hedgerow client ledger ward-3

    `--export` prints the log of one account. The hash of each entry covers all entries before it,
    so no entry can be removed or changed unnoticed.
    """
    from hedgerow.core.errors import InvalidValue
    from hedgerow.deployment.home import Home

    place = Home(home)
    names = place.accounts() if name is None else [name]
    accounts = [place.account(one) for one in names]
    if export:
        if len(accounts) != 1:
            raise InvalidValue("Name one data set to export its log.")
        for line in accounts[0].export():
            sys.stdout.write(line + "\n")
        return
    if json:
        print_json({"accounts": [_document(account) for account in accounts]})
        return
    if not accounts:
        say(f"no accounts in {place.folder}; make one with `hedgerow client init`")
    for account in accounts:
        say(f"{account.name}: {account.spent_words()} is spent, for {account.unit.words()}")
        for charge in account.charges():
            say(f"  {charge.time}  {charge.study.hex()[:16]}  {charge.title}: {charge.words}")


def verify(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LOG|NAME]",
            help="A log that `client ledger --export` wrote, or a data set. Default: all ledgers.",
        ),
    ] = None,
    home: HomeFolder = None,
    json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Check the hashes of a log, or of all accounts and ledgers on this machine.

    Example: hedgerow client verify

    Every hash is computed again, and the tables are compared with the log. Compare the printed
    heads with heads that you wrote down earlier or that the server shows: a log that was replaced
    as a whole has another head. Stop `client run` first: a ledger in use cannot be checked. Exit
    code 1: something was changed, or could not be checked.
    """
    apply_options(plugin)
    from hedgerow.core.errors import HedgerowError, InvalidValue
    from hedgerow.deployment.chain import check_lines
    from hedgerow.deployment.home import Home

    rows: list[dict[str, Any]] = []

    def check(what: str, work: Any) -> None:
        try:
            rows.append({"ledger": what, "ok": True, "head": work().hex(), "text": "ok"})
        except HedgerowError as error:
            rows.append({"ledger": what, "ok": False, "head": None, "text": str(error)})

    place = Home(home)
    only = str(log) if log is not None and str(log) in place.accounts() else None
    if log is not None and only is None:
        try:
            lines = log.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidValue(
                f"{log} is neither a log that can be read nor a data set here "
                "(`hedgerow client ledger`)."
            ) from error
        check(str(log), lambda: check_lines(iter(lines)))
    else:
        for name in place.accounts() if only is None else [only]:
            check(f"account of {name}", lambda name=name: place.account(name).check())
        for one in place.ledgers(only):
            check(f"study {one.study} of {one.data}", lambda one=one: _checked(one))
    if json:
        print_json({"ledgers": rows})
    else:
        for row in rows:
            head = f", head {row['head']}" if row["ok"] else ""
            say(f"{row['ledger']}: {row['text']}{head}")
    return 0 if all(row["ok"] for row in rows) else 1


def _checked(joined: Joined) -> bytes:
    """The head of the ledger of a study, which must not be in use."""
    from hedgerow.deployment.client_ledger import ClientLedger

    study = ClientLedger(joined.folder)
    try:
        return study.check()
    finally:
        study.close()


def _document(account: Account) -> dict[str, Any]:
    return {
        "data": account.name,
        "budget": account.budget,
        "unit": account.unit.words(),
        "spent": account.spent_words(),
        "public_key": account.public_key,
        "studies": [
            {
                "study": charge.study.hex(),
                "title": charge.title,
                "cost": charge.words,
                "time": charge.time,
            }
            for charge in account.charges()
        ],
    }


def _play(learner: ClientLearner, csv: Path, every: float | None, through: str | None) -> None:
    """Play the rounds of a file, and print what to follow in each."""
    from hedgerow.deployment.own_file import OwnFile, play_file

    file = OwnFile(csv, learner.client.manifest, through)
    for note in file.notes:
        aside(f"note: {note}")
    if play_file(learner, file, _print_now, every):
        aside("the study is over: its last round was played")
    else:
        awaited = file.form.name_of(learner.round)
        aside(f"no more rows; run this again when the row of {awaited} is complete")


def _print_now(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


CLIENT = {
    "": client,
    "init": init,
    "join": join,
    "run": run,
    "ledger": ledger,
    "verify": verify,
}
