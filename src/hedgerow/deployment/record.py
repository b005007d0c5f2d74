"""The privacy record of a deployment, from the manifest and the ledger of its server or a client.

Everything is checked first: signatures, the certificate (built again from the choices), the hashes
of every log, and the sum of the account. A ledger with a difference is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hedgerow.core.environment import Feature
from hedgerow.core.errors import InvalidValue
from hedgerow.deployment import account as accounts
from hedgerow.deployment import client_ledger as clients
from hedgerow.deployment import server_ledger as servers
from hedgerow.deployment.account import Account
from hedgerow.deployment.anchor import Anchor, beside
from hedgerow.deployment.chain import Chain
from hedgerow.deployment.client_ledger import ClientLedger
from hedgerow.deployment.closing import rule_of
from hedgerow.deployment.manifest import SEALED, Manifest, promised, spec_of
from hedgerow.deployment.server_ledger import ServerLedger
from hedgerow.privacy.secure import SecureNoise
from hedgerow.records.build import algorithm_record, choices_of, curve_record
from hedgerow.records.provenance import (
    code_provenance,
    library_versions,
    secure_noise,
    seeded_noise,
)
from hedgerow.records.schema import (
    FORMAT,
    STAMP,
    AccountRecord,
    ChargeRecord,
    LedgerRecord,
    RunRecord,
    SharedRecord,
)

SERVER = "server"


@dataclass(frozen=True)
class Deployed:
    """A deployment for a statement: the record of its certificate, and of its ledger."""

    record: RunRecord
    ledger: LedgerRecord


def is_deployment(folder: Path) -> bool:
    """Whether a folder holds the ledger of a server or a client, or the account of a data set."""
    return any((folder / name).is_file() for name in (servers.FILE, clients.FILE, accounts.FILE))


def party_key(folder: Path) -> Path:
    """The file with the private key of the party whose ledger is in a folder."""
    if (folder / servers.FILE).is_file():
        return folder / servers.KEY
    return folder.absolute().parent.parent / accounts.KEY


def read_deployment(folder: str | Path, stated: LedgerRecord | None = None) -> Deployed:
    """Check the ledger in a folder and return its records.

    Parameters
    ----------
    folder
        The folder of a study server (`server.db`), or that of a study at a client (`study.db`)
        inside the folder of its data set. Nobody else may have the ledger open.
    stated
        What a statement says about the ledger. It must have been true when the log had as many
        entries as the statement says; otherwise this raises.

    Examples
    --------
    >>> import tempfile
    >>> from hedgerow.deployment.simulated import small_study
    >>> study = small_study(tempfile.mkdtemp(), clients=2, experts=3, horizon=4, seed=None)
    >>> int(study.learner(0).predict()) in range(3)  # only this client has joined
    True
    >>> study.close()
    >>> read_deployment(study.place("server")).ledger.unsigned
    ['client-001']
    """
    place = Path(folder)
    if (place / servers.FILE).is_file():
        return _of_server(place, stated)
    if (place / clients.FILE).is_file():
        return _of_client(place, stated)
    inside = sorted(str(file.parent) for file in place.glob(f"studies/*/{clients.FILE}"))
    hint = f"Choose one of its studies: {', '.join(inside)}." if inside else "Join a study first."
    raise InvalidValue(f"{place} is the folder of a data set. {hint}")


def _of_server(place: Path, stated: LedgerRecord | None) -> Deployed:
    server = ServerLedger(place)
    try:
        head, manifest = server.check(), server.manifest
        if server.old:
            raise InvalidValue(
                f"The ledger in {place} is an old copy: a client has shown a later answer. Write "
                "the statement from the latest ledger."
            )
        _check_begin(server.chain, "manifest", manifest, place)
        if rule_of(manifest.closing).may_close:
            server.anchored_at(Anchor(beside(place), manifest.digest))
        signed = {SERVER: manifest.server}
        keys = dict(zip(manifest.clients, server.roster.keys, strict=True))
        signed |= {name: keys[name] for name in server.signatures()}
        ledger = LedgerRecord(
            study=manifest.digest.hex(),
            party=None,
            closing=manifest.closing,
            signed=signed,
            unsigned=[name for name, key in keys.items() if key and name not in signed],
            refused=[manifest.clients[client] for client in sorted(server.forked)],
            vouched=server.vouched(),
            exchanges=server.exchange,
            entries=server.chain.count,
            head=head.hex(),
            account=None,
            sealed=manifest.protocol >= SEALED,
            tls=None,
            shared=_shared(manifest, server.damaged()),
            roster=server.roster.words(),
        )
        _check_stated(ledger, stated, server.chain)
        return Deployed(_record(place, manifest, server.round), ledger)
    finally:
        server.close()


def _of_client(place: Path, stated: LedgerRecord | None) -> Deployed:
    client = ClientLedger(place)
    account = client.account
    try:
        head, manifest = client.check(), client.manifest
        played, exchange = client.place()
        _check_begin(client.chain, "join", manifest, place)
        ledger = LedgerRecord(
            study=manifest.digest.hex(),
            party=client.name,
            closing=manifest.closing,
            signed={SERVER: manifest.server, client.name: account.public_key},
            unsigned=[n for n, key in manifest.roster.items() if key and n != client.name],
            refused=[],
            vouched=[],
            exchanges=max(0, exchange),
            entries=client.chain.count,
            head=head.hex(),
            account=account_record(account),
            sealed=manifest.protocol >= SEALED,
            tls=_tls(place),
            shared=_shared(manifest, None),
            roster=client.roster.words(),
        )
        _check_stated(ledger, stated, client.chain, account)
        return Deployed(_record(place, manifest, played), ledger)
    finally:
        client.close()


def _shared(manifest: Manifest, damaged: dict[int, list[str]] | None) -> SharedRecord | None:
    """Who opens the sums of a study; None if nobody needs to."""
    if not manifest.helpers:
        return None
    shown = None if damaged is None else {str(k): names for k, names in damaged.items()}
    sizes = manifest.colluding, len(manifest.roster), manifest.least
    return SharedRecord(list(manifest.helper_names), *sizes, shown)


def _check_begin(chain: Chain, kind: str, manifest: Manifest, place: Path) -> None:
    """Refuse a log that does not begin with this study."""
    first = next(chain.entries(), None)
    if first is None or first.kind != kind or first.body[:32] != manifest.digest:
        raise InvalidValue(f"The log in {place} does not begin with the study {manifest.title!r}.")


def _check_stated(
    now: LedgerRecord, then: LedgerRecord | None, chain: Chain, account: Account | None = None
) -> None:
    """Raise unless the ledger was as stated when its log had as many entries."""
    if then is None:
        return
    same = ("study", "party", "closing", "sealed")
    grown = all(getattr(now, name) == getattr(then, name) for name in same)
    grown &= then.signed.items() <= now.signed.items() and set(then.unsigned) >= set(now.unsigned)
    grown &= set(then.refused) <= set(now.refused) and set(then.vouched) <= set(now.vouched)
    grown &= then.exchanges <= now.exchanges and set(then.roster) <= set(now.roster)
    head = chain.head_at(then.entries)
    known = grown and head is not None and head.hex() == then.head
    if then.entries == now.entries:
        known = known and replace(then, account=None, tls=now.tls) == replace(now, account=None)
    if account is not None and known:
        known = then.account is not None and _was(account, then.account, now.account)
    if not known:
        raise InvalidValue("What it says about the ledger was never true of this one.")


def _was(account: Account, then: AccountRecord, now: AccountRecord | None) -> bool:
    """Whether an account was as stated; the sums of one that has grown are not compared."""
    assert now is not None
    if then.entries == now.entries:
        return then == now
    fixed = (then.data, then.budget, then.unit) == (now.data, now.budget, now.unit)
    log = account.export()[: then.entries]
    ends = len(log) == then.entries > 0 and json.loads(log[-1])["hash"] == then.head
    return fixed and ends and then.charges == now.charges[: len(then.charges)]


def account_record(account: Account) -> AccountRecord:
    """The checked account of a data set."""
    head = account.check()
    return AccountRecord(
        data=account.name,
        budget=account.budget,
        unit=account.unit.words(),
        spent=account.spent_words(),
        total=curve_record(account.filter.spent) if account.charges() else None,
        charges=[
            ChargeRecord(charge.study.hex(), charge.title, charge.words, charge.time)
            for charge in account.charges()
        ],
        entries=len(account.export()),
        head=head.hex(),
    )


def _tls(place: Path) -> bool | None:
    """Whether the client of a study reaches its server by TLS, by its kept route."""
    try:
        return (
            str(json.loads((place / clients.ROUTE).read_text(encoding="utf-8"))["url"])[:8]
            == "https://"
        )
    except (OSError, ValueError, KeyError):
        return None


def _record(place: Path, manifest: Manifest, played: int) -> RunRecord:
    name, algorithm = manifest.algorithm, promised(manifest)
    gaps = {"absent": True} if Feature.ABSENT_CLIENTS in manifest.plays else {}
    choices = {"name": name, **choices_of(spec_of(manifest)), **gaps}
    return RunRecord(
        format=FORMAT,
        title=manifest.title,
        run=str(place),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        played=played,
        stamp=None if manifest.private else STAMP,
        noise=secure_noise(SecureNoise())
        if manifest.seed is None
        else seeded_noise(manifest.seed, 1),
        code=code_provenance(),
        versions=library_versions(),
        algorithms=[algorithm_record(name, algorithm, choices, "real")],
    )
