"""What a statement says about the ledger of a deployment: who signed, what was spent, the log."""

from __future__ import annotations

from dataclasses import dataclass, field

from hedgerow.records.schema import CurveRecord


@dataclass(frozen=True)
class ChargeRecord:
    """What one study has cost a data set, and when it was joined."""

    study: str
    title: str
    words: str
    time: str


@dataclass(frozen=True)
class AccountRecord:
    """The account of a data set.

    Parameters
    ----------
    data
        The data set.
    budget
        What all studies together may spend; decimals.
    unit
        What the budget is for, in words; every study protects it, or more.
    spent
        What they have spent, in words.
    total
        What all of it guarantees together; None if nothing was charged.
    charges
        By which studies, in order.
    entries, head
        The length of the account's log, and the hash that covers all of it.
    """

    data: str
    budget: dict[str, str]
    unit: str
    spent: str
    total: CurveRecord | None
    charges: list[ChargeRecord]
    entries: int
    head: str


@dataclass(frozen=True)
class SharedRecord:
    """Who opens the sums of a study whose server sees nothing else.

    Parameters
    ----------
    helpers
        The names of the helpers.
    colluding
        How many clients may work with the server.
    clients
        How many clients there are.
    least
        How many of them every sum counts at least.
    damaged
        The clients whose seals a helper could not open, by exchange; None where it is not known.
    """

    helpers: list[str]
    colluding: int
    clients: int
    least: int
    damaged: dict[str, list[str]] | None


@dataclass(frozen=True)
class LedgerRecord:
    """The checked ledger of one party of a study.

    Parameters
    ----------
    study
        The digest of the manifest, which names the study.
    party
        The name of the client; None: the server.
    closing
        What happens if a client is silent.
    signed
        The public key of each party whose signature under the manifest was checked here. A client
        has its own key and the server's signature; the server has all signatures.
    unsigned
        The other clients of the study.
    refused
        Clients that signed two messages for one release.
    vouched
        After which exchanges the operator vouched that the server's ledger was the latest, since
        nothing else proved it.
    exchanges
        The exchanges that are complete.
    entries, head
        The length of the log, and the hash that covers all of it.
    account
        The account of the data set; None at the server, which has none.
    sealed
        Whether uploads are sealed to the server's key.
    tls
        Whether this client reaches the server by TLS; None if the ledger does not say.
    shared
        Who opens sums; None if the server sees every upload.
    roster
        Which seats were given or emptied since the manifest was signed; a client knows its own.
    """

    study: str
    party: str | None
    closing: str
    signed: dict[str, str]
    unsigned: list[str]
    refused: list[str]
    vouched: list[int]
    exchanges: int
    entries: int
    head: str
    account: AccountRecord | None
    sealed: bool
    tls: bool | None
    shared: SharedRecord | None = None
    roster: list[str] = field(default_factory=list[str])
